"""Messages with a delivery time: Shared subscriptions set them aside until it has come. Pure."""

from heapq import heappop, heappush

from engine.base.ids import Position
from engine.base.slices import View
from engine.wire.batches import read_metadata
from engine.wire.kernels import metadata_span

DELIVER_AT_TAG = b"\x98\x01"
"""MessageMetadata.deliver_at_time, field 19."""
SET_ASIDE_MAX = 100_000
"""Entries of one subscription that may be set aside; beyond, dispatch waits for the earliest of them."""
_LARGE_ENTRY_BYTES = 2048


def metadata_may_hold(view: View, tag: bytes) -> bool:
    """Whether ``tag`` is found in ``view``, maybe by chance: small entries are searched at once, of large ones the
    metadata."""
    run = view.run
    buf, spans = run.buf, run.spans
    if view.size <= _LARGE_ENTRY_BYTES * view.count:
        return buf.find(tag, spans[2 * view.start], spans[2 * view.stop - 1]) >= 0
    for i in range(view.start, view.stop):
        span = metadata_span(buf, spans[2 * i], spans[2 * i + 1])
        if span is not None and buf.find(tag, *span) >= 0:
            return True
    return False


def deliver_at_ms(entry: bytes) -> int:
    """When an entry is to be delivered, ms since the epoch; 0: at once."""
    if DELIVER_AT_TAG not in entry:
        return 0
    metadata = read_metadata(entry)
    return 0 if metadata is None else metadata.deliver_at_time


class DelayQueue:
    """Positions set aside, by the time they are due. Not stored: reading them again sets them aside again."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, Position]] = []

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def full(self) -> bool:
        return len(self._heap) >= SET_ASIDE_MAX

    @property
    def next_ms(self) -> int | None:
        """When the first is due."""
        return self._heap[0][0] if self._heap else None

    def add(self, position: Position, at_ms: int) -> None:
        heappush(self._heap, (at_ms, position))

    def take(self, now_ms: int) -> list[Position]:
        """Remove and return those that are due."""
        due: list[Position] = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heappop(self._heap)[1])
        return due

    def clear(self) -> None:
        self._heap.clear()
