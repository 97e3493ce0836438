"""The common part of the console's REST views: permissions, descriptions of calls, and checks of bodies."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar, cast

from channels.db import database_sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework import serializers

from admin_ui.params import Params, topic_name
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from engine.base.names import DOMAINS, TopicName
from gateway.clusters.cluster import Cluster
from gateway.http.auth.identity import name_of
from gateway.http.bodies import JsonText, json_answer, object_body
from gateway.http.json_bodies import decode_body
from gateway.http.view import RestView
from gateway.services.engine_link import Engine, Work

Body = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")
Shape = type[serializers.Serializer[Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a call, for the OpenAPI document."""

    name: str
    description: str = ""
    kind: type[str] | type[int] = str
    place: Literal["query", "path"] = "query"
    enum: tuple[str, ...] | None = None
    default: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One method of a view, for the OpenAPI document: its id, the shapes of body and answer, and its errors beside 503.

    ``file`` is the media type of an answer that is a file; with an ``answer`` it may be either. ``refusals``: the shape
    of 409 and 503, where it has more than a reason.
    """

    operation: str
    answer: Shape | serializers.BaseSerializer[Any] | tuple[Shape, ...] | None = None
    """The shape; of several, one of them."""
    parameters: tuple[Parameter, ...] = ()
    body: Shape | None = None
    success: int = 200
    errors: tuple[int, ...] = ()
    file: str = ""
    refusals: Shape | None = None


WINDOW = (
    Parameter("offset", "first row, from 0", int, default=0),
    Parameter("limit", "rows, 1 to 1000", int, default=100),
)
OF_CLUSTER = Parameter("cluster", "a cluster that this gateway serves; without it the default")
CLUSTER = Parameter("cluster", "a cluster that this gateway serves", place="path")
TOPIC = "topics/<seg:domain>/<seg:tenant>/<seg:namespace>/<seg:topic>"
TOPIC_PATH = (
    Parameter("domain", place="path", enum=DOMAINS),
    Parameter("tenant", place="path"),
    Parameter("namespace", place="path"),
    Parameter("topic", "local name, percent-encoded", place="path"),
)


class ConsoleView(RestView):
    """Base of the views."""

    for_viewer = True

    async def work(self, work: Work[T]) -> T:
        """Run ``work`` as ``View.work`` does. A read does not wait while a hop does not answer: it raises HopError,
        which names the hop."""
        if self.request.method != "GET":
            return await super().work(work)
        return await self.cluster.collector.read(work, principal=self.principal, topic=self.topic)

    topic = ""
    """The full name of the topic that the call is about, if any."""
    calls: ClassVar[dict[str, Call]]
    """Descriptions by method, in lower case."""


class ClusterView(ConsoleView):
    """Base of the views of a cluster: served below ``clusters/<cluster>/``, with 404 for a cluster that is not served
    here."""

    keeps_body = True

    async def dispatch(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, cluster: str, **kwargs: Any
    ) -> HttpResponseBase:
        return await super().dispatch(request, *args, served_cluster=cluster, **kwargs)

    def name(self, where: dict[str, str]) -> TopicName:
        """Return the topic of the path, which the view is then about. Raises InvalidField, InvalidNameError."""
        name = topic_name(**where)
        self.topic = str(name)
        return name


class InstanceView(ConsoleView):
    """Base of views that are about one cluster without naming it in their path: the one that the query's ``cluster``
    names, else the default."""

    async def dispatch(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        name = request.GET.get("cluster", "")
        return await super().dispatch(request, *args, served_cluster=name, **kwargs)


class PreviewedView(ClusterView):
    """Base of changes that are requested as a preview first, and then confirmed by the token of its answer."""

    @classmethod
    def may_change(cls, request: HttpRequest) -> bool:
        """Return False for a preview. The body is read as ``previewed`` reads it, by the same decoder."""
        return super().may_change(request) and not _is_preview(request)

    async def previewed(
        self,
        body: Body,
        preview: Work[Body],
        apply: Callable[[Engine, str], Awaitable[Body]],
    ) -> HttpResponse:
        """Answer what a change would do (``body["preview"]``), or make exactly that change (``body["token"]``)."""
        if body["preview"]:
            return json_answer(await self.work(preview))
        token = body["token"]
        return json_answer(await self.work(lambda engine: apply(engine, token)))


class SnapshotView(ClusterView):
    """Base of views that read the collector's last snapshot."""

    selector: ClassVar[Callable[[Viewer, Cluster, Params], Awaitable[Body | JsonText]]]

    async def get(self, request: HttpRequest) -> HttpResponse:
        viewer, cluster, params = self.viewer, self.cluster, query(request)
        # By the class: as an attribute of the view the function would be bound to it.
        selector = type(self).selector
        return json_answer(await cluster.link.on_loop(lambda: selector(viewer, cluster, params)))


def checked(shape: Shape, request: HttpRequest) -> Body:
    """Return the request's JSON body, validated by its shape. Raises InvalidField naming the first wrong field."""
    serializer = shape(data=object_body(request) or {})
    if not serializer.is_valid():
        errors = cast(dict[str, Any], serializer.errors)
        field, problems = next(iter(errors.items()))
        raise InvalidField(field, _first_text(problems))
    return dict(serializer.validated_data)


def _is_preview(request: HttpRequest) -> bool:
    try:
        body = decode_body(request.body)
    except InvalidField:
        return False  # the view refuses the body; it is recorded as a refused change
    return isinstance(body, dict) and body.get("preview") is True


def _first_text(problems: Any) -> str:
    while isinstance(problems, list | dict):
        problems = next(iter(problems.values())) if isinstance(problems, dict) else problems[0]
    return str(problems)


def query(request: HttpRequest) -> Params:
    """Return the query parameters; of a repeated one, the last value."""
    return {name: str(value) for name, value in request.GET.items()}


def http_url(request: HttpRequest) -> str:
    """Return the URL of the gateway, with the host name that the request used."""
    return f"{request.scheme}://{request.get_host()}"


def actor_of(request: HttpRequest) -> str:
    """Return the name of the caller, or ``anonymous``."""
    return name_of(request) or "anonymous"


def in_thread(work: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Return ``work``, which uses the database, as a coroutine function. It runs in a thread and releases its
    connection afterwards. Transactions, and work that waits for something else too, cannot be done by asynchronous
    calls of the ORM."""
    in_pool: Callable[P, Awaitable[T]] = database_sync_to_async(work, thread_sensitive=False)
    return in_pool
