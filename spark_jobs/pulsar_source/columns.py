"""Stored entries opened into columns: values of an entry once per entry, values of a message once per message. Pure.

The layout of an entry is in ``engine.wire.batches``. Entries are opened without an object per message, and only as far
as the requested columns need: payloads are decompressed for batches and for values.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import repeat
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from engine.base.crc32c import crc32c
from engine.base.slices import Slice
from engine.schema.kinds import version_of
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import MEMBER_BYTES_MIN, BatchFormatError, key_bytes
from engine.wire.compression import UNCOMPRESSED_BYTES_MAX, CompressionError, codec_name, decompress
from engine.wire.kernels import BROKER_METADATA_MAGIC, CHECKSUM_MAGIC
from engine.wire.texts import readable
from spark_jobs.pulsar_source.opening.numbered import fields, is_numbered, sections
from spark_jobs.pulsar_source.opening.plain import (
    PlainEntries,
    intact,
    leading,
    plain_entries,
    same,
)
from spark_jobs.pulsar_source.opening.values import ValueBuffer

ROWS_MAX = 20_000
VALUE_BYTES_MAX = 2 << 20
TIME_MS_MAX = (2**63 - 1) // 1000
"""Largest time in a timestamp. Larger times of publishers count as unknown."""

CODECS = {number: codec_name(number) for number in pb.CompressionType.values()}
_MAGIC = Struct(">HI")
_SIZE = Struct(">I")
_HEAD_BYTES_MIN = 10


class EntryKind(IntEnum):
    """The content of an entry. Encrypted entries and chunks are one row with the stored bytes; the last two kinds have
    no row."""

    MESSAGES = 0
    CHUNK = 1
    ENCRYPTED = 2
    MARKER = 3
    UNREADABLE = 4


_MESSAGES, _CHUNK, _ENCRYPTED, _MARKER, _ = map(int, EntryKind)
_UNREADABLE = (int(EntryKind.UNREADABLE), 0, 0, None, None, None, 0, 0, 0, None, None, None)

ENTRIES = pa.schema(
    [
        ("entry_id", pa.int64()),
        ("kind", pa.int8()),
        ("rows", pa.int64()),
        ("batch_size", pa.int32()),
        ("publish_ms", pa.int64()),
        ("producer_name", pa.string()),
        ("compression", pa.string()),
        ("payload_bytes", pa.int64()),
        ("packed_bytes", pa.int64()),
        ("values_bytes", pa.int64()),
        ("chunk_id", pa.int32()),
        ("broker_ms", pa.int64()),
        ("replicated_from", pa.string()),
        ("entry_bytes", pa.int64()),
    ]
)
"""Columns of entries.

``rows``: rows of the entry in MESSAGES. ``batch_size``: messages in the entry, also in an encrypted batch.
``payload_bytes``, ``packed_bytes``: payload before and after compression, without metadata. ``values_bytes``: sum of
its rows' ``value_bytes``. ``broker_ms``: when the broker received it, null where brokers do not store that.
``replicated_from``: name of the cluster that it was copied from, empty for one published here.
"""
ALWAYS = frozenset({"kind", "rows"})
"""Columns of entries that are always filled."""
CHEAP = ALWAYS | {"entry_id", "publish_ms", "entry_bytes"}
"""Columns of entries that need no further decoding."""
_CODES = {"entry_id": "q", "kind": "b", "rows": "q", "entry_bytes": "q"}
"""Types of the columns of entries that are never null, as codes of ``array``."""
ALIKE_MIN = 16
"""Messages from which on it pays to look at them together."""
SINGLE = 64
"""Entries that are opened one by one after fewer could be opened together."""
TOGETHER_MIN, TOGETHER_MAX = 64, 4096
"""Bounds of the entries that are decoded together."""
MESSAGES = pa.schema(
    [
        ("key", pa.string()),
        ("value_bytes", pa.int64()),
        ("batch_index", pa.int32()),
        ("value", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("event_ms", pa.int64()),
        ("sequence_id", pa.uint64()),
        ("schema_version", pa.int64()),
        ("key_bytes", pa.binary()),
        ("ordering_key", pa.binary()),
    ]
)
"""Columns of messages.

``key_bytes``: the key as its producer had it. ``value_bytes``: null where it is unknown (encrypted); for chunks the
whole message's at its first chunk, 0 at the others.
"""


@dataclass(frozen=True, slots=True)
class Opened:
    """Entries in topic order and the messages in them. ``messages`` has the requested columns.

    ``problem``: the reason of the first UNREADABLE entry, empty when all could be read.
    """

    entries: pa.RecordBatch
    messages: pa.RecordBatch
    problem: str

    def entry_of_message(self) -> Any:
        """Return for each message the index of its entry, as a numpy array."""
        rows = self.entries["rows"].to_numpy()
        return np.repeat(np.arange(len(rows)), rows)


class _Member(NamedTuple):
    """Parts of the metadata of a message in a batch that the columns need; the others are None."""

    size: int
    null: bool
    key: str | None
    event_ms: int | None
    sequence_id: int | None
    """Set by the producer; None where the batch numbers its messages."""
    properties: list[tuple[str, str]] | None
    key_bytes: bytes | None
    ordering_key: bytes | None


class _Rest(NamedTuple):
    """Parts of the metadata of a plain entry after its publish time that the columns need."""

    member: _Member
    version: int | None
    replicated_from: str


class _Members(NamedTuple):
    """The messages of a batch, or of a part of it."""

    members: list[_Member]
    bodies: Any
    """Offsets of their payloads, as an array."""
    stops: Any


class EntryColumns:
    """Columns filled entry by entry; ``wanted`` are names of MESSAGES, ``of_entries`` of ENTRIES."""

    def __init__(
        self,
        wanted: Collection[str],
        published_ms: tuple[int, int] | None = None,
        of_entries: Collection[str] = ENTRIES.names,
    ) -> None:
        """``published_ms``: first and last time; entries published at others are not opened and have no rows."""
        self._published_ms = published_ms
        self._wanted = [name for name in MESSAGES.names if name in wanted]
        self._of_entries = [name for name in ENTRIES.names if name in ALWAYS or name in of_entries]
        self._published = "publish_ms" in self._of_entries
        self._detailed = not CHEAP.issuperset(self._of_entries)
        self._key = "key" in wanted
        self._index = "batch_index" in wanted
        self._value = "value" in wanted
        self._size = "value_bytes" in wanted
        self._has_other = bool({"properties", "event_ms", "sequence_id"} & set(wanted))
        self._ordering = "ordering_key" in wanted
        self._schema = bool({"schema_version", "key_bytes"} & set(wanted))
        self._together = TOGETHER_MIN
        """Entries to decode together next, more as long as all of them are plain."""
        self._clear()

    def _clear(self) -> None:
        self._entries: dict[str, Any] = {name: [] for name in ENTRIES.names}
        for name, code in _CODES.items():
            self._entries[name] = array(code)
        self._ids, *added, self._stored = self._entries.values()
        self._appends = [column.append for column in added]
        self._columns: dict[str, list[Any]] = {name: [] for name in MESSAGES.names}
        self._values = ValueBuffer()
        self._members_known: dict[bytes, _Member] = {}
        self._rests_known: dict[bytes, _Rest] = {}
        self._nulls_known = False
        """True once one of these has no value."""
        self._rows = 0
        self._problem = ""

    @property
    def empty(self) -> bool:
        return not self._ids

    def add(self, run: Slice) -> Iterator[Opened]:
        """Open the entries of ``run``; yield columns of at most about ROWS_MAX rows and VALUE_BYTES_MAX when full."""
        view = memoryview(run.buf)
        i = single_until = 0
        while i < run.count:
            together = 0
            if i >= single_until:
                together = self._open_plain(run, i)
                if together < ALIKE_MIN:
                    single_until = i + SINGLE
            if not together:
                self._open_one(run, view, i)
            i += together or 1
            full = self._rows >= ROWS_MAX or len(self._ids) >= ROWS_MAX
            if full or self._values.held >= VALUE_BYTES_MAX:
                yield self.take()

    def _open_one(self, run: Slice, view: memoryview, i: int) -> None:
        start, stop = run.spans[2 * i], run.spans[2 * i + 1]
        try:
            self._open(run.buf, view, start, stop)
        except (BatchFormatError, CompressionError, DecodeError, StructError) as error:
            text = str(error) if isinstance(error, ValueError) else "it does not parse"
            self._problem = self._problem or f"entry {run.first + i}: {text}"
            for append, value in zip(self._appends, _UNREADABLE, strict=True):
                append(value)
        self._ids.append(run.first + i)
        self._stored.append(stop - start)

    def _open_plain(self, run: Slice, first: int) -> int:
        """Open the plain entries of ``run`` from index ``first`` on together, and return their number."""
        if run.count - first < ALIKE_MIN or self._published_ms is not None:
            return 0
        buf, most = run.buf, self._together
        plain = plain_entries(run, first, most)
        rests = self._rests(buf, plain)
        count = intact(run, plain, len(rests))
        self._together = min(4 * most, TOGETHER_MAX) if count == most else TOGETHER_MIN
        if not count:
            return 0
        del rests[count:]
        members = [rest.member for rest in rests]
        starts, bodies, stops = plain.starts[:count], plain.bodies[:count], plain.stops[:count]
        sizes = (stops - bodies).tolist() if self._size or self._detailed else []
        if self._value:
            self._add_values(buf, members, bodies, stops)
        numbers = plain.sequence_ids[:count].tolist() if self._has_other else []
        self._add_members(members, sizes, repeat(-1, count), numbers)
        if self._schema:
            self._columns["schema_version"] += [rest.version for rest in rests]
        columns = self._entries
        entry_ids = np.arange(run.first + first, run.first + first + count)
        columns["entry_id"].frombytes(entry_ids.astype(np.int64).tobytes())
        columns["entry_bytes"].frombytes((stops - starts).tobytes())
        columns["kind"].extend(array("b", [_MESSAGES]) * count)
        columns["rows"].extend(array("q", [1]) * count)
        if self._published:
            columns["publish_ms"] += plain.publish_ms[:count].tolist()
        if self._detailed:
            names = zip(plain.names[:count].tolist(), plain.name_ends.tolist(), strict=False)
            columns["batch_size"] += repeat(1, count)
            columns["producer_name"] += [readable(buf[a:b]) for a, b in names]
            columns["compression"] += repeat(0, count)
            for name in ("payload_bytes", "packed_bytes", "values_bytes"):
                columns[name] += sizes
            columns["chunk_id"] += repeat(None, count)
            columns["broker_ms"] += repeat(None, count)
            columns["replicated_from"] += [rest.replicated_from for rest in rests]
        return count

    def _rests(self, buf: bytes, plain: PlainEntries) -> list[_Rest]:
        """Return the ends of the entries' metadata, up to an entry that must be opened alone."""
        count = leading((plain.publish_ms > 0) & (plain.publish_ms <= TIME_MS_MAX))
        if not count:
            return []
        raw = buf[plain.rests[0] : plain.bodies[0]]
        begins, bodies = plain.rests[:count], plain.bodies[:count]
        if same(buf, begins, bodies, raw):
            rest = self._rests_known.get(raw) or self._rest(raw)
            return [] if rest is None else [rest] * count
        rests: list[_Rest] = []
        for begin, body in zip(begins.tolist(), bodies.tolist(), strict=True):
            raw = buf[begin:body]
            rest = self._rests_known.get(raw) or self._rest(raw)
            if rest is None:
                break
            rests.append(rest)
        return rests

    def _rest(self, raw: bytes) -> _Rest | None:
        """Return what the columns need of the end ``raw`` of a metadata; None when the entry is not one uncompressed
        message. Decoded once where messages have the same."""
        metadata = pb.MessageMetadata()
        try:
            metadata.MergeFromString(raw)
        except DecodeError:
            return None
        # Fields that are there twice count as what they are last.
        again = map(metadata.HasField, ("producer_name", "sequence_id", "publish_time"))
        if (
            any(again)
            or metadata.marker_type
            or metadata.encryption_keys
            or metadata.num_chunks_from_msg > 1
            or metadata.compression
            or metadata.HasField("num_messages_in_batch")
        ):
            return None
        version = version_of(metadata.schema_version) if self._schema else None
        rest = _Rest(self._needed(metadata, 0), version, metadata.replicated_from)
        self._rests_known[raw] = rest
        return rest

    def _open(self, buf: bytes, view: memoryview, pos: int, stop: int) -> None:
        if stop - pos < _HEAD_BYTES_MIN:
            raise BatchFormatError("it is cut off")
        magic, number = _MAGIC.unpack_from(buf, pos)
        broker_ms = None
        if magic == BROKER_METADATA_MAGIC:
            pos += _MAGIC.size + number
            of_broker = pb.BrokerEntryMetadata.FromString(buf[pos - number : pos])
            if 0 < of_broker.broker_timestamp <= TIME_MS_MAX:
                broker_ms = of_broker.broker_timestamp
            if stop - pos < _HEAD_BYTES_MIN:
                raise BatchFormatError("it is cut off")
            magic, number = _MAGIC.unpack_from(buf, pos)
        if magic == CHECKSUM_MAGIC:
            pos += _MAGIC.size
            if crc32c(view[pos:stop]) != number:
                raise BatchFormatError("its checksum does not match")
        head = pos + _SIZE.size
        body = head + _SIZE.unpack_from(buf, pos)[0]
        if body > stop:
            raise BatchFormatError("its metadata is cut off")
        metadata = pb.MessageMetadata.FromString(buf[head:body])
        publish_ms, codec = metadata.publish_time, metadata.compression
        if not publish_ms and not metadata.IsInitialized():
            raise BatchFormatError("its metadata lacks a required field")
        if codec not in CODECS:
            raise BatchFormatError(f"compression {codec} is not known")
        packed = stop - body
        size = packed if codec == 0 else metadata.uncompressed_size
        kind, rows, count, chunk, values = _MESSAGES, 1, 1, None, size
        if metadata.marker_type or (
            self._published_ms is not None
            and not self._published_ms[0] <= publish_ms <= self._published_ms[1]
        ):
            kind, rows, count, values = _MARKER, 0, 0, 0
        elif metadata.encryption_keys:
            kind, values = _ENCRYPTED, 0
            claimed = metadata.num_messages_in_batch
            count = claimed if 0 < claimed <= size // MEMBER_BYTES_MIN else 1
            self._single(metadata, None, buf[body:stop] if self._value else None)
        elif metadata.num_chunks_from_msg > 1:
            kind, chunk = _CHUNK, metadata.chunk_id
            message_bytes = metadata.uncompressed_size or max(metadata.total_chunk_msg_size, 0)
            values = size = 0 if chunk else message_bytes
            self._single(metadata, values, buf[body:stop] if self._value else None)
        elif size > UNCOMPRESSED_BYTES_MAX:
            raise BatchFormatError(
                f"its payload claims {size} bytes, at most {UNCOMPRESSED_BYTES_MAX}"
            )
        elif metadata.HasField("num_messages_in_batch"):
            payload, begin, end = buf, body, stop
            if codec:
                payload = decompress(codec, buf[body:stop], size)
                begin, end = 0, size
            rows = count = metadata.num_messages_in_batch
            values = self._members(metadata, payload, begin, end)
        elif self._value:
            value = buf[body:stop] if codec == 0 else decompress(codec, buf[body:stop], size)
            self._single(metadata, size, value)
        else:
            self._single(metadata, size, None)
        # A list for each column: an object for each entry would keep the garbage collector busy.
        kinds, all_rows, counts, times, names, codecs, sizes, all_packed, sums, *others = (
            self._appends
        )
        kinds(kind)
        all_rows(rows)
        times(publish_ms if publish_ms <= TIME_MS_MAX else None)
        if not self._detailed:
            return
        chunks, arrivals, origins = others
        counts(count)
        names(metadata.producer_name)
        codecs(codec)
        sizes(size)
        all_packed(packed)
        sums(values)
        chunks(chunk)
        arrivals(broker_ms)
        origins(metadata.replicated_from)

    def _single(self, metadata: pb.MessageMetadata, size: int | None, value: bytes | None) -> None:
        self._rows += 1
        columns = self._columns
        if self._size:
            columns["value_bytes"].append(size)
        if self._key:
            columns["key"].append(_key(metadata))
        if self._index:
            columns["batch_index"].append(-1)
        if self._value:
            self._values.add(None if metadata.null_value else value)
        if self._has_other:
            columns["event_ms"].append(_event_ms(metadata))
            columns["sequence_id"].append(metadata.sequence_id)
            columns["properties"].append(_properties(metadata))
        if self._schema:
            columns["schema_version"].append(version_of(metadata.schema_version))
            columns["key_bytes"].append(key_bytes(metadata))
        if self._ordering:
            columns["ordering_key"].append(_ordering_key(metadata))

    def _member(self, raw: bytes) -> _Member:
        """Return what the columns need of the metadata ``raw``, decoded once where messages have the same."""
        known = self._members_known.get(raw)
        if known is not None:
            return known
        member = pb.SingleMessageMetadata.FromString(raw)
        known = self._members_known[raw] = self._needed(member, member.payload_size)
        return known

    def _needed(self, member: pb.MessageMetadata | pb.SingleMessageMetadata, size: int) -> _Member:
        self._nulls_known |= member.null_value
        other = self._has_other
        return _Member(
            size,
            member.null_value,
            _key(member) if self._key else None,
            _event_ms(member) if other else None,
            member.sequence_id if other and member.HasField("sequence_id") else None,
            _properties(member) if other else None,
            key_bytes(member) if self._schema else None,
            _ordering_key(member) if self._ordering else None,
        )

    def _members(self, metadata: pb.MessageMetadata, payload: bytes, pos: int, stop: int) -> int:
        """Open a batch at ``pos..stop`` of ``payload`` and return the bytes of its values. Adds all of it or
        nothing."""
        count = metadata.num_messages_in_batch
        # Every member has at least its size and the one required field of its metadata.
        if not 0 < count <= (stop - pos) // MEMBER_BYTES_MIN:
            raise BatchFormatError(f"a batch of {count} messages in {stop - pos} bytes")
        opened = None
        if count >= ALIKE_MIN:
            opened = self._numbered(metadata.sequence_id, count, payload, pos, stop)
        if opened is None:
            opened = self._part(payload, pos, stop, count)
        sizes = (opened.stops - opened.bodies).tolist()
        if self._value:
            self._add_values(payload, *opened)
        self._add_batch(metadata, opened.members, sizes)
        return sum(sizes)

    def _numbered(
        self, first: int, count: int, payload: bytes, pos: int, stop: int
    ) -> _Members | None:
        """Return the messages of a batch whose metadata end with ``first`` and the numbers after it, decoded without
        these; None for another batch."""
        head = pos + _SIZE.size
        if not is_numbered(first, count, payload[head : head + _SIZE.unpack_from(payload, pos)[0]]):
            return None
        data = np.frombuffer(payload, np.uint8)
        members: list[_Member] = []
        bodies, stops = [], []
        for many, tail in sections(first, count):
            try:
                part = self._part(payload, pos, stop, many, tail)
            except (BatchFormatError, DecodeError, StructError):
                return None  # the metadata of one ends with something else
            ends = data[part.bodies[:, None] + np.arange(-tail, 0)]
            if (ends != fields(first + len(members), many, tail)).any():
                return None
            members += part.members
            bodies.append(part.bodies)
            stops.append(part.stops)
            pos = int(part.stops[-1])
        return _Members(members, np.concatenate(bodies), np.concatenate(stops))

    def _part(self, payload: bytes, pos: int, stop: int, count: int, tail: int = 0) -> _Members:
        """Open ``count`` messages at ``pos``, without the last ``tail`` bytes of the metadata of each."""
        if count >= ALIKE_MIN:
            alike = self._alike(payload, pos, stop, count, tail)
            if alike is not None:
                return alike
        size_at, known = _SIZE.unpack_from, self._members_known
        members: list[_Member] = []
        bodies: list[int] = []
        stops: list[int] = []
        for index in range(count):
            head = pos + 4
            body = head + size_at(payload, pos)[0]
            raw = payload[head : body - tail]
            member = known.get(raw) or self._member(raw)
            pos = body + member.size
            if pos > stop or pos < body:
                raise BatchFormatError(f"message {index} of its batch is cut off")
            members.append(member)
            bodies.append(body)
            stops.append(pos)
        return _Members(members, np.array(bodies), np.array(stops))

    def _alike(self, payload: bytes, pos: int, stop: int, count: int, tail: int) -> _Members | None:
        """Do as ``_part`` for messages with the same metadata, and so the same size; return None for others."""
        prefix = 4 + _SIZE.unpack_from(payload, pos)[0]
        if pos + prefix > stop:
            return None
        member = self._member(payload[pos + 4 : pos + prefix - tail])
        size = prefix + member.size
        if member.size < 0 or size * count > stop - pos:
            return None
        table = np.frombuffer(payload, np.uint8, size * count, pos).reshape(count, size)
        if (table[:, : prefix - tail] != table[0, : prefix - tail]).any():
            return None
        bodies = pos + prefix + size * np.arange(count)
        return _Members([member] * count, bodies, bodies + member.size)

    def _add_values(self, buf: bytes, members: list[_Member], bodies: Any, stops: Any) -> None:
        valid = None
        if self._nulls_known:
            valid = np.array([not member.null for member in members], np.bool_)
        self._values.add_spans(buf, bodies, stops, valid)

    def _add_batch(
        self, metadata: pb.MessageMetadata, members: list[_Member], sizes: list[int]
    ) -> None:
        """Add messages of a batch to the columns but ``value``."""
        count, first = len(members), metadata.sequence_id
        self._add_members(members, sizes, range(count), range(first, first + count))
        if self._schema:
            version = version_of(metadata.schema_version)
            self._columns["schema_version"] += repeat(version, count)

    def _add_members(
        self,
        members: list[_Member],
        sizes: list[int],
        indexes: Iterable[int],
        sequence_ids: Iterable[int],
    ) -> None:
        """Add messages to the columns but ``value`` and ``schema_version``; ``sequence_ids`` are of those that have
        none of their own."""
        self._rows += len(members)
        columns = self._columns
        if self._size:
            columns["value_bytes"] += sizes
        if self._key:
            columns["key"] += [member.key for member in members]
        if self._index:
            columns["batch_index"] += indexes
        if self._has_other:
            columns["event_ms"] += [member.event_ms for member in members]
            columns["sequence_id"] += [
                number if member.sequence_id is None else member.sequence_id
                for number, member in zip(sequence_ids, members, strict=True)
            ]
            columns["properties"] += [member.properties for member in members]
        if self._schema:
            columns["key_bytes"] += [member.key_bytes for member in members]
        if self._ordering:
            columns["ordering_key"] += [member.ordering_key for member in members]

    def take(self) -> Opened:
        """Return the filled columns and begin with empty ones."""
        of_entries = self._entries
        if self._detailed:
            of_entries["compression"] = [CODECS.get(codec) for codec in of_entries["compression"]]
        arrays = [_array(of_entries[name], ENTRIES.field(name).type) for name in self._of_entries]
        fields = [MESSAGES.field(name) for name in self._wanted]
        messages = [
            self._values.taken()
            if field.name == "value"
            else _array(self._columns[field.name], field.type)
            for field in fields
        ]
        entries = pa.schema([ENTRIES.field(name) for name in self._of_entries])
        opened = Opened(
            pa.RecordBatch.from_arrays(arrays, schema=entries),
            pa.RecordBatch.from_arrays(messages, schema=pa.schema(fields)),
            self._problem,
        )
        self._clear()
        return opened


def _event_ms(metadata: pb.MessageMetadata | pb.SingleMessageMetadata) -> int | None:
    event_ms: int = metadata.event_time
    return event_ms if 0 < event_ms <= TIME_MS_MAX else None


def _properties(
    metadata: pb.MessageMetadata | pb.SingleMessageMetadata,
) -> list[tuple[str, str]]:
    return [(readable(pair.key), readable(pair.value)) for pair in metadata.properties]


def _key(metadata: pb.MessageMetadata | pb.SingleMessageMetadata) -> str | None:
    key: str | None = metadata.partition_key
    if not key and not metadata.HasField("partition_key"):
        return None
    return None if metadata.null_partition_key else key


def _ordering_key(metadata: pb.MessageMetadata | pb.SingleMessageMetadata) -> bytes | None:
    return metadata.ordering_key if metadata.HasField("ordering_key") else None


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, array):
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    try:
        return pa.array(values, kind)
    except pa.ArrowInvalid:
        if kind != pa.string():
            raise
        return pa.array([None if value is None else readable(value) for value in values], kind)
