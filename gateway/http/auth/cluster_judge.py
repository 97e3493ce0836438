"""The judge of calls about a cluster, by the tenants and policies that its metadata store holds."""

import asyncio
from collections.abc import Callable, Iterable

from django.conf import settings

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import namespace_of, tenant_of
from engine.auth.identity import Identity
from engine.auth.judge import Judge, Judgement, Verdict
from engine.auth.resource_names import Resource, TenantName
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import create_judge
from engine.tenancy.access.stored_access import Recorded
from gateway.clusters.cluster import Cluster
from gateway.services.engine_link import CALL_TIMEOUT_S


class ClusterJudge:
    """Judge of a cluster, one of its parts; for any event loop.

    It answers at once on the loop of the cluster's link when the records are in memory.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._link = cluster.link
        self._judge: Judge | None = None
        self._watched: dict[Recorded, set[Callable[[], None]]] = {}

    def judge(self, identity: Identity, action: Action, resource: Resource) -> Judgement:
        if self._judge is not None and self._link.is_running_here:
            return self._judge.judge(identity, action, resource)
        return self._judged_on_loop(identity, action, resource)

    async def _judged_on_loop(
        self, identity: Identity, action: Action, resource: Resource
    ) -> Verdict:
        async def judged() -> Verdict:
            judgement = (await self._opened()).judge(identity, action, resource)
            return judgement if isinstance(judgement, Verdict) else await judgement

        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await self._link.on_loop(judged)

    async def _opened(self) -> Judge:
        """Return the judge over the records of the metadata session, on the link's loop. Raises as the link does."""
        engine = await self._link.engine()
        if self._judge is None:
            records = AccessRecords(
                engine.store, on_change=self._changed, in_use=self._watched.__contains__
            )
            self._judge = create_judge(settings.IDENTITY, records, self._cluster.name)
        return self._judge

    def watch(
        self, resources: Iterable[Resource], changed: Callable[[], None]
    ) -> Callable[[], None]:
        """Call ``changed``, on the link's loop, whenever a verdict about these resources may be another; return a
        function that ends this. For any thread, before the resources are judged."""
        names = {name for resource in resources for name in records_of(resource)}
        if self._link.is_running_here:
            self._watch(names, changed)
        else:
            self._link.loop.call_soon_threadsafe(self._watch, names, changed)
        return lambda: self._unwatch_later(names, changed)

    def _watch(self, names: set[Recorded], changed: Callable[[], None]) -> None:
        for name in names:
            self._watched.setdefault(name, set()).add(changed)

    def _unwatch_later(self, names: set[Recorded], changed: Callable[[], None]) -> None:
        if not self._link.loop.is_closed():
            self._link.loop.call_soon_threadsafe(self._unwatch, names, changed)

    def _unwatch(self, names: set[Recorded], changed: Callable[[], None]) -> None:
        for name in names:
            watchers = self._watched.get(name, set())
            watchers.discard(changed)
            if not watchers:
                self._watched.pop(name, None)

    def _changed(self, name: Recorded) -> None:
        for changed in tuple(self._watched.get(name, ())):
            changed()


def records_of(resource: Resource) -> tuple[Recorded, ...]:
    """Return the names of the records that verdicts about a resource depend on."""
    tenant = tenant_of(resource)
    if tenant is None:
        return ()
    namespace = namespace_of(resource)
    return (TenantName(tenant),) if namespace is None else (TenantName(tenant), namespace)
