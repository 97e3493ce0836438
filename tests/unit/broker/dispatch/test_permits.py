"""No message is sent without a permit (D1)."""

from collections.abc import AsyncIterator

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from tests.support.broker_bench import Bench, Client, opened

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE])
async def test_no_entry_is_sent_without_a_permit(bench: Bench, kind: SubscriptionType) -> None:
    consumer, client = await bench.join(kind, permits=0)
    await bench.publish(6)
    assert client.received == []
    for permits, received in ((2, 2), (1, 3), (2, 5)):
        bench.subscription.flow(consumer, permits)
        assert len(client.received) == received
        assert consumer.permits == 0
    assert bench.subscription.dispatch.state.paused_for == "permits"


async def test_permits_add_up_while_there_is_nothing_to_send(bench: Bench) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED, permits=1)
    for permits in (2, 3):
        bench.subscription.flow(consumer, permits)
    await bench.publish(10)
    assert len(client.received) == 6


class Asked(Client):
    """A connection that counts the checks of whether it can send."""

    asked = 0

    @property
    def can_send(self) -> bool:  # type: ignore[override]
        type(self).asked += 1
        return True

    @can_send.setter
    def can_send(self, _: bool) -> None:
        """Ignore the assignment: this connection can always send."""


async def test_a_consumer_that_attaches_or_sends_permits_does_not_visit_all_others(
    bench: Bench,
) -> None:
    for _ in range(100):
        await bench.join(SubscriptionType.SHARED, client=Asked(), permits=1000)
    Asked.asked = 0
    consumer, _ = await bench.join(SubscriptionType.SHARED, client=Asked(), permits=1000)
    bench.subscription.flow(consumer, 1000)
    assert Asked.asked < 20
