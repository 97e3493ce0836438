"""``/admin/v2/functions``: the older interface, whose bodies are FunctionDetails in the JSON of Protobuf.

Calls do what those of ``/admin/v3/functions`` do. As in Apache's, changes answer 200, default values are left out, and
whole numbers of 64 bits are texts.
"""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from google.protobuf import json_format

from engine.base.errors import InvalidField
from engine.functions.definitions.configs import config_of, parse_config
from engine.functions.definitions.functions_pb2 import FunctionDetails
from gateway.rest.base import AdminResource
from gateway.rest.functions.components import (
    RIGHTS,
    ComponentConfigResource,
    ComponentResource,
    ConnectorsResource,
    NamesResource,
    RestartResource,
    StateResource,
    StatusResource,
    StopResource,
    StoredFileResource,
    TriggerResource,
)
from gateway.rest.functions.deployment_forms import (
    JSON_BYTES_MAX,
    DeploymentForm,
    code_of,
    form_parts,
)
from gateway.services.functions import deploying
from gateway.services.functions.deploying import Deployment
from gateway.services.functions.package_limits import limits

DETAILS = "functionDetails"


def _json(value: Any) -> HttpResponse:
    """Return an answer as Protobuf's printer writes it."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return HttpResponse(text, content_type="application/json")


def _made() -> HttpResponse:
    return HttpResponse(b"", content_type="application/json")


class DetailsResource(ComponentConfigResource):
    """A function in the older interface."""

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        return _json(json_format.MessageToDict((await self.metadata()).functionDetails))

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        await self.deploy(request, deploying.create)
        return _made()

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        await self.deploy(request, deploying.update)
        return _made()

    async def deploy(self, request: HttpRequest, change: Any) -> None:
        """Create or update the function. Raises Refusals."""
        await self.refuse_without_worker()
        function, form = self.function(), await _details_form(request)
        await self.work(
            lambda engine: change(Deployment(engine, function, form.config, form.code, limits()))
        )

    async def delete(self, request: HttpRequest, **path: str) -> HttpResponse:
        await super().delete(request, **path)
        return _made()


async def _details_form(request: HttpRequest) -> DeploymentForm:
    """Parse a deployment. Raises InvalidRequest, UnsupportedMediaType."""
    parts = await form_parts(request)
    given, config = parts.get(DETAILS), None
    if given is not None:
        if len(given.content) > JSON_BYTES_MAX:
            raise InvalidField(DETAILS, f"must have at most {JSON_BYTES_MAX} bytes")
        try:
            details = json_format.Parse(given.text, FunctionDetails(), ignore_unknown_fields=True)
        except (json_format.ParseError, RecursionError) as error:
            raise InvalidField(DETAILS, f"is no FunctionDetails in JSON: {error}") from error
        config = config_of(details)
        # What Protobuf leaves out has the default of a config, which is not its zero.
        if not details.HasField("resources"):
            config.pop("resources", None)
        if not details.parallelism:
            config.pop("parallelism", None)
    return DeploymentForm(parse_config("function", config), code_of(parts))


class FunctionStatusesResource(StatusResource):
    """The status of a function's instances in the older interface."""

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        of = self.instances()
        status = await self.work(lambda engine: engine.functions.status(of))
        if of.instance is not None:
            return _json(older_status(of.instance, status))
        rows = [older_status(row["instanceId"], row["status"]) for row in status["instances"]]
        return _json({"functionStatusList": rows} if rows else {})


COUNTS = (
    *("numRestarts", "numReceived", "numSuccessfullyProcessed"),
    *("numUserExceptions", "numSystemExceptions", "lastInvocationTime"),
)


def older_status(instance: int, status: dict[str, Any]) -> dict[str, Any]:
    """Return FunctionStatus in the JSON of Protobuf, without fields of their default value."""
    shown: dict[str, Any] = {
        "running": status["running"],
        "failureException": status["error"],
        **{name: str(count) if (count := status.get(name)) else "" for name in COUNTS},
        **{
            name: [
                {"exceptionString": row["exceptionString"], "msSinceEpoch": str(row["timestampMs"])}
                for row in status.get(name, ())
            ]
            for name in ("latestUserExceptions", "latestSystemExceptions")
        },
        "averageLatency": status.get("averageLatency"),
        "instanceId": str(instance),
        "workerId": status.get("workerId"),
    }
    return {name: value for name, value in shown.items() if value}


def _answering(view: type[ComponentResource], verb: str) -> type[ComponentResource]:
    """Return a view of the present interface whose change answers 200."""

    async def post(self: Any, request: HttpRequest, **path: str) -> HttpResponse:
        await view.post(self, request, **path)  # type: ignore[attr-defined]
        return _made()

    return type(f"{verb}Resource", (view,), {"post": post, "__doc__": view.__doc__})


def _of_functions(view: type[ComponentResource]) -> type[ComponentResource]:
    """Return the resource for functions, with their rights unless it states its own."""
    members: dict[str, Any] = {"component": "function", "__doc__": view.__doc__}
    if not hasattr(view, "read_rights") and not hasattr(view, "write_rights"):
        members |= {"read_rights": RIGHTS["function"], "write_rights": RIGHTS["function"]}
    return type(f"Older{view.__name__}", (view,), members)


_NAMED = "/{tenant}/{namespace}/{functionName}"
_STOP, _RESTART = _answering(StopResource, "Stop"), _answering(RestartResource, "Restart")
_VIEWS: dict[str, type[ComponentResource]] = {
    "/connectors": ConnectorsResource,
    "/download": StoredFileResource,
    "/upload": _answering(StoredFileResource, "Upload"),
    "/{tenant}/{namespace}": NamesResource,
    _NAMED: DetailsResource,
    f"{_NAMED}/restart": _RESTART,
    f"{_NAMED}/stop": _STOP,
    f"{_NAMED}/status": FunctionStatusesResource,
    f"{_NAMED}/trigger": TriggerResource,
    f"{_NAMED}/state/{{key}}": StateResource,
    f"{_NAMED}/{{instanceId}}/restart": _RESTART,
    f"{_NAMED}/{{instanceId}}/stop": _STOP,
    f"{_NAMED}/{{instanceId}}/status": FunctionStatusesResource,
}
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (f"/admin/v2/functions{path}", _of_functions(view)) for path, view in _VIEWS.items()
]
