import asyncio

import pytest

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.settings import BatchedWrites
from engine.broker.transactions.log_batches import coordinator_records, pending_ack_records
from engine.broker.transactions.pending.ack_records import ack_record
from engine.broker.transactions.ports import LogPlace, StatedAck
from engine.broker.transactions.record_writer import RecordOutcome, RecordWriter
from engine.broker.transactions.txn_id import TxnId
from engine.managed.writing.appends import AppendSink
from engine.wire import pulsar_pb2 as pb

pytestmark = pytest.mark.virtual_time

LIMITS = BatchedWrites(records_max=3, bytes_max=100, delay_max_ms=10)


class Log:
    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.runs = 0
        self.fails = False

    def append(self, run: Slice, sink: AppendSink, /) -> None:
        if self.fails:
            sink.append_failed(run, 0, OSError("gone"))
            return
        run.ledger_id, run.first = 7, len(self.entries)
        self.entries += [run.entry(i) for i in range(run.count)]
        self.runs += 1
        sink.appended(run, 0, run.count)


class Outcomes:
    """The reported outcomes of records."""

    def __init__(self) -> None:
        self.seen: list[LogPlace | str] = []

    def put(self, writer: RecordWriter, *records: bytes) -> None:
        for record in records:
            writer.append(
                record, RecordOutcome(self.seen.append, lambda error: self.seen.append("?"))
            )


def record(number: int) -> bytes:
    return ack_record(TxnId(0, number), [StatedAck(Position(5, number))], cumulative=False)


def at(entry: int, member: int = 0, members: int = 1) -> LogPlace:
    return LogPlace(Position(7, entry), member, members)


async def test_without_batches_records_of_a_turn_are_appended_together_each_in_its_entry() -> None:
    log, outcomes = Log(), Outcomes()
    writer = RecordWriter(log, None)
    outcomes.put(writer, record(1), record(2))
    assert log.entries == []
    await asyncio.sleep(0)
    assert (log.entries, log.runs) == ([record(1), record(2)], 1)
    assert outcomes.seen == [at(0), at(1)]
    outcomes.put(writer, record(3))
    writer.flush()
    assert (log.entries[2:], outcomes.seen[2:]) == ([record(3)], [at(2)])


async def test_records_wait_for_others_up_to_the_limits() -> None:
    log, outcomes = Log(), Outcomes()
    writer = RecordWriter(log, LIMITS)
    outcomes.put(writer, record(1), record(2), record(3), record(4))
    await asyncio.sleep(0)
    assert outcomes.seen == [at(0, 0, 3), at(0, 1, 3), at(0, 2, 3)]
    assert [r.txnid_least_bits for r in pending_ack_records(log.entries[0])] == [1, 2, 3]
    await asyncio.sleep(0.011)
    assert (log.entries[1:], outcomes.seen[3:]) == ([record(4)], [at(1)])
    outcomes.put(writer, record(5), b"x" * 90, b"y" * 200)
    await asyncio.sleep(0)
    assert log.entries[2:] == [record(5), b"x" * 90, b"y" * 200]
    writer.flush()
    assert len(log.entries) == 5


async def test_a_flush_stores_what_waits_and_failures_reach_each_record() -> None:
    log, outcomes = Log(), Outcomes()
    writer = RecordWriter(log, LIMITS)
    outcomes.put(writer, record(1), record(2))
    log.fails = True
    writer.flush()
    assert outcomes.seen == ["?", "?"]
    await asyncio.sleep(0.02)
    assert len(outcomes.seen) == 2


async def test_a_batch_has_apaches_bytes() -> None:
    log, outcomes = Log(), Outcomes()
    new = pb.TransactionMetadataEntry(
        metadata_op=pb.TransactionMetadataEntry.NEW, txnid_least_bits=0, txnid_most_bits=2
    ).SerializeToString()
    writer = RecordWriter(log, LIMITS._replace(records_max=2))
    outcomes.put(writer, new, new)
    writer.flush()
    assert log.entries[0].hex() == "0e010001" + 2 * f"0a{len(new):02x}{new.hex()}"
    assert len(coordinator_records(log.entries[0])) == 2
