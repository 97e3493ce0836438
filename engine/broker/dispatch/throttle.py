"""Dispatch rates: how much of a subscription may be sent now under all its limits (D15)."""

from collections import Counter
from collections.abc import Callable, Iterable

from engine.base.slices import View
from engine.broker.control.rate_limit import RateLevel, RateLimit, fitting


class Throttle:
    """Dispatch rates of one subscription. ``limits``: those of the subscription, topic and broker that are set.

    ``wake`` is called when a limit that stopped dispatch admits it again. ``by_entry``: a batch counts as one message.
    ``holds``: whether the limits apply to the subscription now.
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
        """True when dispatch waits for a limit."""
        self.stops: Counter[tuple[RateLevel, bool]] = Counter()
        """Number of stops by a limit's level and whether bytes, not messages, were exceeded."""

    def set(self, limits: Iterable[RateLimit]) -> None:
        """Replace the limits by those of ``limits`` that are set."""
        previous, self.limits = self.limits, tuple(limit for limit in limits if limit.limited)
        for limit in previous:
            if limit not in self.limits:
                limit.leave(self._wake)
        stopped, self.stopped = self.stopped, False
        if stopped:
            self._wake()

    def opens(self) -> bool:
        """Return whether anything may be sent now; otherwise ``wake`` is called when it may."""
        was_stopped, self.stopped = self.stopped, False
        if self.limits and self._holds():
            for limit in self.limits:
                if not limit.admits(self._wake):
                    limit.wait(self._wake)
                    if not was_stopped:
                        self.stops[limit.level, limit.lacks_bytes()] += 1
                    self.stopped = True
                    return False
        return True

    def fitting(self, view: View) -> int:
        """Return how many of the first entries of ``view`` may be sent while the throttle is open: at least one."""
        count = view.count
        if self._holds():
            counts = None if self.by_entry else view.run.counts
            for limit in self.limits:
                count = fitting(view.run.spans, counts, view.indexes[:count], limit.room())
        return max(count, 1)

    def sent(self, view: View) -> None:
        """Charge the limits for ``view``, which is being sent."""
        if self.limits and self._holds():
            messages, size = view.count if self.by_entry else view.messages, view.size
            for limit in self.limits:
                limit.charge(messages, size)

    def close(self) -> None:
        """Stop waiting for limits."""
        for limit in self.limits:
            limit.leave(self._wake)
        self.stopped = False
