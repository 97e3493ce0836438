"""Functions, sources and sinks created and updated: their config is checked, their code stored, then workers asked."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from mmap import mmap
from typing import NamedTuple

from engine.base.errors import (
    AlreadyExists,
    Conflict,
    InvalidField,
    InvalidNameError,
    InvalidRequest,
    MagnetarError,
    NotFound,
)
from engine.base.names import NamespaceName
from engine.functions.definitions import function_config
from engine.functions.definitions.config_fields import JsonConfig
from engine.functions.definitions.configs import Kind, config_of, details_of, merged
from engine.functions.definitions.functions_pb2 import FunctionDetails, FunctionMetaData
from engine.functions.definitions.records import FunctionName, encode
from engine.functions.packages.package_client import PackageClient
from engine.functions.packages.package_files import UPLOADED_WITH, UploadedPackages
from engine.functions.ports import FunctionService, OnFunction
from engine.functions.registered_workers import registered_workers
from engine.functions.worker_operations import NO_WORKER
from engine.packages.package_name import PACKAGE_KINDS, PackageName
from engine.packages.package_operations import PackageDescription, Via
from engine.tenancy.namespaces import get_policies
from engine.tenancy.tenants import get_tenant
from gateway.services.engine_link import Engine
from gateway.services.functions import built_in_connectors
from gateway.services.functions.package_urls import NOT_VALID, file_name_of

log = logging.getLogger(__name__)

FILE_ENDINGS = (".py", ".whl", ".zip")
FILE_NAME_CHARACTERS_MAX = 255
VERSION_ATTEMPTS = 3
BUILTIN = "builtin://"
PACKAGE_URLS = tuple(f"{kind}://" for kind in PACKAGE_KINDS)


class CodeGiven(NamedTuple):
    """Code as it was given: a file, or a URL of it. Without both a built-in connector is meant, or the same code."""

    content: bytes | memoryview = b""
    file_name: str = ""
    url: str = ""

    @property
    def is_file(self) -> bool:
        return len(self.content) > 0


class PackageLimits(NamedTuple):
    """``bytes_max``: of a package. ``fetch(url)`` returns the content at a permitted URL, and blocks."""

    bytes_max: int
    fetch: Callable[[str], bytes | mmap]


class Deployment(NamedTuple):
    """A function, source or sink to deploy."""

    engine: Engine
    function: OnFunction
    config: JsonConfig
    """The known fields of the given config."""
    code: CodeGiven
    limits: PackageLimits

    @property
    def kind(self) -> Kind:
        return self.function.component

    @property
    def noun(self) -> str:
        return self.kind.capitalize()

    @property
    def service(self) -> FunctionService:
        return self.engine.functions

    @property
    def full_name(self) -> FunctionName:
        namespace = self.function.namespace
        return FunctionName(namespace.tenant, namespace.local, self.function.name)

    @property
    def named_config(self) -> JsonConfig:
        """The config with the names of the path."""
        tenant, namespace, name = self.full_name
        return self.config | {"tenant": tenant, "namespace": namespace, "name": name}


class RehearsedDeployment(NamedTuple):
    """The outcome of a deployment for a function, source or sink, with secrets hidden. ``before`` None: create it."""

    before: JsonConfig | None
    after: JsonConfig
    version: int
    """The stored version; -1 before the first."""


async def rehearse(deployment: Deployment) -> RehearsedDeployment:
    """Check a deployment as ``create`` or ``update`` does, and store nothing. Raises InvalidRequest, Refusals."""
    kind = deployment.kind
    metadata, details = await _checked(deployment, _code(deployment))
    if metadata is None:
        return RehearsedDeployment(None, shown_config(kind, details), -1)
    before = shown_config(kind, metadata.functionDetails)
    return RehearsedDeployment(before, shown_config(kind, details), metadata.version)


async def planned(deployment: Deployment) -> tuple[FunctionDetails, CodeGiven]:
    """Return the record of a deployment as it would be stored, and where its code is. Raises InvalidRequest, Refusals.

    An update without code of its own has the code that is stored.
    """
    code = await _located(deployment, _code(deployment))
    metadata, details = await _checked(deployment, code)
    if metadata is not None and not code.is_file and not code.url:
        file_name = metadata.packageLocation.originalFileName
        code = CodeGiven(url=str(package_of(metadata)), file_name=file_name)
    return details, code


async def _checked(
    deployment: Deployment, code: CodeGiven
) -> tuple[FunctionMetaData | None, FunctionDetails]:
    """Return the stored record, None before the first, and the record as it would be stored. Raises InvalidRequest,
    Refusals."""
    try:
        metadata: FunctionMetaData = await deployment.service.metadata(deployment.function)
    except NotFound:
        await _check_namespace(deployment)
        _check_given(deployment, code, f"{deployment.noun} Package is not provided")
        return None, _details(deployment, deployment.named_config, code)
    return metadata, _details(deployment, _updated(deployment, metadata.functionDetails), code)


def _updated(deployment: Deployment, stored: FunctionDetails) -> JsonConfig:
    """Return the stored config with the fields that an update gives."""
    kind, before = deployment.kind, config_of(stored)
    given = built_in_connectors.with_stored_secrets(kind, stored, before, deployment.config)
    return merged(kind, before, given)


def shown_config(kind: Kind, details: FunctionDetails) -> JsonConfig:
    """Return the config of a stored record as it is shown, with secrets hidden."""
    return built_in_connectors.with_hidden_secrets(kind, details, config_of(details))


async def _check_namespace(deployment: Deployment) -> None:
    """Raise InvalidRequest with Apache's text where the namespace or its tenant does not exist."""
    engine, namespace = deployment.engine, deployment.function.namespace
    try:
        await get_tenant(engine.store, namespace.tenant)
        await get_policies(engine.store, namespace)
    except NotFound as error:
        raise InvalidRequest(error.reason) from error


async def create(deployment: Deployment) -> None:
    """Create a function, source or sink. Raises InvalidRequest with Apache's texts, Refusals."""
    function = deployment.function
    await _check_namespace(deployment)
    if function.name in await deployment.service.names(function):
        raise InvalidRequest(_exists(deployment))
    code = await _located(deployment, _code(deployment))
    if deployment.kind != "function":
        _check_given(deployment, code, f"{deployment.noun} package is not provided")
    details = _details(deployment, deployment.named_config, code)
    _check_given(deployment, code, f"{deployment.noun} Package is not provided")
    package = await _stored(deployment, details, code)
    try:
        await deployment.service.create(function, details, package.url, package.file_name)
    except BaseException as error:
        await _drop(deployment, package)
        if isinstance(error, AlreadyExists):
            raise InvalidRequest(_exists(deployment)) from error
        raise


async def update(deployment: Deployment, *, anyway: bool = False) -> None:
    """Update a function, source or sink. ``anyway``: also without a change, which restarts it.

    Raises InvalidRequest with Apache's texts, Refusals.
    """
    try:
        metadata: FunctionMetaData = await deployment.service.metadata(deployment.function)
    except NotFound as error:
        raise InvalidRequest(error.reason) from error
    stored = metadata.functionDetails
    config = _updated(deployment, stored)
    code = await _located(deployment, _code(deployment))
    details = _details(deployment, config, code)
    details.packageUrl = stored.packageUrl
    is_new = code.is_file or bool(code.url)
    if not (is_new or anyway) and encode(details) == encode(stored):
        raise InvalidRequest("Update contains no change")
    package = await _stored(deployment, details, code) if is_new else _Package()
    try:
        await deployment.service.update(
            deployment.function,
            details,
            package.url,
            package.file_name,
            expected_version=metadata.version,
        )
    except BaseException:
        await _drop(deployment, package)
        raise
    if package.url:
        try:
            uploads = UploadedPackages(_packages(deployment))
            await uploads.remove(deployment.kind, deployment.full_name, but=package.url)
        except MagnetarError as error:  # they go with the function
            log.warning("former packages of %s remain: %s", deployment.full_name, error)


class _Package(NamedTuple):
    """The place of a function's code, and the name of its file. ``stored``: it was stored for this deployment."""

    url: str = ""
    file_name: str = ""
    stored: PackageName | None = None


def _exists(deployment: Deployment) -> str:
    return f"{deployment.noun} {deployment.function.name} already exists"


def _code(deployment: Deployment) -> CodeGiven:
    """Return the code that a deployment names, by a field of the config when it has no other. Raises InvalidRequest."""
    code, limits = deployment.code, deployment.limits
    if code.is_file and code.url:
        raise InvalidRequest("data: must not be given together with a url")
    if len(code.content) > limits.bytes_max:
        raise InvalidField(
            "data", f"must have at most {limits.bytes_max} bytes (package_bytes_max)"
        )
    if code.is_file or code.url:
        return code._replace(file_name=_file_name(code.file_name))
    fields = ("functionType", "py", "jar", "go") if deployment.kind == "function" else ()
    for field in (*fields, f"{deployment.kind}Type", "archive"):
        value = deployment.config.get(field, "")
        if "://" in value:  # a name of a file without a scheme is of the client's machine
            return CodeGiven(url=value)
    return code


def _file_name(given: str) -> str:
    """Return the last part of a file's name. Raises InvalidField."""
    name = given.replace("\\", "/").rpartition("/")[2]
    if name in (".", "..") or len(name) > FILE_NAME_CHARACTERS_MAX or not name.isprintable():
        limit = f"1 to {FILE_NAME_CHARACTERS_MAX} printable characters"
        raise InvalidField("data", f"must be a file whose name has {limit}")
    return name


def _check_given(deployment: Deployment, code: CodeGiven, refusal: str) -> None:
    if not code.is_file and not code.url:
        raise InvalidRequest(refusal)


def _details(deployment: Deployment, config: JsonConfig, code: CodeGiven) -> FunctionDetails:
    """Return the record of a config. Raises InvalidRequest."""
    kind, name = deployment.kind, deployment.function.name
    file_name = code.file_name or file_name_of(code.url)
    if kind == "function" and "runtime" not in config and (file_name or code.is_file):
        config = config | {"runtime": function_config.runtime_of(config, file_name)}
    details = details_of(kind, config, file_name)
    if code.url.startswith(BUILTIN):
        details.builtin = code.url.removeprefix(BUILTIN)
    end = details.source if kind == "source" else details.sink
    if kind != "function":
        end.builtin = details.builtin
        if not details.builtin and not end.className:
            raise InvalidRequest(f"{deployment.noun} class name is not provided")
    runtime = FunctionDetails.Runtime.Name(details.runtime)
    if runtime != "PYTHON":
        reason = f"the runtime {runtime} is not offered; PYTHON is"
        raise InvalidRequest(f"{deployment.noun} {name} cannot be admitted:- {reason}")
    built_in_connectors.check(kind, details, config)
    return details


def _packages(deployment: Deployment) -> PackageClient:
    engine = deployment.engine
    via: Via = f"{deployment.kind}s"  # type: ignore[assignment]
    return PackageClient(engine.admin, principal=engine.principal, via=via)


async def _stored(deployment: Deployment, details: FunctionDetails, code: CodeGiven) -> _Package:
    """Store the code where it is not stored yet, and return its place. Raises InvalidRequest, Refusals."""
    if details.builtin:
        return _Package(f"{BUILTIN}{details.builtin}")
    content, file_name = code.content, code.file_name
    if code.url:
        if code.url.startswith(PACKAGE_URLS):
            return _Package(code.url, code.file_name)
        if not code.url.startswith(("http://", "https://")):
            raise InvalidRequest(NOT_VALID)
        content = memoryview(await asyncio.to_thread(deployment.limits.fetch, code.url))
        file_name = _file_name(file_name_of(code.url))
        _check_given(deployment, CodeGiven(content), f"{deployment.noun} Package is not provided")
    if not file_name:
        file_name = f"{_class_of(details).partition('.')[0]}.py"
    if not file_name.lower().endswith(FILE_ENDINGS):
        raise InvalidField("data", f"must be a file {', '.join(FILE_ENDINGS)}, not {file_name!r}")
    return await _upload(deployment, content, file_name)


def _class_of(details: FunctionDetails) -> str:
    return details.className or details.source.className or details.sink.className


async def _upload(deployment: Deployment, content: bytes | memoryview, file_name: str) -> _Package:
    """Store a file as the next version of the package of the function's name."""
    packages = _packages(deployment)
    marked = PackageDescription(properties={UPLOADED_WITH: str(deployment.full_name)})
    for attempt in range(VERSION_ATTEMPTS):
        name = await UploadedPackages(packages).next_version(deployment.kind, deployment.full_name)
        try:
            await packages.store(name, content, file_name, marked)
        except AlreadyExists:  # another upload took the version
            if attempt + 1 == VERSION_ATTEMPTS:
                raise
            continue
        return _Package(str(name), file_name, name)
    raise AssertionError("the last attempt returns or raises")


async def _located(deployment: Deployment, code: CodeGiven) -> CodeGiven:
    """Return the code with the version that the URL of a stored package names now, and the name of its file.

    The package of another namespace, or of another kind, needs the right to packages. Raises InvalidRequest, Forbidden.
    """
    if not code.url.startswith(PACKAGE_URLS):
        return code
    try:
        name = PackageName.parse(code.url)
    except InvalidNameError as error:
        raise InvalidRequest(str(error)) from error
    is_own = (name.kind, name.namespace) == (deployment.kind, deployment.function.namespace)
    engine = deployment.engine
    client = (
        _packages(deployment) if is_own else PackageClient(engine.admin, principal=engine.principal)
    )
    try:
        described = await client.metadata(name)
    except NotFound as error:
        raise InvalidRequest(error.reason) from error
    resolved = name._replace(version=described["version"])
    return CodeGiven(url=str(resolved), file_name=described.get("fileName") or "")


async def _drop(deployment: Deployment, package: _Package) -> None:
    """Delete the package of a deployment that failed. One that remains is deleted with the function's next one."""
    if package.stored is not None:
        with suppress(MagnetarError):
            await _packages(deployment).delete(package.stored)


async def require_workers(engine: Engine) -> None:
    """Raise Conflict where no worker is registered: functions are off then."""
    if engine.workers is None or not await registered_workers(engine.store):
        raise Conflict(NO_WORKER)


def package_of(metadata: FunctionMetaData, *, transform: bool = False) -> PackageName:
    """Return the package of a function's code. Raises NotFound for code that is built in."""
    place = metadata.transformFunctionPackageLocation if transform else metadata.packageLocation
    try:
        return PackageName.parse(place.packagePath)
    except InvalidNameError as error:
        raise NotFound(f"{place.packagePath or 'The function'} has no package") from error


def namespace_of(tenant: str, namespace: str) -> NamespaceName:
    """Return the namespace that a path names. Raises InvalidRequest."""
    try:
        return NamespaceName.parse(f"{tenant}/{namespace}")
    except InvalidNameError as error:
        raise InvalidRequest(str(error)) from error
