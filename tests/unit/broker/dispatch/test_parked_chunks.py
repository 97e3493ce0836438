"""Chunks that wait for the consumer that has the earlier ones of their message (D6)."""

from collections.abc import AsyncIterator

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.topics.publish import Publish
from engine.wire.kernels import SendRun
from tests.support.broker_bench import Bench, opened, until
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def publish_chunks(bench: Bench, count: int) -> None:
    """Publish one message in ``count`` chunks."""
    entries = [
        entry_of(b"piece", uuid="m", num_chunks_from_msg=count, chunk_id=i) for i in range(count)
    ]
    spans, at = [], 0
    for entry in entries:
        spans += [at, at + len(entry)]
        at += len(entry)
    heads = [b"\x08\x01\x10" + bytes((i,)) for i in range(count)]
    Publish(SendRun(b"".join(entries), spans, at, heads, None, 1), bench.producer).start()
    await until(lambda: bench.publisher.receipts == count)


async def test_chunks_parked_for_a_detached_consumer_go_to_another_in_order(bench: Bench) -> None:
    owner, first = await bench.join(SubscriptionType.SHARED, permits=2, priority=0)
    _, second = await bench.join(SubscriptionType.SHARED, priority=1)
    await publish_chunks(bench, 4)
    assert (len(first.received), len(second.received)) == (2, 0)
    bench.subscription.detach(owner)
    await until(lambda: len(second.received) == 4)
    assert second.received == sorted(second.received)


async def test_parked_chunks_are_sent_as_soon_as_their_consumer_can_receive(bench: Bench) -> None:
    owner, first = await bench.join(SubscriptionType.SHARED, permits=1, priority=0)
    _, second = await bench.join(SubscriptionType.SHARED, priority=1)
    await publish_chunks(bench, 3)
    bench.subscription.flow(owner, 5)
    assert (len(first.received), second.received) == (3, [])
    assert first.received == sorted(first.received)
