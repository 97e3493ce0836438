"""Messages redelivered too often: kept until they are due again, then published to the dead letter topic."""

import asyncio
from collections.abc import Sequence
from typing import Any

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.client.client import PulsarClient, partition_names
from engine.client.consuming.attachment import Attachment, ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.errors import NoAnswerError
from engine.client.producing.outgoing import CHUNK_BYTES_MIN
from engine.client.raw_producer import RawProducer
from engine.wire.batches import Message, pack_entry

CHUNK_FIELDS_BYTES = 64
"""Bytes of the metadata of a chunk, without the message's uuid."""
Key = tuple[Attachment, Position]


class DeadLetters:
    """Dead letters of one consumer. A letter has the message's value, key, properties and event time, and names its
    origin."""

    def __init__(self, client: PulsarClient, settings: ConsumerSettings) -> None:
        self._client = client
        self._settings = settings
        self._kept: dict[Key, list[Incoming]] = {}
        self._producers: dict[str, RawProducer] = {}
        self._sending = asyncio.Lock()
        self._sent = 0

    def sort_out(self, messages: list[Incoming]) -> tuple[list[Incoming], list[Incoming]]:
        """Return the messages to deliver and those redelivered too often; keep messages delivered for the last time."""
        limit = self._settings.redeliveries_max
        if not any(message.redelivery_count >= limit for message in messages):
            return messages, []
        deliverable: list[Incoming] = []
        too_often: list[Incoming] = []
        for message in messages:
            if message.redelivery_count >= limit:
                kept = self._kept.setdefault((message.source, message.position), [])
                kept[:] = [
                    *(other for other in kept if other.batch_index != message.batch_index),
                    message,
                ]
            (too_often if message.redelivery_count > limit else deliverable).append(message)
        return deliverable, too_often

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def discard(self, key: Key) -> None:
        """Drop an acknowledged entry."""
        self._kept.pop(key, None)

    def forget(self, attachment: Attachment) -> None:
        """Drop the entries of an attachment, all of which are redelivered."""
        for key in [key for key in self._kept if key[0] is attachment]:
            del self._kept[key]

    async def publish(self, key: Key) -> list[Incoming]:
        """Publish the messages of an entry as letters and return them. Cancel-safe.

        Raises MagnetarError; some of them may be stored then.
        """
        letters = self._kept.pop(key, [])
        async with self._sending:  # one producer, and its receipts in order
            for letter in letters:
                await self._publish(letter)
        return letters

    async def _publish(self, letter: Incoming) -> None:
        base = str(TopicName.parse(letter.topic).partitioned)
        topic = self._settings.dead_letters or f"{base}-{self._settings.subscription}-DLQ"
        producer = await self._client.patiently(
            lambda: self._producer(topic), timeout_s=self._client.operation_timeout_s
        )
        self._sent += 1
        self._send(producer, letter, base)
        try:
            async with asyncio.timeout(self._client.operation_timeout_s):
                await producer.drained()
        except TimeoutError as error:
            raise NoAnswerError(f"{topic} gave no receipt in time") from error

    def _send(self, producer: RawProducer, letter: Incoming, base: str) -> None:
        """Send a letter, in chunks when it is above the broker's limit. Raises MessageTooLargeError."""
        entry = self._entry(letter, base, producer.name, letter.content, {})
        content, bytes_max = letter.content or b"", producer.link.max_message_size
        if len(entry) <= bytes_max or letter.encrypted:
            producer.send([self._sent], [entry])
            return
        uuid = f"{producer.name}-{self._sent}"
        room = bytes_max - (len(entry) - len(content)) - len(uuid) - CHUNK_FIELDS_BYTES
        step = max(room, CHUNK_BYTES_MIN)
        starts = range(0, len(content), step)
        for index, start in enumerate(starts):
            chunk_fields = {
                "uuid": uuid,
                "num_chunks_from_msg": len(starts),
                "total_chunk_msg_size": len(content),
                "chunk_id": index,
            }
            part = content[start : start + step]
            producer.send_chunk(
                self._sent, self._entry(letter, base, producer.name, part, chunk_fields)
            )

    async def _producer(self, topic: str) -> RawProducer:
        """Return a producer on the topic, or on one of its partitions for all letters of this consumer."""
        producer = self._producers.get(topic)
        if producer is None or producer.error is not None:
            names = partition_names(topic, await self._client.partitions(topic))
            partition = names[self._client.entropy.below(len(names))]
            link = await self._client.owner(partition)
            producer = self._producers[topic] = await RawProducer.open(link, partition)
        return producer

    def _entry(
        self,
        letter: Incoming,
        topic: str,
        producer_name: str,
        content: bytes | None,
        extra: dict[str, Any],
    ) -> bytes:
        position, partition, index, _, _ = letter.message_id
        origin = f"{position}:{partition}" + (f":{index}" if index >= 0 else "")
        properties = letter.properties
        origin_properties = {
            "REAL_TOPIC": topic,
            "REAL_SUBSCRIPTION": self._settings.subscription,
            "ORIGIN_MESSAGE_ID": origin,
            "ORIGIN_MESSAGE_IDY_TIME": origin,
        }
        message = Message(
            content,
            letter.key,
            letter.key_is_base64,
            letter.ordering_key,
            properties
            | {key: value for key, value in origin_properties.items() if key not in properties},
            letter.event_ms,
            self._sent,
        )
        if letter.encrypted:
            extra = extra | _how_encrypted(letter)
        return pack_entry(
            [message],
            producer_name=producer_name,
            publish_ms=self._client.clock.wall_ms(),
            extra=extra,
        )

    async def close(self) -> None:
        """Drop all letters, which are redelivered as messages. Raises nothing."""
        self._kept.clear()
        for producer in self._producers.values():
            producer.leave()


def _how_encrypted(letter: Incoming) -> dict[str, Any]:
    """Return the metadata fields that a holder of the keys needs."""
    names: Sequence[str] = (
        "encryption_keys",
        "encryption_algo",
        "encryption_param",
        "compression",
        "uncompressed_size",
        "num_messages_in_batch",
    )
    metadata = letter.metadata
    return {field.name: value for field, value in metadata.ListFields() if field.name in names}
