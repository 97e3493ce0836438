"""Stored clusters and their changes by compare-and-set, which need no broker.

Functions raise Refusal with Pulsar's text, and the store's errors. After cancellation a change may or may not have
happened. Layout and defaults were read from Apache Pulsar 4.0.8.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import InvalidRequest, PreconditionFailed
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.records import Document, Stored, decode_json, encode_json
from engine.metadata.store import MetadataStore
from engine.tenancy.checks import entity, texts, typed
from engine.tenancy.listing import all_namespaces
from engine.tenancy.nodes import (
    change_node,
    children,
    create_node,
    delete_tree,
    find_node,
    read_node,
)

GLOBAL_CLUSTER = "global"
"""Cluster name that tenants and namespaces may use in Pulsar although no such cluster exists."""

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


def cluster_name(name: str) -> str:
    """Return ``name`` if a cluster may have it. Raises PreconditionFailed."""
    return entity("Cluster", name)


def cluster_data(given: Mapping[str, Any]) -> Document:
    """Return the stored form of a cluster's data: known keys, with flags false unless given. Raises InvalidRequest."""
    out: Document = {}
    for key in _CLUSTER_KEYS:
        value = given.get(key)
        if value is None:
            if key in _CLUSTER_FLAGS:
                out[key] = False
            continue
        if key == "peerClusterNames":
            out[key] = texts(key, value)
        elif key in _CLUSTER_FLAGS:
            out[key] = typed(key, value, bool, "true or false")
        else:
            out[key] = typed(key, value, str, "a text")
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
        raise InvalidRequest(refusal)


def initial_cluster(given: Mapping[str, Any]) -> Document:
    """Return the data that initialize-cluster-metadata stores. Raises InvalidRequest for invalid data."""
    return {**_CLUSTER_DEFAULTS, **cluster_data(given)}


def own_cluster(broker_url: str, web_url: str) -> Document:
    """Return the data of the cluster that an instance creates for itself on its first start."""
    return {"brokerServiceUrl": broker_url, **_CLUSTER_DEFAULTS, "serviceUrl": web_url}


async def list_clusters(store: MetadataStore) -> list[str]:
    """Return the names of all clusters, sorted, without the pseudo cluster ``global``."""
    return [name for name in await children(store, paths.CLUSTERS) if name != GLOBAL_CLUSTER]


async def get_cluster(store: MetadataStore, name: str) -> Stored:
    """Return a cluster's ClusterData. Raises NotFound when missing."""
    return await read_node(store, paths.cluster(cluster_name(name)), "Cluster does not exist")


async def create_cluster(store: MetadataStore, name: str, given: Mapping[str, Any] | None) -> None:
    """Create a cluster. Raises AlreadyExists, and InvalidRequest for invalid data."""
    if given is None:
        raise InvalidRequest("cluster data is required")
    path, value = paths.cluster(cluster_name(name)), encode_json(cluster_data(given))
    await create_node(store, path, value, "Cluster already exists")


async def update_cluster(store: MetadataStore, name: str, given: Mapping[str, Any] | None) -> None:
    """Replace all data of a cluster. Raises NotFound when missing, InvalidRequest for invalid data."""
    if given is None:
        raise InvalidRequest("cluster data is required")
    value = encode_json(cluster_data(given))
    await change_node(
        store, paths.cluster(cluster_name(name)), lambda _: value, "Cluster does not exist"
    )


async def set_peer_clusters(store: MetadataStore, name: str, peers: list[str]) -> None:
    """Replace the peers of a cluster. Raises PreconditionFailed for the cluster itself or an unknown cluster."""
    known = set(await list_clusters(store))
    if name in known:
        for peer in peers:
            if peer == name:
                raise PreconditionFailed(f"{name} itself can't be part of peer-list")
            if peer not in known:
                raise PreconditionFailed(f"Peer cluster {peer} does not exist")

    def change(value: bytes) -> bytes:
        data = decode_json(value, "cluster")
        data["peerClusterNames"] = list(dict.fromkeys(peers))
        return encode_json(data)

    await change_node(store, paths.cluster(cluster_name(name)), change, "Cluster does not exist")


async def delete_cluster(store: MetadataStore, name: str) -> None:
    """Delete a cluster.

    Raises NotFound when missing, PreconditionFailed while it has isolation policies or holds a namespace.
    """
    await get_cluster(store, name)
    isolation = paths.isolation_policies(name)
    if await find_node(fresh(store, isolation), isolation):
        raise PreconditionFailed("Cluster not empty")
    for namespace in await all_namespaces(store, anew=True):
        policies = await find_node(store, paths.namespace_policies(namespace))
        if policies is not None and name in policies.get("replication_clusters", []):
            raise PreconditionFailed("Cluster not empty")
    await delete_tree(store, paths.cluster(name))
