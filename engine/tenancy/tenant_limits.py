"""Limits of tenants and namespaces, as the brokers' settings have them: who makes them needs no broker."""

from engine.base.errors import PreconditionFailed
from engine.base.settings import overridden
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.store import MetadataStore
from engine.tenancy.nodes import children, find_node
from engine.tenancy.settings import TenantLimits

NO_LIMITS = TenantLimits()


async def in_force(store: MetadataStore, started: TenantLimits) -> TenantLimits:
    """What is stored for all processes while they run, else what this one was ``started`` with. A value that is none
    is left out, as by brokers. Raises the store's errors."""
    return overridden(started, await find_node(store, paths.CONFIGURATION) or {})[0]


async def check_room(store: MetadataStore, parent: str, limit: int, refusal: str) -> None:
    """Whether one more node may be made below ``parent``. Raises PreconditionFailed. Those who ask at the same time
    may go beyond the limit."""
    if limit and len(await children(fresh(store, parent), parent)) >= limit:
        raise PreconditionFailed(refusal)
