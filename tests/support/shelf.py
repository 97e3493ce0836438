"""A subscription over entries in memory, in simulated time: quick enough for thousands of steps.

Cursor, source and dispatchers are the shipped ones; only what stores entries is replaced.
"""

import asyncio
import functools
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from engine.auth.judge import AllowAll
from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.control.counters import Traffic
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.policies import (
    DispatchPolicies,
    TopicPolicies,
)
from engine.broker.ports import BrokerIdentity
from engine.broker.settings import DataPathSettings
from engine.broker.topics.rates import BrokerRates, RatesHost, TopicRates
from engine.broker.topics.subscriptions.subscription import (
    Subscription,
    SubscriptionHost,
    SubscriptionOwner,
)
from engine.ledger.errors import NoSuchEntryError, NoSuchLedgerError, NotEnoughBookiesError
from engine.managed.ack_state import AckState
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.index_ledgers import IndexLedgers
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.reading.backlog import BacklogCache
from engine.managed.reading.entries import LogEntries
from engine.managed.reading.entry_cache import EntryCache
from engine.managed.reading.reads import LedgerReads
from engine.managed.settings import ManagedSettings
from engine.net.handshake import allow_all
from tests.sim.kit.loop import SimLoop, simulate
from tests.support.broker_bench import Client
from tests.support.raw_client import entry_of

EXACT = TopicPolicies(dispatch=DispatchPolicies(delay_tick_ms=1))
READ_S = 0.001
"""Time that a read of stored entries takes, in seconds."""


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make ``test`` an ordinary function that runs on a loop of its own, in virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def checked(loop: SimLoop) -> None:
            await test(*args, **kwargs)
            assert not loop.failures, loop.failures

        simulate(0, checked, limit_s=1e6)

    return run


class Shelf:
    """Entries of a topic. A read of those beyond ``tail_bytes`` takes ``READ_S``, as from storage."""

    def __init__(self, tail_bytes: int = 1 << 20, ledger_entries: int = 8) -> None:
        self.line = LedgerLine()
        self.tail = EntryCache(tail_bytes).tail()
        self.clock = LoopClock()
        self.entropy = RandomEntropy()
        self.entries = LogEntries(
            self.line,
            self.tail,
            cast(LedgerReads, self),
            BacklogCache(1 << 12),
            TaskScope("shelf"),
            ManagedSettings().read_ahead_bytes,
            ManagedSettings().read_ahead_ranges,
        )
        self.places: list[Position] = []
        self._ledger_entries = ledger_entries
        self._runs: list[Slice] = []

    def append(self, entries: Sequence[bytes], counts: Sequence[int]) -> list[Position]:
        """Append entries with their numbers of messages in one slice. A full ledger is followed by the next."""
        if not self.line.ledgers or self.line.last.entries >= self._ledger_entries:
            self.line.push(LedgerSpan(3 + 2 * len(self.line.ledgers)))
        spans: list[int] = []
        for entry in entries:
            at = spans[-1] if spans else 0
            spans += at, at + len(entry)
        ledger = self.line.last
        counted = list(counts) if max(counts) > 1 else None
        run = Slice(b"".join(entries), spans, spans[-1], counted, ledger.ledger_id, ledger.entries)
        start = self.line.durable_to
        self._runs += [run] * run.count
        self.line.grow(run.count, run.size)
        self.tail.append(start, run)
        new = [run.position(i) for i in range(run.count)]
        self.places += new
        return new

    def entry(self, i: int) -> bytes:
        """Return the bytes of the ``i``-th entry."""
        run = self._runs[i]
        return run.entry(self.places[i].entry_id - run.first)

    async def fetch(self, start: int, stop: int, bytes_max: int) -> list[Slice]:
        """Fetch one entry, unlike ``LedgerReads.fetch``, so that reads end at every entry."""
        await asyncio.sleep(READ_S)
        run = self._runs[start]
        i = self.places[start].entry_id - run.first
        entry = run.entry(i)
        counts = None if run.counts is None else run.counts[i : i + 1]
        return [Slice(entry, [0, len(entry)], len(entry), counts, run.ledger_id, run.first + i)]


class ShelfReader:
    """The ``LedgerReader`` of an index in memory."""

    def __init__(self, ledger_id: int, parts: list[bytes]) -> None:
        self.ledger_id = ledger_id
        self.last_confirmed = len(parts) - 1
        self._parts = parts

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        await asyncio.sleep(READ_S)
        part = self._parts[first]
        if not part:
            raise NoSuchEntryError(f"entry {first} of ledger {self.ledger_id} is lost")
        return [Slice(part, [0, len(part)], len(part), None, self.ledger_id, first)]


class ShelfIndex:
    """``IndexLedgers`` in memory. While ``failing``, writes are refused. A part without bytes is lost."""

    def __init__(self) -> None:
        self.stored: dict[int, int] = {}
        self.ledgers: dict[int, list[bytes]] = {}
        self.failing = False
        self.writes = 0
        self.reads = 0

    async def write(self, parts: AsyncIterable[bytes]) -> int:
        written = []
        async for part in parts:
            await asyncio.sleep(READ_S)
            if self.failing:
                raise NotEnoughBookiesError("no bookies")
            written.append(part)
        self.writes += 1
        self.ledgers[self.writes] = written
        return self.writes

    def discard(self, ledger_id: int) -> None:
        if ledger_id not in self.stored:
            self.ledgers.pop(ledger_id, None)

    async def put(self, index: Mapping[int, int]) -> None:
        await asyncio.sleep(READ_S)
        for gone in self.stored.keys() - index.keys():
            del self.ledgers[gone]
        self.stored = dict(index)

    async def reader(self, ledger_id: int) -> ShelfReader:
        await asyncio.sleep(READ_S)
        self.reads += 1
        if ledger_id not in self.ledgers:
            raise NoSuchLedgerError(f"ledger {ledger_id} is lost")
        return ShelfReader(ledger_id, self.ledgers[ledger_id])


class Reading:
    """A subscription over a shelf, and its consumers."""

    def __init__(
        self,
        settings: DataPathSettings,
        tail_bytes: int = 1 << 20,
        ledger_entries: int = 8,
        policies: TopicPolicies = EXACT,
    ) -> None:
        self.shelf = Shelf(tail_bytes, ledger_entries)
        self.settings = settings
        self.index = ShelfIndex()
        index = cast(IndexLedgers, self.index)
        self.cursor = Cursor("s", AckState(), self.shelf.entries, {}, None, index)
        context = Context(
            settings,
            self.shelf.clock,
            self.shelf.entropy,
            BrokerIdentity("test", "b", 0),
            AllowAll(),
            allow_all,
        )
        self.topic = topic = SimpleNamespace(
            name=TopicName.parse("persistent://public/default/shelf"),
            policies=policies,
            published=Traffic(),
            arrange_stages=lambda: None,
            context=context,
            log=None,
            closing=False,
            terminated=False,
            migration=SimpleNamespace(begun=False),
            aborted=(),
            touched=lambda: None,
            delivery_observer=lambda subscription: None,
        )
        owner = SimpleNamespace(
            check_room=lambda _: None,
            abandoned=lambda _: None,
            abandoned_later=lambda _: None,
        )
        topic.rates = self.rates = TopicRates(cast(RatesHost, topic), BrokerRates(context))
        host, siblings = cast(SubscriptionHost, topic), cast(SubscriptionOwner, owner)
        self.subscription = Subscription(host, siblings, self.cursor)
        self._joined = 0

    @property
    def now_ms(self) -> int:
        return self.shelf.clock.wall_ms()

    def append(
        self,
        entries: int,
        messages: int = 1,
        delay_ms: int | None = None,
        keys: Sequence[str] = (),
    ) -> list[Position]:
        """Append ``entries`` of ``messages`` each. ``delay_ms``: delivery time from now; a negative one has passed.

        ``keys``: a key for each entry, or none.
        """
        at = {} if delay_ms is None else {"deliver_at_time": self.now_ms + delay_ms}
        keyed = [entry_of(b"v", **at, partition_key=key) for key in keys]
        return self.shelf.append(keyed or [entry_of(b"v", **at)] * entries, [messages] * entries)

    def publish(self, entries: int, messages: int = 1, delay_ms: int | None = None) -> None:
        self.append(entries, messages, delay_ms)
        self.subscription.dispatch.wake()

    async def join(
        self,
        client: Client,
        permits: int = 0,
        kind: SubscriptionType = SubscriptionType.SHARED,
        keys: KeyPolicy | None = None,
        priority: int = 0,
    ) -> Consumer:
        """Attach a consumer. ``keys`` makes the subscription Key_Shared."""
        self._joined += 1
        if kind == SubscriptionType.KEY_SHARED and keys is None:
            keys = KeyPolicy()
        consumer = Consumer(
            client,
            self._joined,
            f"c{self._joined}",
            kind if keys is None else SubscriptionType.KEY_SHARED,
            settings=self.settings,
            partition=-1,
            now_ms=0,
            priority=priority,
            keys=keys,
        )
        assert await self.subscription.attach(consumer)
        if permits:
            self.subscription.flow(consumer, permits)
        return consumer
