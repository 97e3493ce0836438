"""Permissions stored by namespace, topic and subscription."""

import asyncio

import pytest

from engine.base.errors import InvalidRequest, NotFound
from engine.base.names import NamespaceName, TopicName
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.tenancy import grants
from engine.tenancy.checks import read_actions, read_roles
from engine.tenancy.namespaces import bootstrap

NS = NamespaceName.parse("public/default")
TOPIC = TopicName.parse("persistent://public/default/t")


@pytest.fixture
async def store() -> MetadataStore:
    store = MemoryServer().session()
    await bootstrap(
        store, cluster="standalone", broker_url="pulsar://b:6650", web_url="http://b:8080"
    )
    return store


def test_actions_are_known_words_each_once() -> None:
    assert read_actions(["sinks", "consume", "sinks"]) == ["consume", "sinks"]
    assert read_roles(["b", "a", "b"]) == ["a", "b"]
    for bad in (None, {"a": 1}, ["eat"], "produce"):
        with pytest.raises(InvalidRequest, match="ctions"):
            read_actions(bad)
    for bad in (None, 5, [5]):
        with pytest.raises(InvalidRequest, match="oles"):
            read_roles(bad)


async def test_a_topics_roles_have_what_the_namespace_grants_too(store: MetadataStore) -> None:
    await grants.grant(store, NS, "app", ["produce"])
    await grants.grant(store, NS, "app", ["consume"], topic=TOPIC)
    assert await grants.of_namespace(store, NS) == {"app": ["produce"]}
    assert await grants.of_topic(store, TOPIC) == {"app": ["produce", "consume"]}
    await grants.grant(store, NS, "app", ["sinks"])
    # a grant replaces the actions of the role
    assert await grants.of_namespace(store, NS) == {"app": ["sinks"]}
    await grants.revoke(store, NS, "app")
    await grants.revoke(store, NS, "app")
    assert await grants.of_topic(store, TOPIC) == {"app": ["consume"]}
    await grants.revoke(store, NS, "app", topic=TOPIC)
    assert await grants.of_topic(store, TOPIC) == {}


async def test_a_deleted_topics_permissions_are_forgotten(store: MetadataStore) -> None:
    await grants.grant(store, NS, "app", ["consume"], topic=TOPIC)
    await grants.forget_topic(store, TOPIC)
    await grants.forget_topic(store, TOPIC)
    assert await grants.of_topic(store, TOPIC) == {}


async def test_a_subscription_without_roles_is_not_listed(store: MetadataStore) -> None:
    await grants.grant_on_subscription(store, NS, "sub", ["a", "b"])
    await grants.revoke_on_subscription(store, NS, "sub", "a")
    assert await grants.of_subscriptions(store, NS) == {"sub": ["b"]}
    await grants.revoke_on_subscription(store, NS, "sub", "b")
    assert await grants.of_subscriptions(store, NS) == {}
    with pytest.raises(NotFound, match="couldn't find subscription"):
        await grants.revoke_on_subscription(store, NS, "sub", "b")


async def test_concurrent_grants_are_all_kept(store: MetadataStore) -> None:
    roles = [f"role-{i}" for i in range(30)]
    await asyncio.gather(
        *(grants.grant(store, NS, role, ["produce"]) for role in roles),
        *(grants.grant(store, NS, role, ["consume"], topic=TOPIC) for role in roles),
    )
    both = {role: ["produce", "consume"] for role in roles}
    assert await grants.of_topic(store, TOPIC) == both


async def test_nothing_is_granted_in_a_namespace_that_is_not_there(store: MetadataStore) -> None:
    missing = NamespaceName.parse("public/missing")
    for attempt in (
        grants.grant(store, missing, "app", ["produce"]),
        grants.revoke(store, missing, "app"),
        grants.of_namespace(store, missing),
        grants.grant_on_subscription(store, missing, "s", ["app"]),
    ):
        with pytest.raises(NotFound):
            await attempt
