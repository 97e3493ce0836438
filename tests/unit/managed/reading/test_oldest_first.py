"""A log read from a position on: every entry once, across ledgers, from memory and from storage."""

import pytest

from engine.base.ids import EARLIEST, Position
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import ManagedSettings
from tests.support.managed_cluster import NAME, Brokers, publish, rolling

pytestmark = pytest.mark.virtual_time

COUNT = 400


async def forwards(
    ledger: ManagedLedger, start: Position = EARLIEST
) -> list[tuple[Position, bytes]]:
    return [(run.position(i), run.entry(i)) async for run, i in ledger.oldest_first(start)]


async def test_all_entries_are_read_once_in_order(brokers: Brokers) -> None:
    small = ManagedSettings(cache_bytes_max=300, read_ahead_bytes=200)
    ledger = await brokers.broker(small).open(NAME, rolling(90))
    await ledger.open_cursor("keeps", InitialPosition.EARLIEST)
    assert await forwards(ledger) == []
    sink = await publish(ledger, 0, COUNT, batch=10)
    assert ledger.entries.tail.first > ledger.line.base + COUNT // 2, "most are not in memory"
    stored = list(zip(sink.positions, sink.payloads, strict=True))
    assert await forwards(ledger) == stored
    assert await forwards(ledger, Position(*stored[123][0])) == stored[123:]
    behind = Position(stored[-1][0][0], stored[-1][0][1] + 1)
    assert await forwards(ledger, behind) == []


async def test_entries_that_readers_may_not_be_given_yet_are_left_out(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, rolling(90))
    sink = await publish(ledger, 0, 20, batch=10)
    ledger.hold_reads(Position(*sink.positions[7]))
    assert len(await forwards(ledger)) == 7
