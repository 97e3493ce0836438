"""Policies in force as the broker acts on them: a namespace's, and what the data path is told of a topic's. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.broker.ports import BacklogQuota, QuotaAction, TopicPolicies
from engine.tenancy.policies import PARTITIONED, InForce
from engine.tenancy.strategy import Strategy


@dataclass(frozen=True, slots=True)
class NamespacePolicies:
    """``new_partitions``: of an automatically created topic, 0 for a plain one. ``max_topics`` 0 is no limit."""

    auto_topic: bool
    new_partitions: int
    max_topics: int


def namespace_policies(found: Mapping[str, InForce]) -> NamespacePolicies:
    """From all policies in force by name."""
    creation = found["autoTopicCreation"].value
    return NamespacePolicies(
        auto_topic=creation["allowAutoTopicCreation"],
        new_partitions=(
            creation["defaultNumPartitions"] if creation["topicType"] == PARTITIONED else 0
        ),
        max_topics=found["maxTopicsPerNamespace"].value,
    )


def topic_policies(found: Mapping[str, InForce]) -> TopicPolicies:
    """From all policies in force by name."""
    value = {name: one.value for name, one in found.items()}
    return TopicPolicies(
        ensemble=value["persistence"]["bookkeeperEnsemble"],
        write_quorum=value["persistence"]["bookkeeperWriteQuorum"],
        ack_quorum=value["persistence"]["bookkeeperAckQuorum"],
        retention_minutes=value["retention"]["retentionTimeInMinutes"],
        retention_mb=value["retention"]["retentionSizeInMB"],
        auto_subscription=value["autoSubscriptionCreation"]["allowAutoSubscriptionCreation"],
        message_ttl_s=value["messageTTL"],
        max_producers=value["maxProducersPerTopic"],
        max_subscriptions=value["maxSubscriptionsPerTopic"],
        max_consumers=value["maxConsumersPerTopic"],
        max_consumers_per_subscription=value["maxConsumersPerSubscription"],
        size_quota=_quota(value["backlogQuota.destination_storage"], "limitSize"),
        age_quota=_quota(value["backlogQuota.message_age"], "limitTime"),
        schema_strategy=Strategy(value["schemaCompatibilityStrategy"]),
        schema_auto_update=value["isAllowAutoUpdateSchema"],
        schema_enforced=value["schemaValidationEnforced"],
    )


def _quota(value: Mapping[str, Any], limit: str) -> BacklogQuota:
    return BacklogQuota(value[limit], QuotaAction(value["policy"]))
