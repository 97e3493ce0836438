"""Resource groups: shares that add up to the group's rate, reckoned alike by all, and brokers that keep to them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.base.clock import SystemClock
from engine.base.names import NamespaceName, TopicName
from engine.broker.policies import (
    NO_LIMIT,
    MaxRate,
)
from engine.broker.service import BrokerService
from engine.broker.topics.group_shares import WAITING, GroupShares, fair_shares, share
from engine.broker.topics.rates import GroupRates, Groups
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.resources.resource_groups import join_resource_group, put_resource_group
from tests.support.admin.broker_instance import BrokerInstance
from tests.support.waiting import stays

NAMESPACE = NamespaceName.parse("public/shared")
TOPICS = [TopicName.parse(f"persistent://public/shared/t{n}") for n in range(16)]


@given(
    st.integers(1, 10**6),
    st.dictionaries(
        st.text("abcdef", min_size=1, max_size=2),
        st.floats(0, 1e7) | st.just(WAITING),
        min_size=1,
    ),
)
def test_shares_add_up_and_a_waiting_broker_gets_at_least_as_much_as_others(
    total: int, needs: dict[str, float]
) -> None:
    shares = fair_shares(total, needs)
    assert sum(shares.values()) == pytest.approx(total)
    waiting = [shares[who] for who, need in needs.items() if need == WAITING]
    for who, need in needs.items():
        assert shares[who] >= min(need, total / len(needs)) * 0.999
        if waiting:
            assert waiting[0] >= shares[who] * 0.999


def test_a_waiting_broker_gets_the_unused_shares_of_others() -> None:
    used = {"a": (90.0, True), "b": (4.0, False)}
    assert share(100, used, "a") == 90
    assert share(100, used, "b") == 10
    assert share(0, used, "a") == 0
    assert share(1, {"a": (1.0, True), "b": (1.0, True)}, "b") == 1
    assert share(100, {"a": (70.0, True), "b": (30.0, True)}, "b") == 50


@pytest.fixture
async def instance() -> AsyncIterator[BrokerInstance]:
    made = BrokerInstance()
    await made.cluster.start("b0")
    yield made
    await made.close()


def group(broker: BrokerService) -> GroupRates | None:
    return broker.running.registry.groups.by_name.get("g")


def rates(broker: BrokerService) -> tuple[MaxRate, MaxRate]:
    shares = group(broker)
    return (shares.published.rate, shares.dispatched.rate) if shares else (NO_LIMIT, NO_LIMIT)


async def reached(instance: BrokerInstance, *wanted: tuple[MaxRate, MaxRate]) -> None:
    async with asyncio.timeout(30):
        while sorted(rates(broker) for broker, _ in instance.brokers) != sorted(wanted):
            await asyncio.sleep(0.02)


@pytest.mark.virtual_time
async def test_brokers_share_a_group_and_a_stopped_one_frees_its_share(
    instance: BrokerInstance,
) -> None:
    first, second = [await instance.broker() for _ in range(2)]
    store = instance.cluster.store
    await create_namespace(store, NAMESPACE, None, cluster="standalone", default_bundles=64)
    for topic in TOPICS:
        await instance.admin.call(CREATE_TOPIC, CreateTopic(topic))
    assert first.running.registry.topics()
    assert second.running.registry.topics()
    await put_resource_group(store, "g", {"publishRateInMsgs": 100})
    await join_resource_group(store, NAMESPACE, "g")
    half = MaxRate(messages=50), NO_LIMIT
    await reached(instance, half, half)
    loaded = first.running.registry.topics()[0]
    shares = group(first)
    assert shares is not None
    assert shares.publish in loaded.stages
    await put_resource_group(store, "g", {"dispatchRateInBytes": 1000})
    half = MaxRate(messages=50), MaxRate(size=500)
    await reached(instance, half, half)
    assert shares.dispatched in loaded.rates.dispatch
    await store.create(
        paths.group_usage("g", "other:8080"),
        b'{"publish":[10.0,0.0,true],"dispatch":[0.0,0.0,false]}',
        make_parents=True,
    )
    await reached(instance, *[(MaxRate(messages=3), MaxRate(size=333))] * 2)
    await store.delete(paths.group_usage("g", "other:8080"))
    await reached(instance, half, half)
    await instance.stop(second)
    whole = MaxRate(messages=100), MaxRate(size=1000)
    await reached(instance, whole)
    await join_resource_group(store, NAMESPACE, None)
    await reached(instance, (NO_LIMIT, NO_LIMIT))
    async with asyncio.timeout(30):
        while await store.children(f"{paths.GROUP_USAGE}/g") or shares.publish in loaded.stages:
            await asyncio.sleep(0.02)


@pytest.mark.virtual_time
async def test_a_group_that_does_not_exist_is_no_limit_until_it_does(
    instance: BrokerInstance,
) -> None:
    broker = await instance.broker()
    store = instance.cluster.store
    await create_namespace(store, NAMESPACE, None, cluster="standalone")
    await put_resource_group(store, "g", {"publishRateInMsgs": 7})
    await join_resource_group(store, NAMESPACE, "g")
    await instance.admin.call(CREATE_TOPIC, CreateTopic(TOPICS[0]))
    await reached(instance, (MaxRate(messages=7), NO_LIMIT))
    await store.delete(paths.resource_group("g"))
    await reached(instance, (NO_LIMIT, NO_LIMIT))
    await store.create(paths.resource_group("g"), b'{"publishRateInMsgs":9}')
    await reached(instance, (MaxRate(messages=9), NO_LIMIT))
    await store.put(paths.resource_group("g"), b"[]")
    await stays(lambda: rates(broker) == (MaxRate(messages=9), NO_LIMIT), 1.5)  # unreadable


@pytest.mark.virtual_time
async def test_a_group_that_fails_unexpectedly_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups, shared = Groups(SystemClock()), []
    groups.by_name = {name: GroupRates(SystemClock(), name) for name in "ab"}
    shares = GroupShares(MemoryServer().session(), groups, "broker", SystemClock())

    async def share_one(name: str, group: GroupRates) -> None:
        shared.append(name)
        if name == "a":
            raise ZeroDivisionError("planted")

    monkeypatch.setattr(shares, "_share", share_one)
    groups.on_new()
    shares.start()
    while len(shared) < 4:
        await asyncio.sleep(0.1)
    await shares.close()
    assert shared[:4] == ["a", "b", "a", "b"]
