"""Limits on the number of tenants and namespaces, read from the brokers' settings without a broker."""

from engine.base.errors import PreconditionFailed
from engine.base.settings import overridden
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.store import MetadataStore
from engine.tenancy.nodes import children, find_node
from engine.tenancy.settings import TenantLimits

NO_LIMITS = TenantLimits()


async def in_force(store: MetadataStore, started: TenantLimits) -> TenantLimits:
    """Return the limits that are stored for all running processes, else those that this one was ``started`` with.

    An invalid stored value is ignored, as brokers ignore it. Raises the store's errors.
    """
    return overridden(started, await find_node(store, paths.CONFIGURATION) or {})[0]


async def check_room(store: MetadataStore, parent: str, limit: int, refusal: str) -> None:
    """Raise PreconditionFailed when ``parent`` has as many children as ``limit`` allows; 0 is no limit.

    Concurrent creations may exceed the limit, because each of them counts before it creates.
    """
    if limit and len(await children(fresh(store, parent), parent)) >= limit:
        raise PreconditionFailed(refusal)
