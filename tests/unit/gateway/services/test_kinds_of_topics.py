"""Plain or partitioned: a topic of one name is one of them for all who make it by a call or by its use."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.messages import LAST_MESSAGE_ID
from engine.base.errors import AlreadyExists, PreconditionFailed
from engine.base.names import TopicName
from engine.broker.errors import TopicIsPartitioned, TopicNotFound
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import set_policy
from engine.tenancy.policies.table import BY_NAME
from gateway.services.admin import existence, partitioned_topics, topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

NAME = TopicName.parse("persistent://public/default/x")
LOADED = TopicName.parse("non-persistent://public/default/x")
PLAIN = {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
PARTS = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}


async def rule(bench: AdminBench, given: dict[str, Any]) -> None:
    policy = BY_NAME["autoTopicCreation"]
    await set_policy(bench.store, NAME.namespace, policy, policy.read(given), cluster="")


async def use(bench: AdminBench, name: TopicName) -> int:
    """Use a topic as a client does: ask for its partitions, then load it or its first partition. Return the number."""
    parts = bench.broker.running
    count = await parts.catalog.partitions(name, allow_create=True)
    await by_producer(bench, name.partition_at(0) if count else name)
    return count


def before_it_is_loaded(
    bench: AdminBench, name: TopicName, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Make the partitioned topic between its check and its loading; return the check that this happened."""
    registry, done = bench.broker.running.registry, [0]
    opens = registry._open

    async def slow(of: TopicName, *, make: bool) -> Any:
        if make and of == name:
            done[0] += 1
            await partitioned_topics.create(bench.engine, name, 2, {})
        return await opens(of, make=make)

    monkeypatch.setattr(registry, "_open", slow)

    def check() -> None:
        assert done == [1]

    return check


async def by_call(bench: AdminBench, name: TopicName) -> None:
    await topics.create(bench.engine, name, {})


async def by_producer(bench: AdminBench, name: TopicName) -> None:
    parts = bench.broker.running
    await parts.assignment.place(name, authoritative=True)
    await parts.registry.get(name, create=True)


@pytest.mark.parametrize("name", [NAME, LOADED])
async def test_a_topic_made_by_its_use_gives_way_to_a_partitioned_one_made_meanwhile(
    bench: AdminBench, name: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = before_it_is_loaded(bench, name, monkeypatch)
    with pytest.raises(TopicIsPartitioned):
        await by_producer(bench, name)
    check()
    assert await existence.partitions_of(bench.engine, name) == 2
    assert not await metadata.topic_exists(bench.store, name)
    assert bench.broker.running.registry.loaded(name) is None
    with pytest.raises(TopicNotFound):
        await by_producer(bench, name)
    assert await use(bench, name) == 2


async def test_a_call_that_makes_a_plain_topic_is_refused_when_a_partitioned_one_came_to_be(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cover a non-persistent topic only: a persistent one has a node, which refuses the partitioned topic."""
    check = before_it_is_loaded(bench, LOADED, monkeypatch)
    with pytest.raises(AlreadyExists):
        await by_call(bench, LOADED)
    check()
    assert await existence.partitions_of(bench.engine, LOADED) == 2


@pytest.mark.parametrize("make", [by_call, by_producer])
@pytest.mark.parametrize("name", [NAME, LOADED])
async def test_a_partitioned_topic_is_refused_where_there_is_a_plain_one(
    bench: AdminBench, name: TopicName, make: Callable[[AdminBench, TopicName], Awaitable[None]]
) -> None:
    await make(bench, name)
    with pytest.raises(AlreadyExists):
        await partitioned_topics.create(bench.engine, name, 2, {})
    assert await existence.partitions_of(bench.engine, name) == 0
    await rule(bench, PARTS)
    assert await use(bench, name) == 0


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
@pytest.mark.parametrize("given", [PLAIN, PARTS])
async def test_a_name_with_a_partition_inside_can_be_made_by_its_use(
    bench: AdminBench, domain: str, given: dict[str, Any]
) -> None:
    """Check that a partition's dead letters are in a topic named after it, which is plain under each rule."""
    await rule(bench, given)
    for local, parts in (
        ("a", 3),
        ("b-partition-a", 3),
        ("c-partition-", 3),
        ("d-partition-0-sub-DLQ", 0),
        ("e-partition-12-sub-RETRY", 0),
        ("f-partition-3b", 0),
        ("g-partition-0-y-partition-z", 0),
        ("h-partition-1", 0),
    ):
        name = NAME.namespace.topic(local, domain)
        for _ in range(2):
            assert await use(bench, name) == (parts if given is PARTS else 0), local


async def test_a_partitioned_topic_of_such_a_name_can_be_grown_and_deleted(
    bench: AdminBench,
) -> None:
    await rule(bench, PARTS)
    name = NAME.namespace.topic("x-partition-a")
    assert await use(bench, name) == 3
    await partitioned_topics.grow(bench.engine, name, 4)
    assert await existence.partitions_of(bench.engine, name) == 4
    await partitioned_topics.delete(bench.engine, name, force=True)
    assert await metadata.list_topics(bench.store, name.namespace) == ()
    with pytest.raises(PreconditionFailed, match="should not contain '-partition-'"):
        await partitioned_topics.create(bench.engine, name, 2, {})


async def test_dead_letters_of_a_partition_are_stored(bench: AdminBench) -> None:
    await rule(bench, PARTS)
    dead = NAME.namespace.topic("x-partition-0-sub-DLQ")
    await use(bench, dead)
    assert (await bench.publish(dead, 3)).failures == []
    assert (await bench.engine.call(LAST_MESSAGE_ID, OnTopic(dead)))["entryId"] == 2


async def test_the_record_of_an_interrupted_creation_can_be_deleted_or_reused(
    bench: AdminBench,
) -> None:
    """Check that a claim is no partitioned topic to any caller, and that its namespace can be emptied of it."""
    path = metadata.partitioned_path(NAME)
    await bench.store.create(path, metadata.CLAIM, make_parents=True)
    await metadata.create_missing(bench.store, NAME.partition_at(0))
    assert await existence.partitions_of(bench.engine, NAME) == 0
    await partitioned_topics.delete(bench.engine, NAME, force=False)
    assert await bench.store.exists(path) is None
    assert await metadata.list_topics(bench.store, NAME.namespace) == ()
    await bench.store.create(path, metadata.CLAIM)
    await partitioned_topics.create(bench.engine, NAME, 2, {})
    assert await existence.partitions_of(bench.engine, NAME) == 2
