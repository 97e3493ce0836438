"""The engine's own client finds Apache's broker as it finds ours: what it sends is stored, read and acknowledged."""

import asyncio

import pytest

from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.client.raw_reader import RawReader
from engine.net.network import LoopNetwork
from engine.wire.batches import Message, pack_entry, unpack_entry
from engine.wire.errors import REFUSALS, ServerError
from engine.wire.events import Delivered
from tests.oracle.conftest import Side

TOPIC = "persistent://public/default/internal-client"


def entry(*values: bytes) -> bytes:
    return pack_entry([Message(value) for value in values], producer_name="p", publish_ms=1)


async def tell(url: str) -> list[object]:
    """Return what happened, in values that must be equal on both sides."""
    links = Links(LoopNetwork(), LinkSettings(), BrokerLink)
    link = await links.owner(TOPIC, url)
    story: list[object] = [await links.partitions(TOPIC, url), link.max_message_size]
    producer = await RawProducer.open(link, TOPIC, name="mine")
    story += [producer.name, producer.last_sequence_id]
    producer.send(range(99), [entry(b"%d" % i) for i in range(99)])
    producer.send([99], [entry(b"a", b"b", b"c")], [3])
    await producer.drained()
    reader = await RawReader.open(link, TOPIC, name="reader", window=10)
    delivered = await reader.rest()
    story += [unpack_entry(message.entry).messages[0].value for message in delivered]
    middle = await RawReader.open(link, TOPIC, name="middle", start=delivered[60].position)
    story.append(len(await middle.rest()))
    taken: list[Delivered] = []
    ends: list[str] = []
    consumer = await RawConsumer.open(
        link,
        TOPIC,
        "s",
        SHARED,
        on_messages=taken.extend,
        on_end=lambda error: ends.append(type(error).__name__),
        initial=FROM_EARLIEST,
    )
    consumer.flow(1000)
    async with asyncio.timeout(30):
        while len(taken) < 100:
            await asyncio.sleep(0.01)
    await consumer.acknowledged([message.position for message in taken[:50]])
    story.append((await consumer.last_position()) == delivered[-1].position)
    await consumer.seek(position=taken[20].position)
    async with asyncio.timeout(30):
        while not ends:
            await asyncio.sleep(0.01)
    story += ends
    with pytest.raises(REFUSALS[ServerError.InvalidTopicName]):
        await links.owner("persistent://no", url)
    await producer.close()
    await links.close()
    return story


def test_both_brokers_send_the_same_commands(sides: tuple[Side, Side]) -> None:
    theirs, ours = (asyncio.run(tell(side.url)) for side in sides)
    assert ours == theirs
