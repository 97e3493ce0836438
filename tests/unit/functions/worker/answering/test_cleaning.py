"""A deleted function leaves no subscription, no state and no lease, and nothing before its instances have ended."""

from collections.abc import AsyncIterator

import pytest

from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.base.names import TopicName
from engine.metadata import paths
from engine.tenancy.topics import topic_exists
from tests.support.functions.several_workers import NAMESPACE, SeveralWorkers, details, on
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

INPUT = NAMESPACE.topic("f-in")
STATE = NAMESPACE.topic("__function_state_f")


@pytest.fixture
async def workers() -> AsyncIterator[SeveralWorkers]:
    made = SeveralWorkers()
    await made.start(2)
    await until(lambda: any(worker.leads for worker in made.workers))
    try:
        yield made
    finally:
        await made.close()


async def subscribed(workers: SeveralWorkers, topic: TopicName, *names: str) -> None:
    await workers.admin.call(CREATE_TOPIC, CreateTopic(topic))
    for name in names:
        await workers.admin.call(CREATE_SUBSCRIPTION, CreateSubscription(topic, name))


async def subscriptions(workers: SeveralWorkers, topic: TopicName) -> list[str]:
    path = paths.managed_ledger(topic.managed_ledger_name)
    return await workers.brokers.store.children(path)


async def test_a_deleted_function_leaves_nothing_of_its_own(workers: SeveralWorkers) -> None:
    own = "public%2Fdefault%2Ff"
    await subscribed(workers, INPUT, "public/default/f", "another")
    await subscribed(workers, STATE)
    await workers.client.create(on("f"), details("f", 2), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=2))
    assert await subscriptions(workers, INPUT) == ["another", own]
    await workers.client.delete(on("f"))

    async def cleaned() -> bool:
        left = await subscriptions(workers, INPUT)
        leases = paths.function_instances("public/default/f")
        return left == ["another"] and await workers.brokers.store.exists(leases) is None

    await until(cleaned)
    assert workers.instances == []
    assert not await topic_exists(workers.brokers.store, STATE)


async def test_a_subscription_that_is_to_stay_stays(workers: SeveralWorkers) -> None:
    kept = details("f")
    kept.source.cleanupSubscription = False
    kept.source.subscriptionName = "mine"
    await subscribed(workers, INPUT, "mine")
    await workers.client.create(on("f"), kept, "builtin://x")
    await until(lambda: workers.runs("f"))
    await workers.client.delete(on("f"))
    leases = paths.function_instances("public/default/f")

    async def cleaned() -> bool:
        return await workers.brokers.store.exists(leases) is None

    await until(cleaned)
    assert await subscriptions(workers, INPUT) == ["mine"]
