"""Entries kept in memory for the one consumer that may receive them. Bounded in entries and in bytes. Pure.

A chunk waits for the consumer of its message (D6), any other entry for that of its key (D10).
"""

from collections import deque
from collections.abc import Callable, Iterator

from engine.base.slices import Slice, View
from engine.broker.dispatch.consumer import Consumer
from engine.broker.dispatch.facts import facts_of

PARKED_MAX = 1000
"""Largest number of parked entries of one subscription."""
PARKED_BYTES_MAX = 16 << 20
"""Bytes of those entries. Their buffers are at most WASTE_MAX times as large, except for a single large entry."""
WASTE_MAX = 2
"""Largest ratio of a buffer to its view. Others are copied: a small entry must not keep a large read in memory."""


class Parked:
    """Views by the consumer that they wait for, in order for each consumer."""

    __slots__ = ("_bytes", "_views", "entries")

    def __init__(self) -> None:
        self._views: dict[Consumer, deque[View]] = {}
        self.entries = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._views)

    def __contains__(self, owner: Consumer) -> bool:
        return owner in self._views

    def __iter__(self) -> Iterator[tuple[Consumer, View]]:
        for owner, views in self._views.items():
            for view in views:
                yield owner, view

    @property
    def owners(self) -> list[Consumer]:
        return list(self._views)

    def has_room(self, view: View) -> bool:
        """Return whether ``view`` may be added; the first one may, however large it is."""
        if self.entries >= PARKED_MAX:
            return False
        return not self._views or self._bytes + view.size <= PARKED_BYTES_MAX

    def add(self, owner: Consumer, view: View) -> None:
        """Add ``view`` behind the views that wait for ``owner``."""
        views = self._views.setdefault(owner, deque())
        for part in _small_buffers(view):
            views.append(part)
            self._count(part, 1)

    def put_back(self, owner: Consumer, view: View) -> None:
        """Add ``view``, which was taken, before the views that wait for ``owner`` (D10)."""
        views = self._views.setdefault(owner, deque())
        for part in reversed(_small_buffers(view)):
            views.appendleft(part)
            self._count(part, 1)

    def take(self, owner: Consumer) -> View | None:
        """Remove and return the first view that waits for ``owner``."""
        views = self._views.get(owner)
        if views is None:
            return None
        view = views.popleft()
        if not views:
            del self._views[owner]
        self._count(view, -1)
        return view

    def narrow(self, due: Callable[[View], View | None]) -> None:
        """Replace each view by the part that ``due`` returns of it, None for nothing."""
        parked = list(self)
        self.clear()
        for owner, view in parked:
            part = due(view)
            if part is not None:
                self.add(owner, part)

    def clear(self) -> None:
        self._views.clear()
        self.entries = self._bytes = 0

    def _count(self, view: View, sign: int) -> None:
        self.entries += sign * view.count
        self._bytes += sign * view.size


def _small_buffers(view: View) -> list[View]:
    """Return the entries of ``view`` in buffers at most WASTE_MAX times their size."""
    run = view.run
    if run.held <= WASTE_MAX * view.size:
        return [view]
    parts: list[View] = []
    indexes = view.indexes
    start = 0
    for i in range(1, len(indexes) + 1):
        if i == len(indexes) or indexes[i] != indexes[i - 1] + 1:
            parts.append(_copied(run, indexes[start], indexes[i - 1] + 1))
            start = i
    return parts


def _copied(run: Slice, start: int, stop: int) -> View:
    """Return entries ``start`` (inclusive) to ``stop`` in a buffer of their own."""
    entries = [run.entry(i) for i in range(start, stop)]
    spans: list[int] = []
    size = 0
    for entry in entries:
        spans += (size, size + len(entry))
        size += len(entry)
    counts = None if run.counts is None else run.counts[start:stop]
    copy = Slice(b"".join(entries), spans, size, counts, run.ledger_id, run.first + start)
    if run.facts is not None:
        copy.facts = facts_of(run).part(start, stop)
    return View(copy, 0, copy.count)
