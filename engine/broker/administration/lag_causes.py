"""Causes for which a subscription does not drain: a cause is reported once it has been seen for long enough, and
withdrawn once it has not been seen for some seconds. Pure.

A subscription is observed when it was touched, and at the time in ``next_s``: one that stands still is not observed
every second.
"""

from collections import deque
from itertools import pairwise
from typing import NamedTuple

from engine.admin.lag import LagCause, LagSeverity

HOLD_S = 10.0
"""Time for which a cause must be seen before it is reported."""
LEAVE_S = 5.0
"""Time without it after which a cause is withdrawn; another cause must be seen as long to replace it."""
FEW = 10
"""Number of messages, waiting or unacknowledged at stuck consumers, that counts as few."""
FEW_HOLD_S = 300.0
"""``HOLD_S`` of a backlog of few messages: jobs may take long, and consumers are restarted."""
SILENCE_S = 5.0
"""Least time without an acknowledgement that counts as a standstill."""
SILENCE_TIMES = 3.0
"""Multiple of the longest recent silence that consumers ended by themselves, which is needed for a standstill."""
SILENCE_MAX_S = 300.0
"""Bound of that multiple."""
FADES = 0.9
"""Factor by which the longest silence shrinks when another one ends."""
MARK_S = 5.0
"""Time between the kept sizes of the backlog."""
MARKS = 4
"""Number of kept sizes; the backlog is compared with the oldest."""
COMPARED_S = 10.0
"""Least age of the oldest kept size for a comparison."""
GROWS = 1.0
"""Growth in entries per second from which a backlog counts as growing."""
STAYS = 0.1
"""Growth in entries per second below which a growing backlog does not count as growing any more."""
SLOW_MIN = 100
"""Entries up to which a growing backlog does not count as behind."""
SLOW_S = 5.0
"""Sending time up to which a growing backlog does not count as behind."""
BEHIND_MIN = 1_000
"""Entries up to which a backlog that does not grow does not count as behind."""
BEHIND_S = 30.0
"""Sending time up to which a backlog that does not grow does not count as behind."""
DRAINS_S = 3_600.0
"""Time within which a backlog drains that does not count as behind."""
JOINED_MIN = 3
"""Number of connected consumers without any acknowledgement from which they count as reconnecting."""
GIVEN_BACK_S = 120.0
"""Time after the last negative acknowledgement for which messages count as redelivered; twice the time that clients
wait by default before they send one."""
PAUSED_S = 3.0
"""Time after a pause for a key's consumer, or for a rate, for which it counts as lasting."""

RETURNS_S = 60.0
"""Time within which a cause that is reported again continues the earlier problem, and has its beginning."""

_LAGGING = frozenset((LagCause.SLOW, LagCause.RATE_LIMIT, LagCause.HOT_KEY, LagCause.REDELIVERY))
"""Causes of a subscription that falls behind, reported until it does not fall behind any more."""
_STANDING = frozenset(
    (
        LagCause.NO_CONSUMER,
        LagCause.RECONNECTING,
        LagCause.HELD,
        LagCause.STANDBY,
        LagCause.NO_PERMITS,
        LagCause.UNACKED_LIMIT,
        LagCause.REDELIVERY,
        LagCause.NOT_ACKNOWLEDGED,
        LagCause.HOT_KEY,
    )
)
"""Causes that are errors while the backlog grows."""


class Sighting(NamedTuple):
    """The state of a subscription at a moment of the monotonic clock.

    ``backlog``: unacknowledged entries, of which ``delayed`` wait for their delivery time, and ``again`` for
    redelivery; ``messages``: the known number of messages in them; ``rate_out``: entries sent per second; ``out``:
    whether some are delivered and unacknowledged. ``paused``: see ``DispatchState``; ``limited``: the limit of
    unacknowledged messages is reached, or acknowledgements cannot be stored. ``acked`` changes with every
    acknowledgement, ``flowed`` with every permit. ``given_back``, ``joined`` and ``refused`` are counters.
    ``standby``: consumers beside the active one. ``stuck``: unacknowledged messages of consumers that have not
    acknowledged for long, while others may.
    """

    at_s: float
    backlog: int
    delayed: int = 0
    again: int = 0
    out: bool = False
    consumers: int = 0
    paused: str | None = None
    limited: bool = False
    acked: tuple[int, int] = (0, 0)
    flowed: int = 0
    given_back: int = 0
    joined: int = 0
    refused: int = 0
    standby: int = 0
    stuck: int = 0
    rate_out: float = 0.0
    unread: bool = False
    messages: int = 0

    @property
    def due(self) -> int:
        """Entries that do not wait for their delivery time."""
        return self.backlog - self.delayed


class Watch:
    """The course of one subscription.

    ``cause`` is reported since ``since_s``; None: no cause. ``growth`` of the backlog is in entries per second.
    ``next_s``: the time of the next observation of an untouched subscription, None: none is needed.
    """

    __slots__ = (
        "_acked_s",
        "_arrived_s",
        "_at_last",
        "_ended",
        "_flowed_s",
        "_given_back_s",
        "_growing",
        "_keyed_s",
        "_last",
        "_left_s",
        "_longest_s",
        "_marks",
        "_rated_s",
        "_seen_now",
        "_seen_since_s",
        "cause",
        "growth",
        "next_s",
        "since_s",
    )

    def __init__(self, seen: Sighting) -> None:
        at_s = seen.at_s
        self.cause: LagCause | None = None
        self.since_s = at_s
        self.growth = 0.0
        self.next_s: float | None = None
        self._last = seen
        self._at_last = seen
        """State when an entry was last acknowledged, or none was due."""
        self._acked_s = self._arrived_s = self._flowed_s = at_s
        self._given_back_s = self._keyed_s = self._rated_s = -1e9
        self._longest_s = 0.0
        self._marks = deque([(at_s, seen.backlog)], MARKS)
        self._growing = False
        self._seen_now: LagCause | None = None
        """Cause that is seen, whether or not it is reported; None: no cause."""
        self._seen_since_s = at_s
        self._left_s = at_s
        self._ended: tuple[LagCause, float, float] | None = None
        """The last withdrawn cause, with its beginning and end."""
        self.look(seen)

    @property
    def severity(self) -> LagSeverity:
        """Severity of the reported cause."""
        if self.cause is LagCause.DELAYED:
            return LagSeverity.INFO
        grows = self._growing and self.cause in _STANDING
        return LagSeverity.ERROR if grows or self.cause is LagCause.STORAGE else LagSeverity.WARNING

    @property
    def joined(self) -> int:
        """Number of consumers that connected since an entry was last acknowledged."""
        return self._last.joined - self._at_last.joined

    @property
    def refused(self) -> int:
        """Number of consumers that were refused since then."""
        return self._last.refused - self._at_last.refused

    @property
    def forgettable(self) -> bool:
        """True when a new watch, created at the next backlog, would find the same causes."""
        last = self._last
        return self.cause is None and not last.backlog and self._longest_s < SILENCE_S

    def look(self, seen: Sighting) -> None:
        """Update the watch by an observation."""
        self._follow(seen)
        self._report(seen, self._seen_cause(seen))
        self._last = seen
        self.next_s = self._next_s(seen)

    # --- changes since the last observation -----------------------------------------------------

    def _follow(self, seen: Sighting) -> None:
        last, at_s = self._last, seen.at_s
        if seen.consumers and not last.consumers:
            self._arrived_s = at_s
        if seen.acked != last.acked or seen.due <= 0 or last.due <= 0:
            if last.out and last.due > 0 and self._arrived_s <= self._acked_s:
                silent_s = min(at_s - self._acked_s, SILENCE_MAX_S / SILENCE_TIMES)
                self._longest_s = max(silent_s, self._longest_s * FADES)
            self._acked_s = at_s
            self._at_last = seen
        if seen.flowed != last.flowed:
            self._flowed_s = at_s
        if seen.given_back != last.given_back:
            self._given_back_s = at_s
        if seen.paused == "key":
            self._keyed_s = at_s
        if seen.paused == "rate":
            self._rated_s = at_s
        since_s, before = self._marks[0]
        span_s = at_s - since_s
        self.growth = (seen.backlog - before) / span_s if span_s >= COMPARED_S else 0.0
        if at_s - self._marks[-1][0] >= MARK_S:
            self._marks.append((at_s, seen.backlog))
        self._growing = self.growth >= (STAYS if self._growing else GROWS)

    # --- the cause that is seen -----------------------------------------------------------------

    @property
    def _silence_s(self) -> float:
        """Time without an acknowledgement from which the subscription stands still."""
        return min(max(SILENCE_S, SILENCE_TIMES * self._longest_s), SILENCE_MAX_S)

    def _standing_from(self) -> float:
        return max(self._acked_s, self._arrived_s) + self._silence_s

    def _seen_cause(self, seen: Sighting) -> LagCause | None:
        if seen.unread:
            return LagCause.STORAGE
        if not seen.backlog:
            return None
        if seen.joined - self._at_last.joined >= JOINED_MIN and seen.due > 0:
            return LagCause.RECONNECTING
        if not seen.consumers:
            return LagCause.NO_CONSUMER
        if seen.due <= 0:
            return LagCause.DELAYED
        if seen.paused == "retry":
            return LagCause.STORAGE
        if seen.at_s >= self._standing_from():
            return self._standing(seen)
        keyed = seen.at_s - self._keyed_s <= PAUSED_S
        if self._is_slow(seen):
            if seen.again * 2 > seen.due:
                return LagCause.REDELIVERY
            if keyed:
                return LagCause.HOT_KEY
            rated = seen.at_s - self._rated_s <= PAUSED_S
            return LagCause.RATE_LIMIT if rated else LagCause.SLOW
        return LagCause.NOT_ACKNOWLEDGED if seen.stuck > FEW else None

    def _standing(self, seen: Sighting) -> LagCause | None:
        """Return the cause for which connected consumers acknowledge nothing; None when none is found."""
        back_s = self._given_back_s
        if back_s >= self._acked_s and seen.at_s - back_s <= GIVEN_BACK_S:
            return LagCause.REDELIVERY
        if seen.refused > self._at_last.refused:
            return LagCause.HELD
        if seen.limited:
            return LagCause.UNACKED_LIMIT
        if seen.at_s - self._keyed_s <= PAUSED_S:
            return LagCause.HOT_KEY
        if seen.paused in ("permits", "socket") and seen.at_s - self._flowed_s >= SILENCE_S:
            return LagCause.STANDBY if seen.standby else LagCause.NO_PERMITS
        return LagCause.NOT_ACKNOWLEDGED if seen.out else None

    def _is_slow(self, seen: Sighting) -> bool:
        """Return whether the subscription falls behind, or is far behind and does not drain in time."""
        marks = [backlog for at_s, backlog in self._marks if at_s < seen.at_s] + [seen.backlog]
        if seen.at_s - self._marks[0][0] < COMPARED_S:
            return False
        is_reported = self.cause in _LAGGING
        rises = self.growth >= (STAYS if is_reported else GROWS)
        # A single burst is no cause: the backlog must rise at every mark, unless a cause is reported already.
        steadily = is_reported or all(before < after for before, after in pairwise(marks))
        if rises and steadily and seen.due > max(SLOW_MIN, SLOW_S * seen.rate_out):
            return True
        if seen.due <= max(BEHIND_MIN, BEHIND_S * seen.rate_out):
            return False
        falls = max(max(marks[-3:]) - seen.backlog, 0) / (2 * MARK_S)
        falls = max(falls, -self.growth)
        return falls * (DRAINS_S / 2 if is_reported else DRAINS_S) < seen.backlog

    # --- the cause that is reported -------------------------------------------------------------

    def _hold_s(self, seen: Sighting, cause: LagCause) -> float:
        few = max(seen.backlog, seen.messages) <= FEW and cause is not LagCause.STORAGE
        return FEW_HOLD_S if few else HOLD_S

    def _report(self, seen: Sighting, cause: LagCause | None) -> None:
        at_s = seen.at_s
        if cause is not self._seen_now:
            if self._seen_now is None or cause is None:
                self._left_s = at_s
                """Time since which any cause, or none, is seen."""
            self._seen_now, self._seen_since_s = cause, at_s
        if cause is self.cause:
            return
        if self.cause is not None:
            if at_s - self._seen_since_s >= LEAVE_S:
                self._ended = self.cause, self.since_s, at_s
                self.cause = cause
        elif cause is not None and at_s - self._left_s >= self._hold_s(seen, cause):
            self.cause = cause
            # A standstill began with the last acknowledgement, before its cause could be seen.
            stood = cause not in (LagCause.SLOW, LagCause.RATE_LIMIT, LagCause.NO_CONSUMER)
            self.since_s = min(self._left_s, self._acked_s) if stood else self._left_s
            if self._ended is not None:
                ended, since_s, until_s = self._ended
                if ended is cause and self._left_s - until_s <= RETURNS_S:
                    self.since_s = since_s

    def _next_s(self, seen: Sighting) -> float | None:
        at_s, times = seen.at_s, []
        if self._seen_now is not self.cause:
            if self.cause is not None:
                times.append(self._seen_since_s + LEAVE_S)
            elif self._seen_now is not None:
                times.append(self._left_s + self._hold_s(seen, self._seen_now))
        if seen.consumers and seen.due > 0 and at_s < self._standing_from():
            times.append(self._standing_from())
        if self.growth or self._growing:
            times.append(at_s + SILENCE_S)
        # The broker counts once a second: an earlier time would not be observed.
        return min((max(time_s, at_s + 1.0) for time_s in times), default=None)
