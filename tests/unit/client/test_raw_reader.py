"""A reader returns all entries in order, sends permits in time, and leaves no subscription behind."""

import asyncio

import pytest

from engine.client.errors import LostError
from engine.client.raw_reader import RawReader, messages_in
from engine.wire.batches import Message, pack_entry
from engine.wire.events import Delivered
from tests.support.broker_bench import NAME, link_to, served

pytestmark = pytest.mark.virtual_time


async def test_a_reader_returns_stored_and_then_new_messages() -> None:
    async with served() as (bench, _, url):
        link = await link_to(url)
        empty = await RawReader.open(link, NAME.full, name="empty")
        assert await empty.rest() == []
        await bench.publish(95)
        reader = await RawReader.open(link, NAME.full, name="reader", window=10)
        messages = await reader.rest()
        assert len(messages) == 95
        assert messages[-1].position == bench.topic.log.last_confirmed
        assert [message.position for message in messages] == sorted(
            message.position for message in messages
        )
        later = asyncio.ensure_future(reader.next())
        await bench.publish(1)
        assert (await later)[0].position == bench.topic.log.last_confirmed
        middle = await RawReader.open(link, NAME.full, name="m", start=messages[90].position)
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
