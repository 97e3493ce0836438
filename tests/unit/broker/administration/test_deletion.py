"""Deletion of a topic: what is deleted with it, when, and what prevents the deletion."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.topics import FORGET_PARTITIONED
from engine.base.errors import Conflict, NotFound, NotReady, PreconditionFailed
from engine.base.names import TopicName
from engine.broker.topics.lifecycle.topic_deletions import TopicDeletions
from engine.broker.topics.publish import Producer
from engine.broker.topics.topic import Topic
from engine.metadata import paths
from engine.metadata.store import StoreUnavailableError
from engine.tenancy import grants
from engine.wire import pulsar_pb2 as pb
from gateway.services.admin import partitioned_topics, topics
from tests.support.admin.bench import AdminBench
from tests.support.broker_bench import Client

pytestmark = pytest.mark.virtual_time

PLAIN = TopicName.parse("persistent://public/default/plain")
WHOLE = TopicName.parse("persistent://public/default/whole")
STRING = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    yield made
    await made.close()


async def give_schema(bench: AdminBench, name: TopicName) -> None:
    """Register a schema as a producer does, and grant a permission."""
    rules = bench.broker.running.sessions._schemas
    await rules.for_producer(await bench.loaded(name), STRING)
    await grants.grant(bench.store, name.namespace, "r", ["produce"], topic=name.partitioned)


async def left(bench: AdminBench, name: TopicName) -> tuple[bool, bool]:
    """Return whether the (partitioned) topic has schemas and permissions."""
    rules = bench.broker.running.sessions._schemas
    schema = await rules.version(name, None)
    granted = await grants.of_topic(bench.store, name.partitioned)
    return schema is not None, "r" in granted


@pytest.mark.parametrize("index", [0, 1])
async def test_schemas_and_permissions_stay_when_a_partition_is_deleted(
    bench: AdminBench, index: int
) -> None:
    await partitioned_topics.create(bench.engine, WHOLE, 2, {})
    await give_schema(bench, WHOLE.partition_at(1))
    await topics.delete(bench.engine, WHOLE.partition_at(index), force=False)
    assert await left(bench, WHOLE) == (True, True)


async def test_schemas_and_permissions_are_deleted_with_the_partitioned_topic(
    bench: AdminBench,
) -> None:
    await partitioned_topics.create(bench.engine, WHOLE, 2, {})
    await give_schema(bench, WHOLE.partition_at(1))
    with pytest.raises(Conflict, match="is not being deleted"):
        await bench.engine.call(FORGET_PARTITIONED, OnTopic(WHOLE))
    await partitioned_topics.delete(bench.engine, WHOLE, force=False)
    assert await left(bench, WHOLE) == (False, False)


async def test_a_topic_that_could_not_be_deleted_has_its_schemas(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await topics.create(bench.engine, PLAIN, {})
    await give_schema(bench, PLAIN)

    async def silent(*args: object) -> None:
        raise StoreUnavailableError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr("engine.managed.writing.rolling.mark_deleted", silent)
        with pytest.raises(NotReady):
            await topics.delete(bench.engine, PLAIN, force=False)
    assert await left(bench, PLAIN) == (True, True)
    await topics.delete(bench.engine, PLAIN, force=False)
    assert await left(bench, PLAIN) == (False, False)


@pytest.mark.parametrize("next_use", ["deletion", "load"])
async def test_remains_of_an_interrupted_deletion_are_deleted_on_the_next_use(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch, next_use: str
) -> None:
    await topics.create(bench.engine, PLAIN, {})
    await give_schema(bench, PLAIN)
    await bench.publish(PLAIN, 2)

    async def silent(*args: object) -> None:
        raise StoreUnavailableError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(grants, "forget_topic", silent)
        with pytest.raises(NotReady):
            await topics.delete(bench.engine, PLAIN, force=False)
    assert (await left(bench, PLAIN))[1]
    if next_use == "load":
        topic = await bench.loaded(PLAIN)
        assert topic.log.stats().entries == 0
    else:
        await topics.delete(bench.engine, PLAIN, force=False)
        assert await bench.store.exists(paths.managed_ledger(PLAIN.managed_ledger_name)) is None
    assert await left(bench, PLAIN) == (False, False)


async def test_the_other_domains_topic_of_the_name_keeps_its_schemas(bench: AdminBench) -> None:
    passing = TopicName.parse(f"non-{PLAIN}")
    await topics.create(bench.engine, PLAIN, {})
    await give_schema(bench, PLAIN)
    await topics.create(bench.engine, passing, {})
    await topics.delete(bench.engine, passing, force=True)
    assert (await left(bench, PLAIN))[0]


@pytest.mark.parametrize("partitioned", [False, True])
async def test_a_client_that_connects_during_a_deletion_keeps_the_topic_and_its_messages(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch, partitioned: bool
) -> None:
    if partitioned:
        await partitioned_topics.create(bench.engine, WHOLE, 1, {})
    else:
        await topics.create(bench.engine, PLAIN, {})
    name = WHOLE.partition_at(0) if partitioned else PLAIN
    await bench.publish(name, 2)
    delete = TopicDeletions.delete_checked

    async def delete_later(self: TopicDeletions, topic: Topic, check: Any) -> None:
        await topic.publishers.admit(Producer(Client(), 1, "p", topic, now_ms=0))
        await delete(self, topic, check)

    monkeypatch.setattr(TopicDeletions, "delete_checked", delete_later)
    with pytest.raises(PreconditionFailed):
        if partitioned:
            await partitioned_topics.delete(bench.engine, WHOLE, force=False)
        else:
            await topics.delete(bench.engine, PLAIN, force=False)
    topic = await bench.loaded(name)
    assert list(topic.producers) == ["p"]
    assert topic.log.stats().entries == 2
    monkeypatch.setattr(TopicDeletions, "delete_checked", delete)
    if not partitioned:
        await topics.delete(bench.engine, PLAIN, force=True)
        with pytest.raises(NotFound):
            await bench.loaded(PLAIN)
