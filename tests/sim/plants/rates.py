"""Mistakes in what waits for a rate."""

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
    """Dispatch that a rate stops goes on with the next append, not when there are tokens."""

    def opens(self: Throttle) -> bool:
        self.stopped = bool(self.limits) and not all(
            limit.admits(self._wake) for limit in self.limits
        )
        return not self.stopped

    return [(Throttle, "opens", opens)]


def line_is_served_once() -> Patches:
    """Whoever is left in line when the tokens are gone waits for another who comes to wait."""
    serve = RateLimit._serve

    def serves(self: RateLimit) -> None:
        serve(self)
        self._stop()

    return [(RateLimit, "_serve", serves)]


def what_fits_overtakes_what_waits() -> Patches:
    """A run that there are tokens for passes before those that wait."""
    admit = PublishRate.admit

    def admits(self: PublishRate, publish: Publish) -> bool:
        waiting, self._waiting = self._waiting, deque()
        passes = len(waiting) > 0 and publish.run.messages < 3
        passes = passes or admit(self, publish)
        self._waiting.extendleft(reversed(waiting))
        return passes

    return [(PublishRate, "admit", admits)]


def removed_rate_serves_nobody() -> Patches:
    """Who is in line when a rate goes waits for tokens that do not come."""
    set_rate = RateLimit.set

    def sets(self: RateLimit, rate: MaxRate) -> None:
        line, self._line = self._line, {}
        set_rate(self, rate)
        self._line = line
        if not self.limited:
            self._stop()

    return [(RateLimit, "set", sets)]


def rest_of_a_run_is_left_out() -> Patches:
    """Of a run of which some entries fit the others are forgotten."""
    go_on = PublishRate._pass_waiting

    def goes_on(self: PublishRate) -> None:
        go_on(self)
        if self._waiting and self._waiting[0][1]:
            self._waiting.popleft()

    return [(PublishRate, "_pass_waiting", goes_on)]
