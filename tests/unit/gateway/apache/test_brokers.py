"""Operations at an Apache Pulsar cluster: those that are stated, and the refusal of all others."""

import pytest

from engine.admin.api.arguments import NoArguments, OnTopic
from engine.admin.api.brokers import LOAD_BALANCE
from engine.admin.api.statistics import INTERNAL_STATS, TOPIC_STATS, InternalStats, TopicStats
from engine.admin.api.subscriptions import SUBSCRIPTIONS
from engine.admin.api.traces import TRACES
from engine.base.errors import Unsupported
from engine.base.names import TopicName
from gateway.services.engine_link import Engine, EngineLink
from tests.support.net.recorded_apache import BROKER, RecordedApache

BEHIND = TopicName.parse("persistent://acme/ns5/orders-0005")


def test_an_operation_without_a_stated_call_is_refused_and_nothing_is_requested(
    link: EngineLink, apache: RecordedApache
) -> None:
    async def trace(engine: Engine) -> None:
        before = len(apache.reads)
        with pytest.raises(Unsupported, match=r"theirs is a cluster of Apache Pulsar.*\(traces\)"):
            await engine.call(TRACES, OnTopic(BEHIND))
        (broker,) = await engine.admin.brokers()
        with pytest.raises(Unsupported, match=r"\(load balance\)"):
            await engine.call_on(broker, LOAD_BALANCE, NoArguments())
        assert not any("traces" in path or "load" in path for path in apache.reads[before:])

    link.run(trace)
    assert apache.changes == []


def test_brokers_are_those_that_the_cluster_lists(link: EngineLink) -> None:
    async def listed(engine: Engine) -> list[tuple[str, str]]:
        return [(broker.id, broker.service_url) for broker in await engine.admin.brokers()]

    assert link.run(listed) == [(BROKER, "pulsar://127.0.0.1:17050")]


def test_statistics_have_the_time_of_the_oldest_message(link: EngineLink) -> None:
    async def read(engine: Engine) -> None:
        stats = await engine.call(TOPIC_STATS, TopicStats(BEHIND))
        assert stats["subscriptions"]["worker"]["oldestUnacknowledgedAt"] > 0
        assert (
            stats["oldestUnacknowledgedAt"]
            == stats["subscriptions"]["worker"]["oldestUnacknowledgedAt"]
        )
        internal = await engine.call(INTERNAL_STATS, InternalStats(BEHIND))
        assert internal["cursors"]
        assert await engine.call(SUBSCRIPTIONS, OnTopic(BEHIND)) == ["worker"]

    link.run(read)
