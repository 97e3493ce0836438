"""Rows by name, each with the revision of its last change; readers request the changes since a revision. Pure.

No state is kept for a reader, however slow: the rows are in order of their last changes, and an answer is the end of
that order. The names of deleted rows are kept for a while.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

Row = list[object]
"""A row, which begins with its name and is not modified after ``put``."""

ANSWER_BYTES_MAX = 1 << 20
"""Approximate size of the rows of one answer as JSON."""
ROW_BYTES = 150
"""Approximate largest size of a row without its name, as JSON."""
GONE_MAX = 10_000
"""Number of deleted rows whose names are kept. A reader that missed an earlier deletion receives all rows again."""


class Changes(NamedTuple):
    """Changed rows and names of deleted ones, complete up to ``revision``; ``more``: a later revision exists.

    ``whole``: the list of all rows begins here and replaces everything received before. ``begun``: the latest revision
    when that list began; rows deleted during the list are reported behind it.
    """

    revision: int
    begun: int
    rows: list[Row]
    gone: list[str]
    whole: bool
    more: bool


class RowLog:
    """Log of rows. A revision counts single changes and starts at 1, without rows.

    ``row_bytes`` returns the approximate size of a row without its name.
    """

    def __init__(self, row_bytes: Callable[[Row], int] = lambda row: ROW_BYTES) -> None:
        self.revision = 1
        self._row_bytes = row_bytes
        self._rows: dict[str, tuple[int, Row]] = {}
        """Rows and their revisions, in order of the revisions."""
        self._gone: deque[tuple[int, str]] = deque()
        self._forgotten = 0
        """Revision up to which the names of deleted rows are no longer known."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def put(self, row: Row) -> None:
        """Replace the row of this name; do nothing when it is the same."""
        name = str(row[0])
        previous = self._rows.get(name)
        if previous is not None:
            if previous[1] == row:
                return
            del self._rows[name]
        self.revision += 1
        self._rows[name] = (self.revision, row)

    def drop(self, name: str) -> None:
        """Delete the row of this name. A name without a row is reported as deleted as well."""
        self._rows.pop(name, None)
        self.revision += 1
        self._gone.append((self.revision, name))
        if len(self._gone) > GONE_MAX:
            self._forgotten, _ = self._gone.popleft()

    def since(self, revision: int, begun: int = 0) -> Changes:
        """Return the changes after ``revision``; all rows for 0, for an unknown revision and for one too old.

        ``begun``: as in the answer that had ``revision``.
        """
        seen = max(revision, begun)
        whole = not (revision >= 1 and self._forgotten <= seen <= self.revision)
        if whole:
            revision, begun = 0, self.revision
        changes: list[tuple[int, Row | str]] = []
        for entry in reversed(self._rows.values()):
            if entry[0] <= revision:
                break
            changes.append(entry)
        if not whole:
            for gone in reversed(self._gone):
                if gone[0] <= revision:
                    break
                changes.append(gone)
        changes.sort(key=lambda change: change[0])
        return self._first(changes, begun, whole)

    def _first(self, changes: list[tuple[int, Row | str]], begun: int, whole: bool) -> Changes:
        """Return as many of ``changes`` as fit into one answer, at least one."""
        rows: list[Row] = []
        gone: list[str] = []
        room = ANSWER_BYTES_MAX
        for revision, change in changes:
            if isinstance(change, str):
                room -= len(change)
            else:
                room -= self._row_bytes(change) + len(str(change[0]))
            if room < 0 and (rows or gone):
                return Changes(revision - 1, begun, rows, gone, whole, more=True)
            if isinstance(change, str):
                gone.append(change)
            else:
                rows.append(change)
        return Changes(self.revision, begun, rows, gone, whole, more=False)
