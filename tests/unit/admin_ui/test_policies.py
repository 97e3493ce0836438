"""Policies of topics and namespaces in the console: a change loses the previewed messages only, or it is refused."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from admin_ui.policies import effects
from engine.admin.api.arguments import EARLIEST_MESSAGE, OnTopic
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.api.topics import UNLOAD
from engine.base.names import NamespaceName
from engine.tenancy.policies.table import BY_NAME, POLICIES, REPLICATION
from gateway.services.admin import partitioned_topics, policies, topics
from gateway.services.engine_link import Engine
from tests.support.admin.gateway_client import Answer, Gateway
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

NAMESPACE = NamespaceName.of("public", "default")
PLAIN, MANY, OWN = NAMESPACE.topic("plain"), NAMESPACE.topic("many"), NAMESPACE.topic("own")
TOPICS = "/api/v1/clusters/standalone/topics/persistent/public/default"
DEFAULT = "/api/v1/clusters/standalone/tenants/public/namespaces/default"
TTL = BY_NAME["messageTTL"]
Call = Callable[..., Answer]


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(filled) as made:
        yield made


async def filled(engine: Engine) -> None:
    await partitioned_topics.create(engine, MANY, 2, {})
    for name in (PLAIN, OWN):
        await topics.create(engine, name, {})
    for name in (PLAIN, OWN, MANY.partition_at(0), MANY.partition_at(1)):
        args = CreateSubscription(name, "s", EARLIEST_MESSAGE)
        await engine.call(CREATE_SUBSCRIPTION, args)
    await policies.set_on_topic(engine, OWN, TTL, 3_600)


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


def publish(link: BenchLink, name: Any, count: int, age_s: int = 0) -> None:
    first_ms = time.time_ns() // 1_000_000 - age_s * 1000
    link.run(lambda engine: link.bench.publish(name, count, first_ms))


def preview(call: Call, place: str, policy: str, value: Any) -> Any:
    answer = call("POST", f"{place}/policies/{policy}", {"preview": True, "value": value})
    assert answer.status == 200, answer.json
    return answer.json


def row(call: Call, topic: str, name: str) -> Any:
    rows = call("GET", f"{TOPICS}/{topic}/policies").json["policies"]
    return next(row for row in rows if row["name"] == name)


def test_a_topic_lists_every_topic_policy_with_its_level(call: Call, link: BenchLink) -> None:
    rows = call("GET", f"{TOPICS}/plain/policies").json["policies"]
    assert [policy_row["name"] for policy_row in rows] == [
        policy.name
        for policy in POLICIES
        if policy.topic_key and (policy.shown or policy is REPLICATION)
    ]
    ttl = row(call, "own", "messageTTL")
    assert (ttl["value"], ttl["level"], ttl["own"]) == (3_600, "topic", 3_600)
    assert (ttl["inherited"], ttl["inherited_level"]) == (0, "broker")
    link.run(lambda engine: policies.set_on_namespace(engine, NAMESPACE, TTL, 60))
    ttl = row(call, "plain", "messageTTL")
    assert (ttl["value"], ttl["level"], ttl["own"], ttl["inherited_level"]) == (
        *(60, "namespace", None),
        "namespace",
    )
    assert call("GET", f"{TOPICS}/many-partition-0/policies").status == 412
    assert call("GET", f"{TOPICS}/nope/policies").status == 404
    volatile = TOPICS.replace("persistent", "non-persistent")
    assert call("GET", f"{volatile}/x/policies").status == 405


def test_a_topics_ttl_preview_counts_the_entries_of_all_its_partitions(
    call: Call, link: BenchLink
) -> None:
    publish(link, MANY.partition_at(0), 5, age_s=1_000)
    publish(link, MANY.partition_at(1), 3)
    before = AuditEntry.objects.count()
    previewed = preview(call, f"{TOPICS}/many", "messageTTL", 500)
    assert AuditEntry.objects.count() == before, "a preview changes nothing"
    counts = previewed["effects"]
    assert (counts["topics"], counts["counted"], counts["at_rest"]) == (1, 1, 0)
    assert counts["subscriptions"] == [
        {
            **{"topic": str(MANY.partition_at(0)), "name": "s", "deleted": False},
            **{"entries": 5, "messages": 5, "exact": True},
        }
    ]
    assert (counts["within_s"], counts["not_counted"]) == (300.0, [])
    done = call("POST", f"{TOPICS}/many/policies/messageTTL", {"token": previewed["token"]})
    assert (done.status, done.json["row"]["own"]) == (200, 500)
    assert done.json["effects"]["entries"] == 5
    assert row(call, "many", "messageTTL")["level"] == "topic"
    removed = preview(call, f"{TOPICS}/many", "messageTTL", None)
    assert removed["effects"]["subscriptions"] == []
    done = call("POST", f"{TOPICS}/many/policies/messageTTL", {"token": removed["token"]})
    assert (done.json["row"]["own"], done.json["row"]["level"]) == (None, "broker")


def test_a_change_that_would_lose_more_than_previewed_is_not_saved(
    call: Call, link: BenchLink
) -> None:
    publish(link, PLAIN, 2, age_s=1_000)
    path = f"{TOPICS}/plain/policies/messageTTL"
    previewed = preview(call, f"{TOPICS}/plain", "messageTTL", 500)
    publish(link, PLAIN, 1, age_s=990)
    refused = call("POST", path, {"token": previewed["token"]})
    assert (refused.status, "would lose more messages" in refused.json["reason"]) == (409, True)
    previewed = preview(call, f"{TOPICS}/plain", "messageTTL", 500)
    args = CreateSubscription(PLAIN, "later", EARLIEST_MESSAGE)
    link.run(lambda engine: engine.call(CREATE_SUBSCRIPTION, args))
    refused = call("POST", path, {"token": previewed["token"]})
    assert (refused.status, "later" in refused.json["reason"]) == (409, True)
    assert row(call, "plain", "messageTTL")["own"] is None
    previewed = preview(call, f"{TOPICS}/plain", "messageTTL", 500)
    publish(link, PLAIN, 4)
    assert call("POST", path, {"token": previewed["token"]}).status == 200, (
        "newer messages are not lost"
    )


def test_a_value_that_was_set_meanwhile_is_not_overwritten(call: Call, link: BenchLink) -> None:
    path = f"{TOPICS}/plain/policies/messageTTL"
    previewed = preview(call, f"{TOPICS}/plain", "messageTTL", 500)
    link.run(lambda engine: policies.set_on_topic(engine, PLAIN, TTL, 60))
    refused = call("POST", path, {"token": previewed["token"]})
    assert (refused.status, "changed meanwhile" in refused.json["reason"]) == (409, True)
    token = preview(call, f"{TOPICS}/plain", "messageTTL", 500)["token"]
    for other in (f"{TOPICS}/many/policies/messageTTL", f"{TOPICS}/plain/policies/retention"):
        refused = call("POST", other, {"token": token})
        assert (refused.status, refused.json["field"]) == (400, "token")


def test_a_namespaces_change_leaves_out_topics_that_have_their_own(
    call: Call, link: BenchLink
) -> None:
    for name in (PLAIN, OWN, MANY.partition_at(1)):
        publish(link, name, 4, age_s=1_000)
    link.run(lambda engine: engine.call(UNLOAD, OnTopic(PLAIN)))
    previewed = preview(call, DEFAULT, "messageTTL", 500)
    assert (previewed["overriding"], previewed["overriding_total"]) == (
        [{"name": str(OWN), "value": 3_600}],
        1,
    )
    counts = previewed["effects"]
    assert (counts["topics"], counts["counted"], counts["at_rest"]) == (2, 1, 1)
    assert [subscription["topic"] for subscription in counts["subscriptions"]] == [
        str(MANY.partition_at(1))
    ]
    done = call("POST", f"{DEFAULT}/policies/messageTTL", {"token": previewed["token"]})
    assert (done.status, done.json["row"]["level"]) == (200, "namespace")
    assert preview(call, DEFAULT, "maxProducersPerTopic", 5)["effects"] is None


def test_unknown_effects_are_reported_and_not_zero(
    call: Call, link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "ASKED_MAX", 1)
    for name in (PLAIN, OWN, MANY.partition_at(0)):
        publish(link, name, 1)
    counts = preview(call, DEFAULT, "messageTTL", 500)["effects"]
    assert counts["not_counted_total"] == 2
    assert (counts["topics"], counts["counted"]) == (2, 0)
    assert counts["not_counted"][0]["reason"] == effects.NOT_ASKED
    known = preview(call, DEFAULT, "messageTTL", 500)["token"]
    link.silence()
    refused = call("POST", f"{DEFAULT}/policies/messageTTL", {"token": known})
    assert (refused.status, "nothing was saved" in refused.json["reason"]) == (503, True)
    previewed = preview(call, DEFAULT, "messageTTL", 500)
    assert (previewed["effects"], previewed["overriding_total"]) == (None, None)
    assert previewed["unknown"]
