"""A reader: messages from a position on, under a subscription of its own that goes with it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

from engine.base.errors import MagnetarError, MisuseError
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_consumer import NAME_BYTES, TopicConsumer
from engine.client.message_ids import EARLIEST_ID, LATEST_ID, MessageId
from engine.client.raw_consumer import EXCLUSIVE


class TopicReader(TopicConsumer):
    """``open_at`` it. What was given is acknowledged by itself; after a lost connection it goes on behind that."""

    @classmethod
    async def open_at(
        cls,
        client: PulsarClient,
        topic: str,
        start: MessageId,
        *,
        on_messages: Callable[[Sequence[Incoming]], None],
        on_end: Callable[[MagnetarError], None] = lambda error: None,
        inclusive: bool = False,
        name: str = "",
        queue_size: int = 1000,
        settings: ConsumerSettings | None = None,
    ) -> Self:
        """From behind ``start``, or from it on when ``inclusive``. A partitioned topic has no other start than its
        earliest and its latest message. ``settings``: what else there is to say.

        Raises MisuseError for a start that is none, and as ``TopicConsumer.open``. Cancel-safe.
        """
        settings = replace(
            settings or ConsumerSettings(""),
            subscription=f"reader-{client.entropy.hex(NAME_BYTES)}",
            kind=EXCLUSIVE,
            name=name,
            durable=False,
            start=start,
            inclusive=inclusive,
            acks_follow=True,
            queue_size=queue_size,
        )
        made = await cls.open(client, [topic], settings, on_messages=on_messages, on_end=on_end)
        if len(made.topics) > 1 and start not in (EARLIEST_ID, LATEST_ID):
            await made.close()
            raise MisuseError(
                "start: a partitioned topic is read from its earliest or latest message"
            )
        return made

    async def has_message_available(self) -> bool:
        """Whether a message is there behind the last that was given. Raises MagnetarError."""
        return self.has_queued or any([await one.has_more() for one in self.attachments])
