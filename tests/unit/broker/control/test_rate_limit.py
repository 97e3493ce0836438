"""Rate limits: the rate is held, bursts are bounded, and waiting users are served in turn."""

import asyncio
from collections import Counter

import pytest

from engine.base.clock import LoopClock
from engine.broker.control.rate_limit import RateLimit, TokenBucket, fitting
from engine.broker.policies import (
    MaxRate,
)

pytestmark = pytest.mark.virtual_time


def test_tokens_arrive_evenly_up_to_those_of_one_period() -> None:
    bucket = TokenBucket(100, 10, 0.0)
    assert bucket.left(0.0) == 100
    bucket.take(150)
    assert bucket.left(0.0) == -50
    assert bucket.wait_s() == pytest.approx(5.1)
    assert bucket.left(5.1) == pytest.approx(1)
    assert bucket.left(100.0) == 100


def test_a_new_rate_keeps_the_debt_and_at_most_one_of_its_periods_of_tokens() -> None:
    bucket = TokenBucket(100, 1, 0.0)
    bucket.change(10, 1)
    assert bucket.left(0.0) == 10
    bucket.take(30)
    bucket.change(100, 1)
    assert bucket.left(0.0) == -20


def test_an_entry_is_admitted_while_any_token_remains() -> None:
    spans = [0, 10, 10, 20, 20, 30]
    inf = float("inf")
    assert fitting(spans, None, range(3), (inf, inf)) == 3
    assert fitting(spans, None, range(3), (1.5, inf)) == 2
    assert fitting(spans, None, range(3), (inf, 11)) == 2
    assert fitting(spans, [5, 5, 5], range(3), (6, inf)) == 2
    assert fitting(spans, [5, 5, 5], range(1, 3), (inf, 0)) == 0


class Taker:
    """User of a limit that takes ``batch`` messages whenever it is admitted, up to ``most``."""

    def __init__(self, limit: RateLimit, batch: int = 1) -> None:
        self.limit = limit
        self.batch = batch
        self.took = 0
        self.times = 0
        self.most = 1 << 60

    def go(self) -> None:
        self.times += 1
        while self.took < self.most:
            if not self.limit.admits(self.go):
                self.limit.wait(self.go)
                return
            self.took += self.batch
            self.limit.charge(self.batch, 0)


async def test_a_rate_is_held_and_a_burst_is_at_most_one_period() -> None:
    limit = RateLimit(LoopClock())
    limit.set(MaxRate(messages=1000))
    taker = Taker(limit)
    taker.go()
    assert taker.took == 1000
    await asyncio.sleep(10)
    assert taker.took == pytest.approx(11_000, rel=0.01)
    assert taker.times <= 1001, "called once per pause, not once per message"


async def test_waiting_users_of_a_rate_get_equal_shares() -> None:
    limit = RateLimit(LoopClock())
    limit.set(MaxRate(messages=300))
    takers = [Taker(limit) for _ in range(3)]
    for taker in takers:
        taker.go()
    await asyncio.sleep(20)
    shares = Counter({i: taker.took for i, taker in enumerate(takers)})
    assert sum(shares.values()) == pytest.approx(21 * 300, rel=0.02)
    later = [shares[1], shares[2], shares[0] - 300]  # the first user had the burst
    assert max(later) < 1.2 * min(later), shares


async def test_a_changed_rate_applies_at_once_and_a_removed_one_admits_all() -> None:
    limit = RateLimit(LoopClock())
    limit.set(MaxRate(messages=1, period_s=3600))
    taker = Taker(limit)
    taker.go()
    await asyncio.sleep(60)
    assert taker.took == 1
    limit.set(MaxRate(messages=100))
    await asyncio.sleep(10)
    assert taker.took == pytest.approx(1001, rel=0.05)
    taker.most = 5000
    limit.set(MaxRate())
    assert taker.took == 5000
    assert not limit.limited


async def test_a_user_that_leaves_is_not_called() -> None:
    limit = RateLimit(LoopClock())
    limit.set(MaxRate(messages=1))
    first, second = Taker(limit), Taker(limit)
    first.go()
    second.go()
    limit.leave(first.go)
    took = first.took
    await asyncio.sleep(10)
    assert first.took == took
    assert second.took >= 9


async def test_a_relative_rate_is_added_to_the_publish_rate() -> None:
    published = [100.0, 0.0]
    limit = RateLimit(LoopClock(), lambda: (published[0], published[1]))
    limit.set(MaxRate(messages=50, relative=True))
    taker = Taker(limit)
    taker.go()
    await asyncio.sleep(10)
    before = taker.took
    assert before == pytest.approx(50 + 1500, rel=0.1)
    published[0] = 0.0
    await asyncio.sleep(10)
    assert taker.took - before == pytest.approx(500, rel=0.1)
