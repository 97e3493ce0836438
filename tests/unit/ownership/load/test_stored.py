"""The policies of placement are read as administrators store them."""

import pytest

from engine.base.errors import Refusal
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.ownership.load.policies import AntiAffinity, PlacementPolicies
from engine.ownership.load.stored import placement_policies
from engine.tenancy.namespaces import bootstrap, create_namespace, set_anti_affinity
from engine.tenancy.resources.failure_domains import set_failure_domain

FIRST, SECOND, OTHER = (NamespaceName("public", name) for name in ("a", "b", "c"))


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryServer().session()
    await bootstrap(store, cluster="c", broker_url="b", web_url="w")
    for name in (FIRST, SECOND, OTHER):
        await create_namespace(store, name, {}, cluster="c")
    return store


async def test_nothing_is_restricted_without_policies(store: MemoryStore) -> None:
    policies = await placement_policies(store, "c", [FIRST, OTHER])
    assert (policies.groups, policies.domains, policies.excluded) == ({}, {}, {})
    assert not policies.isolation


async def test_members_of_a_group_and_failure_domains_are_known(store: MemoryStore) -> None:
    await set_anti_affinity(store, FIRST, "g")
    await set_anti_affinity(store, SECOND, "g")
    await set_failure_domain(store, "c", "west", {"brokers": ["b:1", "b:2"]})
    policies = await placement_policies(store, "c", [FIRST, OTHER])
    group = AntiAffinity("g", ("public/a", "public/b"))
    assert policies == PlacementPolicies(
        policies.isolation, {FIRST: group}, {"b:1": "west", "b:2": "west"}
    )


async def test_an_unreadable_record_is_an_error(store: MemoryStore) -> None:
    await set_anti_affinity(store, FIRST, "g")
    await store.put(paths.local_policies(str(FIRST)), b"{")
    with pytest.raises((ValueError, Refusal)):
        await placement_policies(store, "c", [FIRST])
