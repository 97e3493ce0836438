"""The stored records decide where topics are migrated to."""

import asyncio

from engine.base.names import NamespaceName
from engine.broker.control.geo.stored_migrations import StoredMigrations
from engine.metadata.memory import MemoryServer
from engine.tenancy.clusters import create_cluster
from engine.tenancy.geo.cluster_migration import set_migration, set_namespace_migration
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.tenants import create_tenant

NS = NamespaceName.parse("t/n")
OTHER = NamespaceName.parse("t/o")
URLS = {"brokerServiceUrl": "pulsar://h:2"}


async def test_a_cluster_or_single_namespaces_are_migrated() -> None:
    store = MemoryServer().session()
    await create_cluster(store, "us", {"serviceUrl": "http://us:8080"})
    await create_tenant(store, "t", {"allowedClusters": ["us"]})
    for name in (NS, OTHER):
        await create_namespace(store, name, {}, cluster="us")
    migrations = StoredMigrations(store, "us")
    await set_namespace_migration(store, NS, migrated=True)
    assert await migrations.target(NS) is None, "no cluster is named"
    await set_migration(store, "us", URLS, migrated=False)
    await asyncio.sleep(0)
    target = await migrations.target(NS)
    assert target is not None
    assert (target.url, target.url_tls, target.record) == ("pulsar://h:2", "", URLS)
    assert await migrations.target(OTHER) is None
    await set_migration(store, "us", URLS, migrated=True)
    await asyncio.sleep(0)
    assert await migrations.target(OTHER) == target
    await set_migration(store, "us", {}, migrated=True)
    await asyncio.sleep(0)
    assert await migrations.target(OTHER) is None
