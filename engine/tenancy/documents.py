"""Policies of namespaces as Apache Pulsar stores them: key order, defaults, checks. Pure.

Stored form: UTF-8, no blanks, keys in the order below, unset keys absent. Layouts were read from Apache Pulsar 4.0.8.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import AdminError
from engine.metadata.records import Document
from engine.tenancy.bundles import bundles, even_bundles
from engine.tenancy.checks import texts, typed

_POLICY_KEYS = [
    "auth_policies",
    "replication_clusters",
    "allowed_clusters",
    "bundles",
    "backlog_quota_map",
    "clusterDispatchRate",
    "topicDispatchRate",
    "subscriptionDispatchRate",
    "replicatorDispatchRate",
    "clusterSubscribeRate",
    "persistence",
    "deduplicationEnabled",
    "autoTopicCreationOverride",
    "autoSubscriptionCreationOverride",
    "publishMaxMessageRate",
    "latency_stats_sample_rate",
    "message_ttl_in_seconds",
    "subscription_expiration_time_minutes",
    "retention_policies",
    "deleted",
    "encryption_required",
    "delayed_delivery_policies",
    "inactive_topic_policies",
    "subscription_auth_mode",
    "max_producers_per_topic",
    "max_consumers_per_topic",
    "max_consumers_per_subscription",
    "max_unacked_messages_per_consumer",
    "max_unacked_messages_per_subscription",
    "max_subscriptions_per_topic",
    "compaction_threshold",
    "offload_threshold",
    "offload_threshold_in_seconds",
    "offload_deletion_lag_ms",
    "max_topics_per_namespace",
    "schema_auto_update_compatibility_strategy",
    "schema_compatibility_strategy",
    "is_allow_auto_update_schema",
    "schema_validation_enforced",
    "offload_policies",
    "deduplicationSnapshotIntervalSeconds",
    "subscription_types_enabled",
    "properties",
    "resource_group_name",
    "migrated",
    "dispatcherPauseOnAckStatePersistentEnabled",
    "entryFilters",
    "clusterThatCanDeleteNamespace",
]
_COUNT_KEYS = tuple(key for key in _POLICY_KEYS if key.startswith("max_"))
_MAP_KEYS = [
    "backlog_quota_map",
    "clusterDispatchRate",
    "topicDispatchRate",
    "subscriptionDispatchRate",
    "replicatorDispatchRate",
    "clusterSubscribeRate",
    "publishMaxMessageRate",
    "latency_stats_sample_rate",
]


def given_policies(given: Mapping[str, Any], *, own_cluster: str, default_bundles: int) -> Document:
    """Policies of a new namespace: what the caller gave over Pulsar's defaults. Raises AdminError 400 or 412.

    Unknown keys, nulls and empty texts (a Go client sends them for unset enums) count as not given.
    """
    merged: Document = {
        **new_policies([own_cluster], even_bundles(default_bundles), own_cluster),
        **{
            key: value
            for key, value in given.items()
            if key in _POLICY_KEYS and value is not None and value != ""
        },
    }
    merged["bundles"] = bundles(given.get("bundles"), default_bundles)
    merged["replication_clusters"] = texts(
        "replication_clusters", given.get("replication_clusters") or [own_cluster]
    )
    merged["clusterThatCanDeleteNamespace"] = own_cluster
    for key in _MAP_KEYS:
        typed(key, merged[key], dict, "a JSON object")
    check_numbers(merged)
    return ordered(merged)


def new_policies(clusters: list[str], bundles_data: Document, own_cluster: str) -> Document:
    """Policies of a namespace for which nothing was said."""
    return {
        "auth_policies": {
            "namespace_auth": {},
            "destination_auth": {},
            "subscription_auth_roles": {},
        },
        "replication_clusters": clusters,
        "allowed_clusters": [],
        "bundles": bundles_data,
        **{key: {} for key in _MAP_KEYS},
        "deleted": False,
        "encryption_required": False,
        "subscription_auth_mode": "None",
        "offload_threshold": -1,
        "offload_threshold_in_seconds": -1,
        "schema_compatibility_strategy": "UNDEFINED",
        "is_allow_auto_update_schema": True,
        "schema_validation_enforced": False,
        "subscription_types_enabled": [],
        "properties": {},
        "migrated": False,
        "clusterThatCanDeleteNamespace": own_cluster,
    }


def ordered(document: Mapping[str, Any]) -> Document:
    """Policies with their keys in stored order; keys newer than ours stay, at the end."""
    known = {key: document[key] for key in _POLICY_KEYS if document.get(key) is not None}
    return {**known, **{key: value for key, value in document.items() if key not in _POLICY_KEYS}}


def check_numbers(document: Mapping[str, Any]) -> None:
    """Refuses negative limits and impossible retention. Raises AdminError 400 or 412 with Pulsar's texts."""
    ttl = document.get("message_ttl_in_seconds")
    if ttl is not None and typed("message_ttl_in_seconds", ttl, int, "a whole number") < 0:
        raise AdminError(412, "Invalid value for message TTL")
    for key in _COUNT_KEYS:
        value = document.get(key)
        if value is not None and typed(key, value, int, "a whole number") < 0:
            raise AdminError(412, f"{key} must be 0 or more")
    retention = document.get("retention_policies")
    if retention is not None:
        check_retention(retention)


def check_retention(retention: Any) -> None:
    """Raises AdminError 400 unless both limits are -1, 0 or more, and zero only together."""
    typed("retention_policies", retention, dict, "a JSON object")
    minutes, megabytes = (
        typed(key, retention.get(key, 0), int, "a whole number")
        for key in ("retentionTimeInMinutes", "retentionSizeInMB")
    )
    if minutes < -1 or megabytes < -1:
        raise AdminError(400, "Invalid retention policy: limits must be -1, 0 or more")
    if (minutes == 0) != (megabytes == 0):
        raise AdminError(
            400, "Invalid retention policy: a zero limit needs the other to be zero as well"
        )
