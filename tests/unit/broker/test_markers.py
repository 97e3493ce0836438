"""Markers, which brokers write for brokers, are delivered to no consumer and hold no subscription back (D17)."""

from collections.abc import AsyncIterator

import pytest

from engine.base.ids import EARLIEST, Position
from engine.broker.compaction.topic_compaction import CURSOR
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.topics.publish import Publish
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from engine.wire import client_commands
from engine.wire.kernels import take_sends
from tests.support.broker_bench import Bench, opened, until
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

MESSAGE = entry_of(b"v", partition_key="k")
COMMIT = entry_of(b"", marker_type=21, txnid_most_bits=1, txnid_least_bits=0)
SNAPSHOT = entry_of(b"snapshot", marker_type=12)
KINDS = [SubscriptionType(kind) for kind in range(4)]


@pytest.fixture(params=[1 << 20, 1], ids=["memory", "storage"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    async with opened(settings=ManagedSettings(cache_bytes_max=request.param)) as made:
        yield made


async def put(bench: Bench, *entries: bytes) -> None:
    """Store entries as an Apache broker left them in the topic's ledgers."""
    sent = bench._sent
    data = b"".join(client_commands.send(1, sent + i, entry) for i, entry in enumerate(entries))
    _, _, run = take_sends(data, 0, len(data), 1 << 24)
    assert run is not None
    Publish(run, bench.producer).start()
    bench._sent += len(entries)
    await until(lambda: bench.publisher.receipts == bench._sent)


@pytest.mark.parametrize("kind", KINDS)
async def test_markers_are_acknowledged_and_use_no_permit(
    bench: Bench, kind: SubscriptionType
) -> None:
    await put(bench, COMMIT, MESSAGE, SNAPSHOT, COMMIT, MESSAGE, MESSAGE, COMMIT)
    consumer, client = await bench.join(kind, permits=2)
    await until(lambda: len(client.received) == 2)
    bench.subscription.flow(consumer, 2)
    await until(lambda: len(client.received) == 3)
    assert [position.entry_id for position in client.received] == [1, 4, 5]
    cursor = bench.subscription.cursor
    await until(lambda: cursor.backlog_entries() == 3)
    assert consumer.permits == 1
    assert consumer.unacked == (3 if kind in (1, 3) else 0)
    bench.subscription.acknowledge(consumer, client.received)
    assert cursor.backlog_entries() == 0
    assert cursor.mark_delete.entry_id == 6


async def test_a_backlog_of_markers_alone_is_acknowledged(bench: Bench) -> None:
    await put(bench, *[COMMIT] * 3)
    _, client = await bench.join(SubscriptionType.SHARED)
    client.client_version = "Magnetar"
    await until(lambda: bench.subscription.cursor.backlog_entries() == 0)
    await put(bench, COMMIT, MESSAGE)
    await until(lambda: len(client.received) == 1)
    await bench.topic.terminate()
    bench.subscription.acknowledge(bench.subscription.consumers[0], client.received)
    assert client.kinds == ["REACHED_END_OF_TOPIC"]


async def test_the_end_of_a_topic_is_reported_when_only_markers_remain(bench: Bench) -> None:
    await put(bench, COMMIT, COMMIT)
    await bench.topic.terminate()
    consumer, client = await bench.join(SubscriptionType.EXCLUSIVE, permits=0)
    client.client_version = "Magnetar"
    bench.subscription.flow(consumer, 1)
    await until(lambda: client.kinds == ["REACHED_END_OF_TOPIC"])


async def test_the_last_message_is_no_marker(bench: Bench) -> None:
    topic = bench.topic
    await put(bench, COMMIT)
    assert await topic.last_message.read() == (EARLIEST, -1)
    await put(bench, MESSAGE, MESSAGE, *[SNAPSHOT] * 3)
    expected = Position(topic.log.last_confirmed.ledger_id, 2), -1
    assert await topic.last_message.read() == topic.last_message.at_hand() == expected
    await put(bench, MESSAGE)
    assert await topic.last_message.read() == (topic.log.last_confirmed, -1)


async def test_markers_do_not_move_the_compactions_cursor(bench: Bench) -> None:
    subscription = await bench.topic.subscriptions.create(CURSOR, InitialPosition.EARLIEST, {})
    assert subscription is not None
    await put(bench, COMMIT, MESSAGE)
    subscription.pass_markers([Position(bench.topic.log.last_confirmed.ledger_id, 0)])
    assert subscription.cursor.backlog_entries() == 2
