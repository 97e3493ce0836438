"""Detection of bookies that owe a writer answers for too long. Pure; the caller passes the time.

Two bounds apply. Silence: nothing was acknowledged for ``silence_s`` while adds are pending. Age: one add is not
acknowledged for ``age_s`` although others are, because the bookie falls ever further behind or lost the add.
"""

from collections import deque
from collections.abc import Sequence


class AckProgress:
    """Acknowledgement progress by position of the ensemble. Call ``check`` periodically while adds are pending."""

    __slots__ = (
        "_age_s",
        "_marks",
        "_overdue",
        "_replaced",
        "_seen",
        "_silence_s",
        "_since",
    )

    def __init__(self, positions: int, silence_s: float, age_s: float) -> None:
        self._silence_s = silence_s
        self._age_s = age_s
        # Pairs of a time and the entry below which all were sent by then. A deque takes 620 bytes, so it is created at
        # the first use.
        self._marks: deque[tuple[float, int]] | tuple[()] = ()
        self._overdue = 0  # everything below this entry was sent at least ``age_s`` ago
        self._seen = [0] * positions
        self._since = [0.0] * positions
        self._replaced = [0.0] * positions

    def started(self, now: float) -> None:
        """Reset the times: the first add after a pause was sent, and no bookie owed an answer before."""
        self._marks = ()
        self._since = [now] * len(self._since)

    def replaced(self, position: int, below: int, now: float) -> None:
        """Record that another bookie is at ``position`` and has acknowledged everything below ``below``."""
        self._seen[position] = below
        self._since[position] = self._replaced[position] = now

    def check(self, below: Sequence[int | None], sent: int, now: float) -> tuple[list[int], bool]:
        """Return the positions that fail, and whether others still owe answers.

        ``below[p]`` is the entry below which position p acknowledged everything, None without a bookie. ``sent`` is the
        entry below which everything was sent to all positions.
        """
        marks = self._marks = self._marks or deque()
        marks.append((now, sent))
        while now - marks[0][0] >= self._age_s:
            self._overdue = marks.popleft()[1]
            if not marks:
                break
        failed: list[int] = []
        owing = False
        for position, acknowledged in enumerate(below):
            if acknowledged is None or acknowledged >= sent:
                self._since[position] = now
                self._seen[position] = acknowledged or 0
                continue
            if acknowledged != self._seen[position]:
                self._seen[position] = acknowledged
                self._since[position] = now
            aged = acknowledged < self._overdue and now - self._replaced[position] >= self._age_s
            if aged or now - self._since[position] >= self._silence_s:
                failed.append(position)
            else:
                owing = True
        return failed, owing
