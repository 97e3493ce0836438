"""Records have the bytes of Apache Pulsar 4.0.8, captured from its transaction log."""

from engine.broker.transactions.coordinator.log_records import (
    Entry,
    new_record,
    partitions_record,
    status_record,
    subscriptions_record,
)
from engine.broker.transactions.log_batches import coordinator_records
from engine.broker.transactions.txn_id import TxnId
from engine.wire.varints import varint

TXN = TxnId(2, 0)
TIME = 1_750_000_000_000
WHEN = b"\x50" + varint(TIME)


def test_a_new_transaction() -> None:
    record = new_record(TXN, timeout_ms=20_000, started_ms=TIME, newest=0, owner=None)
    began = bytes.fromhex("0800 1000 1802 40") + varint(20_000) + b"\x48" + varint(TIME)
    assert record == began + WHEN + bytes.fromhex("5800")


def test_topics_and_subscriptions() -> None:
    topic = b"persistent://public/loc/txout"
    record = partitions_record(TXN, [topic.decode()], changed_ms=TIME, newest=0)
    assert record == bytes.fromhex("0801 1000 1802 321d") + topic + WHEN + bytes.fromhex("5800")
    topic = b"persistent://public/loc/txin"
    record = subscriptions_record(TXN, [(topic.decode(), "sub")], changed_ms=TIME, newest=0)
    named = bytes.fromhex("3a23 0a1c") + topic + bytes.fromhex("1203") + b"sub"
    assert record == bytes.fromhex("0802 1000 1802") + named + WHEN + bytes.fromhex("5800")


def test_changes_of_the_state() -> None:
    record = status_record(TXN, Entry.OPEN, Entry.COMMITTING, changed_ms=TIME, newest=0)
    assert record == bytes.fromhex("0803 1000 1802 2000 2801") + WHEN + bytes.fromhex("5800")
    record = status_record(TxnId(0, 0), Entry.ABORTING, Entry.ABORTED, changed_ms=TIME, newest=2)
    assert record == bytes.fromhex("0803 1000 1800 2003 2804") + WHEN + bytes.fromhex("5802")


def test_a_role_that_owns_the_transaction() -> None:
    record = new_record(TXN, timeout_ms=1, started_ms=TIME, newest=3, owner="app")
    assert record.endswith(bytes.fromhex("5803 6203") + b"app")


def test_a_batch_of_records() -> None:
    first = partitions_record(TXN, ["persistent://a/b/c"], changed_ms=TIME, newest=0)
    second = status_record(TXN, Entry.OPEN, Entry.ABORTING, changed_ms=TIME, newest=0)
    body = b"".join(b"\x0a" + bytes([len(record)]) + record for record in (first, second))
    records = coordinator_records(bytes.fromhex("0e01 0001") + body)
    assert [record.SerializeToString() for record in records] == [first, second]
    assert [record.SerializeToString() for record in coordinator_records(first)] == [first]
