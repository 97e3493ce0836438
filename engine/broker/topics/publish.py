"""Runs of entries between the socket and the receipt, and the producers that send them.

``Publish`` is the only owner of a run: a topic's stages judge it, the append reports to it, and it sends the answers.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum, auto
from typing import Protocol

from engine.base.names import TopicName
from engine.base.slices import Slice
from engine.broker.control.counters import Rate, Traffic
from engine.broker.errors import BrokerError
from engine.broker.outlet import MIGRATION_VERSION, Moved, Outlet, WithheldCloses
from engine.broker.ports import MigrationTarget
from engine.broker.transactions.txn_id import TxnId
from engine.managed.errors import AppendFailedError
from engine.ownership.owner import OwnerRecord
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.kernels import SendRun, build_receipts, head_sequences

log = logging.getLogger(__name__)


class StagePlace(IntEnum):
    """The order of a topic's stages (D16).

    Stages that refuse by the content of a run precede the rates, which must not be charged for what is refused.
    Deduplication and transactions are the last that may keep a run, so that runs are appended in the order in which
    they judged them. A transaction must be open when its message is appended, not earlier.
    """

    ENCRYPTION = auto()
    ORIGIN = auto()
    MARKER = auto()
    SIZE = auto()
    DELAY = auto()
    TOPIC_RATE = auto()
    GROUP_RATE = auto()
    BROKER_RATE = auto()
    DEDUPLICATION = auto()
    TRANSACTION = auto()
    TRACE = auto()


class Stage(Protocol):
    """A step that every run passes before it is appended. Called for runs in the order received; must not raise."""

    @property
    def place(self) -> StagePlace:
        """The stage's place among those of its topic, which has at most one of each place."""
        ...

    def admit(self, publish: "Publish") -> bool:
        """Return whether ``publish`` may pass on now; called before the append.

        When False, the stage has refused the run (``Publish.refuse``) or keeps it for ``Topic.admitted``. A stage that
        keeps a run also keeps every later run of the same producers, so that their order holds (D9).
        """
        ...

    def stored(self, publish: "Publish", start: int, stop: int) -> None:
        """Note that entries ``start`` (inclusive) to ``stop`` are durable; their receipts are sent after the call."""
        ...

    def failed(self, publish: "Publish", start: int) -> None:
        """Note that entries from ``start`` on are not stored or in doubt; their producers are disconnected."""
        ...


def in_order(wanted: Iterable[Stage]) -> tuple[Stage, ...]:
    """Return the stages of a topic in the order of their places (D16)."""
    return tuple(sorted(wanted, key=_place))


def _place(stage: Stage) -> StagePlace:
    return stage.place


class PublishHost(Protocol):
    """Parts of a topic that its producers and their runs use."""

    name: TopicName
    closing: bool

    def publish(self, publish: "Publish") -> None: ...

    def admitted(self, publish: "Publish", by: Stage) -> None: ...

    def stored(
        self, publish: "Publish", start: int, stop: int, messages: int, size: int
    ) -> None: ...

    def failed(self, publish: "Publish", start: int) -> None: ...

    def repeated(self, messages: int, size: int) -> None: ...

    def last_sequence(self, name: str) -> int: ...

    def remove_producer(self, producer: "Producer") -> None: ...


class Producer:
    """One attached producer.

    Its receipts are sent in send order. After a failed append nothing more of it is stored until the client has
    connected again, so that the order of its messages holds (D9).
    """

    def __init__(
        self,
        outlet: Outlet,
        producer_id: int,
        name: str,
        topic: PublishHost,
        *,
        now_ms: int,
        epoch: int = 0,
        named_by_user: bool = True,
        metadata: dict[str, str] | None = None,
        schema_version: bytes = b"",
        access_mode: pb.ProducerAccessMode = pb.Shared,
        topic_epoch: int | None = None,
        encrypted: bool = False,
        origin: str = "",
    ) -> None:
        """Create a producer that is not attached yet.

        ``topic_epoch`` is the epoch under which it last had the topic exclusively; None when it never had.
        ``encrypted``: the client declares that it encrypts its messages. ``origin``: the cluster whose replicator it
        is; empty for other producers. A replicator's SENDs have positions of its cluster as sequence ids.
        """
        self.outlet = outlet
        self.producer_id = producer_id
        self.name = name
        self.topic = topic
        self.epoch = epoch
        self.named_by_user = named_by_user
        self.metadata = metadata or {}
        self.schema_version = schema_version
        self.access_mode = access_mode
        self.topic_epoch = topic_epoch
        self.encrypted = encrypted
        self.origin = origin
        self.connected_ms = now_ms
        self.published = Traffic()
        self.chunks = Rate()
        self.closed = False
        self.pending = 0
        """Number of entries received and not yet answered."""
        self._drained_future: asyncio.Future[None] | None = None

    @property
    def takes(self) -> bool:
        """False once it is being disconnected: its messages are ignored, and the client sends them again."""
        return not self.closed and not self.topic.closing

    def stored(self, entries: int, messages: int, size: int) -> None:
        """Count pending entries that became durable, with their messages and bytes."""
        published = self.published
        published.messages.total += messages
        published.bytes.total += size
        self.pending -= entries
        # A caller of drained() may wait for these entries; ended() notifies it.
        if self._drained_future is not None:
            self.ended(0)

    def ended(self, entries: int) -> None:
        """Count ``entries`` as no longer pending."""
        self.pending -= entries
        if (
            self._drained_future is not None
            and not self.pending
            and not self._drained_future.done()
        ):
            self._drained_future.set_result(None)

    def tick(self, elapsed_s: float) -> bool:
        """Compute the rates, as ``Rate.tick`` does."""
        changes = self.published.tick(elapsed_s)
        return self.chunks.tick(elapsed_s) or changes

    async def drained(self) -> None:
        """Return when none of its entries is pending. Cancel-safe."""
        if self.pending:
            if self._drained_future is None:
                self._drained_future = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained_future)

    def leave(self) -> None:
        """Remove the producer from its topic without notifying the client: it was closed or replaced, or its connection
        ended. Safe to call twice."""
        self.closed = True
        self.topic.remove_producer(self)

    def disconnect(self, withheld: WithheldCloses | None = None) -> None:
        """Remove the producer and notify the client, which connects again and resends what has no receipt.

        With ``withheld`` the client is notified when that is sent.
        """
        if self.closed:
            return
        self.leave()
        if withheld is None:
            self.outlet.drop_producer(self.producer_id)
        else:
            withheld.add(self._moved)

    def migrate(self, target: MigrationTarget) -> None:
        """Remove the producer and send its client to another cluster."""
        if not self.closed:
            self.leave()
            if self.outlet.protocol_version >= MIGRATION_VERSION:
                kind = pb.CommandTopicMigrated.Producer
                self.outlet.send(
                    commands.topic_migrated(kind, self.producer_id, target.url, target.url_tls)
                )
            self.outlet.drop_producer(self.producer_id)

    def _moved(self, next_owner: OwnerRecord | None) -> None:
        self.outlet.drop_producer(self.producer_id, Moved(self, next_owner))


class Publish:
    """One run of SENDs from one connection to one topic, from ``start`` to its last receipt. An ``AppendSink``.

    ``owners[i]`` sent entry ``i``; None when all are of ``producer``. ``chunk``: the run is part of a chunked message.
    ``marker``: it is a marker, which another cluster's broker wrote. ``txn``: the transaction that all entries name.
    ``judged`` is the period in which deduplication judged the run to be new, 0 when it did not. ``since_s`` is the
    monotonic time at which the topic received the run.
    """

    __slots__ = (
        "chunk",
        "heads",
        "judged",
        "marker",
        "owners",
        "producer",
        "run",
        "since_s",
        "txn",
    )

    def __init__(
        self,
        run: SendRun,
        producer: Producer,
        owners: list[Producer] | None = None,
        chunk: bool = False,
        marker: bool = False,
        txn: TxnId | None = None,
    ) -> None:
        self.run = run
        self.heads = run.heads
        self.producer = producer
        self.owners = owners
        self.chunk = chunk
        self.marker = marker
        self.txn = txn
        self.judged = 0
        self.since_s = 0.0
        # The run stays cached for long, and its heads, needed for receipts only, can be larger than small entries.
        run.heads = []
        run.owners = None

    def part(self, indexes: Sequence[int]) -> "Publish":
        """Return the entries at ``indexes`` (rising) as a run of its own, whose outcome is reported separately."""
        self.run.heads = self.heads
        run = self.run.pick(indexes)
        self.run.heads = []
        if self.owners is None:
            part = Publish(run, self.producer, None, self.chunk, self.marker, self.txn)
        else:
            owners = [self.owners[i] for i in indexes]
            alone = owners.count(owners[0]) == len(owners)
            part = Publish(run, owners[0], None if alone else owners, self.chunk, txn=self.txn)
        part.since_s = self.since_s
        return part

    def parts(self) -> "list[Publish]":
        """Return one part for each of ``owners``.

        The time is linear in the entries, because clients choose how many producers share a run.
        """
        assert self.owners is not None
        by_owner: dict[Producer, list[int]] = {}
        for i, owner in enumerate(self.owners):
            by_owner.setdefault(owner, []).append(i)
        return [self.part(indexes) for indexes in by_owner.values()]

    def start(self) -> None:
        """Count the run as pending and pass it to the topic; its outcome may be reported within this call."""
        run, producer = self.run, self.producer
        if self.owners is None:
            producer.pending += run.count
        else:
            for owner in self.owners:
                owner.pending += 1
        producer.outlet.publish_budget.take(run.size, run.count)
        producer.topic.publish(self)

    def appended(self, run: Slice, start: int, stop: int) -> None:
        size, messages = run.size_of(start, stop), run.messages_of(start, stop)
        producer = self.producer
        outlet = producer.outlet
        producer.topic.stored(self, start, stop, messages, size)
        if self.chunk:
            producer.chunks.total += messages
        outlet.send(build_receipts(run.ledger_id, run.first + start, self.heads, start, stop))
        outlet.publish_budget.give(size, stop - start)
        if self.owners is None:
            producer.stored(stop - start, messages, size)
        else:
            self._count_shares(self.owners, start, stop)

    def _count_shares(self, owners: list[Producer], start: int, stop: int) -> None:
        spans, counts = self.run.spans, self.run.counts
        shares: dict[Producer, list[int]] = {}
        for i in range(start, stop):
            share = shares.get(owners[i])
            if share is None:
                share = shares[owners[i]] = [0, 0, 0]
            share[0] += 1
            share[1] += 1 if counts is None else counts[i]
            share[2] += spans[2 * i + 1] - spans[2 * i]
        for owner, (entries, messages, size) in shares.items():
            owner.stored(entries, messages, size)

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        """Answer the entries from ``start`` on with an error and disconnect their producers.

        A later message must not be stored before a failed one, so the client connects again and resends all (D9).
        """
        for owner, indexes in self._by_owner(start).items():
            if not owner.closed:
                # Other errors mean a closed, fenced or terminated log: the client learns which when it connects again.
                if isinstance(error, AppendFailedError):
                    log.debug("append failed topic=%s: %s", owner.topic.name, error)
                    text = f"The message could not be stored: {error}"
                    self._send_errors(owner, indexes, ServerError.PersistenceError, text)
                owner.disconnect()
        self._release(start)
        self.producer.topic.failed(self, start)

    def refuse(self, error: BrokerError) -> None:
        """Answer each SEND with ``error``; called by a stage. The producers stay attached, but for a replicator.

        What it sends later must not be stored before what is refused (G1): it connects again and sends all of it.
        """
        for owner, indexes in self._by_owner(0).items():
            if owner.closed:
                continue
            if owner.origin:
                self._send_errors(owner, indexes[:1], ServerError.PersistenceError, str(error))
                owner.disconnect()
            else:
                self._send_errors(owner, indexes, error.code, str(error))
        self._release(0)

    def repeated(self) -> None:
        """Answer the run, which is stored already, with receipts that name no position; called by a stage."""
        run, published = self.run, self.producer.published
        self.producer.topic.repeated(run.messages_of(0, run.count), run.size)
        published.messages.total += run.messages_of(0, run.count)
        published.bytes.total += run.size
        for sequence_id, highest in head_sequences(self.heads):
            self.producer.outlet.send(
                commands.send_receipt(
                    self.producer.producer_id, sequence_id, commands.NOWHERE, highest
                )
            )
        self._release(0)

    def drop(self) -> None:
        """Discard the run, whose producer left meanwhile: the client sends it again. Called by a stage."""
        self._release(0)

    def _by_owner(self, start: int) -> Mapping[Producer, Sequence[int]]:
        """Return the indexes of the entries from ``start`` on by producer."""
        if self.owners is None:
            return {self.producer: range(start, self.run.count)}
        indexes: dict[Producer, list[int]] = {}
        for i in range(start, self.run.count):
            indexes.setdefault(self.owners[i], []).append(i)
        return indexes

    def _send_errors(
        self, owner: Producer, indexes: Sequence[int], code: ServerError, text: str
    ) -> None:
        for sequence_id, highest in head_sequences([self.heads[i] for i in indexes]):
            owner.outlet.send(
                commands.send_error(owner.producer_id, max(sequence_id, highest), code, text)
            )

    def _release(self, start: int) -> None:
        """Return the entries from ``start`` on to the budget and count them as no longer pending."""
        run = self.run
        budget = self.producer.outlet.publish_budget
        budget.give(run.size_of(start, run.count), run.count - start)
        for owner, indexes in self._by_owner(start).items():
            owner.ended(len(indexes))
