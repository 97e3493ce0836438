"""Messages in several entries, joined as they are read in the order of their topic. Pure."""

from dataclasses import dataclass, field, replace

from engine.wire.compression import CompressionError, decompress
from gateway.services.browsing.opening import BrowsedMessage, Kind

BYTES_MAX = 32 << 20
"""Bytes of a message in chunks that is joined, and of all chunks that are kept at a time."""
INCOMPLETE_MAX = 100
"""Messages of which chunks are kept at a time."""
ENDED_MAX = 1_000
INCOMPLETE = "not all of its chunks are stored: no client receives it"
REPEATED = "the chunk is stored twice"
FAR = "Its chunks are not joined: they are more than 32 MiB apart. The last one is shown as it is stored"
LARGE = "Its chunks are not joined: it is larger than 32 MiB. The last one is shown as it is stored"


@dataclass(slots=True)
class _Chunked:
    """Chunks of one message, which were read in order. ``stored_bytes``: size of their entries."""

    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    stored_bytes: int = 0


def is_chunk(browsed: BrowsedMessage) -> bool:
    """Return whether an entry is a chunk, or the message that was joined at its last chunk."""
    metadata = browsed.metadata
    return bool(browsed.message is not None and metadata.num_chunks_from_msg > 1 and metadata.uuid)


def is_last_chunk(browsed: BrowsedMessage) -> bool:
    """Return whether a chunk is the last one, at whose position a message is."""
    return bool(browsed.metadata.chunk_id + 1 == browsed.metadata.num_chunks_from_msg)


class ChunkJoiner:
    """Chunks of one topic or partition, by the rules of clients: a first one starts over, a repeated one is skipped, a
    gap ends the message. ``from_beginning``: no chunk is stored before those that are added."""

    def __init__(self, *, from_beginning: bool) -> None:
        self._from_beginning = from_beginning
        self._messages: dict[str, _Chunked] = {}
        self._ended: dict[str, str] = {}
        """Reasons by message that no further chunk is joined: INCOMPLETE, REPEATED or FAR."""
        self._size = 0

    def add(self, chunk: BrowsedMessage) -> BrowsedMessage:
        """Return the message whose last chunk this is, at the position of that chunk; any other chunk unchanged. A last
        chunk whose message cannot be joined has the reason as its ``problem``."""
        assert chunk.message is not None, "a chunk has its stored bytes"
        uuid, number = chunk.metadata.uuid, chunk.metadata.chunk_id
        if number == 0:
            self._drop(uuid)
            self._ended.pop(uuid, None)
            self._messages[uuid] = _Chunked()
        message = self._messages.get(uuid)
        if message is not None and number == len(message.pieces):
            piece = chunk.message.value or b""
            message.pieces.append(piece)
            message.size += len(piece)
            message.stored_bytes += chunk.entry_bytes or 0
            self._size += len(piece)
            self._bound()
        elif message is not None and number > len(message.pieces):
            self._end(uuid, INCOMPLETE)
        return self._joined(chunk) if is_last_chunk(chunk) else chunk

    def _joined(self, last: BrowsedMessage) -> BrowsedMessage:
        metadata, uuid = last.metadata, last.metadata.uuid
        message = self._messages.get(uuid)
        if message is None or len(message.pieces) != metadata.num_chunks_from_msg:
            reason = self._ended.get(uuid, INCOMPLETE if self._from_beginning else FAR)
            is_large = metadata.total_chunk_msg_size > BYTES_MAX
            return replace(last, problem=LARGE if reason == FAR and is_large else reason)
        self._end(uuid, REPEATED)
        try:
            value = decompress(
                metadata.compression, b"".join(message.pieces), metadata.uncompressed_size
            )
        except CompressionError as error:
            return replace(last, problem=f"Its chunks cannot be joined: {error}")
        assert last.message is not None
        return replace(
            last,
            kind=Kind.MESSAGE,
            message=replace(last.message, value=value),
            entry_bytes=None if last.entry_bytes is None else message.stored_bytes,
        )

    def _drop(self, uuid: str) -> None:
        message = self._messages.pop(uuid, None)
        if message is not None:
            self._size -= message.size

    def _end(self, uuid: str, reason: str) -> None:
        self._drop(uuid)
        self._ended[uuid] = reason
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def _bound(self) -> None:
        """Drop the messages that began first beyond the bounds."""
        while self._size > BYTES_MAX or len(self._messages) > INCOMPLETE_MAX:
            self._end(next(iter(self._messages)), FAR)
