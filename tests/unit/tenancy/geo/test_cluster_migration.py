"""Stored migrations to another cluster, in Pulsar's form."""

import pytest

from engine.base.errors import InvalidRequest, NotFound
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import decode_json
from engine.metadata.store import MetadataStore
from engine.tenancy.clusters import create_cluster, list_clusters
from engine.tenancy.geo.cluster_migration import (
    get_migration,
    is_namespace_migrated,
    set_migration,
    set_namespace_migration,
)
from engine.tenancy.namespaces import create_namespace, set_anti_affinity
from engine.tenancy.tenants import create_tenant

NS = NamespaceName.parse("t/n")
URLS = {"serviceUrl": "http://h:1", "brokerServiceUrl": "pulsar://h:2"}


@pytest.fixture
async def store() -> MetadataStore:
    store = MemoryServer().session()
    await create_cluster(store, "us", {"serviceUrl": "http://us:8080"})
    await create_tenant(store, "t", {"allowedClusters": ["us"]})
    await create_namespace(store, NS, {}, cluster="us")
    return store


async def test_the_target_is_stored_as_apache_stores_it(store: MetadataStore) -> None:
    with pytest.raises(NotFound, match="Cluster does not exist"):
        await get_migration(store, "us")
    await set_migration(store, "us", URLS, migrated=False)
    value, _ = await store.get(paths.cluster_policies("us"))
    assert decode_json(value, "") == {"migrated": False, "migratedClusterUrl": URLS}
    assert await get_migration(store, "us") == {
        "migrated": False,
        "migratedClusterUrl": {**URLS, "empty": False},
    }
    await set_migration(store, "us", {}, migrated=True)
    assert await get_migration(store, "us") == {
        "migrated": True,
        "migratedClusterUrl": {"empty": True},
    }
    assert await list_clusters(store) == ["us"]


async def test_only_existing_clusters_are_migrated_and_to_addresses(store: MetadataStore) -> None:
    with pytest.raises(NotFound, match="Cluster does not exist"):
        await set_migration(store, "eu", URLS, migrated=True)
    with pytest.raises(InvalidRequest, match="serviceUrl"):
        await set_migration(store, "us", {"serviceUrl": 5}, migrated=True)


async def test_a_namespace_is_migrated_on_its_own(store: MetadataStore) -> None:
    await set_anti_affinity(store, NS, "group")
    assert not await is_namespace_migrated(store, NS)
    await set_namespace_migration(store, NS, migrated=True)
    assert await is_namespace_migrated(store, NS)
    await set_namespace_migration(store, NS, migrated=False)
    assert not await is_namespace_migrated(store, NS)
    with pytest.raises(NotFound):
        await set_namespace_migration(store, NamespaceName.parse("t/no"), migrated=True)
