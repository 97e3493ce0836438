"""Mistakes in waiting for the tokens of a rate."""

from collections import deque

from engine.broker.control.rate_limit import RateLimit
from engine.broker.dispatch.throttle import Throttle
from engine.broker.policies import (
    MaxRate,
)
from engine.broker.topics.publish import Publish
from engine.broker.topics.publish_rate import PublishRate
from tests.sim.plants.planting import Patches


def stopped_dispatch_is_in_no_line() -> Patches:
    """Continue dispatch that a rate stopped with the next append, not when there are tokens."""

    def opens(self: Throttle) -> bool:
        self.stopped = bool(self.limits) and not all(
            limit.admits(self._wake) for limit in self.limits
        )
        return not self.stopped

    return [(Throttle, "opens", opens)]


def line_is_served_once() -> Patches:
    """Leave a waiter that remains in the queue when the tokens are used up until another one joins."""
    real = RateLimit._serve

    def serve(self: RateLimit) -> None:
        real(self)
        self._stop()

    return [(RateLimit, "_serve", serve)]


def what_fits_overtakes_what_waits() -> Patches:
    """Pass a run for which there are tokens before the waiting ones."""
    real = PublishRate.admit

    def admit(self: PublishRate, publish: Publish) -> bool:
        waiting, self._waiting = self._waiting, deque()
        passes = len(waiting) > 0 and publish.run.messages < 3
        passes = passes or real(self, publish)
        self._waiting.extendleft(reversed(waiting))
        return passes

    return [(PublishRate, "admit", admit)]


def removed_rate_serves_nobody() -> Patches:
    """Leave a waiter in the queue of a removed rate for tokens that never arrive."""
    real = RateLimit.set

    def set_rate(self: RateLimit, rate: MaxRate) -> None:
        line, self._line = self._line, {}
        real(self, rate)
        self._line = line
        if not self.limited:
            self._stop()

    return [(RateLimit, "set", set_rate)]


def rest_of_a_run_is_left_out() -> Patches:
    """Forget the other entries of a run of which only some fit."""
    real = PublishRate._pass_waiting

    def pass_waiting(self: PublishRate) -> None:
        real(self)
        if self._waiting and self._waiting[0][1]:
            self._waiting.popleft()

    return [(PublishRate, "_pass_waiting", pass_waiting)]
