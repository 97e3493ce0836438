"""Lower bounds of the time at which entries arrived in a log, by its brokers' clock and not by their publishers' (D11).
Pure."""

from bisect import bisect_right

from engine.managed.positions import LedgerLine

NOTES_MAX = 32
"""Notes kept; the oldest are dropped first."""


class Arrivals:
    """Notes of where the log ended at which time, the newest NOTES_MAX, and the times at which its ledgers were closed.
    The latter survive a change of the owner."""

    __slots__ = ("_ends", "_line", "_times")

    def __init__(self, line: LedgerLine) -> None:
        self._line = line
        self._times: list[int] = []
        self._ends: list[int] = []

    def note(self, now_ms: int, every_ms: int) -> None:
        """Record where the log ends, at most once in ``every_ms`` and only when it has grown."""
        end = self._line.durable_to
        if self._ends and (end == self._ends[-1] or 0 <= now_ms - self._times[-1] < every_ms):
            return
        self._times.append(now_ms)
        self._ends.append(end)
        if len(self._ends) > NOTES_MAX:
            del self._times[0], self._ends[0]

    def since_ms(self, ordinal: int) -> int:
        """Return the latest known time, in epoch milliseconds, before which the entry at ``ordinal`` was not in the
        log; 0 when none is known."""
        line = self._line
        times = self._times[: bisect_right(self._ends, ordinal)]
        _, base = line.find(ordinal)
        if base > line.base:
            before, _ = line.find(base - 1)
            times.append(before.timestamp_ms)
        return max(times, default=0)
