"""One connection of a client: its handshake, then either requests answered here, or bytes copied to and from a broker.

Copied bytes are not parsed, and nothing is created for a message. An end that reads slowly stops the reading of the
other (T9). It acts for the client by the role of its credentials (A34).
"""

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.judge import AllowAll
from engine.base.addresses import ServiceUrl
from engine.base.clock import Clock
from engine.base.tasks import TaskScope
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.errors import LostError
from engine.net import handshake, keepalive
from engine.net.handshake import Authenticate, HandshakeError
from engine.net.network import Network
from engine.net.refused_commands import RefusedCommands
from engine.net.routing import Router
from engine.net.transport import Connection
from engine.proxy import requests_to_any
from engine.proxy.broker_end import COPY_HIGH_BYTES, COPY_LOW_BYTES, BrokerEnd, drop, pass_end
from engine.proxy.client_handshake import ClientHandshake
from engine.proxy.known_brokers import ABSENT, KnownBrokers, TargetRefused
from engine.proxy.proxy_counters import Counters
from engine.proxy.settings import ProxySettings
from engine.proxy.upstreams import Upstreams
from engine.wire import client_commands, commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.events import Acks, Command, CorruptSend, Event, Sends, Violation
from engine.wire.peer import Peer
from engine.wire.states import CommandType

log = logging.getLogger(__name__)

CLIENT_FRAME_BYTES_MAX = 1 << 20
"""Longest frame of a client before its bytes are copied: no request to the proxy has a payload."""
HANDSHAKE_S = 30.0
"""Time in which a client must complete the handshake."""
KEEP_ALIVE_S = 30.0
"""Interval of PING on lookup connections. On others both ends send their own."""
WAITING_MAX = 1_000
"""Requests of one connection that wait at a time, above which it is not read."""
FEATURE_FLAGS = {"supports_get_partitioned_metadata_without_auto_creation": True}
BROKER = "broker"
"""Reason for which a client is not read: its connection to the broker is being made."""


class Rates:
    """Rates of what a client sent to its broker, over the last whole interval between two calls of ``sample``, or
    since the connection began."""

    __slots__ = ("_at_s", "_before", "_clock", "_rates")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock.monotonic_s()
        self._before = (0, 0)
        self._rates: tuple[float, float] | None = None

    def sample(self, reads: int, size: int) -> None:
        """End an interval, until whose end so many pieces and bytes were copied."""
        self._rates = self._since(reads, size)
        self._before, self._at_s = (reads, size), self._clock.monotonic_s()

    def latest(self, reads: int, size: int) -> tuple[float, float]:
        """Return pieces and bytes per second."""
        return self._rates if self._rates is not None else self._since(reads, size)

    def _since(self, reads: int, size: int) -> tuple[float, float]:
        passed_s = max(self._clock.monotonic_s() - self._at_s, 1e-3)
        return (reads - self._before[0]) / passed_s, (size - self._before[1]) / passed_s


@dataclass(frozen=True, slots=True)
class ProxyParts:
    """The parts of a proxy that all connections use."""

    settings: ProxySettings
    authenticate: Authenticate
    authenticated: bool
    """True where clients are authenticated, so that brokers are sent their roles."""
    brokers: KnownBrokers
    link: LinkSettings
    """Settings of connections to brokers: the proxy's credentials and TLS."""
    upstreams: Upstreams
    network: Network
    clock: Clock
    counters: Counters
    refused_commands: RefusedCommands
    ended: Callable[["ProxySession"], None]


class ClientEndParts(NamedTuple):
    """The parts of a session, which refer to it and end with its connection."""

    tasks: TaskScope
    handshake: ClientHandshake
    keepalive: keepalive.KeepAlive
    requests: Router

    def end(self) -> None:
        self.handshake.stop()
        self.keepalive.stop()
        self.tasks.cancel()


class ProxySession(Connection):
    """The client's end of a connection.

    ``broker`` is the broker's end while bytes are copied or the broker is being connected to.
    """

    def __init__(self, shared: ProxyParts) -> None:
        super().__init__(CLIENT_FRAME_BYTES_MAX)
        self.reads = 0
        self.copied_bytes = 0
        self.ended = False
        """True once the client sends nothing more."""
        self.broker: BrokerEnd | None = None
        self.broker_url = ""
        self.rates = Rates(shared.clock)
        self._shared = shared
        self._copying = False
        self._write: Callable[[bytes], None] = drop
        self._peer = Peer(self.frame_max)
        self._early: list[bytes] = []
        """Bytes that arrived behind the CONNECT of a client that names a broker."""
        self._asked_broker = False
        self._upstream: PulsarClient | None = None
        self._upstream_key: Hashable = None
        tasks = TaskScope("proxy session", self._failed)
        keep_alive = keepalive.KeepAlive(self, KEEP_ALIVE_S)
        shake = ClientHandshake(
            self,
            self._peer,
            tasks,
            shared.authenticate,
            ask_broker=self._ask_broker,
            clock=shared.clock,
            server_version=commands.SERVER_VERSION,
            # Java's client uses the last size that any connection named for all of them.
            max_message_size=None,
            feature_flags=FEATURE_FLAGS,
            connected=keep_alive.start,
        )
        client = shake.client
        requests = Router(
            self,
            tasks,
            WAITING_MAX,
            AllowAll(),
            lambda: client.identity,
            shared.refused_commands,
        )
        in_flight_max = shared.settings.max_concurrent_lookup_requests
        passed_on = requests_to_any.RequestsToAny(self, shared.counters, in_flight_max)
        requests.add(passed_on, requests_to_any.ROUTES)
        requests.add(shake, handshake.ROUTES)
        requests.add(keep_alive, keepalive.ROUTES)
        # Until the connection ends: reference cycles would stay until the garbage collector runs, which is rare.
        self._live: ClientEndParts | None = ClientEndParts(tasks, shake, keep_alive, requests)

    @property
    def identity(self) -> Identity:
        return UNAUTHENTICATED if self._live is None else self._live.handshake.client.identity

    @property
    def identified(self) -> bool:
        """True once the client's credentials were accepted."""
        return self._live is not None and self._live.handshake.accepted is not None

    @property
    def copied_reads(self) -> int:
        """Pieces of bytes that were copied in both directions."""
        return self.reads + (0 if self.broker is None else self.broker.reads)

    @property
    def copied_total(self) -> int:
        """Bytes that were copied in both directions."""
        return self.copied_bytes + (0 if self.broker is None else self.broker.copied_bytes)

    @property
    def broker_address(self) -> str:
        """``host/address:port`` of the broker that was connected to, as Java writes it; empty without one."""
        if self.broker is None:
            return ""
        return f"{ServiceUrl.parse(self.broker_url).host}/{self.broker.peer_name}"

    @property
    def copying(self) -> bool:
        """True while bytes are copied to and from a broker."""
        return self._copying

    def upstream(self) -> PulsarClient:
        """Return the client of the brokers that acts for this one."""
        if self._upstream is None:
            if self._live is None:
                raise LostError("the connection is closed")
            shared, forwarding = self._shared, self.forwards
            role = self.identity.role if shared.authenticated else None
            self._upstream_key = self if forwarding else role
            original = self._live.handshake.presented if forwarding else None
            self._upstream = shared.upstreams.take(self._upstream_key, role, original)
        return self._upstream

    @property
    def forwards(self) -> bool:
        """True where the client's own credentials are sent to brokers."""
        return self._shared.settings.forward_authorization_credentials

    # The life of the connection

    def opened(self) -> None:
        if self._live is not None:
            self._live.handshake.start(HANDSHAKE_S)

    def closed(self, error: Exception | None) -> None:
        if error is not None and not isinstance(error, OSError):
            log.info("connection closed client=%s: %s", self.peer_name, error)
        if self._live is not None:
            self._live.end()
        self._early = []
        if self._upstream is not None:
            self._upstream = None
            key, self._upstream_key = self._upstream_key, None
            self._shared.upstreams.give(key, keep=not self.forwards)
        if self.broker is not None:
            self.broker.close()
        self._shared.ended(self)
        self.broker = self._live = None
        self._write = drop

    def _failed(self, name: str, error: BaseException) -> None:
        log.error("request failed client=%s task=%s", self.peer_name, name, exc_info=error)
        self.close()

    # Requests

    def received(self, buf: bytes, pos: int, end: int) -> int:
        parts = self._live
        if parts is None:
            return end
        parts.keepalive.received()
        before = -1
        while pos < end and pos != before and not self.closing:
            if self._asked_broker:
                self._early.append(buf[pos:end])
                return end
            if parts.handshake.waiting:
                parts.handshake.defer(buf[pos:end])
                return end
            before = pos
            pos, events = self._peer.take(buf, pos, end)
            for event in events:
                if self.closing:
                    break
                self._handle(parts.requests, event)
        return pos

    def _handle(self, requests: Router, event: Event) -> None:
        match event:
            case Command():
                requests.handle(event.command)
            case Violation():
                self.close(event.error)
            case Sends() | CorruptSend():
                requests.handle(_empty(CommandType.SEND))
            case Acks():
                requests.handle(_empty(CommandType.ACK))

    # The broker

    def _ask_broker(self) -> None:
        assert self._live is not None
        self._asked_broker = True
        self.hold(BROKER)
        self._live.tasks.spawn("broker", self._connect_broker(self._live.handshake))

    async def _connect_broker(self, shake: ClientHandshake) -> None:
        shared, target = self._shared, shake.request.proxy_to_broker_url
        try:
            url = self.broker_url = await shared.brokers.url_of(target)
        except TargetRefused as error:
            shared.counters.refused_targets += 1
            log.warning(
                "target refused client=%s role=%s target=%s: %s",
                self.peer_name,
                self.identity.role,
                target[:200],
                error,
            )
            self._refuse(error.code, str(error))
            return
        timeout_s = shared.settings.broker_proxy_connect_timeout_ms / 1000
        host, port, encrypted = ServiceUrl.parse(url)
        try:
            tls = shared.link.tls() if encrypted and shared.link.tls is not None else None
            end = self.broker = BrokerEnd(
                self,
                self._connect_frame(shake),
                shared.link.credentials,
                timeout_s,
                shared.settings.broker_proxy_read_timeout_ms / 1000,
            )
            async with asyncio.timeout(timeout_s):
                await shared.network.connect(host, port, lambda: end, tls=tls)
        except OSError as error:  # a TimeoutError is one
            log.info("no connection client=%s broker=%s: %s", self.peer_name, url, error)
            self._refuse(ServerError.ServiceNotReady, ABSENT)

    def _connect_frame(self, shake: ClientHandshake) -> bytes:
        """Return CONNECT of the proxy for its client. Raises OSError for credentials that cannot be read."""
        shared, request = self._shared, shake.request
        method, data, original = None, None, None
        forwarded: tuple[str | None, bytes | None] = (None, None)
        if shared.link.credentials is not None:
            method, data = shared.link.credentials(b"")
        if shared.authenticated:
            original = self.identity.role
            if self.forwards:
                forwarded = shake.presented()
        return client_commands.connect(
            request.client_version,
            protocol_version=request.protocol_version,
            auth_method_name=method,
            auth_data=data,
            original_principal=original,
            original_auth_method=forwarded[0],
            original_auth_data=forwarded[1],
            feature_flags=request.feature_flags if request.HasField("feature_flags") else None,
            proxy_version=shared.link.proxy_version,
        )

    def broker_connected(self, body: pb.CommandConnected) -> None:
        broker = self.broker
        assert broker is not None
        assert broker.transport is not None
        assert self.transport is not None
        assert self._live is not None
        self._live.handshake.hand_over(ends_with_credentials=not self.forwards)
        self.transport.set_write_buffer_limits(COPY_HIGH_BYTES, COPY_LOW_BYTES)
        self.send(commands.with_body(CommandType.CONNECTED, body))
        self.flush()
        self._copying = True
        self._write = broker.transport.write
        early, self._early = self._early, []
        if early:
            self.data_received(b"".join(early))
        self.release(BROKER)
        if broker.paused:  # by what was sent just now
            self.pause_reading()

    def broker_refused(self, code: int, text: str) -> None:
        if code == ServerError.AuthenticationError and not self.forwards:
            log.error("broker %s refuses the proxy's own credentials: %s", self.broker_url, text)
            code, text = ServerError.ServiceNotReady, ABSENT
        self._refuse(code, text)

    def _refuse(self, code: int, text: str) -> None:
        self.send(commands.error(commands.NO_REQUEST, code, text))
        self.close(HandshakeError(f"refused: {text}"))

    def broker_lost(self, error: Exception | None) -> None:
        if self._copying or self.closing:
            self.close()
        else:
            reason = "connection lost" if error is None else error
            log.info(
                "no connection client=%s broker=%s: %s", self.peer_name, self.broker_url, reason
            )
            self._refuse(ServerError.ServiceNotReady, ABSENT)

    # Copying

    def data_received(self, data: bytes) -> None:
        if not self._copying:
            super().data_received(data)
            return
        self.reads += 1
        self.copied_bytes += len(data)
        self._write(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._copying and self.broker is not None:
            self.broker.pause_reading()

    def writable(self) -> None:
        if self._copying and self.broker is not None:
            self.broker.resume_reading()

    def resume_reading(self) -> None:
        if not self.ended:
            super().resume_reading()

    def eof_received(self) -> bool | None:
        self.ended = True
        broker = self.broker
        if not self._copying or broker is None or broker.ended:
            return False
        return pass_end(self.transport, broker.transport)


def _empty(kind: CommandType) -> pb.BaseCommand:
    """Return a command whose body does not matter, because its kind is refused."""
    command = pb.BaseCommand(type=kind)  # type: ignore[arg-type]
    getattr(command, commands.FIELD_OF_TYPE[kind]).SetInParent()
    return command
