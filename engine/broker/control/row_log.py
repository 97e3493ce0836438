"""Rows by name, each with the revision of its last change: who has seen one revision asks for what changed since. Pure.

Nothing is kept for those who ask, however many and slow they are: the rows stand in the order of their last changes,
so that the answer is the end of that order. A row that is gone leaves its name, for a while.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

Row = list[object]
"""Begins with its name. Not changed once put."""

ANSWER_BYTES_MAX = 1 << 20
"""About what the rows of one answer take, as JSON."""
ROW_BYTES = 150
"""What a row takes at most beside its name, about."""
GONE_MAX = 10_000
"""Names remembered of rows that are gone. Who has not heard of an earlier one gets everything anew."""


class Changes(NamedTuple):
    """Rows changed, names gone, and the revision up to which that is all; ``more``: there is a later one.

    ``whole``: the list of all rows begins here; whatever was known before is void. ``begun``: the latest revision when
    it began: what goes during the list is told behind it.
    """

    revision: int
    begun: int
    rows: list[Row]
    gone: list[str]
    whole: bool
    more: bool


class RowLog:
    """Revisions count single changes; 1 is that of no row. ``row_bytes``: what a row takes beside its name, about."""

    def __init__(self, row_bytes: Callable[[Row], int] = lambda row: ROW_BYTES) -> None:
        self.revision = 1
        self._row_bytes = row_bytes
        self._rows: dict[str, tuple[int, Row]] = {}
        """In the order of their revisions."""
        self._gone: deque[tuple[int, str]] = deque()
        self._forgotten = 0
        """Of what went at this revision or before the name is not known any more."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def put(self, row: Row) -> None:
        """The row of this name now; nothing when it is the same as before."""
        name = str(row[0])
        before = self._rows.get(name)
        if before is not None:
            if before[1] == row:
                return
            del self._rows[name]
        self.revision += 1
        self._rows[name] = (self.revision, row)

    def drop(self, name: str) -> None:
        """There is no row of this name any more. Also told of one that came and went unseen."""
        self._rows.pop(name, None)
        self.revision += 1
        self._gone.append((self.revision, name))
        if len(self._gone) > GONE_MAX:
            self._forgotten, _ = self._gone.popleft()

    def since(self, revision: int, begun: int = 0) -> Changes:
        """What changed after ``revision``; 0, one that never was and one too long ago: everything. ``begun`` as in the
        answer that said so."""
        heard = max(revision, begun)
        whole = not (revision >= 1 and self._forgotten <= heard <= self.revision)
        if whole:
            revision, begun = 0, self.revision
        found: list[tuple[int, Row | str]] = []
        for entry in reversed(self._rows.values()):
            if entry[0] <= revision:
                break
            found.append(entry)
        if not whole:
            for gone in reversed(self._gone):
                if gone[0] <= revision:
                    break
                found.append(gone)
        found.sort(key=lambda entry: entry[0])
        return self._first(found, begun, whole)

    def _first(self, found: list[tuple[int, Row | str]], begun: int, whole: bool) -> Changes:
        """As many of ``found`` as go into one answer, at least one."""
        rows: list[Row] = []
        gone: list[str] = []
        room = ANSWER_BYTES_MAX
        for revision, what in found:
            if isinstance(what, str):
                room -= len(what)
            else:
                room -= self._row_bytes(what) + len(str(what[0]))
            if room < 0 and (rows or gone):
                return Changes(revision - 1, begun, rows, gone, whole, more=True)
            if isinstance(what, str):
                gone.append(what)
            else:
                rows.append(what)
        return Changes(self.revision, begun, rows, gone, whole, more=False)
