"""Topics and subscriptions that administrative operations look up, and the refusals when they are missing."""

import pytest

from engine.admin.api.arguments import OnSubscription, OnTopic
from engine.admin.api.cursors import CLEAR_BACKLOG
from engine.admin.api.subscriptions import SUBSCRIPTIONS
from engine.base.errors import NotFound, Unsupported
from engine.base.names import TopicName
from engine.tenancy import topics as metadata
from gateway.services.admin import partitioned_topics, topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")


async def test_a_missing_topic_is_refused_with_the_reason() -> None:
    bench = AdminBench()
    await bench.start()
    with pytest.raises(NotFound, match=f"^Topic {TOPIC} not found$"):
        await bench.engine.call(SUBSCRIPTIONS, OnTopic(TOPIC))
    await partitioned_topics.create(bench.engine, TOPIC, 1, {})
    with pytest.raises(NotFound, match="Topic partitions were not yet created"):
        await bench.engine.call(SUBSCRIPTIONS, OnTopic(TOPIC.partition_at(1)))
    await bench.close()


async def test_a_stored_topic_is_loaded() -> None:
    bench = AdminBench()
    await bench.start()
    await metadata.create_missing(bench.store, TOPIC)
    assert await bench.engine.call(SUBSCRIPTIONS, OnTopic(TOPIC)) == []
    assert bench.broker.running.registry.loaded(TOPIC) is not None
    await bench.close()


async def test_a_subscription_that_is_missing_is_refused() -> None:
    bench = AdminBench()
    await bench.start()
    await topics.create(bench.engine, TOPIC, {})
    args = OnSubscription(TOPIC, "s")
    with pytest.raises(NotFound, match=f"^Subscription s not found for topic {TOPIC}$"):
        await bench.engine.call(CLEAR_BACKLOG, args)
    live = OnSubscription(TopicName.parse("non-persistent://public/default/t"), "s")
    with pytest.raises(Unsupported, match="Clear backlog on a non-persistent topic"):
        await bench.engine.call(CLEAR_BACKLOG, live)
    await bench.close()
