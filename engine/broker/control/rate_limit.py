"""Rate limits by token buckets, and the line of those that wait for tokens.

Tokens arrive evenly, and a bucket holds those of one period at most, which may pass at once. Entries are charged in
runs; an entry passes as a whole while any token is there, and the missing tokens are owed (D15).
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from enum import Enum

from engine.base.clock import Clock
from engine.broker.policies import (
    MaxRate,
)

PAUSE_S_MIN = 0.01
"""Shortest pause before the line is served again, so that a high rate passes in runs."""
NO_RATE = MaxRate()


class TokenBucket:
    """A bucket of ``amount`` tokens a period. Times are seconds of the monotonic clock."""

    __slots__ = ("_at_s", "_full", "_per_s", "_tokens")

    def __init__(self, amount: float, period_s: float, now_s: float) -> None:
        self._full = self._tokens = amount
        self._per_s = amount / period_s
        self._at_s = now_s

    def change(self, amount: float, period_s: float) -> None:
        """Set another rate; owed tokens stay owed."""
        self._full = amount
        self._per_s = amount / period_s
        self._tokens = min(self._tokens, amount)

    def left(self, now_s: float) -> float:
        """Return the tokens in the bucket, below 0 when tokens are owed."""
        self._tokens = min(self._full, self._tokens + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._tokens

    def take(self, count: float) -> None:
        self._tokens -= count

    def wait_s(self) -> float:
        """Return the time until a whole token is there, as of the last ``left``."""
        return max(0.0, (min(1.0, self._full) - self._tokens) / self._per_s)


class RateLevel(Enum):
    """Scope of a limit, by Pulsar's names."""

    SUBSCRIPTION = "Subscription"
    TOPIC = "Topic"
    BROKER = "Broker"


class RateLimit:
    """Limit of messages and bytes a period. ``limited``: whether either is limited.

    ``published`` returns the messages and bytes published per second, to which relative rates are added.
    """

    __slots__ = (
        "_bytes",
        "_clock",
        "_line",
        "_messages",
        "_published",
        "_rate",
        "_served",
        "_timer",
        "level",
        "limited",
    )

    def __init__(
        self,
        clock: Clock,
        published: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0),
        level: RateLevel = RateLevel.BROKER,
    ) -> None:
        self.level = level
        self._clock = clock
        self._published = published
        self._rate = NO_RATE
        self._messages: TokenBucket | None = None
        self._bytes: TokenBucket | None = None
        self.limited = False
        self._line: dict[Callable[[], None], None] = {}
        self._served: Callable[[], None] | None = None
        """The waiting caller that is being served."""
        self._timer: asyncio.TimerHandle | None = None

    def set(self, rate: MaxRate) -> None:
        """Set the rate and serve the line again."""
        if rate == self._rate:
            return
        self._rate = rate
        now_s = self._clock.monotonic_s()
        self._messages = self._changed(self._messages, rate.messages, now_s)
        self._bytes = self._changed(self._bytes, rate.size, now_s)
        self.limited = self._messages is not None or self._bytes is not None
        if self._line:
            self._stop()
            self._serve()

    def _changed(self, bucket: TokenBucket | None, amount: int, now_s: float) -> TokenBucket | None:
        if amount <= 0:
            return None
        if bucket is None:
            return TokenBucket(amount, self._rate.period_s, now_s)
        bucket.left(now_s)
        bucket.change(amount, self._rate.period_s)
        return bucket

    @property
    def rate(self) -> MaxRate:
        """Rate in force."""
        return self._rate

    def room(self) -> tuple[float, float]:
        """Return the messages and bytes that may pass now; infinite where there is no limit."""
        if not self.limited:
            return math.inf, math.inf
        now_s, rate = self._clock.monotonic_s(), self._rate
        if rate.relative:
            messages, size = self._published()
            if self._messages is not None:
                self._messages.change(rate.messages + messages * rate.period_s, rate.period_s)
            if self._bytes is not None:
                self._bytes.change(rate.size + size * rate.period_s, rate.period_s)
        return (
            math.inf if self._messages is None else self._messages.left(now_s),
            math.inf if self._bytes is None else self._bytes.left(now_s),
        )

    def admits(self, who: Callable[[], None]) -> bool:
        """Return whether something may pass now and no other caller waits before ``who``."""
        if not self.limited:
            return True
        if self._line and self._served != who:  # those in line have their turns first (D15)
            return False
        return min(self.room()) > 0

    def lacks_bytes(self) -> bool:
        """Return whether bytes, not messages, are why the limit admits nothing."""
        messages, size = self.room()
        return size < messages

    def charge(self, messages: int, size: int) -> None:
        """Take the tokens for messages and bytes that pass."""
        if self._messages is not None:
            self._messages.take(messages)
        if self._bytes is not None:
            self._bytes.take(size)

    def wait(self, who: Callable[[], None]) -> None:
        """Put ``who`` in line; it is called once, when it is admitted. Safe to repeat."""
        self._line.setdefault(who)
        if self._timer is None and self._served is None:
            self._arm()

    def leave(self, who: Callable[[], None]) -> None:
        """Remove ``who`` from the line. Safe to repeat."""
        self._line.pop(who, None)
        if not self._line:
            self._stop()

    def _arm(self) -> None:
        self.room()
        buckets = (self._messages, self._bytes)
        waits = [bucket.wait_s() for bucket in buckets if bucket is not None]
        pause_s = max(PAUSE_S_MIN, *waits) if waits else 0.0
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._due)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._serve()

    def _serve(self) -> None:
        """Call those in line while there are tokens; one that needs more waits again, at the end of the line."""
        for _ in range(len(self._line)):
            if min(self.room()) <= 0:
                break
            self._served = next(iter(self._line), None)
            if self._served is None:
                break
            del self._line[self._served]
            try:
                self._served()
            finally:
                self._served = None
        if self._line and self._timer is None:
            self._arm()


class CountedLimit(RateLimit):
    """A limit with counters: ``passed``, messages and bytes while it was limited, and ``waits``, calls of ``wait``."""

    __slots__ = ("passed", "waits")

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.passed = (0, 0)
        self.waits = 0

    def charge(self, messages: int, size: int) -> None:
        super().charge(messages, size)
        passed_messages, passed_bytes = self.passed
        self.passed = passed_messages + messages, passed_bytes + size

    def wait(self, who: Callable[[], None]) -> None:
        super().wait(who)
        self.waits += 1


def fitting(
    spans: Sequence[int],
    counts: Sequence[int] | None,
    indexes: Sequence[int],
    room: tuple[float, float],
) -> int:
    """Return how many of the entries at ``indexes`` may pass, in order, while anything remains of ``room``.

    ``spans``: starts and ends of the entries. ``counts``: their numbers of messages; None for one each.
    """
    messages, size = room
    passed = 0
    for i in indexes:
        if messages <= 0 or size <= 0:
            break
        messages -= 1 if counts is None else counts[i]
        size -= spans[2 * i + 1] - spans[2 * i]
        passed += 1
    return passed
