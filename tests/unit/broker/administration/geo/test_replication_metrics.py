"""Metrics of replication, by topic or namespace and remote cluster, and its sums in broker-stats."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.auth.authentication import Outcomes
from engine.broker.administration.broker_stats import namespace_metrics
from engine.broker.administration.metrics_page import Levels, metrics_page
from engine.broker.ports import BrokerIdentity
from tests.support.broker_bench import NAME, until
from tests.support.instances.replicated_pair import Pair, replicated

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with replicated() as made:
        yield made


async def samples(pair: Pair, levels: Levels) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the samples of replication by family, without the common prefix."""
    us, identity = pair.us, BrokerIdentity("us", "b", 0)
    page = metrics_page(us.registry, us.sessions(), identity, {}, Outcomes(), levels, {})
    text = b"".join([piece async for piece in page]).decode()
    prefix = "pulsar_replication_"
    return {
        family.name.removeprefix(prefix): [
            (sample.labels, sample.value) for sample in family.samples
        ]
        for family in text_string_to_metric_families(text)
        if family.name.startswith(prefix)
    }


@pytest.mark.parametrize("topics", [True, False])
async def test_replication_is_measured_by_remote_cluster(pair: Pair, topics: bool) -> None:
    await pair.begin()
    await pair.publish(b"a", b"b")
    await pair.caught_up()
    pair.us.topic.tick(1.0)
    pair.remotes.reachable = False
    await pair.cut()
    await pair.publish(b"c")
    about = {"cluster": "us", "namespace": "public/default", "remote_cluster": "eu"}
    if topics:
        about["topic"] = NAME.full
    measured = await samples(pair, Levels(topics=topics))
    values = {}
    for family, [(labels, value)] in measured.items():
        assert labels == about
        values[family] = value
    assert values.pop("throughput_out") > values.pop("rate_out") > 0
    assert values == {
        "rate_in": 0,
        "throughput_in": 0,
        "backlog": 1,
        "rate_expired": 0,
        "connected_count": 0,
        "disconnected_count": 1,
        "restarts": 0,
        "delay_in_seconds": 0,
    }


async def test_a_topic_of_one_cluster_has_no_samples_of_replication(pair: Pair) -> None:
    assert set(map(len, (await samples(pair, Levels())).values())) == {0}


async def test_broker_stats_sum_the_replicators_of_a_namespace(pair: Pair) -> None:
    pair.remotes.reachable = False
    await pair.begin()
    await pair.publish(b"a", b"b")
    await until(lambda: pair.replicator.error)
    [row] = namespace_metrics(pair.us.registry)
    metrics = row["metrics"]
    assert metrics["brk_no_of_replicators"] == 1
    assert metrics["brk_replication_backlog"] == 2
