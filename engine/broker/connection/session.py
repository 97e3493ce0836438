"""One client connection: handshake, keepalive, routing of commands to their families, bounds on what it may hold."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, assert_never

from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.broker.connection.consume import ConsumeCommands
from engine.broker.connection.lookups import LookupCommands
from engine.broker.connection.produce import ProduceCommands
from engine.broker.errors import BrokerError, ProtocolViolation
from engine.net.transport import Connection
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.events import Acks, Command, CorruptSend, Event, Sends, Violation
from engine.wire.peer import Peer
from engine.wire.states import State

if TYPE_CHECKING:
    from engine.broker.topics.registry import TopicRegistry

log = logging.getLogger(__name__)

FEATURE_FLAGS = {"supports_get_partitioned_metadata_without_auto_creation": True}
_TXN_OFF = "Transactions are not enabled."
_WATCHERS_OFF = "Topic list watchers are not supported"


class Session(Connection):
    """The broker's end of a client connection, and the ``Outlet`` of its producers and consumers.

    Breaking the protocol (a command out of turn, of unknown type, without required fields; an oversized frame) ends
    the connection and is logged once; nobody else is affected. Requests that wait run as tasks of the session, bounded
    in number; whatever must keep its order (SEND, ACK, FLOW, redelivery, close) is done where it is read.
    """

    def __init__(self, registry: "TopicRegistry", ended: Callable[["Session"], object]) -> None:
        settings = registry.settings
        super().__init__(settings.max_message_size + frames.FRAME_OVERHEAD)
        self.registry = registry
        self._ended = ended
        self._scope = TaskScope("session", self._failed)
        self.client_version = ""
        self.protocol_version = 0
        self.address = ""
        self._peer = Peer(self.frame_max)
        self._produce = ProduceCommands(self)
        self._consume = ConsumeCommands(self)
        self._lookups = LookupCommands(self)
        self._heard = True
        self._probe: asyncio.Future[bool] | None = None
        self._sign = False
        """Anything was heard since the probe began."""
        self._pongs_due = 0
        self._timer: asyncio.TimerHandle | None = None
        self._requests = 0
        self._publish_bytes = 0
        self._holds: set[str] = set()
        """Why reading is paused: "publish", "broker", "requests"."""
        self._interval_s = float(settings.keep_alive_interval_seconds)
        self._handlers = self._routes()

    # --- life -----------------------------------------------------------------------------------

    @property
    def producers(self) -> int:
        return len(self._produce.producers)

    @property
    def consumers(self) -> int:
        return len(self._consume.consumers)

    def opened(self) -> None:
        self.address = self.peer_name
        self._timer = self._loop.call_later(self._interval_s, self._keep_alive)

    def closed(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if error is not None and not isinstance(error, OSError):
            log.info("connection closed client=%s: %s", self.address, error)
        self._answer_probe(False)
        self._scope.cancel()
        self._produce.leave()
        self._consume.leave()
        self.registry.unthrottle(self)
        self._ended(self)

    def writable(self) -> None:
        self._consume.wake()

    def _failed(self, name: str, error: BaseException) -> None:
        log.error("request failed client=%s task=%s", self.address, name, exc_info=error)
        self.close()

    def _keep_alive(self) -> None:
        """Each interval: a handshake not done, or a PING not followed by any sign of life, ends the connection."""
        if self.closing:
            return
        if self._peer.state is not State.CONNECTED:
            self.close(ProtocolViolation("no CONNECT within the keepalive interval"))
            return
        if not self._heard and not self._holds:
            self.abort(ProtocolViolation("no answer to PING"))
            return
        self._heard = False
        self._ping()
        self._timer = self._loop.call_later(self._interval_s, self._keep_alive)

    def _ping(self) -> None:
        self._pongs_due += 1
        self.send(commands.ping())

    def _pong(self, _: object) -> None:
        self._pongs_due = max(0, self._pongs_due - 1)
        if not self._pongs_due:
            self._answer_probe(True)

    async def is_alive(self) -> bool:
        """Whether the client is there. What it sent before it went may still arrive, its end behind that: so only the
        PONG to our PING proves it; or, if that takes too long, anything heard since."""
        if self.closing:
            return False
        if self._holds:
            return True  # we do not read it ourselves
        if self._probe is None:
            self._probe = self._loop.create_future()
            self._sign = False
            self._ping()
            timeout_s = self.registry.settings.connection_liveness_check_timeout_millis / 1000
            self._loop.call_later(timeout_s, self._end_probe, self._probe)
        return await asyncio.shield(self._probe)

    def _end_probe(self, probe: "asyncio.Future[bool]") -> None:
        if probe.done():
            return
        alive = self._sign or bool(self._holds)
        if not alive:
            self.abort(ProtocolViolation("no sign of life when asked for one"))
        self._answer_probe(alive)

    def _answer_probe(self, alive: bool) -> None:
        if self._probe is not None:
            if not self._probe.done():
                self._probe.set_result(alive)
            self._probe = None

    # --- the outlet -----------------------------------------------------------------------------

    @property
    def can_send(self) -> bool:
        return not self.paused and not self.closing

    def drop_consumer(self, consumer_id: int) -> None:
        self._consume.drop(consumer_id)

    def drop_producer(self, producer_id: int) -> None:
        self._produce.drop(producer_id)

    def publish_started(self, size: int) -> None:
        self._publish_bytes += size
        if self._publish_bytes > self.registry.settings.max_pending_publish_bytes_per_connection:
            self.hold("publish")
        self.registry.publish_started(self, size)

    def publish_ended(self, size: int) -> None:
        self._publish_bytes -= size
        if "publish" in self._holds and self._publish_bytes <= (
            self.registry.settings.max_pending_publish_bytes_per_connection // 2
        ):
            self.release("publish")
        self.registry.publish_ended(size)

    def hold(self, reason: str) -> None:
        """Stop reading until ``release`` of the same reason."""
        self._holds.add(reason)
        self.pause_reading()

    def release(self, reason: str) -> None:
        self._holds.discard(reason)
        if not self._holds:
            self._heard = True  # it could not be heard meanwhile
            self.resume_reading()

    # --- reading --------------------------------------------------------------------------------

    def received(self, buf: bytes, pos: int, end: int) -> int:
        self._heard = self._sign = True
        before = -1
        try:
            while pos != before and not self.closing:
                before = pos
                pos, events = self._peer.take(buf, pos, end)
                for event in events:
                    if self.closing:
                        break
                    self._take_event(event)
        except ProtocolViolation as error:
            self.close(error)
        return pos

    def _take_event(self, event: Event) -> None:
        match event:
            case Sends():
                self._produce.send(event)
            case Acks():
                self._consume.ack_run(event.consumer_id, event.positions)
            case Command():
                kind = event.command.type
                self._handlers[kind](getattr(event.command, commands.FIELD_OF_TYPE[kind]))
            case CorruptSend():
                self._produce.corrupt(event)
            case Violation():
                self.close(event.error)
            case _:
                assert_never(event)

    def _connect(self, body: pb.CommandConnect) -> None:
        """Authentication is off: any method and credentials are taken."""
        self.client_version = body.client_version
        self.protocol_version = body.protocol_version
        self._peer.sent_connected()
        self.send(
            commands.connected(
                server_version=self.registry.identity.server_version,
                protocol_version=max(0, min(body.protocol_version, commands.PROTOCOL_VERSION)),
                max_message_size=self.registry.settings.max_message_size,
                feature_flags=FEATURE_FLAGS,
            )
        )

    # --- routing --------------------------------------------------------------------------------

    def _routes(self) -> dict[int, Callable[[Any], None]]:
        kind = pb.BaseCommand
        produce, consume, lookups = self._produce, self._consume, self._lookups
        routes: dict[int, Callable[[Any], None]] = {
            kind.CONNECT: self._connect,
            kind.PING: lambda _: self.send(commands.pong()),
            kind.PONG: self._pong,
            kind.AUTH_RESPONSE: lambda _: None,
            kind.FLOW: consume.flow,
            kind.ACK: self._ack,
            kind.REDELIVER_UNACKNOWLEDGED_MESSAGES: consume.redeliver,
            kind.CLOSE_CONSUMER: lambda body: self.send(consume.close(body)),
            kind.CONSUMER_STATS: lambda body: self.send(consume.stats(body)),
            kind.SUBSCRIBE: self._subscribe,
            kind.GET_SCHEMA: lambda body: self.send(lookups.get_schema(body)),
            kind.GET_OR_CREATE_SCHEMA: lambda body: self.send(lookups.get_or_create_schema(body)),
            kind.WATCH_TOPIC_LIST: self._refuse(_WATCHERS_OFF),
            kind.WATCH_TOPIC_LIST_CLOSE: lambda body: self.send(commands.success(body.request_id)),
        }
        waiting: dict[int, Callable[[Any], Awaitable[bytes]]] = {
            kind.PRODUCER: produce.producer,
            kind.CLOSE_PRODUCER: produce.close,
            kind.UNSUBSCRIBE: consume.unsubscribe,
            kind.SEEK: consume.seek,
            kind.GET_LAST_MESSAGE_ID: consume.last_message_id,
            kind.LOOKUP: lookups.lookup,
            kind.PARTITIONED_METADATA: lookups.partitioned_metadata,
            kind.GET_TOPICS_OF_NAMESPACE: lookups.topics_of_namespace,
        }
        for number, answer in waiting.items():
            routes[number] = self._later(answer)
        for number in (
            kind.TC_CLIENT_CONNECT_REQUEST,
            kind.NEW_TXN,
            kind.ADD_PARTITION_TO_TXN,
            kind.ADD_SUBSCRIPTION_TO_TXN,
            kind.END_TXN,
            kind.END_TXN_ON_PARTITION,
            kind.END_TXN_ON_SUBSCRIPTION,
        ):
            routes[number] = self._refuse(_TXN_OFF)
        return routes

    def _refuse(self, text: str) -> Callable[[Any], None]:
        def refuse(body: Any) -> None:
            self.send(commands.error(body.request_id, ServerError.NotAllowedError, text))

        return refuse

    def _later(self, answer: Callable[[Any], Awaitable[bytes]]) -> Callable[[Any], None]:
        def begin(body: Any) -> None:
            self._start(answer(body), body.request_id)

        return begin

    def _subscribe(self, body: pb.CommandSubscribe) -> None:
        """The C++ library, and those on top of it, takes a refused consumer for attached to the connection: it asks
        again only when it is sent away from there."""
        stranded = self.client_version.startswith("Pulsar-CPP")
        again = commands.close_consumer(body.consumer_id) if stranded else b""
        self._start(self._consume.subscribe(body), body.request_id, again)

    def _ack(self, body: pb.CommandAck) -> None:
        answer = self._consume.ack(body)
        if answer is not None:
            self._start(answer, body.request_id)

    def _start(self, answer: Awaitable[bytes], request_id: int, again: bytes = b"") -> None:
        """Answer the request when ``answer`` is there. ``again`` follows a refusal that may pass."""
        self._requests += 1
        if self._requests >= self.registry.settings.max_pending_requests_per_connection:
            self.hold("requests")
        self._scope.spawn("request", self._answer(answer, request_id, again))

    async def _answer(self, answer: Awaitable[bytes], request_id: int, again: bytes) -> None:
        try:
            reply = await answer
        except ProtocolViolation as error:
            self.close(error)
            return
        except asyncio.CancelledError:
            if self._scope.closed:
                raise
            text = "What the request waited for was given up, try again"
            reply = commands.error(request_id, ServerError.ServiceNotReady, text) + again
        except MagnetarError as error:
            code, level = ServerError.UnknownError, logging.WARNING
            if isinstance(error, BrokerError):
                code, level = error.code, logging.INFO
            log.log(level, "request refused client=%s: %s", self.address, error)
            reply = commands.error(request_id, code, str(error))
            if error.retriable:
                reply += again
        finally:
            self._requests -= 1
            if "requests" in self._holds and self._requests * 2 <= (
                self.registry.settings.max_pending_requests_per_connection
            ):
                self.release("requests")
        self.send(reply)
