"""The lifecycle of a broker: bind, bootstrap, register, serve; lose and regain its session; drain.

The broker is crash-only: no step of its end is needed for data to be safe. Draining only speeds up the hand-over.
"""

import asyncio
import ssl
from functools import partial

from engine.base.backoff import Backoff
from engine.base.errors import MagnetarError, MisuseError
from engine.base.log import bound
from engine.base.metrics import of_process
from engine.base.names import BundleName, TopicName
from engine.base.tasks import TaskScope, contained
from engine.broker.administration.metrics_page import Levels, LoadMetrics, metrics_page
from engine.broker.administration.refusals import refusal_of
from engine.broker.administration.tiers.offloader_metrics import offloader_families
from engine.broker.connection.session import Session
from engine.broker.running import BrokerResources, Running
from engine.broker.settings import NodeSettings
from engine.metadata import paths
from engine.metadata.apart.routed import connected
from engine.metadata.layout import check_layout
from engine.metadata.store import (
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)
from engine.net.http import HttpServer, Request, Response
from engine.net.listener import Listener
from engine.ownership.registration import BrokerRecord
from engine.rpc.server import RpcPages
from engine.tenancy.initialization import ensure_coordinators
from engine.tenancy.namespaces import bootstrap
from engine.wire import commands
from engine.wire.errors import ServerError

CLOSE_DEADLINE_S = 1.0
"""Seconds in which connections may end after everything they used is closed."""


class BrokerService:
    """A broker. ``start`` is called once, then ``drain`` once."""

    def __init__(self, resources: BrokerResources) -> None:
        self._base = resources
        self._tasks = TaskScope("broker")
        self._log = bound(__name__)
        node, network = resources.node, resources.network
        self._listener = Listener(
            network,
            partial(self._accept, ""),
            connections_max=node.broker_max_connections,
            per_address_max=node.broker_max_connections_per_ip,
            refusal=lambda reason: commands.error(
                commands.NO_REQUEST, ServerError.NotAllowedError, reason
            ),
        )
        self._http = HttpServer(
            network,
            self._answer,
            connections_max=node.max_http_server_connections,
            per_address_max=node.max_http_server_connections_per_address,
        )
        self._serving = False
        self._session_id = 0
        self._changed = asyncio.Event()
        self.record = BrokerRecord("", "", "", 0, commands.PULSAR_VERSION)
        self._running: Running | None = None
        self._pages: RpcPages | None = None
        self.broker_port = 0
        self.broker_port_tls: int | None = None
        self.http_port = 0

    @property
    def ready(self) -> bool:
        """True while clients are served: registered under a valid session, and not draining."""
        return self._serving and self._base.store.session_proven

    async def start(self) -> None:
        """Bind the ports, then join the cluster.

        Raises OSError when a port is in use, TlsFileError, ProviderError, LayoutError and the store's errors; ``drain``
        then releases what was acquired.
        """
        base, node = self._base, self._base.node
        await check_layout(base.store)
        self.record = await self._listen()
        await bootstrap(
            base.store,
            cluster=node.cluster_name,
            broker_url=self.record.service_url,
            web_url=self.record.web_url,
            default_bundles=base.tenants.default_number_of_namespace_bundles,
        )
        if base.transactions.transaction_coordinator_enabled:
            await ensure_coordinators(base.store, partitions=1)
        running = Running(base, self.record, await self._next_instance(), self._lost)
        # Before the first client is accepted.
        await running.revoked.load()
        self._pages = self._serve_pages(running)
        self._running = running
        running.follow_credentials()
        base.store.on_state(self._on_state)
        for path in (paths.broker(self.record.id), paths.LOADBALANCE_LEADER):
            base.store.watch(path, lambda _: self._changed.set())
        await running.check_own_role(base)
        await running.dynamic.start()
        await self._join(running)
        running.upkeep.start()
        running.revocation.start()
        running.isolation.start()
        running.drain.start()
        running.shares.start()
        if running.coordinators is not None:
            running.coordinators.start()
        if running.abandoned is not None:
            running.abandoned.start()
        self._tasks.spawn("registration", self._keep_registered(running))
        self._tasks.spawn("load reports", running.load_reporter.run())
        self._tasks.spawn("load balance", running.load_leader.run())
        self._tasks.spawn("splits of bundles", running.splitter.run())
        self._tasks.spawn("orphans of tiered storage", running.orphans.run())
        self._log.info(
            "broker ready service=%s http=%s", self.record.service_url, self.record.web_url
        )

    async def _next_instance(self) -> int:
        """Return a number that no other start of a broker of this cluster has, for unique producer names."""
        path = await self._base.store.create(
            paths.PRODUCER_NAME_COUNTER, ephemeral=True, sequence=True, make_parents=True
        )
        return int(path.rpartition("-")[2])

    def _accept(self, listener: str) -> Session | None:
        """Return a session for a new connection; None until the broker is started, and clients try again."""
        return self._running.sessions.accept(listener) if self._running is not None else None

    async def _answer(self, request: Request) -> Response:
        if self._pages is None:
            return Response(503, b"starting", "text/plain")
        return await self._pages(request)

    @property
    def running(self) -> Running:
        """The parts of the broker. Raises MisuseError before ``start``."""
        if self._running is None:
            raise MisuseError("the broker was not started")
        return self._running

    # The session

    async def _join(self, running: Running) -> None:
        """Register and begin to serve, all under one session. Raises the store's errors."""
        session_id = self._base.store.session_id
        await running.registration.renew()
        if self._base.store.session_id != session_id:
            # A call that waits for a connection continues in the next session, so the record may be of the old one.
            raise SessionExpiredError("the session ended during the registration")
        self._session_id = session_id
        self._serving = True

    async def _keep_registered(self, running: Running) -> None:
        """Register again after every new session and after every change of the broker's or the leader's record.

        The broker's own record is watched because a deletion sent by an earlier run of this broker may be carried out
        after the registration. Attempts continue until one succeeds.
        """
        backoff = Backoff()
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._join(running)
                backoff.reset()
            except Exception as error:
                expected = isinstance(error, MagnetarError)
                self._log.warning(
                    "cannot register yet: %s", error, exc_info=None if expected else error
                )
                await asyncio.sleep(backoff.next_s(self._base.entropy.random()))
                self._changed.set()

    def _on_state(self, state: SessionState) -> None:
        # Ephemeral records end with their session: another broker may own the bundles from then on.
        if state is SessionState.EXPIRED:
            self._serving = False
        elif state is SessionState.CONNECTED and self._base.store.session_id != self._session_id:
            self._serving = False
            self._changed.set()

    def _lost(self, bundles: list[BundleName]) -> None:
        """Stop confirming on the topics of ``bundles``, which this broker lost; their clients look them up again."""

        def is_lost(name: TopicName) -> bool:
            return any(
                bundle.namespace == name.namespace and bundle.holds(name.bundle_hash)
                for bundle in bundles
            )

        self.running.registry.abandon_where(is_lost)

    async def _listen(self) -> BrokerRecord:
        """Bind the ports; return the broker's record with their addresses. Raises OSError, TlsFileError."""
        base, node = self._base, self._base.node
        address, tls = node.bind_address, _tls(base)
        self.http_port = await self._http.listen(address, node.broker_http_port)
        self.broker_port = await self._listener.start(address, node.broker_port)
        if node.broker_service_port_tls is not None:
            self.broker_port_tls = await self._listener.start(
                address, node.broker_service_port_tls, tls=tls
            )
        for binding in node.bindings:
            await self._listener.start(
                binding.host,
                binding.port,
                tls=tls if binding.scheme == "pulsar+ssl" else None,
                make=partial(self._accept, binding.listener),
            )
        service_url, service_url_tls = self._service_urls()
        web_url_tls = ""
        if node.broker_http_port_tls is not None:
            port = await self._http.listen(address, node.broker_http_port_tls, tls=tls)
            web_url_tls = f"https://{node.host}:{port}"
        return BrokerRecord(
            id=f"{node.host}:{self.http_port}",
            service_url=service_url,
            web_url=f"http://{node.host}:{self.http_port}",
            started_ms=base.clock.wall_ms(),
            version=commands.PULSAR_VERSION,
            service_url_tls=service_url_tls,
            web_url_tls=web_url_tls,
            listeners=node.listeners,
            persistent=base.data_path.enable_persistent_topics,
            non_persistent=base.data_path.enable_non_persistent_topics,
        )

    def _serve_pages(self, running: Running) -> RpcPages:
        """Return the pages of the private port."""
        base, node = self._base, self._base.node
        return RpcPages(
            running.operations.handlers,
            base.token,
            running.context.judge,
            refusal_of=refusal_of,
            ready=lambda: self.ready,
            identify=running.authentication.of_request,
            guard_metrics=base.identity.general.authenticate_metrics_endpoint,
            metrics=lambda: metrics_page(
                running.registry,
                running.sessions,
                running.identity,
                {"client": self._listener.refused, "http": self._http.refused},
                running.authentication.outcomes,
                Levels(
                    topics=node.expose_topic_level_metrics_in_prometheus,
                    consumers=node.expose_consumer_level_metrics_in_prometheus,
                    producers=node.expose_producer_level_metrics_in_prometheus,
                ),
                connected(base.store),
                LoadMetrics(
                    running.load_reporter.report(0),
                    running.load_leader.bundles_moved,
                    running.load_leader.brokers_relieved,
                    running.splitter.splits,
                ),
                of_process(base.clock),
                running.coordinators,
                offloader_families(
                    base.factory.tiered.meters if base.factory.tiered is not None else {},
                    running.identity.cluster,
                    topics=node.expose_topic_level_metrics_in_prometheus,
                    orphans=running.orphans.removed,
                ),
            ),
        )

    def _service_urls(self) -> tuple[str, str]:
        """Return the URLs for other brokers and for clients that name no listener, without TLS and with."""
        node = self._base.node
        for internal in node.listeners.values():
            return internal.service_url, internal.service_url_tls
        port_tls = self.broker_port_tls
        return (
            f"pulsar://{node.host}:{self.broker_port}",
            "" if port_tls is None else f"pulsar+ssl://{node.host}:{port_tls}",
        )

    # The end

    async def drain(self) -> None:
        """Withdraw the registration, move all bundles to other brokers, and close, within
        ``broker_shutdown_timeout_ms``.

        Failures are logged and stop neither the hand-over of other bundles nor the later steps. The store stays open:
        it belongs to the caller.
        """
        was_serving, self._serving = self._serving, False
        # First, so that the broker is not registered again during the drain.
        await self._tasks.close()
        if self._running is not None:
            # Two drains would move the same bundles.
            await self._running.drain.close()
        node = self._base.node if self._running is None else self._running.dynamic.of(NodeSettings)
        deadline_s = node.broker_shutdown_timeout_ms / 1000
        self._listener.stop_accepting()
        try:
            async with asyncio.timeout(deadline_s):
                if was_serving:
                    with contained("hand-over"):
                        await self._hand_over(self.running)
        except TimeoutError:
            self._log.warning("drain cancelled after %g s", deadline_s)
        await self._close()

    async def _hand_over(self, running: Running) -> None:
        # The log reads the policies' topics as a client, and would look them up again once they are handed over.
        with contained("end of the policies' log"):
            await running.policy_log.close()
        # They would acquire bundles again, and their next owners continue where they end.
        await running.end_transactions()
        try:
            await running.registration.withdraw()
        except (StoreUnavailableError, SessionExpiredError) as error:
            self._log.warning("drained without the metadata store: %s", error)
        await running.operations.bundles.transfers.drain()

    async def _close(self) -> None:
        if self._running is not None:
            await self._running.close()
        base = self._base
        for part, close in (
            ("managed ledgers", base.factory.close),
            ("ledgers", base.ledgers.close),
            ("http", self._http.close),
            ("connections", partial(self._listener.drain, CLOSE_DEADLINE_S)),
        ):
            with contained(f"end of {part}"):
                await close()


def _tls(base: BrokerResources) -> ssl.SSLContext | None:
    """Return the TLS context of the broker's ports; None when none has TLS. Raises TlsFileError."""
    node = base.node
    bound = any(binding.scheme == "pulsar+ssl" for binding in node.bindings)
    if not bound and node.broker_service_port_tls is None and node.broker_http_port_tls is None:
        return None
    return base.tls.context()
