"""Properties of subscriptions, as administrators receive them."""

import pytest

from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.base.names import TopicName
from engine.managed.cursors.cursor import Cursor
from engine.managed.stored.records import INDEX_ONE
from gateway.services.admin import partitioned_topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")


async def test_a_new_partition_gets_no_property_that_a_broker_keeps_of_another_cursor() -> None:
    bench = AdminBench()
    await bench.start()
    await partitioned_topics.create(bench.engine, TOPIC, 1, {})
    first, second = TOPIC.partition_at(0), TOPIC.partition_at(1)
    args = CreateSubscription(first, "s", properties={"team": "me"})
    await bench.engine.call(CREATE_SUBSCRIPTION, args)
    cursor = (await bench.loaded(first)).log.cursors["s"]
    assert isinstance(cursor, Cursor)
    assert cursor._store is not None
    cursor._store.cursor_properties[f"{INDEX_ONE}1"] = "7"
    await partitioned_topics.grow(bench.engine, TOPIC, 2)
    assert (await bench.loaded(second)).log.cursors["s"].cursor_properties == {"team": "me"}
    await bench.close()
