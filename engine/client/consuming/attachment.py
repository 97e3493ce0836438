"""One topic, or partition, of a consumer: attached to the broker that serves it, and reattached whenever that ends."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

from engine.base.errors import MagnetarError, MisuseError
from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.names import TopicName
from engine.client.broker_link import Body
from engine.client.client import PulsarClient, Reassigned, reassigned_by
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

log = logging.getLogger(__name__)

SHARING = (SHARED, KEY_SHARED)
QUEUED_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of messages queued for the user above which a consumer requests no further messages."""
ENTRY_BYTES_ASSUMED = 64 * 1024
"""Assumed size of a message before the first arrives: permits are given for what fits into QUEUED_BYTES_MAX."""
ACKS_MAX = 1000
"""Acknowledgements in one command."""
ACKS_KEPT_MAX = 10_000
"""Acknowledgements queued while no broker is attached. Messages of further ones are redelivered."""
_CHECKSUM_MISMATCH = 2


class PayloadOpener(Protocol):
    """Decryption of one consumer's payloads, as ``engine.client.sealing`` does it.

    ``opened`` returns the payload as it was before encryption; None when it has no key.
    """

    def opened(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Settings of a consumer. ``name`` empty: a random one.

    ``queue_size``: most messages queued for the user, of all topics together, though at least one for each.
    ``ack_timeout_s``: time after which an unacknowledged message is redelivered; 0: never. ``encrypted``: handling of
    payloads that cannot be decrypted here: neither delivered nor acknowledged, acknowledged, or delivered encrypted.
    ``start``: of a subscription that is not durable, which begins behind it, or at it when ``inclusive``; None: as
    ``initial``. ``acks_follow``: delivered messages count as acknowledged, as for readers. ``redeliveries_max``:
    messages redelivered more often are published to the topic ``dead_letters``; 0: never.
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
    opener: PayloadOpener | None = None
    """Decrypts payloads whose keys it has; ``encrypted`` applies to all others."""


class Receiver(Protocol):
    """The owner of attachments."""

    full: bool
    """True while there is no room for more messages."""
    chunks_kept: ChunkBytes
    """Bytes of chunks held by all of its attachments."""

    def receive(self, attachment: "Attachment", messages: list[Incoming]) -> None:
        """Handle messages in their order, at least one."""
        ...

    def flush_soon(self) -> None:
        """Note that there are acknowledgements to send."""
        ...

    def detached(self, attachment: "Attachment") -> None:
        """Note that unacknowledged messages of the attachment will be redelivered."""
        ...

    def failed(self, attachment: "Attachment", error: MagnetarError) -> None:
        """Note that the attachment will not be attached again."""
        ...

    def activity_changed(self, attachment: "Attachment", is_active: bool) -> None:
        """Note whether this consumer of a failover subscription is the one that receives messages."""
        ...

    def postpone(self, attachment: "Attachment", position: Position) -> None:
        """Have an entry redelivered later, because there is no room for it now."""
        ...


class Attachment:
    """A consumer of one topic; call ``attach`` first. It reattaches until ``close``, or until a permanent refusal.

    A position stands for a message; for a message in chunks it is that of the last chunk. The entries of such a message
    are known here alone, so that all of them are acknowledged or redelivered together.
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
        """Create unattached. ``initial`` overrides that of the settings."""
        name = TopicName.parse(topic)
        self.topic = topic
        self.partition = name.partition
        self.at_end = False
        """True after the broker reported that all of a terminated topic is acknowledged."""
        self.queued = 0
        """Number of its messages queued for the user."""
        self.queue_size = settings.queue_size
        """The share of the queue for this topic."""
        self.given: MessageId | None = None
        """The last message delivered to the user, of a subscription that is not durable."""
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
        self._moved: Reassigned | None = None
        """Address to which the broker sent this consumer, until that was tried."""
        self._reattaching: asyncio.Task[None] | None = None
        self._closed = False
        self._permits = 0
        self._average = float(ENTRY_BYTES_ASSUMED)
        self._acks: list[Position] = []
        self._acked_to: Position | None = None
        self._chunks = Chunks(self._acknowledge_useless, self._postpone, receiver.chunks_kept)
        self._entries: dict[Position, Sequence[Position]] = {}
        """All entries of the delivered messages in chunks that are neither acknowledged nor requested again."""
        self._seen = EARLIEST
        """The furthest entry received since the last redelivery of everything."""
        self._epoch = 0
        """Number of redeliveries of everything to an ordered type; brokers send it with messages."""
        self._end: tuple[Position, float] | None = None
        """A position and a time. Once the topic was received up to the position, messages whose last chunk arrived
        before the time can never be whole."""
        self._chunk_timer: asyncio.TimerHandle | None = None
        self._encryption_logged = False
        self._ledger = -1
        self._id_head = b""
        """Head of message ids in ``_ledger``."""
        self._id_tail = (
            b"\x30\x00" if self.partition < 0 else b"\x18" + varint(self.partition) + b"\x30\x00"
        )

    def plain_id(self, position: Position) -> bytes:
        """Return what ``MessageId.serialized`` returns for a message that is neither of a batch nor of several
        entries."""
        ledger_id, entry_id = position
        if ledger_id != self._ledger:
            self._ledger = ledger_id
            self._id_head = b"\x08" + varint(ledger_id) + b"\x10"
        return self._id_head + varint(entry_id) + self._id_tail

    @property
    def raw(self) -> RawConsumer | None:
        """The consumer on the link; None while it is not attached."""
        return self._raw

    # --- attaching -------------------------------------------------------------------------------

    async def attach(self) -> None:
        """Attach once, to the broker that serves the topic now. Raises MagnetarError; cancel-safe."""
        settings = self._settings
        moved, self._moved = self._moved, None  # a refusal there is followed by a lookup
        link = await self._client.owner(self.topic, moved)
        start = None
        if not settings.durable and self._persistent:
            start = (self.given or self._start or MessageId(EARLIEST)).position
        raw = await RawConsumer.open(
            link,
            self.topic,
            settings.subscription,
            settings.kind,
            on_messages=self._delivered,
            on_event=self._on_event,
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
        # Acknowledgements before permits: the broker does not send again what they cover.
        self.flush()
        self.refill()

    async def _pin(self, raw: RawConsumer) -> None:
        """Begin behind the present last entry from now on, so that a lost connection loses no message. Raises
        MagnetarError."""
        try:
            last = await raw.last_position()
        except BaseException:
            raw.leave()
            raise
        self._start, self._inclusive = MessageId(last if last.entry_id >= 0 else EARLIEST), False

    def _ended(self, error: MagnetarError) -> None:
        if self._raw is not None:
            self._moved = reassigned_by(error, self._raw.link)
            self._detach()
            self._start_reattaching()

    def _start_reattaching(self) -> None:
        if self._closed:
            return
        try:
            self._reattaching = self._client.spawn(f"attach {self.topic}", self._reattach())
        except LostError as error:
            self._receiver.failed(self, error)

    def _detach(self) -> None:
        self._raw = None
        self.at_end = False
        self._start_over()

    def _start_over(self) -> None:
        """Drop all state of received messages, because everything unacknowledged is redelivered."""
        self._chunks.clear()
        self._entries.clear()
        self._seen, self._end = EARLIEST, None
        self._receiver.detached(self)

    async def _reattach(self) -> None:
        try:
            await self._client.patiently(self.attach, timeout_s=None, is_final=_is_permanent)
        except MagnetarError as error:
            self._receiver.failed(self, error)
        except Exception as error:
            log.exception("consumer of %s cannot reattach", self.topic)
            self._receiver.failed(self, UnexpectedError(f"cannot reattach: {error!r}"))

    async def close(self) -> None:
        """Detach from the subscription after sending acknowledgements. Errors of the link are ignored: its end detaches
        the consumer as well."""
        self._closed = True
        if self._reattaching is not None:
            self._reattaching.cancel()
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
                log.debug("consumer of %s closed without an answer: %s", self.topic, error)

    async def unsubscribe(self) -> None:
        """Delete the subscription on this topic. Raises MagnetarError when that is uncertain."""
        raw = self._raw
        if raw is None:
            raise LostError(f"not attached to {self.topic}")
        self._closed = True
        try:
            await raw.unsubscribe()
        except BaseException:
            self._closed = False
            if raw.error is not None:
                self._start_reattaching()
            raise
        self._raw = None

    async def seek(
        self, *, position: Position | None = None, publish_ms: int | None = None
    ) -> None:
        """Move the subscription to an entry, or to a time when it is durable; earlier messages are not delivered any
        more.

        The broker closes the consumers, which reattach. Raises MagnetarError.
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
        """Request more messages when half of the queue is neither filled nor requested."""
        raw = self._raw
        if raw is None or self._receiver.full:
            return
        capacity = min(self.queue_size, int(QUEUED_BYTES_MAX / self._average) or 1)
        room = capacity - self._permits - self.queued
        if room * 2 >= capacity:
            raw.flow(room)
            self._permits += room

    def _delivered(self, run: Sequence[Delivered]) -> None:
        permits, size = self._permits, 0
        messages: list[Incoming] = []
        if self._epoch:
            run = self._of_present_epoch(run)
        for delivered in run:
            size += len(delivered.entry)
            try:
                messages += self._open(delivered)
            except BatchFormatError as error:
                self._discard(delivered, error)
        mean_size = size / max(1, permits - self._permits)
        # Large messages raise the estimate at once, small ones lower it gradually: memory is bounded by it.
        self._average = max(mean_size, self._average + (mean_size - self._average) / 8)
        if run and run[-1].position > self._seen:
            self._seen = run[-1].position
        if len(self._chunks):
            self._check_chunks()
        if messages:
            self._receiver.receive(self, messages)
        if self._acks:
            self._receiver.flush_soon()
        self.refill()

    def _of_present_epoch(self, run: Sequence[Delivered]) -> Sequence[Delivered]:
        """Return the run without messages sent before everything was requested again: they are redelivered."""
        current: list[Delivered] = []
        for delivered in run:
            if delivered.epoch is None or delivered.epoch >= self._epoch:
                current.append(delivered)
                continue
            try:
                self._permits -= messages_due(split_entry(delivered.entry)[1], delivered.ack_set)
            except BatchFormatError:
                self._permits -= 1
        return current

    def _open(self, delivered: Delivered) -> Sequence[Incoming]:
        _, position, redelivery_count, due, entry, _ = delivered
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
                self._acks.append(position)  # no message of it is unacknowledged
        return self._from_start(messages) if self._behind is not None else messages

    def _discard(self, delivered: Delivered, error: BatchFormatError) -> None:
        """Acknowledge a damaged entry as Apache's clients do: it would be redelivered for ever."""
        log.warning("entry %s of %s is discarded: %s", delivered.position, self.topic, error)
        if self._raw is not None:
            self._raw.acknowledge([delivered.position], validation_error=_CHECKSUM_MISMATCH)

    def _encrypted(
        self, position: Position, count: int, metadata: pb.MessageMetadata, payload: bytes
    ) -> Sequence[Incoming]:
        match self._settings.encrypted:
            case "CONSUME":
                return (encrypted(self, position, count, metadata, payload),)
            case "DISCARD":
                self._acks.append(position)
            case "FAIL":
                if not self._encryption_logged:
                    self._encryption_logged = True
                    log.warning(
                        "messages of %s cannot be decrypted and stay unacknowledged", self.topic
                    )
        return ()

    def _chunk(
        self, position: Position, count: int, metadata: pb.MessageMetadata, payload: bytes
    ) -> Sequence[Incoming]:
        now_s = self._client.clock.monotonic_s()
        joined = self._chunks.add(metadata, position, payload, now_s)
        if joined is None:
            return ()
        content = joined.payload
        if metadata.compression:
            content = unpack(metadata, content)
        message = Incoming(self, joined.positions[-1], count, metadata, metadata, content)
        message.chunks = joined.positions
        self.note_entries(message.position, message.chunks)
        return (message,)

    def _acknowledge_useless(self, position: Position) -> None:
        self._acks.append(position)

    def _postpone(self, position: Position) -> None:
        self._receiver.postpone(self, position)

    def _check_chunks(self) -> None:
        """Acknowledge chunks of messages that can never be whole (W2).

        AGE_MAX_S have passed since the last chunk, and everything that the topic held then was received.
        """
        if self._end is not None and self._seen >= self._end[0]:
            _, before_s = self._end
            self._end = None
            for positions in self._chunks.give_up(before_s):
                self._acks += positions
                count = len(positions)
                log.warning("%s: %d chunks at %s are discarded", self.topic, count, positions[0])
            if self._acks:
                self._receiver.flush_soon()
        if self._chunk_timer is None and len(self._chunks) and not self._closed:
            loop = asyncio.get_running_loop()
            self._chunk_timer = loop.call_later(chunked.AGE_MAX_S, self._chunks_aged)

    def _chunks_aged(self) -> None:
        self._chunk_timer = None
        if len(self._chunks) and self._raw is not None and self._end is None:
            with suppress(LostError):  # the client is closed
                self._client.spawn(f"end of {self.topic}", self._find_end(self._raw))
        self._check_chunks()

    async def _find_end(self, raw: RawConsumer) -> None:
        before_s = self._client.clock.monotonic_s() - chunked.AGE_MAX_S
        try:
            end = await raw.last_position()
        except MagnetarError:
            return  # requested again later, or everything is redelivered
        if raw is not self._raw or self._end is not None:
            return
        if self._settings.kind in SHARING:
            # Redelivered entries precede new ones, which alone prove that the end was reached.
            self._seen = EARLIEST
        self._end = (end, before_s)
        self._check_chunks()

    def _from_start(self, messages: Sequence[Incoming]) -> Sequence[Incoming]:
        """Return the messages from the start of a subscription that is not durable. Brokers send whole entries,
        including the one at the start."""
        behind = self._behind
        assert behind is not None
        first = (behind.position, behind.batch_index)
        inclusive = self._inclusive and self.given is None
        remaining = [
            message for message in messages if (message.position, message.batch_index) > first
        ]
        if inclusive:
            remaining = [
                message for message in messages if (message.position, message.batch_index) >= first
            ]
        if remaining:
            self._behind = None
        return remaining

    async def has_more(self) -> bool:
        """Return whether the topic has an entry behind the last message delivered, or the start. Raises
        MagnetarError."""
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
        """The number of acknowledgements not sent yet."""
        return len(self._acks) + (self._acked_to is not None)

    def note_entries(self, position: Position, entries: Sequence[Position]) -> None:
        """Record all entries of the message at ``position``, which was received in chunks."""
        if not self._settings.acks_follow:
            self._entries.setdefault(position, entries)

    def acknowledge(self, position: Position) -> None:
        """Acknowledge a message with the next ``flush``; after a loss, on the next attachment before it requests
        messages."""
        if self._raw is None and len(self._acks) >= ACKS_KEPT_MAX:
            return
        self._acks += self._entries.pop(position, (position,))

    def follow(self, message: Incoming) -> None:
        """Record that the user received a message of a subscription that is not durable."""
        self.given = message.message_id
        batch = message.batch
        if self._settings.acks_follow and (batch is None or message.batch_index == batch.size - 1):
            self._acked_to = message.position

    def flush(self) -> None:
        """Send the queued acknowledgements."""
        raw = self._raw
        if raw is None:
            return
        if self._acked_to is not None:
            raw.acknowledge([self._acked_to], cumulative=True)
            self._acked_to = None
        acks = self._acks
        if acks:
            self._acks = []
            for start in range(0, len(acks), ACKS_MAX):
                raw.acknowledge(acks[start : start + ACKS_MAX])

    def redeliver(self, positions: Sequence[Position]) -> None:
        """Request messages again. Ordered types start over: everything unacknowledged is redelivered."""
        raw = self._raw
        if raw is None:
            return  # everything is redelivered after reattaching
        self.flush()
        if self._settings.kind in SHARING:
            self._end = None
            pop = self._entries.pop
            raw.redeliver([entry for position in positions for entry in pop(position, (position,))])
            return
        self._start_over()
        self._epoch += 1
        raw.redeliver(epoch=self._epoch)
        self.refill()

    def _on_event(self, kind: int, body: Body) -> None:
        if kind == CommandType.REACHED_END_OF_TOPIC:
            self.at_end = True
        elif kind == CommandType.ACTIVE_CONSUMER_CHANGE:
            self._receiver.activity_changed(self, bool(body.is_active))


def _is_permanent(error: MagnetarError) -> bool:
    return not error.retriable
