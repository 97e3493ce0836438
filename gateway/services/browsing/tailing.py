"""Messages of a topic as they are published, for all who watch it: one reading, which each watcher filters for itself.

Each message since a watch began counts once: it is shown, it does not match, or it is passed over, because the watch is
paused or shows as many a second as it may. Nothing moves a cursor or creates a subscription.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.client.client import PulsarClient
from gateway.services import catalog
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.opening import BrowsedMessage
from gateway.services.browsing.tail_parts import (
    AGAIN_S,
    Attaching,
    FollowedPart,
    StoredPart,
    TailPart,
)
from gateway.services.browsing.values import TopicValues
from gateway.services.clock import now_ms
from gateway.services.engine_link import CALL_TIMEOUT_S, Engine, EngineLink

EVERY_S = 0.25
"""Delay between reads while nothing is published, and PER_PARTITION_S for each partition."""
PER_PARTITION_S = 0.01
ROWS_MAX = 200
"""Messages of a watch that wait to be sent; further ones are passed over."""
MakePart = Callable[[TopicName], TailPart]


class TopicTail:
    """The reading of one topic from its present end on, for its watches, on their event loop."""

    def __init__(
        self,
        link: EngineLink,
        topic: TopicName,
        make_part: MakePart,
        ended: Callable[[TopicName], None],
    ) -> None:
        self.topic = topic
        self.values = TopicValues(topic)
        self.watches: set[TailWatch] = set()
        self.since_ms: int | None = None
        """The time at which it began; None while the end of the topic is not known."""
        self._end_s: float | None = None
        """The time at which the end of the topic was last reached, if more was published since; None at the end."""
        self._link = link
        self._make_part = make_part
        self._ended = ended
        self._parts: list[TailPart] = []
        self._tasks = TaskScope("tail")
        self._tasks.spawn("follow", self._follow())

    @property
    def partitions(self) -> int:
        """The number of partitions, 0 of a plain topic."""
        return 0 if [part.name for part in self._parts] == [self.topic] else len(self._parts)

    @property
    def behind_ms(self) -> int:
        """The time since the end of the topic was reached; 0 at the end."""
        return 0 if self._end_s is None else round((monotonic() - self._end_s) * 1000)

    @property
    def problem(self) -> str:
        """The reason for which it, or a partition, cannot be read at present; empty while all are read."""
        return next((part.problem for part in self._parts if part.problem), self._problem)

    _problem = ""

    async def leave(self, watch: "TailWatch") -> None:
        """End a watch; the last one ends the reading. Safe to call twice."""
        self.watches.discard(watch)
        if not self.watches:
            self._ended(self.topic)
            await self._tasks.close()
            for part in self._parts:
                part.close()

    async def _follow(self) -> None:
        while True:
            problem = self.problem
            try:
                fresh, more = await self._link.arun(self._read, timeout_s=CALL_TIMEOUT_S)
                self._problem = ""
            except (MagnetarError, TimeoutError, OSError) as error:
                self._problem = str(error) or "no answer in time"
                self._wake()
                await asyncio.sleep(AGAIN_S)
                continue
            if self.since_ms is None:
                self.since_ms = now_ms()
                self._wake()
            if self.problem != problem:  # also where nothing can be read, and so nothing arrives
                self._wake()
            if fresh:
                await self._offer(fresh)
            self._end_s = (self._end_s or monotonic()) if more else None
            if not more:
                await asyncio.sleep(EVERY_S + PER_PARTITION_S * len(self._parts))

    async def _read(self, engine: Engine) -> tuple[list[tuple[int, BrowsedMessage]], bool]:
        """Return the messages behind those that were read, with their partitions, and whether there may be more now."""
        if not self._parts:
            count = await catalog.partition_count(engine.store, self.topic)
            names = [self.topic.partition_at(index) for index in range(count)] or [self.topic]
            parts = [self._make_part(name) for name in names]
            await catalog.each(parts, lambda part: part.find_place(engine))
            self._parts = parts
            return [], True
        await catalog.each(self._parts, lambda part: part.read(engine))
        await self.values.fetch(engine, [row for part in self._parts for row in part.ready])
        # Taken behind the last wait: what a failed or cancelled read has read is offered by the next one.
        more = any(part.more for part in self._parts)
        fresh = [(part.name.partition, row) for part in self._parts for row in part.take()]
        fresh.sort(key=lambda row: row[1].publish_ms)
        return fresh, more

    async def _offer(self, fresh: Sequence[tuple[int, BrowsedMessage]]) -> None:
        for watch in list(self.watches):
            matching = fresh
            if not watch.wanted.empty:
                # In a thread: a page may hold megabytes of values to decode.
                matching = await asyncio.to_thread(self._matching, watch.wanted, fresh)
            watch.offer(len(fresh), matching)

    def _matching(
        self, wanted: MessageFilter, fresh: Sequence[tuple[int, BrowsedMessage]]
    ) -> list[tuple[int, BrowsedMessage]]:
        return [row for row in fresh if wanted.matches(row[1], self.values.text)]

    def _wake(self) -> None:
        for watch in self.watches:
            watch.wake.set()


class TailWatch:
    """One watch of a topic. ``per_second``: messages that it shows at most; ``wake`` is set when something changed."""

    def __init__(self, tail: TopicTail, wanted: MessageFilter, per_second: int) -> None:
        self.tail = tail
        self.wanted = wanted
        self.wake = asyncio.Event()
        self.paused = False
        self.received = self.filtered = self.passed_over = self.shown = 0
        self._rows: deque[tuple[int, BrowsedMessage]] = deque()
        self._per_second = per_second
        self._left = float(per_second)
        self._at_s = monotonic()
        tail.watches.add(self)

    def offer(self, count: int, matching: Sequence[tuple[int, BrowsedMessage]]) -> None:
        """Receive ``count`` messages, of which those of ``matching`` meet the conditions."""
        self.received += count
        self.filtered += count - len(matching)
        now_s = monotonic()
        self._left = min(
            self._left + (now_s - self._at_s) * self._per_second, float(self._per_second)
        )
        self._at_s = now_s
        free = 0 if self.paused else min(int(self._left), ROWS_MAX - len(self._rows))
        taken = matching[:free]
        self._left -= len(taken)
        self.passed_over += len(matching) - len(taken)
        self._rows += taken
        self.wake.set()

    def take(self) -> list[tuple[int, BrowsedMessage]]:
        """Remove and return the messages to show, which count as shown from now on."""
        rows = list(self._rows)
        self._rows.clear()
        self.shown += len(rows)
        return rows

    @property
    def waiting(self) -> int:
        """Number of messages that wait to be shown: what is received and not yet counted otherwise."""
        return len(self._rows)

    async def end(self) -> None:
        """End this watch. Safe to call twice."""
        await self.tail.leave(self)


class Tails:
    """The tails of a cluster's topics that are watched, on one event loop. With a ``client`` brokers send the messages
    to it; without one they are read from storage."""

    def __init__(self, link: EngineLink, client: Callable[[], PulsarClient] | None = None) -> None:
        self._link = link
        self._client = client
        self._tails: dict[TopicName, TopicTail] = {}

    def __len__(self) -> int:
        return len(self._tails)

    def watch(self, topic: TopicName, wanted: MessageFilter, per_second: int) -> TailWatch:
        """Return a watch of the topic, which shares the reading with all others."""
        tail = self._tails.get(topic)
        if tail is None:
            make_part: MakePart = StoredPart
            if self._client is not None:
                make_part = partial(FollowedPart, attaching=Attaching(self._client()))
            tail = self._tails[topic] = TopicTail(self._link, topic, make_part, self._forget)
        return TailWatch(tail, wanted, per_second)

    def _forget(self, topic: TopicName) -> None:
        # A second end of the last watch must not remove a later tail of the topic.
        tail = self._tails.get(topic)
        if tail is not None and not tail.watches:
            del self._tails[topic]
