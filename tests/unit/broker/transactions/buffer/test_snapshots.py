"""Snapshots equal those of Apache Pulsar 4.0.8 to the byte."""

from engine.base.ids import Position
from engine.broker.transactions.buffer.snapshots import (
    SINGLE,
    TOPICS,
    BufferSnapshot,
    read_single,
    single_value,
)
from engine.broker.transactions.txn_id import TxnId

TOPIC = "persistent://public/loc/txout"
NAMED = bytes.fromhex("023a") + TOPIC.encode()
ABORTED = {TxnId(0, 0): Position(13, 2), TxnId(0, 1): Position(13, 4)}


def encoded(snapshot: BufferSnapshot) -> bytes:
    return TOPICS[SINGLE].types.encode(single_value(TOPIC, snapshot))


def decoded(value: bytes) -> BufferSnapshot:
    return read_single(TOPICS[SINGLE].types.decode(value))


def test_a_snapshot_without_aborted_transactions() -> None:
    first = BufferSnapshot(Position(61, -1), {})
    assert encoded(first) == bytes.fromhex("0200017a") + NAMED
    assert decoded(encoded(first)) == first
    assert encoded(BufferSnapshot(Position(61, 11), {})) == bytes.fromhex("0200167a") + NAMED


def test_a_snapshot_with_aborted_transactions() -> None:
    snapshot = BufferSnapshot(Position(13, 4), ABORTED)
    expected = bytes.fromhex("0204 041a0000 081a0200 00 081a") + NAMED
    assert encoded(snapshot) == expected
    assert decoded(expected) == snapshot


def test_ids_have_64_bits_without_a_sign() -> None:
    highest = BufferSnapshot(Position(1, 2), {TxnId((1 << 64) - 1, 1 << 63): Position(1, 1)})
    assert decoded(encoded(highest)) == highest
