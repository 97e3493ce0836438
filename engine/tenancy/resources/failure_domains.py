"""Failure domains of a cluster, which are sets of brokers that fail together; no function needs a broker.

``/admin/clusters/<cluster>/failureDomain/<name>`` holds ``{"brokers": [id]}``. Functions raise Refusal with Pulsar's
text, and the store's errors. After cancellation a change may or may not have happened.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.records import Stored, encode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.tenancy.checks import check_document_size, node_name, texts
from engine.tenancy.nodes import change_below, children, find_node, read_node


async def list_failure_domains(store: MetadataStore, cluster: str) -> dict[str, Stored]:
    """Return a cluster's failure domains by name; none for a missing cluster, as in Pulsar."""
    domains: dict[str, Stored] = {}
    for name in await children(store, paths.failure_domains(node_name("Cluster", cluster))):
        stored = await find_node(store, paths.failure_domain(cluster, name))
        if stored is not None:
            domains[name] = stored
    return domains


async def get_failure_domain(store: MetadataStore, cluster: str, name: str) -> Stored:
    """Return a failure domain. Raises NotFound when missing, PreconditionFailed without the cluster."""
    await require_cluster(store, cluster)
    path = paths.failure_domain(cluster, node_name("Domain", name))
    return await read_node(store, path, f"Domain {name} for cluster {cluster} does not exist")


async def set_failure_domain(
    store: MetadataStore, cluster: str, name: str, given: Mapping[str, Any] | None
) -> None:
    """Create or replace a failure domain.

    Raises Conflict when one of its brokers is in another domain, PreconditionFailed without the cluster.
    """
    if given is None:
        raise InvalidRequest("body: a JSON object with brokers is needed")
    brokers = texts("brokers", given.get("brokers") or [])
    await require_cluster(store, cluster)
    path = paths.failure_domain(cluster, node_name("Domain", name))
    parent = paths.failure_domains(cluster)
    for other in await children(fresh(store, parent), parent):
        other_path = paths.failure_domain(cluster, other)
        stored = await find_node(fresh(store, other_path), other_path) if other != name else None
        if shared := [broker for broker in (stored or {}).get("brokers", []) if broker in brokers]:
            raise Conflict(f"[{', '.join(shared)}] already exists in {other}")
    value = check_document_size("failure domain", encode_json({"brokers": brokers}))
    missing = f"Cluster {cluster} does not exist."
    await change_below(
        store,
        paths.cluster(cluster),
        path.removeprefix(f"{paths.cluster(cluster)}/"),
        lambda _: value,
        missing,
    )


async def delete_failure_domain(store: MetadataStore, cluster: str, name: str) -> None:
    """Delete a failure domain. Raises NotFound when missing, PreconditionFailed without the cluster."""
    await require_cluster(store, cluster)
    try:
        await store.delete(paths.failure_domain(cluster, node_name("Domain", name)))
    except NoNodeError as error:
        raise NotFound(f"Domain-name {name} or cluster {cluster} does not exist") from error


async def require_cluster(store: MetadataStore, cluster: str) -> None:
    """Raise PreconditionFailed when the cluster does not exist."""
    if await store.exists(paths.cluster(node_name("Cluster", cluster))) is None:
        raise PreconditionFailed(f"Cluster {cluster} does not exist.")
