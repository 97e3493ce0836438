"""A producer of one topic without partitions, which reattaches and sends entries without a receipt again.

Entries keep their order and sequence ids across connections, and each message has one result: stored, or the error. The
cost of a message is its record and its bytes: there is no task, timer or future for it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from engine.base.budget import Budget
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.loop import last_call
from engine.client.client import PulsarClient, Reassigned, reassigned_by
from engine.client.errors import (
    ClientError,
    LostError,
    MessageTooLargeError,
    RefusedError,
    ServerError,
    UnexpectedError,
)
from engine.client.message_ids import MessageId
from engine.client.producing.outgoing import EntryBuilder, OutgoingMessage, PayloadSealer
from engine.client.producing.partition_choice import Hashing, Routing
from engine.client.raw_producer import RawProducer, too_large
from engine.wire import pulsar_pb2 as pb
from engine.wire.events import Receipt

log = logging.getLogger(__name__)

MESSAGE_OVERHEAD_BYTES = 512
"""Memory of any message besides its content, as counted by the budget."""
_PERMANENT = (ServerError.TopicTerminatedError, ServerError.ProducerFenced)
_OF_ONE_ENTRY = (ServerError.ChecksumError, ServerError.NotAllowedError)
"""Refusals of an entry that do not affect the others."""


class SendTimeoutError(ClientError):
    """No receipt arrived in time; the message may be stored, now or later."""


class ClosedError(MagnetarError):
    """The producer was closed before the message was stored."""


class SendResult(NamedTuple):
    """The result of a message. ``message_id`` None: not stored as far as known, because of ``error``. ``token``: the
    message's."""

    token: Any
    message_id: MessageId | None
    error: MagnetarError | None = None


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Limits of a batch: it is sent when it is full by either measure, or ``delay_s`` after its first message; 0: in
    the same turn of the loop."""

    messages_max: int = 1000
    bytes_max: int = 128 * 1024
    delay_s: float = 0.01


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Settings of a producer. ``name`` None: the broker assigns one.

    ``initial_sequence_id``: of the message before the first; None: the broker's last. ``send_timeout_s`` 0: none.
    ``compression``: codec number of ``wire.compression``.
    """

    name: str | None = None
    initial_sequence_id: int | None = None
    send_timeout_s: float = 30.0
    routing: Routing = Routing.SINGLE
    hashing: Hashing = Hashing.JAVA_STRING
    batching: BatchSettings | None = None
    compression: int = 0
    chunking: bool = False
    sealer: PayloadSealer | None = None
    """Encrypts the entries of all partitions."""
    schema: pb.Schema | None = None
    """The schema, which is registered, compared or refused when the producer attaches."""
    reattach_when_idle: bool = True
    """False: a producer that is closed by the broker or loses its link while no message waits ends. It then does not
    create a deleted topic again."""


class _Entry:
    """An entry without a receipt. ``messages`` None: their results were reported, and it is not sent again."""

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
        """Index of the chunk and number of chunks."""


class PartitionProducer:
    """A producer; call ``open`` first. Once ``error`` is set nothing is accepted: it is the result of every message.

    ``on_results`` is called with the results of a run, in the order of sending except for refused entries. It must not
    raise, and may be called from within ``send``. Pending messages count in ``budget``, whose owner stops sending in
    time.
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
        """The version of the settings' schema at the last attachment; empty without one."""
        self.stored_sequence_id = -1
        """The highest sequence id that the broker had stored under this name at the first attachment; -1: unknown."""
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
        self._moved: Reassigned | None = None
        """Address to which the broker sent this producer, until that was tried."""
        self._bytes_max: int | None = None
        """The limit of an entry at the broker that it was last attached to."""
        self._attaching: asyncio.Task[None] | None = None
        self._waiting: deque[_Entry] = deque()
        self._sent = 0
        """The number of waiting entries, from the first, that were sent over this link."""
        self._resuming = False
        self._batch: list[OutgoingMessage] = []
        self._batch_bytes = 0
        self._batch_timer: asyncio.TimerHandle | None = None
        self._call_last = last_call(self._loop)
        self._flush_due = False
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._first_chunk = Position(-1, -1)

    async def open(self) -> None:
        """Attach to the topic. Raises RefusedError, ClientError. Cancel-safe."""
        await self._client.patiently(self._attach, timeout_s=self._client.operation_timeout_s)

    @property
    def connected(self) -> bool:
        return self._raw is not None

    # --- attaching --------------------------------------------------------------------------------

    async def _attach(self) -> None:
        moved, self._moved = self._moved, None  # a refusal there is followed by a lookup
        link = await self._client.owner(self.topic, moved)
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
            self.stored_sequence_id = raw.last_sequence_id
            first = self._settings.initial_sequence_id
            self._next_sequence = 1 + (raw.last_sequence_id if first is None else first)
        if raw.name != self.name or not self._epoch:
            self.name, settings = raw.name, self._settings
            self._builder = EntryBuilder(self.name, settings.compression, settings.sealer)
        self.schema_version = raw.schema_version
        self._raw, self._sent = raw, 0
        self._waiting = deque(entry for entry in self._waiting if entry.messages is not None)
        self._apply_limit(raw.link.max_message_size)
        self._pump()

    def _apply_limit(self, bytes_max: int) -> None:
        """Fail waiting messages above the limit of the present broker.

        Sending one would end the connection with all producers and consumers on it, each time.
        """
        previous, self._bytes_max = self._bytes_max, bytes_max
        if previous is not None and bytes_max >= previous:
            return
        large = [entry for entry in self._waiting if len(entry.data) > bytes_max]
        for entry in large:
            messages = entry.messages
            if messages is None:
                continue  # failed already, with an earlier chunk of its message
            for other in self._waiting if entry.chunk is not None else (entry,):
                if other.messages is messages:
                    other.messages = None
            error = MessageTooLargeError(too_large(len(entry.data), bytes_max))
            self._report_failed(messages, error)
        if large:
            self._waiting = deque(entry for entry in self._waiting if entry.messages is not None)

    def _ended(self, error: MagnetarError) -> None:
        """Reattach after the raw producer was ended by the broker or the link."""
        ended, self._raw = self._raw, None
        if ended is None or self.error is not None:
            return  # it ended while it was opened, which ``_attach`` detects
        idle = not self._waiting and not self._batch
        if self._is_permanent(error) or (idle and not self._settings.reattach_when_idle):
            self._fail(error)
            return
        leaving = ended if isinstance(error, RefusedError) else None
        self._moved = reassigned_by(error, ended.link)
        self._attaching = self._spawn("attach", self._reattach(leaving))

    def _spawn(
        self, task_name: str, work: Coroutine[Any, Any, None]
    ) -> "asyncio.Task[None] | None":
        try:
            return self._client.spawn(f"{task_name} {self.topic}", work)
        except LostError as error:
            self._fail(error)
            return None

    async def _reattach(self, leaving: RawProducer | None) -> None:
        """Attach again. ``leaving``: a producer that a refusal ended, which the broker still has."""
        try:
            if leaving is not None:
                with suppress(ClientError, RefusedError):  # its link is closed, or soon will be
                    await leaving.close()
            await self._client.patiently(self._attach, timeout_s=None, is_final=self._is_final)
        except MagnetarError as error:
            self._fail(error)
        except Exception as error:
            log.exception("producer of %s cannot reattach", self.topic)
            self._fail(UnexpectedError(f"cannot reattach: {error!r}"))

    def _is_final(self, error: MagnetarError) -> bool:
        code = error.code if isinstance(error, RefusedError) else None
        if code is ServerError.ProducerBlockedQuotaExceededException:
            self._fail_waiting(error)
        return self._is_permanent(error)

    def _is_permanent(self, error: MagnetarError) -> bool:
        return isinstance(error, RefusedError) and error.code in _PERMANENT

    async def close(self) -> None:
        """Send the batch and detach. Messages stored until then get a result, the others do not."""
        self.flush()
        self._stop_timers()
        raw, self._raw = self._raw, None
        self.error = self.error or ClosedError("the producer is closed")
        if self._attaching is not None:
            self._attaching.cancel()
        if raw is not None and raw.error is None:
            # The link is closed, and the producer with it.
            with suppress(ClientError, RefusedError):
                await raw.close()
        self._return_budget(list(self._take_unreported()))

    # --- sending ----------------------------------------------------------------------------------

    def send(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send in order without waiting. Each message gets one result by ``on_results``, unless the producer is closed
        before."""
        size = sum([len(message.payload) + message.beside_bytes for message in messages])
        self._budget.take(size + MESSAGE_OVERHEAD_BYTES * len(messages), len(messages))
        if self.error is not None:
            self._report_failed(messages, self.error)
            return
        batching = self._settings.batching
        if batching is None:
            self._add(map(_single, messages))
            return
        for message in messages:
            if message.is_alone:
                self.flush()
                self._add([(message,)])
                continue
            self._batch.append(message)
            self._batch_bytes += len(message.payload)
            full = len(self._batch) >= batching.messages_max
            if full or self._batch_bytes >= batching.bytes_max:
                self.flush()
        if not self._batch:
            return
        if not batching.delay_s:
            if not self._flush_due:
                self._flush_due = True
                self._call_last(self._flush_last)
        elif self._batch_timer is None:
            self._batch_timer = self._loop.call_later(batching.delay_s, self.flush)

    def _flush_last(self) -> None:
        """Send what this turn of the loop has gathered."""
        self._flush_due = False
        self.flush()

    def send_as(self, message: OutgoingMessage, sequence_id: int) -> None:
        """Send one message with a sequence id of the caller, above those before it; later ids follow it."""
        self.resume_at(sequence_id)
        self.send((message,))

    def resume_at(self, sequence_id: int) -> None:
        """Give the next message this sequence id, which is above those before it; later ids follow it."""
        self.flush()
        self._next_sequence = sequence_id

    def flush(self) -> None:
        """Make the batch an entry and send it, without waiting."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if self._batch:
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            self._add([batch])

    def _add(self, groups: Iterable[Sequence[OutgoingMessage]]) -> None:
        """Make an entry of each group and send them."""
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
        """Handle messages above the broker's limit: send in chunks, messages of a batch one by one, or fail."""
        if len(messages) > 1:
            for message in messages:
                self._add([(message,)])
            return
        if not self._settings.chunking:
            self._report_failed(messages, MessageTooLargeError(too_large(size, bytes_max)))
            return
        sequence = self._next_sequence
        self._next_sequence += 1
        chunks = self._builder.chunks(messages[0], sequence, now_ms, bytes_max)
        for index, data in enumerate(chunks):
            self._waiting.append(_Entry(sequence, data, messages, until, (index, len(chunks))))

    def _pump(self) -> None:
        """Send entries that were not sent over this link, while the broker reads them."""
        raw, waiting = self._raw, self._waiting
        if raw is None or self._sent == len(waiting) or self._resuming:
            return
        if raw.link.paused:
            self._resuming = True
            self._spawn("resume", self._resume(raw))
            return
        unsent = list(islice(waiting, self._sent, None))
        self._sent = len(waiting)
        start = 0
        for index, entry in enumerate(unsent):
            if entry.chunk is not None:
                _send_run(raw, unsent[start:index])
                raw.send_chunk(entry.sequence_id, entry.data)
                start = index + 1
        _send_run(raw, unsent[start:] if start else unsent)

    async def _resume(self, raw: RawProducer) -> None:
        with suppress(LostError):  # the link reports its end to the producer as well
            await raw.link.room()
        self._resuming = False
        self._pump()

    # --- answers ----------------------------------------------------------------------------------

    def _answered(self, receipts: Sequence[Receipt]) -> None:
        results: list[SendResult] = []
        answered: list[OutgoingMessage] = []
        waiting, partition = self._waiting, self._partition
        self._sent -= len(receipts)
        for _, _, position, *_ in receipts:
            entry = waiting.popleft()
            messages = entry.messages
            if messages is None:
                continue
            if entry.chunk is not None:
                first = self._first_of_whole(entry.chunk, position)
                if first is None:
                    continue
                ids = [MessageId(position, partition, first_chunk=first)]
            elif len(messages) == 1:
                message = messages[0]
                results.append(SendResult(message.token, MessageId(position, partition)))
                answered.append(message)
                continue
            else:
                size = len(messages)
                ids = [MessageId(position, partition, index, size) for index in range(size)]
            answered += messages
            results += [
                SendResult(message.token, message_id)
                for message, message_id in zip(messages, ids, strict=True)
            ]
        if results:
            self._return_budget(answered)
            self._on_results(results)

    def _first_of_whole(self, chunk: tuple[int, int], position: Position) -> Position | None:
        """Return the first position of a message whose last chunk this is; None for an earlier chunk."""
        index, count = chunk
        if index == 0:
            self._first_chunk = position
        return self._first_chunk if index + 1 == count else None

    def _refused(self, highest: int, error: RefusedError) -> int | None:
        """Report the failure of a single refused entry and remove it. See ``RawProducer.open``."""
        if error.code not in _OF_ONE_ENTRY:
            return None
        for index, entry in enumerate(islice(self._waiting, self._sent)):
            if entry.sequence_id <= highest < entry.sequence_id + len(entry.messages or (1,)):
                del self._waiting[index]
                self._sent -= 1
                messages = entry.messages
                # The other chunks are not sent again: without this one the message never becomes whole.
                for chunk in self._waiting if entry.chunk is not None else ():
                    if chunk.sequence_id == entry.sequence_id:
                        chunk.messages = None
                if messages is not None:
                    self._report_failed(messages, error)
                return entry.sequence_id
        return None

    def _time_out(self) -> None:
        """Fail all waiting messages when the oldest has waited too long."""
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
        """End for good: fail all waiting and all further messages."""
        self.error = error
        self._stop_timers()
        self._fail_waiting(error)

    def _fail_waiting(self, error: MagnetarError) -> None:
        self._report_failed(list(self._take_unreported()), error)

    def _take_unreported(self) -> Iterable[OutgoingMessage]:
        """Yield all messages without a result. Entries in transit keep their place until their receipts arrive."""
        previous: Any = None
        for entry in self._waiting:
            if entry.messages is not None and entry.messages is not previous:
                previous = entry.messages
                yield from previous
            entry.messages, entry.data = None, b""
        while len(self._waiting) > self._sent:
            self._waiting.pop()
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        yield from batch

    def _report_failed(self, messages: Sequence[OutgoingMessage], error: MagnetarError) -> None:
        if messages:
            self._return_budget(messages)
            self._on_results([SendResult(message.token, None, error) for message in messages])

    def _return_budget(self, messages: Sequence[OutgoingMessage]) -> None:
        size = sum([len(message.payload) + message.beside_bytes for message in messages])
        self._budget.give(size + MESSAGE_OVERHEAD_BYTES * len(messages), len(messages))

    def _stop_timers(self) -> None:
        for timer in (self._batch_timer, self._timeout_timer):
            if timer is not None:
                timer.cancel()
        self._batch_timer = self._timeout_timer = None


def _single(message: OutgoingMessage) -> tuple[OutgoingMessage]:
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
