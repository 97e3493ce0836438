"""One client connection: composition of its parts, routing of events to the command families, bounds on its memory."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, assert_never

from engine.auth.identity import Identity
from engine.base.budget import Budget
from engine.base.tasks import TaskScope
from engine.broker.connection import consume, lookups, produce, schemas, transactions, watches
from engine.broker.context import Context
from engine.broker.control.topic_lists import TopicLists
from engine.broker.outlet import Moved
from engine.broker.topics.publish import Producer
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.schema_rules import SchemaRules
from engine.broker.transactions.coordinator.coordinators import Coordinators
from engine.net import handshake, keepalive
from engine.net.routing import Router
from engine.net.transport import Connection
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.events import Acks, Command, CorruptSend, Event, Sends, Violation
from engine.wire.peer import Peer

log = logging.getLogger(__name__)

FEATURE_FLAGS = {
    "supports_topic_watchers": True,
    "supports_get_partitioned_metadata_without_auto_creation": True,
    "supports_repl_dedup_by_lid_and_eid": True,
}
PUBLISH_SHARE_BYTES = 64 << 10
"""Bytes of unconfirmed entries that each connection may have regardless of the others. Entries of one topic may wait
for its storage forever, and clients of other topics must not wait with them."""
BROKER_METADATA_VERSION = 18
"""First protocol version whose clients may read the metadata that brokers put before entries."""


class SessionParts(NamedTuple):
    """The parts of a session, which refer to it and end with its connection."""

    tasks: TaskScope
    handshake: handshake.Handshake
    keepalive: keepalive.KeepAlive
    requests: Router
    produce: produce.ProduceCommands
    consume: consume.ConsumeCommands
    watches: watches.WatchCommands

    def end(self) -> None:
        """Release what the client had opened."""
        self.handshake.stop()
        self.keepalive.stop()
        self.tasks.cancel()
        self.produce.disconnected()
        self.consume.disconnected()
        self.watches.disconnected()


class Session(Connection):
    """The broker's side of a client connection, and the ``ClientConnection`` of its command families.

    A protocol violation (a command out of turn, of unknown type, without required fields; an oversized frame) ends
    the connection and is logged once; other connections are not affected. Requests that wait run as tasks of the
    session, bounded in number. Commands that must keep their order (SEND, ACK, FLOW, redelivery, close) are handled as
    they are read.
    """

    def __init__(
        self,
        context: Context,
        registry: TopicRegistry,
        lookup_commands: lookups.LookupCommands,
        lists: TopicLists,
        schema_commands: schemas.SchemaCommands,
        schema_rules: SchemaRules,
        coordinators: Coordinators | None,
        broker_budget: Budget,
        ended: Callable[["Session"], object],
        listener: str = "",
        number: int = 0,
    ) -> None:
        """Create the session of a new connection, which came in by an address of ``listener`` (empty: by one that
        belongs to none). ``number`` is of no other connection since the broker's start. ``broker_budget`` bounds the
        unconfirmed entries of all connections together, without the first PUBLISH_SHARE_BYTES of each."""
        settings = context.settings
        super().__init__(settings.max_message_size + frames.FRAME_OVERHEAD)
        self.address = ""
        self.listener = listener
        self.number = number
        self.opened_ms = context.clock.wall_ms()
        self._settings = settings
        self._ended = ended
        tasks = TaskScope("session", self._failed)
        self._peer = Peer(self.frame_max)
        self.publish_budget = Budget(
            settings.max_pending_publish_bytes_per_connection,
            on_high=partial(self.hold, "publish"),
            on_low=partial(self.release, "publish"),
            parent=broker_budget,
            share=PUBLISH_SHARE_BYTES,
        )
        keep_alive = keepalive.KeepAlive(self, settings.keep_alive_interval_seconds)
        shake = handshake.Handshake(
            self,
            self._peer,
            tasks,
            context.authenticate,
            clock=context.clock,
            server_version=context.identity.server_version,
            max_message_size=settings.max_message_size,
            feature_flags=FEATURE_FLAGS,
            connected=keep_alive.start,
        )
        self._client = client = shake.client
        requests = Router(
            self,
            tasks,
            settings.max_pending_requests_per_connection,
            context.judge,
            lambda: client.identity,
            context.refused_commands,
        )
        live = SessionParts(
            tasks=tasks,
            handshake=shake,
            keepalive=keep_alive,
            requests=requests,
            produce=produce.ProduceCommands(self, context, registry, schema_rules),
            consume=consume.ConsumeCommands(self, context, registry, schema_rules),
            watches=watches.WatchCommands(self, lists, settings, context.judge),
        )
        # Until the connection ends: reference cycles would stay until the garbage collector runs, which is rare.
        self._live: SessionParts | None = live
        requests.add(shake, handshake.ROUTES)
        requests.add(keep_alive, keepalive.ROUTES)
        requests.add(live.produce, produce.ROUTES)
        requests.add(live.consume, consume.ROUTES)
        requests.add(lookup_commands, lookups.ROUTES)
        requests.add(live.watches, watches.ROUTES)
        requests.add(schema_commands, schemas.ROUTES)
        if coordinators is None:
            requests.add(self, transactions.REFUSALS)
        else:
            of_transactions = transactions.TransactionCommands(
                self, context, registry, coordinators
            )
            requests.add(of_transactions, transactions.ROUTES)

    # --- state ----------------------------------------------------------------------------------

    @property
    def identity(self) -> Identity:
        return self._client.identity

    @property
    def client_version(self) -> str:
        return self._client.version

    @property
    def proxy_version(self) -> str:
        """Version of the proxy that the client came through; empty without one."""
        return self._client.proxy_version

    @property
    def protocol_version(self) -> int:
        return self._client.protocol_version

    @property
    def takes_broker_metadata(self) -> bool:
        version = self._client.protocol_version
        return version >= BROKER_METADATA_VERSION and self._client.takes_broker_metadata

    @property
    def partial_producers(self) -> bool:
        return self._client.partial_producers

    @property
    def replicates_by_source(self) -> bool:
        return self._client.replicates_by_source

    @property
    def connected(self) -> bool:
        """True once CONNECT was answered."""
        return self._client.connected

    @property
    def producers(self) -> int:
        return 0 if self._live is None else len(self._live.produce.producers)

    @property
    def consumers(self) -> int:
        return 0 if self._live is None else len(self._live.consume.consumers)

    def open_producers(self) -> list[Producer]:
        """Return the connection's producers, with those that wait for exclusive access."""
        return [] if self._live is None else self._live.produce.opened()

    def open_consumers(self) -> list[consume.Attached]:
        """Return the connection's consumers with their subscriptions."""
        return [] if self._live is None else list(self._live.consume.consumers.values())

    def opened(self) -> None:
        self.address = self.peer_name
        if self._live is not None:
            self._live.handshake.start(self._settings.keep_alive_interval_seconds)

    def closed(self, error: Exception | None) -> None:
        if error is not None and not isinstance(error, OSError):
            log.info("connection closed client=%s: %s", self.address, error)
        if self._live is not None:
            self._live.end()
        self._ended(self)
        self.publish_budget.unheeded()
        self._live = None

    def writable(self) -> None:
        if self._live is not None:
            self._live.consume.wake()
            self._live.watches.wake()

    def _failed(self, name: str, error: BaseException) -> None:
        log.error("request failed client=%s task=%s", self.address, name, exc_info=error)
        self.close()

    # --- the outlet -----------------------------------------------------------------------------

    @property
    def can_send(self) -> bool:
        return not self.paused and not self.closing

    async def is_alive(self) -> bool:
        if self._live is None or self.closing:
            return False
        timeout_s = self._settings.connection_liveness_check_timeout_millis / 1000
        return await self._live.keepalive.is_alive(timeout_s)

    def answer_later(self, answer: Awaitable[bytes], request_id: int, again: bytes = b"") -> None:
        if self._live is not None:
            self._live.requests.answer_later(answer, request_id, again)

    def awaits(self) -> None:
        if self._live is not None:
            self._live.requests.awaits()

    def answered(self, reply: bytes) -> None:
        if self._live is not None:
            self._live.requests.answered(reply)

    def drop_consumer(self, consumer_id: int, moved: Moved | None = None) -> None:
        if self._live is not None:
            self._live.consume.drop(consumer_id, moved)

    def drop_producer(self, producer_id: int, moved: Moved | None = None) -> None:
        if self._live is not None:
            self._live.produce.drop(producer_id, moved)

    # --- reading --------------------------------------------------------------------------------

    def received(self, buf: bytes, pos: int, end: int) -> int:
        parts = self._live
        if parts is None:
            return end
        parts.keepalive.received()
        before = -1
        while pos < end and pos != before and not self.closing:
            if parts.handshake.waiting:
                parts.handshake.defer(buf[pos:end])
                return end
            before = pos
            pos, events = self._peer.take(buf, pos, end)
            for event in events:
                if self.closing:
                    break
                self._handle_event(parts, event)
        return pos

    def _handle_event(self, parts: SessionParts, event: Event) -> None:
        match event:
            case Sends():
                parts.produce.send(event)
            case Acks():
                parts.consume.ack_run(event.consumer_id, event.positions)
            case Command():
                if self.listener and event.command.type == pb.BaseCommand.LOOKUP:
                    self._name_listener(event.command.lookupTopic)
                parts.requests.handle(event.command)
            case CorruptSend():
                parts.produce.corrupt(event)
            case Violation():
                self.close(event.error)
            case _:
                assert_never(event)

    def _name_listener(self, lookup: pb.CommandLookupTopic) -> None:
        """Name the listener of the connection in a lookup without one: its addresses are those that the client can
        reach."""
        if not lookup.advertised_listener_name:
            lookup.advertised_listener_name = self.listener
