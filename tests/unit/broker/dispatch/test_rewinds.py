"""Entries read for a consumer are dropped when reading starts over, also those of a read under way (D7)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.slices import View
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.dispatch.source import EntrySource
from engine.broker.ports import BrokerIdentity
from engine.broker.settings import DataPathSettings
from tests.support.ledger_cluster import run_of


class SlowCursor:
    """Reads take until ``answer``; ``rewinds`` counts."""

    name = "s"
    has_partial_batches = False

    def __init__(self) -> None:
        self.rewinds = 0
        self.answer: asyncio.Future[list[View]] | None = None

    def read_nowait(self, entries: int, size: int) -> None:
        return None

    async def read(self, entries: int, size: int) -> list[View]:
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer

    def rewind(self) -> None:
        self.rewinds += 1


def view() -> View:
    run = run_of(b"a", b"b")
    run.ledger_id, run.first = 1, 0
    return View(run, 0, 2)


@pytest.fixture
async def source() -> AsyncIterator[EntrySource]:
    scope = TaskScope("test")
    cursor: Any = SlowCursor()
    identity = BrokerIdentity("test", "b", 0)
    context = Context(DataPathSettings(), SystemClock(), RandomEntropy(), identity)
    yield EntrySource(cursor, scope, context, lambda: None)
    await scope.close()


async def begun(source: EntrySource) -> SlowCursor:
    """A read is under way."""
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


async def test_without_a_rewind_what_was_read_is_kept(source: EntrySource) -> None:
    cursor = await begun(source)
    await ended(source, cursor)
    assert (cursor.rewinds, source.holds) == (0, True)


async def test_a_seek_drops_what_was_read_and_not_sent(source: EntrySource) -> None:
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
