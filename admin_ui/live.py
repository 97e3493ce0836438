"""The console's live feed: WebSocket ``/api/v1/live``.

A client subscribes to channels under ids of its own. The server sends each channel's body at once and then whenever it
changed, at most five times a second. The bodies are those of the GETs, so a lost socket loses nothing. Sockets that
watch the same body for the same viewer share its feed (``admin_ui.feeds``). A socket whose reader does not keep up is
closed when 1 MiB waits for it. Once a second every socket receives the state of a cluster, whatever it watches: one
text, made once for all of them, which names parts of the instance and nothing of a tenant. It is the cluster that the
socket's ``?cluster=`` names, else the default.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from admin_ui import feeds
from admin_ui.resources import RESOURCES
from engine.auth.rights import AUTHENTICATED, all_of
from engine.base.errors import Forbidden, InvalidField, MagnetarError
from engine.base.tasks import TaskScope
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import clusters_of
from gateway.http.auth.access import authorize
from gateway.http.auth.handshakes import identify_socket
from gateway.http.auth.open_socket import OpenSocket
from gateway.http.errors import describe
from gateway.http.refusal import refuse
from gateway.http.socket_port import port_of

log = logging.getLogger(__name__)

CHANNELS = {channel.name: channel for resource in RESOURCES for channel in resource.channels}
BEATS = [resource.beat for resource in RESOURCES if resource.beat is not None]
SUBSCRIPTIONS_MAX = 32
MESSAGE_CHARS_MAX = 16_384
ID_CHARS_MAX = 64
CLOSE_SLOW = 4008
PAUSE_S = 1.0
"""Pause after a beat that could not be made."""

Body = dict[str, Any]


class Beat:
    """The periodic message to all sockets of a cluster; ``make`` as ``Resource.beat``."""

    def __init__(self, cluster: Cluster, make: Callable[[Cluster, bool], Awaitable[Body]]) -> None:
        self._cluster = cluster
        self._make = make
        self._sockets: dict[LiveFeed, None] = {}
        self._tasks: TaskScope | None = None

    async def join(self, socket: "LiveFeed") -> None:
        """Send the message to this socket at once, and then periodically until it leaves. Cancel-safe."""
        socket.send_members(await self._members(False))
        self._sockets[socket] = None
        if self._tasks is None:
            self._tasks = TaskScope("beat")
            self._tasks.spawn("keep", self._keep())

    async def leave(self, socket: "LiveFeed") -> None:
        """Send no more to this socket; without sockets the work ends. Safe to call twice."""
        self._sockets.pop(socket, None)
        if not self._sockets and self._tasks is not None:
            tasks, self._tasks = self._tasks, None
            await tasks.close()

    async def _keep(self) -> None:
        while True:
            try:
                members = await self._members(True)
            except Exception:
                log.exception("a beat could not be made")
                await asyncio.sleep(PAUSE_S)
                continue
            for socket in tuple(self._sockets):
                socket.send_members(members)

    async def _members(self, waiting: bool) -> str:
        body = await self._cluster.link.on_loop(partial(self._make, self._cluster, waiting))
        return json.dumps(body, separators=(",", ":"))[1:-1]


def beats(cluster: Cluster) -> tuple[Beat, ...]:
    """Return the periodic messages of a cluster, which are one of its parts."""
    return tuple(Beat(cluster, make) for make in BEATS)


class LiveFeed(OpenSocket):
    """One socket. Commands: subscribe, unsubscribe, ping."""

    async def connect(self) -> None:
        """Accept the socket of a caller that has the right to open one."""
        self.watches: dict[str, feeds.FeedWatch] = {}
        self.beats: tuple[Beat, ...] = ()
        self.clusters = clusters_of(self.scope)
        self.begin("live")
        self.wake = asyncio.Event()
        self.cut_off = False
        try:
            identity = self.access.identity = await identify_socket(self.scope)
            cluster = self.clusters.named(_cluster_name(self.scope))
            await authorize((AUTHENTICATED,), None, identity, cluster)
        except (MagnetarError, TimeoutError) as error:
            await refuse(self.base_send, *describe(error))
            return
        await self.accept()
        self.tasks.spawn("push", self._push())
        self.follow(identity, self._renew)
        self.beats = cluster.part(beats)
        for beat in self.beats:
            self.tasks.spawn("beat", beat.join(self))

    async def disconnect(self, code: int) -> None:
        """End the work and all watches of a socket that is closed."""
        await self.end()
        for beat in self.beats:
            await beat.leave(self)
        for key in list(self.watches):
            await self.watches.pop(key).end()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Execute one command; answer a wrong one with an error that changes nothing."""
        request: Any = None
        try:
            if text_data is None or len(text_data) > MESSAGE_CHARS_MAX:
                raise InvalidField(
                    "message", f"must be text of at most {MESSAGE_CHARS_MAX} characters"
                )
            try:
                request = json.loads(text_data)
            except (ValueError, RecursionError):
                raise InvalidField("message", "is not valid JSON") from None
            if not isinstance(request, dict):
                raise InvalidField("message", "must be a JSON object")
            await self._handle(request)
        except (MagnetarError, TimeoutError) as error:
            key = request.get("id") if isinstance(request, dict) else None
            self._refuse(key if isinstance(key, str) else None, error)

    async def _handle(self, request: Body) -> None:
        match request.get("op"):
            case "ping":
                self.send_members('"op":"pong"')
            case "subscribe":
                await self._subscribe(request)
            case "unsubscribe":
                watch = self.watches.pop(_id(request), None)
                if watch is not None:
                    await watch.end()
            case _:
                raise InvalidField("op", "must be subscribe, unsubscribe or ping")

    async def _subscribe(self, request: Body) -> None:
        key, name = _id(request), request.get("channel")
        channel = CHANNELS.get(name) if isinstance(name, str) else None
        if channel is None:
            raise InvalidField("channel", f"must be one of {', '.join(CHANNELS)}")
        params = channel.checked(request.get("params") or {})
        cluster = self.clusters.named(params.get("cluster", ""))
        if key not in self.watches and len(self.watches) >= SUBSCRIPTIONS_MAX:
            raise InvalidField("id", f"at most {SUBSCRIPTIONS_MAX} subscriptions per socket")
        await self.access.follow(cluster)
        async with self.access.lock:
            # A3: judged before a feed is made or joined.
            viewer = await self.access.viewer(all_of(channel.rights), params, cluster)
            watched = cluster.part(feeds.Feeds)
            await self._put(key, watched.watch(viewer, channel, params, self.wake))

    async def _put(self, key: str, watch: feeds.FeedWatch) -> None:
        replaced = self.watches.get(key)
        # The new watch begins before the old one ends: the same feed then has a watcher all the time and continues.
        self.watches[key] = watch
        if replaced is not None:
            await replaced.end()

    async def _renew(self) -> None:
        """End the watches that are no longer allowed (A20), and renew those of a viewer that sees something else."""
        for key, watch in list(self.watches.items()):
            feed = watch.feed
            refusal: Forbidden | None = None
            viewer = feed.viewer
            try:
                rights = all_of(feed.channel.rights)
                viewer = await self.access.viewer(rights, feed.params, feed.cluster)
            except Forbidden as error:
                refusal = error
            if self.watches.get(key) is not watch:
                continue  # unsubscribed meanwhile
            if refusal is not None:
                del self.watches[key]
                await watch.end()
                self._refuse(key, refusal)
            elif viewer != feed.viewer:
                watched = feed.cluster.part(feeds.Feeds)
                await self._put(key, watched.watch(viewer, feed.channel, feed.params, self.wake))

    async def _push(self) -> None:
        """Send the messages of the feeds, each the newest of its subscription, once."""
        while True:
            await self.wake.wait()
            self.wake.clear()
            for key, watch in list(self.watches.items()):
                message = watch.take_message()
                if message is not None and self.watches.get(key) is watch:
                    self.send_members(f'"id":{json.dumps(key)},{message}')

    def _refuse(self, key: str | None, error: Exception) -> None:
        body = {"reason": describe(error)[1]}
        if isinstance(error, InvalidField):
            body["field"] = error.field
        id_member = "" if key is None else f'"id":{json.dumps(key)},'
        self.send_members(f'{id_member}"error":{json.dumps(body)}')

    def send_members(self, members: str) -> None:
        """Send a message of these JSON members. The server's buffer accepts it at once. The socket of a reader that
        lets the buffer grow is closed; nothing waits for it."""
        if self.cut_off:
            return
        port = port_of(self.scope)
        if port.writable:
            port.send_text(f"{{{members}}}")
        else:
            log.warning("live feed closed: the reader is too slow")
            self.cut_off = True
            self.tasks.spawn("close", self.close(code=CLOSE_SLOW))


def _cluster_name(scope: dict[str, Any]) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get("cluster", [""])[-1]


def _id(request: Body) -> str:
    key = request.get("id")
    if not isinstance(key, str) or not 0 < len(key) <= ID_CHARS_MAX:
        raise InvalidField("id", f"must be a string of 1 to {ID_CHARS_MAX} characters")
    return key
