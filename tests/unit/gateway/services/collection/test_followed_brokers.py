"""Following brokers: how one counts that does not answer, is not registered or has just connected."""

import asyncio

import pytest

from engine.admin.client import BrokerAddress
from gateway.services.clock import now_ms
from gateway.services.collection.collector import Collector
from gateway.services.collection.followed_brokers import Followed
from gateway.services.engine_link import Engine, EngineLink
from gateway.services.health.hops import HopState, Kind


def test_a_broker_whose_answer_breaks_something_is_followed_on(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Collector(engine)._brokers
    broker = Followed(BrokerAddress("b:1", "http://b:1", "pulsar://b:2"))
    asked = [0]

    async def follow(it: Engine) -> None:
        again = asyncio.Event()

        async def call_on(self: Engine, *args: object) -> None:
            asked[0] += 1
            if asked[0] == 1:
                raise AttributeError("no such thing")
            again.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(Engine, "call_on", call_on)
        monkeypatch.setattr("gateway.services.collection.followed_brokers.RETRY_S", 0.0)
        work = asyncio.create_task(brokers._follow(it, broker))
        async with asyncio.timeout(60):
            await again.wait()
        work.cancel()

    engine.run(follow)
    assert "another form" in broker.error


def test_a_new_broker_does_not_reset_the_time_up_to_which_all_is_known(engine: EngineLink) -> None:
    collector = Collector(engine)
    brokers, topics = collector._brokers, collector._topics
    followed = Followed(BrokerAddress("b:1", "", "pulsar://b:1"))
    brokers.registered, brokers._followed = [followed.address], {"b:1": followed}
    brokers.last_seen = 5
    assert brokers.known_until() == [0], "not every broker has reported since the start"
    for _ in topics.become_complete():
        pass
    assert brokers.known_until() == [5], "no broker has reported since"
    brokers.last_seen = now_ms() + 60_000
    assert brokers.known_until() == [followed.since], "and it has to answer soon"


def follow(collector: Collector, **state: int) -> Followed:
    followed = Followed(BrokerAddress("b:1", "", "pulsar://b:1"))
    followed.last_seen = now_ms()
    for name, value in state.items():
        setattr(followed, name, value)
    collector._brokers._judge(followed, now_ms())
    return followed


def test_a_broker_that_answers_and_is_not_registered_is_late_and_not_down(
    engine: EngineLink,
) -> None:
    collector = Collector(engine)
    follow(collector, missing_since=1)
    [hop] = collector.health.hops.of(Kind.BROKER)
    assert (hop.state, hop.reason) == (HopState.SLOW, "Broker b:1 answers, and is not registered")
    follow(collector, missing_since=1, failures=1)
    assert hop.state is HopState.DOWN
    follow(collector)
    assert hop.state is HopState.OK
    follow(collector, last_seen=now_ms() - 2_500)
    assert (hop.state, hop.reason) == (HopState.SLOW, "Broker b:1 has not reported for 2 s")
