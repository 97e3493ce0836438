"""A topic with cursors against a small model: operations in any order, over closes, crashes and takeovers.

Short with fixed examples by default; MAGNETAR_MODEL_EXAMPLES=2000 searches for new ones.
"""

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine.base.ids import LATEST, Position
from engine.managed.cursors.cursor import Cursor
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import LedgerConfig, ManagedSettings
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Brokers, Sink, publish, rolling
from tests.support.virtual_time import VirtualLoop

T = TypeVar("T")
EXAMPLES = int(os.environ.get("MAGNETAR_MODEL_EXAMPLES", "0"))
ALL = 0b111
"""Messages of a batch: every entry counts as a batch of three."""
NAMES = st.sampled_from(["a", "b"])
WHO = st.integers(0, 1)
ENTRIES = st.integers(0, 30)
SMALL = ManagedSettings(
    cache_bytes_max=60,
    read_ahead_bytes=12,
    read_ahead_total_bytes_max=40,
    cursor_persist_interval_s=3600,
    cursor_ledger_entries_max=3,
    cursor_inline_ranges_max=2,
    retry_initial_s=0.01,
    open_timeout_s=60.0,
    cursor_load_timeout_s=30.0,
)


class World:
    """Bookies and an event loop for all examples; each has a topic of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.brokers = self.run(self._start())
        self.topics = 0

    async def _start(self) -> Brokers:
        brokers = Brokers()
        await brokers.start()
        return brokers

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def close(self) -> None:
        self.run(self.brokers.close())
        self.runner.close()


class Acks:
    """Expected state of a cursor: bits per entry not acknowledged. ``sure`` survives a crash, ``now`` may."""

    def __init__(self, now: dict[int, int], next_read: int) -> None:
        self.now = now
        self.sure = dict(now)
        self.next = next_read


def in_loop(step: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Return the step as a plain function, as Hypothesis requires: it has ended when it returns."""

    @functools.wraps(step)
    def run(self: "TopicMachine", **drawn: Any) -> None:
        self.world.run(step(self, **drawn))

    return run


class TopicMachine(RuleBasedStateMachine):
    """Steps of the model. Entries are numbered from 0 in the order of confirmation; the first ``gone`` are trimmed."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.world.topics += 1
        self.name = f"public/default/persistent/t{self.world.topics}"
        self.places: list[Position] = []
        self.acks: dict[str, Acks] = {}
        self.gone = 0

    @initialize(entries=st.integers(2, 6))
    @in_loop
    async def begin(self, entries: int) -> None:
        self.config: LedgerConfig = rolling(entries)
        await self.open()
        await self.add_cursor("a", earliest=True)

    async def open(self) -> None:
        self.factory: ManagedLedgerFactory = self.world.brokers.broker(
            SMALL, session_timeout_s=120.0
        )
        self.ledger: ManagedLedger = await self.factory.open(self.name, self.config)

    def nearest(self, entry: int) -> int:
        """Return an existing entry for any number; the last trimmed one when none exists."""
        kept = len(self.places) - self.gone
        return self.gone + entry % kept if kept else len(self.places) - 1

    def cursor(self, name: str) -> Cursor:
        return self.ledger.cursors[name]

    # What clients do

    @rule(count=st.integers(3, 12), batch=st.integers(1, 4))
    @in_loop
    async def publish(self, count: int, batch: int) -> None:
        sink: Sink = await publish(self.ledger, len(self.places), count, batch)
        fresh = [Position(*place) for place in sink.positions]
        assert fresh == sorted(fresh)
        assert not self.places or fresh[0] > self.places[-1], "M3"
        self.places += fresh
        for acks in self.acks.values():
            for i in range(len(self.places) - count, len(self.places)):
                acks.now[i] = acks.sure[i] = ALL

    @rule(name=NAMES, earliest=st.booleans())
    @in_loop
    async def subscribe(self, name: str, earliest: bool) -> None:
        await self.add_cursor(name, earliest)

    async def add_cursor(self, name: str, earliest: bool) -> None:
        initial = InitialPosition.EARLIEST if earliest else InitialPosition.LATEST
        await self.ledger.open_cursor(name, initial)
        if name not in self.acks:
            end = len(self.places)
            first = self.gone if earliest else end
            self.acks[name] = Acks({i: ALL if i >= first else 0 for i in range(end)}, first)

    @precondition(lambda self: len(self.acks) > 1)
    @rule(name=NAMES)
    @in_loop
    async def unsubscribe(self, name: str) -> None:
        await self.ledger.delete_cursor(name)
        del self.acks[name]

    def chosen(self, who: int) -> tuple[Acks, Cursor]:
        """Return one of the cursors for any number."""
        name = sorted(self.acks)[who % len(self.acks)]
        return self.acks[name], self.cursor(name)

    @rule(who=WHO, most=st.integers(1, 9), size=st.integers(1, 40))
    @in_loop
    async def read(self, who: int, most: int, size: int) -> None:
        acks, cursor = self.chosen(who)
        views = await cursor.read(most, size)
        payloads = [view.run.entry(i) for view in views for i in range(view.start, view.stop)]
        due = [i for i in range(acks.next, len(self.places)) if acks.now[i]]
        assert payloads == [b"m%d" % i for i in due[: len(payloads)]], "M12"
        assert payloads or not due
        acks.next = due[len(payloads) - 1] + 1 if payloads else len(self.places)

    @precondition(lambda self: self.places)
    @rule(who=WHO, entries=st.sets(ENTRIES, min_size=1, max_size=12), wait=st.booleans())
    @in_loop
    async def acknowledge(self, who: int, entries: set[int], wait: bool) -> None:
        acks, cursor = self.chosen(who)
        acknowledged = sorted({self.nearest(entry) for entry in entries})
        cursor.acknowledge([self.places[i] for i in acknowledged])
        await self.changed(acks, cursor, dict.fromkeys(acknowledged, 0), wait)

    @precondition(lambda self: self.places)
    @rule(who=WHO, entry=ENTRIES, bits=st.integers(0, ALL), wait=st.booleans())
    @in_loop
    async def acknowledge_batch(self, who: int, entry: int, bits: int, wait: bool) -> None:
        acks, cursor = self.chosen(who)
        i = self.nearest(entry)
        left = acks.now[i] & bits
        assert cursor.acknowledge_batch(self.places[i], [bits]) == (left == 0)
        await self.changed(acks, cursor, {i: left}, wait)

    @precondition(lambda self: self.places)
    @rule(who=WHO, entry=ENTRIES, wait=st.booleans())
    @in_loop
    async def acknowledge_up_to(self, who: int, entry: int, wait: bool) -> None:
        acks, cursor = self.chosen(who)
        i = self.nearest(entry)
        cursor.acknowledge_cumulative(self.places[i])
        await self.changed(acks, cursor, dict.fromkeys(range(i + 1), 0), wait)

    async def changed(self, acks: Acks, cursor: Cursor, new: dict[int, int], wait: bool) -> None:
        acks.now.update(new)
        if wait:
            await cursor.persisted()
            acks.sure = dict(acks.now)

    # What administrators do

    @rule(who=WHO, what=st.sampled_from(["reset", "skip", "clear"]), entry=ENTRIES)
    @in_loop
    async def move(self, who: int, what: str, entry: int) -> None:
        acks, cursor = self.chosen(who)
        end = len(self.places)
        if what == "reset":
            at = min(self.gone + entry, end)
            await cursor.reset(self.places[at] if at < end else LATEST)
            acks.now = {i: ALL if i >= at else 0 for i in range(end)}
            acks.next = at
        elif what == "skip":
            due = [i for i in acks.now if acks.now[i]]
            await cursor.skip(entry + 1)
            acks.now.update(dict.fromkeys(range(due[entry] + 1 if entry < len(due) else end), 0))
        else:
            await cursor.clear()
            acks.now = dict.fromkeys(range(end), 0)
        acks.sure = dict(acks.now)

    @rule(who=WHO)
    @in_loop
    async def rewind(self, who: int) -> None:
        acks, cursor = self.chosen(who)
        cursor.rewind()
        acks.next = 0

    @rule()
    @in_loop
    async def trim(self) -> None:
        await self.ledger.trim()

    # What happens to brokers

    @rule(how=st.sampled_from(["close", "crash", "takeover"]))
    @in_loop
    async def another_broker(self, how: str) -> None:
        old = self.ledger
        if how == "close":
            await self.factory.close()
            for acks in self.acks.values():
                acks.sure = dict(acks.now)
        elif how == "crash":
            self.world.brokers.crash(self.factory)
        await self.open()
        for name, acks in self.acks.items():
            cursor, acks.next = self.cursor(name), 0
            due = {i: self.bits(cursor, i) for i in acks.now}
            for i, bits in due.items():
                assert bits & ~acks.sure[i] == 0, "M5, M7: confirmed, and due again"
                assert acks.now[i] & ~bits == 0, "M10: never acknowledged, and gone"
            acks.now, acks.sure = due, dict(due)
        if how == "takeover":
            sink = Sink()
            old.append(run_of(b"late"), sink)
            await sink.settle(1)
            assert old.ended, "M15"
            assert not sink.payloads

    def bits(self, cursor: Cursor, i: int) -> int:
        place = self.places[i]
        if cursor.is_acknowledged(place):
            return 0
        left = cursor.ack_set(place)
        return ALL if left is None else left[0]

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "ledger"):
            return
        line = self.ledger.line
        kept = [i for i, place in enumerate(self.places) if line.exact(*place) >= 0]
        assert kept == list(range(len(self.places) - len(kept), len(self.places))), "M1"
        self.gone = len(self.places) - len(kept)
        for name, acks in self.acks.items():
            cursor = self.cursor(name)
            assert cursor._persister is not None
            assert cursor._persister.mark >= line.base, "M8"
            for i in kept:
                assert self.bits(cursor, i) == acks.now[i]
            assert cursor.backlog_entries() == sum(1 for i in kept if acks.now[i])
            first = next((i for i in kept if acks.now[i]), len(self.places))
            if first > self.gone:
                assert cursor.mark_delete == self.places[first - 1], "M4"

    @in_loop
    async def teardown(self) -> None:
        if hasattr(self, "factory"):
            self.world.brokers.crash(self.factory)


def test_a_topic_agrees_with_its_model() -> None:
    world = World()
    Machine = type("Machine", (TopicMachine,), {"world": world})
    try:
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=EXAMPLES or 8,
                stateful_step_count=40,
                deadline=None,
                derandomize=not EXAMPLES,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        world.close()
