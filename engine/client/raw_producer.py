"""A producer: entries as they are, in order, pipelined, and their receipts. Nothing is kept to be sent again."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from engine.base.errors import MagnetarError, PeerError
from engine.client.broker_link import Body, BrokerLink
from engine.client.errors import MessageTooLargeError, RefusedError, SentAwayError
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import refusal
from engine.wire.events import Receipt
from engine.wire.kernels import build_sends
from engine.wire.states import CommandType


class ReceiptOrderError(PeerError):
    """A receipt came for something that was not sent, or before that of what was sent earlier."""


def too_large(size: int, bytes_max: int) -> str:
    """Why an entry of ``size`` bytes is not sent."""
    return f"Message of {size} bytes is bigger than the {bytes_max} bytes that the broker takes"


class RawProducer:
    """``open`` it. Once ``error`` is set it is over: whoever has it opens another, and sends again what has no receipt.

    ``on_receipts`` is called with receipts in the order of sending, ``on_end`` once, when it is over by itself.
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
        """The highest that the broker has stored under this name, -1 when it does not know."""
        self.schema_version = b""
        """Which version its schema is; empty without one."""
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
    ) -> "RawProducer":
        """Attached to the topic, which ``link``'s broker owns; ``name`` None: the broker gives one.

        ``named_by_user``: False for a name that the broker gave before. ``on_refused``: an entry was, by its highest
        sequence id; it returns the entry's own when the others are as they should be, None to have it end here.
        Raises RefusedError, NoAnswerError, LostError. Cancel-safe: what comes too late leaves at once.
        """
        made = cls(link, topic, on_receipts, on_end, on_refused)
        link.producers[made.producer_id] = made
        request_id = link.new_id()
        frame = say.producer(
            topic,
            made.producer_id,
            request_id,
            producer_name=name,
            epoch=epoch,
            metadata=metadata,
            schema=schema,
            user_provided_producer_name=named_by_user and name is not None,
        )
        undo = say.close_producer(made.producer_id, link.new_id())
        try:
            answer = await link.request(request_id, frame, undo)
        except BaseException:
            link.producers.pop(made.producer_id, None)
            raise
        made.name, made.last_sequence_id = answer.producer_name, answer.last_sequence_id
        made.schema_version = answer.schema_version
        return made

    @property
    def unanswered(self) -> int:
        """Entries sent that have no receipt."""
        return len(self._unanswered)

    def send(
        self,
        sequences: Sequence[int],
        entries: Sequence[bytes | memoryview],
        counts: Sequence[int] | None = None,
        *,
        highest: bool = False,
    ) -> None:
        """Send a run of entries (checksum, metadata, payload) under rising sequence ids, without waiting.

        ``counts``: messages of each; None: one. ``highest``: each message of a batch has a sequence id of its own.
        Heed ``link.room`` between large runs. Nothing happens once it is over. Raises MessageTooLargeError, and sends
        nothing, when one is above what the broker takes.
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

    def _check_size(self, size: int) -> None:
        if size > self.link.max_message_size:
            raise MessageTooLargeError(too_large(size, self.link.max_message_size))

    async def drained(self) -> None:
        """Return when all that was sent has its receipt. Raises the error that ended it; cancel-safe."""
        while self._unanswered and self.error is None:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        if self.error is not None:
            raise self.error

    async def close(self) -> None:
        """Leave the topic; what was sent is stored first. Raises NoAnswerError, LostError, RefusedError."""
        request_id = self.link.new_id()
        await self.link.request(request_id, say.close_producer(self.producer_id, request_id))
        self._over(SentAwayError("closed"))

    def leave(self) -> None:
        """``close`` without waiting for the answer."""
        if self._over(SentAwayError("closed")):
            self.link.send(say.close_producer(self.producer_id, self.link.new_id()))

    # --- what the link brings --------------------------------------------------------------------

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

    def heard(self, kind: int, body: Body) -> None:
        if kind == CommandType.SEND_ERROR:
            self._refused(body.sequence_id, refusal(body.error, body.message))
        elif kind == CommandType.CLOSE_PRODUCER:
            self._end(SentAwayError(f"the broker closed producer {self.name}"))

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
        if self._over(error):
            self._on_end(error)

    def _over(self, error: MagnetarError) -> bool:
        """False when it was over before."""
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
