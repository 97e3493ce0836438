"""Policies in force on a namespace and its topics; a change of them reaches loaded topics."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.base.errors import Conflict, NotFound, PreconditionFailed, Refusal
from engine.base.names import NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.store import StoreUnavailableError
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.policies.table import BY_NAME, SUBSCRIPTION_RATE
from gateway.services.admin import namespaces, policies, topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName.of("public", "default")
TOPIC = TopicName.parse("persistent://public/default/t")
TTL = BY_NAME["messageTTL"]
WITHIN_S = 30.0  # less than the interval at which all policies are read again


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    bench = AdminBench()
    await bench.start()
    yield bench
    await bench.close()


async def reaches(bench: AdminBench, seconds: int) -> None:
    topic = await bench.loaded(TOPIC)
    async with asyncio.timeout(WITHIN_S):
        while topic.policies.backlog.message_ttl_s != seconds:
            await asyncio.sleep(0.01)
    assert bench.broker.running.registry.loaded(TOPIC) is topic


async def make(bench: AdminBench) -> None:

    await metadata.create_missing(bench.store, TOPIC)


async def test_changes_of_a_namespace_reach_its_loaded_topic(bench: AdminBench) -> None:
    await make(bench)
    await reaches(bench, 0)
    await policies.set_on_namespace(bench.engine, NAMESPACE, TTL, 60)
    await reaches(bench, 60)
    await policies.set_on_namespace(bench.engine, NAMESPACE, BY_NAME["retention"], {
        "retentionTimeInMinutes": 5, "retentionSizeInMB": -1
    })  # fmt: skip
    await policies.set_on_namespace(bench.engine, NAMESPACE, TTL, None)
    await reaches(bench, 0)
    assert (await bench.loaded(TOPIC)).policies.storage.retention_minutes == 5


async def test_a_change_is_reported_again_until_it_could_be_read(
    bench: AdminBench, monkeypatch: Any
) -> None:
    await make(bench)
    await reaches(bench, 0)
    running = bench.broker.running
    read, silent = running.catalog.policies, 2

    async def failing(topic: TopicName) -> Any:
        nonlocal silent
        if silent:
            silent -= 1
            raise StoreUnavailableError("silent")
        return await read(topic)

    monkeypatch.setattr(running.catalog, "policies", failing)
    monkeypatch.setattr("engine.broker.upkeep.CHANGES_RETRY_S", 0.05)
    await policies.set_on_namespace(bench.engine, NAMESPACE, TTL, 60)
    await reaches(bench, 60)
    assert not silent


async def test_the_level_of_a_value_is_reported(bench: AdminBench) -> None:
    await make(bench)
    await policies.set_on_namespace(bench.engine, NAMESPACE, TTL, 60)
    in_force = await policies.in_force_on_namespace(bench.engine, NAMESPACE)
    assert in_force["messageTTL"] == {"value": 60, "level": "namespace", "own": 60, "default": 0}
    topics_max = {"value": 0, "level": "broker", "own": None, "default": 0}
    assert in_force["maxTopicsPerNamespace"] == topics_max
    on_topic = await policies.of_topic(bench.engine, TOPIC)
    assert on_topic["messageTTL"] == {
        **{"value": 60, "level": "namespace", "own": None, "everywhere": None},
        **{"inherited": 60, "inherited_level": "namespace"},
    }
    assert "maxTopicsPerNamespace" not in on_topic


async def test_a_topics_value_for_all_clusters_applies_without_a_local_one(
    bench: AdminBench,
) -> None:
    async def effective() -> tuple[Any, ...]:
        policy = (await policies.of_topic(bench.engine, TOPIC))[TTL.name]
        names = ("value", "level", "own", "everywhere", "inherited", "inherited_level")
        return tuple(policy[name] for name in names)

    await make(bench)
    await policies.set_on_namespace(bench.engine, NAMESPACE, TTL, 60)
    await policies.set_on_topic(bench.engine, TOPIC, TTL, 7, everywhere=True)
    assert await effective() == (7, "global", None, 7, 7, "global")
    await reaches(bench, 7)
    await policies.set_on_topic(bench.engine, TOPIC, TTL, 5)
    assert await effective() == (5, "topic", 5, 7, 7, "global")
    await reaches(bench, 5)
    await policies.set_on_topic(bench.engine, TOPIC, TTL, None)
    await reaches(bench, 7)
    await policies.set_on_topic(bench.engine, TOPIC, TTL, None, everywhere=True)
    assert await effective() == (60, "namespace", None, None, 60, "namespace")
    await reaches(bench, 60)


async def test_a_subscriptions_local_rate_overrides_that_for_all_clusters(
    bench: AdminBench,
) -> None:
    async def set_rate(name: str, messages: int, *, everywhere: bool) -> None:
        given = {"dispatchThrottlingRateInMsg": messages, "dispatchThrottlingRateInByte": -1}
        await policies.set_on_topic(
            *(bench.engine, TOPIC, SUBSCRIPTION_RATE, SUBSCRIPTION_RATE.read(given)),
            subscription=name,
            everywhere=everywhere,
        )

    await make(bench)
    await set_rate("a", 1, everywhere=True)
    await set_rate("b", 2, everywhere=True)
    await set_rate("b", 3, everywhere=False)
    rates = (await bench.broker.running.catalog.policies(TOPIC)).rates.by_subscription
    assert {name: rate.messages for name, rate in rates.items()} == {"a": 1, "b": 3}
    policy = (await policies.of_topic(bench.engine, TOPIC))[SUBSCRIPTION_RATE.name]
    assert (set(policy["subscriptions"]), set(policy["subscriptions_everywhere"])) == (
        {"b"},
        {"a", "b"},
    )


async def test_a_missing_topic_or_namespace_has_no_policies(bench: AdminBench) -> None:
    for name, kind in (("nope", NotFound), ("p-partition-0", PreconditionFailed)):
        with pytest.raises(Refusal) as refused:
            await policies.of_topic(bench.engine, NAMESPACE.topic(name))
        assert type(refused.value) is kind
    with pytest.raises(Refusal) as refused:
        await policies.in_force_on_namespace(bench.engine, NamespaceName.of("public", "nope"))
    assert type(refused.value) is NotFound


async def test_a_change_is_refused_when_the_value_changed_since_it_was_seen(
    bench: AdminBench,
) -> None:
    await policies.set_on_namespace(bench.engine, NAMESPACE, TTL, 60, expected=None)
    with pytest.raises(Refusal) as refused:
        await policies.set_on_namespace(bench.engine, NAMESPACE, TTL, 70, expected=None)
    assert type(refused.value) is Conflict
    await policies.set_on_namespace(bench.engine, NAMESPACE, TTL, 70, expected=60)
    stored = await bench.store.get(paths.namespace_policies(str(NAMESPACE)))
    assert b'"message_ttl_in_seconds":70' in stored[0]


async def test_a_deleted_namespace_leaves_no_log_of_its_topics_policies(bench: AdminBench) -> None:
    name = NamespaceName.of("public", "other")
    topic = name.topic("t")
    await create_namespace(bench.store, name, None, cluster="standalone")
    await metadata.create_missing(bench.store, topic)
    await policies.set_on_topic(bench.engine, topic, TTL, 5)
    registry = bench.broker.running.registry
    assert [str(loaded.name.local) for loaded in registry.topics(name)] == ["__change_events"]
    with pytest.raises(Conflict):
        await namespaces.delete(bench.engine, name)
    assert registry.topics(name), "a refused deletion unloads nothing"
    await topics.delete(bench.engine, topic, force=False)
    await namespaces.delete(bench.engine, name)
    assert registry.topics(name) == []
    await create_namespace(bench.store, name, None, cluster="standalone")
    await metadata.create_missing(bench.store, topic)
    assert (await policies.of_topic(bench.engine, topic))["messageTTL"]["own"] is None
    await policies.set_on_topic(bench.engine, topic, TTL, 6)
    assert (await policies.of_topic(bench.engine, topic))["messageTTL"]["own"] == 6
