"""Owners split their overloaded bundles, and name those for which a split is no help."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.admin.client import AdminClient
from engine.base.names import BundleName, NamespaceName
from engine.broker.service import BrokerService
from engine.ownership.division import TopicLoad
from engine.ownership.load.report import BundleLoad
from tests.support.admin.several_brokers import TOKEN, SeveralBrokers

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName.parse("public/default")
TOPICS = [NAMESPACE.topic(f"t{number}") for number in range(12)]


@pytest.fixture
async def cluster() -> AsyncIterator[SeveralBrokers]:
    made = SeveralBrokers(
        default_number_of_namespace_bundles="4",
        load_balancer_namespace_bundle_max_topics="2",
        load_balancer_namespace_bundle_max_msg_rate="100",
        load_balancer_namespace_maximum_bundles="6",
        default_namespace_bundle_split_algorithm="topic_count_equally_divide",
    )
    await made.start(1)
    yield made
    await made.close()


async def filled(cluster: SeveralBrokers) -> BrokerService:
    """Create all topics and count them."""
    (broker,) = cluster.brokers
    admin = AdminClient(cluster.store, cluster.cluster.network, TOKEN)
    for topic in TOPICS:
        await admin.call(CREATE_TOPIC, CreateTopic(topic))
    admin.close()
    await broker.running.load_reporter.current()
    return broker


async def bundles(broker: BrokerService) -> list[str]:
    return list((await broker.running.ownership.bundles(NAMESPACE)).ranges)


async def test_an_overloaded_bundle_is_split_after_three_checks(cluster: SeveralBrokers) -> None:
    broker = await filled(cluster)
    before, splitter = await bundles(broker), broker.running.splitter
    await splitter.check()
    await splitter.check()
    assert await bundles(broker) == before
    await splitter.check()
    after = await bundles(broker)
    assert len(before) < len(after) <= 6
    assert splitter.splits == len(after) - len(before)
    for topic in TOPICS:  # served throughout
        assert broker.running.registry.loaded(topic) is not None
        assert broker.running.ownership.serves(topic)


async def test_a_namespace_gets_no_more_bundles_than_allowed(
    cluster: SeveralBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await filled(cluster)
    splitter = broker.running.splitter
    for _ in range(12):
        await broker.running.load_reporter.current()
        await splitter.check()
    assert len(await bundles(broker)) <= 6
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        await splitter.check()
    assert [skip.kind for skip in splitter.skips] == ["bundles of the namespace"] * len(
        splitter.skips
    )
    assert "not split" not in caplog.text  # it was logged before, and nothing has changed
    assert splitter.document() == [skip._asdict() for skip in splitter.skips]


async def test_a_hot_topic_is_named_once_and_its_bundle_is_kept(
    cluster: SeveralBrokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await filled(cluster)
    running, hot = broker.running, TOPICS[0].full
    bundle = running.ownership.known_bundle(TOPICS[0])
    assert bundle is not None

    def loaded_topics(bundle: BundleName) -> list[TopicLoad]:
        return [TopicLoad(1, 500.0), TopicLoad(2, 1.0)]

    load = BundleLoad(rate_in=501.0, topics=2, hot_topic=hot)
    splitter: Any = running.splitter
    monkeypatch.setattr(splitter, "_loads", lambda: {bundle: load})
    monkeypatch.setattr(running.operations.bundles, "loaded_topics", loaded_topics)
    before = await bundles(broker)
    with caplog.at_level(logging.WARNING):
        for _ in range(6):
            await splitter.check()
    assert await bundles(broker) == before
    assert caplog.text.count(f"no split helps against {hot}: give the topic partitions") == 1


async def test_a_failed_split_is_reported_and_the_next_check_tries_again(
    cluster: SeveralBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await filled(cluster)
    splitter, host = broker.running.splitter, broker.running.operations.bundles
    real = host.split_owned

    async def beyond(*args: Any) -> list[BundleName]:
        """Split as if another owner had split the namespace up to its limit meanwhile."""
        return await real(*args[:-1], 4)

    monkeypatch.setattr(host, "split_owned", beyond)
    before = await bundles(broker)
    for _ in range(3):
        await splitter.check()
    assert await bundles(broker) == before
    assert {skip.kind for skip in splitter.skips} == {"failed"}
    assert "would have 5 bundles, at most 4" in splitter.skips[0].reason
    monkeypatch.undo()
    await splitter.check()
    assert len(await bundles(broker)) > len(before)


async def test_nothing_is_split_where_it_is_switched_off(cluster: SeveralBrokers) -> None:
    broker = await filled(cluster)
    settings = broker.running.dynamic
    assert settings is not None
    splitter: Any = broker.running.splitter
    off = splitter._settings().__class__(load_balancer_auto_bundle_split_enabled=False)
    splitter._settings = lambda: off
    before = await bundles(broker)
    for _ in range(4):
        await splitter.check()
    assert await bundles(broker) == before
    assert splitter.skips == ()
