"""A producer on one link: sends entries in order, pipelined, and passes on their receipts. Nothing is kept for sending
again."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from engine.base.errors import MagnetarError, PeerError
from engine.base.ids import Position
from engine.client.broker_link import Body, BrokerLink
from engine.client.errors import MessageTooLargeError, RefusedError, SentAwayError
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import refusal
from engine.wire.events import Receipt
from engine.wire.kernels import build_sends
from engine.wire.states import CommandType

EXCLUSIVE_ACCESS = 1
"""Number of the access mode that suffers no other producer."""


class ReceiptOrderError(PeerError):
    """A receipt of an entry that was not sent, or before that of an earlier entry."""


def too_large(size: int, bytes_max: int) -> str:
    """Return the text for an entry of ``size`` bytes that is not sent."""
    return f"Message of {size} bytes is bigger than the {bytes_max} bytes that the broker takes"


class RawProducer:
    """A producer made by ``open``. Once ``error`` is set it has ended: its owner opens another and sends entries
    without a receipt again.

    ``on_receipts`` is called with receipts in the order of sending; ``on_end`` once, when it was ended by the broker or
    the link.
    """

    def __init__(
        self,
        link: BrokerLink,
        topic: str,
        on_receipts: Callable[[Sequence[Receipt]], None],
        on_end: Callable[[MagnetarError], None],
        on_refused: Callable[[int, RefusedError], int | None],
    ) -> None:
        self.link = link
        self.topic = topic
        self.producer_id = link.new_id()
        self.name = ""
        self.last_sequence_id = -1
        """The highest sequence id that the broker has stored under this name, -1 when unknown."""
        self.schema_version = b""
        """The version of its schema; empty without one."""
        self.error: MagnetarError | None = None
        self._on_receipts = on_receipts
        self._on_end = on_end
        self._on_refused = on_refused
        self._unanswered: deque[int] = deque()
        self._drained: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        link: BrokerLink,
        topic: str,
        *,
        on_receipts: Callable[[Sequence[Receipt]], None] = lambda receipts: None,
        on_end: Callable[[MagnetarError], None] = lambda error: None,
        on_refused: Callable[[int, RefusedError], int | None] = lambda sequence, error: None,
        name: str | None = None,
        named_by_user: bool = True,
        epoch: int | None = None,
        metadata: Mapping[str, str] | None = None,
        schema: pb.Schema | None = None,
        access_mode: int | None = None,
    ) -> "RawProducer":
        """Attach a producer to the topic, which ``link``'s broker owns. ``name`` None: the broker assigns one.

        ``named_by_user``: False for a name that the broker assigned before. ``access_mode``: who else may produce, a
        number of ProducerAccessMode; None: everybody. ``on_refused`` is called for a refused
        entry with the entry's highest sequence id. It returns the entry's own sequence id when the other entries are
        unaffected, None to end this producer. Raises RefusedError, NoAnswerError, LostError. Cancel-safe: a producer
        attached too late is closed at once.
        """
        producer = cls(link, topic, on_receipts, on_end, on_refused)
        link.producers[producer.producer_id] = producer
        request_id = link.new_id()
        frame = say.producer(
            topic,
            producer.producer_id,
            request_id,
            producer_name=name,
            epoch=epoch,
            metadata=metadata,
            schema=schema,
            access_mode=access_mode,
            user_provided_producer_name=named_by_user and name is not None,
        )
        undo = say.close_producer(producer.producer_id, link.new_id())
        try:
            answer = await link.request(request_id, frame, undo)
        except BaseException:
            link.producers.pop(producer.producer_id, None)
            raise
        producer.name, producer.last_sequence_id = answer.producer_name, answer.last_sequence_id
        producer.schema_version = answer.schema_version
        return producer

    @property
    def unanswered(self) -> int:
        """The number of entries sent without a receipt."""
        return len(self._unanswered)

    def send(
        self,
        sequences: Sequence[int],
        entries: Sequence[bytes | memoryview],
        counts: Sequence[int] | None = None,
        *,
        highest: bool = False,
    ) -> None:
        """Send a run of entries (checksum, metadata, payload) with rising sequence ids, without waiting.

        ``counts``: messages of each entry; None: one. ``highest``: each message of a batch has its own sequence id.
        Call ``link.room`` between large runs. Does nothing after the end. Raises MessageTooLargeError, and sends
        nothing, when an entry is above the broker's limit.
        """
        if self.error is None:
            self._check_size(max(map(len, entries), default=0))
            self._unanswered += sequences
            self.link.send_parts(
                build_sends(self.producer_id, sequences, entries, counts, highest=highest)
            )

    def send_chunk(self, sequence: int, entry: bytes) -> None:
        """Send one chunk of a message, without waiting. Raises as ``send``."""
        if self.error is None:
            self._check_size(len(entry))
            self._unanswered.append(sequence)
            self.link.send(say.send(self.producer_id, sequence, entry, is_chunk=True))

    def send_position(self, sequence: int, entry: bytes, position: Position) -> None:
        """State to a shadow topic that its source's entries up to ``position`` may be read, without waiting."""
        if self.error is None:
            self._unanswered.append(sequence)
            self.link.send(say.send(self.producer_id, sequence, entry, position=position))

    def _check_size(self, size: int, spare: int = 0) -> None:
        """Raise MessageTooLargeError for an entry more than ``spare`` bytes above the broker's limit."""
        bytes_max = self.link.max_message_size + spare
        if size > bytes_max:
            raise MessageTooLargeError(too_large(size, bytes_max))

    async def drained(self) -> None:
        """Wait until all entries sent have their receipts. Raises the error that ended the producer; cancel-safe."""
        while self._unanswered and self.error is None:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        if self.error is not None:
            raise self.error

    async def close(self) -> None:
        """Detach from the topic after everything sent is stored. Raises NoAnswerError, LostError, RefusedError."""
        request_id = self.link.new_id()
        await self.link.request(request_id, say.close_producer(self.producer_id, request_id))
        self._set_ended(SentAwayError("closed"))

    def leave(self) -> None:
        """Detach as ``close`` does, without waiting for the answer."""
        if self._set_ended(SentAwayError("closed")):
            self.link.send(say.close_producer(self.producer_id, self.link.new_id()))

    # --- called by the link ----------------------------------------------------------------------

    def receipts(self, receipts: Sequence[Receipt]) -> None:
        waiting = self._unanswered
        for receipt in receipts:
            if not waiting or waiting[0] != receipt.sequence_id:
                awaited = waiting[0] if waiting else "none"
                raise ReceiptOrderError(
                    f"receipt for {receipt.sequence_id} while {awaited} is awaited"
                )
            waiting.popleft()
        self._on_receipts(receipts)
        if not waiting:
            self._wake()

    def on_command(self, kind: int, body: Body) -> None:
        if kind == CommandType.SEND_ERROR:
            self._refused(body.sequence_id, refusal(body.error, body.message))
        elif kind == CommandType.CLOSE_PRODUCER:
            url, url_tls = body.assignedBrokerServiceUrl, body.assignedBrokerServiceUrlTls
            self._end(SentAwayError(f"the broker closed producer {self.name}", url, url_tls))

    def _refused(self, sequence_id: int, error: RefusedError) -> None:
        own = self._on_refused(sequence_id, error)
        if own is None:
            self._end(error)
        elif own in self._unanswered:
            self._unanswered.remove(own)
            if not self._unanswered:
                self._wake()

    def lost(self, error: MagnetarError) -> None:
        self._end(error)

    def _end(self, error: MagnetarError) -> None:
        if self._set_ended(error):
            self._on_end(error)

    def _set_ended(self, error: MagnetarError) -> bool:
        """Record the end; return False when it was recorded before."""
        if self.error is not None:
            return False
        self.error = error
        self.link.producers.pop(self.producer_id, None)
        self._wake()
        return True

    def _wake(self) -> None:
        waiting, self._drained = self._drained, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
