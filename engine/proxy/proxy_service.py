"""The lifecycle of the proxy: bind, follow credentials, serve, drain; its statistics."""

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial

from engine.auth.judge import AllowAll, Judge
from engine.auth.rights import AUTHENTICATED, PUBLIC, SUPERUSER
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.metrics import of_process
from engine.base.tasks import TaskScope, contained, restarting
from engine.client.broker_link import LinkSettings, OriginalCredentials
from engine.client.client import PulsarClient
from engine.metadata.store import MetadataStore
from engine.net.handshake import HandshakeError
from engine.net.http import TEXT, HttpServer, Response, json_response, ready_page
from engine.net.http import metrics_page as page_of
from engine.net.listener import Listener
from engine.net.network import Network
from engine.net.refused_commands import RefusedCommands
from engine.proxy.client_end import ProxyParts, ProxySession
from engine.proxy.known_brokers import KnownBrokers, listed, registered_in
from engine.proxy.pages import GuardedPage, ProxyPages, SuperuserJudge
from engine.proxy.proxy_counters import Counters
from engine.proxy.proxy_metrics import metrics_page
from engine.proxy.settings import ProxyProgramSettings
from engine.proxy.upstreams import Upstreams
from engine.rpc.client_authentication import ClientAuthentication
from engine.tenancy.access.revoked_tokens import RevokedTokens
from engine.wire import commands
from engine.wire.errors import ServerError

log = logging.getLogger(__name__)

DRAIN_S = 5.0
"""Time in which connections may send what waits, at the end."""
SAMPLE_S = 60.0
"""Interval over which rates in statistics are computed."""
HTTP_CONNECTIONS_MAX = 100
NO_TOPICS = "Proxy doesn't have logging level 2"
"""Apache's text: topics are known only where messages are parsed."""


class ProxyService:
    """A proxy. ``start`` is called once, then ``drain`` once. ``store`` is the metadata store; None where brokers are
    listed in the settings, which leaves the revocation of tokens to the brokers."""

    def __init__(
        self,
        settings: ProxyProgramSettings,
        *,
        clock: Clock,
        entropy: Entropy,
        network: Network,
        store: MetadataStore | None,
    ) -> None:
        """Create without listening. Call it inside a running event loop. Raises ProviderError, TlsFileError."""
        self.settings, proxy = settings, settings.proxy
        self._clock, self._entropy, self._network = clock, entropy, network
        self._tasks = TaskScope("proxy")
        self._sessions: dict[ProxySession, None] = {}
        self._counters = Counters()
        encrypted = settings.encrypted
        read = (
            registered_in(store)
            if store is not None
            else listed(settings.listed_brokers, encrypted=encrypted)
        )
        self._brokers = KnownBrokers(read, encrypted=encrypted)
        self._revoked: RevokedTokens | None = None
        if store is not None and settings.authentication.authentication_enabled:
            self._revoked = RevokedTokens(store, clock, self._withdraw)
        self._authentication = ClientAuthentication(
            settings.identity,
            network,
            clock,
            frozenset() if self._revoked is None else self._revoked,
        )
        self._link = LinkSettings(
            client_version="Magnetar-Proxy",
            credentials=settings.broker_client.credentials(),
            connect_timeout_s=proxy.broker_proxy_connect_timeout_ms / 1000,
            tls=settings.broker_client.tls(),
            proxy_version=commands.PULSAR_VERSION,
        )
        self._upstreams = Upstreams(self._client)
        self._shared = ProxyParts(
            settings=proxy,
            authenticate=self._authentication.authenticate,
            authenticated=settings.authentication.authentication_enabled,
            brokers=self._brokers,
            link=self._link,
            upstreams=self._upstreams,
            network=network,
            clock=clock,
            counters=self._counters,
            refused_commands=RefusedCommands(clock),
            ended=self._ended,
        )
        self._listener = Listener(
            network,
            self._accept,
            connections_max=proxy.max_concurrent_inbound_connections,
            per_address_max=proxy.max_concurrent_inbound_connections_per_ip,
            refusal=lambda reason: commands.error(
                commands.NO_REQUEST, ServerError.NotAllowedError, reason
            ),
            behind_balancer=proxy.ha_proxy_protocol_enabled,
        )
        self.pages = ProxyPages(self._pages(), self._judge(), self._authentication.of_request)
        self._http = HttpServer(network, self.pages, connections_max=HTTP_CONNECTIONS_MAX)
        self.port = 0
        self.port_tls: int | None = None
        self.web_port = 0

    def _client(self, role: str | None, original: OriginalCredentials | None) -> PulsarClient:
        link = self._link
        return PulsarClient(
            network=self._network,
            clock=self._clock,
            entropy=self._entropy,
            brokers=self._brokers,
            settings=LinkSettings(
                client_version=link.client_version,
                credentials=link.credentials,
                connect_timeout_s=link.connect_timeout_s,
                tls=link.tls,
                original_principal=role,
                original_credentials=original,
                proxy_version=link.proxy_version,
            ),
        )

    # The life of the proxy

    async def start(self) -> None:
        """Bind the ports and serve. Raises OSError when a port is in use, TlsFileError, and the store's errors."""
        settings, proxy = self.settings, self.settings.proxy
        needs_tls = proxy.service_port_tls is not None or proxy.web_service_port_tls is not None
        tls = settings.tls.context() if needs_tls else None
        if self._revoked is not None:
            await self._revoked.load()  # before the first token is checked
            self._revoked.start()
        self._authentication.start(self._withdraw)
        address = proxy.bind_address
        self.web_port = await self._http.listen(address, proxy.web_service_port)
        if proxy.web_service_port_tls is not None:
            await self._http.listen(address, proxy.web_service_port_tls, tls=tls)
        self.port = await self._listener.start(address, proxy.service_port)
        if proxy.service_port_tls is not None:
            self.port_tls = await self._listener.start(address, proxy.service_port_tls, tls=tls)
        self._tasks.spawn("rates", restarting("rates", self._sample))
        log.info(
            "proxy ready service=pulsar://%s:%s http=http://%s:%s",
            address,
            self.port,
            address,
            self.web_port,
        )

    async def drain(self) -> None:
        """Stop accepting, send what waits, and close all connections, within DRAIN_S; also after a failed start."""
        self._listener.stop_accepting()
        await self._tasks.close()
        for part, close in (
            ("connections", partial(self._listener.drain, DRAIN_S)),
            ("http", self._http.close),
            ("upstreams", self._upstreams.close),
            ("brokers", self._brokers.close),
            ("authentication", self._authentication.close),
            ("revoked tokens", self._end_revoked),
        ):
            with contained(f"end of {part}"):
                await close()

    async def _end_revoked(self) -> None:
        if self._revoked is not None:
            await self._revoked.close()

    def _accept(self) -> ProxySession:
        self._counters.opened += 1
        session = ProxySession(self._shared)
        self._sessions[session] = None
        return session

    def _ended(self, session: ProxySession) -> None:
        del self._sessions[session]
        self._counters.reads += session.copied_reads
        self._counters.copied_bytes += session.copied_total

    def _withdraw(self) -> None:
        """Close the connections of clients whose credentials are no longer valid, also those that are copied."""
        for session in list(self._sessions):
            if session.identified and self._authentication.is_withdrawn(session.identity):
                session.close(HandshakeError("the client's credentials were withdrawn"))

    # Statistics

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            for session in self._sessions:
                session.rates.sample(session.reads, session.copied_bytes)

    def _judge(self) -> Judge:
        identity = self.settings.identity
        if not identity.authorization.authorization_enabled:
            return AllowAll()
        return SuperuserJudge(identity.access_rules(cluster=""))

    def _pages(self) -> dict[str, GuardedPage]:
        proxy = self.settings.proxy
        metrics = AUTHENTICATED if proxy.authenticate_metrics_endpoint else PUBLIC
        pages = {
            "/metrics": GuardedPage(metrics, page_of(self._metrics)),
            "/status.html": GuardedPage(PUBLIC, self._status),
            "/ready": GuardedPage(PUBLIC, ready_page(lambda: None)),
            "/live": GuardedPage(PUBLIC, ready_page(lambda: None)),
        }
        if proxy.enable_proxy_stats_endpoints:
            pages |= {
                "/proxy-stats/connections": GuardedPage(SUPERUSER, self._connections),
                "/proxy-stats/topics": GuardedPage(SUPERUSER, self._topics),
                "/proxy-stats/logging": GuardedPage(SUPERUSER, self._logging),
            }
        return pages

    def _metrics(self) -> AsyncIterator[bytes]:
        sessions, counters = list(self._sessions), self._counters
        return metrics_page(
            counters,
            active=len(sessions),
            refused=self._listener.refused,
            reads=counters.reads + sum(session.copied_reads for session in sessions),
            copied_bytes=counters.copied_bytes + sum(session.copied_total for session in sessions),
            brokers=len(self._brokers.urls),
            outcomes=self._authentication.outcomes,
            cluster=self.settings.proxy.cluster_name,
            process=of_process(self._clock),
        )

    async def _status(self) -> Response:
        """Return the page for load balancers: OK while a broker is known."""
        if not self._brokers.urls:
            with contained("read of the brokers"):
                await self._brokers.refresh()
        return Response(200, b"OK", TEXT) if self._brokers.urls else Response(503)

    async def _connections(self) -> Response:
        """Return the connections that are copied. Rates are of what the client sent."""
        rows = []
        for session in self._sessions:
            if session.copying:
                reads, size = session.rates.latest(session.reads, session.copied_bytes)
                rows.append(
                    {
                        "requestRate": reads,
                        "byteRate": size,
                        "clientAddress": f"/{session.peer_name}",
                        "brokerAddress": session.broker_address,
                    }
                )
        return json_response(200, rows)

    async def _topics(self) -> Response:
        return json_response(412, {"reason": NO_TOPICS})

    async def _logging(self) -> Response:
        return json_response(200, 0)
