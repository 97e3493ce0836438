"""Stored records of topics and cursors, in Pulsar's layout; see docs/formats/managed-ledger.md. Pure.

``/managed-ledgers/<name>`` holds a ManagedLedgerInfo, its children ManagedCursorInfo, the entries of a cursor ledger
are PositionInfo (written by ``ack_snapshot``). Values are bare protobuf; the compressed wrapper (magic 0x4778) that
later brokers may write is read. Fields that we do not know are written back as they came.
"""

import re
import struct
import uuid
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
    """Acknowledgements as positions. ``ranges``: first and last entry, inclusive, in positions of any ledgers; ``bits``
    instead, where they are many: the id of a ledger, and bit ``i & 7`` of byte ``i >> 3`` for its entry i. ``batches``:
    bits of messages not acknowledged. ``change``: a LastChange, encoded; empty for none."""

    mark_delete: Position
    ranges: list[tuple[Position, Position]] = field(default_factory=list)
    batches: dict[Position, int] = field(default_factory=dict)
    properties: dict[str, int] = field(default_factory=dict)
    change: bytes = b""
    bits: list[tuple[int, bytes]] = field(default_factory=list)

    def acks(self, line: LedgerLine) -> AckState:
        """As ordinals of the ledgers that exist; what lies before them is acknowledged, what lies behind is not."""
        return at_once(self.acking(line))

    def acking(self, line: LedgerLine) -> Generator[None, None, AckState]:
        """The same in short steps."""
        acks = AckState(line.ordinal_after(self.mark_delete))
        for at in range(0, len(self.ranges), STEP):
            for first, last in self.ranges[at : at + STEP]:
                acks.holes.add(line.ordinal(first), line.ordinal_after(last))
            yield
        for ledger_id, raw in self.bits:
            yield from acks.holes.adding_bits(raw, *line.extent(ledger_id))
        batches: dict[int, int] = {}
        items = iter(self.batches.items())
        while some := [*islice(items, STEP)]:
            for position, bits in some:
                ordinal = line.exact(*position)
                if ordinal >= 0:
                    batches[ordinal] = bits
            yield
        yield from acks.filling(batches)
        return acks

    @classmethod
    def decode(cls, value: bytes) -> "CursorState":
        """From a PositionInfo. Raises StoredRecordError."""
        return at_once(cls.decoding(value))

    @classmethod
    def decoding(cls, value: bytes) -> Generator[None, None, "CursorState"]:
        """The same in short steps, the first of which parses all of it: 10 ms for 4 MiB. Raises StoredRecordError."""
        info = pb.PositionInfo()
        _parse(info, value)
        yield
        ranges = yield from _taking_ranges(info.individualDeletedMessages)
        bits = []
        for one in info.individualDeletedMessageRanges:
            raw = bytearray()
            for at in range(0, len(one.values), STEP):
                words = one.values[at : at + STEP]
                raw += struct.pack(f"<{len(words)}q", *words)
                yield
            bits.append((one.key, bytes(raw)))
        # Other brokers write ours here, too.
        batches, properties, _ = yield from _taking_common(info)
        at_mark = Position(info.ledgerId, info.entryId)
        return cls(at_mark, ranges, batches, properties, info.magnetarChange, bits)


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
        """Raises StoredRecordError."""
        info = pb.ManagedCursorInfo()
        _parse(info, _unwrap(value))
        at = Position(info.markDeleteLedgerId, info.markDeleteEntryId)
        if not info.HasField("markDeleteLedgerId"):
            at = Position(-1, -1)
        batches, properties, own = at_once(_taking_common(info))
        ranges = at_once(_taking_ranges(info.individualDeletedMessages))
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


def _taking_ranges(
    field_: Sequence[pb.MessageRange],
) -> Generator[None, None, list[tuple[Position, Position]]]:
    ranges = []
    for at in range(0, len(field_), STEP):
        for one in field_[at : at + STEP]:
            low, high = one.lowerEndpoint, one.upperEndpoint
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
    """The fields that both kinds of record have under the same names."""
    if change:
        info.magnetarChange = change
    for name, value in properties.items():
        info.properties.add(name=name, value=value)
    for position, bits in batches.items():
        put_batch(info, position, bits)


def put_batch(info: pb.PositionInfo | pb.ManagedCursorInfo, position: Position, bits: int) -> None:
    """Add a batch of which some messages are acknowledged, ``bits`` not."""
    one = info.batchedEntryDeletionIndexInfo.add()
    one.position.ledgerId, one.position.entryId = position
    one.deleteSet.extend(words_of(bits))


def _taking_common(
    info: "pb.PositionInfo | pb.ManagedCursorInfo",
) -> Generator[None, None, tuple[dict[Position, int], dict[str, int], dict[str, int]]]:
    """Parts of batches, properties, and those that are ours."""
    batches: dict[Position, int] = {}
    field_ = info.batchedEntryDeletionIndexInfo
    for at in range(0, len(field_), STEP):
        for one in field_[at : at + STEP]:
            position = Position(one.position.ledgerId, one.position.entryId)
            batches[position] = bits_of(one.deleteSet)
        yield
    properties: dict[str, int] = {}
    own: dict[str, int] = {}
    for at in range(0, len(info.properties), STEP):
        for each in info.properties[at : at + STEP]:
            name = readable(each.name)
            (own if name.startswith(OWN_PREFIX) else properties)[name] = each.value
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
