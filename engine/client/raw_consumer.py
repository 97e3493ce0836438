"""A consumer: permits, runs of messages, acknowledgements. Nothing is given again but by the broker."""

from collections.abc import Callable, Mapping, Sequence

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.broker_link import Body, BrokerLink
from engine.client.errors import RefusedError, SentAwayError
from engine.wire import client_commands as say
from engine.wire.events import Delivered
from engine.wire.states import CommandType

EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = range(4)
"""Types of subscriptions."""
FROM_LATEST, FROM_EARLIEST = 0, 1
"""Where a new subscription starts."""


class RawConsumer:
    """``open`` it. Once ``error`` is set it is over: whoever has it opens another, and is given again what it did not
    acknowledge.

    ``on_messages`` is called with each run, ``on_event`` with a command that is neither: ACTIVE_CONSUMER_CHANGE,
    REACHED_END_OF_TOPIC, the ACK_RESPONSE nobody waits for; ``on_end`` once, when it is over by itself.
    """

    def __init__(
        self,
        link: BrokerLink,
        topic: str,
        on_messages: Callable[[Sequence[Delivered]], None],
        on_event: Callable[[int, Body], None],
        on_end: Callable[[MagnetarError], None],
    ) -> None:
        self.link = link
        self.topic = topic
        self.consumer_id = link.new_id()
        self.error: MagnetarError | None = None
        self._on_messages = on_messages
        self._on_event = on_event
        self._on_end = on_end

    @classmethod
    async def open(
        cls,
        link: BrokerLink,
        topic: str,
        subscription: str,
        kind: int = EXCLUSIVE,
        *,
        on_messages: Callable[[Sequence[Delivered]], None],
        on_event: Callable[[int, Body], None] = lambda kind, body: None,
        on_end: Callable[[MagnetarError], None] = lambda error: None,
        name: str | None = None,
        durable: bool = True,
        start: Position | None = None,
        initial: int = FROM_LATEST,
        priority: int | None = None,
        metadata: Mapping[str, str] | None = None,
        compacted: bool = False,
        epoch: int | None = None,
    ) -> "RawConsumer":
        """Attached to the topic, which ``link``'s broker owns. ``start``: the first entry of one that is not durable.
        ``compacted``: instead of what was compacted, what was kept of it. ``epoch``: of types with order, see
        ``redeliver``.

        Raises RefusedError, NoAnswerError, LostError. Cancel-safe: what comes too late is told to leave.
        """
        made = cls(link, topic, on_messages, on_event, on_end)
        link.consumers[made.consumer_id] = made
        request_id = link.new_id()
        frame = say.subscribe(
            topic,
            subscription,
            kind,
            made.consumer_id,
            request_id,
            consumer_name=name,
            priority_level=priority,
            durable=durable,
            start=start,
            initial_position=initial,
            read_compacted=compacted or None,
            metadata=metadata,
            consumer_epoch=epoch,
        )
        try:
            await link.request(request_id, frame)
        except RefusedError:
            link.consumers.pop(made.consumer_id, None)
            raise
        except BaseException:
            made.leave()
            raise
        return made

    def flow(self, permits: int) -> None:
        """Take ``permits`` (at least 1) more messages."""
        self.link.send(say.flow(self.consumer_id, permits))

    def acknowledge(
        self,
        positions: Sequence[Position],
        *,
        cumulative: bool = False,
        ack_set: Sequence[int] | None = None,
        request_id: int | None = None,
        validation_error: int | None = None,
    ) -> None:
        """Acknowledge entries, without waiting. With a ``request_id``, ACK_RESPONSE says when that is durable.

        ``validation_error``: why they were of no use, a number of CommandAck.ValidationError.
        """
        self.link.send(
            say.ack(
                self.consumer_id,
                positions,
                cumulative=cumulative,
                ack_set=ack_set,
                request_id=request_id,
                validation_error=validation_error,
            )
        )

    async def acknowledged(
        self, positions: Sequence[Position], *, cumulative: bool = False
    ) -> None:
        """Acknowledge entries and wait until that is durable. Raises RefusedError, NoAnswerError, LostError."""
        request_id = self.link.new_id()
        await self.link.request(
            request_id,
            say.ack(self.consumer_id, positions, cumulative=cumulative, request_id=request_id),
        )

    def redeliver(self, positions: Sequence[Position] = (), *, epoch: int | None = None) -> None:
        """Ask again for what was not acknowledged: these entries, or all. What the broker gives from then on has this
        ``epoch`` instead of the one before, of a consumer that came with one."""
        self.link.send(say.redeliver(self.consumer_id, positions, epoch))

    async def seek(
        self,
        *,
        position: Position | None = None,
        publish_ms: int | None = None,
        ack_set: Sequence[int] | None = None,
    ) -> None:
        """Move the subscription; the broker then sends its consumers away. Raises as ``acknowledged``."""
        request_id = self.link.new_id()
        await self.link.request(
            request_id,
            say.seek(
                self.consumer_id,
                request_id,
                position=position,
                publish_ms=publish_ms,
                ack_set=ack_set,
            ),
        )

    async def last_position(self) -> Position:
        """Of the topic's last entry; entry -1 when there is none. Raises as ``acknowledged``."""
        request_id = self.link.new_id()
        frame = say.get_last_message_id(self.consumer_id, request_id)
        last = (await self.link.request(request_id, frame)).last_message_id
        return Position(last.ledgerId, -1 if last.entryId >> 63 else last.entryId)

    async def unsubscribe(self, *, force: bool = False) -> None:
        """End the subscription. Raises as ``acknowledged``."""
        request_id = self.link.new_id()
        frame = say.unsubscribe(self.consumer_id, request_id, force or None)
        await self.link.request(request_id, frame)
        self._over(SentAwayError("unsubscribed"))

    async def close(self) -> None:
        """Leave the subscription. Raises as ``acknowledged``."""
        request_id = self.link.new_id()
        await self.link.request(request_id, say.close_consumer(self.consumer_id, request_id))
        self._over(SentAwayError("closed"))

    def leave(self) -> None:
        """``close`` without waiting for the answer."""
        if self._over(SentAwayError("closed")):
            self.link.send(say.close_consumer(self.consumer_id, self.link.new_id()))

    # --- what the link brings --------------------------------------------------------------------

    def messages(self, messages: Sequence[Delivered]) -> None:
        self._on_messages(messages)

    def heard(self, kind: int, body: Body) -> None:
        if kind == CommandType.CLOSE_CONSUMER:
            self.lost(SentAwayError("the broker closed the consumer"))
        else:
            self._on_event(kind, body)

    def lost(self, error: MagnetarError) -> None:
        if self._over(error):
            self._on_end(error)

    def _over(self, error: MagnetarError) -> bool:
        """False when it was over before."""
        if self.error is not None:
            return False
        self.error = error
        self.link.consumers.pop(self.consumer_id, None)
        return True
