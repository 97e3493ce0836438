"""Causes of lag: reported once they held for a while, withdrawn once they were gone for a while; a healthy subscription
has none."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from engine.admin.lag import LagCause, LagSeverity
from engine.broker.administration.lag_causes import (
    FEW_HOLD_S,
    HOLD_S,
    LEAVE_S,
    RETURNS_S,
    SILENCE_S,
    Sighting,
    Watch,
)

QUIET = Sighting(0.0, 0)


class Life:
    """Subscription that is observed once a second of simulated time."""

    def __init__(self, **first: Any) -> None:
        self.seen = QUIET._replace(**first)
        self.watch = Watch(self.seen)
        self.reported: list[LagCause | None] = [self.watch.cause]

    def __call__(self, seconds: float = 1, **changed: Any) -> LagCause | None:
        """Let ``seconds`` pass; ``changed`` applies from the first of them on."""
        for _ in range(int(seconds)):
            self.seen = self.seen._replace(at_s=self.seen.at_s + 1, **changed)
            self.watch.look(self.seen)
            self.reported.append(self.watch.cause)
        return self.watch.cause

    def acked(self) -> tuple[int, int]:
        """Return the mark of an acknowledgement that arrives now."""
        return (int(self.seen.at_s * 1000), 0)

    @property
    def changes(self) -> list[LagCause | None]:
        """The reported causes, without repetitions."""
        causes = self.reported
        return [cause for i, cause in enumerate(causes) if not i or cause is not causes[i - 1]]


def stuck(**more: Any) -> Life:
    """Return a subscription with a backlog and a consumer that holds some of it and acknowledges nothing."""
    life = Life()
    life(consumers=1, flowed=1, joined=1, paused="append")
    life(backlog=500, out=True)
    life(**more)
    return life


# --- each cause ------------------------------------------------------------------------------------

CAUSES: dict[LagCause, Callable[[], Life]] = {
    LagCause.NO_CONSUMER: lambda: Life(backlog=500),
    LagCause.NOT_ACKNOWLEDGED: stuck,
    LagCause.NO_PERMITS: lambda: stuck(paused="permits"),
    LagCause.STANDBY: lambda: stuck(paused="permits", standby=2),
    LagCause.HELD: lambda: stuck(paused="permits", refused=4),
    LagCause.UNACKED_LIMIT: lambda: stuck(paused="acks", limited=True),
    LagCause.HOT_KEY: lambda: stuck(paused="key"),
    LagCause.REDELIVERY: lambda: stuck(given_back=3, again=500),
    LagCause.RECONNECTING: lambda: stuck(joined=9),
    LagCause.STORAGE: lambda: stuck(paused="retry"),
    LagCause.DELAYED: lambda: stuck(delayed=500, paused="time"),
}


@pytest.mark.parametrize("cause", CAUSES, ids=str)
def test_a_standing_subscription_gets_its_cause_once_it_held(cause: LagCause) -> None:
    life = CAUSES[cause]()
    life(SILENCE_S + HOLD_S + 1)
    assert life.changes == [None, cause]
    assert not any(life.reported[: int(HOLD_S)]), "no cause before it held"
    life(90)
    assert life.changes == [None, cause], "nothing changed"


def test_a_consumer_that_receives_now_and_then_and_acknowledges_nothing() -> None:
    life = stuck(paused="permits")
    for second in range(60):
        life(flowed=second + 2)
    assert life.changes == [None, LagCause.NOT_ACKNOWLEDGED]


def test_slower_than_arrivals_and_by_how_much() -> None:
    life = stuck()
    for second in range(60):
        life(backlog=500 + 20 * second, acked=life.acked(), rate_out=80.0)
    assert life.changes == [None, LagCause.SLOW]
    assert life.watch.growth == pytest.approx(20.0)
    assert life.watch.severity is LagSeverity.WARNING


def test_a_dispatch_rate_is_a_cause_until_it_is_removed() -> None:
    life = stuck()
    for second in range(120):
        paused = "rate" if second < 60 and second % 2 else "read"
        life(backlog=500 + 20 * second, acked=life.acked(), paused=paused, rate_out=80.0)
    assert life.changes == [None, LagCause.RATE_LIMIT, LagCause.SLOW]


def test_a_large_backlog_that_does_not_shrink_is_behind_though_it_does_not_grow() -> None:
    life = stuck(backlog=50_000)
    for _ in range(60):
        life(acked=life.acked(), rate_out=100.0)
    assert life.changes == [None, LagCause.SLOW]


def test_a_backlog_that_shrinks_in_time_has_no_cause() -> None:
    life = stuck(backlog=50_000)
    for second in range(300):
        life(acked=life.acked(), backlog=50_000 - second * 100, rate_out=100.0)
    assert life.changes == [None]


def test_the_backlog_of_one_key_blocks_other_consumers() -> None:
    life = stuck()
    for second in range(60):
        paused = "key" if second % 3 else "read"
        life(backlog=500 + 20 * second, acked=life.acked(), paused=paused)
    assert life.changes == [None, LagCause.HOT_KEY]


def test_more_messages_are_returned_than_acknowledged() -> None:
    life = stuck()
    for second in range(60):
        backlog = 500 + 20 * second
        life(backlog=backlog, again=backlog, given_back=second, acked=life.acked())
    assert life.changes == [None, LagCause.REDELIVERY]


def test_refused_messages_are_redelivered_only_after_a_minute() -> None:
    life = stuck()
    life(60)
    assert life.watch.cause is LagCause.NOT_ACKNOWLEDGED
    for round_ in range(5):
        life(60, given_back=round_ + 1, again=500)
    assert life.changes == [None, LagCause.NOT_ACKNOWLEDGED, LagCause.REDELIVERY]


def test_one_consumer_stops_while_others_continue() -> None:
    life = stuck()
    for _ in range(30):
        life(acked=life.acked(), stuck=400)
    assert life.changes == [None, LagCause.NOT_ACKNOWLEDGED]


def test_consumers_connect_and_disconnect_in_turns() -> None:
    life = Life(backlog=500)
    for round_ in range(30):
        life(2, consumers=1, joined=round_ + 1, out=True, paused="append")
        life(3, consumers=0, out=False, paused="consumer")
    assert life.watch.cause is LagCause.RECONNECTING
    assert len(life.changes) <= 3, life.changes


# --- hysteresis ------------------------------------------------------------------------------------


def test_a_cause_that_is_gone_and_returns_stays_reported() -> None:
    life = stuck()
    life(60)
    life(LEAVE_S - 1, backlog=0, out=False)
    assert life.watch.cause is LagCause.NOT_ACKNOWLEDGED
    life(1, backlog=500, out=True)
    life(300, backlog=0, out=False)
    assert life.changes == [None, LagCause.NOT_ACKNOWLEDGED, None]


def test_few_messages_may_take_long() -> None:
    life = stuck(backlog=6)
    life(FEW_HOLD_S)
    assert life.changes == [None]
    life(SILENCE_S + 2)
    assert life.watch.cause is LagCause.NOT_ACKNOWLEDGED


def test_few_entries_of_many_messages_are_not_few() -> None:
    life = stuck(backlog=6, messages=1_700)
    life(SILENCE_S + HOLD_S + 1)
    assert life.changes == [None, LagCause.NOT_ACKNOWLEDGED]


def test_a_consumer_that_is_started_again_is_no_lag() -> None:
    life = Life(consumers=1, joined=1)
    life(consumers=0)
    for waiting in range(8):
        life(backlog=300 * waiting)
    life(backlog=2_400, consumers=1, joined=2, out=True, paused="append")
    for left in range(2_400, -1, -300):
        life(backlog=left, acked=life.acked())
    life(30)
    assert life.changes == [None]


def test_a_consumer_that_acknowledges_rarely_is_allowed_more_time_later() -> None:
    life = stuck()
    for _ in range(20):
        life(29)
        life(acked=life.acked())
    changes = life.changes
    assert changes in ([None], [None, LagCause.NOT_ACKNOWLEDGED, None]), "at most the first time"


def test_further_arrivals_raise_the_severity_to_error_which_lasts_while_they_waver() -> None:
    life = Life(backlog=500)
    life(60)
    assert life.watch.severity is LagSeverity.WARNING
    backlog = 500.0
    severities = []
    for second in range(200):
        backlog += (50, 0.5, 0.5, 0.5)[second // 50]
        life(backlog=int(backlog))
        severities.append(life.watch.severity)
    assert severities[60:] == [LagSeverity.ERROR] * 140
    life(60)
    assert life.watch.severity is LagSeverity.WARNING, "nothing arrives any more"


def test_an_idle_subscription_is_not_checked_each_second() -> None:
    for make in CAUSES.values():
        seen = make()
        watch, at_s, looks = seen.watch, seen.seen.at_s, 0
        while watch.next_s is not None:
            looks += 1
            at_s = max(watch.next_s, at_s + 1)
            watch.look(seen.seen._replace(at_s=at_s))
        assert watch.cause is not None
        assert looks <= 30


# --- health ----------------------------------------------------------------------------------------


def healthy(random: Random) -> Iterator[dict[str, Any]]:
    """Yield an hour of 300 messages a second with varying counts in flight and now and then a pause of a second."""
    for _ in range(3_600):
        yield {"backlog": random.choice((0, 0, 1, 3, 6, 6, 30, 300 * random.randrange(2)))}


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_subscription_is_never_behind(seed: int) -> None:
    random = Random(seed)
    life = Life(consumers=2, flowed=1, joined=2, paused="append")
    for changed in healthy(random):
        life(**changed, out=True, acked=life.acked(), flowed=random.randrange(9), rate_out=300.0)
    assert life.changes == [None]


@pytest.mark.parametrize("seed", range(5))
def test_bursts_that_are_worked_off_are_no_lag(seed: int) -> None:
    """Publish 10,000 messages in five seconds of every minute, consumed at 300 a second."""
    random = Random(seed)
    life = Life(consumers=1, flowed=1, joined=1, paused="append")
    backlog = 0
    for second in range(1_200):
        backlog += 2_000 if second % 60 < 5 else 0
        backlog = max(backlog - random.randrange(250, 350), 0)
        life(backlog=backlog, out=bool(backlog), acked=life.acked(), rate_out=300.0)
    assert life.changes == [None]


def test_a_growing_hot_key_is_reported_without_a_break() -> None:
    """Grow the backlog by 1.8 a second on average, while the consumer now and then catches up a little."""
    life = Life()
    life(consumers=3, flowed=1, joined=1, paused="append", rate_out=12.0)
    life(backlog=200, out=True)
    for _ in range(30):
        life(backlog=life.seen.backlog + 4, acked=life.acked(), paused="key")
    assert life.watch.cause is LagCause.HOT_KEY
    since_s = life.watch.since_s
    for second in range(300):
        step = (22, -4)[second // 5 % 2] if second % 5 == 0 else 0
        paused = "key" if second % 2 else "append"
        life(backlog=life.seen.backlog + step, acked=life.acked(), paused=paused)
    assert life.changes == [None, LagCause.HOT_KEY]
    assert life.watch.since_s == since_s


def test_a_cause_reported_again_soon_keeps_its_beginning() -> None:
    life = stuck(paused="key")
    life(17)
    assert life.watch.cause is LagCause.HOT_KEY
    since_s = life.watch.since_s
    life(1, acked=life.acked(), backlog=20, paused="append")
    for _ in range(6):
        life(1, acked=life.acked())
    assert life.watch.cause is None
    life(70, paused="key", backlog=500)
    assert life.watch.cause is LagCause.HOT_KEY
    assert life.watch.since_s == since_s
    life(1, acked=life.acked(), backlog=20, paused="append")
    for _ in range(int(RETURNS_S) + 10):
        life(1, acked=life.acked())
    life(400, paused="key", backlog=500)
    assert life.watch.cause is LagCause.HOT_KEY
    assert life.watch.since_s > since_s
