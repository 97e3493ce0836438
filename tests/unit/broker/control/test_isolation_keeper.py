"""Isolation policies while brokers acquire and release bundles: real brokers, one bookie, metadata in memory."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.admin.api.arguments import OnBundle, OnTopic
from engine.admin.api.bundles import UNLOAD_BUNDLE
from engine.admin.api.topics import LOOKUP
from engine.base.errors import NotReady
from engine.base.names import NamespaceName, TopicName
from engine.broker.service import BrokerService
from engine.metadata import paths
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.resources.isolation import delete_isolation_policy, set_isolation_policy
from tests.support.admin.broker_instance import BrokerInstance
from tests.support.waiting import stays

pytestmark = pytest.mark.virtual_time

C = "standalone"
NAMESPACE = NamespaceName.parse("public/iso")
TOPICS = [TopicName.parse(f"persistent://public/iso/t{n}") for n in range(12)]
OTHERS = [TopicName.parse(f"persistent://public/others/t{n}") for n in range(12)]


@pytest.fixture
async def instance() -> AsyncIterator[BrokerInstance]:
    made = BrokerInstance()
    await made.cluster.start("b0")
    yield made
    await made.close()


async def isolate(
    instance: BrokerInstance, primary: BrokerService, secondary: BrokerService, scope: str = ""
) -> None:
    data = {
        "namespaces": ["public/iso"],
        "primary": [primary.record.id.replace(".", "\\.")],
        "secondary": [secondary.record.id],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
        **({"unload_scope": scope} if scope else {}),
    }
    await set_isolation_policy(instance.cluster.store, C, "p", data)


async def place(instance: BrokerInstance, topics: list[TopicName]) -> set[str]:
    """Look up ``topics`` and return the native URLs of their brokers."""
    answers = [await instance.admin.call(LOOKUP, OnTopic(topic)) for topic in topics]
    return {answer["brokerUrl"] for answer in answers}


async def settled(instance: BrokerInstance, topics: list[TopicName], *on: BrokerService) -> None:
    wanted = {broker.record.service_url for broker in on}
    async with asyncio.timeout(30):
        while True:
            try:
                if await place(instance, topics) == wanted:
                    return
            except NotReady:
                pass  # a bundle is being released
            await asyncio.sleep(0.02)


async def namespace(instance: BrokerInstance) -> None:
    """Create both namespaces with so many bundles that every broker owns some."""
    for name in (NAMESPACE, NamespaceName.parse("public/others")):
        await create_namespace(instance.cluster.store, name, None, cluster=C, default_bundles=64)


async def test_a_namespace_moves_to_its_primary_and_others_leave_it(
    instance: BrokerInstance,
) -> None:
    first, second, third = [await instance.broker() for _ in range(3)]
    await namespace(instance)
    await place(instance, TOPICS + OTHERS)
    await isolate(instance, first, second)
    await settled(instance, TOPICS, first)
    await settled(instance, OTHERS, second, third)
    await instance.stop(first)
    await settled(instance, TOPICS, second)
    again = await instance.broker(http=first.http_port)
    await settled(instance, TOPICS, again)
    await delete_isolation_policy(instance.cluster.store, C, "p")
    await settled(instance, TOPICS, again)
    await settled(instance, OTHERS, second, third)


async def test_bundles_stay_with_unload_scope_none_and_new_ones_go_to_the_primary(
    instance: BrokerInstance,
) -> None:
    first, second = [await instance.broker() for _ in range(2)]
    await namespace(instance)
    before = {topic: await place(instance, [topic]) for topic in TOPICS}
    await isolate(instance, first, first, scope="none")

    async def unmoved() -> bool:
        return {topic: await place(instance, [topic]) for topic in TOPICS} == before

    await stays(unmoved, 0.2)
    for broker in (first, second):
        await instance.admin.call_on(
            next(b for b in await instance.admin.brokers() if b.id == broker.record.id),
            UNLOAD_BUNDLE,
            OnBundle(NAMESPACE),
        )
    assert await place(instance, TOPICS) == {first.record.service_url}


async def test_a_bundle_that_no_broker_may_serve_is_not_placed(
    instance: BrokerInstance,
) -> None:
    broker = await instance.broker()
    await namespace(instance)
    store = instance.cluster.store
    await store.create(paths.isolation_policies(C), b'{"p":{"namespaces":["["]}}')
    with pytest.raises(NotReady, match="cannot be read"):
        await place(instance, TOPICS)
    await store.delete(paths.isolation_policies(C))
    await isolate(instance, broker, broker)
    with pytest.raises(NotReady, match="No broker may serve public/others"):
        await place(instance, OTHERS)
    assert await place(instance, TOPICS) == {broker.record.service_url}
    await delete_isolation_policy(store, C, "p")
    assert await place(instance, OTHERS) == {broker.record.service_url}
