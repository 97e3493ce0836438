"""Readers follow a topic from a position and leave no subscription behind."""

from collections.abc import AsyncIterator

import pytest

from engine.base.errors import MisuseError
from engine.client.client import PulsarClient
from engine.client.consuming.topic_reader import TopicReader
from engine.client.message_ids import EARLIEST_ID, LATEST_ID, MessageId
from tests.support.broker_bench import NAME, Bench
from tests.unit.client.consuming.client_bench import Publisher, Taken, client_of, until

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def bench() -> AsyncIterator[tuple[Bench, PulsarClient]]:
    async with client_of() as made:
        yield made


async def test_it_reads_from_its_start_and_knows_whether_there_is_more(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    for number in range(5):
        await publisher.entry(b"%d" % number)
    taken = Taken()
    reader = await TopicReader.open_at(client, NAME.full, EARLIEST_ID, on_messages=taken)
    assert await reader.has_message_available()
    reader.allow(4)
    await until(lambda: len(taken.messages) == 4)
    assert await reader.has_message_available()
    reader.allow(4)
    await until(lambda: len(taken.messages) == 5)
    assert not await reader.has_message_available()
    await reader.close()
    third = taken.messages[2].message_id
    starts: list[tuple[MessageId, bool, list[bytes]]] = [
        (third, False, [b"3", b"4"]),
        (third, True, [b"2", b"3", b"4"]),
        (LATEST_ID, False, []),
    ]
    for start, inclusive, values in starts:
        more = Taken()
        reader = await TopicReader.open_at(
            client, NAME.full, start, on_messages=more, inclusive=inclusive
        )
        assert await reader.has_message_available() == bool(values)
        reader.allow(100)
        await until(lambda more=more, values=values: more.values == values)
        await reader.close()
    await until(lambda: not broker.topic.subscriptions)


async def test_it_reaches_the_end_of_a_terminated_topic(bench: tuple[Bench, PulsarClient]) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    await publisher.entry(b"a", b"b")
    taken = Taken()
    reader = await TopicReader.open_at(client, NAME.full, EARLIEST_ID, on_messages=taken)
    await broker.topic.terminate()
    reader.allow(1)
    await until(lambda: taken.messages)
    assert not reader.at_end
    reader.allow(1)
    await until(lambda: reader.at_end)
    await reader.close()


async def test_a_partitioned_topic_has_no_one_position(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, client = bench

    async def two(topic: object, *, allow_create: bool) -> int:
        return 2

    monkeypatch.setattr(broker.everything, "partitions", two)
    publishers = [await Publisher.to(client, NAME.partition_at(index).full) for index in range(2)]
    for index, publisher in enumerate(publishers):
        await publisher.entry(b"%d" % index)
    taken = Taken()
    reader = await TopicReader.open_at(client, NAME.full, EARLIEST_ID, on_messages=taken)
    reader.allow(10)
    await until(lambda: len(taken.messages) == 2)
    assert sorted(message.message_id.partition for message in taken.messages) == [0, 1]
    start = taken.messages[0].message_id
    await reader.close()
    with pytest.raises(MisuseError, match="partitioned"):
        await TopicReader.open_at(client, NAME.full, start, on_messages=taken)
