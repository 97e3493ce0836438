"""One body for all who watch it.

A channel says how its body is made. A feed is a channel with its parameters: it starts with the first watcher in this
process and ends with the last. Its body is made at once, then whenever it may have changed, and told when it did, at
most once in ``interval_s``. Each watcher takes the newest message in its own time; one that is slow misses what came
in between and holds nobody.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer

from admin_ui.params import Params, require_served
from engine.base.errors import InvalidField
from engine.base.tasks import TaskScope
from gateway.http.errors import describe
from gateway.services.collector import collector, now_ms
from gateway.services.engine_link import link

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.25
VOLATILE = frozenset({"at", "now"})
"""Members that change without anything having happened."""

Body = dict[str, Any]
Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Channel:
    """``body(params)`` makes what the GET of the same parameters answers, and raises what that raises.

    ``basis`` tells cheaply what the body depends on: while it stays equal, no body is made. ``group`` names the
    channel-layer group in which a message means that the body of these parameters changed; it refuses wrong ones.
    """

    name: str
    body: Callable[[Params], Awaitable[Body]]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    interval_s: float = 1.0
    basis: Callable[[], object] | None = None
    group: Callable[[Params], str] | None = None

    def checked(self, given: Any) -> Params:
        """Parameters as they came from a client. Raises InvalidField, and NotFound for another's cluster."""
        if not isinstance(given, dict) or not all(isinstance(v, str | int) for v in given.values()):
            raise InvalidField("params", "must be an object of strings and numbers")
        params = {name: str(value) for name, value in given.items() if value != ""}
        known = (*self.required, *self.optional)
        if unknown := sorted(params.keys() - set(known)):
            raise InvalidField(
                "params",
                f"{unknown[0]} is none of channel {self.name}, which takes {', '.join(known)}",
            )
        if missing := [name for name in self.required if name not in params]:
            raise InvalidField("params", f"{missing[0]} is missing")
        if "cluster" in params:
            require_served(params["cluster"])
        if self.group is not None:
            self.group(params)
        return params


def _key(channel: Channel, params: Params) -> Key:
    return channel.name, tuple(sorted(params.items()))


class Feed:
    """One channel with its parameters, on the event loop of its watchers."""

    def __init__(self, channel: Channel, params: Params) -> None:
        self.channel = channel
        self.key = _key(channel, params)
        self.watches: set[Watch] = set()
        self._params = params
        self._changed = asyncio.Event()
        self._message: Body | None = None
        self._text: str | None = None
        self._seen = ""
        self._basis: object = None
        self._tasks = TaskScope(f"feed-{channel.name}")
        self._tasks.spawn("produce", self._produce())
        if channel.group is not None:
            self._tasks.spawn("listen", self._listen(channel.group(params)))

    @property
    def told(self) -> bool:
        """Whether there is a message yet."""
        return self._message is not None

    @property
    def text(self) -> str:
        """The newest message as JSON members, without the id under which a watcher subscribed."""
        if self._text is None:
            self._text = json.dumps(self._message, separators=(",", ":"))[1:-1]
        return self._text

    async def close(self) -> None:
        """End the work; nobody watches any more."""
        await self._tasks.close()

    async def _produce(self) -> None:
        while True:
            self._changed.clear()
            try:
                news = await self._look()
            except Exception as error:
                self._fail(error)
                news = True
            if news:
                await asyncio.sleep(self.channel.interval_s)
                continue
            cheap = self.channel.basis is not None
            try:
                async with asyncio.timeout(LOOK_INTERVAL_S if cheap else self.channel.interval_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _look(self) -> bool:
        """Make the body if it may have changed; whether it did."""
        basis = self.channel.basis() if self.channel.basis is not None else None
        if basis is not None and basis == self._basis:
            return False
        body = await self.channel.body(self._params)
        self._basis = basis
        at = body.get("at") or now_ms()
        seen = _without_times(body)
        is_news = seen != self._seen
        self._seen = seen
        # also without news: who comes next gets the newest times
        self._put({"channel": self.channel.name, "at": at, "data": body}, tell=is_news)
        return is_news

    def _fail(self, error: Exception) -> None:
        """Tell once per kind of failure, and go on: a broker may come back."""
        status, reason = describe(error)
        if status == 500:
            log.error("feed channel=%s failed error=%r", self.channel.name, error, exc_info=error)
        self._basis = None
        told = {"reason": reason}
        if hop := getattr(error, "hop", ""):
            told["hop"] = hop
        self._put({"error": told}, tell=self._seen != reason)
        self._seen = reason

    def _put(self, message: Body, *, tell: bool) -> None:
        self._message, self._text = message, None
        if tell:
            for watch in self.watches:
                watch.tell()

    async def _listen(self, group: str) -> None:
        layer = get_channel_layer()
        name = await layer.new_channel()
        await layer.group_add(group, name)
        try:
            while True:
                await layer.receive(name)
                self._changed.set()
        finally:
            await layer.group_discard(group, name)


class Watch:
    """One watcher of a feed. ``wake`` is set when there is something to take."""

    def __init__(self, feed: Feed, wake: asyncio.Event) -> None:
        self.feed = feed
        self._wake = wake
        self._untaken = False
        feed.watches.add(self)
        if feed.told:
            self.tell()

    def tell(self) -> None:
        """There is a message that was not taken."""
        self._untaken = True
        self._wake.set()

    def take(self) -> str | None:
        """The newest message (see ``Feed.text``), None when it was taken before."""
        if not self._untaken:
            return None
        self._untaken = False
        return self.feed.text

    async def end(self) -> None:
        """Watch no longer; the last one ends the feed. Safe to call twice."""
        self.feed.watches.discard(self)
        if self.feed.watches:
            return
        feeds = _feeds[asyncio.get_running_loop()]
        if feeds.get(self.feed.key) is self.feed:
            del feeds[self.feed.key]
        await self.feed.close()


_feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, Feed]] = WeakKeyDictionary()


def watch(channel: Channel, params: Params, wake: asyncio.Event) -> Watch:
    """Watch the feed of ``channel`` with these checked parameters; its newest message is there to take at once."""
    feeds = _feeds.setdefault(asyncio.get_running_loop(), {})
    feed = feeds.get(_key(channel, params))
    if feed is None:
        feed = Feed(channel, params)
        feeds[feed.key] = feed
    return Watch(feed, wake)


def of_snapshot(
    selector: Callable[[Params], Awaitable[Body]],
) -> Callable[[Params], Awaitable[Body]]:
    """The body of a channel whose ``selector`` reads the collector's snapshot, on the engine link's loop."""

    async def body(params: Params) -> Body:
        return await link().on_loop(lambda: selector(params))

    return body


def snapshot_version() -> object:
    """A channel's ``basis``: which of the collector's snapshots; None before the first."""
    return collector().version


def _without_times(value: Any) -> str:
    """Text by which two bodies compare: equal numbers taken at different times are the same news."""

    def bare(item: Any) -> Any:
        if isinstance(item, dict):
            return {name: bare(part) for name, part in item.items() if name not in VOLATILE}
        return [bare(part) for part in item] if isinstance(item, list) else item

    return json.dumps(bare(value))
