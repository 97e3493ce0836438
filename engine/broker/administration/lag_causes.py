"""Why a subscription does not drain: a cause that is seen for long enough is said, one that is gone for some seconds is
not said any more. Pure.

A subscription is looked at when something happened to it, and at the time that ``next_s`` names: what stands still
needs no look each second.
"""

from collections import deque
from itertools import pairwise
from typing import NamedTuple

from engine.admin.lag import LagCause, LagSeverity

HOLD_S = 10.0
"""A cause is said after it was seen for so long."""
LEAVE_S = 5.0
"""And no more when it was not seen for so long; another one in its place has to be seen as long."""
FEW = 10
"""So many messages may wait, or be out, without ..."""
FEW_HOLD_S = 300.0
"""... being a lag before this time: jobs that take long, consumers that are restarted."""
SILENCE_S = 5.0
"""Nothing acknowledged for so long is a standstill, or ..."""
SILENCE_TIMES = 3.0
"""... for so many times the longest silence that consumers lately broke by themselves ..."""
SILENCE_MAX_S = 300.0
"""... up to this: they may acknowledge rarely."""
FADES = 0.9
"""What is left of the longest silence when the next one ends."""
MARK_S = 5.0
"""What the backlog was is kept for each so many seconds, ..."""
MARKS = 4
"""... so many of them: it is compared with the oldest, ..."""
COMPARED_S = 10.0
"""... which has to be this old."""
GROWS = 1.0
"""Entries per second by which a backlog has to grow to be growing ..."""
STAYS = 0.1
"""... and fewer to be growing no more."""
SLOW_MIN = 100
"""Fewer entries are not yet behind."""
SLOW_S = 5.0
"""Nor is what is sent within this time."""
BEHIND_MIN = 1_000
"""More entries than this, ..."""
BEHIND_S = 30.0
"""... and more than are sent within this time, ..."""
DRAINS_S = 3_600.0
"""... that would not be gone within this time are behind, though the backlog does not grow."""
JOINED_MIN = 3
"""Consumers that came so often without acknowledging anything come and go."""
GIVEN_BACK_S = 120.0
"""Clients wait for up to half of this, unless told otherwise, before they give back what they refused."""
PAUSED_S = 3.0
"""What waited for the consumer of its key, or for a rate, within this time still does."""

RETURNS_S = 60.0
"""A cause that is said again within this time is the same problem as before, and began when that did."""

_LAGGING = frozenset((LagCause.SLOW, LagCause.RATE_LIMIT, LagCause.HOT_KEY, LagCause.REDELIVERY))
"""What is said of a subscription that falls behind: it is said until that falls behind no more."""
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
    """What is seen of a subscription at a moment of the monotonic clock.

    ``backlog``: entries not acknowledged, of which ``delayed`` wait for their time, and ``again`` were given back;
    ``messages``: in the backlog, as far as is known; ``rate_out``: entries per second that are sent.
    ``out``: whether some of them are out. ``paused``: see ``DispatchState``; ``limited``: the limit of unacknowledged
    messages is reached, or what was acknowledged cannot be kept. ``acked`` changes with every acknowledgement,
    ``flowed`` whenever a consumer asks for more. ``given_back``, ``joined`` and ``refused`` are counters. ``standby``:
    consumers beside the active one. ``stuck``: messages out at a consumer that acknowledges nothing for long, while
    others may.
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
        """Entries that could be acknowledged by now."""
        return self.backlog - self.delayed


class Watch:
    """One subscription, followed. ``cause``: what is said; None: nothing. ``since_s``: since when it is so.
    ``growth``: of the backlog, entries per second. ``next_s``: when to look again though nothing happens."""

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
        "_other",
        "_other_s",
        "_rated_s",
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
        """When something was last acknowledged, or nothing was to be."""
        self._acked_s = self._arrived_s = self._flowed_s = at_s
        self._given_back_s = self._keyed_s = self._rated_s = -1e9
        self._longest_s = 0.0
        self._marks = deque([(at_s, seen.backlog)], MARKS)
        self._growing = False
        self._other: LagCause | None = None
        """What is seen and not said yet; None: that nothing is."""
        self._other_s = at_s
        self._left_s = at_s
        self._ended: tuple[LagCause, float, float] | None = None
        """What was said last and is not any more: since when, and until when, it was so."""
        self.look(seen)

    @property
    def severity(self) -> LagSeverity:
        """Of what is said."""
        if self.cause is LagCause.DELAYED:
            return LagSeverity.INFO
        grows = self._growing and self.cause in _STANDING
        return LagSeverity.ERROR if grows or self.cause is LagCause.STORAGE else LagSeverity.WARNING

    @property
    def joined(self) -> int:
        """How often a consumer came since something was acknowledged."""
        return self._last.joined - self._at_last.joined

    @property
    def refused(self) -> int:
        """How often one was refused since then."""
        return self._last.refused - self._at_last.refused

    @property
    def forgettable(self) -> bool:
        """Whether a watch made anew, when something waits again, would find the same."""
        last = self._last
        return self.cause is None and not last.backlog and self._longest_s < SILENCE_S

    def look(self, seen: Sighting) -> None:
        """Take in what is seen now."""
        self._follow(seen)
        self._say(seen, self._seen_cause(seen))
        self._last = seen
        self.next_s = self._next_s(seen)

    # --- what happened since --------------------------------------------------------------------

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

    # --- what is seen ---------------------------------------------------------------------------

    @property
    def _silence_s(self) -> float:
        """How long nothing has to be acknowledged to be a standstill."""
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
        """Nothing is acknowledged, though there are consumers."""
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
        """Whether it falls behind, or is far behind and does not come nearer."""
        marks = [backlog for at_s, backlog in self._marks if at_s < seen.at_s] + [seen.backlog]
        if seen.at_s - self._marks[0][0] < COMPARED_S:
            return False
        said = self.cause in _LAGGING
        rises = self.growth >= (STAYS if said else GROWS)
        steadily = said or all(before < after for before, after in pairwise(marks))
        if rises and steadily and seen.due > max(SLOW_MIN, SLOW_S * seen.rate_out):
            return True
        if seen.due <= max(BEHIND_MIN, BEHIND_S * seen.rate_out):
            return False
        falls = max(max(marks[-3:]) - seen.backlog, 0) / (2 * MARK_S)
        falls = max(falls, -self.growth)
        return falls * (DRAINS_S / 2 if said else DRAINS_S) < seen.backlog

    # --- what is said ---------------------------------------------------------------------------

    def _hold_s(self, seen: Sighting, cause: LagCause) -> float:
        few = max(seen.backlog, seen.messages) <= FEW and cause is not LagCause.STORAGE
        return FEW_HOLD_S if few else HOLD_S

    def _say(self, seen: Sighting, cause: LagCause | None) -> None:
        at_s = seen.at_s
        if cause is not self._other:
            if self._other is None or cause is None:
                self._left_s = at_s
                """Since when anything, or nothing, is seen."""
            self._other, self._other_s = cause, at_s
        if cause is self.cause:
            return
        if self.cause is not None:
            if at_s - self._other_s >= LEAVE_S:
                self._ended = self.cause, self.since_s, at_s
                self.cause = cause
        elif cause is not None and at_s - self._left_s >= self._hold_s(seen, cause):
            self.cause = cause
            stood = cause not in (LagCause.SLOW, LagCause.RATE_LIMIT, LagCause.NO_CONSUMER)
            self.since_s = min(self._left_s, self._acked_s) if stood else self._left_s
            if self._ended is not None:
                ended, since_s, until_s = self._ended
                if ended is cause and self._left_s - until_s <= RETURNS_S:
                    self.since_s = since_s

    def _next_s(self, seen: Sighting) -> float | None:
        at_s, found = seen.at_s, []
        if self._other is not self.cause:
            if self.cause is not None:
                found.append(self._other_s + LEAVE_S)
            elif self._other is not None:
                found.append(self._left_s + self._hold_s(seen, self._other))
        if seen.consumers and seen.due > 0 and at_s < self._standing_from():
            found.append(self._standing_from())
        if self.growth or self._growing:
            found.append(at_s + SILENCE_S)
        later = [max(one, at_s + 1.0) for one in found]
        return min(later, default=None)
