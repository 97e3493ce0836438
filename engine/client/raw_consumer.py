"""A consumer on one link: permits, runs of messages, acknowledgements. Only the broker redelivers."""

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
"""Initial position of a new subscription."""


class RawConsumer:
    """A consumer made by ``open``. Once ``error`` is set it has ended: its owner opens another, which receives again
    what was not acknowledged.

    ``on_messages`` is called with each run; ``on_event`` with any other command: ACTIVE_CONSUMER_CHANGE,
    REACHED_END_OF_TOPIC, an ACK_RESPONSE without a waiting caller; ``on_end`` once, when it was ended by the broker or
    the link.
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
        replicated: bool = False,
        create: bool = True,
    ) -> "RawConsumer":
        """Attach a consumer to the topic, which ``link``'s broker owns.

        ``start``: the first entry of a consumer that is not durable. ``compacted``: read the compacted part of the
        topic in its compacted form. ``epoch``: for ordered types, see ``redeliver``. ``replicated``: the subscription's
        position is copied to the other clusters that have the topic. ``create``: a topic that does not exist may be
        created by the broker.

        Raises RefusedError, NoAnswerError, LostError. Cancel-safe: a consumer attached too late is closed.
        """
        consumer = cls(link, topic, on_messages, on_event, on_end)
        link.consumers[consumer.consumer_id] = consumer
        request_id = link.new_id()
        frame = say.subscribe(
            topic,
            subscription,
            kind,
            consumer.consumer_id,
            request_id,
            consumer_name=name,
            priority_level=priority,
            durable=durable,
            start=start,
            initial_position=initial,
            read_compacted=compacted or None,
            metadata=metadata,
            consumer_epoch=epoch,
            replicated=replicated or None,
            force_topic_creation=None if create else False,
        )
        try:
            await link.request(request_id, frame)
        except RefusedError:
            link.consumers.pop(consumer.consumer_id, None)
            raise
        except BaseException:
            consumer.leave()
            raise
        return consumer

    def flow(self, permits: int) -> None:
        """Permit ``permits`` (at least 1) more messages."""
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
        """Acknowledge entries without waiting. With a ``request_id`` an ACK_RESPONSE follows when that is durable.

        ``validation_error``: why they were unusable, a number of CommandAck.ValidationError.
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
        """Request the redelivery of these unacknowledged entries, or of all.

        Messages sent from then on have this ``epoch`` instead of the previous one, for a consumer attached with one.
        """
        self.link.send(say.redeliver(self.consumer_id, positions, epoch))

    async def seek(
        self,
        *,
        position: Position | None = None,
        publish_ms: int | None = None,
        ack_set: Sequence[int] | None = None,
    ) -> None:
        """Move the subscription; the broker then closes its consumers. Raises as ``acknowledged``."""
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
        """Return the position of the topic's last entry; entry -1 when there is none. Raises as ``acknowledged``."""
        request_id = self.link.new_id()
        frame = say.get_last_message_id(self.consumer_id, request_id)
        last = (await self.link.request(request_id, frame)).last_message_id
        return Position(last.ledgerId, -1 if last.entryId >> 63 else last.entryId)

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription. Raises as ``acknowledged``."""
        request_id = self.link.new_id()
        frame = say.unsubscribe(self.consumer_id, request_id, force or None)
        await self.link.request(request_id, frame)
        self._set_ended(SentAwayError("unsubscribed"))

    async def close(self) -> None:
        """Detach from the subscription. Raises as ``acknowledged``."""
        request_id = self.link.new_id()
        await self.link.request(request_id, say.close_consumer(self.consumer_id, request_id))
        self._set_ended(SentAwayError("closed"))

    def leave(self) -> None:
        """Detach as ``close`` does, without waiting for the answer."""
        if self._set_ended(SentAwayError("closed")):
            self.link.send(say.close_consumer(self.consumer_id, self.link.new_id()))

    # --- called by the link ----------------------------------------------------------------------

    def messages(self, messages: Sequence[Delivered]) -> None:
        self._on_messages(messages)

    def on_command(self, kind: int, body: Body) -> None:
        if kind == CommandType.CLOSE_CONSUMER:
            url, url_tls = body.assignedBrokerServiceUrl, body.assignedBrokerServiceUrlTls
            self.lost(SentAwayError("the broker closed the consumer", url, url_tls))
        else:
            self._on_event(kind, body)

    def lost(self, error: MagnetarError) -> None:
        if self._set_ended(error):
            self._on_end(error)

    def _set_ended(self, error: MagnetarError) -> bool:
        """Record the end; return False when it was recorded before."""
        if self.error is not None:
            return False
        self.error = error
        self.link.consumers.pop(self.consumer_id, None)
        return True
