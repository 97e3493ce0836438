"""The previewed effect of a policy is what it removes once it is saved."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, LATEST_MESSAGE, OnSubscription, OnTopic
from engine.admin.api.cursors import CLEAR_BACKLOG, SKIP_MESSAGES, Skip
from engine.admin.api.policies import POLICY_EFFECT, TOPICS_WITH_POLICY, OwnPolicy, PolicyEffect
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.api.topics import UNLOAD
from engine.base.errors import NotFound
from engine.base.ids import EARLIEST
from engine.base.names import NamespaceName, TopicName
from engine.broker.topics.topic import Topic
from engine.tenancy.policies.policy import EffectKind
from engine.tenancy.policies.table import BY_NAME, POLICIES
from gateway.services.admin import partitioned_topics, policies, topics
from tests.support.admin.bench import AdminBench
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName.of("public", "default")
TOPIC = NAMESPACE.topic("t")
KEEP = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
NOTHING = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
WITHIN_S = 30.0


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await policies.set_on_namespace(made.engine, NAMESPACE, BY_NAME["retention"], KEEP)
    await topics.create(made.engine, TOPIC, {})
    await subscribe(made, "s")
    await made.publish(TOPIC, 12)
    yield made
    await made.close()


async def subscribe(bench: AdminBench, name: str, at: Any = EARLIEST_MESSAGE) -> None:
    await bench.admin.call(CREATE_SUBSCRIPTION, CreateSubscription(TOPIC, name, at))


async def effect(bench: AdminBench, name: str, value: Any, **more: Any) -> dict[str, Any]:
    args = PolicyEffect(TOPIC, name, value, **more)
    return await bench.engine.call(POLICY_EFFECT, args)


async def closed_ledger(bench: AdminBench) -> Topic:
    """Return the topic, reloaded so that the published entries lie in a closed ledger."""
    await bench.engine.call(UNLOAD, OnTopic(TOPIC))
    return await bench.loaded(TOPIC)


def test_each_kind_of_effect_has_its_policy() -> None:
    kinds = [policy.effect for policy in POLICIES if policy.effect is not None]
    assert sorted(kinds) == sorted(EffectKind)


async def test_retention_frees_the_closed_ledgers_that_its_preview_counts(
    bench: AdminBench,
) -> None:
    topic = await closed_ledger(bench)
    size = topic.log.stats().size
    assert size > 0
    assert (await effect(bench, "retention", NOTHING))["bytes"] == 0, "s has not read them"
    await bench.admin.call(CLEAR_BACKLOG, OnSubscription(TOPIC, "s"))
    await topic.log.cursors["s"].persisted()
    assert (await effect(bench, "retention", KEEP))["bytes"] == 0
    preview = await effect(bench, "retention", NOTHING)
    assert (preview["bytes"], preview["subscriptions"], preview["within_s"]) == (size, [], 0)
    await policies.set_on_namespace(bench.engine, NAMESPACE, BY_NAME["retention"], NOTHING)
    await until(lambda: topic.log.stats().size == 0)


async def test_a_reader_loses_the_entries_that_retention_frees(bench: AdminBench) -> None:
    topic = await closed_ledger(bench)
    await bench.admin.call(CLEAR_BACKLOG, OnSubscription(TOPIC, "s"))
    await topic.log.cursors["s"].persisted()
    await bench.publish(TOPIC, 2)
    reader = await topic.log.open_cursor("r", EARLIEST, durable=False, cursor_properties={})
    topic.subscriptions._add(reader)
    (lost,) = (await effect(bench, "retention", NOTHING))["subscriptions"]
    assert (lost["name"], lost["entries"], lost["messages"]) == ("r", 12, 12)
    assert (await effect(bench, "retention", KEEP))["subscriptions"] == []
    await policies.set_on_namespace(bench.engine, NAMESPACE, BY_NAME["retention"], NOTHING)
    await until(lambda: reader.backlog_entries() == 2)


async def test_messages_older_than_a_ttl_are_counted_by_subscription_and_expire(
    bench: AdminBench,
) -> None:
    await subscribe(bench, "done", LATEST_MESSAGE)
    await bench.admin.call(SKIP_MESSAGES, Skip(TOPIC, "s", 2))
    topic = await bench.loaded(TOPIC)
    preview = await effect(bench, "messageTTL", 3, at_ms=10_000)  # published at 1 s, 2 s, …
    assert preview["subscriptions"] == [
        {"name": "s", "deleted": False, "entries": 4, "messages": 4, "exact": True}
    ]
    assert preview["within_s"] == 300
    assert (await effect(bench, "messageTTL", 3, at_ms=10_000, measured=False))["subscriptions"][0][
        "messages"
    ] is None
    await topic.subscriptions.expire(10_000 - 3_000)
    assert topic.subscriptions["s"].cursor.backlog_entries() == 6
    assert (await effect(bench, "messageTTL", 0))["subscriptions"] == []


async def test_a_ttl_frees_ledgers_that_no_retention_keeps(bench: AdminBench) -> None:
    topic = await closed_ledger(bench)
    await policies.set_on_namespace(bench.engine, NAMESPACE, BY_NAME["retention"], NOTHING)
    await until(lambda: topic.policies.storage.retention_minutes == 0)
    preview = await effect(bench, "messageTTL", 1)
    assert (preview["bytes"], preview["subscriptions"][0]["entries"]) == (
        topic.log.stats().size,
        12,
    )


@pytest.mark.parametrize("name", ["destination_storage", "message_age"])
async def test_a_quota_evicts_the_previewed_entries_or_disconnects_producers(
    bench: AdminBench, name: str
) -> None:
    topic = await bench.loaded(TOPIC)
    size = topic.log.stats().size
    value = {"limitSize": size // 2, "limitTime": 60, "policy": "consumer_backlog_eviction"}
    row = BY_NAME[f"backlogQuota.{name}"]
    preview = await effect(bench, row.name, value)
    (lost,) = preview["subscriptions"]
    assert lost["entries"] > 0
    assert preview["within_s"] == 60
    await policies.set_on_topic(bench.engine, TOPIC, row, {"limit": value["limitSize"], **value})
    await until(
        lambda: (
            topic.policies.backlog.size_quota.limit > 0
            or topic.policies.backlog.age_quota.limit > 0
        )
    )
    await topic.quotas.check()
    assert topic.subscriptions["s"].cursor.backlog_entries() == 12 - lost["entries"]
    preview = await effect(bench, row.name, {**value, "policy": "producer_exception"})
    assert (preview["subscriptions"], preview["producers"]) == ([], 0)
    far = {**value, "limitSize": size * 2, "limitTime": 1 << 31}
    assert (await effect(bench, row.name, far))["subscriptions"] == []


async def test_unused_subscriptions_and_topics_are_named(bench: AdminBench) -> None:
    hour_on = (await bench.loaded(TOPIC)).context.clock.wall_ms() + 3_600_000
    assert (await effect(bench, "subscriptionExpirationTime", 59))["subscriptions"] == []
    preview = await effect(bench, "subscriptionExpirationTime", 59, at_ms=hour_on)
    assert preview["subscriptions"] == [
        {"name": "s", "deleted": True, "entries": 12, "messages": 12, "exact": True}
    ]
    rule = {"deleteWhileInactive": True, "maxInactiveDurationSeconds": 30}
    caught_up = {**rule, "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up"}
    assert not (await effect(bench, "inactiveTopicPolicies", caught_up))["deleted"], "a backlog"
    await bench.admin.call(CLEAR_BACKLOG, OnSubscription(TOPIC, "s"))
    assert not (await effect(bench, "inactiveTopicPolicies", caught_up))["deleted"], (
        "retained without limit"
    )
    await policies.set_on_namespace(bench.engine, NAMESPACE, BY_NAME["retention"], NOTHING)
    topic = await bench.loaded(TOPIC)
    await until(lambda: topic.policies.storage.retention_minutes == 0)
    preview = await effect(bench, "inactiveTopicPolicies", caught_up)
    assert (preview["deleted"], preview["within_s"]) == (True, 90)
    assert preview["bytes"] == topic.log.stats().size
    none = {**rule, "inactiveTopicDeleteMode": "delete_when_no_subscriptions"}
    assert not (await effect(bench, "inactiveTopicPolicies", none))["deleted"]


async def test_a_subscription_that_cannot_be_read_is_unknown_and_keeps_all(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await closed_ledger(bench)
    monkeypatch.setitem(topic.log.unread_cursors, "s", "its bookie is silent")
    preview = await effect(bench, "messageTTL", 1)
    assert (preview["unknown"], preview["subscriptions"]) == ({"s": "its bookie is silent"}, [])
    assert preview["bytes"] == 0


async def test_topics_with_a_value_of_their_own_are_listed(bench: AdminBench) -> None:
    async def asked(name: str) -> dict[str, Any]:
        args = OwnPolicy(NAMESPACE, name=name)
        return await bench.engine.call(TOPICS_WITH_POLICY, args)

    parted = NAMESPACE.topic("pt")
    await partitioned_topics.create(bench.engine, parted, 2, {})
    assert await asked("messageTTL") == {}
    await policies.set_on_topic(bench.engine, parted, BY_NAME["messageTTL"], 60)
    await policies.set_on_topic(bench.engine, TOPIC, BY_NAME["retention"], NOTHING)
    assert await asked("messageTTL") == {str(parted): 60}
    assert await asked("retention") == {str(TOPIC): NOTHING}
    assert await asked("subscriptionExpirationTime") == {}
    in_force = await policies.of_topic(bench.engine, parted)
    assert in_force["messageTTL"] == {
        **{"value": 60, "level": "topic", "own": 60, "everywhere": None},
        **{"inherited": 0, "inherited_level": "broker"},
    }
    assert in_force["retention"]["inherited_level"] == "namespace"
    ttl, one_more = BY_NAME["messageTTL"], NAMESPACE.topic("pt-of-all")
    await partitioned_topics.create(bench.engine, one_more, 2, {})
    await policies.set_on_topic(bench.engine, parted, ttl, 70, everywhere=True)
    await policies.set_on_topic(bench.engine, one_more, ttl, 80, everywhere=True)
    assert await asked("messageTTL") == {str(parted): 60, str(one_more): 80}


async def test_a_policy_that_removes_nothing_has_no_effect_to_preview(bench: AdminBench) -> None:
    with pytest.raises(NotFound, match="No effect is computed"):
        await effect(bench, "maxProducersPerTopic", 1)
    with pytest.raises(NotFound):
        args = PolicyEffect(TopicName.parse("persistent://public/default/no"), "retention", {})
        await bench.engine.call(POLICY_EFFECT, replace(args, value=NOTHING))
