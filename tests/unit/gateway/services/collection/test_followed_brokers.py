"""Following brokers: how one counts that does not answer, is not registered or has just connected."""

import asyncio
from typing import cast

import pytest

from engine.admin.client import BrokerAddress
from engine.base.errors import NotReady
from engine.base.tasks import TaskScope
from gateway.services.attention.findings import Findings
from gateway.services.clock import now_ms
from gateway.services.collection.followed_broker import UNREGISTERED, FollowedBroker, Reports
from gateway.services.collection.followed_brokers import (
    CRASH_KEPT_MS,
    GONE_MS,
    FollowedBrokers,
)
from gateway.services.engine_link import Engine
from gateway.services.feeds.row_follower import PAUSE_S
from gateway.services.geo.link_index import LinkIndex
from gateway.services.health.hops import Hops, HopState, Kind
from gateway.services.index.topic_index import TopicIndex
from tests.support.waiting import until

ADDRESS = BrokerAddress("b:1", "", "pulsar://b:1")


@pytest.fixture
def hops() -> Hops:
    return Hops(now_ms)


@pytest.fixture
def reports() -> Reports:
    return Reports(
        *(TopicIndex(), Findings(), LinkIndex(lambda topic: False, lambda: 0)),
        on_change=lambda: None,
        on_findings=lambda: None,
        on_needs=lambda broker, answer: None,
    )


def test_a_new_broker_does_not_reset_the_time_up_to_which_all_is_known(
    hops: Hops, reports: Reports
) -> None:
    tasks = TaskScope("test")
    brokers = FollowedBrokers(reports, hops, tasks)
    followed = FollowedBroker(ADDRESS, reports, hops, tasks)
    brokers.registered, brokers._followed = [ADDRESS], {"b:1": followed}
    brokers._last_seen = 5
    reports.topics.begin()
    assert brokers.known_until() == [0], "not every broker has reported since the start"
    for _ in reports.topics.become_complete():
        pass
    assert brokers.known_until() == [5], "no broker has reported since"
    brokers._last_seen = now_ms() + 60_000
    assert brokers.known_until() == [followed.since], "and it has to answer soon"


def test_a_broker_that_answers_and_is_not_registered_is_late_and_not_down(
    hops: Hops, reports: Reports
) -> None:
    def judge(*, missing_since: int = 0, failures: int = 0, last_seen: int = 0) -> None:
        followed = FollowedBroker(ADDRESS, reports, hops, TaskScope("test"))
        followed.missing_since, followed.last_seen = missing_since, last_seen or now_ms()
        followed._topics.failures = failures
        followed._judge(now_ms())

    judge(missing_since=1)
    [hop] = hops.of(Kind.BROKER)
    assert (hop.state, hop.reason) == (HopState.SLOW, "Broker b:1 answers, and is not registered")
    judge(missing_since=1, failures=1)
    assert hop.state is HopState.DOWN
    judge()
    assert hop.state is HopState.OK
    judge(last_seen=now_ms() - 2_500)
    assert (hop.state, hop.reason) == (HopState.SLOW, "Broker b:1 has not reported for 2 s")


class ClosingBroker:
    """Stands for a broker whose process ends: the pending request fails, later ones are refused."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()

    def end(self) -> None:
        self._ended.set()

    async def call_on(self, broker: BrokerAddress, operation: object, args: object) -> None:
        await self._ended.wait()
        raise NotReady("Broker b:1 does not answer")


@pytest.mark.virtual_time
async def test_a_broker_whose_connections_are_closed_is_down_after_the_second_request(
    hops: Hops, reports: Reports
) -> None:
    """Neither the silence nor the end of the poll is waited for."""
    tasks, broker = TaskScope("test"), ClosingBroker()
    brokers = FollowedBrokers(reports, hops, tasks)
    brokers.follow(cast(Engine, broker), [ADDRESS])
    await asyncio.sleep(1)  # time: virtual; all requests are pending
    assert not brokers.any_is_down
    loop = asyncio.get_running_loop()
    ended_s = loop.time()
    broker.end()
    await until(lambda: brokers.any_is_down)
    assert loop.time() - ended_s <= PAUSE_S + 0.05
    brokers.end()
    await tasks.close()


@pytest.mark.parametrize(("silent_ms", "is_named"), [(1_500, False), (10_000, True)])
async def test_a_crashed_broker_stays_named_though_its_topics_are_loaded_elsewhere(
    hops: Hops, reports: Reports, silent_ms: int, *, is_named: bool
) -> None:
    """Stopped brokers unregister at once and have nothing to be named for."""
    tasks = TaskScope("test")
    brokers = FollowedBrokers(reports, hops, tasks)
    followed = FollowedBroker(ADDRESS, reports, hops, tasks)
    followed._topics.failures = 2
    at = 1_000_000
    followed.last_seen = at - silent_ms
    brokers._followed = {"b:1": followed}
    await brokers.forget_gone(at)
    await brokers.forget_gone(at + GONE_MS + 1)

    def named() -> list[str]:
        return [hop.reason for hop in hops.bad]

    why = [f"Broker b:1 {UNREGISTERED}"] if is_named else []
    await brokers.forget_gone(at + CRASH_KEPT_MS)
    assert named() == why
    assert [line["state"] for line in brokers.lines()] == ["down"] * is_named
    await brokers.forget_gone(at + GONE_MS + 1 + CRASH_KEPT_MS + 1)
    assert (named(), brokers.lines()) == ([], [])
    await tasks.close()
