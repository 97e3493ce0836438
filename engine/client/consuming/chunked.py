"""Messages in several entries, joined. Pure; the caller passes the time.

Chunks of one message arrive in order except for redelivered ones; chunks of other messages may be between them. Every
accepted chunk ends in one of four ways: it is part of a delivered message; it is useless (sent twice, or its message
can never be whole) and reported by ``on_useless``; it is dropped for lack of room and reported by ``on_again``; or its
message is longer than BYTES_MAX and stays unacknowledged.
"""

from collections.abc import Callable
from typing import NamedTuple

from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb

INCOMPLETE_MAX = 100
"""Messages of which some chunks are missing."""
BYTES_MAX = 64 * 1024 * 1024
"""Bytes of the chunks that one consumer holds, of all its topics, and of one message."""
AGE_MAX_S = 60.0
"""Seconds between two chunks of a message after which the message is discarded, once the topic continued without the
next chunk."""


class Joined(NamedTuple):
    """A whole message: its payload as compressed, and the positions of its chunks, in order."""

    payload: bytes
    positions: list[Position]


class _IncompleteMessage:
    def __init__(self, count: int) -> None:
        self.count = count
        self.since_s = 0.0
        self.parts: dict[int, tuple[Position, bytes]] = {}
        self.size = 0

    def positions(self) -> list[Position]:
        return [position for position, _ in self.parts.values()]


class ChunkBytes:
    """Bytes of chunks that a consumer holds, of all its topics."""

    bytes = 0


class Chunks:
    """Chunks of one topic, for one consumer. ``kept`` counts the bytes held of all its topics."""

    def __init__(
        self,
        on_useless: Callable[[Position], None],
        on_again: Callable[[Position], None],
        kept: ChunkBytes,
    ) -> None:
        self._kept = kept
        self._on_useless = on_useless
        self._on_again = on_again
        self._incomplete: dict[str, _IncompleteMessage] = {}

    def __len__(self) -> int:
        """Return the number of incomplete messages."""
        return len(self._incomplete)

    def add(
        self, metadata: pb.MessageMetadata, position: Position, payload: bytes, now_s: float
    ) -> Joined | None:
        """Add a chunk and return the message that it completes; None when it completes none."""
        uuid, index, count = metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg
        if not 0 <= index < count:
            self._on_useless(position)
            return None
        if metadata.total_chunk_msg_size > BYTES_MAX:
            return None
        message = self._incomplete.get(uuid)
        if message is not None and (not index or message.count != count):
            self._drop_earlier(uuid, position)
            if message.count != count and message.parts:
                # Itself of an earlier attempt to send, cut in other pieces.
                self._on_useless(position)
                return None
            message.count = count
        if message is None:
            message = self._incomplete[uuid] = _IncompleteMessage(count)
        if not self._fits(message, index, position):
            return None
        message.parts[index] = (position, payload)
        message.since_s = now_s
        message.size += len(payload)
        self._kept.bytes += len(payload)
        if len(message.parts) < count:
            self._bound(uuid)
            return None
        self._remove(uuid)
        parts = [message.parts[number] for number in range(count)]
        return Joined(b"".join([part for _, part in parts]), [position for position, _ in parts])

    def _drop_earlier(self, uuid: str, position: Position) -> None:
        """Drop the chunks before ``position``, where the message begins: they are of an earlier attempt to send it that
        was not completed."""
        message = self._incomplete.get(uuid)
        for index, (earlier, part) in list(message.parts.items()) if message is not None else ():
            if earlier < position:
                assert message is not None
                del message.parts[index]
                message.size -= len(part)
                self._kept.bytes -= len(part)
                self._on_useless(earlier)

    def _fits(self, message: _IncompleteMessage, index: int, position: Position) -> bool:
        """Return whether a chunk is kept: not one that is held, sent twice, or of an earlier attempt to send."""
        held = message.parts.get(index)
        first = message.parts.get(0)
        if held is not None:
            if held[0] != position:
                self._on_useless(position)
            return False
        if index and first is not None and position < first[0]:
            self._on_useless(position)
            return False
        return True

    def give_up(self, before_s: float) -> list[list[Position]]:
        """Remove messages whose last chunk arrived before ``before_s`` and return the positions of their chunks."""
        late = [uuid for uuid, message in self._incomplete.items() if message.since_s <= before_s]
        return [sorted(self._remove(uuid).positions()) for uuid in late]

    def clear(self) -> None:
        """Remove all messages; they are redelivered."""
        for uuid in list(self._incomplete):
            self._remove(uuid)

    def _bound(self, newest: str) -> None:
        """Drop messages beyond the bounds, those that began first."""
        for uuid in list(self._incomplete):
            if len(self._incomplete) <= INCOMPLETE_MAX and self._kept.bytes <= BYTES_MAX:
                return
            if uuid == newest and self._incomplete[uuid].size > BYTES_MAX:
                self._remove(uuid)  # larger than declared, and than allowed
                return
            for position in self._remove(uuid).positions():
                self._on_again(position)

    def _remove(self, uuid: str) -> _IncompleteMessage:
        message = self._incomplete.pop(uuid)
        self._kept.bytes -= message.size
        return message
