"""Bodies of the live feed, each made once for all of its watchers.

A channel declares how its body is made. A feed is a channel with its parameters for one cluster and viewer: it starts
with the first watcher in this process and ends with the last. A body that was made for one viewer is never sent to
another (A5). Its body is made at once, then whenever it may have changed;
watchers are notified when it did. Each watcher takes the newest message when it is ready for it. A slow watcher misses
the messages between and delays no other.
"""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from channels.layers import get_channel_layer

from admin_ui.params import Params
from engine.auth.rights import Rights, all_of
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from engine.base.loop import from_any_thread
from engine.base.tasks import TaskScope
from gateway.clusters.cluster import Cluster
from gateway.http.bodies import JsonText
from gateway.http.errors import describe, hop_of
from gateway.services.clock import now_ms
from gateway.services.collection.collector import Collector

log = logging.getLogger(__name__)

GATHER_S = 0.02
"""Delay between a change and the body of a channel with a basis: the numbers that a broker counted at one moment arrive
in several answers."""
GAP_S = 0.2
"""Shortest time between a changed body of a channel with a basis and the next: brokers count at different moments."""
LEAVE_S = 1.0
"""Longest time that a feed without watchers waits for Redis."""
LISTEN_AGAIN_S = 1.0
"""Delay before the feed listens again after Redis failed."""
TIMES = re.compile(r'"(?:at|now)":\d+')
"""Members that change although nothing happened. Within a JSON string every quote follows a backslash, so that no text
matches."""

Body = dict[str, Any]
Key = tuple[Viewer, str, tuple[tuple[str, str], ...]]


MakeBody = Callable[[Viewer, Cluster, Params], Awaitable[Body | JsonText]]


class Basis(Protocol):
    """The state that a body is made of."""

    @property
    def version(self) -> object:
        """A value that is cheap to compute and equal for as long as the body would be the same."""

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed``, from any thread, when the version may differ; return a function that ends this."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A kind of body that sockets can watch. ``body(viewer, cluster, params)`` returns what the GET of the same
    parameters answers to that viewer, as a dictionary or as written text, and raises the same errors.

    A new body is made every ``interval_s``; with a ``basis`` only when the version of the cluster's changed. ``group``
    returns the name of the channel-layer group in which a message means that the body of these parameters changed; it
    raises InvalidField for wrong parameters.
    """

    name: str
    body: MakeBody
    rights: Rights
    """The rights that watching needs, with the resources that the parameters name."""
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    interval_s: float = 1.0
    basis: Callable[[Cluster], Basis] | None = None
    group: Callable[[Params], str] | None = None

    def __post_init__(self) -> None:
        """Raise TypeError without a right."""
        all_of(self.rights)

    def checked(self, given: Any) -> Params:
        """Return the parameters that a client sent. Raises InvalidField."""
        if not isinstance(given, dict) or not all(isinstance(v, str | int) for v in given.values()):
            raise InvalidField("params", "must be an object of strings and numbers")
        params = {name: str(value) for name, value in given.items() if value != ""}
        known = (*self.required, *self.optional)
        if unknown := sorted(params.keys() - set(known)):
            raise InvalidField(
                "params",
                f"{unknown[0]} is none of channel {self.name}, which accepts {', '.join(known)}",
            )
        if missing := [name for name in self.required if name not in params]:
            raise InvalidField("params", f"{missing[0]} is missing")
        if self.group is not None:
            self.group(params)
        return params


def _key(viewer: Viewer, channel: Channel, params: Params) -> Key:
    return viewer, channel.name, tuple(sorted(params.items()))


class Feed:
    """One channel with its parameters for a viewer and a cluster, on the event loop of its watchers."""

    def __init__(
        self,
        viewer: Viewer,
        cluster: Cluster,
        channel: Channel,
        params: Params,
        on_end: Callable[["Feed"], None],
    ) -> None:
        self.channel = channel
        self.key = _key(viewer, channel, params)
        self.viewer = viewer
        self.cluster = cluster
        self._on_end = on_end
        self.watches: set[FeedWatch] = set()
        self.params = params
        self._changed = asyncio.Event()
        self._text = ""
        self._seen: object = ""
        self._basis = channel.basis(cluster) if channel.basis is not None else None
        self._version: object = None
        """Version of the basis that the text was made of."""
        self._tasks = TaskScope(f"feed-{channel.name}")
        self._unwatch = self._basis.watch(self._wake()) if self._basis is not None else None
        self._tasks.spawn("produce", self._produce())
        if channel.group is not None:
            self._tasks.spawn("listen", self._listen(channel.group(params)))

    @property
    def has_text(self) -> bool:
        """True once there is a message."""
        return bool(self._text)

    @property
    def text(self) -> str:
        """The newest message as JSON members, without the id under which a watcher subscribed."""
        return self._text

    async def close(self) -> None:
        """Stop making the body; the feed has no watchers."""
        self._on_end(self)
        if self._unwatch is not None:
            self._unwatch()
        await self._tasks.close()

    async def _produce(self) -> None:
        while True:
            self._changed.clear()  # before the body is made: a change meanwhile wakes the loop again
            try:
                has_changed = await self._refresh()
            except Exception as error:
                self._fail(error)
                has_changed = True
            if self._basis is not None:
                await asyncio.sleep(GAP_S if has_changed else 0)
            elif has_changed:
                await asyncio.sleep(self.channel.interval_s)
                continue
            try:
                async with asyncio.timeout(self.channel.interval_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
            if self._basis is not None:
                await asyncio.sleep(GATHER_S)

    def _wake(self) -> Callable[[], None]:
        """Return a function that any thread may call when the body may have changed."""
        return from_any_thread(asyncio.get_running_loop(), self._changed.set)

    async def _refresh(self) -> bool:
        """Make the body if it may have changed; return whether it did."""
        version = self._basis.version if self._basis is not None else None
        if version is not None and version == self._version:
            return False
        body = await self.channel.body(self.viewer, self.cluster, self.params)
        self._version = version
        if not isinstance(body, JsonText):
            text = _written(body)
            body = JsonText(body.get("at") or now_ms(), text, TIMES.sub("", text))
        has_changed = body.seen != self._seen
        self._seen = body.seen
        # The text is replaced even when only times differ: the next watcher starts with the newest times.
        message = f'"channel":"{self.channel.name}","at":{body.at},"data":{body.text}'
        self._set_text(message, notify=has_changed)
        return has_changed

    def _fail(self, error: Exception) -> None:
        """Notify the watchers once per kind of failure; the feed continues, since a broker may recover."""
        status, reason = describe(error)
        if status == 500:
            log.error("feed channel=%s failed error=%r", self.channel.name, error, exc_info=error)
        self._version = None  # the next attempt makes the body although the version may be the same
        failure = {"reason": reason}
        if hop := hop_of(error):
            failure["hop"] = hop
        self._set_text(f'"error":{_written(failure)}', notify=self._seen != reason)
        self._seen = reason

    def _set_text(self, text: str, *, notify: bool) -> None:
        self._text = text
        if notify:
            for watch in self.watches:
                watch.notify()

    async def _listen(self, group: str) -> None:
        """Wake the feed at each message to the group, and listen again after Redis failed; meanwhile the interval alone
        wakes it."""
        failures = 0
        while True:
            try:
                await self._receive(group)
            except Exception as error:
                failures += 1
                # The first failure is expected while Redis starts with the first analysis.
                if failures == 2:
                    log.warning("feed is not woken channel=%s error=%r", self.channel.name, error)
                await asyncio.sleep(LISTEN_AGAIN_S)

    async def _receive(self, group: str) -> None:
        layer = get_channel_layer()
        name = await layer.new_channel()
        await layer.group_add(group, name)
        try:
            while True:
                await layer.receive(name)
                self._changed.set()
        finally:
            # The last watcher waits for this, and Redis may not answer.
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await layer.group_discard(group, name)


class FeedWatch:
    """One watcher of a feed. ``wake`` is set when there is a message to take."""

    def __init__(self, feed: Feed, wake: asyncio.Event) -> None:
        self.feed = feed
        self._wake = wake
        self._is_pending = False
        feed.watches.add(self)
        if feed.has_text:
            self.notify()

    def notify(self) -> None:
        """Mark the newest message as not taken, and wake the watcher."""
        self._is_pending = True
        self._wake.set()

    def take_message(self) -> str | None:
        """Return the newest message (see ``Feed.text``); None when it was taken before."""
        if not self._is_pending:
            return None
        self._is_pending = False
        return self.feed.text

    async def end(self) -> None:
        """End this watch; the last one ends the feed. Safe to call twice."""
        self.feed.watches.discard(self)
        if self.feed.watches:
            return
        await self.feed.close()


class Feeds:
    """The feeds of a cluster, by viewer, channel and parameters: one of the cluster's parts, for one event loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._feeds: dict[Key, Feed] = {}

    def __len__(self) -> int:
        return len(self._feeds)

    def watch(
        self, viewer: Viewer, channel: Channel, params: Params, wake: asyncio.Event
    ) -> FeedWatch:
        """Return a watch of the viewer's feed of ``channel`` with these checked parameters; its newest message can be
        taken at once."""
        key = _key(viewer, channel, params)
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(viewer, self._cluster, channel, params, self._forget)
        return FeedWatch(feed, wake)

    def _forget(self, feed: Feed) -> None:
        # A second end of the last watch must not remove a later feed of the same key.
        if self._feeds.get(feed.key) is feed:
            del self._feeds[feed.key]


def snapshot_body(selector: MakeBody) -> MakeBody:
    """Return the body function of a channel whose ``selector`` reads the collector's snapshot; it runs on the loop of
    the cluster's link."""

    async def body(viewer: Viewer, cluster: Cluster, params: Params) -> Body | JsonText:
        return await cluster.link.on_loop(lambda: selector(viewer, cluster, params))

    return body


def snapshot_basis(cluster: Cluster) -> Collector:
    """Return the collector, whose snapshots are the basis of a body."""
    return cluster.collector


def _written(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
