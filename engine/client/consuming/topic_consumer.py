"""A consumer of a topic, of its partitions, of several topics or of all that match a pattern: messages in runs,
acknowledgements gathered, everything that is not acknowledged given again."""

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
"""How long an acknowledgement may wait for others."""
LISTED_EVERY_S = 60.0
"""How often new partitions, and topics that match a pattern, are looked for."""
RUN_MESSAGES_MAX = 100
"""Of those that waited, so that the user may say in between that it has enough."""
NAME_BYTES = 5
REFUSED_MAX = 10_000
"""Messages refused that wait for their delay; with one more all of them are asked for at once."""
Key = tuple[Attachment, Position]
"""A message: of one that came in chunks the position of the last."""


class TopicConsumer:
    """``open`` it. ``on_messages`` is called with runs of messages, no more of them than ``allow`` has allowed.

    Everything runs on the event loop that opened it. Whatever was not acknowledged comes again when a connection is
    lost, a topic moves, or this consumer leaves. ``on_end`` is called once when a broker refuses for good.
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
        self._refused: Delays[Key] = Delays(settings.nack_delay_s, self._give_again)
        self._unanswered: Delays[Key] | None = None
        if settings.ack_timeout_s:
            self._unanswered = Delays(settings.ack_timeout_s, self._give_again)
        self._letters: DeadLetters | None = None
        if settings.redeliveries_max:
            self._letters = DeadLetters(client, settings)

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
        """Attached to all of ``topics``, full names; with ``pattern`` the only one is a regular expression behind its
        domain, tenant and namespace.

        Raises MagnetarError, once it left what it was attached to. Cancel-safe.
        """
        made = cls(client, settings, on_messages, on_end)
        made._topics = topics
        if pattern:
            made._pattern = TopicName.parse(topics[0])
        try:
            await made._attach(await made._listed())
        except BaseException:
            await asyncio.shield(made.close())
            raise
        if pattern or set(made._attachments) != set(topics):
            made._follower = client.spawn(
                "follow topics", restarting("follow topics", made._follow)
            )
        return made

    # --- topics ----------------------------------------------------------------------------------

    async def _listed(self) -> list[str]:
        """Full names of topics that are none of partitions. Raises MagnetarError."""
        client, pattern = self.client, self._pattern
        timeout_s = client.operation_timeout_s
        if pattern is not None:
            ask = partial(client.topics_matching, pattern)
            return await client.patiently(ask, timeout_s=timeout_s)
        found: list[str] = []
        for topic in self._topics:
            count = await client.patiently(partial(client.partitions, topic), timeout_s=timeout_s)
            found += partition_names(topic, count)
        return found

    async def _attach(self, topics: Sequence[str], *, initial: int | None = None) -> None:
        """To further topics, all or none. Raises MagnetarError; cancel-safe."""
        made = {
            topic: Attachment(self.client, self, self.settings, topic, initial=initial)
            for topic in topics
        }
        share = max(1, self.settings.queue_size // max(1, len(made) + len(self._attachments)))
        for attachment in made.values():
            attachment.queue_size = share
        self._attachments |= made
        try:
            async with asyncio.TaskGroup() as group:
                for attachment in made.values():
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
                listed = await self._listed()
                await self.follow(listed)
            except MagnetarError as error:
                log.info("topics of subscription %s: %s", self.settings.subscription, error)

    async def follow(self, listed: Sequence[str]) -> None:
        """Leave the topics that are not ``listed``, and come to new ones, from their first message on. Raises
        MagnetarError when one of these refuses for now: it is tried again with the next list."""
        if self._pattern is not None:
            for topic in [topic for topic in self._attachments if topic not in set(listed)]:
                gone = self._attachments.pop(topic)
                self.detached(gone)
                await gone.close()
        new = [topic for topic in listed if topic not in self._attachments]
        try:
            await self._attach(new, initial=FROM_EARLIEST)
        except BaseException:
            for topic in new:
                if self._attachments[topic].raw is None:
                    await self._attachments.pop(topic).close()
            raise

    # --- what attachments bring ------------------------------------------------------------------

    def came(self, attachment: Attachment, messages: list[Incoming]) -> None:
        if self._letters is not None:
            messages, too_often = self._letters.sort_out(messages)
            self._give_again([(one.source, one.position) for one in too_often])
        if not self._queue and len(messages) <= self._room:
            self._give(messages)
            return
        for one in messages:
            self._queued_bytes += one.size
        attachment.queued += len(messages)
        self._queue += messages
        self.full = self._queued_bytes >= QUEUED_BYTES_MAX
        while self._queue and self._room > 0:
            self._give_queued()

    @property
    def _room(self) -> int:
        return 0 if self._held else self._allowed

    def _give_queued(self) -> None:
        queue = self._queue
        count = min(self._room, RUN_MESSAGES_MAX)
        run = queue[:count]
        del queue[:count]
        sources: dict[Attachment, None] = {}
        for one in run:
            source = one.source
            source.queued -= 1
            self._queued_bytes -= one.size
            sources[source] = None
        self._give(run)
        if self.full and self._queued_bytes < QUEUED_BYTES_MAX // 2:
            self.full = False
            sources = dict.fromkeys(self._attachments.values())
        if not self.full:
            for source in sources:
                source.refill()

    def _give(self, run: list[Incoming]) -> None:
        if not run:
            return
        self._allowed -= len(run)
        if self._unanswered is not None:
            for one in run:
                self._unanswered.add((one.source, one.position))
        if not self.settings.durable:
            for one in run:
                one.source.follow(one)
            if self.settings.acks_follow:
                self.flush_soon()
        try:
            self._on_messages(run)
        except Exception as error:  # of this user: others share the connection
            log.exception("messages of %s could not be taken", self.settings.subscription)
            self._end(MisuseError(f"messages could not be taken: {error!r}"))

    def _end(self, error: MagnetarError) -> None:
        """Nothing more is given."""
        if self.error is None:
            self.error, self._held = error, True
            self._on_end(error)

    def detached(self, attachment: Attachment) -> None:
        if attachment.queued:
            self._queue = [one for one in self._queue if one.source is not attachment]
            self._queued_bytes = sum(one.size for one in self._queue)
            attachment.queued = 0
            self.full = self._queued_bytes >= QUEUED_BYTES_MAX
        for delays in (self._refused, self._unanswered):
            if delays is not None and len(delays):
                delays.keep(lambda key: key[0] is not attachment)
        if self._letters is not None:
            self._letters.forget(attachment)

    def failed(self, attachment: Attachment, error: MagnetarError) -> None:
        if self._pattern is not None:
            self._attachments.pop(attachment.topic, None)  # it is listed again, or gone
        else:
            self._end(error)

    # --- what the user does ----------------------------------------------------------------------

    @property
    def topics(self) -> list[str]:
        """Full names of those attached to, or being attached to again."""
        return list(self._attachments)

    @property
    def at_end(self) -> bool:
        """All of its topics are sealed, and everything in them is acknowledged. A pattern has no end."""
        return self._pattern is None and all(one.at_end for one in self._attachments.values())

    @property
    def attachments(self) -> list[Attachment]:
        return list(self._attachments.values())

    @property
    def has_queued(self) -> bool:
        """Messages are here that were not allowed."""
        return bool(self._queue)

    def allow(self, count: int) -> None:
        """The user takes ``count`` more messages; some may be given before this returns."""
        self._allowed += count
        while self._queue and self._room > 0:
            self._give_queued()

    def hold(self) -> None:
        """Give nothing for now, whatever is allowed."""
        self._held = True

    def go_on(self) -> None:
        """Undo ``hold``. What waits is given in runs of at most RUN_MESSAGES_MAX, as long as nobody holds again."""
        self._held = self.error is not None
        while self._queue and self._room > 0:
            self._give_queued()

    def acknowledge(self, message: Incoming | Given) -> None:
        """It does not come again. Of a batch, nothing is told to the broker before all of it is acknowledged."""
        batch = message.batch
        if batch is not None:
            batch.left &= ~(1 << message.batch_index)
            if batch.left:
                return
        if message.chunks is not None:
            message.source.note_entries(message.position, message.chunks)
        self._acknowledge(message.source, message.position)

    def acknowledge_id(self, message_id: MessageId) -> bool:
        """Of a message given to an earlier consumer of the subscription; False when that cannot be told to the broker:
        it was one of a batch, or of several topics. Of one in chunks that did not come here only the first and the last
        are known: those between are acknowledged once it is seen that they never become whole."""
        found = self._attachment_of(message_id)
        if found is None or message_id.batch_size > 1:
            return False
        _note_chunks(found, message_id)
        self._acknowledge(found, message_id.position)
        return True

    def _acknowledge(self, attachment: Attachment, position: Position) -> None:
        if self._unanswered is not None:
            self._unanswered.discard((attachment, position))
        if len(self._refused):
            self._refused.discard((attachment, position))
        if self._letters is not None:
            self._letters.discard((attachment, position))
        attachment.acknowledge(position)
        if attachment.acks >= ACKS_MAX:
            attachment.flush()
        elif self._flush is None:
            self.flush_soon()

    def refuse(self, message: Incoming | Given) -> None:
        """It comes again after the settings' delay, with the rest of its batch."""
        if message.chunks is not None:
            message.source.note_entries(message.position, message.chunks)
        self._refuse(message.source, message.position)

    def refuse_id(self, message_id: MessageId) -> bool:
        """As ``acknowledge_id``, but also of one of a batch."""
        found = self._attachment_of(message_id)
        if found is not None:
            _note_chunks(found, message_id)
            self._refuse(found, message_id.position)
        return found is not None

    def let_go(self, attachment: Attachment, position: Position) -> None:
        self._refuse(attachment, position)

    def _refuse(self, attachment: Attachment, position: Position) -> None:
        if self._unanswered is not None:
            self._unanswered.discard((attachment, position))
        self._refused.add((attachment, position))
        if len(self._refused) > REFUSED_MAX:
            self._refused.hurry()

    def _attachment_of(self, message_id: MessageId) -> Attachment | None:
        """The only one that it can be of."""
        found = list(self._attachments.values())
        if len(found) > 1:
            if len(self._topics) > 1 or self._pattern is not None:
                return None
            found = [one for one in found if one.partition == message_id.partition]
        return found[0] if found else None

    def flush_soon(self) -> None:
        if self._flush is None:
            self._flush = self._loop.call_later(ACKS_AFTER_S, self.flush)

    def flush(self) -> None:
        """Send the acknowledgements that were gathered."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        for attachment in self._attachments.values():
            if attachment.acks:
                attachment.flush()

    def _give_again(self, keys: list[Key]) -> None:
        by_attachment: dict[Attachment, list[Position]] = {}
        for attachment, position in keys:
            if self._letters is not None and (attachment, position) in self._letters:
                self.client.spawn("dead letter", self._bury((attachment, position)))
            else:
                by_attachment.setdefault(attachment, []).append(position)
        for attachment, positions in by_attachment.items():
            attachment.redeliver(positions)

    async def _bury(self, key: Key) -> None:
        """Publish what came too often elsewhere, then acknowledge it; or let it come again."""
        assert self._letters is not None
        attachment, position = key
        try:
            letters = await self._letters.publish(key)
        except MagnetarError as error:
            log.warning("no dead letter of %s at %s: %s", attachment.topic, position, error)
            self._refuse(attachment, position)
        else:
            for letter in letters:
                if letter.chunks is not None:
                    attachment.note_entries(position, letter.chunks)
            self._acknowledge(attachment, position)

    async def unsubscribe(self) -> None:
        """End the subscription, on all its topics. Raises MagnetarError when that is not sure."""
        self._stop_following()
        await self._all(one.unsubscribe() for one in self._attachments.values())

    async def seek(
        self, *, position: Position | None = None, publish_ms: int | None = None
    ) -> None:
        """Move the subscription to an entry of its only topic, or to a time. Raises MagnetarError."""
        for attachment in self._attachments.values():
            self.detached(attachment)
        await self._all(
            one.seek(position=position, publish_ms=publish_ms) for one in self._attachments.values()
        )

    async def close(self) -> None:
        """Leave; what was acknowledged is told, everything else comes again, to whoever is there. Raises nothing."""
        self._stop_following()
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        for delays in (self._refused, self._unanswered):
            if delays is not None:
                delays.close()
        self._queue.clear()
        self._allowed = 0
        await self._all(one.close() for one in self._attachments.values())
        if self._letters is not None:
            await self._letters.close()

    def _stop_following(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            self._follower = None

    async def _all(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Each of them to its end. Raises the first error."""
        ends = await asyncio.gather(*works, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end


def _note_chunks(attachment: Attachment, message_id: MessageId) -> None:
    if message_id.first_chunk is not None:
        ends = (message_id.first_chunk, message_id.position)
        attachment.note_entries(message_id.position, ends)
