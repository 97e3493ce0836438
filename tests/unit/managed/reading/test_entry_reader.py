"""A topic's ledger is opened for reading where its entries are, and only its owner recovers it."""

import pytest

from engine.ledger.errors import LedgerFencedError
from engine.managed.errors import OffloadedError
from engine.managed.positions import LedgerSpan
from engine.managed.reading.entry_reader import open_entries
from engine.managed.reading.reads import LedgerReads
from engine.managed.settings import ManagedSettings
from engine.wire import mledger_pb2 as pb
from tests.support.broker_bench import until
from tests.support.ledger_cluster import PATIENT, run_of
from tests.support.managed_cluster import NAME, ONE, Brokers, numbered, publish


def offloaded(ledger_id: int, *, deleted: bool) -> LedgerSpan:
    """Return a ledger of five entries with a copy in tiered storage."""
    info = pb.ManagedLedgerInfo.LedgerInfo()
    info.offloadContext.complete = True
    info.offloadContext.bookkeeperDeleted = deleted
    info.offloadContext.driverMetadata.name = "aws-s3"
    return LedgerSpan(ledger_id, 5, 10, 1, info.SerializePartialToString())


async def test_only_the_owner_closes_a_ledger_that_a_crash_left_open(brokers: Brokers) -> None:
    writer = await brokers.cluster.client().create(1, 1, 1)
    writer.append(run_of(*numbered(0, 3)))
    await until(lambda: writer.last_confirmed == 2)
    ledgers, span = brokers.cluster.client(PATIENT), LedgerSpan(writer.ledger_id)
    reader = await open_entries(ledgers, span, owner=False)
    assert [run.count for run in await reader.read(0, 0, 1)] == [1]
    writer.append(run_of(*numbered(3, 1)))
    await until(lambda: writer.last_confirmed == 3)
    recovered = await open_entries(ledgers, span, owner=True)
    assert sum(run.count for run in await recovered.read(0, 3, 1000)) == 4
    writer.append(run_of(*numbered(4, 1)))
    await until(lambda: isinstance(writer.error, LedgerFencedError))


async def test_an_offloaded_ledger_is_read_from_the_bookies_while_they_keep_it(
    brokers: Brokers,
) -> None:
    log = await brokers.broker().open(NAME, ONE)
    await publish(log, 0, 5)
    ledger_id = log.last_confirmed.ledger_id
    kept, gone = (offloaded(ledger_id, deleted=deleted) for deleted in (False, True))
    reader = await open_entries(brokers.cluster.client(), kept, owner=False)
    assert (await reader.read(0, 0, 1))[0].entry(0) == b"m0"
    with pytest.raises(OffloadedError, match=rf"ledger {ledger_id} was offloaded \(aws-s3\)"):
        await open_entries(brokers.cluster.client(), gone, owner=True)


async def test_reads_by_ordinal_name_an_offloaded_ledger(brokers: Brokers) -> None:
    log = await brokers.broker().open(NAME, ONE)
    log.line.ledgers[0].extra = offloaded(0, deleted=True).extra
    await publish(log, 0, 5)
    reads = LedgerReads(brokers.cluster.client(), log.line, ManagedSettings())
    with pytest.raises(OffloadedError):
        await reads.fetch(0, 1, 100)
