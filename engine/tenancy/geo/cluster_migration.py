"""Stored migrations of clusters and namespaces to another cluster (blue-green), in the form of Apache Pulsar 4.0.8.

A cluster's policies name the other cluster and whether all topics are migrated; a namespace is migrated alone by its
local policies.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.records import Document, Stored, decode_json, encode_json
from engine.metadata.store import MetadataStore
from engine.metadata.update import update
from engine.tenancy.checks import typed
from engine.tenancy.clusters import get_cluster
from engine.tenancy.namespaces import change_local_policies
from engine.tenancy.nodes import find_node, read_node

URLS = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls")
MIGRATED, TARGET = "migrated", "migratedClusterUrl"


async def get_migration(store: MetadataStore, cluster: str) -> Document:
    """Return Pulsar's ClusterPolicies. Raises NotFound for a cluster that was never migrated."""
    stored = await read_node(store, paths.cluster_policies(cluster), "Cluster does not exist")
    target = stored.get(TARGET) or {}
    shown = {key: target[key] for key in URLS if target.get(key)}
    return {MIGRATED: bool(stored.get(MIGRATED)), TARGET: {**shown, "empty": not shown}}


async def set_migration(
    store: MetadataStore, cluster: str, target: Mapping[str, Any], *, migrated: bool
) -> None:
    """Name the cluster to which topics of ``cluster`` are migrated, all of them if ``migrated``.

    Raises NotFound without the cluster, InvalidRequest for addresses that are no text.
    """
    await get_cluster(store, cluster)
    urls = {
        key: typed(key, target[key], str, "a text") for key in URLS if target.get(key) is not None
    }
    value = encode_json({MIGRATED: migrated, TARGET: urls})
    await update(store, paths.cluster_policies(cluster), lambda _: value, create=lambda: value)


async def set_namespace_migration(
    store: MetadataStore, name: NamespaceName, *, migrated: bool
) -> None:
    """Migrate the topics of a namespace, or no longer, to the cluster that its own cluster's policies name. Raises
    NotFound without the namespace."""
    await change_local_policies(store, name, MIGRATED, migrated)


async def is_namespace_migrated(store: MetadataStore, name: NamespaceName) -> bool:
    """Return whether the namespace is migrated on its own."""
    local = await find_node(store, paths.local_policies(str(name))) or {}
    return bool(local.get(MIGRATED))


def target_of(value: bytes, path: str) -> tuple[bool, Stored]:
    """Return whether all topics are migrated, and the addresses of the other cluster, empty where none is named."""
    stored = decode_json(value, path)
    return bool(stored.get(MIGRATED)), stored.get(TARGET) or {}
