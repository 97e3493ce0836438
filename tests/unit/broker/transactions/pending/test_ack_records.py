"""Records have the bytes of Apache Pulsar 4.0.8, captured from a subscription's log."""

from engine.base.ids import Position
from engine.broker.transactions.log_batches import pending_ack_records
from engine.broker.transactions.pending.ack_records import ack_record, end_record
from engine.broker.transactions.ports import StatedAck
from engine.broker.transactions.txn_id import TxnId


def test_an_acknowledged_entry() -> None:
    record = ack_record(TxnId(1, 1), [StatedAck(Position(62, 0))], cumulative=False)
    assert record == bytes.fromhex("0801 1000 1801 2001 2a06 083e 1000 2000")


def test_an_acknowledged_part_of_a_batch() -> None:
    ack = StatedAck(Position(62, 1), [0b101, -1], 70)
    (record,) = pending_ack_records(ack_record(TxnId(0, 7), [ack], cumulative=True))
    (stored,) = record.pending_ack_metadata
    assert (list(stored.ack_set), stored.batch_size, record.ack_type) == ([5, -1], 70, 1)


def test_the_end_of_a_transaction() -> None:
    assert end_record(TxnId(0, 0), commit=False) == bytes.fromhex("0803 1000 1800 2000")
    assert end_record(TxnId(0, 0), commit=True) == bytes.fromhex("0802 1000 1800 2000")
