"""Stored records of topics and cursors, in Pulsar's layout; see docs/formats/managed-ledger.md. Pure.

``/managed-ledgers/<name>`` holds a ManagedLedgerInfo, its children ManagedCursorInfo, the entries of a cursor ledger
are PositionInfo. Values are bare protobuf; the compressed wrapper (magic 0x4778) that later brokers may write is read.
"""

import struct
import zlib
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError, Message

from engine.base.ids import Position
from engine.managed.ack_state import AckState, bits_of, words_of
from engine.managed.errors import RecordFormatError
from engine.managed.positions import LedgerEntry, LedgerLine
from engine.wire import mledger_pb2 as pb

MAGIC = 0x4778
RANGES_AS_RANGES_MAX = 1000
"""More acknowledged ranges than this are stored as bit sets per ledger where that is shorter."""


@dataclass(slots=True)
class TopicRecord:
    """A topic's ledgers, where it was sealed, and its properties."""

    ledgers: list[LedgerEntry] = field(default_factory=list)
    terminated: Position | None = None
    properties: dict[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        info = pb.ManagedLedgerInfo()
        for ledger in self.ledgers:
            one = info.ledgerInfo.add()
            if ledger.extra:
                one.ParseFromString(ledger.extra)
            one.ledgerId = ledger.ledger_id
            one.timestamp = ledger.timestamp_ms
            if ledger.timestamp_ms:
                one.entries = ledger.entries
                one.size = ledger.size
        if self.terminated is not None:
            info.terminatedPosition.ledgerId = self.terminated.ledger_id
            info.terminatedPosition.entryId = self.terminated.entry_id
        for key, value in self.properties.items():
            info.properties.add(key=key, value=value)
        return info.SerializeToString()

    @classmethod
    def decode(cls, value: bytes) -> "TopicRecord":
        """Raises RecordFormatError. Empty bytes are a topic without ledgers."""
        info = pb.ManagedLedgerInfo()
        _parse(info, _unwrap(value))
        ledgers = []
        for one in info.ledgerInfo:
            extra = b""
            if one.HasField("offloadContext") or one.properties:
                rest = pb.ManagedLedgerInfo.LedgerInfo()
                rest.CopyFrom(one)
                extra = rest.SerializePartialToString()
            ledgers.append(LedgerEntry(one.ledgerId, one.entries, one.size, one.timestamp, extra))
        terminated = None
        if info.HasField("terminatedPosition"):
            at = info.terminatedPosition
            terminated = Position(at.ledgerId, at.entryId)
        return cls(ledgers, terminated, {one.key: one.value for one in info.properties})


@dataclass(slots=True)
class CursorState:
    """Acknowledgements as positions. ``ranges``: first and last entry, inclusive, in positions of any ledgers;
    ``batches``: bits of messages not acknowledged."""

    mark_delete: Position
    ranges: list[tuple[Position, Position]] = field(default_factory=list)
    batches: dict[Position, int] = field(default_factory=dict)
    properties: dict[str, int] = field(default_factory=dict)

    def acks(self, line: LedgerLine) -> AckState:
        """As ordinals of the ledgers that exist; what lies before them is acknowledged, what lies behind is not."""
        holes = []
        for first, last in self.ranges:
            holes.append((line.ordinal(first), line.ordinal_after(last)))
        batches = {}
        for position, bits in self.batches.items():
            ordinal = line.exact(*position)
            if ordinal >= 0:
                batches[ordinal] = bits
        return AckState(line.ordinal_after(self.mark_delete), holes, batches)

    @classmethod
    def of(cls, acks: AckState, line: LedgerLine, properties: dict[str, int]) -> "CursorState":
        """Snapshot of ``acks``."""
        ranges = [one for start, stop in acks.holes for one in line.spans(start, stop)]
        batches = {line.position(ordinal): bits for ordinal, bits in acks.batches.items()}
        return cls(line.before(acks.mark), ranges, batches, dict(properties))

    def encode(self) -> bytes:
        """As PositionInfo: the payload of a cursor ledger's entry."""
        info = pb.PositionInfo(
            ledgerId=self.mark_delete.ledger_id, entryId=self.mark_delete.entry_id
        )
        words = _words(self.ranges) if len(self.ranges) > RANGES_AS_RANGES_MAX else None
        if words is None:
            _put_ranges(info.individualDeletedMessages, self.ranges)
        else:
            for ledger_id, values in words.items():
                info.individualDeletedMessageRanges.add(key=ledger_id, values=values)
        _put_common(info, self)
        return info.SerializeToString()

    @classmethod
    def decode(cls, value: bytes) -> "CursorState":
        """From a PositionInfo. Raises RecordFormatError."""
        info = pb.PositionInfo()
        _parse(info, value)
        ranges = _take_ranges(info.individualDeletedMessages)
        for one in info.individualDeletedMessageRanges:
            ranges += _ranges_of(one.key, bits_of(one.values))
        return cls(Position(info.ledgerId, info.entryId), ranges, *_take_common(info))


@dataclass(slots=True)
class CursorRecord:
    """A cursor in the metadata store. ``ledger_id`` -1: ``state`` is the whole truth; else the snapshot taken when
    that cursor ledger was opened, without ranges, for the case that the ledger is gone."""

    ledger_id: int
    state: CursorState
    last_active_ms: int = 0
    cursor_properties: dict[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        at = self.state.mark_delete
        info = pb.ManagedCursorInfo(
            cursorsLedgerId=self.ledger_id,
            markDeleteLedgerId=at.ledger_id,
            markDeleteEntryId=at.entry_id,
            lastActive=self.last_active_ms,
        )
        if self.ledger_id < 0:
            _put_ranges(info.individualDeletedMessages, self.state.ranges)
            _put_common(info, self.state)
        else:
            for name, value in self.state.properties.items():
                info.properties.add(name=name, value=value)
        for key, text in self.cursor_properties.items():
            info.cursorProperties.add(name=key, value=text)
        return info.SerializeToString()

    @classmethod
    def decode(cls, value: bytes) -> "CursorRecord":
        """Raises RecordFormatError."""
        info = pb.ManagedCursorInfo()
        _parse(info, _unwrap(value))
        at = Position(info.markDeleteLedgerId, info.markDeleteEntryId)
        if not info.HasField("markDeleteLedgerId"):
            at = Position(-1, -1)
        state = CursorState(at, _take_ranges(info.individualDeletedMessages), *_take_common(info))
        texts = {one.name: one.value for one in info.cursorProperties}
        return cls(info.cursorsLedgerId, state, info.lastActive, texts)


def _put_ranges(field_: object, ranges: list[tuple[Position, Position]]) -> None:
    for first, last in ranges:
        one = field_.add()  # type: ignore[attr-defined]
        one.lowerEndpoint.ledgerId = first.ledger_id
        one.lowerEndpoint.entryId = first.entry_id - 1  # stored exclusive
        one.upperEndpoint.ledgerId = last.ledger_id
        one.upperEndpoint.entryId = last.entry_id


def _take_ranges(field_: object) -> list[tuple[Position, Position]]:
    ranges = []
    for one in field_:  # type: ignore[attr-defined]
        low, high = one.lowerEndpoint, one.upperEndpoint
        first = Position(low.ledgerId, low.entryId + 1)
        ranges.append((first, Position(high.ledgerId, high.entryId)))
    return ranges


def _put_common(info: "pb.PositionInfo | pb.ManagedCursorInfo", state: CursorState) -> None:
    for name, value in state.properties.items():
        info.properties.add(name=name, value=value)
    for position, bits in state.batches.items():
        one = info.batchedEntryDeletionIndexInfo.add()
        one.position.ledgerId = position.ledger_id
        one.position.entryId = position.entry_id
        one.deleteSet.extend(words_of(bits))


def _take_common(
    info: "pb.PositionInfo | pb.ManagedCursorInfo",
) -> tuple[dict[Position, int], dict[str, int]]:
    batches = {
        Position(one.position.ledgerId, one.position.entryId): bits_of(one.deleteSet)
        for one in info.batchedEntryDeletionIndexInfo
    }
    return batches, {one.name: one.value for one in info.properties}


def _words(ranges: list[tuple[Position, Position]]) -> dict[int, list[int]] | None:
    """Acknowledged entries as bits per ledger (bit = entry), None when ranges are shorter or cross ledgers."""
    last_entry: dict[int, int] = {}
    for first, last in ranges:
        if first.ledger_id != last.ledger_id:
            return None
        last_entry[last.ledger_id] = last.entry_id
    if sum(entry // 64 + 1 for entry in last_entry.values()) * 10 > len(ranges) * 16:
        return None
    raw = {ledger_id: bytearray(entry // 64 * 8 + 8) for ledger_id, entry in last_entry.items()}
    for first, last in ranges:
        _set_bits(raw[first.ledger_id], first.entry_id, last.entry_id)
    return {key: list(struct.unpack(f"<{len(b) // 8}q", b)) for key, b in raw.items()}


def _set_bits(raw: bytearray, first: int, last: int) -> None:
    low, high = first >> 3, last >> 3
    if low == high:
        raw[low] |= (0xFF << (first & 7)) & (0xFF >> (7 - (last & 7)))
        return
    raw[low] |= (0xFF << (first & 7)) & 0xFF
    raw[low + 1 : high] = b"\xff" * (high - low - 1)
    raw[high] |= 0xFF >> (7 - (last & 7))


def _ranges_of(ledger_id: int, bits: int) -> list[tuple[Position, Position]]:
    ranges = []
    text = bin(bits)[:1:-1]  # lowest bit first
    start = text.find("1")
    while start >= 0:
        stop = text.find("0", start)
        stop = len(text) if stop < 0 else stop
        ranges.append((Position(ledger_id, start), Position(ledger_id, stop - 1)))
        start = text.find("1", stop)
    return ranges


def _parse(message: Message, value: bytes) -> None:
    try:
        message.ParseFromString(value)
    except DecodeError as error:
        kind = type(message).__name__
        raise RecordFormatError(f"{kind}: {len(value)} bytes cannot be parsed: {error}") from error


def _unwrap(value: bytes) -> bytes:
    """The record inside a compressed wrapper: u16 magic, u32 length of metadata, metadata, payload."""
    if len(value) < 6 or struct.unpack_from(">H", value)[0] != MAGIC:
        return value
    (size,) = struct.unpack_from(">I", value, 2)
    meta = pb.ManagedLedgerInfoMetadata()  # same fields as ManagedCursorInfoMetadata
    _parse(meta, value[6 : 6 + size])
    payload = value[6 + size :]
    if meta.compressionType == pb.NONE:
        return payload
    if meta.compressionType == pb.ZLIB:
        try:
            return zlib.decompress(payload)
        except zlib.error as error:
            raise RecordFormatError(f"compressed record: {error}") from error
    kind = pb.CompressionType.Name(meta.compressionType)
    raise RecordFormatError(f"compressed record: {kind} is not supported, rewrite it with NONE")
