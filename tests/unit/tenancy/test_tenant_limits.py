"""Limits on the number of tenants and namespaces."""

from typing import Any

import pytest

from engine.base.errors import AlreadyExists, NotFound, PreconditionFailed
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import encode_json
from engine.metadata.store import MetadataStore
from engine.tenancy.namespaces import bootstrap, create_namespace
from engine.tenancy.settings import TenantLimits
from engine.tenancy.tenant_limits import in_force
from engine.tenancy.tenants import create_tenant

INFO = {"adminRoles": [], "allowedClusters": ["standalone"]}
LIMITS = TenantLimits(max_tenants=4, max_namespaces_per_tenant=2)
"""Two tenants are there from the start."""


@pytest.fixture
async def store() -> MetadataStore:
    session = MemoryServer().session()
    await bootstrap(session, cluster="standalone", broker_url="pulsar://a:1", web_url="http://a:2")
    return session


async def say(store: MetadataStore, **values: Any) -> None:
    """Store these values, by Pulsar's names, for all processes."""
    await store.create(paths.CONFIGURATION, encode_json(values), make_parents=True)


async def make(store: MetadataStore, name: str) -> None:
    namespace = NamespaceName.parse(name)
    await create_namespace(store, namespace, None, cluster="standalone", limits=LIMITS)


async def test_no_more_tenants_than_the_limit(store: MetadataStore) -> None:
    for name in ("a", "b"):
        await create_tenant(store, name, INFO, limits=LIMITS)
    with pytest.raises(PreconditionFailed, match=r"^Exceed the maximum number of tenants$"):
        await create_tenant(store, "c", INFO, limits=LIMITS)
    with pytest.raises(AlreadyExists):  # as Apache's broker says it
        await create_tenant(store, "a", INFO, limits=LIMITS)
    await create_tenant(store, "c", INFO)


async def test_no_more_namespaces_of_a_tenant_than_the_limit(store: MetadataStore) -> None:
    for name in ("a", "b"):
        await create_tenant(store, name, INFO)
    for name in ("a/n1", "a/n2", "b/n1"):
        await make(store, name)
    for name in ("a/n3", "a/n1"):
        with pytest.raises(
            PreconditionFailed, match=r"^Exceed the maximum number of namespace in tenant :a$"
        ):
            await make(store, name)
    with pytest.raises(NotFound):
        await make(store, "nobody/n1")
    await make(store, "b/n2")


async def test_limits_stored_for_all_count_and_invalid_numbers_do_not(
    store: MetadataStore,
) -> None:
    assert await in_force(store, LIMITS) == LIMITS
    await say(store, maxTenants="3", maxNamespacesPerTenant="many", loadBalancerEnabled="true")
    assert await in_force(store, LIMITS) == TenantLimits(3, 2)
    await create_tenant(store, "a", INFO, limits=LIMITS)
    with pytest.raises(PreconditionFailed):
        await create_tenant(store, "b", INFO, limits=LIMITS)
