"""Gives up bundles that isolation policies place on other brokers: when policies change, when brokers come or go."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from engine.base.log import bound
from engine.base.names import BundleName
from engine.base.tasks import TaskScope
from engine.metadata import paths
from engine.metadata.store import MetadataStore, SessionExpiredError, StoreUnavailableError
from engine.ownership.owner import BundleOwnership
from engine.ownership.registration import live_brokers
from engine.tenancy.resources.isolation import isolation_of

RETRY_S = 1.0
LOOK_INTERVAL_S = 60.0
"""At least so often: a bundle may also have been taken by what was known before a change."""


class IsolationKeeper:
    """Of one broker. ``start`` once, inside the running loop. ``unload`` closes the topics of a bundle.

    A bundle that no broker that is there may serve stays where it is.
    """

    def __init__(
        self,
        store: MetadataStore,
        ownership: BundleOwnership,
        broker_id: str,
        cluster: str,
        unload: Callable[[BundleName], Awaitable[None]],
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._broker_id = broker_id
        self._cluster = cluster
        self._unload = unload
        self._changed = asyncio.Event()
        self._tasks = TaskScope("isolation")
        self._stops: list[Callable[[], None]] = []
        self._log = bound(__name__, broker=broker_id)

    def start(self) -> None:
        for path in (paths.isolation_policies(self._cluster), paths.LOADBALANCE_BROKERS):
            self._stops.append(self._store.watch(path, lambda _: self._changed.set()))
        self._changed.set()
        self._tasks.spawn("keep", self._keep())

    async def close(self) -> None:
        for stop in self._stops:
            stop()
        await self._tasks.close()

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_INTERVAL_S):
                    await self._changed.wait()
            self._changed.clear()
            try:
                await self._look()
            except (StoreUnavailableError, SessionExpiredError, ValueError) as error:
                self._log.warning("isolation policies not acted upon yet reason=%s", error)
                await asyncio.sleep(RETRY_S)
                self._changed.set()

    async def _look(self) -> None:
        policies = await isolation_of(self._store, self._cluster)
        if not policies:
            return
        brokers = await live_brokers(self._store)
        for bundle in self._ownership.owned():
            if policies.moves(str(bundle.namespace), self._broker_id, brokers):
                self._log.info("bundle belongs on another broker bundle=%s", bundle)
                await self._ownership.release(bundle, self._unload)
