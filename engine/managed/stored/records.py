"""Stored records of topics and cursors, in Pulsar's layout; see docs/formats/managed-ledger.md. Pure.

``/managed-ledgers/<name>`` holds a ManagedLedgerInfo, its children ManagedCursorInfo; the entries of a cursor ledger
are PositionInfo (written by ``ack_snapshot``). Values are bare protobuf. The compressed wrapper (magic 0x4778) that
later brokers may write is read. Unknown fields are written back byte for byte.
"""

import re
import struct
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from google.protobuf.message import DecodeError, Message

from engine.base.ids import Position
from engine.base.ranges import bits_of, words_of
from engine.base.tasks import at_once
from engine.managed.ack_state import STEP, AckState
from engine.managed.errors import InvalidPropertyError, StoredRecordError
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.stored.offloads import DoomedObjects, doomed_from, doomed_text, offload_of
from engine.wire import mledger_pb2 as pb
from engine.wire.texts import readable

MAGIC = 0x4778
RECORD_BYTES_MAX = 64 << 20
"""Uncompressed bytes of a compressed record; one that claims more is refused."""
_LEDGER_ID = re.compile(r"[0-9]{1,18}\Z")
OWN_PREFIX = "magnetar."
"""Prefix of Magnetar's own properties, which other brokers keep without interpreting them."""
INTERNAL_PREFIX = "#pulsar.internal."
"""Prefix of a subscription's properties that Apache's brokers keep for themselves."""
COMPACTED_LEDGER = "CompactedTopicLedger"
"""The property of the compaction's cursor that names the ledger it wrote last."""
CURSOR_PROPERTIES_BYTES_MAX = 64 << 10
"""Bytes of a subscription's property names and values. They share a node with its state and are part of each write of
it."""
INDEX_ONE = INTERNAL_PREFIX + OWN_PREFIX + "delay-index."
"""Prefix of a property whose name ends with the id of a ledger of the index; its value is that ledger's number of
entries."""
DELETED = OWN_PREFIX + "deleted"
DOOMED = OWN_PREFIX + "doomed-ledgers"
DOOMED_OBJECTS = OWN_PREFIX + "doomed-objects"
DOOMED_ONE = OWN_PREFIX + "doomed-ledger."
CURSOR_FIELDS = tuple(field_.name for field_ in pb.ManagedCursorInfo.DESCRIPTOR.fields)


@dataclass(slots=True)
class LogRecord:
    """A topic's ledgers, the position at which it was terminated, its properties, and ``extra``: unknown fields,
    encoded.

    ``doomed``: ledgers that may not be deleted yet, and either are not the topic's any more or are read from tiered
    storage. ``doomed_objects``: the same of objects there. ``deleted``: the topic is being deleted with its cursors. A
    record with a ledger in its list is not deleted: some owner created the topic again.
    """

    ledgers: list[LedgerSpan] = field(default_factory=list)
    terminated: Position | None = None
    properties: dict[str, str] = field(default_factory=dict)
    extra: bytes = b""
    doomed: list[int] = field(default_factory=list)
    deleted: bool = False
    doomed_objects: list[DoomedObjects] = field(default_factory=list)

    @property
    def has_doomed(self) -> bool:
        """True when the record names ledgers or objects that are to be deleted."""
        return bool(self.doomed or self.doomed_objects)

    def encode(self) -> bytes:
        info = pb.ManagedLedgerInfo.FromString(self.extra)
        for ledger in self.ledgers:
            info_ledger = info.ledgerInfo.add()
            if ledger.extra:
                info_ledger.ParseFromString(ledger.extra)
            info_ledger.ledgerId = ledger.ledger_id
            info_ledger.timestamp = ledger.timestamp_ms
            if ledger.timestamp_ms:
                info_ledger.entries = ledger.entries
                info_ledger.size = ledger.size
        if self.terminated is not None:
            info.terminatedPosition.ledgerId = self.terminated.ledger_id
            info.terminatedPosition.entryId = self.terminated.entry_id
        for key, value in self.properties.items():
            if not key.startswith(OWN_PREFIX):
                info.properties.add(key=key, value=value)
        if self.doomed:
            info.properties.add(key=DOOMED, value=" ".join(map(str, self.doomed)))
        if self.doomed_objects:
            info.properties.add(key=DOOMED_OBJECTS, value=doomed_text(self.doomed_objects))
        if self.deleted:
            info.properties.add(key=DELETED, value="true")
        return info.SerializeToString()

    @classmethod
    def decode(cls, value: bytes) -> "LogRecord":
        """Decode a stored value; empty bytes are a topic without ledgers. Raises StoredRecordError."""
        info = pb.ManagedLedgerInfo()
        _parse(info, _unwrap(value))
        ledgers = []
        for stored in info.ledgerInfo:
            numbers = stored.ledgerId, stored.entries, stored.size, stored.timestamp
            ledgers.append(
                LedgerSpan(
                    *numbers, _remaining_fields(stored, "ledgerId", "entries", "size", "timestamp")
                )
            )
        # Apache's brokers store them in any order once ledgers were moved to tiered storage.
        ledgers.sort(key=lambda ledger: ledger.ledger_id)
        terminated = None
        if info.HasField("terminatedPosition"):
            at = info.terminatedPosition
            terminated = Position(at.ledgerId, at.entryId)
        properties = {readable(pair.key): readable(pair.value) for pair in info.properties}
        extra = _remaining_fields(info, "ledgerInfo", "terminatedPosition", "properties")
        ledger_ids = [
            int(text) for text in properties.get(DOOMED, "").split() if _LEDGER_ID.match(text)
        ]
        objects = doomed_from(properties.get(DOOMED_OBJECTS, ""))
        present = {
            ledger.ledger_id for ledger in ledgers if not offload_of(ledger).deleted_from_bookies
        }
        attempts = {offload_of(ledger).attempt for ledger in ledgers if ledger.extra}
        return cls(
            ledgers,
            terminated,
            {key: text for key, text in properties.items() if not key.startswith(OWN_PREFIX)},
            extra,
            # The list prevails: a ledger in it must not be deleted, whichever broker wrote it there.
            [ledger_id for ledger_id in ledger_ids if ledger_id not in present],
            DELETED in properties and not ledgers,
            [doomed for doomed in objects if doomed.attempt not in attempts],
        )


@dataclass(slots=True)
class CursorState:
    """Acknowledgements as positions.

    ``ranges``: first and last entry, inclusive, in positions of any ledgers. ``bits`` instead, where they are many: the
    id of a ledger, and bit ``i & 7`` of byte ``i >> 3`` for its entry i. ``batches``: bits of messages not
    acknowledged. ``change``: a LastChange, encoded; empty for none.
    """

    mark_delete: Position
    ranges: list[tuple[Position, Position]] = field(default_factory=list)
    batches: dict[Position, int] = field(default_factory=dict)
    properties: dict[str, int] = field(default_factory=dict)
    change: bytes = b""
    bits: list[tuple[int, bytes]] = field(default_factory=list)

    def acks(self, line: LedgerLine) -> AckState:
        """Return the state in ordinals of the ledgers that exist. Entries before these are acknowledged, entries behind
        them are not."""
        return at_once(self.acking(line))

    def acking(self, line: LedgerLine) -> Generator[None, None, AckState]:
        """Do as ``acks``, yielding between short steps."""
        acks = AckState(line.ordinal_after(self.mark_delete))
        for at in range(0, len(self.ranges), STEP):
            for first, last in self.ranges[at : at + STEP]:
                acks.holes.add(line.ordinal(first), line.ordinal_after(last))
            yield
        for ledger_id, raw in self.bits:
            yield from acks.holes.adding_bits(raw, *line.extent(ledger_id))
        batches: dict[int, int] = {}
        items = iter(self.batches.items())
        while rows := [*islice(items, STEP)]:
            for position, bits in rows:
                ordinal = line.exact(*position)
                if ordinal >= 0:
                    batches[ordinal] = bits
            yield
        yield from acks.filling(batches)
        return acks

    @classmethod
    def decode(cls, value: bytes) -> "CursorState":
        """Decode a PositionInfo. Raises StoredRecordError."""
        return at_once(cls.decoding(value))

    @classmethod
    def decoding(cls, value: bytes) -> Generator[None, None, "CursorState"]:
        """Do as ``decode``, yielding between short steps. The first one parses all of it: 10 ms for 4 MiB. Raises
        StoredRecordError."""
        info = pb.PositionInfo()
        _parse(info, value)
        yield
        ranges = yield from _taking_ranges(info.individualDeletedMessages)
        bits = []
        for ledger_bits in info.individualDeletedMessageRanges:
            raw = bytearray()
            for at in range(0, len(ledger_bits.values), STEP):
                words = ledger_bits.values[at : at + STEP]
                raw += struct.pack(f"<{len(words)}q", *words)
                yield
            bits.append((ledger_bits.key, bytes(raw)))
        # Other brokers write Magnetar's own properties here, too; they are dropped.
        batches, properties, _ = yield from _taking_common(info)
        at_mark = Position(info.ledgerId, info.entryId)
        return cls(at_mark, ranges, batches, properties, info.magnetarChange, bits)


@dataclass(slots=True)
class CursorRecord:
    """A cursor in the metadata store. With ``ledger_id`` -1, ``state`` is complete. Otherwise it is the snapshot taken
    when that cursor ledger was opened, without ranges, for the case that the ledger is lost.

    ``doomed``: ledgers that it used before and that may not be deleted yet. ``deleted``: it is being deleted, and its
    ledger may be deleted already. This is only set with a ledger, and ends when another broker has moved the cursor to
    another one. ``index``: ledgers with an index of entries that wait for their time, and how many entries each has.
    ``created``: metadata of the cursor ledger as it was created, encoded; empty where that is not known.
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
        """Ids of all ledgers that are deleted with the cursor."""
        compacted = self.state.properties.get(COMPACTED_LEDGER, -1)
        ledger_ids = (*self.doomed, *self.index, compacted, self.ledger_id)
        return [ledger_id for ledger_id in ledger_ids if ledger_id >= 0]

    def encode(self) -> bytes:
        at = self.state.mark_delete
        assert self.ledger_id >= 0 or not self.state.bits, "a node has no field for bits"
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
        """Decode a stored value. Raises StoredRecordError."""
        info = pb.ManagedCursorInfo()
        _parse(info, _unwrap(value))
        at = Position(info.markDeleteLedgerId, info.markDeleteEntryId)
        if not info.HasField("markDeleteLedgerId"):
            at = Position(-1, -1)
        batches, properties, own = at_once(_taking_common(info))
        ranges = at_once(_taking_ranges(info.individualDeletedMessages))
        state = CursorState(at, ranges, batches, properties, info.magnetarChange)
        texts = {readable(pair.name): readable(pair.value) for pair in info.cursorProperties}
        index = _take_index(texts)
        ledger_id = info.cursorsLedgerId
        fields = ledger_id, state, info.lastActive, texts
        doomed = [
            value
            for key, value in own.items()
            if key == f"{DOOMED_ONE}{value}" and value not in (ledger_id, -1)
        ]
        deleted = ledger_id >= 0 and own.get(DELETED) == ledger_id
        created = info.magnetarLedger
        return cls(
            *fields, _remaining_fields(info, *CURSOR_FIELDS), doomed, deleted, index, created
        )


def check_cursor_properties(properties: Mapping[str, str]) -> None:
    """Raise InvalidPropertyError for a subscription's properties with reserved names, which may name ledgers to be
    deleted, or with more bytes than may be stored."""
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
    """Remove the properties that name ledgers of an index, and return those ledgers. Invalid ones stay."""
    index: dict[int, int] = {}
    for key in [key for key in texts if key.startswith(INDEX_ONE)]:
        ledger_id = key.removeprefix(INDEX_ONE)
        if _LEDGER_ID.match(ledger_id) and _LEDGER_ID.match(texts[key]):
            index[int(ledger_id)] = int(texts.pop(key))
    return index


def _remaining_fields(message: Message, *known: str) -> bytes:
    """Clear the fields ``known`` of ``message`` and return the others, encoded."""
    for name in known:
        message.ClearField(name)
    return message.SerializePartialToString()


def _put_ranges(info: pb.ManagedCursorInfo, ranges: list[tuple[Position, Position]]) -> None:
    for first, last in ranges:
        message_range = info.individualDeletedMessages.add()
        message_range.lowerEndpoint.ledgerId = first.ledger_id
        message_range.lowerEndpoint.entryId = first.entry_id - 1  # stored exclusive
        message_range.upperEndpoint.ledgerId = last.ledger_id
        message_range.upperEndpoint.entryId = last.entry_id


def _taking_ranges(
    field_: Sequence[pb.MessageRange],
) -> Generator[None, None, list[tuple[Position, Position]]]:
    """Decode ranges, yielding between short steps."""
    ranges = []
    for at in range(0, len(field_), STEP):
        for message_range in field_[at : at + STEP]:
            low, high = message_range.lowerEndpoint, message_range.upperEndpoint
            first = Position(low.ledgerId, low.entryId + 1)
            ranges.append((first, Position(high.ledgerId, high.entryId)))
        yield
    return ranges


def put_common(
    info: pb.PositionInfo | pb.ManagedCursorInfo,
    properties: dict[str, int],
    batches: dict[Position, int],
    change: bytes = b"",
) -> None:
    """Add the fields that both kinds of record have under the same names."""
    if change:
        info.magnetarChange = change
    for name, value in properties.items():
        info.properties.add(name=name, value=value)
    for position, bits in batches.items():
        put_batch(info, position, bits)


def put_batch(info: pb.PositionInfo | pb.ManagedCursorInfo, position: Position, bits: int) -> None:
    """Add a batch that is acknowledged in part: the messages of ``bits`` are not."""
    info_batch = info.batchedEntryDeletionIndexInfo.add()
    info_batch.position.ledgerId, info_batch.position.entryId = position
    info_batch.deleteSet.extend(words_of(bits))


def _taking_common(
    info: "pb.PositionInfo | pb.ManagedCursorInfo",
) -> Generator[None, None, tuple[dict[Position, int], dict[str, int], dict[str, int]]]:
    """Decode partly acknowledged batches, properties, and Magnetar's own properties, yielding between short steps."""
    batches: dict[Position, int] = {}
    field_ = info.batchedEntryDeletionIndexInfo
    for at in range(0, len(field_), STEP):
        for info_batch in field_[at : at + STEP]:
            position = Position(info_batch.position.ledgerId, info_batch.position.entryId)
            batches[position] = bits_of(info_batch.deleteSet)
        yield
    properties: dict[str, int] = {}
    own: dict[str, int] = {}
    for at in range(0, len(info.properties), STEP):
        for pair in info.properties[at : at + STEP]:
            name = readable(pair.name)
            (own if name.startswith(OWN_PREFIX) else properties)[name] = pair.value
        yield
    return batches, properties, own


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
    """Return the record inside a compressed wrapper: u16 magic, u32 length of metadata, metadata, payload."""
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
    # Imported late, because it is seldom needed and heavy.
    from engine.wire.compression import CompressionError, decompress

    try:
        # Records and messages have the same numbers for compression types.
        return decompress(meta.compressionType, payload, meta.uncompressedSize, RECORD_BYTES_MAX)
    except CompressionError as error:
        raise StoredRecordError(f"compressed record: {error}") from error
