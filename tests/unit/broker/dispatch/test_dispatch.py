"""Dispatch over a real managed ledger and bookie: every message to one consumer at a time, until acknowledged."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import ProducerBusy, TopicTerminated
from engine.broker.topics.publish import Producer, Publish
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from engine.wire.kernels import SendRun
from tests.support.broker_bench import NAME, Bench, Client, opened, until
from tests.support.raw_client import entry_of
from tests.support.waiting import stays

pytestmark = pytest.mark.virtual_time


async def _received(client: Client, count: int) -> None:
    await until(lambda: len(client.received) == count)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


@pytest.fixture
async def narrow() -> AsyncIterator[Bench]:
    """A bench whose cursors can store few acknowledged ranges."""
    settings = ManagedSettings(cursor_state_bytes_max=400, cursor_persist_interval_s=0.01)
    async with opened(settings=settings) as made:
        yield made


async def test_an_append_wakes_a_waiting_consumer_without_a_timer(bench: Bench) -> None:
    _, client = await bench.join(SubscriptionType.EXCLUSIVE)
    assert bench.subscription.dispatch.state.paused_for == "append"
    await bench.publish(3)
    assert len(client.received) == 3


async def test_permits_count_messages_and_a_batch_may_overdraw_them(bench: Bench) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED, permits=5)
    await bench.publish(4, num_messages=3)
    assert len(client.received) == 2
    assert consumer.permits == -1
    assert bench.subscription.dispatch.state.paused_for == "permits"
    bench.subscription.flow(consumer, 2)
    assert len(client.received) == 3


async def test_a_full_socket_pauses_its_consumer_only(bench: Bench) -> None:
    _, full = await bench.join(SubscriptionType.SHARED)
    _, open_ = await bench.join(SubscriptionType.SHARED)
    full.can_send = False
    await bench.publish(50)
    assert (len(full.received), len(open_.received)) == (0, 50)
    open_.can_send = False
    await bench.publish(10)
    assert bench.subscription.dispatch.state.paused_for == "socket"
    full.can_send = True
    bench.subscription.dispatch.wake()
    assert len(full.received) == 10


async def test_shared_serves_the_better_priority_first(bench: Bench) -> None:
    _, low = await bench.join(SubscriptionType.SHARED, priority=1)
    _, high = await bench.join(SubscriptionType.SHARED, permits=10, priority=0)
    await bench.publish(30)
    assert (len(high.received), len(low.received)) == (10, 20)


async def test_redelivered_messages_are_counted_and_precede_new_ones(bench: Bench) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED, permits=5)
    await bench.publish(10)
    back = client.received[1:3]
    bench.subscription.redeliver(consumer, back, None)
    client.fresh.clear()
    bench.subscription.flow(consumer, 4)
    await until(lambda: len(client.fresh) == 4)
    assert client.fresh[:2] == back
    assert [client.counts[position] for position in back] == [1, 1]
    assert bench.subscription.dispatch.state.replaying == 0


async def test_a_consumer_cannot_give_back_entries_of_another(bench: Bench) -> None:
    _, holding = await bench.join(SubscriptionType.SHARED)
    await bench.publish(5)
    other, _ = await bench.join(SubscriptionType.SHARED)
    bench.subscription.redeliver(other, list(holding.received), None)
    assert bench.subscription.dispatch.state.replaying == 0


async def test_an_acknowledgement_while_queued_for_replay_stops_it(bench: Bench) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED, permits=3)
    await bench.publish(3)
    bench.subscription.redeliver(consumer, None, None)
    bench.subscription.acknowledge(consumer, [client.received[0]])
    bench.subscription.flow(consumer, 10)
    await until(lambda: len(client.received) == 5)
    await stays(lambda: len(client.received) == 5, 0.01)
    assert Counter(client.received) == Counter(client.received[:3] + client.received[1:3])


async def test_all_chunks_of_a_message_go_to_one_consumer(bench: Bench) -> None:
    clients = [(await bench.join(SubscriptionType.SHARED, permits=4))[1] for _ in range(3)]
    entries = [
        entry_of(b"piece", uuid=f"m{i % 2}", num_chunks_from_msg=6, chunk_id=i // 2)
        for i in range(12)
    ]
    buf = b"".join(entries)
    spans, at = [], 0
    for entry in entries:
        spans += [at, at + len(entry)]
        at += len(entry)
    heads = [b"\x08\x01\x10" + bytes((i,)) for i in range(12)]
    Publish(SendRun(buf, spans, len(buf), heads, None, 1), bench.producer).start()
    await until(lambda: bench.publisher.receipts == 12)
    await until(lambda: sum(len(c.received) for c in clients) == 8)
    await stays(lambda: sum(len(c.received) for c in clients) == 8, 0.02)  # two with four permits
    for client in clients:
        assert len({p.entry_id % 2 for p in client.received}) <= 1


async def test_a_handover_interrupted_by_a_reset_does_not_happen(bench: Bench) -> None:
    """Disconnect the consumers during a handover: the next consumer receives each entry once."""
    first, _ = await bench.join(SubscriptionType.FAILOVER, permits=0, name="a")
    await bench.join(SubscriptionType.FAILOVER, permits=0, name="b")
    await bench.publish(3)
    bench.subscription.detach(first)
    await bench.subscription.moves.reset(Position(0, 0))
    third, client = await bench.join(SubscriptionType.FAILOVER, name="c")
    await until(lambda: len(client.received) == 3)
    delay_s = bench.context.settings.active_consumer_failover_delay_time_millis / 1000
    await stays(lambda: len(client.received) == 3, 2 * delay_s)
    bench.subscription.dispatch.wake()
    assert len(client.received) == 3
    assert third.permits == 997


async def test_failover_continues_at_the_first_unacknowledged_entry(bench: Bench) -> None:
    first, got = await bench.join(SubscriptionType.FAILOVER, name="a")
    await bench.publish(6)
    bench.subscription.acknowledge(first, got.received[:2])
    _, waiting = await bench.join(SubscriptionType.FAILOVER, name="b", priority=1)
    assert waiting.received == []
    bench.subscription.detach(first)
    await until(lambda: len(waiting.received) == 4)
    assert waiting.received == got.received[2:]
    assert waiting.kinds == ["ACTIVE_CONSUMER_CHANGE"] * 2


async def test_exclusive_rewinds_for_the_next_consumer(bench: Bench) -> None:
    first, got = await bench.join(SubscriptionType.EXCLUSIVE)
    await bench.publish(5)
    bench.subscription.acknowledge(first, [got.received[1]])
    bench.subscription.detach(first)
    _, second = await bench.join(SubscriptionType.EXCLUSIVE)
    assert second.received == [got.received[0], *got.received[2:]]


async def test_a_reset_disconnects_consumers_and_the_next_starts_at_its_position(
    bench: Bench,
) -> None:
    _, client = await bench.join(SubscriptionType.SHARED)
    await bench.publish(5)
    await bench.subscription.moves.reset(client.received[3])
    assert client.dropped == [1]
    _, again = await bench.join(SubscriptionType.SHARED)
    assert again.received == client.received[3:5]


async def test_the_end_of_a_sealed_topic_is_reported_once_to_java_clients_only(
    bench: Bench,
) -> None:
    java, java_client = await bench.join(SubscriptionType.SHARED, permits=0)
    other, other_client = await bench.join(SubscriptionType.SHARED)
    java_client.client_version = "Pulsar-Java-v4.0.8"
    await bench.publish(2)
    await bench.topic.terminate()
    assert java_client.kinds == []
    bench.subscription.acknowledge(other, other_client.received)
    bench.subscription.flow(java, 5)
    assert (java_client.kinds, other_client.kinds) == (["REACHED_END_OF_TOPIC"], [])


async def test_a_sealed_topic_refuses_producers(bench: Bench) -> None:
    await bench.topic.terminate()
    late = Producer(Client(), 2, "late", bench.topic, now_ms=0)
    with pytest.raises(TopicTerminated):
        await bench.topic.publishers.admit(late)


async def test_a_newer_epoch_replaces_a_producer_and_another_of_its_name_is_refused(
    bench: Bench,
) -> None:
    client = Client()
    old, new = (Producer(client, 1, "n", bench.topic, now_ms=0, epoch=i) for i in (0, 1))
    await bench.topic.publishers.admit(old)
    await bench.topic.publishers.admit(new)
    assert bench.topic.producers["n"] is new
    stranger = Producer(Client(), 1, "n", bench.topic, now_ms=0, epoch=9)
    with pytest.raises(ProducerBusy, match="already connected"):
        await bench.topic.publishers.admit(stranger)
    client.alive = False
    await bench.topic.publishers.admit(stranger)
    assert bench.topic.producers["n"] is stranger


async def test_concurrent_requests_load_a_topic_once(bench: Bench) -> None:
    name = TopicName.parse("persistent://public/default/once")
    loads = bench.registry.load_times.count
    topics = await asyncio.gather(*(bench.registry.get(name, create=True) for _ in range(20)))
    assert len({id(topic) for topic in topics}) == 1
    assert bench.registry.load_times.count == loads + 1


async def test_an_unloaded_topic_disconnects_its_clients_and_loads_again_with_its_state(
    bench: Bench,
) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED)
    await bench.publish(4)
    bench.subscription.acknowledge(consumer, client.received[:3])
    assert await bench.registry.unload(NAME)
    assert client.dropped == [1]
    topic = await bench.registry.get(NAME, create=True)
    assert topic is not bench.topic
    assert topic.subscriptions["s"].cursor.backlog_entries() == 1


async def join_as_reader(bench: Bench, client: Client) -> tuple[Consumer, Subscription]:
    """Attach a consumer to the subscription ``r``, which is not durable."""
    consumer = Consumer(
        client,
        1,
        "r",
        SubscriptionType.EXCLUSIVE,
        settings=bench.context.settings,
        partition=-1,
        now_ms=0,
    )
    subscription = await bench.topic.subscriptions.attach(
        consumer, "r", durable=False, initial=InitialPosition.EARLIEST, properties={}
    )
    return consumer, subscription


async def test_a_readers_subscription_is_deleted_with_it_and_created_anew_for_the_next(
    bench: Bench,
) -> None:
    await bench.publish(3)
    for _ in range(2):
        client = Client()
        consumer, subscription = await join_as_reader(bench, client)
        subscription.flow(consumer, 10)
        await _received(client, 3)
        subscription.acknowledge_cumulative(consumer, client.received[-1])
        subscription.detach(consumer)
        assert "r" not in bench.topic.subscriptions


async def test_a_reader_that_leaves_a_fenced_log_is_no_error(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    consumer, subscription = await join_as_reader(bench, Client())
    bench.topic.log.abandon()
    subscription.detach(consumer)
    await until(lambda: not bench.topic.subscriptions._deletions)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("seed", range(6))
async def test_shared_delivers_all_entries_and_none_to_two_consumers_under_random_changes(
    bench: Bench, seed: int
) -> None:
    chance = random.Random(seed)
    present: list[tuple[Consumer, Client]] = [await bench.join(SubscriptionType.SHARED, permits=0)]
    acked: set[Position] = set()
    published = 0
    for _ in range(150):
        step = chance.random()
        consumer, client = chance.choice(present)
        if step < 0.2 and published < 400:
            count = chance.randint(1, 15)
            await bench.publish(count)
            published += count
        elif step < 0.45:
            bench.subscription.flow(consumer, chance.randint(1, 12))
        elif step < 0.7 and client.fresh:
            chance.shuffle(client.fresh)
            some = [client.fresh.pop() for _ in range(chance.randint(1, len(client.fresh)))]
            assert not acked & set(some), "acknowledged, and delivered again"
            bench.subscription.acknowledge(consumer, some)
            acked |= set(some)
        elif step < 0.8 and client.fresh:
            back = [client.fresh.pop() for _ in range(chance.randint(1, len(client.fresh)))]
            bench.subscription.redeliver(consumer, back, None)
        elif step < 0.9 and len(present) < 4:
            present.append(await bench.join(SubscriptionType.SHARED, permits=chance.randint(0, 9)))
        elif step < 0.97 and len(present) > 1:
            bench.subscription.detach(consumer)
            present.remove((consumer, client))
        else:
            await asyncio.sleep(0.002)  # a pause, as one of the steps that are drawn
        held = Counter(p for _, c in present for p in c.fresh)
        assert not held or max(held.values()) == 1, "out at two consumers"
        for attached, outlet in present:
            assert attached.unacked == len(outlet.fresh)
    async with asyncio.timeout(120):
        while len(acked) < published:
            for consumer, client in present:
                bench.subscription.flow(consumer, 50)
                if client.fresh:
                    bench.subscription.acknowledge(consumer, client.fresh)
                    acked |= set(client.fresh)
                    client.fresh.clear()
            await asyncio.sleep(0.002)
    assert bench.subscription.cursor.backlog_entries() == 0


async def test_too_scattered_acknowledgements_pause_new_entries_but_not_redelivery(
    narrow: Bench,
) -> None:
    first, holding = await narrow.join(SubscriptionType.SHARED)
    await narrow.publish(100)
    narrow.subscription.acknowledge(first, holding.received[1::2])
    await until(lambda: narrow.subscription.cursor.blocked)
    await narrow.publish(3)
    assert len(holding.received) == 100
    assert narrow.subscription.dispatch.state.paused_for == "acks"
    # No consumer is left that could acknowledge the other entries.
    narrow.subscription.detach(first)
    other, client = await narrow.join(SubscriptionType.SHARED, name="other")
    await _received(client, 50)
    assert client.received == holding.received[::2]
    assert narrow.subscription.dispatch.state.paused_for == "acks"
    narrow.subscription.acknowledge(other, client.received[:49])
    await _received(client, 53)
    assert narrow.subscription.cursor.blocked is None
    assert narrow.subscription.dispatch.state.paused_for == "append"
