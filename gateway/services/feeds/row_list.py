"""The rows that one broker reports in a feed, assembled from its answers. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

STEP = 500
"""Number of rows changed in one step, where many change at once; other tasks run between steps."""


class RowChanges(NamedTuple):
    """Rows that changed at a broker, each of which begins with its name, and names that have no row there any more.

    ``at``: when the broker measured them, by its clock, ms.
    """

    at: int
    rows: list[list[Any]]
    gone: list[str]


class RowList:
    """State of a broker's list of rows. ``reported`` returns the names that have a row of this broker by now.

    ``is_complete``: the list was received to its end. It stays so while later changes arrive, until a new complete list
    begins.
    """

    def __init__(self, reported: Callable[[], Iterable[str]]) -> None:
        self.is_complete = False
        self._reported = reported
        self._unlisted: dict[str, None] = {}
        """Reported names that a complete list, still being received, does not have yet."""

    def changes(self, answer: dict[str, Any]) -> Iterator[RowChanges]:
        """Yield the changes of an answer, see ``RowsSince``, in steps of at most ``STEP`` rows and names; at least one
        step. Each must be applied before the next is taken."""
        if answer["whole"]:
            self.is_complete = False
            self._unlisted = dict.fromkeys(self._reported())
        at, rows, gone = int(answer["at"]), answer["rows"], answer["gone"]
        if self._unlisted:
            for name in (*(row[0] for row in rows), *gone):
                self._unlisted.pop(name, None)
        if not answer["more"]:
            # A complete list may span several answers: only the last one shows which names it lacks.
            gone = [*gone, *self._unlisted]
            self._unlisted = {}
        total = len(rows) + len(gone)
        for start in range(0, max(total, 1), STEP):
            end = start + STEP
            if end >= total and not answer["more"]:
                self.is_complete = True
            gone_now = gone[max(start - len(rows), 0) : max(end - len(rows), 0)]
            yield RowChanges(at, rows[start:end], gone_now)
