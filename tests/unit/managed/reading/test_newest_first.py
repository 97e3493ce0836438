"""A log read from its end backwards: every entry once, across ledgers, from memory and from storage."""

import pytest

from engine.base.ids import Position
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.reading import newest_first
from engine.managed.settings import ManagedSettings
from tests.support.managed_cluster import NAME, Brokers, publish, rolling

pytestmark = pytest.mark.virtual_time

COUNT = 400


async def backwards(
    ledger: ManagedLedger, before: Position | None = None
) -> list[tuple[Position, bytes]]:
    return [(run.position(i), run.entry(i)) async for run, i in ledger.newest_first(before)]


@pytest.mark.parametrize("step_bytes", [newest_first.STEP_BYTES, 40])
async def test_all_entries_come_once_the_newest_first(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, step_bytes: int
) -> None:
    monkeypatch.setattr(newest_first, "STEP_BYTES", step_bytes)
    small = ManagedSettings(cache_bytes_max=300, read_ahead_bytes=200)
    ledger = await brokers.broker(small).open(NAME, rolling(90))
    await ledger.open_cursor("keeps", InitialPosition.EARLIEST)
    assert await backwards(ledger) == []
    sink = await publish(ledger, 0, COUNT, batch=10)
    assert ledger.entries.tail.first > ledger.line.base + COUNT // 2, "most are not in memory"
    stored = list(zip(sink.positions, sink.payloads, strict=True))
    assert await backwards(ledger) == stored[::-1]
    assert await backwards(ledger, Position(*stored[123][0])) == stored[122::-1]
    assert await backwards(ledger, Position(*stored[0][0])) == []
    assert ledger.cursors.keys() == {"keeps"}
