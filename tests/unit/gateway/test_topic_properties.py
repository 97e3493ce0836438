"""Properties of topics, through the REST interface's services. Recorded on Apache Pulsar 4.0.8: values are
merged, a partitioned topic and each of its partitions have their own, removing what is not there is fine."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from engine.base.errors import Conflict, NotAcceptable, NotFound, PreconditionFailed, Refusal
from engine.base.names import TopicName
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.tenancy import topics as metadata
from engine.tenancy.checks import PROPERTIES_BYTES_MAX
from gateway.services.admin import partitioned_topics, statistics, topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

PLAIN = TopicName.parse("persistent://public/default/t")
PARENT = TopicName.parse("persistent://public/default/pt")
PART = PARENT.partition_at(0)
HALF = "x" * (PROPERTIES_BYTES_MAX // 2)


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, PLAIN, {"old": "1"})
    await partitioned_topics.create(made.engine, PARENT, 2, {"old": "1"})
    yield made
    await made.close()


async def put(bench: AdminBench, name: TopicName, **properties: str) -> None:
    await topics.set_properties(bench.engine, name, properties)


async def remove(bench: AdminBench, name: TopicName, key: str) -> None:
    await topics.remove_property(bench.engine, name, key)


async def got(bench: AdminBench, name: TopicName) -> dict[str, str]:
    return await topics.properties(bench.engine, name)


async def refusal(work: Awaitable[Any]) -> tuple[type[Refusal], str]:
    with pytest.raises(Refusal) as caught:
        await work
    return type(caught.value), caught.value.reason


@pytest.mark.parametrize("name", [PLAIN, PARENT])
async def test_properties_are_merged_removed_one_by_one_and_outlive_the_broker(
    bench: AdminBench, name: TopicName
) -> None:
    await put(bench, name, a="1", b="2")
    await put(bench, name, b="3", c="4")
    assert await got(bench, name) == {"old": "1", "a": "1", "b": "3", "c": "4"}
    await remove(bench, name, "a")
    await remove(bench, name, "nothing of this name")
    await put(bench, name)
    await bench.restart()
    assert await got(bench, name) == {"old": "1", "b": "3", "c": "4"}


async def test_properties_are_in_the_topics_node_and_its_ledgers_stay(bench: AdminBench) -> None:
    await bench.publish(PLAIN, 4)
    await put(bench, PLAIN, a="1")
    value, _ = await bench.store.get(paths.managed_ledger(PLAIN.managed_ledger_name))
    record = LogRecord.decode(value)
    assert record.properties == {"old": "1", "a": "1"}
    assert len(record.ledgers) == 1
    await bench.restart()
    stats = await statistics.internal_stats(bench.engine, PLAIN, with_metadata=False)
    assert stats["numberOfEntries"] == 4


async def test_a_partitioned_topics_properties_are_in_its_record_only(
    bench: AdminBench,
) -> None:
    await put(bench, PARENT, a="1")
    await put(bench, PART, z="1")
    record = await metadata.find_partitions(bench.store, PARENT)
    assert record == {"partitions": 2, "deleted": False, "properties": {"old": "1", "a": "1"}}
    assert await got(bench, PART) == {"z": "1"}
    await partitioned_topics.grow(bench.engine, PARENT, 3)
    assert await got(bench, PARENT) == {"old": "1", "a": "1"}


@pytest.mark.parametrize("name", [PLAIN, PARENT])
async def test_the_size_of_all_properties_is_bounded_and_an_excess_can_be_removed(
    bench: AdminBench, name: TopicName
) -> None:
    await put(bench, name, a=HALF)
    kind, reason = await refusal(put(bench, name, b=HALF))
    assert kind is PreconditionFailed
    assert f"at most {PROPERTIES_BYTES_MAX} are stored" in reason
    assert (await refusal(put(bench, name, **{HALF: ""})))[0] is PreconditionFailed
    assert await got(bench, name) == {"old": "1", "a": HALF}
    await remove(bench, name, "a")
    await put(bench, name, b=HALF)


async def test_reserved_property_names_are_refused(bench: AdminBench) -> None:
    text = "Property names with magnetar. are reserved"
    assert await refusal(topics.set_properties(bench.engine, PLAIN, {"magnetar.deleted": ""})) == (
        PreconditionFailed,
        text,
    )
    assert await got(bench, PLAIN) == {"old": "1"}


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("persistent://public/default/nope", NotFound, "Topic persistent://public/default/nope not found"),
        ("persistent://public/none/t", NotFound, "Namespace not found"),
        ("non-persistent://public/default/np", NotAcceptable, "Need to provide a persistent topic name"),
    ],
)  # fmt: skip
async def test_topics_without_properties_are_refused_by_each_call(
    bench: AdminBench, name: str, kind: type[Refusal], reason: str
) -> None:
    topic = TopicName.parse(name)
    for work in (got(bench, topic), put(bench, topic, a="1"), remove(bench, topic, "a")):
        assert await refusal(work) == (kind, reason)


async def test_a_partitioned_topic_that_is_being_deleted_is_not_changed(bench: AdminBench) -> None:
    path = metadata.partitioned_path(PARENT)
    await bench.store.put(path, b'{"partitions":2,"deleted":true}')
    assert await refusal(put(bench, PARENT, a="1")) == (
        Conflict,
        f"Topic {PARENT} is being deleted",
    )


BASE = "/admin/v2/persistent/public/default/t/properties"
JSON = "application/json"


@pytest.mark.parametrize("body", [b"5", b"[]", b"{bad", b'{"a": null}', b'{"a": {}}'])
def test_a_body_that_is_no_object_of_texts_is_refused(
    call: Callable[..., Any], body: bytes
) -> None:
    assert call("PUT", BASE, body, content_type=JSON).status == 400


def test_the_property_to_remove_must_be_named(call: Callable[..., Any]) -> None:
    answer = call("DELETE", BASE)
    assert (answer.status, answer.json) == (400, {"reason": "key: is missing", "field": "key"})


def test_a_partitioned_topics_properties_need_no_broker(call: Callable[..., Any]) -> None:
    call("PUT", "/admin/v2/persistent/public/default/t/partitions", 2)
    assert call("PUT", BASE, {"a": "1", "b": "2"}).status == 204
    assert call("DELETE", f"{BASE}?key=a").status == 204
    assert call("GET", BASE).json == {"b": "2"}
