"""Steps of a transaction's coordinator, awaited until they are durable."""

from collections.abc import Sequence
from functools import partial

from engine.broker.transactions.coordinator.coordinator import Coordinator
from engine.broker.transactions.outcomes import waited
from engine.broker.transactions.txn_id import TxnId


async def add_partitions(coordinator: Coordinator, txn: TxnId, topics: Sequence[str]) -> None:
    """Note topics that the transaction is about to publish to. Raises BrokerError."""
    await waited(partial(coordinator.add_partitions_soon, txn, topics))


async def add_subscriptions(
    coordinator: Coordinator, txn: TxnId, subscriptions: Sequence[tuple[str, str]]
) -> None:
    """Note subscriptions on which the transaction is about to acknowledge. Raises BrokerError."""
    await waited(partial(coordinator.add_subscriptions_soon, txn, subscriptions))
