"""A topic with cursors against a small model: whatever order things come in, over closes, crashes and takeovers.

Short with fixed examples by default; MAGNETAR_MODEL_EXAMPLES=2000 looks for new ones.
"""

import asyncio
import functools
import os
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
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

from engine.base.ids import Position
from engine.managed.cursor import Cursor
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import LedgerConfig, ManagedSettings
from tests.ledger_cluster import run_of
from tests.managed_cluster import Brokers, Sink, publish, rolling

T = TypeVar("T")
EXAMPLES = int(os.environ.get("MAGNETAR_MODEL_EXAMPLES", "0"))
ALL = 0b111
"""Messages of a batch: every entry counts as a batch of three."""
NAMES = st.sampled_from(["a", "b"])
SMALL = ManagedSettings(
    cache_bytes_max=60,
    read_ahead_bytes=12,
    read_ahead_total_bytes_max=40,
    cursor_persist_interval_s=3600,
    cursor_ledger_entries_max=3,
    cursor_inline_ranges_max=2,
    retry_initial_s=0.01,
)


class World:
    """Bookies and an event loop for all examples; each has a topic of its own."""

    def __init__(self, directory: str) -> None:
        self.runner = asyncio.Runner()
        self.brokers = self.run(self._start(Path(directory)))
        self.topics = 0

    async def _start(self, directory: Path) -> Brokers:
        brokers = Brokers(directory)
        await brokers.start()
        return brokers

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def close(self) -> None:
        self.run(self.brokers.close())
        self.runner.close()


class Acks:
    """What a cursor must know: bits per entry not acknowledged. ``sure`` survives a crash, ``now`` may."""

    def __init__(self, now: dict[int, int]) -> None:
        self.now = now
        self.sure = dict(now)
        self.old: list[
            dict[int, int]
        ] = []  # states since, any of which a lazy write may have caught
        self.next = 0


def in_loop(step: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The step as Hypothesis takes it: over when it returns."""

    @functools.wraps(step)
    def run(self: "TopicMachine", **drawn: Any) -> None:
        self.world.run(step(self, **drawn))

    return run


class TopicMachine(RuleBasedStateMachine):
    """Entries are numbered from 0 as they were confirmed; ``gone``: so many at the front were trimmed."""

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

    async def open(self) -> None:
        self.factory: ManagedLedgerFactory = self.world.brokers.broker(SMALL)
        self.ledger: ManagedLedger = await self.factory.open(self.name, self.config)

    def cursor(self, name: str) -> Cursor:
        return self.ledger.cursors[name]

    # What clients do

    @rule(count=st.integers(1, 7), batch=st.integers(1, 4))
    @in_loop
    async def publish(self, count: int, batch: int) -> None:
        sink: Sink = await publish(self.ledger, len(self.places), count, batch)
        fresh = [Position(*one) for one in sink.positions]
        assert fresh == sorted(fresh)
        assert not self.places or fresh[0] > self.places[-1], "M3"
        self.places += fresh
        for acks in self.acks.values():
            for i in range(len(self.places) - count, len(self.places)):
                acks.now[i] = acks.sure[i] = ALL

    @rule(name=NAMES, earliest=st.booleans())
    @in_loop
    async def subscribe(self, name: str, earliest: bool) -> None:
        initial = InitialPosition.EARLIEST if earliest else InitialPosition.LATEST
        await self.ledger.open_cursor(name, initial)
        if name not in self.acks:
            kept = range(self.gone if earliest else len(self.places), len(self.places))
            self.acks[name] = Acks({i: ALL if i in kept else 0 for i in range(len(self.places))})
            self.acks[name].next = kept.start

    @precondition(lambda self: self.acks)
    @rule(name=NAMES)
    @in_loop
    async def unsubscribe(self, name: str) -> None:
        if name in self.acks:
            await self.ledger.delete_cursor(name)
            del self.acks[name]

    @rule(name=NAMES, most=st.integers(1, 9), size=st.integers(1, 40))
    @in_loop
    async def read(self, name: str, most: int, size: int) -> None:
        if name not in self.acks:
            return
        acks = self.acks[name]
        views = await self.cursor(name).read(most, size)
        found = [view.run.entry(i) for view in views for i in range(view.start, view.stop)]
        due = [i for i in range(acks.next, len(self.places)) if acks.now[i]]
        assert found == [b"m%d" % i for i in due[: len(found)]], "M12"
        assert found or not due
        acks.next = due[len(found) - 1] + 1 if found else len(self.places)

    @rule(name=NAMES, chosen=st.sets(st.integers(0, 60), max_size=12), wait=st.booleans())
    @in_loop
    async def acknowledge(self, name: str, chosen: set[int], wait: bool) -> None:
        await self.change(name, wait, {i: 0 for i in chosen if i < len(self.places)})

    @rule(name=NAMES, entry=st.integers(0, 60), bits=st.integers(0, ALL), wait=st.booleans())
    @in_loop
    async def acknowledge_batch(self, name: str, entry: int, bits: int, wait: bool) -> None:
        if name not in self.acks or not self.gone <= entry < len(self.places):
            return
        left = self.acks[name].now[entry] & bits
        whole = self.cursor(name).acknowledge_batch(self.places[entry], [bits])
        assert whole == (left == 0)
        await self.change(name, wait, {entry: left}, applied=True)

    @rule(name=NAMES, entry=st.integers(0, 60), wait=st.booleans())
    @in_loop
    async def acknowledge_up_to(self, name: str, entry: int, wait: bool) -> None:
        if name in self.acks and entry < len(self.places):
            self.cursor(name).acknowledge_cumulative(self.places[entry])
            await self.change(name, wait, dict.fromkeys(range(entry + 1), 0), applied=True)

    async def change(
        self, name: str, wait: bool, new: dict[int, int], applied: bool = False
    ) -> None:
        if name not in self.acks:
            return
        acks, cursor = self.acks[name], self.cursor(name)
        if not applied:
            cursor.acknowledge([self.places[i] for i in sorted(new)])
        acks.old.append(dict(acks.now))
        acks.now.update(new)
        if wait:
            await cursor.persisted()
            self.settle(acks)

    def settle(self, acks: Acks) -> None:
        acks.sure, acks.old = dict(acks.now), []

    # What administrators do

    @rule(name=NAMES, entry=st.integers(0, 70))
    @in_loop
    async def reset(self, name: str, entry: int) -> None:
        if name not in self.acks:
            return
        at = max(min(entry, len(self.places)), self.gone)
        target = self.places[at] if at < len(self.places) else Position(1 << 60, 0)
        await self.cursor(name).reset(target)
        acks = self.acks[name]
        acks.now = {i: ALL if i >= at else 0 for i in range(len(self.places))}
        acks.next = at
        self.settle(acks)

    @rule(name=NAMES, count=st.integers(1, 9))
    @in_loop
    async def skip(self, name: str, count: int) -> None:
        if name in self.acks:
            acks = self.acks[name]
            await self.cursor(name).skip(count)
            due = [i for i in acks.now if acks.now[i]]
            stop = due[count - 1] + 1 if len(due) >= count else len(self.places)
            acks.now.update(dict.fromkeys(range(stop), 0))
            self.settle(acks)

    @rule(name=NAMES)
    @in_loop
    async def clear(self, name: str) -> None:
        if name in self.acks:
            await self.cursor(name).clear()
            self.acks[name].now = dict.fromkeys(range(len(self.places)), 0)
            self.settle(self.acks[name])

    @rule(name=NAMES)
    @in_loop
    async def rewind(self, name: str) -> None:
        if name in self.acks:
            self.cursor(name).rewind()
            self.acks[name].next = 0

    @rule()
    @in_loop
    async def trim(self) -> None:
        await self.ledger.trim()

    # What happens to brokers

    @rule()
    @in_loop
    async def restart(self) -> None:
        await self.factory.close()
        await self.open()
        for acks in self.acks.values():
            acks.next = 0
            self.settle(acks)

    @rule(takeover=st.booleans())
    @in_loop
    async def crash(self, takeover: bool) -> None:
        old = self.ledger
        if not takeover:
            self.world.brokers.crash(self.factory)
        await self.open()
        for name, acks in self.acks.items():
            cursor, acks.next = self.cursor(name), 0
            found = {i: self.bits(cursor, i) for i in acks.now}
            for i, bits in found.items():
                assert bits & ~acks.sure[i] == 0, "M5, M7: confirmed, and due again"
                assert acks.now[i] & ~bits == 0, "M10: never acknowledged, and gone"
            acks.now = found
            self.settle(acks)
        if takeover:
            sink = Sink()
            old.append(run_of(b"late"), sink)
            await sink.settle(1)
            assert not sink.payloads
            assert old.ended, "M15"

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
        for i in range(self.gone, len(self.places) - len(kept)):
            for name, acks in self.acks.items():
                assert self.places[i] <= self.cursor(name).persisted_mark_delete or (
                    acks.now[i] == 0 and self.cursor(name).is_acknowledged(self.places[i])
                ), "M8"
        self.gone = len(self.places) - len(kept)
        for name, acks in self.acks.items():
            cursor = self.cursor(name)
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
    with tempfile.TemporaryDirectory() as directory:
        world = World(directory)
        Machine = type("Machine", (TopicMachine,), {"world": world})
        try:
            run_state_machine_as_test(
                Machine,
                settings=settings(
                    max_examples=EXAMPLES or 12,
                    stateful_step_count=30,
                    deadline=None,
                    derandomize=not EXAMPLES,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            world.close()
