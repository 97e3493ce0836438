"""Messages with a delivery time: Shared subscriptions set them aside until it has come (D5). Pure."""

from bisect import bisect_left, insort
from dataclasses import dataclass

from engine.base.ids import LATEST, Position

SET_ASIDE_MAX = 100_000
"""Entries of one subscription that are set aside with their times; beyond, those of the latest times are left out."""


@dataclass(slots=True)
class _LeftOut:
    """Entries that found no room: between which positions they lie, how many they are, the first of their times."""

    low: Position
    high: Position
    first_ms: int
    entries: int = 0


class DelayQueue:
    """Positions set aside, by the time they are due. Not stored: reading them again sets them aside again.

    At most SET_ASIDE_MAX are known one by one, those due first. Of the others is known between which positions they
    lie: when half the room is free, what lies there is read again (``look_back``), and what the caller does not find
    elsewhere is added again. So they are read again once per SET_ASIDE_MAX / 2 entries that left, whatever their
    number, and always before they are due, since all that are known one by one are due before them.
    """

    __slots__ = ("_back", "_due", "_out", "_times")

    def __init__(self) -> None:
        self._due: list[tuple[int, Position]] = []
        self._times: dict[Position, int] = {}
        self._out: _LeftOut | None = None
        self._back: _LeftOut | None = None
        """What a look back under way has not come to yet."""

    def __len__(self) -> int:
        """Entries that wait for their time. Some that were left out may be acknowledged already."""
        return len(self._due) + sum(one.entries for one in (self._out, self._back) if one)

    def __contains__(self, position: Position) -> bool:
        """Whether it is known by itself: not so when it was left out."""
        return position in self._times

    @property
    def next_ms(self) -> int | None:
        """When the first is due."""
        return self._due[0][0] if self._due else None

    def add(self, position: Position, at_ms: int) -> None:
        """Set one aside that is nowhere else, or leave out the last one due."""
        assert position not in self._times, "an entry was set aside twice"
        if self._out is None or at_ms < self._out.first_ms:
            insort(self._due, (at_ms, position))
            self._times[position] = at_ms
            if len(self._due) <= SET_ASIDE_MAX:
                return
            at_ms, position = self._due.pop()
            del self._times[position]
        back, out = self._back, self._out
        if back is not None and back.low <= position <= back.high:
            back.entries += 1
        elif out is None:
            self._out = _LeftOut(position, position, at_ms, 1)
        else:
            out.low, out.high = min(out.low, position), max(out.high, position)
            out.first_ms = min(out.first_ms, at_ms)
            out.entries += 1

    def take(self, now_ms: int) -> list[Position]:
        """Remove and return those that are due."""
        count = bisect_left(self._due, (now_ms, LATEST))
        due = [position for _, position in self._due[:count]]
        del self._due[:count]
        for position in due:
            del self._times[position]
        return due

    def discard(self, position: Position) -> bool:
        """It was acknowledged; whether it was known by itself."""
        at_ms = self._times.pop(position, None)
        if at_ms is None:
            return False
        del self._due[bisect_left(self._due, (at_ms, position))]
        return True

    def discard_up_to(self, position: Position) -> None:
        """All up to and including ``position`` are acknowledged."""
        self._due = [one for one in self._due if one[1] > position]
        self._times = {where: at_ms for at_ms, where in self._due}
        self._out = _behind(self._out, position)
        self._back = _behind(self._back, position)

    def look_back(self) -> tuple[Position, Position] | None:
        """First and last position to be read again for what was left out; None while there is no reason to."""
        if self._back is None and len(self._due) <= SET_ASIDE_MAX // 2:
            self._back, self._out = self._out, None
        return None if self._back is None else (self._back.low, self._back.high)

    def looked(self, last: Position, entries: int) -> None:
        """``look_back`` has come up to and including ``last``; ``entries`` of those before it are being read."""
        if self._back is not None:
            self._back.entries = max(self._back.entries - entries, 0)
            self._back = _behind(self._back, last)

    def clear(self) -> None:
        self._due.clear()
        self._times.clear()
        self._out = self._back = None


def _behind(out: _LeftOut | None, position: Position) -> _LeftOut | None:
    """What of ``out`` lies behind ``position``."""
    if out is None or out.high <= position:
        return None
    out.low = max(out.low, Position(position.ledger_id, position.entry_id + 1))
    return out
