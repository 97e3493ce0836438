"""The registration of this worker in the metadata store: an ephemeral node, which gateways and the leader read."""

from contextlib import suppress

from engine.functions.registered_workers import WorkerRecord
from engine.metadata import paths
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.ownership.registration import claim


class WorkerPresence:
    """The registration of this worker; call ``renew`` at the start and in each new session."""

    def __init__(self, store: MetadataStore, record: WorkerRecord) -> None:
        self._store = store
        self.record = record
        self._session = 0

    @property
    def proven(self) -> bool:
        """True while the session in which the worker is registered cannot have ended."""
        return self._session == self._store.session_id and self._store.session_proven

    async def begin(self) -> None:
        """Register a worker that starts: a drain of it is over. Raises the store's errors."""
        with suppress(NoNodeError):
            await self._store.delete(paths.function_drain(self.record.id))
        await self.renew()

    async def renew(self) -> None:
        """Register under the present session. Raises the store's errors."""
        session = self._store.session_id
        path = paths.function_worker(self.record.id)
        # What another session registered is an earlier process of this worker, which has ended: the port is ours now.
        stored = None
        with suppress(NoNodeError):
            stored, _ = await self._store.get(path)
        if not await claim(self._store, path, self.record.encode(), mine=stored):
            raise StoreUnavailableError(f"{path} is held by another session")
        self._session = session

    async def lead(self) -> None:
        """Name this worker as the leader, instead of one that has lost its place. Raises the store's errors."""
        stored = None
        with suppress(NoNodeError):
            stored, _ = await self._store.get(paths.FUNCTION_LEADER)
        value = self.record.id.encode()
        if not await claim(self._store, paths.FUNCTION_LEADER, value, mine=stored):
            raise StoreUnavailableError(f"{paths.FUNCTION_LEADER} is held by another session")

    async def withdraw(self, *path_names: str) -> None:
        """Remove nodes of this session: by default the registration and the leader's name. Best effort: the end of the
        session does it as well."""
        own = (paths.FUNCTION_LEADER, paths.function_worker(self.record.id))
        for path in path_names or own:
            with suppress(
                *(NoNodeError, BadVersionError, StoreUnavailableError, SessionExpiredError)
            ):
                _, stat = await self._store.get(path)
                if stat.ephemeral_owner == self._store.session_id:
                    await self._store.delete(path, stat.version)
