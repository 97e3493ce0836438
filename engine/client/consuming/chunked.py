"""Messages that come in several entries, joined. Pure; the caller tells the time.

Chunks of one message come in order, those of others between them. What is dropped here (too many messages begun, too
many bytes, begun too long ago, a chunk missing) was not acknowledged, so that the broker gives it again.
"""

from typing import NamedTuple

from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb

BEGUN_MAX = 100
"""Messages of which not all chunks are there."""
BYTES_MAX = 64 * 1024 * 1024
"""Of the chunks kept, and of one message."""
AGE_MAX_S = 60.0


class Joined(NamedTuple):
    """A whole message: its payload as packed, and where its chunks lie, in order."""

    payload: bytes
    positions: list[Position]


class _Begun:
    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.parts: list[bytes] = []
        self.positions: list[Position] = []
        self.size = 0


class Chunks:
    """Of one topic, for one consumer. ``dropped`` counts messages given up."""

    def __init__(self) -> None:
        self.dropped = 0
        self._begun: dict[str, _Begun] = {}
        self._bytes = 0

    def add(
        self, metadata: pb.MessageMetadata, position: Position, payload: bytes, now_s: float
    ) -> Joined | None:
        """The message that this chunk completes."""
        uuid, index = metadata.uuid, metadata.chunk_id
        if index == 0:
            self._drop(uuid)
            self._begun[uuid] = _Begun(now_s)
        begun = self._begun.get(uuid)
        if begun is None:
            return None
        if index != len(begun.parts) or begun.size + len(payload) > BYTES_MAX:
            self._drop(uuid)
            return None
        begun.parts.append(payload)
        begun.positions.append(position)
        begun.size += len(payload)
        self._bytes += len(payload)
        if len(begun.parts) < metadata.num_chunks_from_msg:
            self._bound(now_s)
            return None
        del self._begun[uuid]
        self._bytes -= begun.size
        return Joined(b"".join(begun.parts), begun.positions)

    def clear(self) -> None:
        """Everything comes again."""
        self._begun.clear()
        self._bytes = 0

    def _bound(self, now_s: float) -> None:
        for uuid, begun in list(self._begun.items()):
            within = len(self._begun) <= BEGUN_MAX and self._bytes <= BYTES_MAX
            if within and now_s - begun.since_s < AGE_MAX_S:
                return
            self._drop(uuid)

    def _drop(self, uuid: str) -> None:
        begun = self._begun.pop(uuid, None)
        if begun is not None:
            self._bytes -= begun.size
            self.dropped += 1
