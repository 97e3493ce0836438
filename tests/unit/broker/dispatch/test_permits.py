"""No message goes out without a permit (D1)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from tests.support.broker_bench import Bench, opened


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path) as made:
        yield made


@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE])
async def test_no_entry_goes_out_without_a_permit(bench: Bench, kind: SubscriptionType) -> None:
    consumer, client = await bench.join(kind, permits=0)
    await bench.publish(6)
    assert client.received == []
    for permits, received in ((2, 2), (1, 3), (2, 5)):
        bench.subscription.flow(consumer, permits)
        assert len(client.received) == received
        assert consumer.permits == 0
    assert bench.subscription.state.paused_for == "permits"


async def test_permits_add_up_while_there_is_nothing_to_send(bench: Bench) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED, permits=1)
    for permits in (2, 3):
        bench.subscription.flow(consumer, permits)
    await bench.publish(10)
    assert len(client.received) == 6
