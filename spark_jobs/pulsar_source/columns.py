"""Stored entries opened into columns: values of an entry once per entry, values of a message once per message. Pure.

The layout of an entry is in ``engine.wire.batches``. Entries are opened without an object per message, and only as far
as the requested columns need: payloads are decompressed for batches and for values.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import repeat
from struct import Struct
from struct import error as StructError
from typing import Any

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

ROWS_MAX = 20_000
VALUE_BYTES_MAX = 16 << 20
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


class EntryColumns:
    """Columns filled entry by entry; ``wanted`` are names of MESSAGES."""

    def __init__(
        self, wanted: Collection[str], published_ms: tuple[int, int] | None = None
    ) -> None:
        """``published_ms``: first and last time; entries published at others are not opened and have no rows."""
        self._published_ms = published_ms
        self._wanted = [name for name in MESSAGES.names if name in wanted]
        self._key = "key" in wanted
        self._index = "batch_index" in wanted
        self._value = "value" in wanted
        self._has_other = bool({"properties", "event_ms", "sequence_id"} & set(wanted))
        self._ordering = "ordering_key" in wanted
        self._schema = bool({"schema_version", "key_bytes"} & set(wanted))
        self._clear()

    def _clear(self) -> None:
        self._entries: dict[str, list[Any]] = {name: [] for name in ENTRIES.names}
        self._ids, *added, self._stored = self._entries.values()
        self._appends = [column.append for column in added]
        self._columns: dict[str, list[Any]] = {name: [] for name in MESSAGES.names}
        self._sizes = self._columns["value_bytes"]
        self._held = 0
        self._problem = ""

    @property
    def empty(self) -> bool:
        return not self._ids

    def add(self, run: Slice) -> Iterator[Opened]:
        """Open the entries of ``run``; yield columns of at most about ROWS_MAX rows and VALUE_BYTES_MAX when full."""
        buf, spans, view = run.buf, run.spans, memoryview(run.buf)
        for i in range(run.count):
            start, stop = spans[2 * i], spans[2 * i + 1]
            try:
                self._open(buf, view, start, stop)
            except (BatchFormatError, CompressionError, DecodeError, StructError) as error:
                text = str(error) if isinstance(error, ValueError) else "it does not parse"
                self._problem = self._problem or f"entry {run.first + i}: {text}"
                for append, value in zip(self._appends, _UNREADABLE, strict=True):
                    append(value)
            self._ids.append(run.first + i)
            self._stored.append(stop - start)
            rows = len(self._sizes)
            if rows >= ROWS_MAX or len(self._ids) >= ROWS_MAX or self._held >= VALUE_BYTES_MAX:
                yield self.take()

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
        chunks, arrivals, origins = others
        kinds(kind)
        all_rows(rows)
        counts(count)
        times(publish_ms if publish_ms <= TIME_MS_MAX else None)
        names(metadata.producer_name)
        codecs(codec)
        sizes(size)
        all_packed(packed)
        sums(values)
        chunks(chunk)
        arrivals(broker_ms)
        origins(metadata.replicated_from)

    def _single(self, metadata: pb.MessageMetadata, size: int | None, value: bytes | None) -> None:
        self._sizes.append(size)
        columns = self._columns
        if self._key:
            columns["key"].append(_key(metadata))
        if self._index:
            columns["batch_index"].append(-1)
        if self._value:
            columns["value"].append(None if metadata.null_value else value)
            self._held += len(value or b"")
        if self._has_other:
            self._add_other(metadata, metadata.sequence_id)
        if self._schema:
            columns["schema_version"].append(version_of(metadata.schema_version))
            columns["key_bytes"].append(key_bytes(metadata))
        if self._ordering:
            columns["ordering_key"].append(_ordering_key(metadata))

    def _members(self, metadata: pb.MessageMetadata, payload: bytes, pos: int, stop: int) -> int:
        """Open a batch at ``pos..stop`` of ``payload`` and return the bytes of its values. Adds all of it or
        nothing."""
        count = metadata.num_messages_in_batch
        # Every member has at least its size and the one required field of its metadata.
        if not 0 < count <= (stop - pos) // MEMBER_BYTES_MIN:
            raise BatchFormatError(f"a batch of {count} messages in {stop - pos} bytes")
        parse, size_at = pb.SingleMessageMetadata.FromString, _SIZE.unpack_from
        members: list[Any] = []
        bodies: list[int] = []
        sizes: list[int] = []
        for _ in range(count):
            head = pos + 4
            body = head + size_at(payload, pos)[0]
            member = parse(payload[head:body])
            size = member.payload_size
            pos = body + size
            if size < 0 or pos > stop:
                raise BatchFormatError(f"message {len(sizes)} of its batch is cut off")
            members.append(member)
            bodies.append(body)
            sizes.append(size)
        columns = self._columns
        self._sizes += sizes
        if self._key:
            columns["key"] += map(_key, members)
        if self._index:
            columns["batch_index"] += range(count)
        total = sum(sizes)
        if self._value:
            self._held += total
            for member, body, size in zip(members, bodies, sizes, strict=True):
                value = None if member.null_value else payload[body : body + size]
                columns["value"].append(value)
        if self._has_other:
            for index, member in enumerate(members):
                own = member.HasField("sequence_id")
                self._add_other(member, member.sequence_id if own else metadata.sequence_id + index)
        if self._schema:
            columns["schema_version"] += repeat(version_of(metadata.schema_version), count)
            columns["key_bytes"] += map(key_bytes, members)
        if self._ordering:
            columns["ordering_key"] += map(_ordering_key, members)
        return total

    def _add_other(
        self, metadata: pb.MessageMetadata | pb.SingleMessageMetadata, sequence_id: int
    ) -> None:
        columns = self._columns
        event_ms = metadata.event_time
        columns["event_ms"].append(event_ms if 0 < event_ms <= TIME_MS_MAX else None)
        columns["sequence_id"].append(sequence_id)
        columns["properties"].append(
            [(readable(pair.key), readable(pair.value)) for pair in metadata.properties]
        )

    def take(self) -> Opened:
        """Return the filled columns and begin with empty ones."""
        self._entries["compression"] = [CODECS.get(codec) for codec in self._entries["compression"]]
        entries = [_array(self._entries[field.name], field.type) for field in ENTRIES]
        fields = [MESSAGES.field(name) for name in self._wanted]
        messages = [_array(self._columns[field.name], field.type) for field in fields]
        opened = Opened(
            pa.RecordBatch.from_arrays(entries, schema=ENTRIES),
            pa.RecordBatch.from_arrays(messages, schema=pa.schema(fields)),
            self._problem,
        )
        self._clear()
        return opened


def _key(metadata: pb.MessageMetadata | pb.SingleMessageMetadata) -> str | None:
    key: str | None = metadata.partition_key
    if not key and not metadata.HasField("partition_key"):
        return None
    return None if metadata.null_partition_key else key


def _ordering_key(metadata: pb.MessageMetadata | pb.SingleMessageMetadata) -> bytes | None:
    return metadata.ordering_key if metadata.HasField("ordering_key") else None


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except pa.ArrowInvalid:
        if kind != pa.string():
            raise
        return pa.array([None if value is None else readable(value) for value in values], kind)
