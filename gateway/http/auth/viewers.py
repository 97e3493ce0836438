"""The viewers of a cluster's callers: what each role may see, while tenants and policies change.

Roles that are superusers see everything, and nothing is read for them. For others all tenants and policies are held,
as far as they give rights.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain

from django.conf import settings

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import AccessRules, judge
from engine.auth.authorization.policy_view import NamespaceAccess, TenantAccess
from engine.auth.authorization.viewer_of_roles import viewer_for
from engine.auth.identity import Identity
from engine.auth.resource_names import CLUSTER, TenantName
from engine.auth.viewer import ALL, Viewer
from engine.base.errors import InvalidNameError, MagnetarError
from engine.base.names import NamespaceName
from engine.base.tasks import TaskScope
from engine.metadata import paths
from engine.metadata.cached import follow
from engine.metadata.store import MetadataStore
from engine.tenancy.access.stored_access import (
    Access,
    Recorded,
    path_of,
    read_namespace,
    read_tenant,
)
from engine.tenancy.nodes import children
from engine.tenancy.tenants import list_tenants
from gateway.clusters.cluster import Cluster
from gateway.services.catalog import each
from gateway.services.engine_link import CALL_TIMEOUT_S, FAILURES

CHECK_S = 0.25
"""Interval at which open sockets follow changes of policies."""
Namespaces = dict[NamespaceName, NamespaceAccess]
VIEWERS_MAX = 1_000
"""Viewers that are kept until policies change."""


class HeldPolicies:
    """The access parts of all tenants and namespaces of a store; implements WholePolicyView. Used on one event loop.

    ``version`` changes whenever one of them does.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.version = 0
        self._store = store
        self._changes = follow(store)
        self._everything = True
        self._stale: dict[str, None] = {}
        self._tenants: dict[str, TenantAccess | None] = {}
        self._scopes: dict[str, Namespaces] = {}
        """Namespaces by the first two parts of their names; legacy names have a third."""
        self._lock = asyncio.Lock()

    def tenant(self, name: str) -> TenantAccess | None:
        return self._tenants.get(name)

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None:
        scope = "/".join(str(name).split("/", 2)[:2])
        return self._scopes.get(scope, {}).get(name)

    def tenants(self) -> Iterable[str]:
        return self._tenants

    def namespaces(self) -> Iterable[NamespaceName]:
        return chain.from_iterable(self._scopes.values())

    @property
    def is_current(self) -> bool:
        """True when ``refresh`` would read nothing."""
        self._collect_changes()
        return not (self._everything or self._stale or self._lock.locked())

    async def refresh(self) -> None:
        """Read what changed since the last call. Store errors pass through; the next call continues. Cancel-safe."""
        async with self._lock:
            self._collect_changes()
            everything, stale = self._everything, self._stale
            # Changes that are noticed meanwhile are left to the next call.
            self._everything, self._stale = False, {}
            try:
                if everything or "" in stale:
                    stale = stale | await self._read_names(everything)
                await each([name for name in stale if name in self._scopes], self._read)
            except BaseException:
                self._everything |= everything
                self._stale = stale | self._stale
                raise

    def _collect_changes(self) -> None:
        if self._changes is None:
            self._everything = True
            return
        everything, stale = self._changes.take()
        self._everything |= everything
        self._stale |= stale

    async def _read_names(self, everything: bool) -> dict[str, None]:
        """Read all tenants and the names below them; return those to be read then: the new ones, or all."""
        names = await list_tenants(self._store)
        tenants = dict(zip(names, await each(names, self._tenant), strict=True))
        lists = await each(names, lambda name: children(self._store, paths.tenant(name)))
        present = {
            f"{tenant}/{local}"
            for tenant, locals_ in zip(names, lists, strict=True)
            for local in locals_
        }
        if tenants != self._tenants or present != self._scopes.keys():
            self.version += 1
        new = present if everything else present - self._scopes.keys()
        self._tenants = tenants
        self._scopes = {name: self._scopes.get(name, {}) for name in present}
        return dict.fromkeys(new)

    async def _tenant(self, name: str) -> TenantAccess | None:
        return await read_tenant(self._store, name)

    async def _read(self, scope: str) -> None:
        below = await children(self._store, paths.namespace_policies(scope))
        namespaces: Namespaces = {}
        for name in (scope, *(f"{scope}/{local}" for local in below)):
            access = await read_namespace(self._store, name)
            # A node whose name is none of a namespace gives no rights.
            with suppress(InvalidNameError):
                if access is not None:
                    namespaces[NamespaceName.parse(name)] = access
        if namespaces != self._scopes[scope]:
            self._scopes[scope] = namespaces
            self.version += 1

    @property
    def damaged(self) -> Mapping[str, str]:
        """The damaged records, which give no right (A32), by their path: why they cannot be read."""
        accesses: Iterable[tuple[Recorded, Access]] = chain(
            ((TenantName(name), access) for name, access in self._tenants.items()),
            chain.from_iterable(scope.items() for scope in self._scopes.values()),
        )
        return {
            path_of(name): access.damage for name, access in accesses if access and access.damage
        }


class Viewers:
    """The viewers of a cluster's callers, one of its parts; for any event loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._link = cluster.link
        self._rules: AccessRules = settings.IDENTITY.access_rules(cluster.name)
        self._policies: HeldPolicies | None = None
        self._version = -1
        self._known: dict[Identity, Viewer] = {}
        self._watchers: dict[Callable[[], None], int] = {}
        self._ticker: TaskScope | None = None
        self._reading = False
        self._damaged: tuple[int, Mapping[str, str]] = (-1, {})

    async def of(self, identity: Identity) -> Viewer:
        """Return what a caller may see now. Raises the errors of the link and the store, and TimeoutError."""
        viewer = self._at_once(identity)
        if viewer is not None:
            return viewer
        if self.sees_all(identity):
            return ALL
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await self._link.on_loop(lambda: self._of(identity))

    def _at_once(self, identity: Identity) -> Viewer | None:
        """Return the viewer of a caller if it is known and nothing has changed; None otherwise."""
        policies = self._policies
        if policies is None or not self._link.is_running_here or not policies.is_current:
            return None
        return self._known.get(_roles(identity)) if policies.version == self._version else None

    def sees_all(self, identity: Identity) -> bool:
        """Return whether a caller is a superuser, which does not depend on policies."""
        return judge(identity, Action.SUPERUSER, CLUSTER, _NOTHING, self._rules).allowed

    async def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed``, on the link's loop, within a second after any tenant or policy has changed; return a
        function that ends this, for any thread. Raises as ``of``."""
        return await self._link.on_loop(lambda: self._watch(changed))

    async def _watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        policies = await self._refreshed()
        self._watchers[changed] = policies.version
        if self._ticker is None:
            self._ticker = TaskScope("viewers")
            self._ticker.spawn("follow", self._follow())

        def stop() -> None:
            if not self._link.loop.is_closed():
                self._link.loop.call_soon_threadsafe(self._unwatch, changed)

        return stop

    def _unwatch(self, changed: Callable[[], None]) -> None:
        self._watchers.pop(changed, None)
        if not self._watchers and self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None

    async def _follow(self) -> None:
        version = -1
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                policies = await self._refreshed()
            except MagnetarError:
                continue
            if version == policies.version:
                # One check later than the change was noticed: the judge's own records are current by then.
                for changed, known in tuple(self._watchers.items()):
                    if known != version:
                        self._watchers[changed] = version
                        changed()
            version = policies.version

    def damaged(self) -> Mapping[str, str]:
        """Return the damaged records as they are known now, by path; on the link's loop. They are read behind the call,
        also where all callers are superusers: brokers refuse the clients that need them."""
        policies = self._policies
        is_current = policies is not None and policies.is_current
        if not (is_current or self._reading):
            self._reading = True
            self._link.start(self._read_for_damage)
        if policies is None:
            return {}
        if self._damaged[0] != policies.version:
            self._damaged = policies.version, policies.damaged
        return self._damaged[1]

    async def _read_for_damage(self) -> None:
        try:
            await self._refreshed()
        except FAILURES:
            # The next call tries again.
            pass
        finally:
            self._reading = False

    async def policies(self) -> HeldPolicies:
        """Return the access parts of all tenants and namespaces as they are now; awaited on the link's loop. Raises as
        ``of``."""
        return await self._refreshed()

    async def _refreshed(self) -> HeldPolicies:
        if self._policies is None:
            engine = await self._link.engine()
            self._policies = self._policies or HeldPolicies(engine.store)
        try:
            await self._policies.refresh()
        except MagnetarError:
            # While the store is away, what was seen stays seen.
            if not self._policies.version:
                raise
        return self._policies

    async def _of(self, identity: Identity) -> Viewer:
        policies = await self._refreshed()
        if policies.version != self._version or len(self._known) >= VIEWERS_MAX:
            self._version = policies.version
            self._known.clear()
        key = _roles(identity)
        viewer = self._known.get(key)
        if viewer is None:
            viewer = self._known[key] = viewer_for(key, policies, self._rules)
        return viewer


def _roles(identity: Identity) -> Identity:
    """Return an identity without its expiry, which is no part of what is seen."""
    return Identity(identity.role, identity.original, identity.method)


class _Nothing:
    """PolicyView without records, for questions that concern none."""

    def tenant(self, name: str) -> TenantAccess | None:
        return None

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None:
        return None


_NOTHING = _Nothing()
