"""A consumer of a topic, its partitions, several topics or all that match a pattern.

Messages are delivered in runs, acknowledgements are gathered, and everything unacknowledged is redelivered.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

from engine.base.errors import MagnetarError, MisuseError
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.tasks import restarting
from engine.client.client import PulsarClient, partition_names
from engine.client.consuming.attachment import (
    ACKS_MAX,
    QUEUED_BYTES_MAX,
    Attachment,
    ConsumerSettings,
)
from engine.client.consuming.chunked import ChunkBytes
from engine.client.consuming.dead_letters import DeadLetters
from engine.client.consuming.delays import Delays
from engine.client.consuming.incoming import Given, Incoming
from engine.client.message_ids import MessageId
from engine.client.raw_consumer import FROM_EARLIEST

log = logging.getLogger(__name__)

ACKS_AFTER_S = 0.02
"""Seconds that an acknowledgement may wait for others."""
LISTED_EVERY_S = 60.0
"""Seconds between checks for new partitions and topics that match a pattern."""
RUN_MESSAGES_MAX = 100
"""Queued messages delivered in one run, so that the user can hold the consumer in between."""
NAME_BYTES = 5
REFUSED_MAX = 10_000
"""Refused messages waiting for their delay; above it all of them are requested at once."""
Key = tuple[Attachment, Position]
"""A message; for a message in chunks the position is that of the last chunk."""


class TopicConsumer:
    """A consumer made by ``open``. ``on_messages`` is called with runs of messages, no more of them than ``allow`` has
    permitted.

    Everything runs on the event loop that opened it. Unacknowledged messages are redelivered when a connection is lost,
    a topic moves, or this consumer is closed. ``on_end`` is called once after a permanent refusal by a broker.
    """

    def __init__(
        self,
        client: PulsarClient,
        settings: ConsumerSettings,
        on_messages: Callable[[Sequence[Incoming]], None],
        on_end: Callable[[MagnetarError], None],
    ) -> None:
        if not settings.name:
            settings = replace(settings, name=client.entropy.hex(NAME_BYTES))
        self.client = client
        self.settings = settings
        self.full = False
        self.chunks_kept = ChunkBytes()
        self.error: MagnetarError | None = None
        self._on_messages = on_messages
        self._on_end = on_end
        self._attachments: dict[str, Attachment] = {}
        self._pattern: TopicName | None = None
        self._topics: Sequence[str] = ()
        self._allowed = 0
        self._held = False
        self._queue: list[Incoming] = []
        self._queued_bytes = 0
        self._flush: asyncio.TimerHandle | None = None
        self._follower: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._refused: Delays[Key] = Delays(settings.nack_delay_s, self._redeliver)
        self._unanswered: Delays[Key] | None = None
        if settings.ack_timeout_s:
            self._unanswered = Delays(settings.ack_timeout_s, self._redeliver)
        self._dead_letters: DeadLetters | None = None
        if settings.redeliveries_max:
            self._dead_letters = DeadLetters(client, settings)

    @classmethod
    async def open(
        cls,
        client: PulsarClient,
        topics: Sequence[str],
        settings: ConsumerSettings,
        *,
        on_messages: Callable[[Sequence[Incoming]], None],
        on_end: Callable[[MagnetarError], None] = lambda error: None,
        pattern: bool = False,
    ) -> Self:
        """Attach to all of ``topics``, full names. With ``pattern`` the only one ends in a regular expression in place
        of the local name.

        Raises MagnetarError after detaching from all. Cancel-safe.
        """
        consumer = cls(client, settings, on_messages, on_end)
        consumer._topics = topics
        if pattern:
            consumer._pattern = TopicName.parse(topics[0])
        try:
            await consumer._attach(await consumer._list_topics())
        except BaseException:
            await asyncio.shield(consumer.close())
            raise
        if pattern or set(consumer._attachments) != set(topics):
            consumer._follower = client.spawn(
                "follow topics", restarting("follow topics", consumer._follow)
            )
        return consumer

    # --- topics ----------------------------------------------------------------------------------

    async def _list_topics(self) -> list[str]:
        """Return the full names of topics, partitions in place of partitioned topics. Raises MagnetarError."""
        client, pattern = self.client, self._pattern
        timeout_s = client.operation_timeout_s
        if pattern is not None:
            ask = partial(client.topics_matching, pattern)
            return await client.patiently(ask, timeout_s=timeout_s)
        names: list[str] = []
        for topic in self._topics:
            count = await client.patiently(partial(client.partitions, topic), timeout_s=timeout_s)
            names += partition_names(topic, count)
        return names

    async def _attach(self, topics: Sequence[str], *, initial: int | None = None) -> None:
        """Attach to further topics, all or none. Raises MagnetarError; cancel-safe."""
        attachments = {
            topic: Attachment(self.client, self, self.settings, topic, initial=initial)
            for topic in topics
        }
        share = max(
            1, self.settings.queue_size // max(1, len(attachments) + len(self._attachments))
        )
        for attachment in attachments.values():
            attachment.queue_size = share
        self._attachments |= attachments
        try:
            async with asyncio.TaskGroup() as group:
                for attachment in attachments.values():
                    group.create_task(self._attach_one(attachment))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _attach_one(self, attachment: Attachment) -> None:
        timeout_s = self.client.operation_timeout_s
        await self.client.patiently(attachment.attach, timeout_s=timeout_s)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LISTED_EVERY_S)
            try:
                listed = await self._list_topics()
                await self.follow(listed)
            except MagnetarError as error:
                log.info("topics of subscription %s: %s", self.settings.subscription, error)

    async def follow(self, listed: Sequence[str]) -> None:
        """Detach from topics that are not ``listed`` and attach to new ones, from their first message on.

        Raises MagnetarError when one of these refuses for now; it is retried with the next list.
        """
        if self._pattern is not None:
            for topic in [topic for topic in self._attachments if topic not in set(listed)]:
                removed = self._attachments.pop(topic)
                self.detached(removed)
                await removed.close()
        new = [topic for topic in listed if topic not in self._attachments]
        try:
            await self._attach(new, initial=FROM_EARLIEST)
        except BaseException:
            for topic in new:
                if self._attachments[topic].raw is None:
                    await self._attachments.pop(topic).close()
            raise

    # --- called by attachments -------------------------------------------------------------------

    def receive(self, attachment: Attachment, messages: list[Incoming]) -> None:
        if self._dead_letters is not None:
            messages, too_often = self._dead_letters.sort_out(messages)
            self._redeliver([(message.source, message.position) for message in too_often])
        if not self._queue and len(messages) <= self._room:
            self._deliver(messages)
            return
        for message in messages:
            self._queued_bytes += message.size
        attachment.queued += len(messages)
        self._queue += messages
        self.full = self._queued_bytes >= QUEUED_BYTES_MAX
        while self._queue and self._room > 0:
            self._deliver_queued()

    @property
    def _room(self) -> int:
        return 0 if self._held else self._allowed

    def _deliver_queued(self) -> None:
        queue = self._queue
        count = min(self._room, RUN_MESSAGES_MAX)
        run = queue[:count]
        del queue[:count]
        sources: dict[Attachment, None] = {}
        for message in run:
            source = message.source
            source.queued -= 1
            self._queued_bytes -= message.size
            sources[source] = None
        self._deliver(run)
        if self.full and self._queued_bytes < QUEUED_BYTES_MAX // 2:
            self.full = False
            sources = dict.fromkeys(self._attachments.values())
        if not self.full:
            for source in sources:
                source.refill()

    def _deliver(self, run: list[Incoming]) -> None:
        if not run:
            return
        self._allowed -= len(run)
        if self._unanswered is not None:
            for message in run:
                self._unanswered.add((message.source, message.position))
        if not self.settings.durable:
            for message in run:
                message.source.follow(message)
            if self.settings.acks_follow:
                self.flush_soon()
        try:
            self._on_messages(run)
        except Exception as error:  # ends this consumer alone: others share the connection
            log.exception("messages of %s could not be handled", self.settings.subscription)
            self._end(MisuseError(f"messages could not be handled: {error!r}"))

    def _end(self, error: MagnetarError) -> None:
        """Deliver nothing from now on and report the error."""
        if self.error is None:
            self.error, self._held = error, True
            self._on_end(error)

    def detached(self, attachment: Attachment) -> None:
        if attachment.queued:
            self._queue = [message for message in self._queue if message.source is not attachment]
            self._queued_bytes = sum(message.size for message in self._queue)
            attachment.queued = 0
            was_full, self.full = self.full, self._queued_bytes >= QUEUED_BYTES_MAX
            if was_full and not self.full:
                for other in self._attachments.values():
                    other.refill()  # it requested nothing while there was no room
        for delays in (self._refused, self._unanswered):
            if delays is not None and len(delays):
                delays.keep(lambda key: key[0] is not attachment)
        if self._dead_letters is not None:
            self._dead_letters.forget(attachment)

    def activity_changed(self, attachment: Attachment, is_active: bool) -> None:
        """Do nothing: a failover subscription has one active consumer, whichever that is."""

    def failed(self, attachment: Attachment, error: MagnetarError) -> None:
        if self._pattern is not None:
            # The next list has it again, or it was deleted.
            self._attachments.pop(attachment.topic, None)
        else:
            self._end(error)

    # --- called by the user ----------------------------------------------------------------------

    @property
    def topics(self) -> list[str]:
        """Full names of the topics that it is attached to or reattaching to."""
        return list(self._attachments)

    @property
    def at_end(self) -> bool:
        """True when all of its topics are terminated and everything in them is acknowledged. A pattern has no end."""
        return self._pattern is None and all(
            attachment.at_end for attachment in self._attachments.values()
        )

    @property
    def attachments(self) -> list[Attachment]:
        return list(self._attachments.values())

    @property
    def allowed(self) -> int:
        """Number of messages that may be delivered before ``allow`` permits more."""
        return self._allowed

    @property
    def has_queued(self) -> bool:
        """True when messages are queued that were not permitted."""
        return bool(self._queue)

    def allow(self, count: int) -> None:
        """Permit ``count`` more messages; some may be delivered before this returns."""
        self._allowed += count
        while self._queue and self._room > 0:
            self._deliver_queued()

    def hold(self) -> None:
        """Deliver nothing until ``go_on``, whatever is permitted."""
        self._held = True

    def go_on(self) -> None:
        """Undo ``hold``. Queued messages are delivered in runs of at most RUN_MESSAGES_MAX until the consumer is held
        again."""
        self._held = self.error is not None
        while self._queue and self._room > 0:
            self._deliver_queued()

    def acknowledge(self, message: Incoming | Given) -> None:
        """Acknowledge a message. A batch is acknowledged at the broker after all its messages are."""
        batch = message.batch
        if batch is not None:
            batch.left &= ~(1 << message.batch_index)
            if batch.left:
                return
        if message.chunks is not None:
            message.source.note_entries(message.position, message.chunks)
        self._acknowledge(message.source, message.position)

    def acknowledge_id(self, message_id: MessageId) -> bool:
        """Acknowledge a message delivered to an earlier consumer of the subscription.

        Return False when it cannot be named to the broker: one of a batch, or of one of several topics. Of a message in
        chunks that was not received here only the first and the last chunk are known; those between are acknowledged
        when the message can never become whole.
        """
        attachment = self._attachment_of(message_id)
        if attachment is None or message_id.batch_size > 1:
            return False
        _note_chunks(attachment, message_id)
        self._acknowledge(attachment, message_id.position)
        return True

    def _acknowledge(self, attachment: Attachment, position: Position) -> None:
        if self._unanswered is not None:
            self._unanswered.discard((attachment, position))
        if len(self._refused):
            self._refused.discard((attachment, position))
        if self._dead_letters is not None:
            self._dead_letters.discard((attachment, position))
        attachment.acknowledge(position)
        if attachment.acks >= ACKS_MAX:
            attachment.flush()
        elif self._flush is None:
            self.flush_soon()

    def refuse(self, message: Incoming | Given) -> None:
        """Have a message redelivered after the settings' delay, with the other messages of its batch."""
        if message.chunks is not None:
            message.source.note_entries(message.position, message.chunks)
        self._refuse(message.source, message.position)

    def refuse_id(self, message_id: MessageId) -> bool:
        """Refuse a message as ``acknowledge_id`` acknowledges one, also one of a batch."""
        attachment = self._attachment_of(message_id)
        if attachment is not None:
            _note_chunks(attachment, message_id)
            self._refuse(attachment, message_id.position)
        return attachment is not None

    def postpone(self, attachment: Attachment, position: Position) -> None:
        self._refuse(attachment, position)

    def _refuse(self, attachment: Attachment, position: Position) -> None:
        if self._unanswered is not None:
            self._unanswered.discard((attachment, position))
        self._refused.add((attachment, position))
        if len(self._refused) > REFUSED_MAX:
            self._refused.expire_all()

    def _attachment_of(self, message_id: MessageId) -> Attachment | None:
        """Return the only attachment that the message can be of; None when there are several."""
        candidates = list(self._attachments.values())
        if len(candidates) > 1:
            if len(self._topics) > 1 or self._pattern is not None:
                return None
            candidates = [
                candidate for candidate in candidates if candidate.partition == message_id.partition
            ]
        return candidates[0] if candidates else None

    def flush_soon(self) -> None:
        if self._flush is None:
            self._flush = self._loop.call_later(ACKS_AFTER_S, self.flush)

    def flush(self) -> None:
        """Send the gathered acknowledgements."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        for attachment in self._attachments.values():
            if attachment.acks:
                attachment.flush()

    def _redeliver(self, keys: list[Key]) -> None:
        by_attachment: dict[Attachment, list[Position]] = {}
        for attachment, position in keys:
            if self._dead_letters is not None and (attachment, position) in self._dead_letters:
                self.client.spawn("dead letter", self._publish_dead_letter((attachment, position)))
            else:
                by_attachment.setdefault(attachment, []).append(position)
        for attachment, positions in by_attachment.items():
            attachment.redeliver(positions)

    async def _publish_dead_letter(self, key: Key) -> None:
        """Publish a message redelivered too often to the dead letter topic, then acknowledge it; on failure have it
        redelivered."""
        assert self._dead_letters is not None
        attachment, position = key
        try:
            letters = await self._dead_letters.publish(key)
        except MagnetarError as error:
            log.warning("no dead letter of %s at %s: %s", attachment.topic, position, error)
            self._refuse(attachment, position)
        else:
            for letter in letters:
                if letter.chunks is not None:
                    attachment.note_entries(position, letter.chunks)
            self._acknowledge(attachment, position)

    async def unsubscribe(self) -> None:
        """Delete the subscription on all its topics. Raises MagnetarError when that is uncertain."""
        self._stop_following()
        await self._all(attachment.unsubscribe() for attachment in self._attachments.values())

    async def seek(
        self, *, position: Position | None = None, publish_ms: int | None = None
    ) -> None:
        """Move the subscription to an entry of its only topic, or to a time. Raises MagnetarError."""
        for attachment in self._attachments.values():
            self.detached(attachment)
        await self._all(
            attachment.seek(position=position, publish_ms=publish_ms)
            for attachment in self._attachments.values()
        )

    async def close(self) -> None:
        """Detach after sending acknowledgements; everything else is redelivered to other consumers. Raises nothing."""
        self._stop_following()
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        for delays in (self._refused, self._unanswered):
            if delays is not None:
                delays.close()
        self._queue.clear()
        self._allowed = 0
        await self._all(attachment.close() for attachment in self._attachments.values())
        if self._dead_letters is not None:
            await self._dead_letters.close()

    def _stop_following(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            self._follower = None

    async def _all(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run each of them to its end. Raises the first error."""
        ends = await asyncio.gather(*works, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end


def _note_chunks(attachment: Attachment, message_id: MessageId) -> None:
    if message_id.first_chunk is not None:
        ends = (message_id.first_chunk, message_id.position)
        attachment.note_entries(message_id.position, ends)
