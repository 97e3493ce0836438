"""A producer of one topic without partitions that comes again by itself, and sends again what has no receipt.

Entries keep their order and sequence ids over any loss, and each message is told once: stored, or why not. Nothing is
paid per message but its record and its bytes: no task, timer or future.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.base.budget import Budget
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.client import PulsarClient
from engine.client.errors import (
    ClientError,
    LostError,
    MessageTooLargeError,
    RefusedError,
    ServerError,
    UnexpectedError,
)
from engine.client.message_ids import MessageId
from engine.client.producing.outgoing import EntryBuilder, OutgoingMessage
from engine.client.producing.partition_choice import Hashing, Routing
from engine.client.raw_producer import RawProducer, too_large
from engine.wire import pulsar_pb2 as pb
from engine.wire.events import Receipt

if TYPE_CHECKING:
    from engine.client.sealing import Sealer

log = logging.getLogger(__name__)

MESSAGE_OVERHEAD_BYTES = 512
"""What any message costs in memory besides what it holds, as the budget counts it."""
_LASTING = (ServerError.TopicTerminatedError, ServerError.ProducerFenced)
_OF_ONE_ENTRY = (ServerError.ChecksumError, ServerError.NotAllowedError)
"""Refusals of an entry that say nothing of the others."""


class SendTimeoutError(ClientError):
    """No receipt came in time; the message may be stored, or yet come to be."""


class ClosedError(MagnetarError):
    """The producer was closed before the message was stored."""


class SendResult(NamedTuple):
    """``message_id`` None: not stored, as far as is known, for ``error``. ``token``: the message's."""

    token: Any
    message_id: MessageId | None
    error: MagnetarError | None = None


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """A batch is sent when it is full by either measure, or its first message has waited ``delay_s``."""

    messages_max: int = 1000
    bytes_max: int = 128 * 1024
    delay_s: float = 0.01


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """``name`` None: the broker gives one. ``initial_sequence_id``: of the message before the first; None: what the
    broker knows. ``send_timeout_s`` 0: none. ``compression``: codec number of ``wire.compression``."""

    name: str | None = None
    initial_sequence_id: int | None = None
    send_timeout_s: float = 30.0
    routing: Routing = Routing.SINGLE
    hashing: Hashing = Hashing.JAVA_STRING
    batching: BatchSettings | None = None
    compression: int = 0
    chunking: bool = False
    sealer: "Sealer | None" = None
    """Encrypts the entries of all partitions."""
    schema: pb.Schema | None = None
    """What the topic takes it for: registered, compared or refused when the producer attaches."""
    reattach_when_idle: bool = True
    """False: one that is sent away, or loses its link, while no message waits is over: it makes no topic anew that was
    deleted."""


class _Entry:
    """An entry that has no receipt. ``messages`` None: they were told already, and it is not sent again."""

    __slots__ = ("chunk", "data", "messages", "sequence_id", "until")

    def __init__(
        self,
        sequence_id: int,
        data: bytes,
        messages: Sequence[OutgoingMessage] | None,
        until: float,
        chunk: tuple[int, int] | None = None,
    ) -> None:
        self.sequence_id = sequence_id
        self.data = data
        self.messages = messages
        self.until = until
        self.chunk = chunk
        """Which one of how many."""


class PartitionProducer:
    """``open`` it. Once ``error`` is set nothing is taken any more: every message is answered with it.

    ``on_results`` is called with the results of a run, in the order of sending but for what was refused; it must not
    raise, and may be called from within ``send``. What is held counts in ``budget``, whose owner stops sending in time.
    """

    def __init__(
        self,
        client: PulsarClient,
        topic: str,
        settings: ProducerSettings,
        budget: Budget,
        on_results: Callable[[Sequence[SendResult]], None],
        partition: int = -1,
    ) -> None:
        self.topic = topic
        self.name = settings.name or ""
        self.schema_version = b""
        """Which version the settings' schema is, as of the last attachment; empty without one."""
        self.error: MagnetarError | None = None
        self._client = client
        self._settings = settings
        self._budget = budget
        self._on_results = on_results
        self._partition = partition
        self._loop = asyncio.get_running_loop()
        self._builder = EntryBuilder(self.name, settings.compression, settings.sealer)
        self._next_sequence = -1
        self._epoch = -1
        self._raw: RawProducer | None = None
        self._bytes_max: int | None = None
        """Of an entry, as the broker said that it was attached to last."""
        self._attaching: asyncio.Task[None] | None = None
        self._waiting: deque[_Entry] = deque()
        self._sent = 0
        """So many of the waiting entries, from the first, were sent over this link."""
        self._resuming = False
        self._batch: list[OutgoingMessage] = []
        self._batch_bytes = 0
        self._batch_timer: asyncio.TimerHandle | None = None
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._first_chunk = Position(-1, -1)

    async def open(self) -> None:
        """Attached to the topic. Raises RefusedError, ClientError. Cancel-safe."""
        await self._client.patiently(self._attach, timeout_s=self._client.operation_timeout_s)

    @property
    def connected(self) -> bool:
        return self._raw is not None

    # --- attaching --------------------------------------------------------------------------------

    async def _attach(self) -> None:
        link = await self._client.owner(self.topic)
        self._epoch += 1
        raw = await RawProducer.open(
            link,
            self.topic,
            name=self.name or None,
            named_by_user=self._settings.name is not None,
            epoch=self._epoch,
            on_receipts=self._answered,
            on_end=self._ended,
            on_refused=self._refused,
            schema=self._settings.schema,
        )
        if raw.error is not None:
            raise raw.error
        if self._next_sequence < 0:
            first = self._settings.initial_sequence_id
            self._next_sequence = 1 + (raw.last_sequence_id if first is None else first)
        if raw.name != self.name or not self._epoch:
            self.name, settings = raw.name, self._settings
            self._builder = EntryBuilder(self.name, settings.compression, settings.sealer)
        self.schema_version = raw.schema_version
        self._raw, self._sent = raw, 0
        self._waiting = deque(entry for entry in self._waiting if entry.messages is not None)
        self._heed_size(raw.link.max_message_size)
        self._pump()

    def _heed_size(self, bytes_max: int) -> None:
        """Answer the messages that waited and are above the limit of the broker attached to now; sent, they would end
        the connection of all who are on it, each time."""
        before, self._bytes_max = self._bytes_max, bytes_max
        if before is not None and bytes_max >= before:
            return
        large = [entry for entry in self._waiting if len(entry.data) > bytes_max]
        for entry in large:
            messages = entry.messages
            if messages is None:
                continue  # another chunk of it was told
            for other in self._waiting if entry.chunk is not None else (entry,):
                if other.messages is messages:
                    other.messages = None
            error = MessageTooLargeError(too_large(len(entry.data), bytes_max))
            self._tell_failed(messages, error)
        if large:
            self._waiting = deque(entry for entry in self._waiting if entry.messages is not None)

    def _ended(self, error: MagnetarError) -> None:
        """The raw producer is over by itself."""
        ended, self._raw = self._raw, None
        if ended is None or self.error is not None:
            return  # it ended while it was opened, which ``_attach`` sees
        idle = not self._waiting and not self._batch
        if self._lasts(error) or (idle and not self._settings.reattach_when_idle):
            self._fail(error)
            return
        leaving = ended if isinstance(error, RefusedError) else None
        self._attaching = self._spawn("attach", self._come_again(leaving))

    def _spawn(self, what: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
        try:
            return self._client.spawn(f"{what} {self.topic}", work)
        except LostError as error:
            self._fail(error)
            return None

    async def _come_again(self, leaving: RawProducer | None) -> None:
        """``leaving``: what the broker still knows, since a refusal ended it."""
        try:
            if leaving is not None:
                with suppress(ClientError, RefusedError):  # its link is gone, or soon will be
                    await leaving.close()
            await self._client.patiently(self._attach, timeout_s=None, is_final=self._gives_up)
        except MagnetarError as error:
            self._fail(error)
        except Exception as error:
            log.exception("producer of %s cannot come again", self.topic)
            self._fail(UnexpectedError(f"cannot come again: {error!r}"))

    def _gives_up(self, error: MagnetarError) -> bool:
        code = error.code if isinstance(error, RefusedError) else None
        if code is ServerError.ProducerBlockedQuotaExceededException:
            self._fail_waiting(error)
        return self._lasts(error)

    def _lasts(self, error: MagnetarError) -> bool:
        return isinstance(error, RefusedError) and error.code in _LASTING

    async def close(self) -> None:
        """Send the batch and leave the topic; what is stored until then is answered, the rest is not."""
        self._flush()
        self._stop_timers()
        raw, self._raw = self._raw, None
        self.error = self.error or ClosedError("the producer is closed")
        if self._attaching is not None:
            self._attaching.cancel()
        if raw is not None and raw.error is None:
            with suppress(ClientError, RefusedError):  # the link is gone, and the producer with it
                await raw.close()
        self._give_back(list(self._take_untold()))

    # --- sending ----------------------------------------------------------------------------------

    def send(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send in order, without waiting. Each is answered once by ``on_results``, unless it is closed before."""
        size = sum([len(message.payload) + message.beside_bytes for message in messages])
        self._budget.take(size + MESSAGE_OVERHEAD_BYTES * len(messages), len(messages))
        if self.error is not None:
            self._tell_failed(messages, self.error)
            return
        batching = self._settings.batching
        if batching is None:
            self._add(map(_alone, messages))
            return
        for message in messages:
            if message.is_alone:
                self._flush()
                self._add([(message,)])
                continue
            self._batch.append(message)
            self._batch_bytes += len(message.payload)
            full = len(self._batch) >= batching.messages_max
            if full or self._batch_bytes >= batching.bytes_max:
                self._flush()
        if self._batch and self._batch_timer is None:
            self._batch_timer = self._loop.call_later(batching.delay_s, self._flush)

    def send_as(self, message: OutgoingMessage, sequence_id: int) -> None:
        """``send`` one message under a sequence id of the caller's, above those before it; those after it follow."""
        self._flush()
        self._next_sequence = sequence_id
        self.send((message,))

    def _flush(self) -> None:
        """The batch becomes an entry."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if self._batch:
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            self._add([batch])

    def _add(self, groups: Iterable[Sequence[OutgoingMessage]]) -> None:
        """Make an entry of each group, and send them."""
        now_ms = self._client.clock.wall_ms()
        timeout_s = self._settings.send_timeout_s
        until = self._loop.time() + timeout_s if timeout_s else float("inf")
        builder, sequence, waiting = self._builder, self._next_sequence, self._waiting
        raw = self._raw
        bytes_max = raw.link.max_message_size if raw is not None else self._bytes_max
        for messages in groups:
            if len(messages) == 1:
                data = builder.single(messages[0], sequence, now_ms)
            else:
                data = builder.batch(messages, sequence, now_ms)
            if bytes_max is not None and len(data) > bytes_max:
                self._add_large(messages, len(data), bytes_max, now_ms, until)
                sequence = self._next_sequence
                continue
            waiting.append(_Entry(sequence, data, messages, until))
            sequence += len(messages)
            self._next_sequence = sequence
        if waiting and timeout_s and self._timeout_timer is None:
            self._timeout_timer = self._loop.call_at(waiting[0].until, self._time_out)
        self._pump()

    def _add_large(
        self,
        messages: Sequence[OutgoingMessage],
        size: int,
        bytes_max: int,
        now_ms: int,
        until: float,
    ) -> None:
        """What is above the broker's limit: in chunks, messages of a batch one by one, or not at all."""
        if len(messages) > 1:
            for message in messages:
                self._add([(message,)])
            return
        if not self._settings.chunking:
            self._tell_failed(messages, MessageTooLargeError(too_large(size, bytes_max)))
            return
        sequence = self._next_sequence
        self._next_sequence += 1
        chunks = self._builder.chunks(messages[0], sequence, now_ms, bytes_max)
        for index, data in enumerate(chunks):
            self._waiting.append(_Entry(sequence, data, messages, until, (index, len(chunks))))

    def _pump(self) -> None:
        """Send what was not sent over this link, while the broker takes it."""
        raw, waiting = self._raw, self._waiting
        if raw is None or self._sent == len(waiting) or self._resuming:
            return
        if raw.link.paused:
            self._resuming = True
            self._spawn("resume", self._resume(raw))
            return
        rest = list(islice(waiting, self._sent, None))
        self._sent = len(waiting)
        start = 0
        for index, entry in enumerate(rest):
            if entry.chunk is not None:
                _send_run(raw, rest[start:index])
                raw.send_chunk(entry.sequence_id, entry.data)
                start = index + 1
        _send_run(raw, rest[start:] if start else rest)

    async def _resume(self, raw: RawProducer) -> None:
        with suppress(LostError):  # those who are on the link hear of it, too
            await raw.link.room()
        self._resuming = False
        self._pump()

    # --- answers ----------------------------------------------------------------------------------

    def _answered(self, receipts: Sequence[Receipt]) -> None:
        results: list[SendResult] = []
        told: list[OutgoingMessage] = []
        waiting, partition = self._waiting, self._partition
        self._sent -= len(receipts)
        for _, _, position in receipts:
            entry = waiting.popleft()
            messages = entry.messages
            if messages is None:
                continue
            if entry.chunk is not None:
                first = self._whole(entry.chunk, position)
                if first is None:
                    continue
                ids = [MessageId(position, partition, first_chunk=first)]
            elif len(messages) == 1:
                message = messages[0]
                results.append(SendResult(message.token, MessageId(position, partition)))
                told.append(message)
                continue
            else:
                size = len(messages)
                ids = [MessageId(position, partition, index, size) for index in range(size)]
            told += messages
            results += [
                SendResult(message.token, message_id)
                for message, message_id in zip(messages, ids, strict=True)
            ]
        if results:
            self._give_back(told)
            self._on_results(results)

    def _whole(self, chunk: tuple[int, int], position: Position) -> Position | None:
        """Where the message begins whose last chunk this is; None for one before it."""
        index, count = chunk
        if index == 0:
            self._first_chunk = position
        return self._first_chunk if index + 1 == count else None

    def _refused(self, highest: int, error: RefusedError) -> int | None:
        """An entry was, alone: it is answered, and forgotten."""
        if error.code not in _OF_ONE_ENTRY:
            return None
        for index, entry in enumerate(islice(self._waiting, self._sent)):
            if entry.sequence_id <= highest < entry.sequence_id + len(entry.messages or (1,)):
                del self._waiting[index]
                self._sent -= 1
                messages = entry.messages
                for other in self._waiting if entry.chunk is not None else ():
                    if other.sequence_id == entry.sequence_id:
                        other.messages = None
                if messages is not None:
                    self._tell_failed(messages, error)
                return entry.sequence_id
        return None

    def _time_out(self) -> None:
        """The oldest message has waited too long: all that wait are answered, since none came before it."""
        self._timeout_timer = None
        oldest = next((entry for entry in self._waiting if entry.messages is not None), None)
        if oldest is None:
            return
        if oldest.until <= self._loop.time():
            timeout_s = self._settings.send_timeout_s
            self._fail_waiting(SendTimeoutError(f"No receipt within {timeout_s:g} s"))
        else:
            self._timeout_timer = self._loop.call_at(oldest.until, self._time_out)

    def _fail(self, error: MagnetarError) -> None:
        """For good."""
        self.error = error
        self._stop_timers()
        self._fail_waiting(error)

    def _fail_waiting(self, error: MagnetarError) -> None:
        self._tell_failed(list(self._take_untold()), error)

    def _take_untold(self) -> Iterable[OutgoingMessage]:
        """All messages that have no answer; entries under way keep their place until their receipts come."""
        last: Any = None
        for entry in self._waiting:
            if entry.messages is not None and entry.messages is not last:
                last = entry.messages
                yield from last
            entry.messages, entry.data = None, b""
        while len(self._waiting) > self._sent:
            self._waiting.pop()
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        yield from batch

    def _tell_failed(self, messages: Sequence[OutgoingMessage], error: MagnetarError) -> None:
        if messages:
            self._give_back(messages)
            self._on_results([SendResult(message.token, None, error) for message in messages])

    def _give_back(self, messages: Sequence[OutgoingMessage]) -> None:
        size = sum([len(message.payload) + message.beside_bytes for message in messages])
        self._budget.give(size + MESSAGE_OVERHEAD_BYTES * len(messages), len(messages))

    def _stop_timers(self) -> None:
        for timer in (self._batch_timer, self._timeout_timer):
            if timer is not None:
                timer.cancel()
        self._batch_timer = self._timeout_timer = None


def _alone(message: OutgoingMessage) -> tuple[OutgoingMessage]:
    return (message,)


def _send_run(raw: RawProducer, entries: Sequence[_Entry]) -> None:
    if entries:
        counts = [len(entry.messages or (1,)) for entry in entries]
        raw.send(
            [entry.sequence_id for entry in entries],
            [entry.data for entry in entries],
            counts if max(counts) > 1 else None,
            highest=True,
        )
