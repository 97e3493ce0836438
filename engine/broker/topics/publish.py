"""Runs of entries on their way from the socket to the receipt, and the producers that send them.

``Publish`` is the one owner of a run: it is what a topic's stages judge, the sink of the append, and who answers.
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
from engine.broker.outlet import Outlet
from engine.managed.errors import AppendFailedError
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.kernels import SendRun, build_receipts, head_sequences

log = logging.getLogger(__name__)


class StagePlace(IntEnum):
    """The order of a topic's stages (D16). What refuses by the run alone is before the rates, which must not be charged
    for it; deduplication is last, so that what it lets pass is appended in the order in which it was judged."""

    ENCRYPTION = auto()
    SIZE = auto()
    DELAY = auto()
    TOPIC_RATE = auto()
    GROUP_RATE = auto()
    BROKER_RATE = auto()
    DEDUPLICATION = auto()


class Stage(Protocol):
    """What every run published to a topic passes. Called for each run in the order they came; must not raise."""

    @property
    def place(self) -> StagePlace:
        """Where it stands among the stages of a topic, which has one of each place at most."""
        ...

    def admit(self, publish: "Publish") -> bool:
        """Before the append. False: it does not go on now. Then the stage has refused it (``Publish.refuse``) or keeps
        it for ``Topic.admitted``; whoever keeps a run also keeps what its producers send behind it."""
        ...

    def stored(self, publish: "Publish", start: int, stop: int) -> None:
        """Entries ``start`` (inclusive) to ``stop`` of the run are durable; their receipts go out next."""
        ...

    def failed(self, publish: "Publish", start: int) -> None:
        """Entries from ``start`` on are not stored, or nobody knows; their producers are sent away."""
        ...


def in_order(wanted: Iterable[Stage]) -> tuple[Stage, ...]:
    """The stages of a topic, whichever of its parts want them and in whichever order they do."""
    return tuple(sorted(wanted, key=_place))


def _place(stage: Stage) -> StagePlace:
    return stage.place


class PublishHost(Protocol):
    """The topic, as its producers and their runs know it."""

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
    """One attached producer. Receipts go out in send order (D9); after a failed append nothing more of it is stored
    until the client has come anew, so that order holds."""

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
    ) -> None:
        """``topic_epoch``: under which it had the topic to itself when it went; None: it never had.
        ``encrypted``: it says that it encrypts what it sends."""
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
        self.connected_ms = now_ms
        self.published = Traffic()
        self.chunks = Rate()
        self.closed = False
        self.pending = 0
        """Entries under way."""
        self._drained: asyncio.Future[None] | None = None

    @property
    def takes(self) -> bool:
        """False once it is being sent away: what it sends is ignored, the client sends it again."""
        return not self.closed and not self.topic.closing

    def stored(self, entries: int, messages: int, size: int) -> None:
        """Of what was under way, so many entries, messages and bytes are durable."""
        published = self.published
        published.messages.total += messages
        published.bytes.total += size
        self.pending -= entries
        if self._drained is not None:
            self.ended(0)

    def ended(self, entries: int) -> None:
        """So many entries are not under way any more."""
        self.pending -= entries
        if self._drained is not None and not self.pending and not self._drained.done():
            self._drained.set_result(None)

    def tick(self, elapsed_s: float) -> bool:
        """As of a Rate."""
        moves = self.published.tick(elapsed_s)
        return self.chunks.tick(elapsed_s) or moves

    async def drained(self) -> None:
        """Return when nothing it sent is under way any more. Cancel-safe."""
        if self.pending:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def leave(self) -> None:
        """The client closed it, or a newer one replaces it. Safe to call twice."""
        self.closed = True
        self.topic.remove_producer(self)

    def disconnect(self) -> None:
        """Send it away: the client comes back by itself and sends again what has no receipt."""
        if not self.closed:
            self.leave()
            self.outlet.drop_producer(self.producer_id)


class Publish:
    """One run of SENDs from one connection to one topic, from ``start`` to its last receipt. An ``AppendSink``.

    ``owners[i]`` sent entry ``i``; None: all are of ``producer``. ``chunk``: it is part of a chunked message. The heads
    for the receipts are taken out of the run, which stays cached for long: small entries weigh less than they do.
    ``judged``: in which period of deduplication it was found to be new; 0: in none. ``since_s``: when the topic was
    given it, by the monotonic clock.
    """

    __slots__ = ("chunk", "heads", "judged", "owners", "producer", "run", "since_s")

    def __init__(
        self,
        run: SendRun,
        producer: Producer,
        owners: list[Producer] | None = None,
        chunk: bool = False,
    ) -> None:
        self.run = run
        self.heads = run.heads
        self.producer = producer
        self.owners = owners
        self.chunk = chunk
        self.judged = 0
        self.since_s = 0.0
        run.heads = []
        run.owners = None

    def part(self, indexes: Sequence[int]) -> "Publish":
        """The entries at ``indexes`` (rising), which from now on have an outcome of their own."""
        self.run.heads = self.heads
        part = self.run.pick(indexes)
        self.run.heads = []
        if self.owners is None:
            made = Publish(part, self.producer, None, self.chunk)
        else:
            owners = [self.owners[i] for i in indexes]
            alone = owners.count(owners[0]) == len(owners)
            made = Publish(part, owners[0], None if alone else owners, self.chunk)
        made.since_s = self.since_s
        return made

    def parts(self) -> "list[Publish]":
        """What each of ``owners`` sent as a part of its own, in time linear in the entries: clients choose how many
        producers share a run."""
        assert self.owners is not None
        sent: dict[Producer, list[int]] = {}
        for i, owner in enumerate(self.owners):
            sent.setdefault(owner, []).append(i)
        return [self.part(indexes) for indexes in sent.values()]

    def start(self) -> None:
        """Count it as under way and hand it to the topic; its fate may be told within this call."""
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
        """What is sent behind it must not be stored before it, so its producers go and come again with all of it."""
        for owner, indexes in self._by_owner(start).items():
            if not owner.closed:
                if isinstance(error, AppendFailedError):
                    log.debug("append failed topic=%s: %s", owner.topic.name, error)
                    text = f"The message could not be stored: {error}"
                    self._tell(owner, indexes, ServerError.PersistenceError, text)
                owner.disconnect()
        self._end(start)
        self.producer.topic.failed(self, start)

    def refuse(self, error: BrokerError) -> None:
        """From a stage: answer each SEND with ``error``. The producers stay."""
        for owner, indexes in self._by_owner(0).items():
            if not owner.closed:
                self._tell(owner, indexes, error.code, str(error))
        self._end(0)

    def repeated(self) -> None:
        """From a stage: all of it is stored already, which is told with a place that is none."""
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
        self._end(0)

    def drop(self) -> None:
        """From a stage: its producer went meanwhile, and the client sends it again."""
        self._end(0)

    def _by_owner(self, start: int) -> Mapping[Producer, Sequence[int]]:
        """Indexes of the entries from ``start`` on by who sent them."""
        if self.owners is None:
            return {self.producer: range(start, self.run.count)}
        found: dict[Producer, list[int]] = {}
        for i in range(start, self.run.count):
            found.setdefault(self.owners[i], []).append(i)
        return found

    def _tell(self, owner: Producer, indexes: Sequence[int], code: ServerError, text: str) -> None:
        for sequence_id, highest in head_sequences([self.heads[i] for i in indexes]):
            owner.outlet.send(
                commands.send_error(owner.producer_id, max(sequence_id, highest), code, text)
            )

    def _end(self, start: int) -> None:
        """Entries from ``start`` on are not under way any more."""
        run = self.run
        budget = self.producer.outlet.publish_budget
        budget.give(run.size_of(start, run.count), run.count - start)
        for owner, indexes in self._by_owner(start).items():
            owner.ended(len(indexes))
