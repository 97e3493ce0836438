"""Limits of what may pass in a time, and who waits in line for it.

Tokens come evenly, so many in each period, and never more than one period's are kept: so much may pass in one go. What
passes is charged in runs; an entry passes whole while any token is there, and what it took too much is owed (D15).
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from enum import Enum

from engine.base.clock import Clock
from engine.broker.ports import MaxRate

PAUSE_S_MIN = 0.01
"""Those in line are looked at no more often, so that a high rate passes in runs."""
NO_RATE = MaxRate()


class TokenBucket:
    """``amount`` tokens a period. Times are seconds of the monotonic clock."""

    __slots__ = ("_at_s", "_full", "_per_s", "_tokens")

    def __init__(self, amount: float, period_s: float, now_s: float) -> None:
        self._full = self._tokens = amount
        self._per_s = amount / period_s
        self._at_s = now_s

    def change(self, amount: float, period_s: float) -> None:
        """Another rate from now on; what is owed stays owed."""
        self._full = amount
        self._per_s = amount / period_s
        self._tokens = min(self._tokens, amount)

    def left(self, now_s: float) -> float:
        """Tokens at hand; what is owed is below 0."""
        self._tokens = min(self._full, self._tokens + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._tokens

    def take(self, count: float) -> None:
        self._tokens -= count

    def wait_s(self) -> float:
        """After ``left``: how long until a whole token is there."""
        return max(0.0, (min(1.0, self._full) - self._tokens) / self._per_s)


class RateLevel(Enum):
    """Of what a limit is, as Pulsar calls it."""

    SUBSCRIPTION = "Subscription"
    TOPIC = "Topic"
    BROKER = "Broker"


class RateLimit:
    """Messages and bytes a period, each limited or not. ``limited``: whether anything is.

    ``published`` gives what is published per second, messages and bytes, for rates that come on top of that.
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
        """Whose turn it is."""
        self._timer: asyncio.TimerHandle | None = None

    def set(self, rate: MaxRate) -> None:
        """``rate`` holds from now on; whoever waits is looked at anew."""
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
        """What holds."""
        return self._rate

    def room(self) -> tuple[float, float]:
        """Messages and bytes that may pass now; infinite where there is no limit."""
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
        """Whether something may pass now, and nobody waits before ``who``."""
        if not self.limited:
            return True
        if self._line and self._served != who:
            return False
        return min(self.room()) > 0

    def lacks_bytes(self) -> bool:
        """Of one that does not admit: whether it is for bytes, not messages."""
        messages, size = self.room()
        return size < messages

    def charge(self, messages: int, size: int) -> None:
        """So much passes."""
        if self._messages is not None:
            self._messages.take(messages)
        if self._bytes is not None:
            self._bytes.take(size)

    def wait(self, who: Callable[[], None]) -> None:
        """Call ``who`` when it is admitted, once. Safe to repeat."""
        self._line.setdefault(who)
        if self._timer is None and self._served is None:
            self._arm()

    def leave(self, who: Callable[[], None]) -> None:
        """It waits no longer. Safe to repeat."""
        self._line.pop(who, None)
        if not self._line:
            self._stop()

    def _arm(self) -> None:
        self.room()
        waits = [each.wait_s() for each in (self._messages, self._bytes) if each is not None]
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
        """One after the other while there are tokens; who needs more comes to the end of the line."""
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
    """``passed``: messages and bytes since it was made, while it was limited; ``waits``: how often somebody had to."""

    __slots__ = ("passed", "waits")

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.passed = (0, 0)
        self.waits = 0

    def charge(self, messages: int, size: int) -> None:
        super().charge(messages, size)
        before_messages, before_bytes = self.passed
        self.passed = before_messages + messages, before_bytes + size

    def wait(self, who: Callable[[], None]) -> None:
        super().wait(who)
        self.waits += 1


def fitting(
    spans: Sequence[int],
    counts: Sequence[int] | None,
    indexes: Sequence[int],
    room: tuple[float, float],
) -> int:
    """How many of the entries at ``indexes`` may pass, one after the other while anything is left of ``room``.

    ``spans``: where entries begin and end; ``counts``: messages of each, one where there are none.
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
