"""Entries read for a consumer are dropped when reading starts over, also those of a read under way (D7); of those that
are read again only some are held at a time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from engine.auth.judge import AllowAll
from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.ids import Position
from engine.base.slices import View
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.dispatch.source import EntrySource
from engine.broker.ports import BrokerIdentity
from engine.broker.settings import DataPathSettings
from engine.net.handshake import allow_all
from tests.support.ledger_cluster import run_of

pytestmark = pytest.mark.virtual_time


class SlowCursor:
    """A cursor whose reads last until ``answer``; ``rewinds`` counts rewinds."""

    name = "s"
    has_partial_batches = False

    def __init__(self) -> None:
        self.rewinds = 0
        self.asked: list[list[Position]] = []
        self.answer: asyncio.Future[list[View]] | None = None

    def read_nowait(self, entries: int, size: int) -> None:
        return None

    async def replay(self, positions: Sequence[Position], bytes_max: int) -> list[View]:
        self.asked.append([*positions])
        await asyncio.sleep(0)
        return [view_at(positions[0].entry_id)]

    async def read(self, entries: int, size: int) -> list[View]:
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer

    def rewind(self) -> None:
        self.rewinds += 1


def view() -> View:
    run = run_of(b"a", b"b")
    run.ledger_id, run.first = 1, 0
    return View(run, 0, 2)


def view_at(entry_id: int) -> View:
    """Return a view of one entry in its own buffer."""
    run = run_of(b"a")
    run.ledger_id, run.first = 1, entry_id
    return View(run, 0, 1)


@pytest.fixture
async def source() -> AsyncIterator[EntrySource]:
    scope = TaskScope("test")
    cursor: Any = SlowCursor()
    identity = BrokerIdentity("test", "b", 0)
    context = Context(
        DataPathSettings(), LoopClock(), RandomEntropy(), identity, AllowAll(), allow_all
    )
    topic: Any = SimpleNamespace(aborted=())
    yield EntrySource(cursor, scope, context, lambda: None, lambda markers: None, topic)
    await scope.close()


async def begun(source: EntrySource) -> SlowCursor:
    """Begin a read, and return the cursor that has not answered it."""
    cursor: Any = source.cursor
    assert source.next(10) is None
    async with asyncio.timeout(60):
        while cursor.answer is None:
            await asyncio.sleep(0)
    return cursor  # type: ignore[no-any-return]


async def ended(source: EntrySource, cursor: SlowCursor) -> None:
    assert cursor.answer is not None
    cursor.answer.set_result([view()])
    async with asyncio.timeout(60):
        while not source.idle:
            await asyncio.sleep(0)


async def test_a_rewind_under_a_read_is_not_lost(source: EntrySource) -> None:
    cursor = await begun(source)
    source.rewind()
    assert cursor.rewinds == 0
    await ended(source, cursor)
    assert cursor.rewinds == 1
    assert not source.holds


async def test_without_a_rewind_read_entries_are_kept(source: EntrySource) -> None:
    cursor = await begun(source)
    await ended(source, cursor)
    assert (cursor.rewinds, source.holds) == (0, True)


async def test_a_seek_drops_unsent_entries(source: EntrySource) -> None:
    source.give_back(view())
    await source.settle()
    assert not source.holds


async def test_a_reset_does_not_wait_for_a_read_that_was_cancelled_before_it_began(
    source: EntrySource,
) -> None:
    assert source.next(10) is None
    source.scope.cancel()  # the topic closes in the same turn
    async with asyncio.timeout(60):
        await source.settle()
    assert source.idle


async def test_replayed_entries_are_read_as_earlier_ones_are_taken(
    source: EntrySource,
) -> None:
    cursor: Any = source.cursor
    places = [Position(1, i) for i in (4, 7, 2, 9)]
    cursor.is_acknowledged = lambda position: False
    assert source.replay([places[2], places[0], places[1], places[3]])
    got: list[int] = []
    async with asyncio.timeout(60):
        while len(got) < 4:
            await asyncio.sleep(0)
            assert len(cursor.asked) <= len(got) + 1, "one is read ahead"
            if source.holds_first and (view := source.next(1, new=False)) is not None:
                got.append(view.first)
                if len(got) == 2:  # it cannot be delivered now
                    source.give_back(view)
                    got.append(source.next(1, new=False).first)  # type: ignore[union-attr]
                    got.pop()
    assert got == [2, 4, 7, 9]
    assert [len(batch) for batch in cursor.asked] == [4, 3, 2, 1]
    source.rewind()
    assert source.replay(places)
    while len(cursor.asked) == 4:
        await asyncio.sleep(0)
    source.rewind()
    while not source.idle:
        await asyncio.sleep(0)
    assert len(cursor.asked) == 5
    assert not source.holds, "all of it is dropped, what was not read of it as well"
