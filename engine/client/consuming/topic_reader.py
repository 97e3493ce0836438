"""A reader: messages from a position on, under a subscription of its own that is deleted with it."""

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
    """A reader made by ``open_at``. Delivered messages are acknowledged automatically; after a lost connection it
    resumes behind them."""

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
        """Open behind ``start``, or at it when ``inclusive``. ``settings``: all other settings.

        A partitioned topic can start at its earliest or latest message only. Raises MisuseError for another start, and
        as ``TopicConsumer.open``. Cancel-safe.
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
        reader = await cls.open(client, [topic], settings, on_messages=on_messages, on_end=on_end)
        if len(reader.topics) > 1 and start not in (EARLIEST_ID, LATEST_ID):
            await reader.close()
            raise MisuseError(
                "start: a partitioned topic is read from its earliest or latest message"
            )
        return reader

    async def has_message_available(self) -> bool:
        """Return whether there is a message behind the last one delivered. Raises MagnetarError."""
        return self.has_queued or any(
            [await attachment.has_more() for attachment in self.attachments]
        )
