"""The cached metadata store of a cluster, which refuses changes of policies while they are read-only (A21)."""

from engine.metadata import paths
from engine.metadata.cached import CachedStore
from engine.metadata.store import ANY_VERSION, Stat
from engine.tenancy.access.read_only import check_writable

_POLICIES = (f"{paths.POLICIES}/", f"{paths.CLUSTERS}/")


class GuardedStore(CachedStore):
    """A cached store. Changes of tenants, namespaces' policies and clusters raise Forbidden while the node
    ``/admin/flags/policies-readonly`` exists."""

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        await self._check(path)
        return await super().create(
            path, value, ephemeral=ephemeral, sequence=sequence, make_parents=make_parents
        )

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        await self._check(path)
        return await super().put(path, value, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._check(path)
        await super().delete(path, version)

    async def _check(self, path: str) -> None:
        if path.startswith(_POLICIES):
            await check_writable(self)
