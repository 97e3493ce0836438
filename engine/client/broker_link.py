"""One connection to a broker: handshake, requests and answers, and routing of commands to producers and consumers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol, Self

from engine.base.errors import MagnetarError, PeerError
from engine.client.errors import LostError, NoAnswerError, UnreachableError
from engine.net.keepalive import KeepAlive
from engine.net.network import READ_BYTES_MAX, Network, read_at_most
from engine.net.tls import ContextSource
from engine.net.transport import Connection
from engine.wire import client_commands as say
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import refusal
from engine.wire.events import (
    ClientEvent,
    Command,
    Delivered,
    Messages,
    Receipt,
    Receipts,
    Violation,
)
from engine.wire.peer import ClientPeer
from engine.wire.states import CommandType

Body = Any
"""Body of a command: a message of ``pulsar_pb2``."""
Credentials = Callable[[bytes], tuple[str, bytes]]
"""Returns (method name, data) for a broker's challenge, which is empty for the first credentials."""

OriginalCredentials = Callable[[], tuple[str, bytes]]
"""Returns (method name, data) of a proxy's client, as accepted last."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings of a connection. ``keep_alive_s``: a broker silent for one to two of these is given up. ``tls`` returns
    the context for brokers that are connected to in TLS."""

    client_version: str = "Magnetar"
    credentials: Credentials | None = None
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    keep_alive_s: float = 30.0
    tls: ContextSource | None = None
    original_principal: str | None = None
    """The role that the client acts for, as a proxy (A22); None for itself."""
    original_credentials: OriginalCredentials | None = None
    """Returns the credentials of the client that a proxy acts for, where it forwards them."""
    proxy_version: str | None = None
    """Version of the proxy, whose client the link serves; None for other clients."""
    features: Mapping[str, bool] | None = None
    """Feature flags of the client, besides those that its credentials imply."""
    listener_name: str | None = None
    """The listener of brokers whose addresses lookups return; None for the one of the connection that is asked."""
    read_bytes_max: int = READ_BYTES_MAX
    """Bytes read at once from a plain socket, for which a buffer is allocated each time."""


class LinkUser(Protocol):
    """A producer or consumer on a link."""

    def on_command(self, kind: int, body: Body) -> None:
        """Handle a command that answers no request: CLOSE_…, SEND_ERROR, ACK_RESPONSE, ACTIVE_CONSUMER_CHANGE, …"""
        ...

    def lost(self, error: MagnetarError) -> None:
        """Handle the end of the link. The last call."""
        ...


class AttachedProducer(LinkUser, Protocol):
    def receipts(self, receipts: Sequence[Receipt]) -> None:
        """Handle receipts in their order, at least one."""
        ...


class AttachedConsumer(LinkUser, Protocol):
    def messages(self, messages: Sequence[Delivered]) -> None:
        """Handle messages in their order, at least one."""
        ...


class BrokerLink(Connection):
    """A connection to a broker, made by ``open``; it does not reconnect.

    ``producers`` and ``consumers`` hold those attached, by id.
    """

    def __init__(self, settings: LinkSettings, proxy_to: str | None = None) -> None:
        super().__init__(frames.FRAME_BYTES_MAX)
        self.producers: dict[int, AttachedProducer] = {}
        self.consumers: dict[int, AttachedConsumer] = {}
        self.max_message_size = frames.MESSAGE_BYTES_MAX
        self.server_version = ""
        self.features = pb.FeatureFlags()
        """The broker's feature flags, by CONNECTED."""
        self._settings = settings
        self._proxy_to = proxy_to
        self._peer = ClientPeer(self.frame_max)
        self._keepalive = KeepAlive(self, settings.keep_alive_s)
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._replies: dict[int, asyncio.Future[Body]] = {}
        self._undo: dict[int, bytes] = {}
        self._last_id = 0
        self._room: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        network: Network,
        host: str,
        port: int,
        settings: LinkSettings | None = None,
        *,
        encrypted: bool = False,
        proxy_to: str | None = None,
    ) -> Self:
        """Open a connection, in TLS if ``encrypted``, and complete its handshake. ``proxy_to``: ``host:port`` of the
        broker behind a proxy.

        Raises UnreachableError, RefusedError. Cancel-safe.
        """
        settings = settings or LinkSettings()
        if encrypted and settings.tls is None:
            raise UnreachableError(f"{host}:{port} is to be reached in TLS, which is not set up")
        link = cls(settings, proxy_to)
        tls = settings.tls() if encrypted and settings.tls is not None else None
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                await network.connect(host, port, lambda: link, tls=tls)
                await link._connected
        except (OSError, LostError) as error:  # a TimeoutError is an OSError
            link.abort()
            reason = f"{type(error).__name__} {error}"
            raise UnreachableError(f"no connection to {host}:{port}: {reason}") from error
        except BaseException:
            link.abort()
            raise
        return link

    def new_id(self) -> int:
        """Return an id of a request, producer or consumer that was not used on this link."""
        self._last_id += 1
        return self._last_id

    async def request(self, request_id: int, frame: bytes, undo: bytes = b"") -> Body:
        """Send a request and return its answer's body. Raises RefusedError, NoAnswerError, LostError; cancel-safe.

        ``undo``: a frame to send when the request succeeds after its caller stopped waiting.
        """
        if self.closing:
            raise LostError("the connection is closed")
        reply = self._replies[request_id] = self._loop.create_future()
        if undo:
            self._undo[request_id] = undo
        self.send(frame)
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                answer = await reply
        except BaseException as error:
            self._replies.pop(request_id, None)
            if reply.done() and not reply.cancelled():  # the answer arrived before the cancellation
                self._undo.pop(request_id, None)
                if undo and reply.exception() is None:
                    self.send(undo)
            if isinstance(error, TimeoutError):
                raise NoAnswerError(f"no answer to request {request_id}") from error
            raise
        self._undo.pop(request_id, None)
        return answer

    async def room(self) -> None:
        """Wait until the broker has read enough of what was sent. Not needed before small frames. Raises LostError."""
        while self.paused and not self.closing:
            if self._room is None or self._room.done():
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)
        if self.closing:
            raise LostError("the connection is closed")

    # --- received --------------------------------------------------------------------------------

    def opened(self) -> None:
        settings = self._settings
        if self.transport is not None:
            read_at_most(self.transport, settings.read_bytes_max)
        method, data, features = None, None, dict(settings.features or {})
        if settings.credentials is not None:
            method, data = settings.credentials(b"")
            features["supports_auth_refresh"] = True
        original_method, original_data = None, None
        if settings.original_credentials is not None:
            original_method, original_data = settings.original_credentials()
        self._peer.sent_connect()
        self.send(
            say.connect(
                settings.client_version,
                auth_method_name=method,
                auth_data=data,
                proxy_to_broker_url=self._proxy_to,
                original_principal=settings.original_principal,
                original_auth_method=original_method,
                original_auth_data=original_data,
                feature_flags=features or None,
                proxy_version=settings.proxy_version,
            )
        )

    def received(self, buf: bytes, pos: int, end: int) -> int:
        self._keepalive.received()
        previous = -1
        while pos < end and pos != previous and not self.closing:
            previous = pos
            pos, events = self._peer.take(buf, pos, end)
            for event in events:
                self._handle_event(event)
        return pos

    def _handle_event(self, event: ClientEvent) -> None:
        match event:
            case Receipts():
                self.receipts(event)
            case Messages():
                self.messages(event)
            case Command():
                kind = event.command.type
                self._handle_command(kind, getattr(event.command, commands.FIELD_OF_TYPE[kind]))
            case Violation():
                self.close(event.error)

    def receipts(self, run: Receipts) -> None:
        """Pass receipts to the producers attached here. Overridden where only their number matters."""
        for producer_id, group in groupby(run.read(), attrgetter("producer_id")):
            producer = self.producers.get(producer_id)
            if producer is not None:
                producer.receipts(list(group))

    def messages(self, run: Messages) -> None:
        """Pass messages to the consumers attached here. Overridden where only their number matters."""
        for consumer_id, group in groupby(run.read(), attrgetter("consumer_id")):
            consumer = self.consumers.get(consumer_id)
            if consumer is not None:
                consumer.messages(list(group))

    def _handle_command(self, kind: int, body: Body) -> None:
        match kind:
            case CommandType.PING:
                self.send(commands.pong())
            case CommandType.PONG:
                self._keepalive.pong(body)
            case CommandType.CONNECTED:
                self._complete_handshake(body)
            case CommandType.AUTH_CHALLENGE:
                self._answer_challenge(body.challenge.auth_data)
            case CommandType.PRODUCER_SUCCESS if not body.producer_ready:
                pass  # a second answer follows when the producer is no longer queued
            case _:
                self._route(kind, body)

    def _route(self, kind: int, body: Body) -> None:
        request_id = getattr(body, "request_id", commands.NO_REQUEST)
        reply = self._replies.pop(request_id, None)
        if reply is not None and not reply.done():
            self._resolve(reply, kind, body)
        elif request_id in self._undo:
            undo = self._undo.pop(request_id)
            if kind != CommandType.ERROR:
                self.send(undo)
        elif not self._connected.done():  # an ERROR before CONNECTED refuses the connection itself
            self._connected.set_exception(refusal(body.error, body.message))
            self.close()
        else:
            attached = self._attached(body)
            if attached is not None:
                attached.on_command(kind, body)
            else:
                self.unclaimed(kind, body)

    def unclaimed(self, kind: int, body: Body) -> None:
        """Handle a command of a producer or consumer that is not attached any more."""

    def _resolve(self, reply: "asyncio.Future[Body]", kind: int, body: Body) -> None:
        fields = type(body).DESCRIPTOR.fields_by_name
        for code, text in (("error", "message"), ("error_code", "error_message")):
            if code in fields and body.HasField(code):
                reply.set_exception(refusal(getattr(body, code), getattr(body, text)))
                return
        reply.set_result(body)

    def _attached(self, body: Body) -> LinkUser | None:
        producer_id = getattr(body, "producer_id", None)
        if producer_id is not None:
            return self.producers.get(producer_id)
        return self.consumers.get(getattr(body, "consumer_id", -1))

    def _complete_handshake(self, body: pb.CommandConnected) -> None:
        self.server_version = body.server_version
        self.features = body.feature_flags
        if body.HasField("max_message_size"):
            self.max_message_size = body.max_message_size
            self.frame_max = body.max_message_size + frames.FRAME_OVERHEAD
            self._peer.frame_max = self.frame_max
        self._keepalive.start()
        if not self._connected.done():
            self._connected.set_result(None)

    def _answer_challenge(self, challenge: bytes) -> None:
        settings = self._settings
        if settings.original_credentials is not None and self._connected.done():
            # Brokers renew those credentials that they check, which are the client's where a proxy forwards them.
            method, data = settings.original_credentials()
        elif settings.credentials is None:
            raise PeerError("the broker requires credentials, none are configured")
        else:
            method, data = settings.credentials(challenge)
        self._peer.sent_auth_response()
        self.send(say.auth_response(method, data, self._settings.client_version))

    def writable(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def closed(self, error: Exception | None) -> None:
        self._keepalive.stop()
        lost = LostError("connection closed" if error is None else f"connection lost: {error}")
        lost.__cause__ = error
        for reply in (self._connected, *self._replies.values()):
            if not reply.done():
                reply.set_exception(lost)
                reply.exception()  # marks it as retrieved: the caller may have been cancelled
        self.writable()
        attached = [*self.producers.values(), *self.consumers.values()]
        self.producers.clear()
        self.consumers.clear()
        for user in attached:
            user.lost(lost)
