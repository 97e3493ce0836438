"""The clusters of the settings, each with the link to it: to our brokers and metadata, or to an Apache Pulsar."""

import asyncio
from functools import partial

from django.conf import settings

from engine.admin.client import AdminClient
from engine.auth.internal import TOKEN_FILE, load_token
from engine.base.entropy import RandomEntropy
from engine.functions.worker_client import WorkerClient
from engine.metadata.apart.stores import connect_stores
from engine.metadata.incomplete import check_complete
from engine.net.network import LoopNetwork
from gateway.apache.connecting import apache_link
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import Clusters
from gateway.environment import ClusterSettings
from gateway.services.engine_link import (
    CALL_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    SESSION_TIMEOUT_S,
    Engine,
    EngineLink,
)
from gateway.services.guarded_store import GuardedStore


def configured_clusters(loop: asyncio.AbstractEventLoop) -> Clusters:
    """Return the clusters of the settings on ``loop``, the server's, which may not run yet."""
    default, *others = (Cluster(item, _link(item, loop)) for item in settings.CLUSTERS)
    return Clusters(default, *others)


def _link(cluster: ClusterSettings, loop: asyncio.AbstractEventLoop) -> EngineLink:
    if cluster.apache is not None:
        return apache_link(cluster.apache, loop)
    opening = partial(open_engine, cluster)
    return EngineLink(opening, loop, cluster.metadata_url, cluster.stores.by_role())


async def open_engine(cluster: ClusterSettings) -> Engine:
    """Connect to a cluster of our own. Raises TokenError, StoreUnavailableError, IncompleteStoreError."""
    token = internal_token(cluster)
    store = await connect_stores(
        cluster.stores,
        access=cluster.metadata_access,
        session_timeout_s=SESSION_TIMEOUT_S,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        wrap=GuardedStore,
    )
    try:
        await check_complete(store)
    except BaseException:
        await store.close()
        raise
    tls = settings.BROKER_CLIENT.tls()
    admin = AdminClient(store, LoopNetwork(), token, timeout_s=CALL_TIMEOUT_S, tls=tls)
    workers = WorkerClient(store, LoopNetwork(), token, tls=tls)
    return Engine(store, admin, cluster.name, workers=workers)


def internal_token(cluster: ClusterSettings) -> str:
    """Return the token that authenticates the gateway to the cluster's brokers: the cluster's own if its folder holds
    one, else the gateway's. Raises TokenError."""
    if cluster.folder != cluster.data_dir and (cluster.folder / TOKEN_FILE).exists():
        return load_token(cluster.folder, "", RandomEntropy())
    return load_token(cluster.data_dir, cluster.internal_token, RandomEntropy())
