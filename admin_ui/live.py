"""The console's live feed: WebSocket ``/api/v1/live``.

A client subscribes to channels under ids of its own; the server sends each channel's body at once and then whenever it
changed, at most once a second. The bodies are those of the GETs, so a lost socket loses nothing. One task per socket
serves all its subscriptions; a reader that does not keep up is closed when 1 MiB waits for it.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from admin_ui import selectors
from admin_ui.api import topic_name
from engine.base.tasks import TaskScope
from gateway.http.backpressure import buffered_bytes
from gateway.http.security import SERVER_SEND
from gateway.rest.errors import BadInputError, describe
from gateway.services.collector import collector, now_ms
from gateway.services.engine_link import link

log = logging.getLogger(__name__)

CHANNELS = ("overview", "topics", "topic", "run")
SUBSCRIPTIONS_MAX = 32
MESSAGE_CHARS_MAX = 16_384
ID_CHARS_MAX = 64
TOPIC_ROWS_MAX = 200
LOOK_INTERVAL_S = 0.25
PUSH_INTERVAL_S = 1.0
BUFFERED_BYTES_MAX = 1 << 20
CLOSE_SLOW = 4008
CLOSE_UNAUTHENTICATED = 4401
VOLATILE = frozenset({"at", "now"})
"""Members that change without anything having happened."""

Body = dict[str, Any]


@dataclass(slots=True)
class Subscription:
    """``seen`` is the text of the last body sent, without its times. ``basis`` is what it was computed from."""

    channel: str
    params: dict[str, str]
    seen: str = ""
    basis: object = None
    due_s: float = 0.0


class LiveFeed(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One socket. Commands: subscribe, unsubscribe, ping."""

    async def connect(self) -> None:
        """Accept; with authentication on only a signed-in user."""
        self.subscriptions: dict[str, Subscription] = {}
        self.scope_of_tasks: TaskScope | None = None
        self.wake = asyncio.Event()
        self.groups_joined: dict[str, int] = {}
        user = self.scope.get("user")
        if settings.AUTHENTICATION_ENABLED and not (user and user.is_authenticated):
            await self.close(code=CLOSE_UNAUTHENTICATED)
            return
        await self.accept()
        self.scope_of_tasks = TaskScope("live")
        self.scope_of_tasks.spawn("live-push", self._serve())
        self.scope_of_tasks.spawn("warm-spark", asyncio.to_thread(self._warm_spark))

    @staticmethod
    def _warm_spark() -> None:
        """Somebody looks at the console: have Spark ready before the first click. A failure shows at that click."""
        from gateway.jobs import services

        try:
            services.warm()
        except OSError as error:
            log.warning("could not ask for Spark: %s", error)

    async def disconnect(self, code: int) -> None:
        """The socket is gone: end its task and leave its groups."""
        for group in self.groups_joined:
            await self.channel_layer.group_discard(group, self.channel_name)
        if self.scope_of_tasks is not None:
            await self.scope_of_tasks.close()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """One command; a wrong one is answered with an error and changes nothing."""
        request: Any = None
        try:
            if text_data is None or len(text_data) > MESSAGE_CHARS_MAX:
                raise BadInputError(
                    "message", f"must be text of at most {MESSAGE_CHARS_MAX} characters"
                )
            try:
                request = json.loads(text_data)
            except (ValueError, RecursionError):
                raise BadInputError("message", "is not valid JSON") from None
            if not isinstance(request, dict):
                raise BadInputError("message", "must be a JSON object")
            await self._obey(request)
        except BadInputError as error:
            given = request.get("id") if isinstance(request, dict) else None
            await self._refuse(given if isinstance(given, str) else None, error)

    async def _obey(self, request: Body) -> None:
        match request.get("op"):
            case "ping":
                await self._send({"op": "pong"})
            case "subscribe":
                await self._subscribe(request)
            case "unsubscribe":
                gone = self.subscriptions.pop(_id(request), None)
                if gone is not None:
                    await self._leave(gone)
            case _:
                raise BadInputError("op", "must be subscribe, unsubscribe or ping")

    async def _subscribe(self, request: Body) -> None:
        key, channel, params = _id(request), request.get("channel"), request.get("params") or {}
        if channel not in CHANNELS:
            raise BadInputError("channel", f"must be one of {', '.join(CHANNELS)}")
        if not isinstance(params, dict) or not all(
            isinstance(value, str | int) for value in params.values()
        ):
            raise BadInputError("params", "must be an object of strings and numbers")
        if key not in self.subscriptions and len(self.subscriptions) >= SUBSCRIPTIONS_MAX:
            raise BadInputError("id", f"at most {SUBSCRIPTIONS_MAX} subscriptions per socket")
        subscription = Subscription(channel, {name: str(value) for name, value in params.items()})
        group = _run_group(subscription) if channel == "run" else ""
        replaced = self.subscriptions.get(key)
        if replaced is not None:
            await self._leave(replaced)
        self.subscriptions[key] = subscription
        if group:
            self.groups_joined[group] = self.groups_joined.get(group, 0) + 1
            if self.groups_joined[group] == 1:
                await self.channel_layer.group_add(group, self.channel_name)
        self.wake.set()

    async def _leave(self, subscription: Subscription) -> None:
        if subscription.channel != "run":
            return
        group = _run_group(subscription)
        self.groups_joined[group] -= 1
        if self.groups_joined[group] == 0:
            del self.groups_joined[group]
            await self.channel_layer.group_discard(group, self.channel_name)

    async def run_changed(self, event: Body) -> None:
        """A run moved (channel layer, type ``run.changed``): look at it as soon as the pace allows."""
        self.wake.set()

    async def _serve(self) -> None:
        """Look at every subscription a few times a second and push what changed."""
        while True:
            self.wake.clear()
            for key in list(self.subscriptions):
                subscription = self.subscriptions.get(key)
                if subscription is None:
                    continue
                try:
                    await self._push(key, subscription)
                except ConnectionError:
                    return  # the peer is gone; disconnect() follows
                except Exception as error:
                    await self._fail(key, subscription, error)
            if buffered_bytes(self.scope[SERVER_SEND]) > BUFFERED_BYTES_MAX:
                log.warning("live feed closed: the reader is too slow")
                await self.close(code=CLOSE_SLOW)
                return
            try:
                await asyncio.wait_for(self.wake.wait(), LOOK_INTERVAL_S)
            except TimeoutError:
                continue

    async def _push(self, key: str, subscription: Subscription) -> None:
        now_s = time.monotonic()
        if now_s < subscription.due_s:
            return
        basis = _basis(subscription)
        if basis is not None and basis == subscription.basis:
            return
        body = await _body(subscription)
        if self.subscriptions.get(key) is not subscription:
            return
        subscription.basis = basis
        subscription.due_s = now_s + PUSH_INTERVAL_S
        text = _without_times(body)
        if text == subscription.seen:
            return
        subscription.seen = text
        at = body.get("at") or now_ms()
        await self._send({"id": key, "channel": subscription.channel, "at": at, "data": body})

    async def _fail(self, key: str, subscription: Subscription, error: Exception) -> None:
        """Tell once per kind of failure, and try again later: a broker may come back."""
        status, reason = describe(error)
        if status == 500:
            log.error(
                "live feed channel=%s failed error=%r", subscription.channel, error, exc_info=error
            )
        subscription.due_s = time.monotonic() + PUSH_INTERVAL_S
        subscription.basis = None
        if subscription.seen != reason:
            subscription.seen = reason
            await self._send({"id": key, "error": {"reason": reason}})

    async def _refuse(self, key: str | None, error: BadInputError) -> None:
        body = {"reason": error.reason, "field": error.field}
        await self._send({"error": body} if key is None else {"id": key, "error": body})

    async def _send(self, message: Body) -> None:
        await self.send(text_data=json.dumps(message, separators=(",", ":")))


def _id(request: Body) -> str:
    key = request.get("id")
    if not isinstance(key, str) or not 0 < len(key) <= ID_CHARS_MAX:
        raise BadInputError("id", f"must be a string of 1 to {ID_CHARS_MAX} characters")
    return key


def _run_group(subscription: Subscription) -> str:
    run_id = subscription.params.get("id", "")
    if not run_id.isalnum() or not run_id.isascii() or len(run_id) > 64:
        raise BadInputError("params", "id must be a run's id")
    return f"run.{run_id}"


def _basis(subscription: Subscription) -> object:
    """What the body depends on, when that is cheap to see: the collector's snapshot. None: compute and compare."""
    if subscription.channel in ("overview", "topics"):
        latest = collector().latest
        return latest.at if latest is not None else None
    return None


def _without_times(value: Any) -> str:
    """Text by which two bodies compare: equal numbers taken at different times are the same news."""

    def bare(item: Any) -> Any:
        if isinstance(item, dict):
            return {name: bare(part) for name, part in item.items() if name not in VOLATILE}
        return [bare(part) for part in item] if isinstance(item, list) else item

    return json.dumps(bare(value))


async def _body(subscription: Subscription) -> Body:
    """The channel's body, exactly as the GET's."""
    params = subscription.params
    if subscription.channel == "overview":
        return await _of_snapshot(selectors.overview, params)
    if subscription.channel == "topics":
        return await _of_snapshot(
            lambda given: selectors.topics(given, limit_max=TOPIC_ROWS_MAX), params
        )
    if subscription.channel == "topic":
        missing = [
            part for part in ("domain", "tenant", "namespace", "topic") if not params.get(part)
        ]
        if missing:
            raise BadInputError("params", f"{missing[0]} is missing")
        name = topic_name(params["domain"], params["tenant"], params["namespace"], params["topic"])
        return await link().arun(lambda engine: selectors.topic(engine, name))
    return await _run_body(params.get("id", ""))


async def _of_snapshot(
    selector: Callable[[dict[str, str]], Awaitable[Body]], params: dict[str, str]
) -> Body:
    return await link().arun(lambda engine: selector(params))


async def _run_body(run_id: str) -> Body:
    """The run as ``GET /api/v1/runs/{id}`` shows it. Raises what that raises."""
    from gateway.jobs import api, services  # the live feed must start without them

    def read() -> Body:
        return api.describe(services.get(run_id=run_id))

    body: Body = await database_sync_to_async(read)()
    return body
