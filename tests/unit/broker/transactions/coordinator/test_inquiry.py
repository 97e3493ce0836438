"""Answers of coordinators to the question whether a transaction is over."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from engine.base.names import TopicName
from engine.broker.transactions.coordinator.inquiry import CoordinatorInquiry
from engine.broker.transactions.txn_id import TxnId
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.errors import NoAnswerError
from tests.support.admin.broker_instance import BrokerInstance
from tests.support.transactions.coordinator_steps import add_partitions
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/a").full


class Held:
    """Participants that confirm nothing."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}

    def end(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


@pytest.fixture
async def instance() -> AsyncIterator[BrokerInstance]:
    instance = BrokerInstance()
    await instance.cluster.start("b0")
    yield instance
    await instance.close()


async def test_a_transaction_is_over_when_it_ended_or_never_began(instance: BrokerInstance) -> None:
    broker = await instance.broker(settings={"transaction_coordinator_enabled": True})

    async def brokers() -> list[str]:
        return [broker.record.service_url]

    running = broker.running
    client = PulsarClient(
        network=instance.cluster.network,
        clock=running.context.clock,
        entropy=running.context.entropy,
        brokers=brokers,
        settings=LinkSettings(request_timeout_s=3.0),
    )
    inquiry = CoordinatorInquiry(client)
    coordinators = running.coordinators
    assert coordinators is not None
    await until(lambda: bool(list(coordinators)))
    coordinator = await coordinators.of(0)
    # Coordinators and transactions that do not exist.
    for never in (TxnId(1, 0), TxnId((1 << 64) - 1, 0), TxnId(0, 0), TxnId(0, 1 << 62)):
        assert await inquiry.is_over(never, TOPIC, None)
        assert await inquiry.is_over(never, TOPIC, "s")
    is_open = await coordinator.begin(60_000, None)
    assert not await inquiry.is_over(is_open, TOPIC, None)
    assert not await inquiry.is_over(is_open, TOPIC, "s")
    # It ends on what its client did not add.
    assert coordinator.find(is_open).partitions == {TOPIC: None}
    assert coordinator.find(is_open).subscriptions == {(TOPIC, "s"): None}
    for commit in (True, False):
        ended = await coordinator.begin(60_000, None)
        await coordinator.end(ended, commit=commit)
        assert await inquiry.is_over(ended, TOPIC, None)
    # One that is being ended is over behind its end alone.
    for commit in (True, False):
        ending = await coordinator.begin(60_000, None)
        await add_partitions(coordinator, ending, [TOPIC])
        real, held = coordinator._participants, Held()
        coordinator._participants = held  # type: ignore[assignment]
        coordinator.end_soon(ending, commit, lambda error: None)
        with pytest.raises(NoAnswerError):
            await inquiry.is_over(ending, TOPIC, None)
        coordinator._participants = real
        real.end(*held.args, **held.kwargs)
        await until(lambda txn=ending: coordinator.table.outcome(txn) is not None)  # type: ignore[misc]
        assert await inquiry.is_over(ending, TOPIC, None)
    await client.close()
