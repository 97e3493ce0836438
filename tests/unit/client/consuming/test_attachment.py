"""One topic of a consumer: entries in unusual forms, and the start of a subscription that is not durable."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.base.ids import LATEST
from engine.client.client import PulsarClient
from engine.client.consuming import attachment as attachments
from engine.client.consuming import chunked as chunks
from engine.client.message_ids import MessageId
from engine.client.raw_consumer import EXCLUSIVE, FROM_LATEST, SHARED
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

pytestmark = pytest.mark.virtual_time

SECRET = {"encryption_keys": [{"key": "k", "value": b"v"}], "encryption_param": b"p"}


@pytest.fixture
async def bench() -> AsyncIterator[tuple[Bench, PulsarClient]]:
    async with client_of() as made:
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
        message_id = taken.messages[0].message_id
        assert message_id.first_chunk is not None
        assert message_id.first_chunk.entry_id == message_id.position.entry_id - 4
        consumer.acknowledge(taken.messages[0])
        consumer.acknowledge(taken.messages[1])
        await until(lambda: backlog(broker) == 0)


async def begun(publisher: Publisher, uuid: str, *indexes: int, count: int = 3) -> None:
    """Publish the chunks ``indexes`` of a message."""
    for index in indexes:
        about = {"uuid": uuid, "chunk_id": index, "num_chunks_from_msg": count}
        await publisher.entry(b"%d" % index, extra=about | {"total_chunk_msg_size": count})


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED])
async def test_chunks_of_a_message_that_stays_incomplete_are_acknowledged(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    broker, client = bench
    monkeypatch.setattr(chunks, "AGE_MAX_S", 0.05)
    publisher = await Publisher.to(client)
    async with consuming(client, kind=kind) as (consumer, taken):
        await begun(publisher, "dies", 0, 1)
        await begun(publisher, "headless", 2)
        (attachment,) = consumer.attachments
        await until(lambda: len(attachment._chunks) == 2)
        while kind == SHARED and len(attachment._chunks):
            # a new message shows that no chunk was delivered again before it
            await until(lambda: attachment._end is not None)
            given = len(taken.messages)
            await publisher.entry(b"new")
            await until(lambda: len(taken.messages) > given)  # noqa: B023
            consumer.acknowledge(taken.messages[given])
        await until(lambda: backlog(broker) == 0)
        assert len(attachment._chunks) == 0
        monkeypatch.setattr(chunks, "AGE_MAX_S", 60.0)
        await begun(publisher, "whole", 0, 1, 2)
        await until(lambda: taken.values[-1:] == [b"012"])


async def test_chunks_are_kept_while_the_topic_holds_undelivered_entries(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep the begun message of an application that receives nothing for long."""
    _, client = bench
    publisher = await Publisher.to(client)
    async with consuming(client, allow=0, queue_size=1) as (consumer, taken):
        (attachment,) = consumer.attachments
        await begun(publisher, "u", 0)
        await until(lambda: len(attachment._chunks))
        await publisher.entry(b"between")
        await until(lambda: consumer.has_queued)
        await begun(publisher, "u", 1, 2)
        monkeypatch.setattr(chunks, "AGE_MAX_S", 0.0)
        assert attachment.raw is not None
        await attachment._find_end(attachment.raw)
        assert attachment._end is not None
        assert len(attachment._chunks) == 1
        consumer.allow(10)
        await until(lambda: len(taken.messages) == 2)
        assert taken.values == [b"between", b"012"]


async def test_a_message_in_chunks_is_answered_by_its_id_alone(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    async with consuming(client, kind=SHARED, nack_delay_s=0.0) as (consumer, taken):
        await begun(publisher, "u", 0, 1, 2)
        await until(lambda: len(taken.messages) == 1)
        assert consumer.refuse_id(taken.messages[0].message_id)
        await until(lambda: len(taken.messages) == 2)
        assert taken.values == [b"012", b"012"]
        assert consumer.acknowledge_id(taken.messages[1].message_id)
        await until(lambda: backlog(broker) == 0)


async def test_acknowledgements_without_a_broker_are_bounded(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, client = bench
    monkeypatch.setattr(attachments, "ACKS_KEPT_MAX", 3)
    await broker.publish(6)
    async with consuming(client) as (consumer, taken):
        await until(lambda: len(taken.messages) == 6)
        (attachment,) = consumer.attachments
        (link,) = client._links._open.values()
        link.abort()
        while attachment.raw is not None:
            await asyncio.sleep(0)
        for message in taken.messages:
            consumer.acknowledge(message)
        assert attachment.acks == 3
        await until(lambda: len(taken.messages) == 9)
        assert taken.entries[6:] == [3, 4, 5], "late acknowledgements cost no message"


@pytest.mark.parametrize(
    ("action", "left", "values"),
    [("FAIL", 2, [b"plain"]), ("DISCARD", 1, [b"plain"]), ("CONSUME", 2, [b"?", b"plain"])],
)
async def test_encrypted_messages_are_handled_as_configured(
    bench: tuple[Bench, PulsarClient], action: str, left: int, values: list[bytes]
) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    async with consuming(client, encrypted=action) as (_, taken):
        await publisher.entry(b"?", extra=SECRET)
        await publisher.entry(b"plain")
        await until(lambda: taken.values == values)
        await until(lambda: backlog(broker) == left)
        assert [message.encrypted for message in taken.messages] == [True, False][-len(values) :]


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


async def test_a_subscription_that_is_not_durable_continues_at_its_position(
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
        (link,) = (candidate for candidate in client._links._open.values() if not candidate.closing)
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


async def test_a_start_at_the_latest_position_delivers_new_messages(
    bench: tuple[Bench, PulsarClient],
) -> None:
    _, client = bench
    publisher = await Publisher.to(client)
    await publisher.entry(b"old")
    async with consuming(client, EARLY, durable=False, start=MessageId(LATEST)) as (_, taken):
        await publisher.entry(b"new")
        await until(lambda: taken.values == [b"new"])


async def test_a_consumer_cancelled_while_it_attaches_leaves_no_consumer(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench

    async def attach() -> None:
        async with consuming(client):
            pass

    for pause in range(12):
        task = asyncio.get_running_loop().create_task(attach())
        for _ in range(pause):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    subscription = broker.topic.subscriptions.get("s")
    await until(lambda: subscription is None or not subscription.consumers)
    async with consuming(client, kind=SHARED):
        assert NAME.full == broker.topic.name.full
