"""The broker's /metrics page: Pulsar's families, with what the topics' own statistics say."""

import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from engine.broker.administration.metrics_page import metrics_page
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.ports import BrokerIdentity
from tests.support import broker_bench as B

IDENTITY = BrokerIdentity("standalone", "127.0.0.1:8081", 1)
BASICS = (
    *("pulsar_topics_count", "pulsar_subscriptions_count", "pulsar_msg_backlog"),
    *("pulsar_producers_count", "pulsar_consumers_count", "pulsar_storage_size"),
    *("pulsar_rate_in", "pulsar_rate_out", "pulsar_subscription_back_log"),
)


def families(bench: B.Bench) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by family."""
    page = metrics_page(bench.registry, bench.sessions(), IDENTITY, {"client": 3}).decode()
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(page)
    }


def value(found: dict[str, list[tuple[dict[str, str], float]]], family: str) -> float:
    [(_, value)] = found[family]
    return value


async def test_basics_are_described_while_no_topic_is_loaded(tmp_path: Path) -> None:
    async with B.opened(tmp_path) as bench:
        await bench.registry.unload(B.NAME)
        found = families(bench)
        assert [name for name in BASICS if found[name]] == []
        assert value(found, "pulsar_broker_topics_count") == 0


async def test_backlogs_of_a_topic_and_its_subscription(tmp_path: Path) -> None:
    async with B.opened(tmp_path) as bench:
        consumer, client = await bench.join(SubscriptionType.SHARED)
        await bench.publish(3)
        await bench.publish(2, int(time.time() * 1000) + 3_600_000)
        await B.until(lambda: len(client.received) == 3 and bench.subscription.state.delayed == 2)
        bench.subscription.acknowledge(consumer, client.received[:1])
        found = families(bench)
        [(labels, backlog)] = found["pulsar_msg_backlog"]
        assert labels == {
            "cluster": "standalone",
            "namespace": "public/default",
            "topic": B.NAME.full,
        }
        assert backlog == value(found, "pulsar_subscription_back_log") == 4
        assert value(found, "pulsar_subscription_back_log_no_delayed") == 2
        assert value(found, "pulsar_subscription_delayed") == 2
        assert value(found, "pulsar_subscription_unacked_messages") == 2
        assert value(found, "pulsar_subscription_blocked_on_unacked_messages") == 0
        assert value(found, "pulsar_subscription_last_acked_timestamp") > 0
        assert value(found, "pulsar_topics_count") == 1


async def test_a_subscription_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    """What it acknowledged is not known: its backlog may be all there is."""
    async with B.opened(tmp_path) as bench:
        await bench.join(SubscriptionType.SHARED, permits=0)
        await bench.publish(3)
        bench.topic.log.unread_cursors["lost"] = "no answer"
        found = families(bench)
        assert value(found, "pulsar_subscriptions_count") == 2
        assert value(found, "pulsar_msg_backlog") == 6
