"""Policies that the broker applies: those stored for a namespace override the broker's defaults."""

from typing import Any

from engine.broker.control.effective_policies import namespace_policies, topic_policies
from engine.broker.policies import (
    BacklogPolicies,
    BacklogQuota,
    DeduplicationPolicies,
    MaxRate,
    PublishPolicies,
    QuotaAction,
    RatePolicies,
    StoragePolicies,
    SubscriptionPolicies,
    TopicPolicies,
)
from engine.tenancy.policies.in_force import in_force, of_subscriptions
from engine.tenancy.policies.table import SUBSCRIPTION_RATE
from engine.tenancy.settings import PolicySettings

SETTINGS = PolicySettings(
    allow_auto_topic_creation_type="partitioned",
    default_num_partitions=3,
    max_topics_per_namespace=9,
)


def merged(stored: dict[str, Any], topic: dict[str, Any] | None = None) -> Any:
    return in_force(SETTINGS, stored, topic or {})


def test_without_anything_stored_the_defaults_hold() -> None:
    policies = namespace_policies(merged({}))
    assert (policies.auto_topic, policies.new_partitions, policies.max_topics) == (True, 3, 9)
    assert topic_policies(merged({}), {}) == TopicPolicies()


def test_stored_policies_override_the_defaults() -> None:
    stored = {
        "autoTopicCreationOverride": {
            "allowAutoTopicCreation": False,
            "topicType": "non-partitioned",
            "defaultNumPartitions": 7,
        },
        "autoSubscriptionCreationOverride": {"allowAutoSubscriptionCreation": False},
        "max_topics_per_namespace": 0,
        "message_ttl_in_seconds": 60,
        "persistence": {
            "bookkeeperEnsemble": 5,
            "bookkeeperWriteQuorum": 3,
            "bookkeeperAckQuorum": 2,
        },
        "retention_policies": {"retentionTimeInMinutes": -1, "retentionSizeInMB": 10},
        "backlog_quota_map": {
            "message_age": {"limitSize": -1, "limitTime": 5, "policy": "consumer_backlog_eviction"}
        },
    }
    policies = namespace_policies(merged(stored))
    assert (policies.auto_topic, policies.new_partitions, policies.max_topics) == (False, 0, 0)
    own = {"messageTTLInSeconds": 7, "maxConsumerPerTopic": 4}
    assert topic_policies(
        merged(stored, own), of_subscriptions(own, SUBSCRIPTION_RATE)
    ) == TopicPolicies(
        storage=StoragePolicies(
            ensemble=5, write_quorum=3, ack_quorum=2, retention_minutes=-1, retention_mb=10
        ),
        subscriptions=SubscriptionPolicies(auto_create=False, max_consumers=4),
        backlog=BacklogPolicies(message_ttl_s=7, age_quota=BacklogQuota(5, QuotaAction.EVICT)),
    )


def test_delays_that_are_not_respected_are_not_limited() -> None:
    stored = {"tickTime": 1000, "active": False, "maxDeliveryDelayInMillis": 60_000}
    assert (
        topic_policies(merged({"delayed_delivery_policies": stored}), {}).publish.delay_max_ms == 0
    )
    stored["active"] = True
    policies = topic_policies(merged({"delayed_delivery_policies": stored}), {})
    assert policies.publish.delay_max_ms == 60_000


def test_a_partitioned_override_without_a_count_takes_the_brokers() -> None:
    override = {"allowAutoTopicCreation": True, "topicType": "partitioned"}
    policies = namespace_policies(merged({"autoTopicCreationOverride": override}))
    assert policies.new_partitions == 3


def test_rates_of_the_namespace_and_the_topics_own() -> None:
    stored = {
        "publishMaxMessageRate": {
            "publishThrottlingRateInMsg": 10,
            "publishThrottlingRateInByte": -7,
        },
        "topicDispatchRate": {
            "dispatchThrottlingRateInMsg": 0,
            "dispatchThrottlingRateInByte": 1000,
            "relativeToPublishRate": True,
            "ratePeriodInSecond": 0,
        },
        "subscription_types_enabled": [],
    }
    own = {
        "subscriptionDispatchRate": {
            "dispatchThrottlingRateInMsg": 5,
            "dispatchThrottlingRateInByte": -1,
            "relativeToPublishRate": False,
            "ratePeriodInSecond": 60,
        },
        "subscribeRate": {"subscribeThrottlingRatePerConsumer": -1, "ratePeriodInSecond": 30},
        "maxMessageSize": 100,
        "subscriptionTypesEnabled": ["Shared"],
        "deduplicationSnapshotIntervalSeconds": 0,
        "subscriptionPolicies": {
            "s": {
                "dispatchRate": {
                    "dispatchThrottlingRateInMsg": 7,
                    "dispatchThrottlingRateInByte": 0,
                    "relativeToPublishRate": False,
                    "ratePeriodInSecond": 1,
                }
            },
            "t": {"dispatchRate": None},
        },
    }
    assert topic_policies(
        merged(stored, own), of_subscriptions(own, SUBSCRIPTION_RATE)
    ) == TopicPolicies(
        rates=RatePolicies(
            publish=MaxRate(messages=10),
            dispatch=MaxRate(size=1000, relative=True),
            subscription=MaxRate(messages=5, period_s=60),
            by_subscription={"s": MaxRate(messages=7)},
        ),
        publish=PublishPolicies(message_bytes_max=100),
        subscriptions=SubscriptionPolicies(types=("Shared",)),
        deduplication=DeduplicationPolicies(snapshot_interval_s=0),
    )


def test_stored_negative_numbers_count_as_zero() -> None:
    own = {
        "messageTTLInSeconds": -1,
        "deduplicationSnapshotIntervalSeconds": -5,
        "maxMessageSize": -1,
        "compactionThreshold": -1,
        "delayedDeliveryEnabled": True,
        "delayedDeliveryTickTimeMillis": -(1 << 63),
        "delayedDeliveryMaxDelayInMillis": -1,
    }
    policies = topic_policies(merged({"subscription_expiration_time_minutes": -1}, own), {})
    assert policies.backlog.message_ttl_s == policies.subscriptions.expiration_minutes == 0
    assert policies.deduplication.snapshot_interval_s == policies.publish.message_bytes_max == 0
    assert (
        policies.storage.compaction_threshold
        == policies.dispatch.delay_tick_ms
        == policies.publish.delay_max_ms
        == 0
    )
