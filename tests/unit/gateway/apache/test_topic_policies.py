"""Policies of topics at an Apache Pulsar: the value in force with its level, and changes by Apache's own calls."""

from pathlib import Path
from typing import Any

import pytest

from admin_ui.policies import services
from engine.admin.api.arguments import OnTopic
from engine.admin.api.policies import SET_TOPIC_POLICY, TOPIC_POLICIES, SetTopicPolicy
from engine.base.errors import Conflict, Unsupported
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.policies.table import BY_NAME
from gateway.apache import topic_policies
from gateway.apache_settings import ApacheCluster
from gateway.services.engine_link import EngineLink
from tests.support.admin.clusters import cluster_before
from tests.support.net.recorded_apache import RecordedApache, Request

TOPIC = TopicName.parse("persistent://acme/ns3/orders-0013")
PATH = "/admin/v2/persistent/acme/ns3/orders-0013"
QUOTAS = {"destination_storage": {"limitSize": 9, "limitTime": -1, "policy": "producer_exception"}}


@pytest.fixture(autouse=True)
def answers(apache: RecordedApache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the topic no policies of its own, but two; and its namespace one."""
    monkeypatch.setattr(topic_policies, "APPLIED_S", 0.0)
    for policy in topic_policies._OF_TOPICS:
        apache.answers[f"{PATH}/{topic_policies._read_path(policy)}"] = policy.topic_unset
    apache.answers[f"{PATH}/maxProducers"] = 5
    apache.answers[f"{PATH}/backlogQuotaMap"] = QUOTAS
    apache.answers["/admin/v2/namespaces/acme/ns3"]["message_ttl_in_seconds"] = 60


def policies(link: EngineLink) -> dict[str, Any]:
    return link.run(lambda engine: engine.call(TOPIC_POLICIES, OnTopic(TOPIC)))


def change(link: EngineLink, name: str, value: Any, **more: Any) -> Any:
    args = SetTopicPolicy(TOPIC, name, value, **more)
    return link.run(lambda engine: engine.call(SET_TOPIC_POLICY, args))


def test_each_policy_has_its_value_and_the_level_that_sets_it(link: EngineLink) -> None:
    rows = policies(link)
    producers, ttl, quota = (
        rows[name]
        for name in ("maxProducersPerTopic", "messageTTL", "backlogQuota.destination_storage")
    )
    # The recorded answers do not distinguish the value for all clusters.
    assert (producers["value"], producers["own"], producers["level"]) == (5, 5, "topic")
    assert (ttl["value"], ttl["own"], ttl["level"]) == (60, None, "namespace")
    assert quota["own"]["limitSize"] == 9
    assert rows["schemaValidationEnforced"]["own"] is None
    assert rows["backlogQuota.message_age"]["own"] is None
    assert rows["maxConsumersPerTopic"]["level"] == "broker"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("maxProducersPerTopic", 7, ("POST", "maxProducers", "", 7)),
        ("maxProducersPerTopic", None, ("DELETE", "maxProducers", "", None)),
        ("messageTTL", 9, ("POST", "messageTTL", "messageTTL=9", None)),
        (
            "backlogQuota.message_age",
            None,
            ("DELETE", "backlogQuota", "backlogQuotaType=message_age", None),
        ),
        ("schemaValidationEnforced", None, ("POST", "schemaValidationEnforced", "", False)),
        ("schemaCompatibilityStrategy", "FULL", ("PUT", "schemaCompatibilityStrategy", "", "FULL")),
    ],
)
def test_a_change_is_apaches_own_call(
    link: EngineLink, apache: RecordedApache, name: str, value: Any, expected: tuple[Any, ...]
) -> None:
    method, path, query, body = expected
    answer = change(link, name, value)
    assert apache.changes == [Request(method, f"{PATH}/{path}", query, body)]
    assert answer["before"] == (5 if name == "maxProducersPerTopic" else None)


def test_a_value_for_all_clusters_is_marked_as_one(
    link: EngineLink, apache: RecordedApache
) -> None:
    change(link, "maxProducersPerTopic", 7, everywhere=True)
    assert apache.changes[0].query == "isGlobal=true"


def test_another_value_than_the_previewed_one_refuses_the_change(
    link: EngineLink, apache: RecordedApache
) -> None:
    with pytest.raises(Conflict, match="changed meanwhile"):
        change(link, "maxProducersPerTopic", 7, checked=True, expected=4)
    assert apache.changes == []
    change(link, "maxProducersPerTopic", 7, checked=True, expected=5)
    assert len(apache.changes) == 1


def test_a_policy_of_one_subscription_is_refused(link: EngineLink) -> None:
    with pytest.raises(Unsupported, match="single subscriptions"):
        change(link, "subscriptionDispatchRate", None, subscription="worker")


@pytest.mark.parametrize("place", [TOPIC, NamespaceName.parse("acme/ns3")])
def test_a_preview_says_that_apache_counts_nothing(
    link: EngineLink,
    apache_cluster: ApacheCluster,
    tmp_path: Path,
    place: services.Place,
) -> None:
    cluster, ttl = cluster_before(apache_cluster, link, tmp_path), BY_NAME["messageTTL"]
    seen = link.run(lambda engine: services.preview(cluster, engine, place, ttl, "ann", 5))
    assert seen["token"] is not None
    assert seen["effects"]["counted"] == 0
    reasons = {entry["reason"] for entry in seen["effects"]["not_counted"]}
    if place is TOPIC:
        assert reasons == {"Apache does not count what a policy would delete"}
    else:
        assert "does not list" in seen["unknown"]
        assert seen["overriding_total"] is None
