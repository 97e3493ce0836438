"""A verb on a partitioned topic of three when one partition fails, is in use, or is made anew meanwhile."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, OnSubscription, OnTopic
from engine.admin.api.cursors import (
    CLEAR_BACKLOG,
    EXPIRE_MESSAGES,
    RESET_CURSOR,
    ExpireMessages,
    ResetCursor,
)
from engine.admin.api.statistics import TOPIC_STATS
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    DURABLE_SUBSCRIPTIONS,
    DeleteSubscription,
)
from engine.admin.api.topics import DELETE_TOPIC, TRIM, UNLOAD, DeleteTopic
from engine.base.errors import Conflict, Forbidden, NotReady, Refusal
from engine.base.names import TopicName
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.managed.ledger import InitialPosition
from engine.rpc.operation import A, Operation, R
from engine.tenancy import topics as metadata
from gateway.services.admin import cursors, partitioned_topics, statistics, subscriptions, topics
from gateway.services.admin.subscriptions import S
from tests.support.admin.bench import AdminBench
from tests.support.broker_bench import Client

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/pt")
PARTS = [TOPIC.partition_at(index) for index in range(3)]
ENTRIES = 4

Call = Callable[[AdminBench], Awaitable[object]]


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    """A bench with a topic of three partitions, a subscription ``s`` and a backlog on each."""
    made = AdminBench()
    await made.start()
    await partitioned_topics.create(made.engine, TOPIC, 3, {})
    await subscribe(made, "s")
    for part in PARTS:
        await made.publish(part, ENTRIES)
    yield made
    await made.close()


async def subscribe(bench: AdminBench, name: str) -> None:
    await subscriptions.create(bench.engine, TOPIC, name, EARLIEST_MESSAGE, {}, replicated=False)


def every(operation: Operation[S, None], args: S) -> Call:
    return lambda bench: subscriptions.on_any(bench.engine, operation, args)


async def backlogs(bench: AdminBench, name: str = "s") -> list[int]:
    stats = [await statistics.stats(bench.engine, part, {}) for part in PARTS]
    return [
        partition["subscriptions"].get(name, {"msgBacklog": -1})["msgBacklog"]
        for partition in stats
    ]


def fail_on(bench: AdminBench, part: TopicName, operation: Operation[Any, Any]) -> None:
    """Let the broker of ``part`` fail ``operation``."""

    def before(called: Operation[Any, Any], args: Any) -> None:
        if called == operation and args.topic == part:
            raise NotReady("Broker went away")

    bench.admin.before = before


VERBS: dict[str, tuple[Operation[Any, Any], Call, list[int], list[int]]] = {
    # the operation that fails on the second partition; the verb; backlogs after the failure, and after a repeat
    "clear": (
        CLEAR_BACKLOG,
        every(CLEAR_BACKLOG, OnSubscription(TOPIC, "s")),
        [0, ENTRIES, 0],
        [0, 0, 0],
    ),
    "reset": (
        RESET_CURSOR,
        every(RESET_CURSOR, ResetCursor(TOPIC, "s", 3_000)),
        [2, ENTRIES, 2],
        [2, 2, 2],
    ),
    "unsubscribe": (
        DELETE_SUBSCRIPTION,
        every(DELETE_SUBSCRIPTION, DeleteSubscription(TOPIC, "s")),
        [-1, ENTRIES, -1],
        [-1, -1, -1],
    ),
    "unload": (
        UNLOAD,
        lambda bench: topics.unload(bench.engine, TOPIC),
        [ENTRIES] * 3,
        [ENTRIES] * 3,
    ),
    "trim": (
        TRIM,
        lambda bench: topics.trim(bench.engine, TOPIC),
        [ENTRIES] * 3,
        [ENTRIES] * 3,
    ),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_the_partition_that_failed_is_named_and_a_repeat_finishes(
    bench: AdminBench, verb: str
) -> None:
    operation, call, half, whole = VERBS[verb]
    fail_on(bench, PARTS[1], operation)
    with pytest.raises(
        Refusal, match=r"went away \(.*pt-partition-1; 2 of 3 partitions"
    ) as refused:
        await call(bench)
    assert type(refused.value) is NotReady
    bench.admin.before = None
    assert await backlogs(bench) == half
    await call(bench)
    assert await backlogs(bench) == whole


async def test_expiry_names_the_partition_that_had_nothing_to_expire(bench: AdminBench) -> None:
    await bench.admin.call(CLEAR_BACKLOG, OnSubscription(PARTS[1], "s"))
    expire = every(EXPIRE_MESSAGES, ExpireMessages(TOPIC, "s", 60))
    with pytest.raises(Refusal, match=r"pt-partition-1; 2 of 3 partitions succeeded") as refused:
        await expire(bench)
    assert type(refused.value) is Conflict
    assert await backlogs(bench) == [0, 0, 0]


async def test_a_subscription_closed_to_the_caller_does_not_keep_others_from_expiring(
    bench: AdminBench,
) -> None:
    for name in ("a", "z"):
        await subscribe(bench, name)

    def refuse(called: Operation[Any, Any], args: Any) -> None:
        if called == EXPIRE_MESSAGES and args.subscription == "s":
            raise Forbidden("s is closed")

    bench.admin.before = refuse
    with pytest.raises(Forbidden, match="s is closed"):
        await cursors.expire_all(bench.engine, TOPIC, 60)
    assert await backlogs(bench) == [ENTRIES] * 3
    assert await backlogs(bench, "a") == await backlogs(bench, "z") == [0, 0, 0]


async def test_a_subscription_that_failed_on_one_partition_is_completed_by_a_repeat(
    bench: AdminBench,
) -> None:
    fail_on(bench, PARTS[2], CREATE_SUBSCRIPTION)
    with pytest.raises(Refusal, match="pt-partition-2; 2 of 3 partitions succeeded"):
        await subscribe(bench, "new")
    bench.admin.before = None
    await subscribe(bench, "new")
    assert await backlogs(bench, "new") == [ENTRIES] * 3
    with pytest.raises(Refusal, match="Subscription already exists"):
        await subscribe(bench, "new")


async def test_a_read_of_all_partitions_fails_when_one_does(bench: AdminBench) -> None:
    fail_on(bench, PARTS[0], TOPIC_STATS)
    with pytest.raises(Refusal, match="pt-partition-0"):
        await partitioned_topics.stats(bench.engine, TOPIC, {}, per_partition=True)


async def test_a_topic_that_is_used_is_deleted_whole_or_not_at_all(bench: AdminBench) -> None:
    topic, client = await bench.loaded(PARTS[1]), Client()
    consumer = Consumer(
        client,
        1,
        "c",
        SubscriptionType.SHARED,
        settings=topic.context.settings,
        partition=1,
        now_ms=0,
    )
    await topic.subscriptions.attach(
        consumer, "s", durable=True, initial=InitialPosition.EARLIEST, properties={}
    )
    with pytest.raises(Refusal, match=r"active producers/subscriptions \(.*pt-partition-1"):
        await partitioned_topics.delete(bench.engine, TOPIC, force=False)
    assert await backlogs(bench) == [ENTRIES] * 3
    await partitioned_topics.delete(bench.engine, TOPIC, force=True)
    assert client.dropped
    assert await metadata.find_partitions(bench.store, TOPIC) is None


async def test_a_deletion_that_failed_on_one_partition_is_finished_by_a_repeat(
    bench: AdminBench,
) -> None:
    fail_on(bench, PARTS[1], DELETE_TOPIC)
    with pytest.raises(Refusal, match="pt-partition-1; 2 of 3 partitions succeeded"):
        await partitioned_topics.delete(bench.engine, TOPIC, force=False)
    bench.admin.before = None
    assert await metadata.topic_exists(bench.store, PARTS[1])
    await partitioned_topics.delete(bench.engine, TOPIC, force=False)
    assert await metadata.list_topics(bench.store, TOPIC.namespace) == ()


async def test_no_client_recreates_a_partition_while_its_topic_is_deleted(
    bench: AdminBench,
) -> None:
    refused: list[str] = []
    registry = bench.broker.running.registry
    real = bench.admin.call

    async def and_come_back(operation: Operation[A, R], args: A, **who: str) -> R:
        answer = await real(operation, args, **who)
        if isinstance(args, DeleteTopic):
            try:
                await registry.get(args.topic, create=True)  # what a client's reconnect does
            except Exception as error:  # any refusal, whose kind is looked at below
                refused.append(f"{type(error).__name__}: {error}")
        return answer

    bench.admin.call = and_come_back  # type: ignore[method-assign]
    await partitioned_topics.delete(bench.engine, TOPIC, force=True)
    assert refused == [f"ServiceNotReady: Topic {TOPIC} is being deleted"] * 3
    assert await metadata.list_topics(bench.store, TOPIC.namespace) == ()
    await partitioned_topics.create(bench.engine, TOPIC, 2, {})  # and all of it anew
    assert await bench.admin.call(DURABLE_SUBSCRIPTIONS, OnTopic(PARTS[0])) == {}
