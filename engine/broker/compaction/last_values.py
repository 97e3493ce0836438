"""Which messages a compaction keeps: of each key the last one, unless its value is empty (M11). Pure.

Messages without a key fall away, or all stay. Markers fall away. What cannot be read stays as it is, and so does an
encrypted batch of several messages, of which the key of the first is known only.

A chunked message is one message, at the place of its last chunk: all its entries stay, or none. Chunks of a message
that is not complete stay, since the others may follow.
"""

from itertools import chain

from google.protobuf.message import DecodeError

from engine.base.crc32c import crc32c
from engine.broker.dispatch.facts import short_uuid
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import BatchFormatError, members
from engine.wire.compression import CompressionError, compress, decompress
from engine.wire.kernels import BROKER_METADATA_MAGIC, CHECKSUM_MAGIC, metadata_span

INDEX_BITS = 24
"""Of a place: a batch has fewer messages, since each takes some bytes of an entry."""

_WHOLE = 0
_GONE = pb.SingleMessageMetadata(payload_size=0, compacted_out=True).SerializeToString()


class LastValues:
    """The first phase: ``take`` every entry in order, numbered from 0; then ask ``kept`` for each, in order again.

    Bounded by the number of keys, of chunks that stay and of entries that cannot be read. ``removed``: messages that
    fall away.
    """

    def __init__(self, *, retain_null_key: bool) -> None:
        self.removed = 0
        self._retain = retain_null_key
        self._places: dict[str, int | tuple[int, ...]] = {}
        """By key: number of the entry, and (from 1) index of the message in its batch, 0 when it is none. Of a chunked
        message those of all entries."""
        self._chunks: dict[str, list[int]] = {}
        """Places of the chunks so far, by uuid, of messages that are not complete."""
        self._unread: list[int] = []

    @property
    def keys(self) -> int:
        return len(self._places)

    def take(self, number: int, entry: bytes) -> None:
        metadata, payload_at = _read(entry)
        if metadata is None:
            self._unread.append(number)
        elif metadata.HasField("marker_type"):
            self.removed += 1
        elif metadata.num_chunks_from_msg > 1 and metadata.uuid:
            self._take_chunk(number, metadata)
        elif metadata.num_messages_in_batch > 1 and metadata.encryption_keys:
            self._unread.append(number)
            if self._places.pop(metadata.partition_key, None) is not None:
                self.removed += 1
        elif metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys:
            try:
                batch = members(
                    metadata.num_messages_in_batch, _unpacked(metadata, entry, payload_at)
                )
            except (BatchFormatError, CompressionError):
                self._unread.append(number)
                return
            for index, (single, _) in enumerate(batch, 1):
                if not single.compacted_out:
                    key = single.partition_key if single.HasField("partition_key") else None
                    self._note(key, (number << INDEX_BITS) + index, single.payload_size <= 0)
        else:
            empty = _is_empty(metadata, len(entry) - payload_at)
            self._note(_key(metadata), (number << INDEX_BITS) + _WHOLE, empty)

    def _take_chunk(self, number: int, metadata: pb.MessageMetadata) -> None:
        """As clients put chunks together: a first one begins anew, a repeated one is passed over, a gap ends it."""
        uuid = short_uuid(metadata.uuid)
        chunks = self._chunks.setdefault(uuid, [])
        if metadata.chunk_id == 0:
            chunks.clear()
        if metadata.chunk_id > len(chunks):
            del self._chunks[uuid]
        elif metadata.chunk_id == len(chunks):
            chunks.append((number << INDEX_BITS) + _WHOLE)
            if len(chunks) == metadata.num_chunks_from_msg:
                del self._chunks[uuid]
                self._note(_key(metadata), tuple(chunks), metadata.null_value)

    def _note(self, key: str | None, place: int | tuple[int, ...], empty: bool) -> None:
        if key is None:
            self.removed += not self._retain
        elif empty:
            self._places.pop(key, None)
            self.removed += 1
        else:
            self.removed += key in self._places
            self._places[key] = place

    def selection(self) -> "Selection":
        """The second phase. Nothing more may be taken."""
        places: list[int] = []
        for place in chain(self._places.values(), map(tuple, self._chunks.values())):
            if isinstance(place, int):
                places.append(place)
            else:
                places += place
        return Selection(sorted(places), set(self._unread), self._retain)


class Selection:
    """What stays of each entry, asked in their order."""

    def __init__(self, places: list[int], unread: set[int], retain_null_key: bool) -> None:
        self._places = places
        self._unread = unread
        self._retain = retain_null_key
        self._next = 0

    def kept(self, number: int, entry: bytes) -> bytes | None:
        """What is kept of the entry with this number: itself, a batch with empty places, or None."""
        places, at = self._places, self._next
        behind = (number + 1) << INDEX_BITS
        start = at
        while at < len(places) and places[at] < behind:
            at += 1
        self._next = at
        if number in self._unread:
            return entry
        if start == at and not self._retain:
            return None
        first = number << INDEX_BITS
        if start < at and places[start] == first + _WHOLE:
            return entry
        return _narrowed(entry, {place - first - 1 for place in places[start:at]}, self._retain)


def _read(entry: bytes) -> tuple[pb.MessageMetadata | None, int]:
    """Metadata, None when it cannot be read, and where the payload begins."""
    span = metadata_span(entry, 0, len(entry))
    if span is None:
        return None, 0
    try:
        return pb.MessageMetadata.FromString(entry[span[0] : span[1]]), span[1]
    except DecodeError:
        return None, 0


def _key(metadata: pb.MessageMetadata) -> str | None:
    key: str = metadata.partition_key
    return key if metadata.HasField("partition_key") else None


def _unpacked(metadata: pb.MessageMetadata, entry: bytes, payload_at: int) -> bytes:
    """Raises CompressionError."""
    packed = entry[payload_at:]
    if not metadata.compression:
        return packed
    return decompress(metadata.compression, packed, metadata.uncompressed_size)


def _is_empty(metadata: pb.MessageMetadata, size: int) -> bool:
    """Whether a message has no value, as far as that is to be seen; ``size``: of its payload as stored."""
    if metadata.null_value or not size:
        return True
    return bool(metadata.HasField("uncompressed_size") and not metadata.uncompressed_size)


def _narrowed(entry: bytes, kept: set[int], retain_null_key: bool) -> bytes | None:
    """Of a batch only the messages ``kept`` by index, and those without a key where they stay; None: none is left."""
    metadata, payload_at = _read(entry)
    if metadata is None or metadata.HasField("marker_type"):
        return None
    if not metadata.HasField("num_messages_in_batch") or metadata.encryption_keys:
        return None if metadata.HasField("partition_key") else entry
    batch = members(metadata.num_messages_in_batch, _unpacked(metadata, entry, payload_at))
    parts: list[bytes] = []
    left = 0
    for index, (single, value) in enumerate(batch):
        keyless = retain_null_key and not (single.HasField("partition_key") or single.compacted_out)
        if index in kept or keyless:
            left += 1
            own = single.SerializeToString()
            parts += (len(own).to_bytes(4, "big"), own, value or b"")
        else:
            parts += (len(_GONE).to_bytes(4, "big"), _GONE)
    if not left:
        return None
    payload = b"".join(parts)
    metadata.uncompressed_size = len(payload)
    own = metadata.SerializeToString()
    body = len(own).to_bytes(4, "big") + own + compress(metadata.compression, payload)
    head = CHECKSUM_MAGIC.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big")
    return _broker_metadata(entry) + head + body


def _broker_metadata(entry: bytes) -> bytes:
    """What the broker put before the entry, when it did."""
    if int.from_bytes(entry[:2], "big") != BROKER_METADATA_MAGIC:
        return b""
    return entry[: 6 + int.from_bytes(entry[2:6], "big")]
