"""Consumers of one or several topics: each message is acknowledged or redelivered, whatever ends a connection."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.errors import TopicNotFound
from engine.broker.ports import LookupResult
from engine.client.broker_link import BrokerLink
from engine.client.client import PulsarClient
from engine.client.consuming import topic_consumer
from engine.client.consuming.attachment import ConsumerSettings
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.errors import REFUSALS, ServerError, UnexpectedError
from engine.client.message_ids import MessageId
from engine.client.raw_consumer import (
    EXCLUSIVE,
    FAILOVER,
    FROM_EARLIEST,
    FROM_LATEST,
    SHARED,
)
from engine.wire.batches import Message
from tests.support.broker_bench import NAME, Bench
from tests.support.waiting import stays
from tests.unit.client.consuming.client_bench import Publisher, backlog, client_of, consuming, until

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def bench() -> AsyncIterator[tuple[Bench, PulsarClient]]:
    async with client_of() as made:
        yield made


async def test_messages_are_delivered_and_acknowledged_in_runs(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    await broker.publish(500)
    async with consuming(client) as (consumer, taken):
        await until(lambda: len(taken.messages) == 500)
        assert taken.entries == sorted(taken.entries)
        assert len(taken.runs) < 100
        for message in taken.messages[:-1]:
            consumer.acknowledge(message)
        await until(lambda: backlog(broker) == 1)
    assert broker.subscription.consumers == []
    async with consuming(client) as (consumer, again):
        await until(lambda: again.messages)
        assert again.entries == taken.entries[-1:]


async def test_no_more_messages_are_delivered_than_allowed_and_few_are_queued(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    await broker.publish(100)
    async with consuming(client, allow=3, queue_size=10) as (consumer, taken):
        await until(lambda: len(taken.messages) == 3)
        (attached,) = broker.subscription.consumers
        await until(lambda: attached.permits == 0)
        assert len(consumer._queue) <= 10
        consumer.allow(5)
        assert len(taken.messages) == 8
        consumer.allow(1000)
        await until(lambda: len(taken.messages) == 100)


async def test_a_refused_message_is_redelivered_with_its_count(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    await broker.publish(3)
    async with consuming(client, kind=SHARED, nack_delay_s=0.0) as (consumer, taken):
        await until(lambda: len(taken.messages) == 3)
        consumer.refuse(taken.messages[1])
        consumer.acknowledge(taken.messages[0])
        await until(lambda: len(taken.messages) == 4)
        again = taken.messages[3]
        assert again.position == taken.messages[1].position
        assert again.redelivery_count == 1


async def test_messages_not_acknowledged_in_time_are_redelivered(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    await broker.publish(3)
    async with consuming(client, kind=SHARED, ack_timeout_s=0.3) as (consumer, taken):
        await until(lambda: len(taken.messages) == 3)
        consumer.acknowledge(taken.messages[0])
        consumer.acknowledge(taken.messages[2])
        await until(lambda: len(taken.messages) == 5)
        assert [message.position for message in taken.messages[3:]] == [
            taken.messages[1].position
        ] * 2
        assert [message.redelivery_count for message in taken.messages[3:]] == [1, 2]


async def test_a_lost_connection_and_an_unloaded_topic_lose_nothing(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    await broker.publish(10)
    async with consuming(client) as (consumer, taken):
        await until(lambda: len(taken.messages) == 10)
        for message in taken.messages[:4]:
            consumer.acknowledge(message)
        (link,) = client._links._open.values()
        link.abort()
        await until(lambda: len(taken.messages) == 16)
        assert taken.entries[10:] == list(range(4, 10)), "sent late, but before new permits"
        await broker.registry.unload(NAME)
        await until(lambda: len(taken.messages) == 22)
        assert taken.entries[16:] == list(range(4, 10))
        broker.topic = await broker.registry.get(NAME, create=False)
        for message in taken.messages:
            consumer.acknowledge(message)
        await until(lambda: backlog(broker) == 0)
        assert taken.ends == []


async def test_closing_during_reconnection_leaves_no_consumer(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    async with consuming(client):
        (link,) = client._links._open.values()
        link.abort()
        await asyncio.sleep(0)
    await until(lambda: not broker.topic.subscriptions["s"].consumers)
    async with consuming(client) as (_, taken):
        await broker.publish(1)
        await until(lambda: taken.messages)


async def test_a_busy_subscription_is_refused_at_once(bench: tuple[Bench, PulsarClient]) -> None:
    _, client = bench
    async with consuming(client):
        began = time.monotonic()
        with pytest.raises(REFUSALS[ServerError.ConsumerBusy]):
            async with consuming(client):
                pass
        assert time.monotonic() - began < 5


async def test_a_batch_is_acknowledged_as_a_whole(bench: tuple[Bench, PulsarClient]) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    await publisher.entry(b"a", b"b", b"c", compression=1)
    async with consuming(client) as (consumer, taken):
        await until(lambda: len(taken.messages) == 3)
        assert taken.values == [b"a", b"b", b"c"]
        ids = [message.message_id for message in taken.messages]
        assert [(message_id.batch_index, message_id.batch_size) for message_id in ids] == [
            (0, 3),
            (1, 3),
            (2, 3),
        ]
        consumer.acknowledge(taken.messages[2])
        consumer.acknowledge(taken.messages[0])
        assert not consumer.acknowledge_id(ids[1]), "an id alone does not know of the others"
        consumer.flush()
        await publisher.entry(b"d")
        await until(lambda: len(taken.messages) == 4)
        assert backlog(broker) == 2
        consumer.acknowledge(taken.messages[1])
        await until(lambda: backlog(broker) == 1)
        assert consumer.acknowledge_id(taken.messages[3].message_id)
        await until(lambda: backlog(broker) == 0)


async def test_permits_count_the_messages_of_batches(bench: tuple[Bench, PulsarClient]) -> None:
    _, client = bench
    publisher = await Publisher.to(client)
    for number in range(50):
        await publisher.entry(*(b"%d" % (10 * number + i) for i in range(10)))
    async with consuming(client, allow=0, queue_size=25) as (consumer, taken):
        await until(lambda: len(consumer._queue) >= 25)
        # At most the rest of a batch more.
        await stays(lambda: len(consumer._queue) < 25 + 10, 0.1)
        for _ in range(500):
            await until(lambda: consumer.has_queued)
            consumer.allow(1)
        assert taken.values == [b"%d" % number for number in range(500)]


async def test_queued_bytes_are_bounded_while_the_application_receives_nothing(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = bench
    monkeypatch.setattr("engine.client.consuming.attachment.QUEUED_BYTES_MAX", 200_000)
    monkeypatch.setattr("engine.client.consuming.topic_consumer.QUEUED_BYTES_MAX", 200_000)
    publisher = await Publisher.to(client)
    for _ in range(60):
        await publisher.entry(b"x" * 20_000)
    async with consuming(client, allow=0, queue_size=1000) as (consumer, taken):
        await until(lambda: consumer.has_queued)
        await stays(lambda: consumer._queued_bytes <= 400_000, 0.2)
        consumer.allow(1000)
        await until(lambda: len(taken.messages) == 60)


async def test_a_topic_that_leaves_makes_room_for_the_others(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = bench
    monkeypatch.setattr("engine.client.consuming.attachment.QUEUED_BYTES_MAX", 200_000)
    monkeypatch.setattr("engine.client.consuming.topic_consumer.QUEUED_BYTES_MAX", 200_000)
    small, left, kept = (f"persistent://public/default/{name}" for name in ("s", "l", "m"))
    for topic, size in ((small, 1), (left, 40_000), (kept, 40_000)):
        publisher = await Publisher.to(client, topic)
        for _ in range(20):
            await publisher.entry(b"x" * size)
    async with consuming(client, allow=0, topics=[small]) as (consumer, taken):
        await until(lambda: consumer.has_queued)
        await consumer._attach([left, kept], initial=FROM_EARLIEST)
        await until(lambda: consumer.full)
        (attachment,) = (other for other in consumer.attachments if other.topic == small)
        consumer.allow(attachment.queued)
        assert consumer.full
        consumer._pattern = NAME
        await consumer.follow([small, kept])
        consumer.allow(1000)
        await until(lambda: len(taken.messages) == 40)


async def test_ordered_types_redeliver_all_from_a_refused_message(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    await broker.publish(6)
    async with consuming(client, kind=FAILOVER, nack_delay_s=0.0, allow=4) as (consumer, taken):
        await until(lambda: len(taken.messages) == 4)
        consumer.acknowledge(taken.messages[0])
        consumer.refuse(taken.messages[2])
        # The queued messages were replaced by all from the refused message on.
        await until(lambda: [message.position.entry_id for message in consumer._queue[:1]] == [1])
        consumer.allow(100)
        await until(lambda: len(taken.messages) >= 9)
        assert taken.entries[4:] == [1, 2, 3, 4, 5], "once each, though some waited here"


async def test_an_unexpected_error_during_reconnection_ends_the_consumer(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = bench

    async def broken(topic: str) -> BrokerLink:
        raise ZeroDivisionError

    async with consuming(client) as (consumer, taken):
        (link,) = client._links._open.values()
        monkeypatch.setattr(client, "owner", broken)
        link.abort()
        await until(lambda: taken.ends)
        assert isinstance(taken.ends[0], UnexpectedError)
        assert consumer.error is taken.ends[0]


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
async def test_messages_in_flight_when_all_are_redelivered_are_discarded(
    bench: tuple[Bench, PulsarClient], kind: int
) -> None:
    broker, client = bench
    await broker.publish(6)
    async with consuming(client, kind=kind, queue_size=6, allow=3) as (consumer, taken):
        (attachment,) = consumer.attachments
        late: list[Any] = []
        assert attachment.raw is not None
        deliver = attachment.raw._on_messages
        attachment.raw._on_messages = late.append
        await broker.publish(6)
        await until(lambda: sum(map(len, late)) >= 6)
        attachment.redeliver([])
        attachment.raw._on_messages = deliver
        for run in late:
            deliver(run)
        assert taken.messages == [], "it comes again, in front of nothing"
        consumer.allow(9)
        await until(lambda: len(taken.messages) == 12)
        assert taken.entries == list(range(12))


async def test_messages_refused_that_never_came_are_not_kept_for_long(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, client = bench
    monkeypatch.setattr(topic_consumer, "REFUSED_MAX", 10)
    await broker.publish(1)
    async with consuming(client, kind=SHARED, nack_delay_s=86_400.0) as (consumer, taken):
        await until(lambda: len(taken.messages) == 1)
        consumer.refuse(taken.messages[0])
        for number in range(100):
            consumer.refuse_id(MessageId(Position(7, number)))
            assert len(consumer._refused) <= 10
        await until(lambda: len(taken.messages) == 2)


async def test_a_lasting_refusal_ends_the_consumer(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, client = bench

    async def refuse(topic: TopicName, *, authoritative: bool, listener: str) -> LookupResult:
        raise TopicNotFound("it is gone")

    async with consuming(client) as (_, taken):
        monkeypatch.setattr(broker.everything, "lookup", refuse)
        (link,) = client._links._open.values()
        link.abort()
        await until(lambda: taken.ends)
    assert [type(end) for end in taken.ends] == [REFUSALS[ServerError.TopicNotFound]]


async def test_several_topics_and_their_partitions_share_a_queue(
    bench: tuple[Bench, PulsarClient],
) -> None:
    _, client = bench
    topics = [f"persistent://public/default/many-{number}" for number in range(3)]
    for topic in topics:
        publisher = await Publisher.to(client, topic)
        for number in range(20):
            await publisher.entry(b"%d" % number)
    async with consuming(client, topics=topics, queue_size=10) as (consumer, taken):
        await until(lambda: len(taken.messages) == 60)
        assert sorted(consumer.topics) == topics
        for topic in topics:
            mine = [message.content for message in taken.messages if message.topic == topic]
            assert mine == [b"%d" % number for number in range(20)]
        assert consumer._attachment_of(taken.messages[0].message_id) is None


async def test_topics_are_added_and_removed(bench: tuple[Bench, PulsarClient]) -> None:
    _, client = bench
    first, second = (f"persistent://public/default/t-{letter}" for letter in "ab")
    publisher = await Publisher.to(client, second)
    await publisher.entry(Message(b"before it was found"))
    async with consuming(client, topics=[first], initial=FROM_LATEST) as (consumer, taken):
        consumer._pattern = NAME
        await consumer.follow([first, second])
        await until(lambda: taken.values == [b"before it was found"])
        await consumer.follow([second])
        assert consumer.topics == [second]


async def test_unsubscribing_ends_the_subscription(bench: tuple[Bench, PulsarClient]) -> None:
    broker, client = bench
    async with consuming(client) as (consumer, taken):
        await consumer.unsubscribe()
        assert broker.topic.subscriptions == {}
        await stays(lambda: broker.topic.subscriptions == {}, 0.2)  # no consumer attaches again
    assert taken.ends == []


async def test_after_a_seek_messages_are_delivered_again(bench: tuple[Bench, PulsarClient]) -> None:
    broker, client = bench
    await broker.publish(5)
    async with consuming(client) as (consumer, taken):
        await until(lambda: len(taken.messages) == 5)
        for message in taken.messages:
            consumer.acknowledge(message)
        consumer.flush()
        await consumer.seek(position=taken.messages[3].position)
        await until(lambda: taken.entries[5:] == [3, 4])


async def test_the_end_of_a_terminated_topic_is_reported_once_all_is_acknowledged(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    await broker.publish(2)
    async with consuming(client, kind=SHARED) as (consumer, taken):
        await until(lambda: len(taken.messages) == 2)
        await broker.topic.terminate()
        consumer.acknowledge(taken.messages[0])
        await until(lambda: backlog(broker) == 1)
        assert not consumer.at_end
        consumer.acknowledge(taken.messages[1])
        await until(lambda: consumer.at_end)


async def test_a_user_that_fails_ends_alone(bench: tuple[Bench, PulsarClient]) -> None:
    broker, client = bench
    ends: list[Exception] = []

    def fail(run: object) -> None:
        raise ValueError("no thanks")

    settings = ConsumerSettings("failing", initial=FROM_EARLIEST)
    failing = await TopicConsumer.open(
        client, [NAME.full], settings, on_messages=fail, on_end=ends.append
    )
    async with consuming(client) as (_, taken):
        failing.allow(10)
        await broker.publish(2)
        await until(lambda: len(taken.messages) == 2)
        await until(lambda: ends)
        assert len(client._links._open) == 1
        assert not next(iter(client._links._open.values())).closing
    assert "no thanks" in str(ends[0])
    await failing.close()
