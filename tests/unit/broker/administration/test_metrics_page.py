"""The broker's /metrics page: Pulsar's families, with the values of the topics' own statistics."""

import asyncio
import time
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.auth.authentication import Outcomes
from engine.base.clock import LoopClock
from engine.base.metrics import of_process
from engine.base.names import NamespaceName, TopicName
from engine.broker.administration.metrics_page import (
    TOPICS_A_TURN,
    Levels,
    LoadMetrics,
    metrics_page,
)
from engine.broker.control.rate_limit import RateLevel
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.policies import (
    NO_LIMIT,
    MaxRate,
)
from engine.broker.ports import BrokerIdentity
from engine.managed.settings import LedgerConfig
from engine.metadata.memory import Fault
from engine.ownership.load.report import LoadReport, ResourceUsage
from engine.wire import pulsar_pb2 as pb
from tests.support import broker_bench as B
from tests.support.net.promtool import complaints

pytestmark = pytest.mark.virtual_time

IDENTITY = BrokerIdentity("standalone", "127.0.0.1:8081", 1)
LATENCIES = [f"le_{ms}" for ms in ("0_5", 1, 5, 10, 20, 50, 100, 200, 1000)] + ["overflow"]
EVERYTHING = Levels(consumers=True, producers=True)
BASICS = (
    *("pulsar_topics_count", "pulsar_subscriptions_count", "pulsar_msg_backlog"),
    *("pulsar_producers_count", "pulsar_consumers_count", "pulsar_storage_size"),
    *("pulsar_rate_in", "pulsar_rate_out", "pulsar_subscription_back_log"),
)


async def text(bench: B.Bench, levels: Levels = EVERYTHING) -> str:
    refused, stores = {"client": 3}, {"metadata": True, "configuration": False}
    pieces = metrics_page(
        *(bench.registry, bench.sessions(), IDENTITY, refused, Outcomes(), levels, stores),
        LoadMetrics(LoadReport("b:1", cpu=ResourceUsage(42.0, 100.0)), 7, 2, 5),
        of_process(LoopClock()),
    )
    return b"".join([piece async for piece in pieces]).decode()


async def families(
    bench: B.Bench, levels: Levels = EVERYTHING
) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by family."""
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(await text(bench, levels))
    }


def value(samples: dict[str, list[tuple[dict[str, str], float]]], family: str) -> float:
    [(_, value)] = samples[family]
    return value


async def test_basics_are_described_while_no_topic_is_loaded() -> None:
    async with B.opened() as bench:
        await bench.registry.unload(B.NAME)
        samples = await families(bench)
        assert [name for name in BASICS if samples[name]] == []
        assert value(samples, "pulsar_broker_topics_count") == 0


async def test_the_load_is_a_percentage_and_an_unknown_one_has_no_sample() -> None:
    async with B.opened() as bench:
        samples = await families(bench)
        assert value(samples, "pulsar_lb_cpu_usage") == 42.0
        assert samples["pulsar_lb_bandwidth_in_usage"] == []
        assert value(samples, "pulsar_lb_unload_bundle") == 7
        assert value(samples, "pulsar_lb_unload_broker") == 2
        assert value(samples, "pulsar_lb_bundles_split") == 5


async def test_each_metadata_store_is_reported_as_answering_or_not() -> None:
    async with B.opened() as bench:
        samples = await families(bench)
        rows = samples["magnetar_metadata_store_connected"]
        assert {labels["store"]: value for labels, value in rows} == {
            "metadata": 1,
            "configuration": 0,
        }


async def test_backlogs_of_a_topic_and_its_subscription() -> None:
    async with B.opened() as bench:
        consumer, client = await bench.join(SubscriptionType.SHARED)
        await bench.publish(3)
        await bench.publish(2, int(time.time() * 1000) + 3_600_000)
        await B.until(
            lambda: len(client.received) == 3 and bench.subscription.dispatch.state.delayed == 2
        )
        bench.subscription.acknowledge(consumer, client.received[:1])
        samples = await families(bench)
        [(labels, backlog)] = samples["pulsar_msg_backlog"]
        assert labels == {
            "cluster": "standalone",
            "namespace": "public/default",
            "topic": B.NAME.full,
        }
        assert backlog == value(samples, "pulsar_subscription_back_log") == 4
        assert value(samples, "pulsar_subscription_back_log_no_delayed") == 2
        assert value(samples, "pulsar_subscription_delayed") == 2
        assert value(samples, "pulsar_subscription_unacked_messages") == 2
        assert value(samples, "pulsar_subscription_blocked_on_unacked_messages") == 0
        assert value(samples, "pulsar_subscription_last_acked_timestamp") > 0
        assert value(samples, "pulsar_topics_count") == 1


async def test_a_subscription_that_cannot_be_read_is_counted() -> None:
    """Count all entries as its backlog, because its acknowledgements are not known."""
    async with B.opened() as bench:
        await bench.join(SubscriptionType.SHARED, permits=0)
        await bench.publish(3)
        bench.topic.log.unread_cursors["lost"] = "no answer"
        samples = await families(bench)
        assert value(samples, "pulsar_subscriptions_count") == 2
        assert value(samples, "pulsar_msg_backlog") == 6


async def test_each_consumer_and_producer_has_samples_when_enabled() -> None:
    async with B.opened() as bench:
        await bench.join(SubscriptionType.SHARED)
        bench.topic.publishers.attached["p"] = bench.producer
        await bench.publish(3)
        samples = await families(bench)
        [(labels, unacked)] = samples["pulsar_consumer_unacked_messages"]
        assert unacked == 3
        assert labels.keys() == {
            *("cluster", "namespace", "topic", "subscription"),
            *("consumer_name", "consumer_id"),
        }
        [(labels, _)] = samples["pulsar_producer_msg_rate_in"]
        assert labels.keys() == {"cluster", "namespace", "topic", "producer_name", "producer_id"}
        assert len(samples["pulsar_out_messages"]) == 2
        fewer = await families(bench, Levels())
        assert (
            not {"pulsar_consumer_unacked_messages", "pulsar_producer_msg_rate_in"} & fewer.keys()
        )
        assert len(fewer["pulsar_out_messages"]) == 1


async def test_without_topics_namespaces_have_the_sums() -> None:
    async with B.opened() as bench:
        await bench.join(SubscriptionType.SHARED)
        await bench.publish(3)
        other = await bench.load(TopicName.parse("persistent://public/default/other"))
        assert other.name != B.NAME
        samples = await families(bench, Levels(topics=False))
        labels, total = {"cluster": "standalone", "namespace": "public/default"}, 3
        assert samples["pulsar_in_messages"] == [(labels, total)]
        assert samples["pulsar_topics_count"] == [(labels, 2)]
        assert "pulsar_subscription_back_log" not in samples


async def test_entries_stored_in_the_last_minute_are_reported_by_size_and_latency() -> None:
    async with B.opened() as bench:
        await bench.publish(3)
        assert not (await families(bench))["pulsar_entry_size_count"], "the minute is not complete"
        written = bench.topic.written
        assert written is not None
        written._since -= 1
        written._minute -= 1
        written._ends = 0
        samples = await families(bench)
        assert value(samples, "pulsar_storage_write_latency_count") == 3
        buckets = [samples[f"pulsar_storage_write_latency_{name}"][0][1] for name in LATENCIES]
        assert sum(buckets) == 3
        assert value(samples, "pulsar_storage_write_latency_sum") > 0
        assert value(samples, "pulsar_entry_size_le_128") == 3
        assert value(samples, "pulsar_entry_size_sum") == value(
            samples, "pulsar_storage_logical_size"
        )
        assert value(samples, "pulsar_ml_AddEntrySucceed") == 3
        assert len(samples["pulsar_ml_EntrySizeBuckets"]) == 8
        assert samples["pulsar_ml_EntrySizeBuckets"][0][0]["quantile"] == "0.0_128.0"


async def test_compaction_is_reported_after_the_first_one() -> None:
    async with B.opened() as bench:
        await bench.publish(4, keys=["a", "b"])
        assert (await families(bench))["pulsar_compaction_compacted_entries_count"] == []
        assert bench.topic.compaction.start()
        await B.until(lambda: bench.topic.compaction.status == "SUCCESS")
        await bench.topic.compaction.ledger()
        samples = await families(bench)
        assert value(samples, "pulsar_compaction_compacted_entries_count") == 2
        assert value(samples, "pulsar_compaction_compacted_entries_size") > 0
        assert value(samples, "pulsar_publish_rate_limit_times") == 0
        assert value(samples, "pulsar_compaction_succeed_count") == 1
        assert value(samples, "pulsar_compaction_removed_event_count") == 2


async def test_totals_of_the_broker_do_not_fall_when_a_topic_or_subscription_is_removed() -> None:
    def totals(samples: dict[str, list[tuple[dict[str, str], float]]]) -> list[float]:
        names = ("pulsar_broker_in_bytes", "pulsar_broker_out_bytes")
        return [value for name in names for _, value in samples[name]]

    async with B.opened() as bench:
        _, client = await bench.join(SubscriptionType.SHARED)
        await bench.publish(3)
        await B.until(lambda: len(client.received) == 3)
        before = totals(await families(bench))
        assert before[0] > 0 == before[1]
        assert before[2] > 0 == before[3]
        assert await bench.topic.subscriptions.delete("s", force=True) is None
        went = bench.topic.subscriptions.total_out
        assert (went[0], totals(await families(bench))) == (3, before)
        await bench.registry.unload(B.NAME)
        assert totals(await families(bench)) == before


async def test_loads_lookups_and_memory_use_are_reported() -> None:
    async with B.opened() as bench:
        bench.cluster.server.on_call = lambda *_: Fault(delay_s=0.005)
        await bench.load(NamespaceName.of("public", "default").topic("slow"))
        await bench.publish(3)
        sessions = bench.sessions()
        body = pb.CommandLookupTopic(topic=B.NAME.full, request_id=1, authoritative=False)
        await sessions.lookups.lookup(body)
        body.topic = "persistent://no/such"
        await sessions.lookups.lookup(body)
        pieces = metrics_page(bench.registry, sessions, IDENTITY, {}, Outcomes(), EVERYTHING, {})
        page = b"".join([piece async for piece in pieces]).decode()
        by_name = {family.name: family for family in text_string_to_metric_families(page)}
        samples = {
            sample.name: sample.value
            for name in ("pulsar_broker_lookup", "pulsar_topic_load_times")
            for sample in by_name[name].samples
            if "quantile" not in sample.labels
        }
        assert samples["pulsar_broker_lookup_count"] == 1
        assert samples["pulsar_topic_load_times_count"] == 2
        [failures] = by_name["pulsar_broker_lookup_failures"].samples
        assert failures.value == 1
        assert len(by_name["pulsar_topic_load_times"].samples) == 2 + 6
        [median] = by_name["pulsar_topic_load_time_median_ms"].samples
        assert 5 <= median.value < 60_000
        [entries] = by_name["pulsar_ml_cache_entries"].samples
        assert entries.value == 3


async def test_throttling_is_reported_by_the_owner_of_the_rate() -> None:
    async with B.opened() as bench:
        await bench.join(SubscriptionType.SHARED)
        assert (await families(bench))["pulsar_subscription_dispatch_throttled_msg_events"] == []
        bench.subscription.dispatch.throttled[RateLevel.TOPIC, True] += 2
        samples = await families(bench)
        [(labels, bytes_events)] = samples["pulsar_subscription_dispatch_throttled_bytes_events"]
        assert (labels["reason"], bytes_events) == ("topic", 2)


async def test_traffic_under_a_resource_groups_rates_is_reported_with_the_brokers_share() -> None:
    async with B.opened() as bench:
        topic = bench.topic
        await topic.apply(
            replace(topic.policies, rates=replace(topic.policies.rates, resource_group="g")),
            LedgerConfig(),
        )
        used = "pulsar_resource_group_messages_used"
        assert (await families(bench))[used] == [], "it has no rates"
        bench.registry.groups.by_name["g"].set(MaxRate(messages=1000), NO_LIMIT)
        await bench.publish(3)
        samples = await families(bench)
        group = {"cluster": "standalone", "ResourceGroup": "g", "MonitoringClass": "Publish"}
        assert samples[used] == [(group, 3)]
        assert samples["pulsar_resource_group_bytes_used"][0][1] > 3
        assert samples["pulsar_resource_group_calculated_messages_quota"] == [(group, 1000)]
        assert samples["pulsar_resource_group_calculated_bytes_quota"] == []
        assert complaints(await text(bench)) == []


async def test_promtool_objects_only_to_names_on_the_page() -> None:
    async with B.opened() as bench:
        assert complaints(await text(bench)) == []
        await bench.join(SubscriptionType.SHARED)
        await bench.publish(3)
        assert complaints(await text(bench)) == []


async def test_other_tasks_run_while_a_long_page_is_written() -> None:
    async with B.opened() as bench:
        names = [f"persistent://public/default/t{n}" for n in range(120)]
        for name in names:
            await bench.load(TopicName.parse(name))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.ensure_future(others())
        await families(bench)
        running.cancel()
        assert turns > 120 // TOPICS_A_TURN


async def test_refused_commands_are_counted_by_type() -> None:
    async with B.opened() as bench:
        for _ in range(2):
            bench.context.refused_commands.note("c:1", "Subscribe", "app", "lacks consume")
        labels = {"cluster": "standalone", "command": "Subscribe"}
        assert (await families(bench))["magnetar_commands_refused"] == [(labels, 2)]


async def test_checks_of_credentials_are_counted_by_provider_method_and_reason() -> None:
    outcomes = Outcomes(expired=1)
    outcomes.succeeded["AuthenticationProviderToken", "token"] = 3
    outcomes.failed["AuthenticationProviderToken", "token", "EXPIRED_JWT"] = 1
    async with B.opened() as bench:
        pieces = metrics_page(
            bench.registry, bench.sessions(), IDENTITY, {}, outcomes, EVERYTHING, {}
        )
        page = b"".join([piece async for piece in pieces]).decode()
    labels = 'cluster="standalone",provider_name="AuthenticationProviderToken",auth_method="token"'
    assert f"pulsar_authentication_success_total{{{labels}}} 3" in page
    assert f'pulsar_authentication_failures_total{{{labels},reason="EXPIRED_JWT"}} 1' in page
    assert 'pulsar_expired_token_total{cluster="standalone"} 1' in page
    assert complaints(page) == []
