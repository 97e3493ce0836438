"""Auto-recovery beside a bookie, in its process, or in a process of its own: ``python -m bookie autorecovery``."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

from bookie.bookie_pages import BookiePages
from bookie.maintenance_pages import MaintenancePages
from bookie.server import STATUS_BODY_BYTES_MAX, STATUS_CONNECTIONS_MAX, Bookie
from bookie.settings import ProcessSettings
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.net.http import HttpServer, Request, Response, metrics_page, pages, ready_page
from engine.net.network import Network
from engine.repair.auto_recovery import AutoRecovery
from engine.repair.decommissions import read_decommission
from engine.repair.pages.ledger_pages import LedgerPages
from engine.repair.pages.recovery_pages import AutoRecoveryPages
from engine.repair.pages.sanity import is_sane

log = logging.getLogger(__name__)

LOOK_S = 30.0
"""Seconds after which a request to drain is read again, should a notification have been lost."""
SILENT_S = 600.0
"""A worker that has neither looked for marked ledgers nor copied for this long is reported as not ready."""


class Repairing:
    """Auto-recovery with its pages. ``identity`` names the process in votes and locks."""

    def __init__(
        self,
        settings: ProcessSettings,
        identity: str,
        *,
        store: MetadataStore,
        network: Network,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._settings = settings
        self._store = store
        self._network = network
        self._clock = clock
        self._entropy = entropy
        self.recovery = AutoRecovery(
            settings.repair,
            settings.ledger,
            identity,
            store=store,
            network=network,
            clock=clock,
            entropy=entropy,
        )
        self._tasks = TaskScope("requests for repair")
        self.pages = AutoRecoveryPages(
            store,
            self.recovery,
            self._tasks.spawn,
            changes=settings.repair.http_server_changes_enabled,
        )
        self._ledgers = LedgerPages(
            store,
            self.recovery.client,
            shows=settings.repair.http_server_ledgers_enabled,
            changes=settings.repair.http_server_changes_enabled,
        )
        self._status: HttpServer | None = None

    def join(self, bookie: Bookie) -> None:
        """Serve pages and metrics on a bookie's status port, and give its scrubber the copies of other bookies."""
        bookie.serving.scrubber.others = self.recovery.own_copies
        sane = partial(
            is_sane,
            bookie.bookie_id,
            self._settings.ledger,
            store=self._store,
            network=self._network,
            clock=self._clock,
            entropy=self._entropy,
        )
        own = BookiePages(
            bookie,
            self._store,
            self._tasks.spawn,
            sane,
            changes=self._settings.repair.http_server_changes_enabled,
        )
        upkeep = MaintenancePages(
            bookie,
            self._settings,
            self._store,
            self._tasks.spawn,
            changes=self._settings.repair.http_server_changes_enabled,
        )

        async def answer(request: Request) -> Response | None:
            return (
                await self.answer(request)
                or await own.answer(request)
                or await upkeep.answer(request)
            )

        bookie.more_pages = answer
        bookie.more_metrics = self.recovery.families

    async def answer(self, request: Request) -> Response | None:
        """Answer a request of the pages of auto-recovery and of ledgers; None for another path."""
        return await self.pages.answer(request) or await self._ledgers.answer(request)

    def start(self) -> None:
        self.recovery.start()

    def follow_requests(self, bookie: Bookie) -> None:
        """Keep the bookie read-only while it is to be drained."""
        self._tasks.spawn("drain", follow_requests(self._store, bookie))

    async def listen(self) -> None:
        """Serve the pages on a status port of its own, if there is one. Raises OSError."""
        bookie = self._settings.bookie
        if bookie.http_server_port is None:
            return
        own = pages(
            {
                "/metrics": metrics_page(self._metrics),
                "/ready": ready_page(self.why_not_ready),
                "/live": ready_page(lambda: None),
            }
        )

        async def answer(request: Request) -> Response:
            return await self.answer(request) or await own(request)

        self._status = HttpServer(
            self._network,
            answer,
            connections_max=STATUS_CONNECTIONS_MAX,
            body_bytes_max=STATUS_BODY_BYTES_MAX,
        )
        await self._status.listen(bookie.listening_host, bookie.http_server_port)

    def why_not_ready(self) -> str | None:
        """Return why the worker does not work; None when it does."""
        # While all its hands copy large ledgers it does not look for others.
        active_at = max(self.recovery.worker.looked_at, self.recovery.repair.counts.progressed_at)
        silent_s = asyncio.get_running_loop().time() - active_at
        return f"the worker has done nothing for {silent_s:.0f} s" if silent_s > SILENT_S else None

    async def _metrics(self) -> AsyncIterator[bytes]:
        yield "".join(self.recovery.families()).encode()

    async def stop(self) -> None:
        await self._tasks.close()
        await self.recovery.stop()
        if self._status is not None:
            await self._status.close()


async def follow_requests(store: MetadataStore, bookie: Bookie) -> None:
    """Keep a bookie read-only while it is to be drained, until cancelled."""
    path, changed, draining = paths.decommission(bookie.bookie_id), asyncio.Event(), False
    stop = store.watch(path, lambda _: changed.set())
    try:
        while True:
            changed.clear()
            try:
                request = await read_decommission(store, bookie.bookie_id)
                before, draining = draining, request is not None and request.drain
                if draining != before:
                    bookie.mode.ask("it is to be drained" if draining else "")
            except MagnetarError as error:
                log.info("requests to drain this bookie are not read yet reason=%s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await changed.wait()
    finally:
        stop()
