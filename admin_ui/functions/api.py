"""REST of functions, sources and sinks."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    WINDOW,
    Call,
    ClusterView,
    Parameter,
    PreviewedView,
    SnapshotView,
    actor_of,
    checked,
    query,
)
from admin_ui.functions import deployments, selectors, services, shapes
from engine.auth.actions import Action
from engine.auth.rights import AUTHENTICATED, Right
from engine.base.names import NamespaceName
from engine.functions.ports import Component, OnFunction, OnInstances
from gateway.http.auth.access import Named, path_namespace
from gateway.http.bodies import json_answer
from gateway.services.engine_link import Engine, Work
from gateway.services.functions.listed_functions import FIELDS
from gateway.services.source import Ability

Body = dict[str, Any]

TRY_S = 60.0
_PATH = (
    Parameter("component", place="path", enum=selectors.KINDS),
    Parameter("tenant", place="path"),
    Parameter("namespace", place="path"),
    Parameter("name", place="path"),
)


def _if(component: Component) -> Callable[[Named], NamespaceName | tuple[()]]:
    """Return a function that returns the namespace of the path if it is about this component."""
    return lambda view: path_namespace(view) if view.kwargs["component"] == component else ()


OF_COMPONENT: tuple[Right[Named], ...] = (
    Right(Action.FUNCTIONS, NamespaceName, _if("function")),
    Right(Action.SOURCES, NamespaceName, _if("source")),
    Right(Action.SINKS, NamespaceName, _if("sink")),
)
"""The right to functions, sources or sinks of the namespace: whichever the path is about."""


def _named(where: dict[str, str]) -> OnFunction:
    """Return what a path names. Raises NotFound, InvalidNameError."""
    component = selectors.component_named(where["component"])
    namespace = NamespaceName.parse(f"{where['tenant']}/{where['namespace']}")
    return OnFunction(component, namespace, where["name"])


def _instances(where: dict[str, str], instance: int | None = None) -> OnInstances:
    of = _named(where)
    return OnInstances(of.component, of.namespace, of.name, instance)


class FunctionsView(SnapshotView):
    """A window of the filtered and sorted functions, sources and sinks."""

    read_rights = AUTHENTICATED
    calls: ClassVar[dict[str, Call]] = {
        "get": Call(
            "listFunctions",
            shapes.FunctionsAnswer,
            parameters=(
                Parameter("component", "one kind alone", enum=selectors.KINDS),
                Parameter("q", "words in name, class, connector and topics, in any case"),
                Parameter("sort", f"{', '.join(FIELDS)}; '-' in front for descending"),
                *WINDOW,
            ),
            errors=(400,),
        )
    }
    selector = selectors.functions


class ConnectorsView(ClusterView):
    """The built-in connectors with their settings."""

    read_rights = AUTHENTICATED
    calls: ClassVar[dict[str, Call]] = {"get": Call("listConnectors", shapes.ConnectorsAnswer)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        self.cluster.require(Ability.FUNCTIONS)
        return json_answer(selectors.connectors())


class FunctionView(ClusterView):
    """A function, source or sink with its config and instances."""

    read_rights = OF_COMPONENT
    calls: ClassVar[dict[str, Call]] = {
        "get": Call("getFunction", shapes.FunctionAnswer, _PATH, errors=(400, 404, 409, 412))
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        self.cluster.require(Ability.FUNCTIONS)
        of = _instances(where)
        return json_answer(await self.work(lambda engine: selectors.function(engine, of)))


class FunctionLogView(ClusterView):
    """The last lines of the logs of its instances."""

    read_rights = OF_COMPONENT
    calls: ClassVar[dict[str, Call]] = {
        "get": Call(
            "getFunctionLog",
            shapes.LogAnswer,
            (
                *_PATH,
                Parameter(
                    "lines", f"1 to {selectors.LOG_LINES_MAX}", int, default=selectors.LOG_LINES
                ),
            ),
            errors=(400, 404, 409, 412),
        )
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        self.cluster.require(Ability.FUNCTIONS)
        of, asked = _instances(where), query(request)
        return json_answer(await self.work(lambda engine: selectors.log(engine, of, asked)))


class FunctionCodeView(ClusterView):
    """The code of a function, source or sink, as it is deployed."""

    read_rights = OF_COMPONENT
    calls: ClassVar[dict[str, Call]] = {
        "get": Call("getFunctionCode", shapes.CodeAnswer, _PATH, errors=(400, 404, 409, 412))
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        self.cluster.require(Ability.FUNCTIONS)
        of = _named(where)
        return json_answer(await self.work(lambda engine: selectors.code(engine, of)))


class _FunctionChangeView(PreviewedView):
    """Base of changes, which the list shows at once."""

    async def previewed(
        self, body: Body, preview: Work[Body], apply: Callable[[Engine, str], Awaitable[Body]]
    ) -> HttpResponse:
        gathered = self.cluster.part(selectors.gathered)

        async def apply_and_forget(engine: Engine, token: str) -> Body:
            try:
                return await apply(engine, token)
            finally:
                gathered.forget()

        return await super().previewed(body, preview, apply_and_forget)


class RunFunctionView(_FunctionChangeView):
    """Start, stop or restart instances. A request is first a ``preview`` of it, then done by the ``token``."""

    write_rights = OF_COMPONENT
    for_operators = frozenset({"POST"})
    calls: ClassVar[dict[str, Call]] = {
        "post": Call(
            "runFunction",
            (shapes.RunFunctionPreview, shapes.RunFunctionReceipt),
            _PATH,
            body=shapes.RunFunctionBody,
            errors=(400, 404, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        self.cluster.require(Ability.FUNCTIONS)
        user, body = actor_of(request), checked(shapes.RunFunctionBody, request)
        of, verb = _instances(where, body.get("instance")), body.get("verb", "")
        return await self.previewed(
            body,
            lambda engine: services.preview_run(engine, of, verb, user),
            lambda engine, token: services.run(engine, _named(where), user, token),
        )


class DeleteFunctionView(_FunctionChangeView):
    """Delete a function, source or sink. A request is first a ``preview`` of it, then done by the ``token``."""

    write_rights = OF_COMPONENT
    calls: ClassVar[dict[str, Call]] = {
        "post": Call(
            "deleteFunction",
            (shapes.DeleteFunctionPreview, shapes.DeleteFunctionReceipt),
            _PATH,
            body=shapes.DeleteFunctionBody,
            errors=(400, 404, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        self.cluster.require(Ability.FUNCTIONS)
        user, of = actor_of(request), _named(where)
        body: dict[str, Any] = checked(shapes.DeleteFunctionBody, request)
        return await self.previewed(
            body,
            lambda engine: services.preview_delete(engine, of, user),
            lambda engine, token: services.delete(engine, of, user, token),
        )


class DeployFunctionView(_FunctionChangeView):
    """Create or update a function, source or sink. A request is first a ``preview`` of it: its config is checked, and
    nothing stored. Then it is done by the ``token``."""

    write_rights = OF_COMPONENT
    calls: ClassVar[dict[str, Call]] = {
        "post": Call(
            "deployFunction",
            (shapes.DeployFunctionPreview, shapes.DeployFunctionReceipt),
            _PATH,
            body=shapes.DeployFunctionBody,
            errors=(400, 404, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        self.cluster.require(Ability.FUNCTIONS)
        user, of = actor_of(request), _named(where)
        body: dict[str, Any] = checked(shapes.DeployFunctionBody, request)
        return await self.previewed(
            body,
            lambda engine: deployments.preview(engine, of, body, user),
            lambda engine, token: deployments.apply(engine, of, user, token),
        )


class TryFunctionView(ClusterView):
    """Run a function on the last messages of its inputs, without deploying it: nothing is published, stored or
    acknowledged. It needs the right to consume these inputs, too."""

    write_rights = OF_COMPONENT
    shows_payloads = frozenset({"POST"})
    work_timeout_s = TRY_S
    calls: ClassVar[dict[str, Call]] = {
        "post": Call(
            "tryFunction",
            shapes.FunctionTrial,
            _PATH,
            body=shapes.TryFunctionBody,
            errors=(400, 404, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        self.cluster.require(Ability.FUNCTIONS)
        of = _named(where)
        body: dict[str, Any] = checked(shapes.TryFunctionBody, request)
        return json_answer(await self.work(lambda engine: deployments.try_on(engine, of, body)))
