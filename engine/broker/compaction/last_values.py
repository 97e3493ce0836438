"""Choice of the messages that a compaction keeps: the last one of each key, unless its value is empty (M11). Pure.

Messages without a key are all kept or all removed, by a setting. Markers are removed. Entries that cannot be decoded
are kept as they are. So is an encrypted batch of several messages, since only the key of its first message is known.

A chunked message is one message, at the place of its last chunk: all its entries are kept, or none. Chunks of an
incomplete message are kept, since the others may follow.
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
"""Bits of a message's index in a place. A batch has fewer messages, since each takes some bytes of an entry."""

_WHOLE = 0
"""Index of an entry that is no batch."""
_REMOVED = pb.SingleMessageMetadata(payload_size=0, compacted_out=True).SerializeToString()


class LastValues:
    """First phase: ``take`` each entry in order, numbered from 0, then ``selection`` for the second phase.

    Bounded by the number of keys, of chunks that are kept and of entries that cannot be decoded. ``removed``: number of
    messages that are not kept.
    """

    def __init__(self, *, retain_null_key: bool) -> None:
        self.removed = 0
        self._retain = retain_null_key
        self._places: dict[str, int | tuple[int, ...]] = {}
        """Place of each key's last message: number of the entry, and above 0 the index in its batch, from 1.

        For a chunked message the places of all its chunks.
        """
        self._chunks: dict[str, list[int]] = {}
        """Places of the chunks of incomplete messages, by uuid."""
        self._unread: list[int] = []
        """Numbers of entries that are kept undecoded."""

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
        """Take a chunk by the rules of clients: a first one starts over, a repeated one is skipped, a gap ends it."""
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
        """Return the second phase. ``take`` must not be called afterwards."""
        places: list[int] = []
        for place in chain(self._places.values(), map(tuple, self._chunks.values())):
            if isinstance(place, int):
                places.append(place)
            else:
                places += place
        return Selection(sorted(places), set(self._unread), self._retain)


class Selection:
    """Second phase: the part to keep of each entry, requested in the entries' order."""

    def __init__(self, places: list[int], unread: set[int], retain_null_key: bool) -> None:
        self._places = places
        self._unread = unread
        self._retain = retain_null_key
        self._next = 0

    def kept(self, number: int, entry: bytes) -> bytes | None:
        """Return the part to keep of an entry: the entry, a batch with emptied messages, or None."""
        places, start = self._places, self._next
        behind = (number + 1) << INDEX_BITS
        stop = start
        while stop < len(places) and places[stop] < behind:
            stop += 1
        self._next = stop
        if number in self._unread:
            return entry
        if start == stop and not self._retain:
            return None
        first = number << INDEX_BITS
        if start < stop and places[start] == first + _WHOLE:
            return entry
        return _narrowed(entry, {place - first - 1 for place in places[start:stop]}, self._retain)


def _read(entry: bytes) -> tuple[pb.MessageMetadata | None, int]:
    """Return the metadata, None when it cannot be decoded, and the offset of the payload."""
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
    """Return the decompressed payload. Raises CompressionError."""
    packed = entry[payload_at:]
    if not metadata.compression:
        return packed
    return decompress(metadata.compression, packed, metadata.uncompressed_size)


def _is_empty(metadata: pb.MessageMetadata, size: int) -> bool:
    """Return whether a message is known to have no value; ``size``: size of its payload as stored."""
    if metadata.null_value or not size:
        return True
    return bool(metadata.HasField("uncompressed_size") and not metadata.uncompressed_size)


def _narrowed(entry: bytes, kept: set[int], retain_null_key: bool) -> bytes | None:
    """Return a batch with only the messages ``kept``, by index, and those without a key where they are retained.

    The other messages are marked as compacted out, so that indexes stay the same. None when no message remains.
    """
    metadata, payload_at = _read(entry)
    if metadata is None or metadata.HasField("marker_type"):
        return None
    if not metadata.HasField("num_messages_in_batch") or metadata.encryption_keys:
        return None if metadata.HasField("partition_key") else entry
    batch = members(metadata.num_messages_in_batch, _unpacked(metadata, entry, payload_at))
    parts: list[bytes] = []
    remaining = 0
    for index, (single, value) in enumerate(batch):
        keyless = retain_null_key and not (single.HasField("partition_key") or single.compacted_out)
        if index in kept or keyless:
            remaining += 1
            own = single.SerializeToString()
            parts += (len(own).to_bytes(4, "big"), own, value or b"")
        else:
            parts += (len(_REMOVED).to_bytes(4, "big"), _REMOVED)
    if not remaining:
        return None
    payload = b"".join(parts)
    metadata.uncompressed_size = len(payload)
    own = metadata.SerializeToString()
    body = len(own).to_bytes(4, "big") + own + compress(metadata.compression, payload)
    head = CHECKSUM_MAGIC.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big")
    return _broker_metadata(entry) + head + body


def _broker_metadata(entry: bytes) -> bytes:
    """Return the broker's metadata in front of the entry; empty when there is none."""
    if int.from_bytes(entry[:2], "big") != BROKER_METADATA_MAGIC:
        return b""
    return entry[: 6 + int.from_bytes(entry[2:6], "big")]
