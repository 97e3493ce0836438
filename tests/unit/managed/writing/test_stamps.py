"""Stamps that a broker puts before entries: indexes rise over ledgers, owners and trims; the producer sees none."""

from dataclasses import replace

import pytest

from engine.base.ids import Position
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import LedgerConfig
from engine.wire.kernels import bare, entry_stamp
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import NAME, Brokers, Sink, numbered, publish, rolling

pytestmark = pytest.mark.virtual_time

INDEXED = replace(rolling(4), entry_indexes=True)


async def indexes(ledger: ManagedLedger) -> list[int | None]:
    """Return the indexes of all entries that are kept."""
    entries = [run.entry(i) async for run, i in ledger.newest_first()]
    return [entry_stamp(entry)[1] for entry in reversed(entries)]


async def owner(brokers: Brokers, config: LedgerConfig = INDEXED) -> ManagedLedger:
    return await brokers.broker().open(NAME, config)


async def test_the_producer_receives_its_own_payload_and_position(brokers: Brokers) -> None:
    ledger = await owner(brokers, replace(INDEXED, entry_times=True))
    sink = await publish(ledger, 0, 3, batch=3)
    assert sink.payloads == numbered(0, 3)
    assert Position(*sink.positions[-1]) == ledger.last_confirmed
    stored = (await ledger.read_entry(ledger.last_confirmed)).entry(0)
    time_ms, index = entry_stamp(stored)
    assert index == 2
    assert time_ms is not None
    assert time_ms > 1_600_000_000_000
    assert bare(stored) == b"m2"


async def test_a_batch_has_the_index_of_its_last_message(brokers: Brokers) -> None:
    ledger = await owner(brokers)
    run = run_of(b"a", b"b", b"c")
    run.counts = [3, 1, 5]
    sink = Sink()
    ledger.append(run, sink)
    await sink.settle(3)
    await publish(ledger, 3, 1)
    assert await indexes(ledger) == [2, 3, 8, 9]


@pytest.mark.parametrize("crashes", [False, True])
async def test_the_next_owner_continues_the_indexes(brokers: Brokers, crashes: bool) -> None:
    for turn in range(3):
        factory = brokers.broker()
        ledger = await factory.open(NAME, INDEXED)
        await ledger.open_cursor("keeps all", InitialPosition.EARLIEST)
        await publish(ledger, turn * 6, 5)
        await publish(ledger, turn * 6 + 5, 1)
        await _end(factory, ledger, crashes)
    ledger = await owner(brokers)
    assert await indexes(ledger) == list(range(18))


async def _end(factory: ManagedLedgerFactory, ledger: ManagedLedger, crashes: bool) -> None:
    if crashes:
        Brokers.crash(factory)
    else:
        await ledger.close()


@pytest.mark.parametrize("crashes", [False, True])
async def test_an_index_is_not_reused_after_all_entries_are_trimmed(
    brokers: Brokers, crashes: bool
) -> None:
    factory = brokers.broker()
    ledger = await factory.open(NAME, INDEXED)
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
    sink = await publish(ledger, 0, 8)
    cursor.acknowledge_cumulative(Position(*sink.positions[-1]))
    await cursor.persisted()
    await ledger.trim()
    assert await indexes(ledger) == []
    await _end(factory, ledger, crashes)
    ledger = await owner(brokers)
    await publish(ledger, 8, 1)
    assert await indexes(ledger) == [8]


async def test_entries_without_indexes_before_them_are_no_obstacle(brokers: Brokers) -> None:
    factory = brokers.broker()
    plain = await factory.open(NAME, rolling(4))
    await publish(plain, 0, 3)
    await plain.close()
    ledger = await owner(brokers)
    await publish(ledger, 3, 2)
    assert await indexes(ledger) == [None, None, None, 0, 1]


@pytest.mark.parametrize("stored", ["9" * 19, "9" * 5000, "-5", "٣", "many"])
async def test_a_clients_property_is_not_read_as_an_index(brokers: Brokers, stored: str) -> None:
    ledger = await brokers.broker().open(NAME, INDEXED, {"index": stored})
    await publish(ledger, 0, 2)
    assert await indexes(ledger) == [0, 1]
