"""Records of tenants and namespaces by which calls are judged, in memory while the store's watches keep them current.

A record that was read once is never forgotten while it is needed, so that an unavailable store revokes no right (A18).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

from engine.auth.authorization.policy_view import NamespaceAccess, NotKnown, TenantAccess
from engine.auth.resource_names import TenantName
from engine.base.errors import MagnetarError, NotReady
from engine.base.names import NamespaceName
from engine.base.tasks import TaskScope, UnderWay
from engine.metadata.apart.routed import store_at, unavailable
from engine.metadata.cached import fresh
from engine.metadata.store import (
    MetadataStore,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)
from engine.tenancy.access.stored_access import (
    Access,
    Recorded,
    path_of,
    read_namespace,
    read_tenant,
)

log = logging.getLogger(__name__)

RECORDS_MAX = 20_000
EVICTIONS_TRIED = 8
"""Number of records that are examined when the bound is exceeded. If all are in use, the bound is exceeded by one."""


def _nothing() -> None:
    """Do nothing: the record is not watched."""


class _Record:
    """Record as it was read last. ``current``: no change was noticed since that read began."""

    __slots__ = ("access", "changes", "current", "stop")

    def __init__(self) -> None:
        self.access: Access = None
        self.changes = 0
        self.current = False
        self.stop: Callable[[], None] = _nothing


class LastKnown:
    """PolicyView of what was read last, whether or not it changed since. Raises NotKnown for what was never read."""

    def __init__(self, records: OrderedDict[Recorded, _Record]) -> None:
        self._records = records

    def tenant(self, name: str) -> TenantAccess | None:
        access = self._held(TenantName(name))
        assert not isinstance(access, NamespaceAccess)
        return access

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None:
        access = self._held(name)
        assert not isinstance(access, TenantAccess)
        return access

    def _held(self, name: Recorded) -> Access:
        record = self._records.get(name)
        if record is None:
            raise NotKnown(name)
        return record.access


class AccessRecords(LastKnown):
    """The access parts of records in ``store``, read when they are first asked for; implements PolicyView.

    Created inside a running loop; ``close`` is called at the end. ``on_change`` is called on the loop after each
    possible change of a record that is held, which includes every reconnect of the store. At most RECORDS_MAX records
    are held, and those for which ``in_use`` returns true, of which no change may be missed.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        on_change: Callable[[Recorded], None] = lambda name: None,
        in_use: Callable[[Recorded], bool] = lambda name: False,
    ) -> None:
        self._store = store
        self._on_change = on_change
        self._in_use = in_use
        super().__init__(OrderedDict())
        self.last_known = LastKnown(self._records)
        self._tasks = TaskScope("access-records")
        self._reads: UnderWay[Recorded, Exception | None] = UnderWay(self._tasks)

    def _held(self, name: Recorded) -> Access:
        """Return a record that is current, or the last known one while it cannot be read. Raises NotKnown."""
        record = self._records.get(name)
        if record is None or (not record.current and self._connected(name)):
            raise NotKnown(name)
        self._records.move_to_end(name)
        return record.access

    def is_certain(self, name: Recorded) -> bool:
        """Return whether the record is held, and could not have changed without notice."""
        record = self._records.get(name)
        return record is not None and record.current and self._connected(name)

    def _connected(self, name: Recorded) -> bool:
        return store_at(self._store, path_of(name)).state is SessionState.CONNECTED

    # Reading

    async def refresh(self, name: Recorded) -> None:
        """Read a record unless the one that is held is current. Raises and is shared as ``load``."""
        record = self._records.get(name)
        if record is None or not record.current:
            await self.load(name)

    async def load(self, name: Recorded) -> None:
        """Read a record; concurrent callers share the read. Cancel-safe.

        Raises NotReady when the store does not answer; what was read before is kept. A damaged record is read (A32).
        """
        task = self._reads.of(name) or self._reads.begin(name, "read", self._read(name))
        error = await asyncio.shield(task)
        if isinstance(error, StoreUnavailableError | SessionExpiredError):
            raise NotReady(unavailable(error)) from error
        if error is not None:
            raise NotReady(f"The record of {name} cannot be read: {error}") from error

    async def _read(self, name: Recorded) -> Exception | None:
        """Read a record, and return the error if it cannot be read."""
        path = path_of(name)
        record = self._records.get(name) or _Record()
        if name not in self._records:
            # Watched before the read, so that a change during it is noticed.
            record.stop = self._store.watch(path, lambda _: self._changed(name, record))
        changes = record.changes
        try:
            store = fresh(self._store, path)
            if isinstance(name, TenantName):
                record.access = await read_tenant(store, name.name)
            else:
                record.access = await read_namespace(store, str(name))
        except MagnetarError as error:
            if not isinstance(error, StoreUnavailableError | SessionExpiredError):
                log.error("record not readable path=%s: %s", path, error)
            return error
        else:
            if record.access is not None and record.access.damage:
                log.error("record damaged, gives no right path=%s: %s", path, record.access.damage)
            record.current = record.changes == changes
            self._records[name] = record
            self._make_room()
            return None
        finally:
            if self._records.get(name) is not record:
                record.stop()

    def _changed(self, name: Recorded, record: _Record) -> None:
        record.changes += 1
        record.current = False
        self._on_change(name)

    def _make_room(self) -> None:
        for _ in range(EVICTIONS_TRIED):
            if len(self._records) <= RECORDS_MAX:
                return
            oldest = next(iter(self._records))
            if self._in_use(oldest):
                self._records.move_to_end(oldest)
            else:
                self._records.pop(oldest).stop()

    async def close(self) -> None:
        """Stop watching."""
        await self._tasks.close()
        for record in self._records.values():
            record.stop()
        self._records.clear()
