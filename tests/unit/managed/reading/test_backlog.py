"""Catch-up reads: storage is read once for all cursors, ahead of need, within a budget, beside the tail cache."""

import asyncio

import pytest

from engine.base.slices import Slice, View
from engine.ledger.errors import LedgerError, ReadError
from engine.managed.cursors.cursor import Cursor
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.reading.reads import LedgerReads
from engine.managed.settings import ManagedSettings
from tests.support.managed_cluster import (
    NAME,
    Brokers,
    Sink,
    drain,
    numbered,
    publish,
    rolling,
    texts,
)

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
COUNT = 400


class Asked:
    """Ranges requested from the bookies, recorded through the real reads."""

    def __init__(self, reads: LedgerReads, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.bytes = 0
        self.failing = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.under_way = self.most = 0
        self._real = reads.fetch
        monkeypatch.setattr(LedgerReads, "fetch", lambda _, *given: self.fetch(*given))

    async def fetch(self, start: int, stop: int, bytes_max: int) -> list[Slice]:
        if self.failing:
            raise ReadError("asked to fail")
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.wait()
            runs = await self._real(start, stop, bytes_max)
        finally:
            self.under_way -= 1
        self.ranges.append((start, start + sum(run.count for run in runs)))
        self.bytes += sum(run.size for run in runs)
        return runs

    @property
    def entries(self) -> int:
        return sum(stop - start for start, stop in self.ranges)


async def cold(brokers: Brokers, settings: ManagedSettings) -> tuple[ManagedLedger, list[Cursor]]:
    """Return a topic whose entries left the tail cache, with ten cursors before the first entry."""
    ledger = await brokers.broker(settings).open(NAME, rolling(90))
    cursors = [await ledger.open_cursor(f"c{i}", FIRST) for i in range(10)]
    await publish(ledger, 0, COUNT, batch=10)
    assert ledger.entries.tail.first > ledger.line.base + COUNT // 2
    return ledger, cursors


def small(ahead: int, total: int = 1 << 20, ranges: int = 4) -> ManagedSettings:
    return ManagedSettings(
        cache_bytes_max=300,
        read_ahead_bytes=ahead,
        read_ahead_ranges=ranges,
        read_ahead_total_bytes_max=total,
        cursor_persist_interval_s=3600,
    )


async def test_ten_cursors_at_one_place_read_storage_once(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, cursors = await cold(brokers, small(100))
    asked = Asked(ledger.entries.reads, monkeypatch)
    drained = await asyncio.gather(*(drain(cursor, 7) for cursor in cursors))
    assert drained == [numbered(0, COUNT)] * 10
    assert asked.entries <= COUNT
    assert len(set(asked.ranges)) == len(asked.ranges)


async def test_the_next_range_is_fetched_while_one_is_being_sent(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, cursors = await cold(brokers, small(200))
    asked = Asked(ledger.entries.reads, monkeypatch)
    seen = texts(await cursors[0].read(5, 1000))
    while len(asked.ranges) < 2:
        await asyncio.sleep(0)
    assert asked.ranges[1][0] == asked.ranges[0][1], "the next range, without being asked"
    while (views := cursors[0].read_nowait(5, 1000)) is not None:
        seen += texts(views)
        for _ in range(200):
            await asyncio.sleep(0)
            if asked.ranges[-1][0] > ledger.line.ordinal(cursors[0].read_position):
                break
        if len(seen) == COUNT:
            break
    assert seen == numbered(0, COUNT)


async def test_a_waiting_cursor_has_more_ranges_under_way_up_to_the_bound(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, cursors = await cold(brokers, small(100, ranges=3))
    asked = Asked(ledger.entries.reads, monkeypatch)
    cursor, seen = cursors[0], []
    while views := await _read_behind_the_gate(cursor, asked):
        seen += texts(views)
    assert seen == numbered(0, COUNT)
    assert asked.most == 3
    assert ledger.entries.backlog._ahead == 1, "a later read begins with one range again"


async def _read_behind_the_gate(cursor: Cursor, asked: Asked) -> list[View]:
    """Return views from memory, or else from storage, once every read that will begin has begun."""
    views = cursor.read_nowait(5, 1000)
    if views is None:
        asked.gate.clear()
        reading = asyncio.get_running_loop().create_task(cursor.read(5, 1000))
        for _ in range(20):
            await asyncio.sleep(0)
        asked.gate.set()
        views = await reading
        asked.gate.clear()  # reads ahead from here on wait at the gate
    return views


async def test_entries_larger_than_those_before_leave_no_hole(brokers: Brokers) -> None:
    ledger = await brokers.broker(small(300)).open(NAME, rolling(1000))
    cursor = await ledger.open_cursor("c", FIRST)
    sizes = [10] * 40 + [400] * 10 + [10] * 40 + [1000, 10, 1000] + [10] * 40
    contents = [b"%04d" % i + b"x" * size for i, size in enumerate(sizes)]
    sink = Sink()
    for content in contents:
        ledger.append(Slice(content, [0, len(content)], len(content)), sink)
    await sink.settle(len(contents))
    assert b"".join(await _bodies(cursor)) == b"".join(contents)


async def _bodies(cursor: Cursor) -> list[bytes]:
    bodies: list[bytes] = []
    while views := await cursor.read(3, 2000):
        bodies += [view.run.entry(i) for view in views for i in view.indexes]
    return bodies


async def test_read_ahead_stays_within_the_budget_and_out_of_the_tail(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, cursors = await cold(brokers, small(100, total=50_000))
    cache = ledger.entries.backlog._cache
    before = ledger.entries.tail.first
    await asyncio.gather(*(drain(cursor, 20 + i) for i, cursor in enumerate(cursors)))
    assert cache.bytes <= cache.bytes_max
    assert cache.fetching_bytes == 0
    assert ledger.entries.tail.first == before
    ledger.abandon()
    assert cache.bytes == 0


async def test_entries_read_by_all_cursors_are_released_at_once(brokers: Brokers) -> None:
    ledger, cursors = await cold(brokers, small(100))
    cache = ledger.entries.backlog._cache
    peak = 0
    while views := await cursors[0].read(10, 1000):
        assert texts(views)
        peak = max(peak, len(ledger.entries.backlog._segments))
    assert peak <= 3 + 4
    assert (cache.bytes, ledger.entries.backlog._segments) == (0, [])


async def test_a_failing_read_is_reported_and_the_next_one_continues(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, cursors = await cold(brokers, small(100))
    asked = Asked(ledger.entries.reads, monkeypatch)
    asked.failing = True
    failures = await asyncio.gather(
        *(cursor.read(5, 1000) for cursor in cursors), return_exceptions=True
    )
    assert all(isinstance(failure, LedgerError) for failure in failures)
    asked.failing = False
    assert await drain(cursors[0]) == numbered(0, COUNT)


async def test_a_rewind_under_a_read_skips_nothing(brokers: Brokers) -> None:
    ledger, cursors = await cold(brokers, small(150))
    cursor = cursors[0]
    reading = asyncio.get_running_loop().create_task(cursor.read(30, 10_000))
    await asyncio.sleep(0)
    cursor.rewind()
    assert texts(await reading)[:5] == numbered(0, 5)
    cursor.rewind()
    cursor.acknowledge([ledger.line.position(x) for x in range(10, 30)])
    assert await drain(cursor) == numbered(0, 10) + numbered(30, COUNT - 30)


async def test_redelivered_entries_are_served_from_the_read_ahead(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, cursors = await cold(brokers, small(200))
    first = texts(await cursors[0].read(4, 1000))
    asked = Asked(ledger.entries.reads, monkeypatch)
    again = await cursors[0].replay([ledger.line.position(x) for x in (3, 1, 2)], 1 << 20)
    assert texts(again) == first[1:4]
    assert all(start > 3 for start, _ in asked.ranges)
