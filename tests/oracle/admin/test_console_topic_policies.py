"""Policies of topics at Apache's broker, read, previewed, set and removed by the console."""

import json
from pathlib import Path
from typing import Any

import pytest

from admin_ui.policies import selectors, services
from engine.base.errors import Conflict
from engine.base.names import TopicName
from engine.tenancy.policies.policy import Policy
from engine.tenancy.policies.table import BY_NAME
from gateway.apache_settings import ApacheCluster
from gateway.clusters.cluster import Cluster
from gateway.services.engine_link import Engine, EngineLink
from tests.oracle.conftest import Side
from tests.support.admin.clusters import cluster_before
from tests.support.waiting import until_blocking

TOPIC = TopicName.parse("persistent://public/ruled/t")
PATH = "/admin/v2/persistent/public/ruled/t"
VALUES: dict[str, Any] = {
    "messageTTL": 77,
    # Apache refuses less than the 10 GB of its default backlog quota.
    "retention": {"retentionTimeInMinutes": 90, "retentionSizeInMB": 20_000},
    "backlogQuota.destination_storage": {"limitSize": 5 << 20, "policy": "producer_exception"},
    "backlogQuota.message_age": {"limitTime": 600, "policy": "consumer_backlog_eviction"},
    "persistence": {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 2.0,
    },
    "compactionThreshold": 9 << 20,
    "maxProducersPerTopic": 5,
    "maxConsumersPerTopic": 6,
    "maxConsumersPerSubscription": 7,
    "maxSubscriptionsPerTopic": 8,
    "maxUnackedMessagesPerConsumer": 9,
    "maxUnackedMessagesPerSubscription": 10,
    "maxMessageSize": 1 << 20,
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 900,
        "deleteWhileInactive": True,
    },
    "delayedDelivery": {"tickTime": 2000, "active": True, "maxDeliveryDelayInMillis": 60_000},
    "deduplication": True,
    "deduplicationSnapshotInterval": 30,
    "subscriptionTypesEnabled": ["Exclusive", "Shared"],
    "publishRate": {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": -1},
    "dispatchRate": {
        "dispatchThrottlingRateInMsg": 200,
        "dispatchThrottlingRateInByte": 4096,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    },
    "subscriptionDispatchRate": {
        "dispatchThrottlingRateInMsg": 20,
        "dispatchThrottlingRateInByte": -1,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 2,
    },
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 10, "ratePeriodInSecond": 30},
    "schemaCompatibilityStrategy": "FULL",
    "schemaValidationEnforced": True,
}


@pytest.fixture(scope="module")
def theirs(sides: tuple[Side, Side]) -> Side:
    side, _ = sides
    assert side.put("/admin/v2/namespaces/public/ruled") in (204, 409)
    assert side.put(PATH) == 204
    return side


@pytest.fixture
def cluster(
    theirs: Side, apache_cluster: ApacheCluster, link: EngineLink, tmp_path: Path
) -> Cluster:
    return cluster_before(apache_cluster, link, tmp_path)


def previewed(cluster: Cluster, policy: Policy, value: Any) -> Any:
    return cluster.link.run(
        lambda engine: services.preview(cluster, engine, TOPIC, policy, "ann", value)
    )


def applied(cluster: Cluster, policy: Policy, token: str) -> Any:
    return cluster.link.run(
        lambda engine: services.apply(cluster, engine, TOPIC, policy, "ann", token)
    )


def rows(cluster: Cluster) -> dict[str, Any]:
    async def read(engine: Engine) -> Any:
        return await selectors.topic(engine, TOPIC)

    return {row["name"]: row for row in cluster.link.run(read)["policies"]}


def test_each_policy_is_set_read_and_removed_as_it_was_previewed(
    theirs: Side, cluster: Cluster
) -> None:
    before = rows(cluster)
    shown = {policy.name for policy in selectors.OF_TOPICS} - {"replication"}
    assert shown == VALUES.keys()
    assert {name for name in shown if before[name]["own"] is not None} == set()
    for name, value in VALUES.items():
        seen = previewed(cluster, BY_NAME[name], value)
        assert seen["row"]["own"] is None, name
        receipt = applied(cluster, BY_NAME[name], seen["token"])
        wanted = selectors.exact(BY_NAME[name].read(value))
        assert receipt["row"]["own"] == wanted, name
        assert receipt["row"]["level"] == "topic"
        if BY_NAME[name].effect is not None:
            assert receipt["effects"]["counted"] == 0
            assert "does not count" in receipt["effects"]["not_counted"][0]["reason"]
    assert theirs.call("GET", f"{PATH}/messageTTL") == (200, b"77")
    assert theirs.call("GET", f"{PATH}/maxMessageSize") == (200, b"1048576")
    status, body = theirs.call("GET", f"{PATH}/backlogQuotaMap")
    assert status == 200
    assert json.loads(body).keys() == {"destination_storage", "message_age"}
    set_rows = rows(cluster)
    for name in shown:
        assert set_rows[name]["own"] is not None, name
        seen = previewed(cluster, BY_NAME[name], None)
        receipt = applied(cluster, BY_NAME[name], seen["token"])
        assert receipt["row"]["own"] is None, name
        assert receipt["row"]["value"] == before[name]["value"], name


def test_a_value_that_was_changed_since_the_preview_is_kept(theirs: Side, cluster: Cluster) -> None:
    seen = previewed(cluster, BY_NAME["maxProducersPerTopic"], 50)
    assert theirs.post(f"{PATH}/maxProducers", 3) == 204
    # Apache answers with the new value once its broker has read it.
    until_blocking(lambda: rows(cluster)["maxProducersPerTopic"]["own"] == 3, "the new value")
    with pytest.raises(Conflict, match="changed meanwhile"):
        applied(cluster, BY_NAME["maxProducersPerTopic"], seen["token"])
    assert theirs.call("GET", f"{PATH}/maxProducers") == (200, b"3")
