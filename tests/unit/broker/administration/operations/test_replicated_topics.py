"""Deletion and cursors of topics that are sent to other clusters, as administrators change them."""

import asyncio
from typing import Any

import pytest

from engine.admin.api.arguments import OnSubscription
from engine.admin.api.cursors import (
    CLEAR_BACKLOG,
    EXPIRE_MESSAGES,
    SKIP_MESSAGES,
    ExpireMessages,
    Skip,
)
from engine.admin.api.topics import DELETE_TOPIC, DeleteTopic
from engine.base.errors import NotFound, PreconditionFailed, Refusal, Unprocessable
from engine.base.names import TopicName
from engine.tenancy.namespaces import update_policies
from gateway.services.admin import namespaces, partitioned_topics, topics
from tests.support.admin.bench import AdminBench
from tests.support.admin.bench import bench as bench
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

PLAIN = TopicName.parse("persistent://public/default/plain")
WHOLE = TopicName.parse("persistent://public/default/whole")
FORBIDDEN = r"^Delete forbidden topic is replicated on clusters \[eu, us\]"
TO_EU = "pulsar.repl.eu"


async def replicate(bench: AdminBench, *others: str) -> None:
    """Have the namespace sent to ``others``."""
    here = bench.broker.running.identity.cluster

    def change(policies: dict[str, Any]) -> None:
        policies["replication_clusters"] = [here, *others]

    await update_policies(bench.store, PLAIN.namespace, change)
    while (await bench.broker.running.catalog.policies(PLAIN)).clusters != (here, *others):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("is_loaded", [True, False])
async def test_a_topic_that_is_sent_to_other_clusters_is_not_deleted(
    bench: AdminBench, is_loaded: bool
) -> None:
    await topics.create(bench.engine, PLAIN, {})
    await bench.publish(PLAIN, 1)
    await replicate(bench, "us", "eu")
    if not is_loaded:
        await bench.broker.running.registry.unload(PLAIN)
    with pytest.raises(Unprocessable, match=FORBIDDEN):
        await topics.delete(bench.engine, PLAIN, force=False)
    assert (await bench.loaded(PLAIN)).log.stats().entries == 1
    await replicate(bench)
    await topics.delete(bench.engine, PLAIN, force=False)


async def test_a_deletion_by_force_is_not_refused(bench: AdminBench) -> None:
    await topics.create(bench.engine, PLAIN, {})
    await replicate(bench, "eu")
    await bench.engine.call(DELETE_TOPIC, DeleteTopic(PLAIN, force=True))
    with pytest.raises(NotFound):
        await bench.engine.call(DELETE_TOPIC, DeleteTopic(PLAIN, force=True))


async def test_a_partitioned_topic_that_is_sent_to_other_clusters_is_not_deleted(
    bench: AdminBench,
) -> None:
    await partitioned_topics.create(bench.engine, WHOLE, 2, {})
    await replicate(bench, "us", "eu")
    with pytest.raises(Unprocessable, match=FORBIDDEN):
        await partitioned_topics.delete(bench.engine, WHOLE, force=False)
    await replicate(bench)
    await partitioned_topics.delete(bench.engine, WHOLE, force=False)


async def test_a_namespace_of_several_clusters_is_not_deleted(bench: AdminBench) -> None:
    await replicate(bench, "eu")
    with pytest.raises(PreconditionFailed) as caught:
        await namespaces.delete(bench.engine, PLAIN.namespace)
    assert caught.value.reason == (
        "Cannot delete the global namespace public/default. "
        "There are still more than one replication clusters configured."
    )
    await replicate(bench)
    await namespaces.delete(bench.engine, PLAIN.namespace)


@pytest.mark.parametrize("cluster", ["eu", "eu.west", "repl.eu"])
async def test_the_backlog_of_a_cluster_is_skipped_expired_and_cleared(
    bench: AdminBench, cluster: str
) -> None:
    cursor = f"pulsar.repl.{cluster}"
    await topics.create(bench.engine, PLAIN, {})
    await replicate(bench, cluster)
    await bench.broker.running.registry.unload(PLAIN)
    topic = await bench.loaded(PLAIN)
    await until(lambda: cluster in topic.replication.replicators)
    replicator = topic.replication.replicators[cluster]
    await bench.publish(PLAIN, 5)
    await bench.engine.call(SKIP_MESSAGES, Skip(PLAIN, cursor, 2))
    assert replicator.backlog == 3
    await bench.engine.call(EXPIRE_MESSAGES, ExpireMessages(PLAIN, cursor, 3600))
    assert (replicator.backlog, replicator.expired.total) == (0, 3)
    await bench.publish(PLAIN, 5)
    await bench.engine.call(CLEAR_BACKLOG, OnSubscription(PLAIN, cursor))
    assert replicator.backlog == 0


async def test_a_cluster_that_a_topic_is_not_sent_to_has_no_backlog(bench: AdminBench) -> None:
    await topics.create(bench.engine, PLAIN, {})

    async def refusal(call: Any) -> tuple[type[Refusal], str]:
        with pytest.raises(Refusal) as caught:
            await call
        return type(caught.value), caught.value.reason

    missing = NotFound, "Replicator not found"
    assert await refusal(bench.engine.call(SKIP_MESSAGES, Skip(PLAIN, TO_EU, 1))) == missing
    assert await refusal(bench.engine.call(CLEAR_BACKLOG, OnSubscription(PLAIN, TO_EU))) == missing
    assert (
        await refusal(bench.engine.call(EXPIRE_MESSAGES, ExpireMessages(PLAIN, TO_EU, 1)))
        == missing
    )
