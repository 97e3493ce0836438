"""The migration of this cluster's topics to another cluster, from memory until its record changes."""

from engine.base.names import NamespaceName
from engine.broker.ports import MigrationTarget
from engine.metadata import paths
from engine.metadata.records import Stored
from engine.metadata.store import MetadataStore, NoNodeError
from engine.tenancy.geo.cluster_migration import is_namespace_migrated, target_of


class StoredMigrations:
    """The migrations in the metadata store. Methods raise the store's errors; all are cancel-safe."""

    def __init__(self, store: MetadataStore, cluster: str) -> None:
        self._store = store
        self._path = paths.cluster_policies(cluster)
        self._known: tuple[bool, Stored] | None = None
        self._changes = 0
        self._follows = False

    async def target(self, namespace: NamespaceName) -> MigrationTarget | None:
        """Return the cluster that the topics of the namespace are migrated to; None when they are not."""
        everything, record = await self._stored()
        url = str(record.get("brokerServiceUrl") or "")
        url_tls = str(record.get("brokerServiceUrlTls") or "")
        if not url and not url_tls:
            return None
        if everything or await is_namespace_migrated(self._store, namespace):
            return MigrationTarget(url, url_tls, record)
        return None

    async def _stored(self) -> tuple[bool, Stored]:
        if not self._follows:
            self._follows = True
            self._store.watch(self._path, self._forget)
        if self._known is not None:
            return self._known
        changes = self._changes
        try:
            value, _ = await self._store.get(self._path)
            stored = target_of(value, self._path)
        except NoNodeError:
            stored = (False, {})
        if changes == self._changes:
            self._known = stored
        return stored

    def _forget(self, path: str) -> None:
        self._known = None
        self._changes += 1
