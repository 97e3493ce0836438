"""Records have Apache's bytes (Pulsar 4.0.8, seen in its ZooKeeper and cursor ledgers)."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.managed.errors import StoredRecordError
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.stored.records import CursorRecord, CursorState, LogRecord
from engine.wire import mledger_pb2 as pb
from engine.wire.compression import compress

TOPICS = [
    ("0a0408202000", LogRecord([LedgerSpan(32)])),
    (
        "0a04080220001a170a1270756c7361722e746f7069632e65706f6368120130",
        LogRecord([LedgerSpan(2)], None, {"pulsar.topic.epoch": "0"}),
    ),
    (
        "0a0e081110151895072089e282ed9f340a04082020001a080a02747012027476",
        LogRecord([LedgerSpan(17, 21, 917, 1795256529161), LedgerSpan(32)], None, {"tp": "tv"}),
    ),
    (
        "0a0e0804100a18a20220eecc9fed9f340a0d080610011827208fcca1ed9f340a04080a2000",
        LogRecord(
            [
                LedgerSpan(4, 10, 290, 1795257001582),
                LedgerSpan(6, 1, 39, 1795257034255),
                LedgerSpan(10),
            ]
        ),
    ),
]


@pytest.mark.parametrize(("stored", "record"), TOPICS)
def test_topic_records(stored: str, record: LogRecord) -> None:
    assert record.encode().hex() == stored
    assert LogRecord.decode(bytes.fromhex(stored)) == record


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


def test_empty_bytes_are_a_topic_without_ledgers() -> None:
    assert LogRecord.decode(b"") == LogRecord()


def test_ledgers_are_in_order_of_their_ids_however_another_broker_stored_them() -> None:
    stored = LogRecord([LedgerSpan(8), LedgerSpan(4, 100, 3690, 1), LedgerSpan(5, 90, 3000, 2)])
    read = LogRecord.decode(stored.encode())
    assert [span.ledger_id for span in read.ledgers] == [4, 5, 8]


def test_terminated_topics_and_foreign_fields_round_trip() -> None:
    info = pb.ManagedLedgerInfo()
    span = info.ledgerInfo.add(ledgerId=3, entries=2, size=9, timestamp=7)
    span.offloadContext.uidMsb = 5
    span.properties.add(key="k", value="v")
    info.terminatedPosition.ledgerId, info.terminatedPosition.entryId = 3, 1
    record = LogRecord.decode(info.SerializeToString())
    assert record.terminated == Position(3, 1)
    again = pb.ManagedLedgerInfo.FromString(record.encode())
    assert again == info


def wrapped(kind: int, size: int, payload: bytes) -> bytes:
    """Return the payload in the compressed wrapper of newer brokers."""
    meta = pb.ManagedLedgerInfoMetadata(compressionType=kind, uncompressedSize=size)  # type: ignore[arg-type]
    raw = meta.SerializeToString()
    return struct.pack(">HI", 0x4778, len(raw)) + raw + payload


@pytest.mark.parametrize("kind", pb.CompressionType.values())
def test_compressed_records_are_read(kind: int) -> None:
    for stored, topic in TOPICS:
        plain = bytes.fromhex(stored)
        assert LogRecord.decode(wrapped(kind, len(plain), compress(kind, plain))) == topic
    for stored, cursor in CURSORS:
        plain = bytes.fromhex(stored)
        assert CursorRecord.decode(wrapped(kind, len(plain), compress(kind, plain))) == cursor


@pytest.mark.parametrize("kind", pb.CompressionType.values()[1:])
@pytest.mark.parametrize("size", [-1, 0, 1, 1 << 30])
def test_false_sizes_of_compressed_records_are_refused(kind: int, size: int) -> None:
    payload = compress(kind, bytes.fromhex(TOPICS[2][0]))
    with pytest.raises(StoredRecordError, match="compressed record"):
        LogRecord.decode(wrapped(kind, size, payload))


def test_garbage_is_named() -> None:
    with pytest.raises(StoredRecordError, match="compressed record: ZSTD"):
        LogRecord.decode(wrapped(pb.ZSTD, 1, b"x"))
    with pytest.raises(StoredRecordError, match="ManagedCursorInfo"):
        CursorRecord.decode(b"\xff\xff\xff")


@given(st.binary(max_size=200))
def test_any_stored_bytes_are_read_or_refused_by_name(value: bytes) -> None:
    for head in (b"", bytes.fromhex("0a0408202000"), b"\x47\x78\x00\x00\x00\x04\x08\x02\x10\x40"):
        for decode in (LogRecord.decode, CursorRecord.decode, CursorState.decode):
            with contextlib.suppress(StoredRecordError):
                decode(head + value)


UNKNOWN = bytes.fromhex("9a0603616263")  # field 99, "abc"


def test_fields_we_do_not_know_are_written_back() -> None:
    ledger = UNKNOWN + bytes.fromhex("08112000")
    stored = b"\x0a" + bytes([len(ledger)]) + ledger + UNKNOWN
    topic = LogRecord.decode(stored)
    topic.properties["k"] = "v"
    topic.ledgers.append(LedgerSpan(18))
    again = LogRecord.decode(topic.encode())
    assert (again.extra, [span.extra for span in again.ledgers]) == (UNKNOWN, [UNKNOWN, b""])
    cursor = CursorRecord.decode(bytes.fromhex(CURSORS[0][0]) + UNKNOWN)
    assert cursor.encode() == bytes.fromhex(CURSORS[0][0]) + UNKNOWN


def test_bit_sets_of_newer_brokers_are_read() -> None:
    info = pb.PositionInfo(ledgerId=4, entryId=4)
    info.individualDeletedMessageRanges.add(key=4, values=[0b11100000, -(1 << 63)])
    state = CursorState.decode(info.SerializeToString())
    acks = state.acks(LedgerLine([LedgerSpan(4, 200)]))
    assert (acks.mark, list(acks.holes)) == (8, [(127, 128)])
    assert state.acks(LedgerLine([LedgerSpan(4, 127)])).holes.total == 0
    assert state.acks(LedgerLine([LedgerSpan(5, 200)])).holes.total == 0


def test_state_of_trimmed_ledgers_counts_as_acknowledged() -> None:
    state = CursorState(
        Position(1, 3), [(Position(1, 5), Position(3, 1))], {Position(1, 4): 1, Position(3, 5): 6}
    )
    acks = state.acks(LedgerLine([LedgerSpan(3, 10)]))
    assert (acks.mark, list(acks.holes), acks.batches) == (2, [], {5: 6})


def test_our_own_fields_are_stored_as_properties_that_other_brokers_keep() -> None:
    topic = LogRecord(properties={"k": "v", "magnetar.mine": "no"}, doomed=[3, 17], deleted=True)
    info = pb.ManagedLedgerInfo.FromString(topic.encode())
    stored = {item.key: item.value for item in info.properties}
    assert stored == {
        "k": "v",
        "magnetar.doomed-ledgers": "3 17",
        "magnetar.deleted": "true",
    }
    again = LogRecord.decode(topic.encode())
    assert again == LogRecord(properties={"k": "v"}, doomed=[3, 17], deleted=True)
    info.ledgerInfo.add(ledgerId=17)  # recreated by a broker that does not know the mark
    again = LogRecord.decode(info.SerializeToString())
    assert (again.doomed, again.deleted) == ([3], False)
    info.properties[1].value = "3 x -4 99999999999999999999"
    assert LogRecord.decode(info.SerializeToString()).doomed == [3]
    state = CursorState(Position(3, 1), properties={"p": 1})
    cursor = CursorRecord(9, state, doomed=[5, 7], deleted=True)
    own = pb.ManagedCursorInfo.FromString(cursor.encode())
    assert {item.name: item.value for item in own.properties} == {
        "p": 1,
        "magnetar.doomed-ledger.5": 5,
        "magnetar.doomed-ledger.7": 7,
        "magnetar.deleted": 9,
    }
    assert CursorRecord.decode(cursor.encode()) == cursor
    own.cursorsLedgerId = 7
    decoded = CursorRecord.decode(own.SerializeToString())
    assert (decoded.doomed, decoded.deleted, decoded.state.properties) == ([5], False, {"p": 1})
