"""What the console's REST views share: who may call, how a call is described, and the checks of its body."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar, cast

from channels.db import database_sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework import serializers

from admin_ui.params import Params, require_served
from engine.base.errors import InvalidField
from engine.base.names import DOMAINS
from gateway.http.bodies import Written, json_answer, object_body
from gateway.http.json_bodies import decode_body
from gateway.http.view import View
from gateway.services.collector import collector
from gateway.services.engine_link import Engine, Work, link

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
    """One method of a view, for the OpenAPI document: its id, the shapes of body and answer, and which errors it has
    beside 503. ``file`` is the media type of an answer that is a file, or may be one where there is an ``answer``, too.
    ``refusals``: the shape of 409 and 503, where it says more than a reason."""

    operation: str
    answer: Shape | serializers.BaseSerializer[Any] | tuple[Shape, ...] | None = None
    """Several: one of them."""
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
CLUSTER = Parameter("cluster", "the cluster that this gateway serves", place="path")
TOPIC = "topics/<seg:domain>/<seg:tenant>/<seg:namespace>/<seg:topic>"
TOPIC_PATH = (
    Parameter("domain", place="path", enum=DOMAINS),
    Parameter("tenant", place="path"),
    Parameter("namespace", place="path"),
    Parameter("topic", "local name, percent-encoded", place="path"),
)


class ConsoleView(View):
    """Base: reading and changing are open to whoever may use the console."""

    permission = "console"
    write_permission = "console"

    async def work(self, work: Work[T]) -> T:
        """As of every view. What only reads is not waited for when a hop does not answer: HopError names it."""
        if self.request.method != "GET":
            return await super().work(work)
        return await collector().read(work, principal=self.principal, topic=self.topic)

    topic = ""
    """Which topic it is about, if one, by its full name."""
    calls: ClassVar[dict[str, Call]]
    """By method, in small letters."""


class ClusterView(ConsoleView):
    """Base of what belongs to a cluster: served below ``clusters/<cluster>/``, 404 for one that is not ours."""

    keeps_body = True

    async def dispatch(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, cluster: str, **kwargs: Any
    ) -> HttpResponseBase:
        self.cluster = cluster
        return await super().dispatch(request, *args, **kwargs)

    async def admit(self, request: HttpRequest) -> None:
        await super().admit(request)
        require_served(self.cluster)


class PreviewedView(ClusterView):
    """Base of changes that are asked for as a preview first, and then confirmed by the token that it answered."""

    @classmethod
    def may_change(cls, request: HttpRequest) -> bool:
        """Not by a preview. The body is judged as ``previewed`` judges it, by the same decoder."""
        return super().may_change(request) and not _asks_for_preview(request)

    async def previewed(
        self,
        asked: Body,
        preview: Work[Body],
        apply: Callable[[Engine, str], Awaitable[Body]],
    ) -> HttpResponse:
        """What a change would do (``asked["preview"]``), or exactly that done (``asked["token"]``)."""
        if asked["preview"]:
            return json_answer(await self.work(preview))
        token = asked["token"]
        return json_answer(await self.work(lambda engine: apply(engine, token)))


class SnapshotView(ClusterView):
    """A reading view over the collector's last snapshot."""

    selector: ClassVar[Callable[[Params], Awaitable[Body | Written]]]

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        return json_answer(await link().on_loop(lambda: type(self).selector(params)))


def checked(shape: Shape, request: HttpRequest) -> Body:
    """The request's JSON body, held against its shape. Raises InvalidField naming the first wrong field."""
    serializer = shape(data=object_body(request) or {})
    if not serializer.is_valid():
        errors = cast(dict[str, Any], serializer.errors)
        field, problems = next(iter(errors.items()))
        raise InvalidField(field, _first(problems))
    return dict(serializer.validated_data)


def _asks_for_preview(request: HttpRequest) -> bool:
    try:
        body = decode_body(request.body)
    except InvalidField:
        return False  # refused, and recorded as a change that was
    return isinstance(body, dict) and body.get("preview") is True


def _first(problems: Any) -> str:
    while isinstance(problems, list | dict):
        problems = next(iter(problems.values())) if isinstance(problems, dict) else problems[0]
    return str(problems)


def query(request: HttpRequest) -> Params:
    """Query parameters, the last of each."""
    return {name: str(value) for name, value in request.GET.items()}


def http_url(request: HttpRequest) -> str:
    """Where the gateway is reached, by the name it was called."""
    return f"{request.scheme}://{request.get_host()}"


def actor_of(request: HttpRequest) -> str:
    """The signed-in user's name, or ``anonymous``."""
    user = getattr(request, "user", None)
    return user.get_username() if user is not None and user.is_authenticated else "anonymous"


def in_thread(work: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """``work`` on the database, in a thread whose connection it then gives back: what asynchronous calls cannot do,
    transactions and what also waits for something else."""
    made: Callable[P, Awaitable[T]] = database_sync_to_async(work, thread_sensitive=False)
    return made
