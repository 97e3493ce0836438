"""The stored policies of placement, read from the metadata store, through its cache where there is one."""

from collections.abc import Iterable

from engine.base.names import NamespaceName
from engine.metadata.store import MetadataStore
from engine.ownership.load.draining import drain_marks
from engine.ownership.load.policies import AntiAffinity, PlacementPolicies
from engine.tenancy.namespaces import anti_affinity, anti_affinity_members
from engine.tenancy.resources.failure_domains import list_failure_domains
from engine.tenancy.resources.isolation import IsolationPolicies, isolation_of


async def placement_policies(
    store: MetadataStore,
    cluster: str,
    namespaces: Iterable[NamespaceName],
    isolation: IsolationPolicies | None = None,
) -> PlacementPolicies:
    """Return the policies that concern bundles of ``namespaces``; ``isolation``: as read already.

    Raises ValueError for an unreadable record, and the store's errors; cancel-safe.
    """
    groups: dict[NamespaceName, AntiAffinity] = {}
    for namespace in dict.fromkeys(namespaces):
        group = await anti_affinity(store, namespace)
        if group:
            members = await anti_affinity_members(store, cluster, namespace.tenant, group)
            groups[namespace] = AntiAffinity(str(group), tuple(sorted(members)))
    if isolation is None:
        isolation = await isolation_of(store, cluster)
    domains = await _domains(store, cluster) if groups else {}
    return PlacementPolicies(isolation, groups, domains, await drain_marks(store))


async def _domains(store: MetadataStore, cluster: str) -> dict[str, str]:
    """Return the failure domain of each broker that is in one."""
    stored = await list_failure_domains(store, cluster)
    return {
        str(broker): name
        for name, domain in stored.items()
        for broker in domain.get("brokers") or ()
    }
