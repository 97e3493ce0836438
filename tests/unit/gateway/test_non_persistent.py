"""Administration of non-persistent topics: there while they are loaded, and no verb about kept messages."""

from collections.abc import Awaitable
from typing import Any

import pytest

from engine.admin.api.arguments import MessagePosition, OnSubscription
from engine.admin.api.cursors import (
    CLEAR_BACKLOG,
    EXPIRE_MESSAGES,
    RESET_CURSOR,
    ExpireMessages,
    ResetCursor,
)
from engine.admin.api.rows import RowsSince
from engine.base.errors import (
    AlreadyExists,
    InvalidRequest,
    NotAcceptable,
    NotFound,
    PreconditionFailed,
    Refusal,
    Unsupported,
)
from engine.base.names import TopicName
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.managed.ledger import InitialPosition
from gateway.services.admin import (
    cursors,
    existence,
    lookup,
    messages,
    partitioned_topics,
    statistics,
    subscriptions,
    topics,
)
from tests.support.admin.bench import AdminBench
from tests.support.broker_bench import Client

pytestmark = pytest.mark.virtual_time

PLAIN = TopicName.parse("non-persistent://public/default/np")
PARENT = TopicName.parse("non-persistent://public/default/npp")


async def refusal(work: Awaitable[Any]) -> tuple[type[Refusal], str]:
    with pytest.raises(Refusal) as caught:
        await work
    return type(caught.value), caught.value.reason


async def listed(bench: AdminBench, namespace: TopicName = PLAIN) -> list[str]:
    return await topics.list_topics(bench.engine, "non-persistent", namespace.namespace)


async def use(bench: AdminBench, name: TopicName) -> Consumer:
    """Subscribe, which loads the topic."""
    consumer = Consumer(
        Client(),
        1,
        "c",
        SubscriptionType.SHARED,
        settings=bench.broker.running.context.settings,
        partition=name.partition,
        now_ms=0,
        acknowledges=False,
    )
    await lookup.owner_of(bench.engine, name)
    topic = await bench.broker.running.registry.get(name, create=True)
    await topic.subscriptions.attach(
        consumer, "s", durable=True, initial=InitialPosition.LATEST, properties={}
    )
    return consumer


async def test_a_non_persistent_topic_is_created_listed_and_deleted(bench: AdminBench) -> None:
    await topics.create(bench.engine, PLAIN, {})
    assert await listed(bench) == [str(PLAIN)]
    assert await refusal(topics.create(bench.engine, PLAIN, {})) == (
        AlreadyExists,
        "This topic already exists",
    )
    assert await partitioned_topics.get_metadata(bench.engine, PLAIN, allow_missing=False) == {
        "partitions": 0,
        "deleted": False,
    }
    await use(bench, PLAIN)
    assert await subscriptions.names(bench.engine, PLAIN) == ["s"]
    assert (await refusal(topics.delete(bench.engine, PLAIN, force=False)))[0] is PreconditionFailed
    await topics.delete(bench.engine, PLAIN, force=True)
    assert await listed(bench) == []
    await topics.delete(bench.engine, PLAIN, force=False)  # nothing to delete is no error
    missing = (NotFound, f"Topic {PLAIN} not found")
    assert await refusal(statistics.stats(bench.engine, PLAIN, {})) == missing
    assert await refusal(topics.unload(bench.engine, PLAIN)) == missing


async def test_unloading_removes_a_non_persistent_topic(bench: AdminBench) -> None:
    await use(bench, PLAIN)
    await topics.unload(bench.engine, PLAIN)
    assert await listed(bench) == []


async def test_statistics_of_a_non_persistent_topic_are_of_its_kind(bench: AdminBench) -> None:
    await use(bench, PLAIN)
    stats = await statistics.stats(bench.engine, PLAIN, {})
    assert (stats["msgDropRate"], stats["subscriptions"]["s"]["msgDropRate"]) == (0.0, 0.0)
    assert stats["subscriptions"]["s"]["isDurable"] is False
    assert "deduplicationStatus" not in stats
    internal = await statistics.internal_stats(bench.engine, PLAIN, with_metadata=False)
    assert (internal["entriesAddedCounter"], list(internal["cursors"])) == (0, ["s"])
    assert not any(internal["cursors"]["s"].values())
    assert "ledgers" not in internal
    operations = bench.broker.running.operations
    (row,) = (await operations.rows._topic_feed.since(RowsSince()))["rows"]
    assert (row[0], row[-2:]) == (str(PLAIN), [0, 0])


async def test_a_partitioned_non_persistent_topic_has_the_partitions_in_use(
    bench: AdminBench,
) -> None:
    engine = bench.engine
    await partitioned_topics.create(engine, PARENT, 3, {})
    assert await listed(bench) == []
    part = PARENT.partition_at(1)
    consumer = await use(bench, part)
    assert await listed(bench) == [str(part)]
    stats = await partitioned_topics.stats(engine, PARENT, {}, per_partition=True)
    assert list(stats["partitions"]) == [str(part)]
    assert stats["metadata"]["partitions"] == 3
    await partitioned_topics.grow(engine, PARENT, 5)
    assert await subscriptions.names(engine, PARENT) == ["s"]
    kind, _ = await refusal(partitioned_topics.delete(engine, PARENT, force=False))
    assert kind is PreconditionFailed
    bench.broker.running.registry.loaded(part).subscriptions["s"].detach(consumer)
    await partitioned_topics.delete(engine, PARENT, force=False)
    assert await listed(bench) == []
    assert await existence.partitions_of(engine, PARENT) == 0


async def test_verbs_about_kept_messages_are_refused(bench: AdminBench) -> None:
    await use(bench, PLAIN)
    engine = bench.engine
    position = MessagePosition(1, 1)
    calls: dict[str, tuple[Awaitable[Any], type[Refusal]]] = {
        "terminate": (topics.terminate(engine, PLAIN), NotAcceptable),
        "trim": (topics.trim(engine, PLAIN), Unsupported),
        "last message": (messages.last_message_id(engine, PLAIN), Unsupported),
        "by time": (messages.message_id_by_time(engine, PLAIN, 1), Unsupported),
        "examine": (messages.examine(engine, PLAIN, "latest", 1), Unsupported),
        "by id": (messages.message_by_id(engine, PLAIN, 1, 1), Unsupported),
        "peek": (messages.peek(engine, PLAIN, "s", 1), Unsupported),
        "skip": (cursors.skip(engine, PLAIN, "s", 1), Unsupported),
        "clear": (engine.call(CLEAR_BACKLOG, OnSubscription(PLAIN, "s")), Unsupported),
        "reset": (engine.call(RESET_CURSOR, ResetCursor(PLAIN, "s", 1)), Unsupported),
        "reset to": (cursors.reset_to_position(engine, PLAIN, "s", position), Unsupported),
        "expire": (
            engine.call(EXPIRE_MESSAGES, ExpireMessages(PLAIN, "s", 1)),
            Unsupported,
        ),
        "subscribe": (
            subscriptions.create(engine, PLAIN, "new", None, {}, replicated=False),
            InvalidRequest,
        ),
    }
    for what, (call, kind) in calls.items():
        refused, reason = await refusal(call)
        assert (what, refused) == (what, kind)
        assert "persistent topic" in reason
