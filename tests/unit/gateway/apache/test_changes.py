"""Changes of an Apache Pulsar cluster: each is the call of its REST, and everything else is refused."""

from typing import Any

import pytest

from engine.admin.api.arguments import OnSubscription, OnTopic
from engine.admin.api.cursors import CLEAR_BACKLOG, RESET_CURSOR, SKIP_MESSAGES, ResetCursor, Skip
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    SUBSCRIPTION_HOLDINGS,
    CreateSubscription,
    DeleteSubscription,
)
from engine.admin.api.topics import (
    CREATE_TOPIC,
    DELETE_TOPIC,
    HOLDINGS,
    UNLOAD,
    CreateTopic,
    DeleteTopic,
)
from engine.base.errors import Conflict, Unsupported
from engine.base.names import NamespaceName, TopicName
from engine.metadata import paths
from engine.tenancy.namespaces import create_namespace, delete_namespace, update_policies
from engine.tenancy.tenants import create_tenant, update_tenant
from gateway.apache.changes import policy_calls
from gateway.services.admin import partitioned_topics
from gateway.services.engine_link import Engine, EngineLink
from tests.support.net.recorded_apache import RecordedApache

BEHIND = TopicName.parse("persistent://acme/ns5/orders-0005")
PATH = "/admin/v2/persistent/acme/ns5/orders-0005"
SUB = f"{PATH}/subscription/worker"
STATS = f"{PATH}/stats"


def test_operations_are_calls_of_the_rest(link: EngineLink, apache: RecordedApache) -> None:
    sub = OnSubscription(BEHIND, "worker")

    async def change(engine: Engine) -> None:
        await engine.call(CREATE_TOPIC, CreateTopic(TopicName.parse("persistent://acme/ns5/a b")))
        await engine.call(UNLOAD, OnTopic(BEHIND))
        await engine.call(CREATE_SUBSCRIPTION, CreateSubscription(BEHIND, "more"))
        await engine.call(SKIP_MESSAGES, Skip(BEHIND, "worker", 3))
        await engine.call(CLEAR_BACKLOG, sub)
        await engine.call(RESET_CURSOR, ResetCursor(BEHIND, "worker", 1234))

    link.run(change)
    assert [(made.method, made.path) for made in apache.changes] == [
        ("PUT", "/admin/v2/persistent/acme/ns5/a%20b"),
        ("PUT", f"{PATH}/unload"),
        ("PUT", f"{PATH}/subscription/more"),
        ("POST", f"{SUB}/skip/3"),
        ("POST", f"{SUB}/skip_all"),
        ("POST", f"{SUB}/resetcursor/1234"),
    ]


def test_a_topic_is_read_again_just_before_its_deletion(
    link: EngineLink, apache: RecordedApache
) -> None:
    async def delete(engine: Engine, seen: Any) -> None:
        await engine.call(DELETE_TOPIC, DeleteTopic(BEHIND, True, seen))

    async def held(engine: Engine) -> Any:
        return (await engine.call(HOLDINGS, OnTopic(BEHIND)))["seen"]

    seen = link.run(held)
    stats = apache.answers[STATS]
    stats["subscriptions"]["late"] = {"msgBacklog": 0, "consumers": []}
    with pytest.raises(Conflict, match="The subscription late was created since the preview"):
        link.run(lambda engine: delete(engine, seen))
    assert apache.changes == []
    del stats["subscriptions"]["late"]
    link.run(lambda engine: delete(engine, seen))
    (made,) = apache.changes
    assert (made.method, made.path, made.query) == ("DELETE", PATH, "force=true")


def test_a_subscription_is_kept_when_a_consumer_came(
    link: EngineLink, apache: RecordedApache
) -> None:
    async def held(engine: Engine) -> Any:
        answer = await engine.call(SUBSCRIPTION_HOLDINGS, OnSubscription(BEHIND, "worker"))
        assert answer["messages"] is None  # entries are known, messages are not
        return answer["seen"]

    seen = link.run(held)
    stats = apache.answers[STATS]
    stats["subscriptions"]["worker"]["consumers"].append({"consumerName": "new", "address": "/a:1"})

    async def delete(engine: Engine) -> None:
        args = DeleteSubscription(BEHIND, "worker", True, seen)
        await engine.call(DELETE_SUBSCRIPTION, args)

    with pytest.raises(Conflict, match="A consumer is connected: new a:1"):
        link.run(delete)
    assert apache.changes == []


def test_tenants_and_namespaces_are_changed_by_what_services_store(
    link: EngineLink, apache: RecordedApache
) -> None:
    name = NamespaceName.parse("new/ns")
    info = {"adminRoles": ["a"], "allowedClusters": ["us"]}

    async def change(engine: Engine) -> None:
        await create_tenant(engine.store, "new", info)
        await update_tenant(engine.store, "new", {**info, "adminRoles": []})
        await create_namespace(engine.store, name, None, cluster="us")
        await update_policies(
            engine.store, name, lambda policies: policies.update(message_ttl_in_seconds=60)
        )
        await delete_namespace(engine.store, name)

    link.run(change)
    made = [(item.method, item.path) for item in apache.changes]
    assert made == [
        ("PUT", "/admin/v2/tenants/new"),
        ("POST", "/admin/v2/tenants/new"),
        ("PUT", "/admin/v2/namespaces/new/ns"),
        ("POST", "/admin/v2/namespaces/new/ns/messageTTL"),
        ("DELETE", "/admin/v2/namespaces/new/ns"),
    ]
    assert apache.changes[3].body == 60


def test_a_partitioned_topic_is_made_by_one_call(link: EngineLink, apache: RecordedApache) -> None:
    topic = TopicName.parse("persistent://acme/ns5/wide")
    link.run(lambda engine: partitioned_topics.create(engine, topic, 3, {}))
    (made,) = apache.changes
    assert (made.method, made.path) == ("PUT", "/admin/v2/persistent/acme/ns5/wide/partitions")
    assert made.body == 3


def test_a_refused_change_changes_nothing_here(link: EngineLink, apache: RecordedApache) -> None:
    apache.refusals["/admin/v2/tenants/new"] = 409, "Not now"

    async def change(engine: Engine) -> None:
        await create_tenant(engine.store, "new", {"allowedClusters": ["us"]})

    with pytest.raises(Conflict, match="Not now"):
        link.run(change)

    async def is_there(engine: Engine) -> bool:
        return await engine.store.exists(paths.tenant("new")) is not None

    assert not link.run(is_there)


@pytest.mark.parametrize("path", [paths.CONFIGURATION, "/ledgers/x", f"{paths.CLUSTERS}/new"])
def test_other_writes_are_refused(link: EngineLink, apache: RecordedApache, path: str) -> None:
    async def write(engine: Engine) -> None:
        await engine.store.create(path, b"{}", make_parents=True)

    with pytest.raises(Unsupported, match="cannot be changed by this"):
        link.run(write)
    assert apache.changes == []


def test_policies_are_set_one_by_one_or_not_at_all() -> None:
    before = {"retention_policies": {"retentionTimeInMinutes": 1}, "migrated": False}
    after = {
        "message_ttl_in_seconds": 0,
        "topicDispatchRate": {"us": {"dispatchThrottlingRateInMsg": 5}},
        "backlog_quota_map": {"message_age": {"limitTime": 5}},
        "migrated": False,
    }
    calls = {
        path.rpartition("/")[2]: (method, body)
        for method, path, body, _ in policy_calls("t/n", before, after)
    }
    assert calls == {
        "backlogQuota": ("POST", {"limitTime": 5}),
        "messageTTL": ("POST", 0),
        "retention": ("DELETE", None),
        "dispatchRate": ("POST", {"dispatchThrottlingRateInMsg": 5}),
    }
    with pytest.raises(Unsupported, match="migrated cannot be changed"):
        policy_calls("t/n", before, {**before, "migrated": True})
    with pytest.raises(Unsupported, match="replication_clusters cannot be removed"):
        policy_calls("t/n", {"replication_clusters": ["us"]}, {})
