"""Dispatch rates: how much of a subscription may go out now, by all the limits that it is under (D15)."""

from collections import Counter
from collections.abc import Callable, Iterable

from engine.base.slices import View
from engine.broker.control.rate_limit import RateLevel, RateLimit, fitting


class Throttle:
    """Of one subscription. ``limits``: those that are set. ``wake`` is called when one that stopped it lets it go on.

    ``by_entry``: a batch counts as one message. ``holds``: whether the limits hold for the subscription now.
    """

    __slots__ = ("_holds", "_wake", "by_entry", "limits", "stopped", "stops")

    def __init__(
        self, wake: Callable[[], None], *, by_entry: bool, holds: Callable[[], bool]
    ) -> None:
        self._wake = wake
        self.by_entry = by_entry
        self._holds = holds
        self.limits: tuple[RateLimit, ...] = ()
        self.stopped = False
        """Whether it waits for a limit."""
        self.stops: Counter[tuple[RateLevel, bool]] = Counter()
        """How often a limit stopped it, by whose it is and whether for bytes."""

    def set(self, limits: Iterable[RateLimit]) -> None:
        """It is under these from now on, where they are set."""
        before, self.limits = self.limits, tuple(limit for limit in limits if limit.limited)
        for limit in before:
            if limit not in self.limits:
                limit.leave(self._wake)
        stopped, self.stopped = self.stopped, False
        if stopped:
            self._wake()

    def opens(self) -> bool:
        """Whether anything may go out now; else ``wake`` comes."""
        before, self.stopped = self.stopped, False
        if self.limits and self._holds():
            for limit in self.limits:
                if not limit.admits(self._wake):
                    limit.wait(self._wake)
                    if not before:
                        self.stops[limit.level, limit.lacks_bytes()] += 1
                    self.stopped = True
                    return False
        return True

    def fitting(self, view: View) -> int:
        """How many of the first entries of ``view`` may go out after it opened: one at least."""
        count = view.count
        if self._holds():
            counts = None if self.by_entry else view.run.counts
            for limit in self.limits:
                count = fitting(view.run.spans, counts, view.indexes[:count], limit.room())
        return max(count, 1)

    def sent(self, view: View) -> None:
        """``view`` goes out."""
        if self._holds():
            messages, size = view.count if self.by_entry else view.messages, view.size
            for limit in self.limits:
                limit.charge(messages, size)

    def close(self) -> None:
        """It waits for nothing any more."""
        for limit in self.limits:
            limit.leave(self._wake)
        self.stopped = False
