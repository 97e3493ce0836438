"""The handlers that a broker binds to the declared operations."""

import asyncio
import base64
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from engine.admin import api
from engine.admin.api.arguments import MessagePosition, OnTopic
from engine.admin.api.messages import LATEST_ENTRIES, LatestEntries
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.api.topics import (
    CHANGE_PROPERTIES,
    DELETE_TOPIC,
    HOLDINGS,
    ChangeProperties,
    DeleteTopic,
)
from engine.admin.operation import Operation
from engine.base.errors import NotFound, Unsupported
from engine.base.names import TopicName
from engine.managed.cursors.cursor import Cursor
from engine.managed.stored.records import INDEX_ONE
from engine.metadata import account
from gateway.services import topics
from tests.support.admin.bench import AdminBench

TOPIC = TopicName.parse("persistent://public/default/t")


def declared_operations() -> set[Operation[Any, Any]]:
    modules = [import_module(f"{api.__name__}.{m.name}") for m in iter_modules(api.__path__)]
    values = [value for module in modules for value in vars(module).values()]
    return {value for value in values if isinstance(value, Operation)}


async def test_a_broker_has_a_handler_for_each_operation_and_for_nothing_else(
    tmp_path: Path,
) -> None:
    declared = declared_operations()
    assert len({operation.name for operation in declared}) == len(declared)
    bench = AdminBench(tmp_path)
    await bench.start()
    handlers = bench.broker.running.operations.handlers
    await bench.close()
    assert {operation for operation, _ in handlers.values()} == declared


async def test_latest_entries_come_newest_first_within_both_bounds(tmp_path: Path) -> None:
    bench = AdminBench(tmp_path)
    await bench.start()
    with pytest.raises(NotFound):
        await bench.engine.call(LATEST_ENTRIES, LatestEntries(TOPIC, 9, 9))
    await topics.create(bench.engine, TOPIC, {})

    async def ask(messages: int, bytes_max: int, before: int | None = None) -> tuple[int, ...]:
        at = None if before is None else MessagePosition(sink.positions[0][0], before)
        args = LatestEntries(TOPIC, messages, bytes_max, at)
        answer = await bench.engine.call(LATEST_ENTRIES, args)
        for _, entry, text in answer["entries"]:
            assert base64.b64decode(text) == sink.payloads[entry]
        return (*(entry for _, entry, _ in answer["entries"]), answer["more"])

    sink = await bench.publish(TOPIC, 20)
    size = len(sink.payloads[-1])
    assert await ask(100, 1 << 20) == (*range(19, -1, -1), False)
    assert await ask(3, 1 << 20) == (19, 18, 17, True)
    assert await ask(100, 2 * size) == (19, 18, True)
    assert await ask(100, 1) == (19, True), "one at least"
    assert await ask(2, 1 << 20, before=5) == (4, 3, True)
    assert await ask(9, 1 << 20, before=0) == (False,)
    live = TopicName.parse("non-persistent://public/default/t")
    with pytest.raises(Unsupported, match="non-persistent"):
        await bench.engine.call(LATEST_ENTRIES, LatestEntries(live, 9, 9))
    await bench.close()


async def test_what_ends_with_a_topic_is_told_for_the_audit_log(tmp_path: Path) -> None:
    bench = AdminBench(tmp_path)
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
    first, again = (one for one in accounted.changes if one.where == "terminate")
    assert (first.before, first.after["now"], again.before) == (None, last, last)
    ended = [one for one in accounted.changes if one.where == "delete_topic"]
    assert len(ended) == 1, "a question is no change"
    assert ended[0].before == {
        "bytes": sum(map(len, sink.payloads)),
        "entries": 3,
        "properties": {"owner": "me"},
        "subscriptions": {"s": 3},
    }
    await bench.close()


async def test_a_new_partition_gets_no_property_that_a_broker_keeps_of_another_cursor(
    tmp_path: Path,
) -> None:
    bench = AdminBench(tmp_path)
    await bench.start()
    await topics.create_partitioned(bench.engine, TOPIC, 1, {})
    first, second = TOPIC.partition_at(0), TOPIC.partition_at(1)
    args = CreateSubscription(first, "s", properties={"team": "me"})
    await bench.engine.call(CREATE_SUBSCRIPTION, args)
    cursor = (await bench.loaded(first)).log.cursors["s"]
    assert isinstance(cursor, Cursor)
    assert cursor._store is not None
    cursor._store.cursor_properties[f"{INDEX_ONE}1"] = "7"
    await topics.grow(bench.engine, TOPIC, 2)
    assert (await bench.loaded(second)).log.cursors["s"].cursor_properties == {"team": "me"}
    await bench.close()


async def test_of_two_changes_of_the_same_properties_at_once_one_is_refused(tmp_path: Path) -> None:
    bench = AdminBench(tmp_path)
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
    assert sorted(type(one).__name__ for one in outcomes) == ["Conflict", "dict"]
    await bench.close()
