"""Slices, which are runs of consecutive entries in one received buffer and the unit of the data path.

One object per run passes from the socket through the managed ledger and the ledger writer to the tail cache and the
dispatcher, so that an entry costs nothing but its bytes. A slice never spans two ledgers.
"""

from collections.abc import Sequence
from typing import Any

from engine.base.ids import Position


class Slice:
    """Consecutive entries of one ledger in ``buf``.

    ``buf`` is immutable and kept alive by the slice, so budgets charge ``held`` (the complete buffer), not ``size``.
    ``spans`` is flat: entry ``i`` is ``buf[spans[2 * i]:spans[2 * i + 1]]``, the bytes that a client sent after its
    command. ``ledger_id`` and ``first`` (entry id of entry 0) are -1 until the slice is added to a ledger. ``counts``
    has the number of messages of each entry, or is None when each entry is a single message. ``facts`` caches the
    result of the first inspection of the entries for later readers; it is None before.
    """

    __slots__ = ("buf", "count", "counts", "facts", "first", "ledger_id", "size", "spans")

    def __init__(
        self,
        buf: bytes,
        spans: list[int],
        size: int,
        counts: list[int] | None = None,
        ledger_id: int = -1,
        first: int = -1,
    ) -> None:
        self.buf = buf
        self.spans = spans
        self.count = len(spans) >> 1
        self.size = size
        self.counts = counts
        self.ledger_id = ledger_id
        self.first = first
        self.facts: Any = None

    @property
    def held(self) -> int:
        """Bytes that this slice keeps alive."""
        return len(self.buf)

    @property
    def messages(self) -> int:
        """Messages in all entries together."""
        return self.count if self.counts is None else sum(self.counts)

    @property
    def last(self) -> int:
        """Entry id of the last entry."""
        return self.first + self.count - 1

    def position(self, i: int) -> Position:
        """Return the position of entry ``i``."""
        return Position(self.ledger_id, self.first + i)

    def size_of(self, start: int, stop: int) -> int:
        """Return the bytes of entries ``start`` (inclusive) to ``stop`` (exclusive)."""
        if stop - start == self.count:
            return self.size
        return span_bytes(self.spans, start, stop)

    def messages_of(self, start: int, stop: int) -> int:
        """Return the number of messages in entries ``start`` (inclusive) to ``stop`` (exclusive)."""
        return stop - start if self.counts is None else sum(self.counts[start:stop])

    def entry(self, i: int) -> bytes:
        """Return a copy of the bytes of entry ``i``; for slow paths only."""
        return self.buf[self.spans[2 * i] : self.spans[2 * i + 1]]

    def tail(self, start: int) -> "Slice":
        """Return the entries from index ``start`` on, over the same buffer, not yet added to a ledger."""
        size = self.size_of(start, self.count)
        counts = None if self.counts is None else self.counts[start:]
        return Slice(self.buf, self.spans[2 * start :], size, counts)


def span_bytes(spans: list[int], start: int, stop: int) -> int:
    """Return the bytes of entries ``start`` (inclusive) to ``stop`` (exclusive) in ``spans``."""
    return sum(spans[2 * start + 1 : 2 * stop : 2]) - sum(spans[2 * start : 2 * stop : 2])


class View:
    """Entries ``start`` (inclusive) to ``stop`` (exclusive) of a slice, which reads return and dispatchers send."""

    __slots__ = ("run", "start", "stop")

    def __init__(self, run: Slice, start: int, stop: int) -> None:
        self.run = run
        self.start = start
        self.stop = stop

    @property
    def ledger_id(self) -> int:
        return self.run.ledger_id

    @property
    def first(self) -> int:
        """Entry id of the first entry in view."""
        return self.run.first + self.start

    @property
    def last_position(self) -> Position:
        """Position of the last entry in view."""
        return self.run.position(self.stop - 1)

    @property
    def indexes(self) -> Sequence[int]:
        """Indexes of the entries in view, ascending."""
        return range(self.start, self.stop)

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def size(self) -> int:
        """Bytes of the entries in view."""
        return self.run.size_of(self.start, self.stop)

    @property
    def messages(self) -> int:
        return self.run.messages_of(self.start, self.stop)

    def part(self, start: int, stop: int) -> "View":
        """Return the view of the ``start``-th (inclusive) to the ``stop``-th (exclusive) entry in view."""
        return View(self.run, self.start + start, self.start + stop)


class Pick(View):
    """View of entries of a slice with gaps between them."""

    __slots__ = ("_indexes",)

    def __init__(self, run: Slice, indexes: Sequence[int]) -> None:
        """Create the view of the entries at ``indexes``, which are ascending and at least one."""
        super().__init__(run, indexes[0], indexes[-1] + 1)
        self._indexes = indexes

    @property
    def indexes(self) -> Sequence[int]:
        return self._indexes

    @property
    def count(self) -> int:
        return len(self._indexes)

    @property
    def size(self) -> int:
        spans = self.run.spans
        return sum([spans[2 * i + 1] - spans[2 * i] for i in self._indexes])

    @property
    def messages(self) -> int:
        counts = self.run.counts
        return self.count if counts is None else sum([counts[i] for i in self._indexes])

    def part(self, start: int, stop: int) -> View:
        return Pick(self.run, self._indexes[start:stop])


FRAME_PREFIX = 28
"""Bytes of a bookie's add frame before its entry: length 4, header 4, master key 20."""


class AddRun:
    """Add frames of consecutive entries of one ledger with one key and equal flags, adjacent in ``buf``.

    Entry ``i`` is ``buf[offsets[i] : end(i)]`` (32-byte header, digest, payload); its frame begins FRAME_PREFIX bytes
    earlier. ``buf`` is immutable and kept alive by the run. ``stop`` is the end of the last frame.
    """

    __slots__ = ("buf", "count", "first", "flags", "ledger_id", "master_key", "offsets", "stop")

    def __init__(
        self,
        buf: bytes,
        ledger_id: int,
        first: int,
        offsets: list[int],
        stop: int,
        master_key: bytes,
        flags: int = 0,
    ) -> None:
        self.buf = buf
        self.ledger_id = ledger_id
        self.first = first
        self.count = len(offsets)
        self.offsets = offsets
        self.stop = stop
        self.master_key = master_key
        self.flags = flags

    @property
    def start(self) -> int:
        """Offset of the first frame."""
        return self.offsets[0] - FRAME_PREFIX

    @property
    def below(self) -> int:
        """Entry id after the last entry."""
        return self.first + self.count

    def end(self, i: int) -> int:
        """Return the end of entry ``i`` in ``buf``."""
        return self.offsets[i + 1] - FRAME_PREFIX if i + 1 < self.count else self.stop

    def part(self, start: int, stop: int) -> "AddRun":
        """Return the entries with index ``start`` to ``stop`` (exclusive, > start) over the same buffer."""
        return AddRun(
            self.buf,
            self.ledger_id,
            self.first + start,
            self.offsets[start:stop],
            self.end(stop - 1),
            self.master_key,
            self.flags,
        )
