"""Policies of namespaces as Apache Pulsar stores them: key order, defaults, checks. Pure.

The stored form is UTF-8 JSON without blanks, with keys in the order below and without unset keys. The layouts were read
from Apache Pulsar 4.0.8.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import NotBuilt, PreconditionFailed
from engine.metadata.records import Document
from engine.tenancy.bundles import bundles, even_bundles
from engine.tenancy.checks import read_actions, read_roles, text_map, texts, typed
from engine.tenancy.policies.in_force import of_cluster, put_on_namespace
from engine.tenancy.policies.policy import find
from engine.tenancy.policies.table import OFFLOADING, POLICIES, RETENTION, SIZE_QUOTA
from engine.tenancy.policies.values import OFFLOAD_DRIVER, fits

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

_READ_APART = {
    "auth_policies",
    "bundles",
    "replication_clusters",
    "properties",
    "resource_group_name",
    "clusterThatCanDeleteNamespace",
} | {policy.key[0] for policy in POLICIES if policy.key}
_AS_GOOD_AS_DEFAULT: dict[str, tuple[Any, ...]] = {
    "subscription_auth_mode": ("",),
}
"""Values that clients send although their user set nothing; they act as the default does."""


def given_policies(given: Mapping[str, Any], *, own_cluster: str, default_bundles: int) -> Document:
    """Return the policies of a new namespace: the caller's values over Pulsar's defaults.

    Unknown keys, nulls and empty texts (a Go client sends them for unset enums) count as not given. Raises
    InvalidRequest or PreconditionFailed for a value that a policy may not have, NotBuilt for a policy that has no
    effect yet.
    """
    merged = new_policies([own_cluster], even_bundles(default_bundles), own_cluster)
    for key in _MAP_KEYS:
        if given.get(key) is not None:
            typed(key, given[key], dict, "a JSON object")
    given_here = of_cluster(given, own_cluster)
    for policy in POLICIES:
        value = find(given_here, policy.key) if policy.key else None
        if value in (None, "", []):
            continue
        if policy is OFFLOADING and isinstance(value, dict) and not value.get(OFFLOAD_DRIVER):
            continue  # without a driver, the numbers in it are separate policies
        put_on_namespace(merged, policy, policy.read(value), own_cluster)
    for key in _POLICY_KEYS:
        value = given.get(key)
        if key in _READ_APART or value is None or value == merged.get(key):
            continue
        default = merged.get(key)
        empty = (not default or isinstance(default, dict)) and _is_empty(value)
        if not empty and value not in _AS_GOOD_AS_DEFAULT.get(key, ()):
            raise NotBuilt(f"{key}: nothing acts upon this policy yet")
    merged["auth_policies"] = _permissions(
        given.get("auth_policies") or {}, merged["auth_policies"]
    )
    merged["bundles"] = bundles(given.get("bundles"), default_bundles)
    merged["replication_clusters"] = texts(
        "replication_clusters", given.get("replication_clusters") or [own_cluster]
    )
    merged["properties"] = text_map("properties", given.get("properties") or {})
    if group := given.get("resource_group_name"):
        merged["resource_group_name"] = typed("resource_group_name", group, str, "a text")
    if not fits(find(merged, SIZE_QUOTA.key), find(merged, RETENTION.key)):
        raise PreconditionFailed(
            "Retention Quota must exceed configured backlog quota for namespace."
        )
    return ordered(merged)


def _permissions(given: Any, defaults: Document) -> Document:
    """Return the permissions of a new namespace. Raises InvalidRequest."""
    typed("auth_policies", given, dict, "a JSON object")
    permissions = {
        key: typed(key, given.get(key) or {}, dict, "a JSON object") for key in (*defaults, *given)
    }
    permissions["namespace_auth"] = _actions(permissions["namespace_auth"])
    permissions["destination_auth"] = {
        topic: _actions(typed(topic, roles, dict, "a JSON object"))
        for topic, roles in permissions["destination_auth"].items()
    }
    permissions["subscription_auth_roles"] = {
        name: read_roles(roles) for name, roles in permissions["subscription_auth_roles"].items()
    }
    return permissions


def _actions(roles: Document) -> Document:
    return {role: read_actions(actions) for role, actions in roles.items()}


def _is_empty(value: Any) -> bool:
    """Return whether a value is None, 0, -1 (no limit), false, without items, or an object of such values."""
    if isinstance(value, dict):
        return all(_is_empty(item) for item in value.values())
    return not value or value == -1


def new_policies(clusters: list[str], bundles_data: Document, own_cluster: str) -> Document:
    """Return the policies of a namespace for which no policy was given."""
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
    """Return policies with their keys in stored order; unknown keys of newer versions follow at the end."""
    known = {key: document[key] for key in _POLICY_KEYS if document.get(key) is not None}
    return {**known, **{key: value for key, value in document.items() if key not in _POLICY_KEYS}}
