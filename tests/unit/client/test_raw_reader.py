"""A reader gives all entries in order, asks for more in time, and leaves nothing behind."""

import asyncio

import pytest

from engine.client.errors import LostError
from engine.client.raw_reader import RawReader, messages_in
from engine.wire.batches import Message, pack_entry
from engine.wire.events import Delivered
from tests.support.broker_bench import NAME, link_to, served

pytestmark = pytest.mark.virtual_time


async def test_all_that_a_topic_holds_and_then_what_comes() -> None:
    async with served() as (bench, _, url):
        link = await link_to(url)
        empty = await RawReader.open(link, NAME.full, name="empty")
        assert await empty.rest() == []
        await bench.publish(95)
        reader = await RawReader.open(link, NAME.full, name="reader", window=10)
        found = await reader.rest()
        assert len(found) == 95
        assert found[-1].position == bench.topic.log.last_confirmed
        assert [one.position for one in found] == sorted(one.position for one in found)
        later = asyncio.ensure_future(reader.next())
        await bench.publish(1)
        assert (await later)[0].position == bench.topic.log.last_confirmed
        middle = await RawReader.open(link, NAME.full, name="m", start=found[90].position)
        assert (await middle.rest())[-1].position == bench.topic.log.last_confirmed
        waiting = asyncio.ensure_future(reader.next())
        await asyncio.sleep(0)
        link.abort()
        with pytest.raises(LostError):
            await waiting


@pytest.mark.parametrize(
    ("messages", "ack_set", "expected"), [(1, [], 1), (7, [], 7), (7, [0b101], 2), (64, [-1], 64)]
)
def test_permits_are_spent_for_the_messages_that_are_due(
    messages: int, ack_set: list[int], expected: int
) -> None:
    packed = pack_entry([Message(b"v")] * messages, producer_name="p", publish_ms=1)
    assert messages_in([Delivered(1, (1, 1), 0, ack_set, packed)]) == expected  # type: ignore[arg-type]
