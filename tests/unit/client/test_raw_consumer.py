"""Consumers receive messages for which they have permits; acknowledged messages are not redelivered."""

import pytest

from engine.base.errors import MagnetarError
from engine.client.broker_link import BrokerLink
from engine.client.errors import SentAwayError
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.wire.errors import REFUSALS, ServerError
from engine.wire.events import Delivered
from tests.support.broker_bench import NAME, Bench, until

pytestmark = pytest.mark.virtual_time


async def test_permits_messages_acknowledgements_and_redelivery(
    broker: tuple[Bench, BrokerLink],
) -> None:
    bench, link = broker
    await bench.publish(10)
    taken: list[Delivered] = []
    consumer = await RawConsumer.open(
        link, NAME.full, "s", SHARED, on_messages=taken.extend, initial=FROM_EARLIEST
    )
    consumer.flow(4)
    await until(lambda: len(taken) == 4)
    last = await consumer.last_position()
    assert last == bench.topic.log.last_confirmed
    assert len(taken) == 4
    await consumer.acknowledged([message.position for message in taken[:3]])
    assert bench.subscription.cursor.backlog_entries() == 7
    consumer.flow(1000)
    await until(lambda: len(taken) == 10)
    consumer.redeliver([taken[3].position])
    await until(lambda: len(taken) == 11)
    assert taken[10].position == taken[3].position
    assert taken[10].redelivery_count == 1
    await consumer.acknowledged([message.position for message in taken])
    assert bench.subscription.cursor.backlog_entries() == 0
    await consumer.close()
    assert bench.subscription.consumers == []


async def test_a_consumer_that_seeks_is_closed_by_the_broker(
    broker: tuple[Bench, BrokerLink],
) -> None:
    bench, link = broker
    ends: list[MagnetarError] = []
    taken: list[Delivered] = []

    async def come() -> RawConsumer:
        consumer = await RawConsumer.open(
            link, NAME.full, "s", on_messages=taken.extend, on_end=ends.append
        )
        consumer.flow(100)
        return consumer

    consumer = await come()
    await bench.publish(5)
    await until(lambda: len(taken) == 5)
    await consumer.seek(position=taken[2].position)
    await until(lambda: ends)
    assert isinstance(consumer.error, SentAwayError)
    await come()
    await until(lambda: len(taken) == 8)
    assert [message.position for message in taken[5:]] == [
        message.position for message in taken[2:5]
    ]


async def test_unsubscribing_ends_the_subscription(broker: tuple[Bench, BrokerLink]) -> None:
    bench, link = broker
    consumer = await RawConsumer.open(link, NAME.full, "s", on_messages=lambda taken: None)
    await consumer.unsubscribe()
    assert bench.topic.subscriptions == {}
    assert link.consumers == {}


async def test_a_refused_consumer_leaves_nothing_behind(broker: tuple[Bench, BrokerLink]) -> None:
    _, link = broker
    await RawConsumer.open(link, NAME.full, "s", on_messages=lambda taken: None)
    with pytest.raises(REFUSALS[ServerError.ConsumerBusy]) as refused:
        await RawConsumer.open(link, NAME.full, "s", on_messages=lambda taken: None)
    assert refused.value.retriable
    assert len(link.consumers) == 1
