"""One topic, or partition, of a consumer: attached to the broker that serves it, and again whenever that ends."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from engine.base.errors import MagnetarError, MisuseError
from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.names import TopicName
from engine.client.broker_link import Body
from engine.client.client import PulsarClient
from engine.client.consuming import chunked
from engine.client.consuming.chunked import ChunkBytes, Chunks
from engine.client.consuming.incoming import Incoming, encrypted, messages_due, open_entry, unpack
from engine.client.errors import LostError, UnexpectedError
from engine.client.message_ids import MessageId
from engine.client.raw_consumer import EXCLUSIVE, FROM_LATEST, KEY_SHARED, SHARED, RawConsumer
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import BatchFormatError, split_entry
from engine.wire.events import Delivered
from engine.wire.states import CommandType
from engine.wire.varints import varint

if TYPE_CHECKING:
    from engine.client.sealing import Opener

log = logging.getLogger(__name__)

SHARING = (SHARED, KEY_SHARED)
QUEUED_BYTES_MAX = 4 * 1024 * 1024
"""What a consumer keeps of messages that its user does not take yet: with more no further ones are asked for."""
ENTRY_BYTES_ASSUMED = 64 * 1024
"""Of a message, before some have come: permits are given for what fits into QUEUED_BYTES_MAX."""
ACKS_MAX = 1000
"""Acknowledgements in one command."""
ACKS_KEPT_MAX = 10_000
"""Acknowledgements kept while no broker takes them. Messages of further ones come again, as if the client had been
late."""
_CHECKSUM_MISMATCH = 2


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How to consume. ``name`` empty: one by chance. ``queue_size``: messages that wait for the user, at most, for all
    topics together, though at least one for each.

    ``ack_timeout_s``: what is not acknowledged in that time comes again; 0: never. ``encrypted``: what becomes of
    payloads that nobody here can read: not given and not acknowledged, acknowledged, or given as they are.
    ``start``: of a subscription that is not durable; it begins behind it, or at it when ``inclusive``; None: as
    ``initial``. ``acks_follow``: what was given counts as acknowledged, as it does for readers.
    ``redeliveries_max``: what comes more often than that goes to the topic ``dead_letters`` instead; 0: never.
    """

    subscription: str
    kind: int = EXCLUSIVE
    name: str = ""
    durable: bool = True
    initial: int = FROM_LATEST
    priority: int = 0
    queue_size: int = 1000
    ack_timeout_s: float = 0.0
    nack_delay_s: float = 60.0
    encrypted: Literal["FAIL", "DISCARD", "CONSUME"] = "FAIL"
    start: MessageId | None = None
    inclusive: bool = False
    acks_follow: bool = False
    redeliveries_max: int = 0
    dead_letters: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    opener: "Opener | None" = None
    """Decrypts what it has the keys of; ``encrypted``: what becomes of the rest."""


class Receiver(Protocol):
    """Whose attachment it is."""

    full: bool
    """No room for more messages."""
    chunks_kept: ChunkBytes
    """Counts what all of its attachments keep of messages in chunks."""

    def came(self, attachment: "Attachment", messages: list[Incoming]) -> None:
        """In their order, at least one."""
        ...

    def flush_soon(self) -> None:
        """There are acknowledgements to send."""
        ...

    def detached(self, attachment: "Attachment") -> None:
        """What came and is not acknowledged comes again."""
        ...

    def failed(self, attachment: "Attachment", error: MagnetarError) -> None:
        """It will not be attached again."""
        ...

    def let_go(self, attachment: "Attachment", position: Position) -> None:
        """There is no room for an entry now: it is to be given again later."""
        ...


class Attachment:
    """``attach`` it. It then comes back by itself until ``close``, or until a refusal that stands.

    A position stands for a message: of one that came in chunks the position of the last. Which entries these are is
    known here alone, so that all of them are acknowledged, or given again.
    """

    def __init__(
        self,
        client: PulsarClient,
        receiver: Receiver,
        settings: ConsumerSettings,
        topic: str,
        *,
        initial: int | None = None,
    ) -> None:
        """``initial``: instead of that of the settings."""
        name = TopicName.parse(topic)
        self.topic = topic
        self.partition = name.partition
        self.at_end = False
        """The broker said that all of a sealed topic is acknowledged."""
        self.queued = 0
        """Messages of it that wait for the user."""
        self.queue_size = settings.queue_size
        """Its share."""
        self.given: MessageId | None = None
        """The last message that the user got, of a subscription that is not durable."""
        self._client = client
        self._receiver = receiver
        self._settings = settings
        self._initial = settings.initial if initial is None else initial
        self._persistent = name.persistent
        self._start = settings.start
        if not settings.durable and settings.start is None:
            self._start = MessageId(EARLIEST if self._initial else LATEST)
        self._inclusive = settings.inclusive
        self._behind: MessageId | None = None
        self._raw: RawConsumer | None = None
        self._again: asyncio.Task[None] | None = None
        self._closed = False
        self._permits = 0
        self._average = float(ENTRY_BYTES_ASSUMED)
        self._acks: list[Position] = []
        self._acked_to: Position | None = None
        self._chunks = Chunks(self._useless, self._let_go, receiver.chunks_kept)
        self._entries: dict[Position, Sequence[Position]] = {}
        """All entries of the messages in chunks that were given and are neither acknowledged nor asked for again."""
        self._seen = EARLIEST
        """The furthest entry that came since everything was to come again."""
        self._epoch = 0
        """How often a type with order started over; brokers say it with what they give since."""
        self._end: tuple[Position, float] | None = None
        """Once the topic was seen up to there, messages whose last chunk came before this time never become whole."""
        self._chunk_timer: asyncio.TimerHandle | None = None
        self._complained = False
        self._ledger = -1
        self._id_head = b""
        """Of message ids in ``_ledger``."""
        self._id_tail = (
            b"\x30\x00" if self.partition < 0 else b"\x18" + varint(self.partition) + b"\x30\x00"
        )

    def plain_id(self, position: Position) -> bytes:
        """As ``MessageId.serialized`` of a message that is neither one of a batch nor of several entries."""
        ledger_id, entry_id = position
        if ledger_id != self._ledger:
            self._ledger = ledger_id
            self._id_head = b"\x08" + varint(ledger_id) + b"\x10"
        return self._id_head + varint(entry_id) + self._id_tail

    @property
    def raw(self) -> RawConsumer | None:
        """While attached."""
        return self._raw

    # --- coming and going ------------------------------------------------------------------------

    async def attach(self) -> None:
        """Once, to whoever serves the topic now. Raises MagnetarError; cancel-safe."""
        settings = self._settings
        link = await self._client.owner(self.topic)
        start = None
        if not settings.durable and self._persistent:
            start = (self.given or self._start or MessageId(EARLIEST)).position
        raw = await RawConsumer.open(
            link,
            self.topic,
            settings.subscription,
            settings.kind,
            on_messages=self._delivered,
            on_event=self._heard,
            on_end=self._ended,
            name=settings.name or None,
            durable=settings.durable,
            start=start,
            initial=self._initial,
            priority=settings.priority,
            metadata=settings.metadata,
            epoch=None if settings.kind in SHARING else self._epoch,
        )
        if self._persistent and start == LATEST:
            await self._pin(raw)
        if raw.error is not None:
            raise raw.error
        self._raw, self._permits = raw, 0
        self._behind = self.given or self._start
        self.flush()
        self.refill()

    async def _pin(self, raw: RawConsumer) -> None:
        """From now on begin behind what is last now, so that a lost connection loses nothing. Raises MagnetarError."""
        try:
            last = await raw.last_position()
        except BaseException:
            raw.leave()
            raise
        self._start, self._inclusive = MessageId(last if last.entry_id >= 0 else EARLIEST), False

    def _ended(self, error: MagnetarError) -> None:
        if self._raw is not None:
            self._drop()
            self._come_again()

    def _come_again(self) -> None:
        if self._closed:
            return
        try:
            self._again = self._client.spawn(f"attach {self.topic}", self._attach_again())
        except LostError as error:
            self._receiver.failed(self, error)

    def _drop(self) -> None:
        self._raw = None
        self.at_end = False
        self._start_over()

    def _start_over(self) -> None:
        """Everything that is not acknowledged comes again."""
        self._chunks.clear()
        self._entries.clear()
        self._seen, self._end = EARLIEST, None
        self._receiver.detached(self)

    async def _attach_again(self) -> None:
        try:
            await self._client.patiently(self.attach, timeout_s=None, is_final=_lasts)
        except MagnetarError as error:
            self._receiver.failed(self, error)
        except Exception as error:
            log.exception("consumer of %s cannot come again", self.topic)
            self._receiver.failed(self, UnexpectedError(f"cannot come again: {error!r}"))

    async def close(self) -> None:
        """Leave the subscription; acknowledgements go first. A link that fails takes the consumer along."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
        if self._chunk_timer is not None:
            self._chunk_timer.cancel()
        self._chunks.clear()
        raw = self._raw
        if raw is not None:
            self.flush()
            self._raw = None
            try:
                await raw.close()
            except MagnetarError as error:
                log.debug("consumer of %s left without an answer: %s", self.topic, error)

    async def unsubscribe(self) -> None:
        """End the subscription on this topic. Raises MagnetarError when that is not sure."""
        raw = self._raw
        if raw is None:
            raise LostError(f"not attached to {self.topic}")
        self._closed = True
        try:
            await raw.unsubscribe()
        except BaseException:
            self._closed = False
            if raw.error is not None:
                self._come_again()
            raise
        self._raw = None

    async def seek(
        self, *, position: Position | None = None, publish_ms: int | None = None
    ) -> None:
        """Move the subscription to an entry, or to a time when it is durable; what came before is given no more.

        The broker sends its consumers away, which come again. Raises MagnetarError.
        """
        raw = self._raw
        if raw is None:
            raise LostError(f"not attached to {self.topic}")
        if not self._settings.durable:
            if position is None:
                raise MisuseError("publish_ms: only a durable subscription moves to a time")
            self._start, self._inclusive, self.given = MessageId(position), True, None
        await raw.seek(position=position, publish_ms=publish_ms)

    # --- permits ---------------------------------------------------------------------------------

    def refill(self) -> None:
        """Ask for more, once half of what may wait is neither here nor asked for."""
        raw = self._raw
        if raw is None or self._receiver.full:
            return
        most = min(self.queue_size, int(QUEUED_BYTES_MAX / self._average) or 1)
        room = most - self._permits - self.queued
        if room * 2 >= most:
            raw.flow(room)
            self._permits += room

    def _delivered(self, run: Sequence[Delivered]) -> None:
        permits, size = self._permits, 0
        messages: list[Incoming] = []
        if self._epoch:
            run = self._of_this_epoch(run)
        for one in run:
            size += len(one.entry)
            try:
                messages += self._open(one)
            except BatchFormatError as error:
                self._discard(one, error)
        mean = size / max(1, permits - self._permits)
        # large messages are believed at once, small ones by and by
        self._average = max(mean, self._average + (mean - self._average) / 8)
        if run and run[-1].position > self._seen:
            self._seen = run[-1].position
        if len(self._chunks):
            self._look_at_chunks()
        if messages:
            self._receiver.came(self, messages)
        if self._acks:
            self._receiver.flush_soon()
        self.refill()

    def _of_this_epoch(self, run: Sequence[Delivered]) -> Sequence[Delivered]:
        """Without what was under way when everything was asked for again: that comes again behind it."""
        kept: list[Delivered] = []
        for one in run:
            if one.epoch is None or one.epoch >= self._epoch:
                kept.append(one)
                continue
            try:
                self._permits -= messages_due(split_entry(one.entry)[1], one.ack_set)
            except BatchFormatError:
                self._permits -= 1
        return kept

    def _open(self, one: Delivered) -> Sequence[Incoming]:
        _, position, redelivery_count, due, entry, _ = one
        try:
            _, metadata, payload = split_entry(entry)
        except BatchFormatError:
            self._permits -= 1
            raise
        self._permits -= messages_due(metadata, due)
        messages: Sequence[Incoming]
        opened: bytes | None = payload
        if metadata.encryption_keys:
            opener = self._settings.opener
            opened = None if opener is None else opener.opened(metadata, payload)
        if opened is None:
            messages = self._encrypted(position, redelivery_count, metadata, payload)
        elif metadata.num_chunks_from_msg > 1:
            messages = self._chunk(position, redelivery_count, metadata, opened)
        elif metadata.marker_type:
            self._acks.append(position)
            messages = ()
        else:
            messages = open_entry(self, position, redelivery_count, metadata, opened, due)
            if not messages:
                self._acks.append(position)  # nothing of it is left
        return self._from_start(messages) if self._behind is not None else messages

    def _discard(self, one: Delivered, error: BatchFormatError) -> None:
        """As the clients do: a broken entry would come for ever."""
        log.warning("entry %s of %s is given up: %s", one.position, self.topic, error)
        if self._raw is not None:
            self._raw.acknowledge([one.position], validation_error=_CHECKSUM_MISMATCH)

    def _encrypted(
        self, position: Position, count: int, metadata: pb.MessageMetadata, payload: bytes
    ) -> Sequence[Incoming]:
        match self._settings.encrypted:
            case "CONSUME":
                return (encrypted(self, position, count, metadata, payload),)
            case "DISCARD":
                self._acks.append(position)
            case "FAIL":
                if not self._complained:
                    self._complained = True
                    log.warning("messages of %s are encrypted and stay there", self.topic)
        return ()

    def _chunk(
        self, position: Position, count: int, metadata: pb.MessageMetadata, payload: bytes
    ) -> Sequence[Incoming]:
        now_s = self._client.clock.monotonic_s()
        joined = self._chunks.add(metadata, position, payload, now_s)
        if joined is None:
            return ()
        whole = joined.payload
        if metadata.compression:
            whole = unpack(metadata, whole)
        made = Incoming(self, joined.positions[-1], count, metadata, metadata, whole)
        made.chunks = joined.positions
        self.note_entries(made.position, made.chunks)
        return (made,)

    def _useless(self, position: Position) -> None:
        self._acks.append(position)

    def _let_go(self, position: Position) -> None:
        self._receiver.let_go(self, position)

    def _look_at_chunks(self) -> None:
        """W2. Acknowledge chunks whose message never becomes whole: AGE_MAX_S passed since the last one, and all that
        the topic held then has come."""
        if self._end is not None and self._seen >= self._end[0]:
            _, before_s = self._end
            self._end = None
            for positions in self._chunks.give_up(before_s):
                self._acks += positions
                many = len(positions)
                log.warning("%s: %d chunks at %s are given up", self.topic, many, positions[0])
            if self._acks:
                self._receiver.flush_soon()
        if self._chunk_timer is None and len(self._chunks) and not self._closed:
            loop = asyncio.get_running_loop()
            self._chunk_timer = loop.call_later(chunked.AGE_MAX_S, self._chunks_are_old)

    def _chunks_are_old(self) -> None:
        self._chunk_timer = None
        if len(self._chunks) and self._raw is not None and self._end is None:
            with suppress(LostError):  # the client is closed
                self._client.spawn(f"end of {self.topic}", self._ask_end(self._raw))
        self._look_at_chunks()

    async def _ask_end(self, raw: RawConsumer) -> None:
        before_s = self._client.clock.monotonic_s() - chunked.AGE_MAX_S
        try:
            end = await raw.last_position()
        except MagnetarError:
            return  # asked again in a while, or all comes again
        if raw is not self._raw or self._end is not None:
            return
        if self._settings.kind in SHARING:
            self._seen = (
                EARLIEST  # what is given again comes before what is new, and only that tells
            )
        self._end = (end, before_s)
        self._look_at_chunks()

    def _from_start(self, messages: Sequence[Incoming]) -> Sequence[Incoming]:
        """Without those before the position where a subscription that is not durable begins: brokers give whole
        entries, and the one at the start, too."""
        behind = self._behind
        assert behind is not None
        first = (behind.position, behind.batch_index)
        inclusive = self._inclusive and self.given is None
        kept = [one for one in messages if (one.position, one.batch_index) > first]
        if inclusive:
            kept = [one for one in messages if (one.position, one.batch_index) >= first]
        if kept:
            self._behind = None
        return kept

    async def has_more(self) -> bool:
        """Whether the topic has an entry behind the last message given, or the start. Raises MagnetarError."""
        raw = self._raw
        if raw is None:
            raise LostError(f"not attached to {self.topic}")
        last = await raw.last_position()
        behind = self.given or self._start
        if behind is None or last.entry_id < 0:
            return last.entry_id >= 0
        at_start = self._inclusive and self.given is None
        return last >= behind.position if at_start else last > behind.position

    # --- acknowledgements ------------------------------------------------------------------------

    @property
    def acks(self) -> int:
        """Acknowledgements that are not sent."""
        return len(self._acks) + (self._acked_to is not None)

    def note_entries(self, position: Position, entries: Sequence[Position]) -> None:
        """All entries of the message at ``position``, which came in chunks."""
        if not self._settings.acks_follow:
            self._entries.setdefault(position, entries)

    def acknowledge(self, position: Position) -> None:
        """A message, with the next ``flush``. Sent also on a later attachment, before that asks for messages."""
        if self._raw is None and len(self._acks) >= ACKS_KEPT_MAX:
            return
        self._acks += self._entries.pop(position, (position,))

    def follow(self, message: Incoming) -> None:
        """The user got a message of a subscription that is not durable."""
        self.given = message.message_id
        batch = message.batch
        if self._settings.acks_follow and (batch is None or message.batch_index == batch.size - 1):
            self._acked_to = message.position

    def flush(self) -> None:
        """Send the acknowledgements."""
        raw = self._raw
        if raw is None:
            return
        if self._acked_to is not None:
            raw.acknowledge([self._acked_to], cumulative=True)
            self._acked_to = None
        acks = self._acks
        if acks:
            self._acks = []
            for at in range(0, len(acks), ACKS_MAX):
                raw.acknowledge(acks[at : at + ACKS_MAX])

    def redeliver(self, positions: Sequence[Position]) -> None:
        """Ask for messages again. Types with order start over: everything that is not acknowledged comes again."""
        raw = self._raw
        if raw is None:
            return  # all comes again, anyway
        self.flush()
        if self._settings.kind in SHARING:
            self._end = None
            pop = self._entries.pop
            raw.redeliver([entry for one in positions for entry in pop(one, (one,))])
            return
        self._start_over()
        self._epoch += 1
        raw.redeliver(epoch=self._epoch)
        self.refill()

    def _heard(self, kind: int, body: Body) -> None:
        if kind == CommandType.REACHED_END_OF_TOPIC:
            self.at_end = True


def _lasts(error: MagnetarError) -> bool:
    return not error.retriable
