"""Which bookies owe a writer answers for too long. Pure; times are given.

Two bounds: silence (nothing acknowledged for a while though adds wait) and age (an add that is not acknowledged for
long, though others are: a bookie that falls ever further behind, or forgot one).
"""

from collections import deque
from collections.abc import Sequence


class AckProgress:
    """By position of the ensemble. ``check`` is called every now and then while adds are under way."""

    __slots__ = (
        "_age_s",
        "_marks",
        "_overdue",
        "_seated",
        "_seen",
        "_silence_s",
        "_since",
    )

    def __init__(self, positions: int, silence_s: float, age_s: float) -> None:
        self._silence_s = silence_s
        self._age_s = age_s
        # When everything below an entry had been sent. A deque is 620 bytes: made when it is used.
        self._marks: deque[tuple[float, int]] | tuple[()] = ()
        self._overdue = 0  # everything below it was sent ``age_s`` ago or earlier
        self._seen = [0] * positions
        self._since = [0.0] * positions
        self._seated = [0.0] * positions

    def started(self, now: float) -> None:
        """The first add after a pause is sent: nobody owed anything before."""
        self._marks = ()
        self._since = [now] * len(self._since)

    def seated(self, position: int, below: int, now: float) -> None:
        """Another bookie sits at ``position``, which has acknowledged everything below ``below``."""
        self._seen[position] = below
        self._since[position] = self._seated[position] = now

    def check(self, below: Sequence[int | None], sent: int, now: float) -> tuple[list[int], bool]:
        """Positions that fail, and whether others still owe answers.

        ``below[p]`` is the entry below which position p acknowledged everything, None without a bookie; ``sent`` is the
        entry below which everything was sent to all.
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
            aged = acknowledged < self._overdue and now - self._seated[position] >= self._age_s
            if aged or now - self._since[position] >= self._silence_s:
                failed.append(position)
            else:
                owing = True
        return failed, owing
