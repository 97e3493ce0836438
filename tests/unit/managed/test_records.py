"""Records have Apache's bytes (Pulsar 4.0.8, seen in its ZooKeeper and cursor ledgers)."""

import struct
import zlib

import pytest

from engine.base.ids import Position
from engine.managed.ack_state import AckState
from engine.managed.errors import RecordFormatError
from engine.managed.positions import LedgerEntry, LedgerLine
from engine.managed.records import CursorRecord, CursorState, TopicRecord
from engine.wire import mledger_pb2 as pb

TOPICS = [
    ("0a0408202000", TopicRecord([LedgerEntry(32)])),
    (
        "0a04080220001a170a1270756c7361722e746f7069632e65706f6368120130",
        TopicRecord([LedgerEntry(2)], None, {"pulsar.topic.epoch": "0"}),
    ),
    (
        "0a0e081110151895072089e282ed9f340a04082020001a080a02747012027476",
        TopicRecord([LedgerEntry(17, 21, 917, 1795256529161), LedgerEntry(32)], None, {"tp": "tv"}),
    ),
    (
        "0a0e0804100a18a20220eecc9fed9f340a0d080610011827208fcca1ed9f340a04080a2000",
        TopicRecord(
            [
                LedgerEntry(4, 10, 290, 1795257001582),
                LedgerEntry(6, 1, 39, 1795257034255),
                LedgerEntry(10),
            ]
        ),
    ),
]


@pytest.mark.parametrize(("stored", "record"), TOPICS)
def test_topic_records(stored: str, record: TopicRecord) -> None:
    assert record.encode().hex() == stored
    assert TopicRecord.decode(bytes.fromhex(stored)) == record


SLASH = "08ffffffffffffffffff0110111801220c0a0408111003120408111004220c0a04081110061204081110073092e182ed9f34"
CURSORS = [
    (
        "08ffffffffffffffffff01100018ffffffffffffffffff0130fac3f1ec9f34",
        CursorRecord(-1, CursorState(Position(0, -1)), 1795256246778),
    ),
    (
        "0809100418ffffffffffffffffff013085cbf1ec9f34",
        CursorRecord(9, CursorState(Position(4, -1)), 1795256247685),
    ),
    (
        SLASH,
        CursorRecord(
            -1,
            CursorState(
                Position(17, 1),
                [(Position(17, 4), Position(17, 4)), (Position(17, 7), Position(17, 7))],
            ),
            1795256529042,
        ),
    ),
    ("08071004180430dcd49fed9f34", CursorRecord(7, CursorState(Position(4, 4)), 1795257002588)),
]


@pytest.mark.parametrize(("stored", "record"), CURSORS)
def test_cursor_records(stored: str, record: CursorRecord) -> None:
    assert record.encode().hex() == stored
    assert CursorRecord.decode(bytes.fromhex(stored)) == record


def test_entries_of_a_cursor_ledger() -> None:
    stored = "080410041a0c0a0408041006120408041007"
    state = CursorState(Position(4, 4), [(Position(4, 7), Position(4, 7))])
    assert state.encode().hex() == stored
    assert CursorState.decode(bytes.fromhex(stored)) == state


def test_empty_bytes_are_a_topic_without_ledgers() -> None:
    assert TopicRecord.decode(b"") == TopicRecord()


def test_terminated_topics_and_foreign_fields_come_back() -> None:
    info = pb.ManagedLedgerInfo()
    one = info.ledgerInfo.add(ledgerId=3, entries=2, size=9, timestamp=7)
    one.offloadContext.uidMsb = 5
    one.properties.add(key="k", value="v")
    info.terminatedPosition.ledgerId, info.terminatedPosition.entryId = 3, 1
    record = TopicRecord.decode(info.SerializeToString())
    assert record.terminated == Position(3, 1)
    again = pb.ManagedLedgerInfo.FromString(record.encode())
    assert again == info


@pytest.mark.parametrize("kind", ["none", "zlib"])
def test_compressed_wrapper_is_read(kind: str) -> None:
    plain = bytes.fromhex(TOPICS[2][0])
    payload = zlib.compress(plain) if kind == "zlib" else plain
    meta = pb.ManagedLedgerInfoMetadata(
        compressionType=pb.ZLIB if kind == "zlib" else pb.NONE, uncompressedSize=len(plain)
    ).SerializeToString()
    wrapped = struct.pack(">HI", 0x4778, len(meta)) + meta + payload
    assert TopicRecord.decode(wrapped) == TOPICS[2][1]


def test_unknown_compression_and_garbage_are_named() -> None:
    meta = pb.ManagedLedgerInfoMetadata(compressionType=pb.ZSTD, uncompressedSize=1)
    raw = meta.SerializeToString()
    with pytest.raises(RecordFormatError, match="ZSTD"):
        TopicRecord.decode(struct.pack(">HI", 0x4778, len(raw)) + raw + b"x")
    with pytest.raises(RecordFormatError, match="ManagedCursorInfo"):
        CursorRecord.decode(b"\xff\xff\xff")


def test_bit_sets_of_newer_brokers_are_read() -> None:
    info = pb.PositionInfo(ledgerId=4, entryId=4)
    info.individualDeletedMessageRanges.add(key=4, values=[0b11100000, -(1 << 63)])
    state = CursorState.decode(info.SerializeToString())
    assert state.ranges == [(Position(4, 5), Position(4, 7)), (Position(4, 127), Position(4, 127))]


@pytest.mark.parametrize("step", [2, 3, 7])
def test_many_ranges_are_stored_short_and_whole(step: int) -> None:
    line = LedgerLine([LedgerEntry(1, 30_000), LedgerEntry(2, 30_000)])
    acks = AckState(5, [(at, min(at + step - 1, 60_000)) for at in range(7, 60_000, step)])
    state = CursorState.of(acks, line, {})
    payload = state.encode()
    assert len(payload) < 14_000 + 60_000 // 64 * 11 < len(state.ranges) * 12 + 90_000
    found = CursorState.decode(payload).acks(line)
    assert (found.mark, found.holes) == (acks.mark, acks.holes)


def test_a_range_across_ledgers_is_stored_per_ledger() -> None:
    line = LedgerLine([LedgerEntry(1, 10), LedgerEntry(3, 10)])
    acks = AckState(2, [(8, 13)])
    state = CursorState.decode(CursorState.of(acks, line, {}).encode())
    assert state.ranges == [(Position(1, 8), Position(1, 9)), (Position(3, 0), Position(3, 2))]
    assert state.acks(line).holes == acks.holes


def test_state_of_trimmed_ledgers_counts_as_acknowledged() -> None:
    state = CursorState(
        Position(1, 3), [(Position(1, 5), Position(3, 1))], {Position(1, 4): 1, Position(3, 5): 6}
    )
    acks = state.acks(LedgerLine([LedgerEntry(3, 10)]))
    assert (acks.mark, list(acks.holes), acks.batches) == (2, [], {5: 6})
