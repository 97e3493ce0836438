"""Creation below a parent that is deleted at the same time: refused, and the parent is not created again empty."""

from collections.abc import Awaitable, Callable

import pytest

from engine.base.errors import NotFound
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.tenancy.clusters import create_cluster, delete_cluster
from engine.tenancy.namespaces import (
    bootstrap,
    create_namespace,
    delete_namespace,
    get_policies,
    set_anti_affinity,
)
from engine.tenancy.resources.failure_domains import set_failure_domain
from engine.tenancy.resources.isolation import set_isolation_policy
from engine.tenancy.tenants import create_tenant, delete_tenant, list_tenants

ISOLATION = {
    "namespaces": ["t/.*"],
    "primary": ["b.*"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "100"},
    },
}


class Interrupted:
    """A session that runs ``meanwhile`` once, immediately before its first create or put."""

    def __init__(self, store: MemoryStore, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    def __getattr__(self, name: str) -> object:
        if name in ("create", "put") and self._meanwhile is not None:
            return self._after_meanwhile(name)
        return getattr(self._store, name)

    def _after_meanwhile(self, name: str) -> Callable[..., Awaitable[object]]:
        async def call(*args: object, **options: object) -> object:
            if self._meanwhile is not None:
                meanwhile, self._meanwhile = self._meanwhile, None
                await meanwhile()
            return await getattr(self._store, name)(*args, **options)

        return call


async def fresh() -> MemoryStore:
    store = MemoryServer().session()
    await bootstrap(store, cluster="standalone", broker_url="pulsar://b:1", web_url="http://b:2")
    return store


@pytest.mark.parametrize("name", ["t/n", "t/standalone/n"])
async def test_a_tenant_deleted_while_a_namespace_is_made_stays_deleted(name: str) -> None:
    store = await fresh()
    await create_tenant(store, "t", {"allowedClusters": ["standalone"]})
    slow = Interrupted(store, lambda: delete_tenant(store, "t"))
    with pytest.raises(NotFound, match="Tenant does not exist"):
        await create_namespace(slow, NamespaceName.parse(name), {}, cluster="standalone")  # type: ignore[arg-type]
    assert "t" not in await list_tenants(store)
    with pytest.raises(NotFound):
        await get_policies(store, NamespaceName.parse(name))


async def test_a_namespace_with_a_cluster_in_its_name_is_made_below_its_tenant() -> None:
    store = await fresh()
    for local in ("a", "b"):
        name = NamespaceName.parse(f"public/standalone/{local}")
        await create_namespace(store, name, {}, cluster="standalone")
        assert (await get_policies(store, name))["bundles"]["numBundles"] == 32


@pytest.mark.parametrize(
    "change",
    [
        lambda store: set_failure_domain(store, "c", "d", {"brokers": ["b"]}),
        lambda store: set_isolation_policy(store, "c", "p", ISOLATION),
    ],
)
async def test_a_cluster_deleted_while_something_is_made_of_it_stays_deleted(
    change: Callable[[object], Awaitable[None]],
) -> None:
    store = await fresh()
    await create_cluster(store, "c", {"serviceUrl": "http://x:1"})
    slow = Interrupted(store, lambda: delete_cluster(store, "c"))
    with pytest.raises(NotFound, match="Cluster c does not exist"):
        await change(slow)
    assert await store.exists(paths.cluster("c")) is None
    await create_cluster(store, "c", {"serviceUrl": "http://x:1"})
    await change(store)
    await change(store)


async def test_nothing_is_left_beside_a_namespace_deleted_meanwhile() -> None:
    """Leave no local policies: their boundaries would apply to the next namespace of that name."""
    store, name = await fresh(), NamespaceName.parse("public/n")
    await create_namespace(store, name, {}, cluster="standalone")
    slow = Interrupted(store, lambda: delete_namespace(store, name))
    with pytest.raises(NotFound):
        await set_anti_affinity(slow, name, "g")  # type: ignore[arg-type]
    assert await store.exists(paths.local_policies(str(name))) is None
