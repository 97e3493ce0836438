"""``/admin/v3/functions``, ``sources`` and ``sinks``, and the older names of these paths."""

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from engine.auth.actions import Action
from engine.auth.rights import AUTHENTICATED, SUPERUSER, Right
from engine.base.errors import (
    InvalidField,
    InvalidNameError,
    InvalidRequest,
    NotReady,
    PreconditionFailed,
)
from engine.base.names import NamespaceName, TopicName
from engine.functions.definitions.configs import config_of
from engine.functions.definitions.functions_pb2 import FunctionMetaData
from engine.functions.packages.package_client import PackageClient
from engine.functions.ports import Component, OnComponents, OnFunction, OnInstances
from engine.packages.package_name import PackageName
from gateway.http.auth.access import AccessRefusedError, RefusedAsError, authorize
from gateway.http.bodies import flag, json_answer, json_body, no_content, whole_number
from gateway.http.forms.multipart import is_form
from gateway.rest.base import AdminResource
from gateway.rest.functions.deployment_forms import (
    check_size,
    deployment_form,
    form_parts,
    json_part,
    required_part,
)
from gateway.services.engine_link import Engine
from gateway.services.functions import built_in_connectors, deploying
from gateway.services.functions.deploying import (
    Deployment,
    namespace_of,
    require_workers,
)
from gateway.services.functions.package_limits import limits
from gateway.services.functions.stored_code import open_code

INSTANCES_MAX = 1 << 31
TRIGGER_BYTES_MAX = 2 << 20
STATE_BYTES_MAX = 1 << 20
DEPLOY_S = 300.0
"""Time in which code is stored and a function created."""
TRIGGER_S = 40.0
_ACTIONS = {"function": Action.FUNCTIONS, "source": Action.SOURCES, "sink": Action.SINKS}


def _namespace(view: Any) -> NamespaceName:
    try:
        return namespace_of(view.kwargs["tenant"], view.kwargs["namespace"])
    except InvalidRequest as error:
        raise PreconditionFailed(error.reason) from error


RIGHTS: dict[Component, Right[Any]] = {
    "function": Right(Action.FUNCTIONS, NamespaceName, _namespace),
    "source": Right(Action.SOURCES, NamespaceName, _namespace),
    "sink": Right(Action.SINKS, NamespaceName, _namespace),
}


class ComponentResource(AdminResource):
    """Base of the resources of one component. Without a worker each is refused, which is an expected answer."""

    component: ClassVar[Component]
    quiet = True
    negotiates = False
    keeps_body = False  # Configs and state may hold secrets.

    def of_namespace(self) -> OnComponents:
        return OnComponents(self.component, _namespace(self))

    def function(self) -> OnFunction:
        """Return what the path names. Raises PreconditionFailed."""
        return OnFunction(self.component, _namespace(self), self.kwargs[f"{self.component}Name"])

    def instances(self) -> OnInstances:
        """Return the instances that the path names. Raises PreconditionFailed, InvalidField."""
        number = self.kwargs.get("instanceId")
        instance = None if number is None else whole_number(number, "instanceId")
        if instance is not None and not 0 <= instance < INSTANCES_MAX:
            raise InvalidField("instanceId", f"must be from 0 to {INSTANCES_MAX - 1}")
        of = self.function()
        return OnInstances(of.component, of.namespace, of.name, instance)


class NamesResource(ComponentResource):
    """The names of the functions, sources or sinks of a namespace."""

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        of = self.of_namespace()
        return json_answer(await self.work(lambda engine: engine.functions.names(of)))


class ComponentConfigResource(ComponentResource):
    """A function, source or sink."""

    work_timeout_s = DEPLOY_S

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        metadata = await self.metadata()
        details = metadata.functionDetails
        config = config_of(details)
        return json_answer(built_in_connectors.with_hidden_secrets(self.component, details, config))

    async def metadata(self) -> FunctionMetaData:
        function = self.function()

        async def read(engine: Engine) -> FunctionMetaData:
            metadata: FunctionMetaData = await engine.functions.metadata(function)
            return metadata

        return await self.work(read)

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        await self.refuse_without_worker()
        function, form = self.function(), await deployment_form(request, self.component)
        await self.work(
            lambda engine: deploying.create(
                Deployment(engine, function, form.config, form.code, limits())
            )
        )
        return no_content()

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        await self.refuse_without_worker()
        function, form = self.function(), await deployment_form(request, self.component)
        await self.work(
            lambda engine: deploying.update(
                Deployment(engine, function, form.config, form.code, limits()),
                anyway=form.update_auth_data,
            )
        )
        return no_content()

    async def delete(self, request: HttpRequest, **path: str) -> HttpResponse:
        function = self.function()
        await self.work(lambda engine: engine.functions.delete(function))
        return no_content()

    async def refuse_without_worker(self) -> None:
        """Raise Conflict where functions are off, and NotReady while no worker answers, before a body is received."""
        await self.work(lambda engine: engine.functions.names(self.of_namespace()))


class StartResource(ComponentResource):
    """The start of instances."""

    for_operators = frozenset({"POST"})

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        of = self.instances()
        await self.work(lambda engine: engine.functions.start(of))
        return no_content()


class StopResource(ComponentResource):
    """The end of instances, until they are started."""

    for_operators = frozenset({"POST"})

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        of = self.instances()
        await self.work(lambda engine: engine.functions.stop(of))
        return no_content()


class RestartResource(ComponentResource):
    """The restart of instances."""

    for_operators = frozenset({"POST"})

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        of = self.instances()
        await self.work(lambda engine: engine.functions.restart(of))
        return no_content()


class StatusResource(ComponentResource):
    """The status of instances."""

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        of = self.instances()
        return json_answer(await self.work(lambda engine: engine.functions.status(of)))


class StatsResource(ComponentResource):
    """The statistics of instances."""

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        of = self.instances()
        return json_answer(await self.work(lambda engine: engine.functions.stats(of)))


class TriggerResource(ComponentResource):
    """One message for a function, and its output."""

    for_operators = frozenset({"POST"})
    work_timeout_s = TRIGGER_S

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        function, parts = self.function(), await form_parts(request)
        topic, data = parts.get("topic"), parts.get("data") or parts.get("dataStream")
        if data is None:
            raise InvalidRequest("Trigger Data is not provided")
        if len(data.content) > TRIGGER_BYTES_MAX:
            raise InvalidField(data.name, f"must have at most {TRIGGER_BYTES_MAX} bytes")
        name, content = topic.text.strip() if topic is not None else "", bytes(data.content)
        await self.check_publishing(function, name)
        try:
            output = await self.work(
                lambda engine: engine.functions.trigger(function, name, content)
            )
        except TimeoutError as error:
            raise RefusedAsError(408, "Request Timed Out") from error
        except NotReady as error:
            if "gave no output" in error.reason:
                raise RefusedAsError(408, "Request Timed Out") from error
            raise
        # Apache sends the output as it is, under the type of JSON.
        return HttpResponse(output, content_type="application/json")

    async def check_publishing(self, function: OnFunction, topic: str) -> None:
        """Check that the caller may publish to the function's input itself. Raises AccessRefusedError, NotFound,
        InvalidRequest."""
        metadata: FunctionMetaData = await self.work(lambda e: e.functions.metadata(function))
        try:
            named = [TopicName.parse(topic)] if topic else []
            topics = named or [
                TopicName.parse(name)
                for name, spec in metadata.functionDetails.source.inputSpecs.items()
                if not spec.isRegexPattern
            ]
        except InvalidNameError as error:
            raise InvalidRequest("Function in trigger function has unidentified topic") from error
        right: Right[Any] = Right(Action.PRODUCE, TopicName, lambda call: tuple(topics))
        try:
            await authorize((right,), self, self.identity, self.cluster)
        except AccessRefusedError as error:
            raise RefusedAsError(401, "Client is not authorized to perform operation") from error


class StateResource(ComponentResource):
    """The value of a key in a function's state."""

    async def get(self, request: HttpRequest, key: str, **path: str) -> HttpResponse:
        function = self.function()
        return json_answer(await self.work(lambda engine: engine.functions.state(function, key)))

    async def post(self, request: HttpRequest, key: str, **path: str) -> HttpResponse:
        function = self.function()
        if is_form(request.META.get("CONTENT_TYPE", "")):
            state = json_part(await form_parts(request), "state")
        else:
            state = json_body(request)
        if not isinstance(state, dict):
            raise InvalidRequest("state: must be a JSON object, in a part of type application/json")
        if state.get("key") != key:
            raise InvalidRequest("Path key doesn't match key in json")
        await self.work(lambda engine: engine.functions.put_state(function, key, state))
        return no_content()


class CodeResource(ComponentResource):
    """The code of a function."""

    async def get(self, request: HttpRequest, **path: str) -> HttpResponseBase:
        function, transform = self.function(), flag(request, "transform-function")
        return package_answer(
            await self.work(lambda engine: open_code(engine, function, transform=transform))
        )


def package_answer(pieces: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """Return an answer with the content of a package, which no page may show as its own."""
    answer = StreamingHttpResponse(pieces, content_type="application/octet-stream")
    answer.headers["Content-Disposition"] = "attachment"
    return answer


class StoredFileResource(ComponentResource):
    """A file of the packages, named by a query: what ``functions upload`` and ``functions download`` use."""

    write_rights = read_rights = SUPERUSER
    work_timeout_s = DEPLOY_S

    async def get(self, request: HttpRequest) -> HttpResponseBase:
        name = _package_path(request.GET.get("path", ""))
        return package_answer(
            await self.work(
                lambda engine: PackageClient(engine.admin, principal=engine.principal).content(name)
            )
        )

    async def post(self, request: HttpRequest) -> HttpResponse:
        parts = await form_parts(request)
        name = _package_path(required_part(parts, "path").text.strip())
        data = required_part(parts, "data")
        check_size(data)
        await self.work(
            lambda engine: PackageClient(engine.admin, principal=engine.principal).store(
                name, data.content, data.file_name
            )
        )
        return no_content()


def _package_path(path: str) -> PackageName:
    try:
        return PackageName.parse(path)
    except InvalidNameError as error:
        raise InvalidRequest(f"path: {error}") from error


class BuiltInFunctionsResource(ComponentResource):
    """The built-in functions, of which there are none."""

    read_rights = AUTHENTICATED

    async def get(self, request: HttpRequest) -> HttpResponse:
        await self.work(require_workers)
        return json_answer([])


class ConnectorsResource(ComponentResource):
    """The built-in connectors of a component; those of all for functions."""

    read_rights = AUTHENTICATED

    async def get(self, request: HttpRequest) -> HttpResponse:
        await self.work(require_workers)
        return json_answer(built_in_connectors.listed(self.component))


class ConfigDefinitionResource(ComponentResource):
    """The settings of a built-in connector."""

    read_rights = AUTHENTICATED

    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        await self.work(require_workers)
        return json_answer(built_in_connectors.definition(self.component, name))


class ReloadResource(ComponentResource):
    """A new look at the catalogue of what is built in, which is part of the program and does not change."""

    write_rights = SUPERUSER

    async def post(self, request: HttpRequest) -> HttpResponse:
        await self.work(require_workers)
        return no_content()


def _of(component: Component, view: type[ComponentResource]) -> type[ComponentResource]:
    """Return the resource for a component, with its rights unless it states its own."""
    members: dict[str, Any] = {"component": component, "__doc__": view.__doc__}
    if not hasattr(view, "read_rights") and not hasattr(view, "write_rights"):
        members |= {"read_rights": RIGHTS[component], "write_rights": RIGHTS[component]}
    return type(f"{component.capitalize()}{view.__name__}", (view,), members)


_NAMED = {
    "": ComponentConfigResource,
    "/start": StartResource,
    "/stop": StopResource,
    "/restart": RestartResource,
    "/status": StatusResource,
    "/{instanceId}/start": StartResource,
    "/{instanceId}/stop": StopResource,
    "/{instanceId}/restart": RestartResource,
    "/{instanceId}/status": StatusResource,
}
_OF_FUNCTIONS = {
    "/stats": StatsResource,
    "/{instanceId}/stats": StatsResource,
    "/trigger": TriggerResource,
    "/state/{key}": StateResource,
    "/download": CodeResource,
}


def _routes() -> list[tuple[str, type[AdminResource]]]:
    routes_of: list[tuple[str, type[AdminResource]]] = []

    def add(tree: str, component: Component, views: dict[str, type[ComponentResource]]) -> None:
        routes_of.extend(
            (f"/admin/v3/{tree}{path}", _of(component, view)) for path, view in views.items()
        )

    for component, trees in (
        ("function", ("functions",)),
        ("source", ("sources", "source")),
        ("sink", ("sinks", "sink")),
    ):
        for tree in trees:
            named = f"{tree}/{{tenant}}/{{namespace}}/{{{component}Name}}"
            add(f"{tree}/{{tenant}}/{{namespace}}", component, {"": NamesResource})  # type: ignore[arg-type]
            add(named, component, _NAMED)  # type: ignore[arg-type]
            if component == "function":
                continue
            built_in = f"/builtin{component}s"
            add(
                tree,
                component,  # type: ignore[arg-type]
                {
                    built_in: ConnectorsResource,
                    f"{built_in}/{{name}}/configdefinition": ConfigDefinitionResource,
                    f"/reloadBuiltIn{component.capitalize()}s": ReloadResource,
                },
            )
    add("functions/{tenant}/{namespace}/{functionName}", "function", _OF_FUNCTIONS)
    add(
        "functions",
        "function",
        {
            "/builtins": BuiltInFunctionsResource,
            "/builtins/reload": ReloadResource,
            "/connectors": ConnectorsResource,
            "/upload": StoredFileResource,
            "/download": StoredFileResource,
        },
    )
    return routes_of


ROUTES = _routes()
