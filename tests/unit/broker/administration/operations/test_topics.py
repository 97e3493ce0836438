"""Reports of operations on topics to the audit log, and concurrent changes of properties."""

import asyncio

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.api.topics import (
    CHANGE_PROPERTIES,
    DELETE_TOPIC,
    HOLDINGS,
    ChangeProperties,
    DeleteTopic,
)
from engine.base.names import TopicName
from engine.metadata import account
from gateway.services.admin import topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")


async def test_the_audit_log_receives_the_contents_of_a_deleted_topic() -> None:
    bench = AdminBench()
    await bench.start()
    await topics.create(bench.engine, TOPIC, {"owner": "me"})
    await bench.engine.call(CREATE_SUBSCRIPTION, CreateSubscription(TOPIC, "s"))
    sink = await bench.publish(TOPIC, 3)
    last = "{}:{}".format(*sink.positions[-1])
    with account.opened() as accounted:
        await topics.terminate(bench.engine, TOPIC)
        await topics.terminate(bench.engine, TOPIC)
        seen = (await bench.engine.call(HOLDINGS, OnTopic(TOPIC)))["seen"]
        await bench.engine.call(DELETE_TOPIC, DeleteTopic(TOPIC, seen=seen, dry=True))
        await topics.delete(bench.engine, TOPIC, force=False)
    first, again = (change for change in accounted.changes if change.where == "terminate")
    assert (first.before, first.after["now"], again.before) == (None, last, last)
    ended = [change for change in accounted.changes if change.where == "delete_topic"]
    assert len(ended) == 1, "a dry run is no change"
    assert ended[0].before == {
        "bytes": sum(map(len, sink.payloads)),
        "entries": 3,
        "properties": {"owner": "me"},
        "subscriptions": {"s": 3},
    }
    await bench.close()


async def test_one_of_two_concurrent_changes_of_the_same_properties_is_refused() -> None:
    bench = AdminBench()
    await bench.start()
    await topics.create(bench.engine, TOPIC, {"owner": "me"})
    await bench.loaded(TOPIC)
    outcomes = await asyncio.gather(
        *(
            bench.engine.call(
                CHANGE_PROPERTIES,
                ChangeProperties(TOPIC, {"owner": name}, expected={"owner": "me"}),
            )
            for name in ("you", "them")
        ),
        return_exceptions=True,
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "dict"]
    await bench.close()
