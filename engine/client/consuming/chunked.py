"""Messages that come in several entries, joined. Pure; the caller tells the time.

Chunks of one message come in order but for those that are delivered again; those of other messages come between them.
Every chunk that is taken ends in one of four ways: it is part of a message that is given; it is of no use to anybody
(sent twice, or the rest of its message never comes) and told by ``on_useless``; it is let go for want of room and told
by ``on_again``; or its message is longer than BYTES_MAX and stays where it is.
"""

from collections.abc import Callable
from typing import NamedTuple

from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb

BEGUN_MAX = 100
"""Messages of which not all chunks are there."""
BYTES_MAX = 64 * 1024 * 1024
"""Of the chunks that one consumer keeps, of all its topics, and of one message."""
AGE_MAX_S = 60.0
"""Between two chunks of a message: its producer goes no further when the topic went on without the next one."""


class Joined(NamedTuple):
    """A whole message: its payload as packed, and where its chunks lie, in order."""

    payload: bytes
    positions: list[Position]


class _Begun:
    def __init__(self, count: int) -> None:
        self.count = count
        self.since_s = 0.0
        self.parts: dict[int, tuple[Position, bytes]] = {}
        self.size = 0

    def positions(self) -> list[Position]:
        return [position for position, _ in self.parts.values()]


class ChunkBytes:
    """Bytes of chunks that a consumer keeps, of all its topics."""

    bytes = 0


class Chunks:
    """Of one topic, for one consumer. ``kept`` counts what all of its topics keep."""

    def __init__(
        self,
        on_useless: Callable[[Position], None],
        on_again: Callable[[Position], None],
        kept: ChunkBytes,
    ) -> None:
        self._kept = kept
        self._on_useless = on_useless
        self._on_again = on_again
        self._begun: dict[str, _Begun] = {}

    def __len__(self) -> int:
        """Messages begun."""
        return len(self._begun)

    def add(
        self, metadata: pb.MessageMetadata, position: Position, payload: bytes, now_s: float
    ) -> Joined | None:
        """The message that this chunk completes."""
        uuid, index, count = metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg
        if not 0 <= index < count:
            self._on_useless(position)
            return None
        if metadata.total_chunk_msg_size > BYTES_MAX:
            return None
        begun = self._begun.get(uuid)
        if begun is not None and (not index or begun.count != count):
            self._leave_earlier(uuid, position)
            if begun.count != count and begun.parts:
                self._on_useless(position)  # of an earlier sending itself, cut in other pieces
                return None
            begun.count = count
        if begun is None:
            begun = self._begun[uuid] = _Begun(count)
        if not self._fits(begun, index, position):
            return None
        begun.parts[index] = (position, payload)
        begun.since_s = now_s
        begun.size += len(payload)
        self._kept.bytes += len(payload)
        if len(begun.parts) < count:
            self._bound(uuid)
            return None
        self._forget(uuid)
        parts = [begun.parts[at] for at in range(count)]
        return Joined(b"".join([part for _, part in parts]), [position for position, _ in parts])

    def _leave_earlier(self, uuid: str, position: Position) -> None:
        """A message begins at ``position``: what lies before it is of an earlier sending, which went no further."""
        begun = self._begun.get(uuid)
        for index, (earlier, part) in list(begun.parts.items()) if begun is not None else ():
            if earlier < position:
                assert begun is not None
                del begun.parts[index]
                begun.size -= len(part)
                self._kept.bytes -= len(part)
                self._on_useless(earlier)

    def _fits(self, begun: _Begun, index: int, position: Position) -> bool:
        """Whether a chunk is to be kept: not one that is here, sent twice, or of an earlier sending."""
        held = begun.parts.get(index)
        first = begun.parts.get(0)
        if held is not None:
            if held[0] != position:
                self._on_useless(position)
            return False
        if index and first is not None and position < first[0]:
            self._on_useless(position)
            return False
        return True

    def give_up(self, before_s: float) -> list[list[Position]]:
        """Where the chunks lie of each message whose last chunk came before ``before_s``; they are forgotten."""
        late = [uuid for uuid, begun in self._begun.items() if begun.since_s <= before_s]
        return [sorted(self._forget(uuid).positions()) for uuid in late]

    def clear(self) -> None:
        """Everything comes again."""
        for uuid in list(self._begun):
            self._forget(uuid)

    def _bound(self, newest: str) -> None:
        """Let go of messages, those that began first."""
        for uuid in list(self._begun):
            if len(self._begun) <= BEGUN_MAX and self._kept.bytes <= BYTES_MAX:
                return
            if uuid == newest and self._begun[uuid].size > BYTES_MAX:
                self._forget(uuid)  # longer than it said, and than may be
                return
            for position in self._forget(uuid).positions():
                self._on_again(position)

    def _forget(self, uuid: str) -> _Begun:
        begun = self._begun.pop(uuid)
        self._kept.bytes -= begun.size
        return begun
