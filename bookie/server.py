"""The bookie: opens its storage, serves connections, maintains its registration, checkpoints, watches its disks."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from bookie.cookies import IdentityError, instance_id
from bookie.metrics import BookieMetrics, bookkeeper_families
from bookie.mode import Mode
from bookie.opening import Directories
from bookie.presence import Presence
from bookie.requests.connection import BookieConnection
from bookie.requests.strangers import Strangers
from bookie.serving import Serving
from bookie.settings import BookieSettings
from engine.base.clock import Clock
from engine.base.disk.files import Lane
from engine.base.disk.index_disk import IndexDisk
from engine.base.entropy import Entropy
from engine.base.tasks import TaskScope
from engine.metadata.store import MetadataStore
from engine.net.http import (
    HttpServer,
    Request,
    Response,
    metrics_page,
    pages,
    ready_page,
)
from engine.net.listener import Listener
from engine.net.network import Network
from engine.net.tls import ServerFiles

log = logging.getLogger(__name__)

CLOSE_DEADLINE_S = 10.0
STATUS_CONNECTIONS_MAX = 64
STATUS_CONNECTIONS_PER_ADDRESS_MAX = 32
STATUS_BODY_BYTES_MAX = 4096
REASON_MAX = 500
"""Characters of a reason on the status page."""

MorePages = Callable[[Request], Awaitable[Response | None]]


class Bookie:
    """One bookie. ``lanes(name)`` creates a lane.

    ``over`` is set when the bookie should be stopped: on request, or because its disk failed. After a failure
    ``failed`` holds the reason, no request is answered any more, and the process should exit with a non-zero status.
    """

    def __init__(
        self,
        settings: BookieSettings,
        *,
        clock: Clock,
        entropy: Entropy,
        network: Network,
        store: MetadataStore,
        disk: IndexDisk,
        lanes: Callable[[str], Lane],
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._entropy = entropy
        self._network = network
        self._tls: ssl.SSLContext | None = None
        self._store = store
        self._disk = disk
        self._make_lane = lanes
        self._lanes: dict[str, Lane] = {}
        self.metrics = BookieMetrics()
        self.mode = Mode(clock)
        self.failed: BaseException | None = None
        self.over = asyncio.Event()
        self.port = 0
        self.bookie_id = ""
        self._directories = Directories(disk, settings)
        self._tasks = TaskScope("bookie", on_error=lambda name, error: self._fail(error))
        self._listener = Listener(
            network, self._connection, connections_max=settings.max_connections
        )
        roles = settings.roles
        self._strangers = (
            Strangers(roles, lambda: self.serving.requests, self.metrics) if roles else None
        )
        self._registry = CollectorRegistry()
        self._registry.register(self.metrics)
        ProcessCollector(registry=self._registry)
        self.more_pages: MorePages | None = None
        """Answers requests of the status port that are not the bookie's own; None for a page that it has not."""
        self.more_metrics: Callable[[], Iterator[str]] = lambda: iter(())
        """Yields further families of metrics."""
        self._own_pages = pages(
            {
                "/metrics": metrics_page(self._metrics_page),
                "/ready": ready_page(self.why_not_ready),
                "/live": ready_page(lambda: None),
                "/api/v1/bookie/info": self._space_page,
            }
        )
        self._status = HttpServer(
            network,
            self._answer,
            connections_max=STATUS_CONNECTIONS_MAX,
            per_address_max=STATUS_CONNECTIONS_PER_ADDRESS_MAX,
            body_bytes_max=STATUS_BODY_BYTES_MAX,
        )
        self._serving: Serving | None = None
        self._presence: Presence | None = None
        self._stopping = False
        self.metrics.gauges |= {
            "bookie_ready": ("1 when serving and registered", lambda: float(self.ready)),
            "bookie_connections": ("Open connections", lambda: len(self._listener.connections)),
        }
        self.metrics.counters |= {
            "bookie_connections_refused": (
                "Connections refused above the cap of max_connections",
                lambda: self._listener.refused,
            ),
        }

    @property
    def ready(self) -> bool:
        """True when serving and registered; read-only counts as ready."""
        return self.why_not_ready() is None

    def why_not_ready(self) -> str | None:
        """Return the reason why the bookie is not ready; None when it is."""
        if self.failed is not None:
            return f"failed: {self.failed}"
        if self._presence is None:
            return "starting: replaying the journal"
        return None if self._presence.registered else "not registered in the metadata store"

    @property
    def read_only(self) -> bool:
        return self.mode.read_only

    @property
    def serving(self) -> Serving:
        """The storage at work; available after it was opened."""
        assert self._serving is not None, "the storage is not open"
        return self._serving

    async def start(self) -> None:
        """Check identity, replay, listen, register. Nothing is answered before the replay is flushed.

        Raises IdentityError, DamagedError, TlsFileError, OSError, store errors; ``stop`` must be called then as well.
        """
        settings = self.settings
        self._tls = _tls(settings)
        if settings.http_server_port is not None:
            await self._status.listen(settings.listening_host, settings.http_server_port)
        self._directories.make()
        new = self._directories.are_new()
        cluster = await instance_id(
            self._store,
            self._entropy,
            initialize=settings.initialize_cluster and new,
            used=not new,
        )
        self.bookie_id = settings.bookie_id or f"{settings.host}:{settings.bookie_port}"
        cookie = self._directories.cookie(self.bookie_id, cluster)
        await self._directories.identify(self._store, self.bookie_id, cookie)
        started = self._clock.monotonic_s()
        storage = await self._lane("flush").run(
            partial(self._directories.open, cookie, lambda: self._entropy.bits(64))
        )
        log.info(
            "storage open id=%s replayed_records=%d ledgers=%d logs=%d rebuilt=%s seconds=%.3f",
            self.bookie_id,
            storage.replayed,
            len(storage.ledgers),
            len(storage.logs),
            storage.rebuilt,
            self._clock.monotonic_s() - started,
        )
        self._serving = Serving(
            settings,
            storage,
            self._directories.journal,
            cookie,
            cluster,
            self.mode,
            self.metrics,
            disk=self._disk,
            store=self._store,
            clock=self._clock,
            lanes=self._lane,
            failed=self._fail,
        )
        await self._listener.start(settings.listening_host, settings.bookie_port)
        self.port = self._listener.port
        presence = Presence(
            self._store, self._clock, settings, self.bookie_id, self.port, self._status.port or None
        )
        presence.set_read_only(self.mode.read_only)
        self.mode.on_change(presence.set_read_only)
        await self._serving.disks.check()
        await presence.register()
        self._presence = presence
        self._tasks.spawn("presence", presence.keep())
        self._serving.start(self._tasks)
        log.info("bookie serves id=%s port=%d", self.bookie_id, self.port)

    def request_stop(self) -> None:
        """Set ``over``, so that the owner of this bookie stops it."""
        self.over.set()

    async def stop(self) -> None:
        """Unregister, stop serving, flush, close. Safe to call after a failed start, and twice."""
        if self._stopping:
            return
        self._stopping = True
        self._listener.stop_accepting()
        await self._tasks.close()
        serving = self._serving
        if self.failed is None and self._presence is not None and serving is not None:
            try:
                async with asyncio.timeout(CLOSE_DEADLINE_S):
                    await self._presence.unregister()
                    await serving.journal.drain()
                    await self._listener.drain(CLOSE_DEADLINE_S / 2)
                    await serving.checkpointer.step(checkpoint=True)
            except (OSError, TimeoutError) as error:
                log.warning(
                    "could not flush while stopping, the next start replays it reason=%s", error
                )
        await self._listener.drain(0)
        await self._status.close()
        for lane in self._lanes.values():
            lane.close()
        if serving is not None:
            serving.close()
        self.over.set()

    def _lane(self, name: str) -> Lane:
        """Return the lane with that name, which is created once."""
        if name not in self._lanes:
            self._lanes[name] = self._make_lane(name)
        return self._lanes[name]

    def _connection(self) -> BookieConnection:
        strangers = self._strangers
        return BookieConnection(
            self.serving.requests if strangers is None else strangers,
            self.settings.netty_max_frame_size_bytes,
            None if self._tls is None else self._start_tls,
            None if strangers is None else strangers.handler_of,
        )

    def _start_tls(self, connection: BookieConnection) -> None:
        if self._tls is not None and not self._tasks.closed:
            self._tasks.spawn("tls", connection.start_tls(self._network, self._tls))

    # Failures and disks

    def _fail(self, error: BaseException) -> None:
        """Stop answering: the disk, or a task that everything depends on, failed."""
        if self.failed is not None or self._stopping:
            return
        self.failed = error
        if isinstance(error, IdentityError):
            log.critical("bookie stops reason=%s", error)
        else:
            log.critical("bookie stops, it can no longer promise durability", exc_info=error)
        self._listener.stop_accepting()
        for connection in self._listener.connections:
            connection.abort()
        self.over.set()

    async def _answer(self, request: Request) -> Response:
        response = None if self.more_pages is None else await self.more_pages(request)
        return await self._own_pages(request) if response is None else response

    async def _space_page(self) -> Response:
        """Return BookKeeper's page about ledger disk space, in bytes at the last check.

        Beyond BookKeeper's fields: the number of ledgers, the bytes kept of those that were not deleted, whether normal
        adds are refused, since when and why, and the limits of disk usage.
        """
        disks, mode, settings = self.serving.disks, self.mode, self.settings
        free, total = disks.space
        storage = self.serving.storage
        page = {
            "freeSpace": free,
            "totalSpace": total,
            "ledgers": storage.ledgers.live,
            "storedBytes": storage.entries.live_bytes + storage.ledgers.cache.size,
            "readOnly": mode.read_only,
            "since": mode.since_ms,
            "reason": mode.reason[:REASON_MAX],
            "usage": round(disks.usage, 4),
            "usageLimit": settings.disk_usage_threshold,
            "usageWritable": settings.disk_usage_lwm_threshold,
            "failedDirectories": {
                directory: reason[:REASON_MAX] for directory, reason in storage.logs.failed.items()
            },
        }
        return Response(200, json.dumps(page, separators=(",", ":")).encode())

    async def _metrics_page(self) -> AsyncIterator[bytes]:
        yield generate_latest(self._registry)
        aliases = bookkeeper_families(self.metrics, ledger_dirs=len(self.settings.ledger_roots))
        yield "".join([*aliases, *self.more_metrics()]).encode()


def _tls(settings: BookieSettings) -> ssl.SSLContext | None:
    """Return the TLS context of the bookie's port; None without TLS. Raises TlsFileError."""
    if not settings.has_tls:
        return None
    files = ServerFiles(
        settings.tls_certificate_path,
        settings.tls_key_store,
        client_ca=settings.tls_trust_store,
        client_cert_required=settings.tls_client_authentication,
    )
    return files.reloaded(settings.tls_cert_files_refresh_duration_seconds)
