"""One topic of a consumer: what comes in odd forms, and where a subscription that is not durable begins."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.base.ids import LATEST
from engine.client.client import PulsarClient
from engine.client.message_ids import MessageId
from engine.client.raw_consumer import FROM_LATEST, SHARED
from engine.wire.batches import Message, pack_entry
from tests.support.broker_bench import NAME, Bench
from tests.unit.client.consuming.client_bench import (
    EARLY,
    Publisher,
    backlog,
    client_of,
    consuming,
    until,
)

SECRET = {"encryption_keys": [{"key": "k", "value": b"v"}], "encryption_param": b"p"}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[tuple[Bench, PulsarClient]]:
    async with client_of(tmp_path) as made:
        yield made


async def chunked(publisher: Publisher, value: bytes, step: int, uuid: str = "u") -> None:
    parts = [value[at : at + step] for at in range(0, len(value), step)]
    for index, part in enumerate(parts):
        about = {"uuid": uuid, "chunk_id": index, "num_chunks_from_msg": len(parts)}
        await publisher.entry(part, extra=about | {"total_chunk_msg_size": len(value)})


async def test_chunks_are_one_message_and_one_acknowledgement(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    async with consuming(client, queue_size=2) as (consumer, taken):
        await chunked(publisher, b"0123456789", 2)
        await publisher.entry(b"plain")
        await until(lambda: len(taken.messages) == 2)
        assert taken.values == [b"0123456789", b"plain"]
        found = taken.messages[0].message_id
        assert found.first_chunk is not None
        assert found.first_chunk.entry_id == found.position.entry_id - 4
        consumer.acknowledge(taken.messages[0])
        consumer.acknowledge(taken.messages[1])
        await until(lambda: backlog(broker) == 0)


@pytest.mark.parametrize(
    ("action", "left", "values"),
    [("FAIL", 2, [b"plain"]), ("DISCARD", 1, [b"plain"]), ("CONSUME", 2, [b"?", b"plain"])],
)
async def test_what_nobody_here_can_read(
    bench: tuple[Bench, PulsarClient], action: str, left: int, values: list[bytes]
) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    async with consuming(client, encrypted=action) as (_, taken):
        await publisher.entry(b"?", extra=SECRET)
        await publisher.entry(b"plain")
        await until(lambda: taken.values == values)
        await until(lambda: backlog(broker) == left)
        assert [one.encrypted for one in taken.messages] == [True, False][-len(values) :]


async def test_a_broken_entry_is_given_up_and_costs_no_permit(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    broken = pack_entry([Message(b"x")], producer_name="p", publish_ms=1, extra={"compression": 3})
    async with consuming(client, queue_size=1) as (consumer, taken):
        await publisher.raw(broken)
        await publisher.entry(b"good")
        await until(lambda: taken.values == [b"good"])
        consumer.acknowledge(taken.messages[0])
        await until(lambda: backlog(broker) == 0)


async def test_a_subscription_that_is_not_durable_goes_on_where_it_was(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    await publisher.entry(b"old")
    async with consuming(client, durable=False, initial=FROM_LATEST) as (_, taken):
        (link,) = client._links._open.values()
        await until(lambda: broker.subscription.consumers)
        link.abort()
        publisher = await Publisher.to(client)
        await publisher.entry(b"while away")
        await until(lambda: taken.values == [b"while away"])
        (link,) = (one for one in client._links._open.values() if not one.closing)
        link.abort()
        publisher = await Publisher.to(client)
        await publisher.entry(b"and again")
        await until(lambda: taken.values == [b"while away", b"and again"])
    await until(lambda: not broker.topic.subscriptions)


async def test_it_begins_within_a_batch(bench: tuple[Bench, PulsarClient]) -> None:
    _, client = bench
    publisher = await Publisher.to(client)
    await publisher.entry(b"0", b"1", b"2", b"3")
    async with consuming(client) as (_, taken):
        await until(lambda: len(taken.messages) == 4)
        start = taken.messages[1].message_id
    for inclusive, values in ((False, [b"2", b"3"]), (True, [b"1", b"2", b"3"])):
        options = {"durable": False, "start": start, "inclusive": inclusive}
        async with consuming(client, subscription="r", **options) as (_, taken):
            await until(lambda taken=taken, values=values: taken.values == values)


async def test_a_start_behind_everything_gives_what_comes(
    bench: tuple[Bench, PulsarClient],
) -> None:
    _, client = bench
    publisher = await Publisher.to(client)
    await publisher.entry(b"old")
    async with consuming(client, EARLY, durable=False, start=MessageId(LATEST)) as (_, taken):
        await publisher.entry(b"new")
        await until(lambda: taken.values == [b"new"])


async def test_a_consumer_cancelled_while_it_attaches_leaves_nobody_there(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench

    async def come() -> None:
        async with consuming(client):
            pass

    for pause in range(12):
        task = asyncio.get_running_loop().create_task(come())
        for _ in range(pause):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found = broker.topic.subscriptions.get("s")
    await until(lambda: found is None or not found.consumers)
    async with consuming(client, kind=SHARED):
        assert NAME.full == broker.topic.name.full
