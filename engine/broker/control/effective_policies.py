"""Policies in force in the form the broker uses: a namespace's, and those of a topic for the data path. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.broker.ports import (
    NO_LIMIT,
    BacklogQuota,
    InactiveTopics,
    MaxRate,
    QuotaAction,
    TopicPolicies,
)
from engine.tenancy.policies.in_force import InForce
from engine.tenancy.policies.values import PARTITIONED, WHEN_CAUGHT_UP
from engine.tenancy.strategy import Strategy


@dataclass(frozen=True, slots=True)
class NamespacePolicies:
    """Policies about a namespace's topics as a whole.

    ``new_partitions``: number of partitions of an automatically created topic, 0 for a plain one. ``max_topics``: 0
    for no limit.
    """

    auto_topic: bool
    new_partitions: int
    max_topics: int


def namespace_policies(policies: Mapping[str, InForce]) -> NamespacePolicies:
    """Derive a namespace's policies from all policies in force, by name."""
    creation = policies["autoTopicCreation"].value
    return NamespacePolicies(
        auto_topic=creation["allowAutoTopicCreation"],
        new_partitions=(
            creation["defaultNumPartitions"] if creation["topicType"] == PARTITIONED else 0
        ),
        max_topics=policies["maxTopicsPerNamespace"].value,
    )


def topic_policies(
    policies: Mapping[str, InForce], rates: Mapping[str, Any], group: str = ""
) -> TopicPolicies:
    """Derive a topic's policies from all policies in force, by name.

    ``rates``: dispatch rates of single subscriptions. ``group``: the namespace's resource group.
    """
    value = {name: policy.value for name, policy in policies.items()}
    return TopicPolicies(
        ensemble=value["persistence"]["bookkeeperEnsemble"],
        write_quorum=value["persistence"]["bookkeeperWriteQuorum"],
        ack_quorum=value["persistence"]["bookkeeperAckQuorum"],
        retention_minutes=value["retention"]["retentionTimeInMinutes"],
        retention_mb=value["retention"]["retentionSizeInMB"],
        auto_subscription=value["autoSubscriptionCreation"]["allowAutoSubscriptionCreation"],
        message_ttl_s=_off_below_0(value["messageTTL"]),
        max_producers=value["maxProducersPerTopic"],
        max_subscriptions=value["maxSubscriptionsPerTopic"],
        max_consumers=value["maxConsumersPerTopic"],
        max_consumers_per_subscription=value["maxConsumersPerSubscription"],
        size_quota=_quota(value["backlogQuota.destination_storage"], "limitSize"),
        age_quota=_quota(value["backlogQuota.message_age"], "limitTime"),
        schema_strategy=Strategy(value["schemaCompatibilityStrategy"]),
        schema_auto_update=value["isAllowAutoUpdateSchema"],
        schema_enforced=value["schemaValidationEnforced"],
        deduplication=value["deduplication"],
        snapshot_interval_s=_off_below_0(value["deduplicationSnapshotInterval"]),
        publish_rate=_max_rate(
            value["publishRate"]["publishThrottlingRateInMsg"],
            value["publishRate"]["publishThrottlingRateInByte"],
        ),
        dispatch_rate=dispatch_rate(value["dispatchRate"]),
        subscription_rate=dispatch_rate(value["subscriptionDispatchRate"]),
        subscription_rates={name: dispatch_rate(value) for name, value in rates.items()},
        subscribe_rate=_max_rate(
            value["subscribeRate"]["subscribeThrottlingRatePerConsumer"],
            0,
            value["subscribeRate"]["ratePeriodInSecond"],
        ),
        message_bytes_max=_off_below_0(value["maxMessageSize"]),
        subscription_types=tuple(value["subscriptionTypesEnabled"]),
        compaction_threshold=_off_below_0(value["compactionThreshold"]),
        inactive_topics=InactiveTopics(
            value["inactiveTopicPolicies"]["deleteWhileInactive"],
            value["inactiveTopicPolicies"]["inactiveTopicDeleteMode"] == WHEN_CAUGHT_UP,
            value["inactiveTopicPolicies"]["maxInactiveDurationSeconds"],
        ),
        subscription_expiration_minutes=_off_below_0(value["subscriptionExpirationTime"]),
        delays=value["delayedDelivery"]["active"],
        delay_tick_ms=_off_below_0(value["delayedDelivery"]["tickTime"]),
        delay_max_ms=_off_below_0(value["delayedDelivery"]["maxDeliveryDelayInMillis"]),
        unacked_per_consumer=value["maxUnackedMessagesPerConsumer"],
        unacked_per_subscription=value["maxUnackedMessagesPerSubscription"],
        encryption_required=value["encryptionRequired"],
        resource_group=group,
    )


def _off_below_0(number: int) -> int:
    """Return ``number``, and 0 (off) for a negative one.

    Stored documents are not validated as requests of administrators are. A negative age would delete messages or
    subscriptions at once.
    """
    return max(number, 0)


def dispatch_rate(value: Mapping[str, Any]) -> MaxRate:
    """Convert Pulsar's DispatchRate."""
    return _max_rate(
        value["dispatchThrottlingRateInMsg"],
        value["dispatchThrottlingRateInByte"],
        value["ratePeriodInSecond"],
        value["relativeToPublishRate"],
    )


def _max_rate(messages: int, size: int, period_s: int = 1, relative: bool = False) -> MaxRate:
    """Return a limit; NO_LIMIT when neither number is above 0. A period below a second counts as one, as in Pulsar."""
    if messages <= 0 and size <= 0:
        return NO_LIMIT
    return MaxRate(max(messages, 0), max(size, 0), max(period_s, 1), relative)


def _quota(value: Mapping[str, Any], limit: str) -> BacklogQuota:
    return BacklogQuota(value[limit], QuotaAction(value["policy"]))
