"""The timer that wakes dispatch when the next entry set aside is due."""

import asyncio
from collections.abc import Callable

from engine.base.clock import Clock
from engine.broker.dispatch.delays.delayed import DelayIndex
from engine.broker.policies import DispatchPolicies

ALARM_MAX_S = 60.0
"""Longest wait for a delivery time before the clock is read again."""
NEVER_MS = 1 << 62
"""Epoch milliseconds, later than the delivery time of any message."""


class DeliveryAlarm:
    """The times at which entries of one subscription that were set aside may be sent (D5)."""

    __slots__ = (
        "_at_ms", "_clock", "_delayed", "_strict", "_tick_ms", "_timer", "_wake", "due_ms", "early_ms",
    )  # fmt: skip

    def __init__(
        self, delayed: DelayIndex, clock: Clock, wake: Callable[[], None], *, strict: bool
    ) -> None:
        """``strict``: nothing is sent before its delivery time, not even within a tick."""
        self._delayed = delayed
        self._clock = clock
        self._wake = wake
        self._strict = strict
        self._tick_ms = 0
        self.early_ms = 0
        """Time before its delivery time from which a message may be sent."""
        self.due_ms = 0
        """Entries due by this time may leave the index. Advances tick by tick."""
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms: int | None = None

    def apply(self, policies: DispatchPolicies) -> None:
        self._tick_ms = policies.delay_tick_ms
        if not policies.delays:  # messages are sent at once, also those set aside already
            self.early_ms = NEVER_MS
            self.due_ms = NEVER_MS
        else:
            self.early_ms = 0 if self._strict else policies.delay_tick_ms

    def limit(self, now_ms: int) -> None:
        """Let nothing leave the index before its time after the wall clock was set back (D5)."""
        latest_ms = now_ms + self.early_ms
        if latest_ms < self.due_ms:
            self.due_ms = latest_ms

    def set(self, now_ms: int) -> None:
        """Schedule a wake-up when the first entry set aside is due, at most once a tick.

        It is at most ALARM_MAX_S away, since the wall clock may be set meanwhile.
        """
        at_ms = self._delayed.next_ms
        if at_ms is not None and at_ms <= self.due_ms:
            at_ms = None  # already due: sent as soon as a consumer has room
        if at_ms == self._at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._at_ms = at_ms
        if at_ms is not None:
            due_ms = max(at_ms - self.early_ms, self.due_ms - self.early_ms + self._tick_ms)
            wait_s = min(max((due_ms - now_ms) / 1000, 0.001), ALARM_MAX_S)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._expired)

    def _expired(self) -> None:
        self._timer = self._at_ms = None
        self.due_ms = self._clock.wall_ms() + self.early_ms
        self._wake()
        self.set(self._clock.wall_ms())

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._at_ms = None
