"""Readers receive only entries below the readable limit, also where more is durable (I40)."""

import pytest

from engine.base.ids import EARLIEST, LATEST, Position
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.settings import ManagedSettings
from tests.support.broker_bench import until
from tests.support.managed_cluster import (
    EAGER,
    NAME,
    ONE,
    Brokers,
    drain,
    numbered,
    publish,
    rolling,
    texts,
)

FIRST = InitialPosition.EARLIEST


@pytest.fixture
async def log(brokers: Brokers) -> ManagedLedger:
    return await brokers.broker().open(NAME, ONE)


def test_i40_the_readable_limit_is_never_ahead_of_what_is_durable() -> None:
    line = LedgerLine([LedgerSpan(1, 3)])
    assert (line.readable_to, line.durable_to) == (3, 3)
    assert not line.hold_reads(LATEST)
    line.grow(2, 20)
    assert (line.readable_to, line.durable_to) == (3, 5)
    line.push(LedgerSpan(4))
    assert line.hold_reads(Position(1, 4))
    assert line.readable_to == 4
    assert line.hold_reads(Position(9, 0))
    assert line.readable_to == line.durable_to == 5
    line.grow(1, 10)
    assert (line.readable_to, line.durable_to) == (5, 6)
    assert line.hold_reads(None)
    line.grow(1, 10)
    assert line.readable_to == line.durable_to == 7
    assert not line.hold_reads(EARLIEST)
    assert line.readable_to == 0


async def test_i40_readers_receive_nothing_behind_the_limit_and_are_woken_when_it_rises(
    log: ManagedLedger,
) -> None:
    cursor = await log.open_cursor("s", FIRST)
    await publish(log, 0, 2)
    log.hold_reads(LATEST)
    places = (await publish(log, 2, 4)).positions
    assert (log.last_readable.entry_id, log.last_confirmed.entry_id) == (1, 5)
    assert texts(cursor.read_nowait(10, 1000) or []) == numbered(0, 2)
    assert cursor.read_nowait(10, 1000) == []
    assert not cursor.has_more()
    assert await cursor.read(10, 1000) == []
    woken: list[int] = []
    log.on_readable(lambda: woken.append(log.last_readable.entry_id))
    log.hold_reads(Position(*places[2]))
    log.hold_reads(Position(*places[2]))
    assert woken == [3]
    assert texts(cursor.read_nowait(10, 1000) or []) == numbered(2, 2)
    log.release_reads()
    assert woken == [3, 5]
    assert texts(cursor.read_nowait(10, 1000) or []) == numbered(4, 2)


async def test_entries_from_storage_are_held_like_those_in_memory(brokers: Brokers) -> None:
    settings = ManagedSettings(cache_bytes_max=1)
    log = await brokers.broker(settings).open(NAME, rolling(10))
    cursor = await log.open_cursor("s", FIRST)
    places = (await publish(log, 0, 30)).positions
    log.hold_reads(Position(*places[13]))
    assert await drain(cursor, 4) == numbered(0, 13)
    # Nothing behind the limit is read ahead either.
    assert log.fetched[0] == 13
    log.hold_reads(Position(*places[22]))
    assert await drain(cursor, 4) == numbered(13, 9)
    log.release_reads()
    assert await drain(cursor, 4) == numbered(22, 8)


async def test_backlogs_positions_and_acknowledgements_count_what_is_durable(
    log: ManagedLedger,
) -> None:
    """Count as Apache Pulsar does, where these end at the last confirmed entry."""
    cursor, passed, cleared = [await log.open_cursor(name, FIRST) for name in ("s", "t", "u")]
    await publish(log, 0, 2)
    log.hold_reads(LATEST)
    places = [Position(*place) for place in (await publish(log, 2, 4)).positions]
    assert cursor.backlog_entries() == cursor.stats().backlog_entries == 6
    assert log.stats().entries == 6
    latest = await log.open_cursor("latest", InitialPosition.LATEST)
    await passed.reset(LATEST)
    await cleared.clear()
    assert {any_cursor.mark_delete for any_cursor in (latest, passed, cleared)} == {places[-1]}
    await passed.reset(places[1])
    cursor.acknowledge([places[0]])
    cursor.acknowledge_cumulative(places[1])
    assert cursor.mark_delete == places[1]
    assert await log.find_by_time(1 << 62) == places[-1]
    log.release_reads()
    assert await drain(cursor) == numbered(4, 2)
    assert await drain(passed) == numbered(3, 3)
    assert await drain(latest) == await drain(cleared) == []


async def test_entries_are_read_again_after_the_limit_has_fallen(log: ManagedLedger) -> None:
    cursor = await log.open_cursor("s", FIRST)
    places = [Position(*place) for place in (await publish(log, 0, 3)).positions]
    assert await drain(cursor) == numbered(0, 3)
    log.hold_reads(places[1])
    assert texts(await cursor.replay(places, 1000)) == numbered(0, 3)
    cursor.rewind()
    assert await drain(cursor) == numbered(0, 1)


@pytest.mark.parametrize("cursors", [0, 1])
async def test_i40_nothing_behind_the_limit_is_trimmed(brokers: Brokers, cursors: int) -> None:
    log = await brokers.broker(EAGER).open(NAME, rolling(10))
    for name in "s"[:cursors]:
        await log.open_cursor(name, FIRST)
    log.hold_reads(LATEST)
    await publish(log, 0, 35)
    log.hold_reads(log.line.position(15))
    for cursor in log.cursors.values():
        await cursor.clear()
    first = log.stats().ledgers[0].ledger_id
    assert log.freed(ONE, {}, ())[1].ledger_id == first
    await log.trim(retention=False)
    assert log.line.base == 10
    assert await drain(await log.open_cursor("late", FIRST)) == numbered(10, 5)
    log.release_reads()
    await log.delete_cursor("late")
    await log.trim(retention=False)
    await until(lambda: log.line.base == 30)


async def test_the_next_owner_begins_without_a_hold(brokers: Brokers) -> None:
    log = await brokers.broker().open(NAME, ONE)
    log.hold_reads(EARLIEST)
    await publish(log, 0, 2)
    assert log.last_readable.entry_id == -1
    again = await brokers.broker().open(NAME, ONE)
    assert await drain(await again.open_cursor("s", FIRST)) == numbered(0, 2)
