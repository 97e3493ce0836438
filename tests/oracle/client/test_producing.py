"""The official client reads what the engine's own producer sends alike from both brokers; keys go where Apache's
WebSocket service sends them."""

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

import pulsar
from websockets.sync.client import connect

from engine.base.budget import Budget
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.client.client import PulsarClient
from engine.client.message_ids import MessageId
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Hashing, key_hash
from engine.client.producing.partition_producer import BatchSettings, ProducerSettings, SendResult
from engine.client.producing.topic_producer import TopicProducer
from engine.net.network import LoopNetwork
from tests.oracle.conftest import Side

NS = "persistent://public/default"
LARGE = bytes(range(256)) * 30_000
FORMS = {
    "single": ProducerSettings(),
    **{f"single-{kind}": ProducerSettings(compression=kind) for kind in range(1, 5)},
    **{
        f"batch-{kind}": ProducerSettings(compression=kind, batching=BatchSettings(7))
        for kind in range(5)
    },
    "chunks": ProducerSettings(chunking=True),
    "chunks-2": ProducerSettings(chunking=True, compression=2, name="chunker"),
}
KEYS = [*(f"key-{number}" for number in range(40)), "", "ü", "\U0001f600"]


async def publish(
    url: str, topic: str, settings: ProducerSettings, messages: list[OutgoingMessage]
) -> list[SendResult]:
    async def brokers() -> Sequence[str]:
        return [url]

    client = PulsarClient(
        network=LoopNetwork(), clock=SystemClock(), entropy=RandomEntropy(), brokers=brokers
    )
    results: list[SendResult] = []
    producer = await TopicProducer.open(
        client, topic, settings, budget=Budget(1 << 30), on_results=results.extend
    )
    producer.send(messages)
    async with asyncio.timeout(60):
        while len(results) < len(messages):
            await asyncio.sleep(0.01)
    await producer.close()
    await client.close()
    return results


def messages(form: str) -> list[OutgoingMessage]:
    made = [
        OutgoingMessage(
            b"%d" % number * 20,
            number,
            key=f"k{number % 3}" if number % 2 else None,
            properties={"number": str(number), "ü": "ö"},
            event_ms=1_700_000_000_000 + number,
        )
        for number in range(20)
    ]
    return [*made, OutgoingMessage(LARGE, "large")] if form.startswith("chunks") else made


def read(client: pulsar.Client, topic: str, count: int) -> list[Any]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    messages = []
    for _ in range(count):
        message = reader.read_next(30_000)
        messages.append(
            (
                message.data(),
                message.properties(),
                message.partition_key(),
                message.event_timestamp(),
                message.message_id().batch_index(),
            )
        )
    reader.close()
    return messages


def tell(side: Side) -> list[Any]:
    """Return what happened, in values that must be equal on both sides."""
    story: list[Any] = []
    client = pulsar.Client(side.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        for form, settings in FORMS.items():
            topic, sent = f"{NS}/producing-{form}", messages(form)
            results = asyncio.run(publish(side.url, topic, settings, sent))
            story.append((form, [(result.token, result.error) for result in results]))
            stored = read(client, topic, len(sent))
            assert [message[0] for message in stored] == [message.payload for message in sent]
            story += stored
    finally:
        client.close()
    return story


def test_the_official_client_reads_alike_from_both(sides: tuple[Side, Side]) -> None:
    theirs, ours = (tell(side) for side in sides)
    assert ours == theirs


def test_keys_go_where_apache_s_websocket_service_sends_them(sides: tuple[Side, Side]) -> None:
    apache, _ = sides
    assert apache.put("/admin/v2/persistent/public/default/producing-keys/partitions", 5) == 204
    address = apache.http.replace("http:", "ws:")
    for hashing in Hashing:
        path = (
            f"/ws/v2/producer/{NS.replace('://', '/')}/producing-keys?hashingScheme={hashing.value}"
        )
        with connect(f"{address}{path}") as socket:
            for key in KEYS:
                socket.send(json.dumps({"payload": "eA==", "key": key}))
                written = base64.b64decode(json.loads(socket.recv(30))["messageId"])
                message_id = MessageId.parse(written)
                assert message_id.partition == key_hash(hashing, key) % 5
                assert message_id.serialized() == written
