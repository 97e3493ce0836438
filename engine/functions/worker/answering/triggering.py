"""A message that is published for a function, and the output that the function publishes for it."""

import asyncio
import base64
import binascii
from collections.abc import Sequence

from engine.base.budget import Budget
from engine.base.errors import InvalidRequest, MagnetarError, NotReady
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.client.client import PulsarClient
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_reader import TopicReader
from engine.client.message_ids import LATEST_ID, MessageId, MessageIdError
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import ProducerSettings, SendResult
from engine.client.producing.topic_producer import TopicProducer
from engine.functions.definitions import functions_pb2 as pb

INPUT_MESSAGE = "__pfn_input_msg_id__"
"""Property of an output: the id of the message that it is for, in base64 for URLs."""
QUEUED_MAX = 1 << 20


def input_topic(metadata: pb.FunctionMetaData, given: str) -> str:
    """Return the topic to publish to. Raises InvalidRequest with Apache's texts."""
    inputs = list(metadata.functionDetails.source.inputSpecs)
    if not given:
        if len(inputs) != 1:
            raise InvalidRequest("Function in trigger function has more than 1 input topics")
        return str(TopicName.parse(inputs[0]))
    wanted = str(TopicName.parse(given))
    if wanted not in [str(TopicName.parse(topic)) for topic in inputs]:
        raise InvalidRequest("Function in trigger function has unidentified topic")
    return wanted


async def trigger(
    client: PulsarClient, metadata: pb.FunctionMetaData, topic: str, data: bytes, timeout_s: float
) -> bytes:
    """Publish ``data`` and return the output; empty for a function without one.

    Raises InvalidRequest, NotReady when no output comes in time, MagnetarError.
    """
    target = input_topic(metadata, topic)
    output = metadata.functionDetails.sink.topic
    try:
        async with asyncio.timeout(timeout_s):
            if not output:
                await _publish(client, target, data)
                return b""
            return await _answer(client, target, data, str(TopicName.parse(output)))
    except TimeoutError as error:
        raise NotReady(f"The function gave no output within {timeout_s:g} s") from error


async def _answer(client: PulsarClient, topic: str, data: bytes, output: str) -> bytes:
    outputs: asyncio.Queue[Incoming] = asyncio.Queue()

    def received(messages: Sequence[Incoming]) -> None:
        for message in messages:
            outputs.put_nowait(message)
        reader.allow(len(messages))

    reader = await TopicReader.open_at(client, output, LATEST_ID, on_messages=received)
    try:
        reader.allow(1000)
        wanted = await _publish(client, topic, data)
        while True:
            message = await outputs.get()
            if _position(message.properties.get(INPUT_MESSAGE, "")) == wanted:
                return bytes(message.content or b"")
    finally:
        await reader.close()


def _position(text: str) -> Position | None:
    """Return the position in the property of an output; None for another text. Clients differ in the other fields."""
    try:
        return MessageId.parse(base64.urlsafe_b64decode(text)).position
    except (binascii.Error, MessageIdError):
        return None


async def _publish(client: PulsarClient, topic: str, data: bytes) -> Position:
    """Publish and return the message's position. Raises MagnetarError."""
    stored: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()

    def on_results(results: Sequence[SendResult]) -> None:
        if not stored.done():
            stored.set_result(results[0])

    producer = await TopicProducer.open(
        client,
        topic,
        ProducerSettings(),
        budget=Budget(QUEUED_MAX),
        on_results=on_results,
    )
    try:
        producer.send([OutgoingMessage(data)])
        result = await stored
    finally:
        await producer.close()
    if result.message_id is None:
        raise result.error or MagnetarError("the message was not stored")
    return result.message_id.position
