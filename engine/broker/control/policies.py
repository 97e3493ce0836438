"""Effective policies of a namespace's topics: what is stored over this broker's defaults. Pure.

Stored form: ``/admin/policies/<namespace>``, JSON in Apache Pulsar's shape (keys as there).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.broker.ports import TopicPolicies
from engine.broker.settings import NodeSettings

PARTITIONED = "partitioned"


@dataclass(frozen=True, slots=True)
class NamespacePolicies:
    """What the broker acts on. ``new_partitions``: partitions of an automatically created topic, 0 for a plain one.

    ``max_topics`` 0 is no limit. ``message_ttl_s`` None is none; it is stored for later enforcement.
    """

    auto_topic: bool
    new_partitions: int
    max_topics: int
    message_ttl_s: int | None
    topic: TopicPolicies


def effective(stored: Mapping[str, Any], node: NodeSettings) -> NamespacePolicies:
    """Policies in force, from the stored document and the defaults."""
    auto = stored.get("autoTopicCreationOverride") or {}
    kind = auto.get("topicType") or node.allow_auto_topic_creation_type
    count = int(auto.get("defaultNumPartitions") or node.default_num_partitions)
    return NamespacePolicies(
        auto_topic=bool(auto.get("allowAutoTopicCreation", node.allow_auto_topic_creation)),
        new_partitions=count if kind == PARTITIONED else 0,
        max_topics=int(stored.get("max_topics_per_namespace") or 0),
        message_ttl_s=stored.get("message_ttl_in_seconds"),
        topic=_topic(stored, node),
    )


def _topic(stored: Mapping[str, Any], node: NodeSettings) -> TopicPolicies:
    persistence = stored.get("persistence") or {}
    retention = stored.get("retention_policies") or {}
    subscription = stored.get("autoSubscriptionCreationOverride") or {}
    return TopicPolicies(
        ensemble=persistence.get("bookkeeperEnsemble"),
        write_quorum=persistence.get("bookkeeperWriteQuorum"),
        ack_quorum=persistence.get("bookkeeperAckQuorum"),
        retention_minutes=int(retention.get("retentionTimeInMinutes", 0)),
        retention_mb=int(retention.get("retentionSizeInMB", 0)),
        auto_subscription=bool(
            subscription.get("allowAutoSubscriptionCreation", node.allow_auto_subscription_creation)
        ),
    )
