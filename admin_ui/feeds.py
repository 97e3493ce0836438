"""One body for all who watch it.

A channel says how its body is made. A feed is a channel with its parameters: it starts with the first watcher in this
process and ends with the last. Its body is made at once, then whenever it may have changed, and told when it did. Each
watcher takes the newest message in its own time; one that is slow misses what came in between and holds nobody.
"""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer

from admin_ui.params import Params, require_served
from engine.base.errors import InvalidField
from engine.base.tasks import TaskScope
from gateway.http.bodies import Written
from gateway.http.errors import describe, hop_of
from gateway.services.collector import collector, now_ms
from gateway.services.engine_link import link

log = logging.getLogger(__name__)

GATHER_S = 0.02
"""From a change to the body of a channel with a basis: what a broker counted at once comes in several answers."""
GAP_S = 0.2
"""Between news of a channel with a basis and the next body: several brokers count at different moments."""
LEAVE_S = 1.0
"""How long a feed that nobody watches any more waits for Redis."""
LISTEN_AGAIN_S = 1.0
"""After Redis did not answer."""
TIMES = re.compile(r'"(?:at|now)":\d+')
"""Members that change without anything having happened; within a JSON string no quote stands without a backslash."""

Body = dict[str, Any]
Key = tuple[str, tuple[tuple[str, str], ...]]


class Basis(Protocol):
    """What a body depends on."""

    def version(self) -> object:
        """Cheap, and equal for as long as the body would be the same."""

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Have ``changed`` called, in any thread, when the version may be another, until what is returned is called."""


@dataclass(frozen=True, slots=True)
class Channel:
    """``body(params)`` makes what the GET of the same parameters answers, written or not, and raises what that raises.

    A new body is made every ``interval_s``; with a ``basis`` when that has changed, and only then. ``group`` names the
    channel-layer group in which a message means that the body of these parameters changed; it refuses wrong ones.
    """

    name: str
    body: Callable[[Params], Awaitable[Body | Written]]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    interval_s: float = 1.0
    basis: Basis | None = None
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
        self.watches: set[FeedWatch] = set()
        self._params = params
        self._changed = asyncio.Event()
        self._text = ""
        self._seen: object = ""
        self._basis: object = None
        self._tasks = TaskScope(f"feed-{channel.name}")
        self._unwatch = channel.basis.watch(self._wake()) if channel.basis is not None else None
        self._tasks.spawn("produce", self._produce())
        if channel.group is not None:
            self._tasks.spawn("listen", self._listen(channel.group(params)))

    @property
    def told(self) -> bool:
        """Whether there is a message yet."""
        return bool(self._text)

    @property
    def text(self) -> str:
        """The newest message as JSON members, without the id under which a watcher subscribed."""
        return self._text

    async def close(self) -> None:
        """End the work; nobody watches any more."""
        if self._unwatch is not None:
            self._unwatch()
        await self._tasks.close()

    async def _produce(self) -> None:
        while True:
            self._changed.clear()
            try:
                news = await self._look()
            except Exception as error:
                self._fail(error)
                news = True
            if self.channel.basis is not None:
                await asyncio.sleep(GAP_S if news else 0)
            elif news:
                await asyncio.sleep(self.channel.interval_s)
                continue
            try:
                async with asyncio.timeout(self.channel.interval_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
            if self.channel.basis is not None:
                await asyncio.sleep(GATHER_S)

    def _wake(self) -> Callable[[], None]:
        """For any thread to say that the body may have changed."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            if asyncio._get_running_loop() is loop:
                self._changed.set()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(self._changed.set)

        return wake

    async def _look(self) -> bool:
        """Make the body if it may have changed; whether it did."""
        basis = self.channel.basis.version() if self.channel.basis is not None else None
        if basis is not None and basis == self._basis:
            return False
        body = await self.channel.body(self._params)
        self._basis = basis
        if not isinstance(body, Written):
            text = _written(body)
            body = Written(body.get("at") or now_ms(), text, TIMES.sub("", text))
        is_news = body.seen != self._seen
        self._seen = body.seen
        # also without news: who comes next gets the newest times
        told = f'"channel":"{self.channel.name}","at":{body.at},"data":{body.text}'
        self._put(told, tell=is_news)
        return is_news

    def _fail(self, error: Exception) -> None:
        """Tell once per kind of failure, and go on: a broker may come back."""
        status, reason = describe(error)
        if status == 500:
            log.error("feed channel=%s failed error=%r", self.channel.name, error, exc_info=error)
        self._basis = None
        told = {"reason": reason}
        if hop := hop_of(error):
            told["hop"] = hop
        self._put(f'"error":{_written(told)}', tell=self._seen != reason)
        self._seen = reason

    def _put(self, text: str, *, tell: bool) -> None:
        self._text = text
        if tell:
            for watch in self.watches:
                watch.tell()

    async def _listen(self, group: str) -> None:
        """Wake at each message to the group, and again after Redis was away; meanwhile the interval alone wakes."""
        failing = False
        while True:
            try:
                await self._heed(group)
            except Exception as error:
                if not failing:
                    log.warning("feed is not woken channel=%s error=%r", self.channel.name, error)
                failing = True
                await asyncio.sleep(LISTEN_AGAIN_S)

    async def _heed(self, group: str) -> None:
        layer = get_channel_layer()
        name = await layer.new_channel()
        await layer.group_add(group, name)
        try:
            while True:
                await layer.receive(name)
                self._changed.set()
        finally:
            with suppress(TimeoutError):  # Redis may be silent, and whoever leaves waits for this
                async with asyncio.timeout(LEAVE_S):
                    await layer.group_discard(group, name)


class FeedWatch:
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


def watch(channel: Channel, params: Params, wake: asyncio.Event) -> FeedWatch:
    """Watch the feed of ``channel`` with these checked parameters; its newest message is there to take at once."""
    feeds = _feeds.setdefault(asyncio.get_running_loop(), {})
    feed = feeds.get(_key(channel, params))
    if feed is None:
        feed = Feed(channel, params)
        feeds[feed.key] = feed
    return FeedWatch(feed, wake)


def of_snapshot(
    selector: Callable[[Params], Awaitable[Body | Written]],
) -> Callable[[Params], Awaitable[Body | Written]]:
    """The body of a channel whose ``selector`` reads the collector's snapshot, on the engine link's loop."""

    async def body(params: Params) -> Body | Written:
        return await link().on_loop(lambda: selector(params))

    return body


class OfCollector:
    """The basis of bodies that are made of the collector's snapshot."""

    def version(self) -> object:
        """Which snapshot; None before the first."""
        return collector().version

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """See ``Basis``."""
        return collector().watch(changed)


def _written(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
