"""JSON documents of clusters, tenants and namespaces as Apache Pulsar stores them: key order, defaults, checks. Pure.

Stored form: UTF-8, no blanks, keys in the order below, unset keys absent. Layouts were read from Apache Pulsar 4.0.8.
"""

import json
from collections.abc import Mapping
from typing import Any

from engine.base.errors import AdminError
from engine.base.names import HASH_TOP

Document = dict[str, Any]

BUNDLES_MAX = 65_536
"""So that a namespace's boundaries fit a node of 1 MiB."""
PARTITIONS_MAX = 10_000

_CLUSTER_DEFAULTS: Document = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
    "brokerClientTlsEnabledWithKeyStore": False,
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
}
_CLUSTER_KEYS = [
    "serviceUrl",
    "serviceUrlTls",
    "brokerServiceUrl",
    "brokerServiceUrlTls",
    "proxyServiceUrl",
    "proxyProtocol",
    "authenticationPlugin",
    "authenticationParameters",
    "peerClusterNames",
    "brokerClientTlsEnabled",
    "tlsAllowInsecureConnection",
    "brokerClientTlsEnabledWithKeyStore",
    "brokerClientTlsTrustStoreType",
    "brokerClientTlsTrustStore",
    "brokerClientTlsTrustStorePassword",
    "brokerClientTlsKeyStoreType",
    "brokerClientTlsKeyStore",
    "brokerClientTlsKeyStorePassword",
    "brokerClientTrustCertsFilePath",
    "brokerClientKeyFilePath",
    "brokerClientCertificateFilePath",
    "brokerClientSslFactoryPlugin",
    "brokerClientSslFactoryPluginParams",
    "listenerName",
]
_CLUSTER_FLAGS = frozenset(
    key for key in _CLUSTER_KEYS if key.endswith(("Enabled", "Connection", "WithKeyStore"))
)

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


def encode(document: Mapping[str, Any]) -> bytes:
    """Stored form of a document."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode(value: bytes) -> Document:
    """Inverse of ``encode``; an empty node is an empty document. Raises ValueError when it is no JSON object."""
    if not value:
        return {}
    document = json.loads(value)
    if not isinstance(document, dict):
        raise ValueError("stored document is no JSON object")
    return document


def cluster(given: Mapping[str, Any]) -> Document:
    """What is stored of a cluster's data: known keys, flags false unless given. Raises AdminError 400."""
    out: Document = {}
    for key in _CLUSTER_KEYS:
        value = given.get(key)
        if value is None:
            if key in _CLUSTER_FLAGS:
                out[key] = False
            continue
        if key == "peerClusterNames":
            out[key] = _texts(key, value)
        elif key in _CLUSTER_FLAGS:
            out[key] = _typed(key, value, bool, "true or false")
        else:
            out[key] = _typed(key, value, str, "a text")
    for key, schemes in (("serviceUrl", ("http",)), ("serviceUrlTls", ("https",))):
        _check_url(
            out.get(key), schemes, "Illegal service url, example: http://pulsar.example.com:8080"
        )
    for key, schemes in (
        ("brokerServiceUrl", ("pulsar",)),
        ("brokerServiceUrlTls", ("pulsar+ssl",)),
    ):
        _check_url(
            out.get(key),
            schemes,
            "Illegal broker service url, example: pulsar://pulsar.example.com:6650",
        )
    return out


def _check_url(url: str | None, schemes: tuple[str, ...], refusal: str) -> None:
    if url and not any(
        part.startswith(f"{scheme}://") or ("://" not in part and index > 0)
        for index, part in enumerate(url.split(","))
        for scheme in schemes
    ):
        raise AdminError(400, refusal)


def own_cluster(broker_url: str, web_url: str) -> Document:
    """The cluster an instance makes of itself when it first starts."""
    return {"brokerServiceUrl": broker_url, **_CLUSTER_DEFAULTS, "serviceUrl": web_url}


def tenant(given: Mapping[str, Any]) -> Document:
    """What is stored of a tenant. Raises AdminError 400 or 412 with Pulsar's texts."""
    roles = _texts("adminRoles", given.get("adminRoles") or [])
    clusters = _texts("allowedClusters", given.get("allowedClusters") or [])
    if any(role != role.strip() for role in roles):
        raise AdminError(412, "AdminRoles contains whitespace in the beginning or end.")
    if not clusters or any(not name.strip() for name in clusters):
        raise AdminError(412, "Clusters cannot be empty or blank")
    return {"adminRoles": roles, "allowedClusters": clusters}


def even_bundles(count: int) -> Document:
    """``count`` bundles of equal size. Raises AdminError 400 outside 1..BUNDLES_MAX."""
    if not 1 <= count <= BUNDLES_MAX:
        raise AdminError(
            400,
            f"Invalid number of bundles. Number of bundles has to be in the range of (0, {BUNDLES_MAX}].",
        )
    step = (HASH_TOP + 1) // count
    edges = [index * step for index in range(count)] + [HASH_TOP]
    return {"boundaries": [f"0x{edge:08x}" for edge in edges], "numBundles": count}


def bundles(given: Any, default_count: int) -> Document:
    """Bundles of a new namespace: explicit boundaries, or a count (0 or none: the default)."""
    if given is None:
        return even_bundles(default_count)
    _typed("bundles", given, dict, "a JSON object")
    boundaries = given.get("boundaries") or []
    if not boundaries:
        count = _typed("numBundles", given.get("numBundles") or 0, int, "a whole number")
        return even_bundles(count or default_count)
    return {"boundaries": checked_boundaries(boundaries), "numBundles": len(boundaries) - 1}


def checked_boundaries(given: Any) -> list[str]:
    """``given`` as sorted unique ``0x%08x`` texts covering the whole hash range. Raises AdminError 400."""
    try:
        edges = sorted({int(text, 16) for text in _texts("boundaries", given)})
    except ValueError as error:
        raise AdminError(400, f"boundaries: not a hexadecimal number: {error}") from error
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != HASH_TOP:
        first, last = (f"0x{edge:08x}" for edge in (edges[0], edges[-1]))
        raise AdminError(
            400, f"Input bundles do not cover the whole hash range. first:{first}, last:{last}"
        )
    if len(edges) - 1 > BUNDLES_MAX:
        raise AdminError(400, f"boundaries: at most {BUNDLES_MAX} bundles")
    return [f"0x{edge:08x}" for edge in edges]


def policies(given: Mapping[str, Any], *, own_cluster: str, default_bundles: int) -> Document:
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
    merged["replication_clusters"] = _texts(
        "replication_clusters", given.get("replication_clusters") or [own_cluster]
    )
    merged["clusterThatCanDeleteNamespace"] = own_cluster
    for key in _MAP_KEYS:
        _typed(key, merged[key], dict, "a JSON object")
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
    if ttl is not None and _typed("message_ttl_in_seconds", ttl, int, "a whole number") < 0:
        raise AdminError(412, "Invalid value for message TTL")
    for key in _COUNT_KEYS:
        value = document.get(key)
        if value is not None and _typed(key, value, int, "a whole number") < 0:
            raise AdminError(412, f"{key} must be 0 or more")
    retention = document.get("retention_policies")
    if retention is not None:
        check_retention(retention)


def check_retention(retention: Any) -> None:
    """Raises AdminError 400 unless both limits are -1, 0 or more, and zero only together."""
    _typed("retention_policies", retention, dict, "a JSON object")
    minutes, megabytes = (
        _typed(key, retention.get(key, 0), int, "a whole number")
        for key in ("retentionTimeInMinutes", "retentionSizeInMB")
    )
    if minutes < -1 or megabytes < -1:
        raise AdminError(400, "Invalid retention policy: limits must be -1, 0 or more")
    if (minutes == 0) != (megabytes == 0):
        raise AdminError(
            400, "Invalid retention policy: a zero limit needs the other to be zero as well"
        )


def _texts(key: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise AdminError(400, f"{key}: must be a list of texts")
    return list(dict.fromkeys(value))


def _typed(key: str, value: Any, kind: type[Any], named: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise AdminError(400, f"{key}: must be {named}")
    return value
