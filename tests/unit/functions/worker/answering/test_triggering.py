"""A trigger publishes to an input of the function and returns the output that is for this message."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence

import pytest

from engine.base.budget import Budget
from engine.base.errors import InvalidRequest, NotReady
from engine.client.client import PulsarClient
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_reader import TopicReader
from engine.client.message_ids import EARLIEST_ID
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import ProducerSettings
from engine.client.producing.topic_producer import TopicProducer
from engine.functions.worker.answering.triggering import INPUT_MESSAGE
from tests.support.functions.several_workers import NAMESPACE, SeveralWorkers, details, on
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

OUTPUT = f"persistent://{NAMESPACE}/f-out"


@pytest.fixture
async def workers() -> AsyncIterator[SeveralWorkers]:
    made = SeveralWorkers(function_trigger_timeout_ms="2000")
    await made.start(1)
    await until(lambda: made.workers[0].leads)
    try:
        yield made
    finally:
        await made.close()


async def shouting(client: PulsarClient, topic: str) -> None:
    """Answer each message as a function would, behind an answer to another message."""
    producer = await TopicProducer.open(
        client, OUTPUT, ProducerSettings(), budget=Budget(1 << 20), on_results=lambda results: None
    )

    def answer(messages: Sequence[Incoming]) -> None:
        for message in messages:
            name = base64.urlsafe_b64encode(message.id_bytes[:4]).decode()
            other = base64.urlsafe_b64encode(b"\x08\x63\x10\x01").decode()
            assert message.content is not None
            producer.send(
                [
                    OutgoingMessage(b"another's", properties={INPUT_MESSAGE: other}),
                    OutgoingMessage(b"no property"),
                    OutgoingMessage(message.content.upper(), properties={INPUT_MESSAGE: name}),
                ]
            )

    reader = await TopicReader.open_at(client, topic, EARLIEST_ID, on_messages=answer)
    reader.allow(1000)


async def test_the_output_of_the_message_is_returned(workers: SeveralWorkers) -> None:
    await workers.client.create(on("f"), details("f", output=OUTPUT), "builtin://x")
    client = workers.workers[0].worker.client
    await shouting(client, f"persistent://{NAMESPACE}/f-in")
    assert await workers.client.trigger(on("f"), "", b"hi") == b"HI"
    assert await workers.client.trigger(on("f"), f"{NAMESPACE}/f-in", b"ho") == b"HO"


async def test_without_an_output_the_answer_is_empty(workers: SeveralWorkers) -> None:
    await workers.client.create(on("f"), details("f"), "builtin://x")
    assert await workers.client.trigger(on("f"), "", b"hi") == b""


async def test_a_function_that_gives_no_output_in_time_is_not_ready(
    workers: SeveralWorkers,
) -> None:
    await workers.client.create(on("f"), details("f", output=OUTPUT), "builtin://x")
    before = asyncio.get_running_loop().time()
    with pytest.raises(NotReady, match="no output within 2 s"):
        await workers.client.trigger(on("f"), "", b"hi")
    assert asyncio.get_running_loop().time() - before < 5


async def test_the_topic_must_be_an_input(workers: SeveralWorkers) -> None:
    two = details("f", output=OUTPUT)
    two.source.inputSpecs["persistent://public/default/other"].SetInParent()
    await workers.client.create(on("f"), two, "builtin://x")
    with pytest.raises(InvalidRequest, match="has more than 1 input topics"):
        await workers.client.trigger(on("f"), "", b"hi")
    with pytest.raises(InvalidRequest, match="has unidentified topic"):
        await workers.client.trigger(on("f"), "public/default/third", b"hi")
