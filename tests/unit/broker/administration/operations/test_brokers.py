"""Reports of a broker: all topics page by page, sums by namespace, the load report, settings in force."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, NoArguments
from engine.admin.api.brokers import (
    BROKER_METRICS,
    LOAD_REPORT,
    REPLICATION,
    TOPICS_STATS,
    TopicsPage,
)
from engine.admin.api.dynamic_settings import RUNTIME_SETTINGS
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.base.names import TopicName
from engine.broker.administration.operations import brokers
from engine.broker.service import BrokerService
from tests.support.admin.broker_instance import BrokerInstance

pytestmark = pytest.mark.virtual_time

TOPICS = [TopicName.parse(f"persistent://public/default/t{n}") for n in range(7)]


@pytest.fixture
async def instance() -> AsyncIterator[BrokerInstance]:
    made = BrokerInstance()
    await made.cluster.start("b0")
    yield made
    await made.close()


async def asked(instance: BrokerInstance, operation: Any, args: Any) -> Any:
    [broker] = await instance.admin.brokers()
    return await instance.admin.call_on(broker, operation, args)


async def filled(instance: BrokerInstance) -> BrokerService:
    broker = await instance.broker()
    for topic in TOPICS:
        await instance.admin.call(CREATE_TOPIC, CreateTopic(topic))
        args = CreateSubscription(topic, "s", EARLIEST_MESSAGE, {})
        await instance.admin.call(CREATE_SUBSCRIPTION, args)
    await instance.publish(TOPICS[0], 3)
    return broker


async def test_all_topics_are_reported_page_by_page(
    instance: BrokerInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "PAGE_TOPICS", 3)
    monkeypatch.setattr(brokers, "TURN_TOPICS", 2)
    broker = await filled(instance)
    lines: dict[str, Any] = {}
    after, pages = "", 0
    while after is not None:
        page = await asked(instance, TOPICS_STATS, TopicsPage(after))
        [(namespace, bundles)] = page["topics"].items()
        assert namespace == "public/default"
        for bundle, domains in bundles.items():
            for name, line in domains["persistent"].items():
                assert broker.running.ownership.known_bundle(TopicName.parse(name)).range == bundle  # type: ignore[union-attr]
                lines[name] = line
        after, pages = page["next"], pages + 1
    assert pages == 3
    assert list(lines) == [topic.full for topic in TOPICS]
    line = lines[TOPICS[0].full]
    assert line["storageSize"] > 0
    assert line["subscriptions"]["s"]["msgBacklog"] == 3
    assert line["producerCount"] == 0


async def test_sums_and_the_load_report_count_the_same(instance: BrokerInstance) -> None:
    broker = await filled(instance)
    [metrics] = await asked(instance, BROKER_METRICS, NoArguments())
    assert metrics["dimensions"] == {"namespace": "public/default"}
    assert metrics["metrics"]["brk_msg_backlog"] == 3
    assert metrics["metrics"]["brk_no_of_subscriptions"] == len(TOPICS)
    report = await asked(instance, LOAD_REPORT, NoArguments())
    assert (report["numTopics"], report["webServiceUrl"]) == (len(TOPICS), broker.record.web_url)
    assert report["bundles"] == [str(bundle) for bundle in broker.running.ownership.owned()]
    assert sum(bundle_stats["topics"] for bundle_stats in report["lastStats"].values()) == len(
        TOPICS
    )
    assert "cpu" not in report or report["cpu"]["limit"] == 100.0
    assert "bandwidthIn" not in report


async def test_settings_in_force_have_pulsars_names_and_no_secret(instance: BrokerInstance) -> None:
    await instance.broker()
    settings = await asked(instance, RUNTIME_SETTINGS, NoArguments())
    assert settings["brokerDeduplicationEnabled"] == "false"
    assert settings["maxMessagePublishBufferSizeInMB"] == "256"
    assert settings["clusterName"] == "standalone"
    assert "a-token-of-some-length" not in settings.values()


async def test_the_quorums_in_force_are_reported_with_their_number_of_topics(
    instance: BrokerInstance,
) -> None:
    broker = await filled(instance)
    quorums = await asked(instance, REPLICATION, NoArguments())
    [[ensemble, write, ack, topics, namespaces]] = quorums["topics"]
    assert ([ensemble, write, ack], topics, namespaces) == (quorums["default"], len(TOPICS), 1)
    assert quorums["regions"] == [0, ""]
    topic = broker.running.registry.loaded(TOPICS[0])
    assert topic is not None
    other = replace(
        topic.policies,
        storage=replace(topic.policies.storage, ensemble=5, write_quorum=4, ack_quorum=3),
    )
    topic.policies = other
    quorums = await asked(instance, REPLICATION, NoArguments())
    assert quorums["topics"][-1] == [5, 4, 3, 1, 1]
    assert sum(row[3] for row in quorums["topics"]) == len(TOPICS)
