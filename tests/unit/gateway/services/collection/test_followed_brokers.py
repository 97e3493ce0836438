"""Following brokers: how one counts that does not answer, is not registered or has just connected."""

from engine.admin.client import BrokerAddress
from gateway.services.clock import now_ms
from gateway.services.collection.collector import Collector
from gateway.services.collection.followed_brokers import Followed
from gateway.services.engine_link import EngineLink
from gateway.services.health.hops import HopState, Kind

ADDRESS = BrokerAddress("b:1", "", "pulsar://b:1")


def test_a_new_broker_does_not_reset_the_time_up_to_which_all_is_known(engine: EngineLink) -> None:
    collector = Collector(engine)
    brokers, topics = collector._brokers, collector._topics
    followed = brokers._new(ADDRESS)
    brokers.registered, brokers._followed = [ADDRESS], {"b:1": followed}
    brokers.last_seen = 5
    assert brokers.known_until() == [0], "not every broker has reported since the start"
    for _ in topics.become_complete():
        pass
    assert brokers.known_until() == [5], "no broker has reported since"
    brokers.last_seen = now_ms() + 60_000
    assert brokers.known_until() == [followed.since], "and it has to answer soon"


def follow(collector: Collector, **state: int) -> Followed:
    followed = collector._brokers._new(ADDRESS)
    followed.last_seen = now_ms()
    followed.topics.failures = state.pop("failures", 0)
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
