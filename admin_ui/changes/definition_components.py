"""Functions, sources and sinks in a file of definitions: their form, and how they are created and updated.

The code is that of a package by its URL, or built in. Code that was uploaded with a function is not in the file: such a
function keeps its code, and is not created from the file.
"""

from typing import Any

from admin_ui.confirming import Json
from engine.base.errors import (
    Conflict,
    InvalidField,
    InvalidNameError,
    NotFound,
    Refusal,
    Unprocessable,
)
from engine.base.names import NamespaceName
from engine.functions.connectors.connector_settings import MASK
from engine.functions.definitions.configs import Kind, parse_config
from engine.functions.definitions.records import FunctionName, component_of
from engine.functions.packages.package_files import UPLOADED_WITH
from engine.functions.ports import OnFunction
from engine.packages.package_name import LATEST, PackageName
from gateway.services.engine_link import Engine
from gateway.services.functions import built_in_connectors, deploying
from gateway.services.functions.deploying import CodeGiven, Deployment
from gateway.services.functions.package_limits import limits
from gateway.services.functions.stored_code import package_client

COMPONENTS: tuple[Kind, ...] = ("function", "source", "sink")
UPLOADED = "uploaded"
"""The package of a function whose code was uploaded with it."""
BUILTIN = "builtin://"
NAME_MAX = 255
_NAMES = ("tenant", "namespace", "name")
_PACKAGE = (
    "must be builtin://CONNECTOR, a stored package such as function://tenant/namespace/name@version, or "
    f"{UPLOADED} for code that is not in the file"
)


def full_name(kind: str, text: str) -> str:
    """Return the name of a component ``tenant/namespace/name`` among all objects. Raises InvalidNameError."""
    namespace, _, name = text.rpartition("/")
    NamespaceName.parse(namespace)
    is_name = bool(name.strip()) and name.isprintable() and len(name) <= NAME_MAX
    if text.count("/") != 2 or not is_name or ":" in name:
        raise InvalidNameError(f"must be tenant/namespace/name, of at most {NAME_MAX} characters")
    return f"{kind}://{text}"


def component_named(full: str) -> OnFunction:
    """Return what a name of ``full_name`` stands for."""
    kind, _, path = full.partition("://")
    namespace, _, name = path.rpartition("/")
    of: Kind = kind  # type: ignore[assignment]
    return OnFunction(of, NamespaceName.parse(namespace), name)


def checked_config(kind: Kind, given: Any, package: str, where: str) -> Json:
    """Return the config of a file. Raises InvalidField, also for a secret in clear text."""
    try:
        config = parse_config(kind, given)
    except Refusal as error:
        raise InvalidField(where, error.reason) from error
    if named := [name for name in _NAMES if config.get(name)]:
        raise InvalidField(f"{where}.{named[0]}", "must be left out: it is in the name")
    if len(config) < len(given):
        unknown = sorted(given.keys() - config.keys())
        raise InvalidField(f"{where}.{unknown[0]}", f"is no field of a {kind}")
    configs = config.get("configs") or {}
    shown = built_in_connectors.with_masked_secrets(
        kind, package.removeprefix(BUILTIN) if package.startswith(BUILTIN) else "", configs
    )
    if shown != configs:
        secret = next(name for name in shown if shown[name] != configs[name])
        raise InvalidField(
            f"{where}.configs.{secret}",
            f"a secret must not be in the file: use secrets, or {MASK} to keep the stored one",
        )
    return config


def checked_package(given: Any, where: str) -> str:
    """Return the package of a file. Raises InvalidField."""
    if not isinstance(given, str):
        raise InvalidField(where, _PACKAGE)
    if given == UPLOADED or (given.startswith(BUILTIN) and given != BUILTIN):
        return given
    try:
        name = PackageName.parse(given)
    except InvalidNameError as error:
        raise InvalidField(where, _PACKAGE) from error
    if name.version == LATEST:
        raise InvalidField(where, "must name a version, which latest is not")
    return str(name)


async def listed(engine: Engine) -> list[str]:
    """Return the full names of everything that is deployed; none where functions are off."""
    if engine.workers is None:
        return []
    try:
        # As the gateway itself: the caller is judged for each.
        deployed = await engine.workers.everything()
    except Conflict:  # no worker is registered
        return []
    every = [metadata.functionDetails for metadata, _ in deployed]
    return sorted(f"{component_of(details)}://{FunctionName.of(details)}" for details in every)


async def live_component(engine: Engine, full: str) -> Json:
    """Return a component in the form of a file. Raises NotFound, NotReady."""
    function = component_named(full)
    metadata = await engine.functions.metadata(function)
    config = deploying.shown_config(function.component, metadata.functionDetails)
    return {
        "config": {
            name: value
            for name, value in config.items()
            if name not in _NAMES and value not in (None, "", {}, [])
        },
        "package": await _package_of(engine, function, metadata.packageLocation.packagePath),
    }


async def _package_of(engine: Engine, function: OnFunction, url: str) -> str:
    try:
        name = PackageName.parse(url)
    except InvalidNameError:
        return url
    is_own = (name.kind, name.namespace, name.name) == (
        function.component,
        function.namespace,
        function.name,
    )
    if not is_own:
        return url
    described = await package_client(engine, function, name).metadata(name)
    return UPLOADED if UPLOADED_WITH in described.get("properties", {}) else url


async def component_fields(engine: Engine, full: str, wanted: Json, present: Json) -> list[Json]:
    """Return what an update by ``wanted`` changes, as ``{"field", "before", "after"}``: fields that the file does not
    state stay as they are, and another form of the same is no change."""
    fields = []
    package = wanted.get("package", UPLOADED)
    if package not in (UPLOADED, present["package"]):
        fields.append({"field": "package", "before": present["package"], "after": package})
    given, stored = wanted.get("config", {}), present["config"]
    stated = sorted(name for name in given if given[name] != stored.get(name))
    if not stated:
        return fields
    try:
        rehearsed = await deploying.rehearse(_deployment(engine, full, wanted, present))
    except Refusal:
        # The preview states the reason; here the change is what the file states.
        before, after = stored, stored | {name: given[name] for name in stated}
    else:
        before, after = rehearsed.before or {}, rehearsed.after
    return fields + [
        {"field": f"config.{name}", "before": before.get(name), "after": after.get(name)}
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


async def plan_component(engine: Engine, full: str, wanted: Json, present: Json | None) -> int:
    """Check what ``make_component`` does, and return the stored version, -1 without one. Raises Refusal."""
    package = wanted.get("package", UPLOADED)
    if present is None:
        if package == UPLOADED:
            raise Unprocessable(
                "Its code was uploaded with it and is not in the file: store the code as a package, and name "
                "the package's URL"
            )
        if MASK in (wanted.get("config", {}).get("configs") or {}).values():
            raise Unprocessable(
                f"A secret of it is hidden in the file ({MASK}): name it in secrets"
            )
    await deploying.planned(_deployment(engine, full, wanted, present))
    return await _version(engine, full)


async def make_component(
    engine: Engine, full: str, wanted: Json, present: Json | None, version: int
) -> None:
    """Create or update a component as planned. Raises Conflict when another version is stored, Refusals."""
    if await _version(engine, full) != version:
        raise Conflict("It was changed since the preview; nothing was done")
    deployment = _deployment(engine, full, wanted, present)
    await (deploying.create if present is None else deploying.update)(deployment)


async def _version(engine: Engine, full: str) -> int:
    """Return the stored version, -1 without one."""
    try:
        metadata = await engine.functions.metadata(component_named(full))
    except NotFound:
        return -1
    return int(metadata.version)


def _deployment(engine: Engine, full: str, wanted: Json, present: Json | None) -> Deployment:
    package = wanted.get("package", UPLOADED)
    keeps = package == UPLOADED or (present is not None and present["package"] == package)
    code = CodeGiven(url="" if keeps else package)
    return Deployment(engine, component_named(full), wanted.get("config", {}), code, limits())
