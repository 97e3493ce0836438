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
from engine.metadata import account, paths
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


async def test_a_topic_that_is_not_loaded_is_deleted_and_reported_without_being_loaded() -> None:
    bench = AdminBench()
    await bench.start()
    await topics.create(bench.engine, TOPIC, {"owner": "me"})
    await bench.engine.call(CREATE_SUBSCRIPTION, CreateSubscription(TOPIC, "s"))
    sink = await bench.publish(TOPIC, 3)
    await bench.restart()
    bench.store.heal()
    with account.opened() as accounted:
        await topics.delete(bench.engine, TOPIC, force=False)
    (change,) = accounted.changes
    assert change.before == {
        "bytes": sum(map(len, sink.payloads)),
        "entries": 3,
        "properties": {"owner": "me"},
        "subscriptions": {"s": 3},
    }
    created = [path for operation, path in bench.store.log if operation == "create"]
    assert not [path for path in created if path.startswith(paths.LEDGERS)]
    assert not bench.broker.running.registry.load_times.count
    assert not await bench.store.exists(paths.managed_ledger(TOPIC.managed_ledger_name))
    await bench.close()


async def test_a_topic_that_is_being_loaded_is_deleted_after_its_load() -> None:
    bench = AdminBench()
    await bench.start()
    await topics.create(bench.engine, TOPIC, {})
    await bench.restart()
    loading = asyncio.ensure_future(bench.loaded(TOPIC))
    registry = bench.broker.running.registry
    while not registry.loading:
        await asyncio.sleep(0)
    await topics.delete(bench.engine, TOPIC, force=True)
    await asyncio.wait([loading])
    assert registry.loaded(TOPIC) is None
    assert not await bench.store.exists(paths.managed_ledger(TOPIC.managed_ledger_name))
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
