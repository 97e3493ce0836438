"""Stored records of topics and cursors, in Pulsar's layout; see docs/formats/managed-ledger.md. Pure.

``/managed-ledgers/<name>`` holds a ManagedLedgerInfo, its children ManagedCursorInfo, the entries of a cursor ledger
are PositionInfo (written by ``ack_snapshot``). Values are bare protobuf; the compressed wrapper (magic 0x4778) that
later brokers may write is read. Fields that we do not know are written back as they came.
"""

import re
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError, Message

from engine.base.ids import Position
from engine.base.ranges import bits_of, words_of
from engine.managed.ack_state import AckState
from engine.managed.errors import InvalidPropertyError, StoredRecordError
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.wire import mledger_pb2 as pb
from engine.wire.texts import readable

MAGIC = 0x4778
RECORD_BYTES_MAX = 64 << 20
"""A compressed record that claims to be longer is refused."""
_LEDGER_ID = re.compile(r"[0-9]{1,18}\Z")
OWN_PREFIX = "magnetar."
"""Properties with such names are ours: other brokers keep them and do not know what they mean."""
INTERNAL_PREFIX = "#pulsar.internal."
COMPACTED_LEDGER = "CompactedTopicLedger"
"""The property of the compaction's cursor that names the ledger it wrote last."""
"""Properties of a subscription with such names are kept by Apache's brokers for themselves."""
CURSOR_PROPERTIES_BYTES_MAX = 64 << 10
"""Names and values of a subscription's properties: they share a node with its state, and go with each write of it."""
INDEX_ONE = INTERNAL_PREFIX + OWN_PREFIX + "delay-index."
"""With the id of a ledger behind it: the property's value is how many entries the index there has."""
DELETED = OWN_PREFIX + "deleted"
DOOMED = OWN_PREFIX + "doomed-ledgers"
DOOMED_ONE = OWN_PREFIX + "doomed-ledger."
CURSOR_FIELDS = tuple(one.name for one in pb.ManagedCursorInfo.DESCRIPTOR.fields)


@dataclass(slots=True)
class LogRecord:
    """A topic's ledgers, where it was sealed, its properties, and ``extra``: fields we do not know, encoded.

    ``doomed``: ledgers that are the topic's no more and may not be deleted yet. ``deleted``: the topic is being deleted
    with its cursors. That ends with the first ledger in the list: then the topic was made anew, by whomever.
    """

    ledgers: list[LedgerSpan] = field(default_factory=list)
    terminated: Position | None = None
    properties: dict[str, str] = field(default_factory=dict)
    extra: bytes = b""
    doomed: list[int] = field(default_factory=list)
    deleted: bool = False

    def encode(self) -> bytes:
        info = pb.ManagedLedgerInfo.FromString(self.extra)
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
            if not key.startswith(OWN_PREFIX):
                info.properties.add(key=key, value=value)
        if self.doomed:
            info.properties.add(key=DOOMED, value=" ".join(map(str, self.doomed)))
        if self.deleted:
            info.properties.add(key=DELETED, value="true")
        return info.SerializeToString()

    @classmethod
    def decode(cls, value: bytes) -> "LogRecord":
        """Raises StoredRecordError. Empty bytes are a topic without ledgers."""
        info = pb.ManagedLedgerInfo()
        _parse(info, _unwrap(value))
        ledgers = []
        for one in info.ledgerInfo:
            known = one.ledgerId, one.entries, one.size, one.timestamp
            ledgers.append(
                LedgerSpan(*known, _rest(one, "ledgerId", "entries", "size", "timestamp"))
            )
        terminated = None
        if info.HasField("terminatedPosition"):
            at = info.terminatedPosition
            terminated = Position(at.ledgerId, at.entryId)
        properties = {readable(one.key): readable(one.value) for one in info.properties}
        extra = _rest(info, "ledgerInfo", "terminatedPosition", "properties")
        doomed = [int(one) for one in properties.get(DOOMED, "").split() if _LEDGER_ID.match(one)]
        present = {one.ledger_id for one in ledgers}
        return cls(
            ledgers,
            terminated,
            {key: text for key, text in properties.items() if not key.startswith(OWN_PREFIX)},
            extra,
            [one for one in doomed if one not in present],
            DELETED in properties and not ledgers,
        )


@dataclass(slots=True)
class CursorState:
    """Acknowledgements as positions. ``ranges``: first and last entry, inclusive, in positions of any ledgers;
    ``batches``: bits of messages not acknowledged. ``change``: a LastChange, encoded; empty for none."""

    mark_delete: Position
    ranges: list[tuple[Position, Position]] = field(default_factory=list)
    batches: dict[Position, int] = field(default_factory=dict)
    properties: dict[str, int] = field(default_factory=dict)
    change: bytes = b""

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
    def decode(cls, value: bytes) -> "CursorState":
        """From a PositionInfo. Raises StoredRecordError."""
        info = pb.PositionInfo()
        _parse(info, value)
        ranges = _take_ranges(info.individualDeletedMessages)
        for one in info.individualDeletedMessageRanges:
            ranges += _ranges_of(one.key, bits_of(one.values))
        batches, properties, _ = _take_common(info)  # other brokers write ours here, too
        at = Position(info.ledgerId, info.entryId)
        return cls(at, ranges, batches, properties, info.magnetarChange)


@dataclass(slots=True)
class CursorRecord:
    """A cursor in the metadata store. ``ledger_id`` -1: ``state`` is the whole truth; else the snapshot taken when
    that cursor ledger was opened, without ranges, for the case that the ledger is gone.

    ``doomed``: ledgers that it used before and that may not be deleted yet. ``deleted``: it is being deleted, and its
    ledger may be gone; only with a ledger, and no more once another broker has given the cursor another one.
    ``index``: ledgers with an index of entries that wait for their time, and how many entries each has. ``created``:
    metadata of the cursor ledger as it was created, encoded; empty where that is not known.
    """

    ledger_id: int
    state: CursorState
    last_active_ms: int = 0
    cursor_properties: dict[str, str] = field(default_factory=dict)
    extra: bytes = b""
    doomed: list[int] = field(default_factory=list)
    deleted: bool = False
    index: dict[int, int] = field(default_factory=dict)
    created: bytes = b""

    @property
    def ledgers(self) -> list[int]:
        """All that go when the cursor goes."""
        compacted = self.state.properties.get(COMPACTED_LEDGER, -1)
        return [one for one in (*self.doomed, *self.index, compacted, self.ledger_id) if one >= 0]

    def encode(self) -> bytes:
        at = self.state.mark_delete
        info = pb.ManagedCursorInfo()
        info.MergeFromString(self.extra)
        info.cursorsLedgerId = self.ledger_id
        info.markDeleteLedgerId, info.markDeleteEntryId = at.ledger_id, at.entry_id
        info.lastActive = self.last_active_ms
        if self.ledger_id < 0:
            _put_ranges(info, self.state.ranges)
            put_common(info, self.state.properties, self.state.batches, self.state.change)
        else:
            put_common(info, self.state.properties, {})
            if self.created:
                info.magnetarLedger = self.created
        for ledger_id in self.doomed:
            info.properties.add(name=f"{DOOMED_ONE}{ledger_id}", value=ledger_id)
        if self.deleted:
            info.properties.add(name=DELETED, value=self.ledger_id)
        for key, text in self.cursor_properties.items():
            info.cursorProperties.add(name=key, value=text)
        for ledger_id, entries in self.index.items():
            info.cursorProperties.add(name=f"{INDEX_ONE}{ledger_id}", value=str(entries))
        return info.SerializeToString()

    @classmethod
    def decode(cls, value: bytes) -> "CursorRecord":
        """Raises StoredRecordError."""
        info = pb.ManagedCursorInfo()
        _parse(info, _unwrap(value))
        at = Position(info.markDeleteLedgerId, info.markDeleteEntryId)
        if not info.HasField("markDeleteLedgerId"):
            at = Position(-1, -1)
        batches, properties, own = _take_common(info)
        ranges = _take_ranges(info.individualDeletedMessages)
        state = CursorState(at, ranges, batches, properties, info.magnetarChange)
        texts = {readable(one.name): readable(one.value) for one in info.cursorProperties}
        index = _take_index(texts)
        ledger_id = info.cursorsLedgerId
        known = ledger_id, state, info.lastActive, texts
        doomed = [
            value
            for key, value in own.items()
            if key == f"{DOOMED_ONE}{value}" and value not in (ledger_id, -1)
        ]
        deleted = ledger_id >= 0 and own.get(DELETED) == ledger_id
        created = info.magnetarLedger
        return cls(*known, _rest(info, *CURSOR_FIELDS), doomed, deleted, index, created)


def check_cursor_properties(properties: Mapping[str, str]) -> None:
    """Raise InvalidPropertyError for a subscription's properties with names that are the brokers' own, which may name
    ledgers to be deleted, or of more bytes than are stored."""
    for key in properties:
        if key.startswith(INTERNAL_PREFIX):
            raise InvalidPropertyError(
                f"subscription properties: names with {INTERNAL_PREFIX} are reserved: {key[:100]}"
            )
    size = sum(len(key.encode()) + len(value.encode()) for key, value in properties.items())
    if size > CURSOR_PROPERTIES_BYTES_MAX:
        raise InvalidPropertyError(
            f"subscription properties: {size} bytes, at most {CURSOR_PROPERTIES_BYTES_MAX} are stored"
        )


def _take_index(texts: dict[str, str]) -> dict[int, int]:
    """The ledgers of an index, taken out of a subscription's properties; what is none stays there."""
    index: dict[int, int] = {}
    for key in [key for key in texts if key.startswith(INDEX_ONE)]:
        ledger_id = key.removeprefix(INDEX_ONE)
        if _LEDGER_ID.match(ledger_id) and _LEDGER_ID.match(texts[key]):
            index[int(ledger_id)] = int(texts.pop(key))
    return index


def offload_of(ledger: LedgerSpan) -> tuple[bool, uuid.UUID | None]:
    """Whether another broker moved the ledger to cheaper storage, and the id of its last attempt to."""
    one = pb.ManagedLedgerInfo.LedgerInfo(ledgerId=ledger.ledger_id)
    one.MergeFromString(ledger.extra)
    if not one.HasField("offloadContext"):
        return False, None
    halves = one.offloadContext.uidMsb, one.offloadContext.uidLsb
    return one.offloadContext.complete, uuid.UUID(bytes=struct.pack(">qq", *halves))


def _rest(message: Message, *known: str) -> bytes:
    """What is in ``message`` beside the fields ``known``, which are cleared."""
    for name in known:
        message.ClearField(name)
    return message.SerializePartialToString()


def _put_ranges(info: pb.ManagedCursorInfo, ranges: list[tuple[Position, Position]]) -> None:
    for first, last in ranges:
        one = info.individualDeletedMessages.add()
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


def put_common(
    info: pb.PositionInfo | pb.ManagedCursorInfo,
    properties: dict[str, int],
    batches: dict[Position, int],
    change: bytes = b"",
) -> None:
    """The fields that both kinds of record have under the same names."""
    if change:
        info.magnetarChange = change
    for name, value in properties.items():
        info.properties.add(name=name, value=value)
    for position, bits in batches.items():
        one = info.batchedEntryDeletionIndexInfo.add()
        one.position.ledgerId = position.ledger_id
        one.position.entryId = position.entry_id
        one.deleteSet.extend(words_of(bits))


def _take_common(
    info: "pb.PositionInfo | pb.ManagedCursorInfo",
) -> tuple[dict[Position, int], dict[str, int], dict[str, int]]:
    """Parts of batches, properties, and those that are ours."""
    batches = {
        Position(one.position.ledgerId, one.position.entryId): bits_of(one.deleteSet)
        for one in info.batchedEntryDeletionIndexInfo
    }
    properties = {readable(one.name): one.value for one in info.properties}
    own = {key: properties.pop(key) for key in list(properties) if key.startswith(OWN_PREFIX)}
    return batches, properties, own


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
        raise StoredRecordError(f"{kind}: {len(value)} bytes cannot be parsed: {error}") from error
    if not message.IsInitialized():
        raise StoredRecordError(
            f"{type(message).__name__}: {len(value)} bytes lack a required field"
        )


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
    if meta.uncompressedSize < 0:
        raise StoredRecordError(f"compressed record: uncompressedSize is {meta.uncompressedSize}")
    # Late: seldom needed, and heavy.
    from engine.wire.compression import CompressionError, decompress

    try:
        # The records' numbers are those of messages.
        return decompress(meta.compressionType, payload, meta.uncompressedSize, RECORD_BYTES_MAX)
    except CompressionError as error:
        raise StoredRecordError(f"compressed record: {error}") from error
