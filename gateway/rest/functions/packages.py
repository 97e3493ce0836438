"""``/admin/v3/packages``: code of functions, sources and sinks under names and versions."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from engine.auth.actions import Action
from engine.auth.rights import Right
from engine.base.errors import InvalidField, InvalidNameError, PreconditionFailed
from engine.base.names import NamespaceName
from engine.functions.packages.package_client import PackageClient
from engine.packages.package_name import PackageName, check_kind
from engine.packages.package_operations import PackageDescription
from gateway.http.bodies import json_answer, no_content, object_body, string_map
from gateway.rest.base import AdminResource
from gateway.rest.functions.components import DEPLOY_S, package_answer
from gateway.rest.functions.deployment_forms import (
    check_size,
    form_parts,
    json_part,
    required_part,
)
from gateway.services.engine_link import Engine

_SHOWN = ("description", "contact", "createTime", "modificationTime", "properties")


def _namespace(view: Any) -> NamespaceName:
    try:
        return NamespaceName.parse(f"{view.kwargs['tenant']}/{view.kwargs['namespace']}")
    except InvalidNameError as error:
        raise PreconditionFailed(str(error)) from error


PACKAGES: Right[Any] = Right(Action.PACKAGES, NamespaceName, _namespace)


def _client(engine: Engine) -> PackageClient:
    return PackageClient(engine.admin, principal=engine.principal)


def _described(given: dict[str, Any]) -> PackageDescription:
    """Return what people state of a package. Raises InvalidField."""
    texts = {name: given.get(name) or "" for name in ("description", "contact")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise InvalidField(name, "must be a string")
    return PackageDescription(**texts, properties=string_map(given.get("properties"), "properties"))


class PackageResource(AdminResource):
    """Base of the resources."""

    read_rights = write_rights = PACKAGES
    quiet = True
    negotiates = False
    work_timeout_s = DEPLOY_S

    def kind(self) -> str:
        """Return the kind of package of the path. Raises PreconditionFailed."""
        try:
            return check_kind(self.kwargs["type"])
        except InvalidNameError as error:
            raise PreconditionFailed(str(error)) from error

    def package(self) -> PackageName:
        """Return the version that the path names. Raises PreconditionFailed."""
        try:
            return PackageName.of(
                self.kind(), _namespace(self), self.kwargs["packageName"], self.kwargs["version"]
            )
        except InvalidNameError as error:
            raise PreconditionFailed(str(error)) from error


class PackageNamesResource(PackageResource):
    """The names of the packages of a kind in a namespace."""

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        kind, namespace = self.kind(), _namespace(self)
        return json_answer(await self.work(lambda engine: _client(engine).names(kind, namespace)))


class PackageVersionsResource(PackageResource):
    """The versions of a package."""

    async def get(self, request: HttpRequest, packageName: str, **path: str) -> HttpResponse:
        kind, namespace = self.kind(), _namespace(self)
        return json_answer(
            await self.work(lambda engine: _client(engine).versions(kind, namespace, packageName))
        )


class PackageVersionResource(PackageResource):
    """A version of a package."""

    keeps_body = False

    async def get(self, request: HttpRequest, **path: str) -> HttpResponseBase:
        name = self.package()
        return package_answer(await self.work(lambda engine: _client(engine).content(name)))

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, parts = self.package(), await form_parts(request)
        given = json_part(parts, "metadata")
        if not isinstance(given, dict):
            raise InvalidField(
                "metadata", "must be a JSON object, in a part of type application/json"
            )
        file = required_part(parts, "file")
        check_size(file)
        described = _described(given)
        await self.work(
            lambda engine: _client(engine).store(name, file.content, file.file_name, described)
        )
        return no_content()

    async def delete(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.package()
        await self.work(lambda engine: _client(engine).delete(name))
        return no_content()


class PackageMetadataResource(PackageResource):
    """The metadata of a version of a package."""

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.package()
        described = await self.work(lambda engine: _client(engine).metadata(name))
        return json_answer({key: described[key] for key in _SHOWN if key in described})

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, described = self.package(), _described(object_body(request) or {})
        await self.work(lambda engine: _client(engine).describe(name, described))
        return no_content()


_TREE = "/admin/v3/packages/{type}/{tenant}/{namespace}"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (_TREE, PackageNamesResource),
    (f"{_TREE}/{{packageName}}", PackageVersionsResource),
    (f"{_TREE}/{{packageName}}/{{version}}", PackageVersionResource),
    (f"{_TREE}/{{packageName}}/{{version}}/metadata", PackageMetadataResource),
]
