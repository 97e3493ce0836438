"""The lease of an instance: an ephemeral node, so that no two workers run the same instance (F2).

A worker starts an instance only with the lease, and ends it before the lease can pass to another: when it gives the
lease back, or when its session can no longer be proven. The process of an instance knows how long the lease lasts, and
ends itself then: its worker may be suspended.
"""

import asyncio
from contextlib import suppress

from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.ownership.registration import claim

ASK_AGAIN_S = 1.0
"""Seconds after which a lease of another worker is claimed again, should a watch be lost."""
AGAIN_S = 0.2


class InstanceLease:
    """The lease at ``path``, claimed for a worker's id. An earlier process of the same worker has no instances left,
    so its lease is taken over."""

    def __init__(self, store: MetadataStore, path: str, worker: str) -> None:
        self._store = store
        self._path = path
        self._value = worker.encode()
        self._session: int | None = None

    @property
    def held(self) -> bool:
        """True while no other worker can have it."""
        return self._session == self._store.session_id and self._store.session_proven

    @property
    def until_s(self) -> float:
        """Time of the loop before which no other worker can have it, without a further answer of the store."""
        return self._store.session_proven_until_s if self.held else float("-inf")

    async def acquire(self) -> None:
        """Wait until it is held. Raises the store's errors. Cancelled, it may be held: release it."""
        freed = asyncio.Event()
        stop = self._store.watch(self._path, lambda _: freed.set())
        try:
            while True:
                session = self._store.session_id
                freed.clear()
                if await claim(self._store, self._path, self._value):
                    self._session = session
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(ASK_AGAIN_S):
                        await freed.wait()
        finally:
            stop()

    async def release(self) -> None:
        """Give it back, after the instance has ended: until that is done, or the session that had it is over."""
        session, self._session = self._store.session_id, None
        while session == self._store.session_id:
            try:
                with suppress(NoNodeError, BadVersionError):
                    value, stat = await self._store.get(self._path)
                    if stat.ephemeral_owner == session and value == self._value:
                        await self._store.delete(self._path, stat.version)
                return
            except SessionExpiredError:
                return
            except StoreUnavailableError:
                await asyncio.sleep(AGAIN_S)
