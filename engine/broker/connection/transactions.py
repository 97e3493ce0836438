"""Commands of transactions: those of clients to a coordinator, and those of coordinators to a topic's broker."""

from functools import partial
from typing import Any

from engine.auth.rights import SUPERUSER
from engine.broker.connection.lookups import parse_topic
from engine.broker.errors import BrokerError, ServiceNotReady, TopicNotFound
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.broker.transactions.txn_id import TxnId
from engine.net.routing import Refuse, Route, Routes, refused
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.states import CommandType
from engine.wire.varints import INT64_MAX

DISABLED = "Transactions are not enabled."


def _txn_of(body: Any) -> TxnId:
    """Return the transaction that a command names."""
    return TxnId(body.txnid_most_bits, body.txnid_least_bits)


def _low_water_mark(body: pb.CommandEndTxnOnPartition | pb.CommandEndTxnOnSubscription) -> int:
    """Return the mark that a coordinator states; -1 when it states none, or -1 as Apache's do."""
    mark = body.txnid_least_bits_of_low_watermark
    stated = body.HasField("txnid_least_bits_of_low_watermark") and mark <= INT64_MAX
    return mark if stated else -1


class TransactionCommands:
    """Commands of transactions, shared by all connections of a broker."""

    def __init__(self, registry: TopicRegistry) -> None:
        self._registry = registry

    # --- of coordinators ------------------------------------------------------------------------

    async def end_on_partition(self, body: pb.CommandEndTxnOnPartition) -> bytes:
        """Handle END_TXN_ON_PARTITION and return the answer."""
        answer = partial(
            commands.transaction_answer,
            "endTxnOnPartitionResponse",
            body.request_id,
            _txn_of(body),
        )
        try:
            topic = await self._topic(body.topic)
            buffer = topic.transactions if topic is not None else None
            if buffer is not None:
                await buffer.end(
                    _txn_of(body),
                    commit=body.txn_action == pb.COMMIT,
                    low_water_mark=_low_water_mark(body),
                )
        except BrokerError as error:
            return answer(code=error.code, message=str(error))
        return answer()

    async def end_on_subscription(self, body: pb.CommandEndTxnOnSubscription) -> bytes:
        """Handle END_TXN_ON_SUBSCRIPTION and return the answer."""
        answer = partial(
            commands.transaction_answer,
            "endTxnOnSubscriptionResponse",
            body.request_id,
            _txn_of(body),
        )
        try:
            topic = await self._topic(body.subscription.topic)
            name = body.subscription.subscription
            # A subscription that cannot be read now may have acknowledgements of the transaction.
            if topic is not None and name in topic.subscriptions.unread:
                raise ServiceNotReady(f"Subscription {name} cannot be read now")
            subscription = topic.subscriptions.get(name) if topic is not None else None
            pending = subscription.pending_acks if subscription is not None else None
            if pending is not None:
                await pending.end(
                    _txn_of(body),
                    commit=body.txn_action == pb.COMMIT,
                    low_water_mark=_low_water_mark(body),
                )
        except BrokerError as error:
            return answer(code=error.code, message=str(error))
        return answer()

    async def _topic(self, name: str) -> Topic | None:
        """Return the topic, which is loaded when it is not; None when it does not exist, so that nothing of a
        transaction is left. Raises BrokerError."""
        try:
            return await self._registry.get(parse_topic(name), create=False)
        except TopicNotFound:
            return None


def _refusal(field: str) -> Refuse:
    """Return the function that builds the answer to a client that has no right to the request."""

    def refuse(family: object, body: Any, code: ServerError, text: str) -> bytes:
        return commands.transaction_answer(
            field, body.request_id, _txn_of(body), code=code, message=text
        )

    return refuse


_refused = refused(DISABLED)
REFUSALS: Routes = dict.fromkeys(
    (
        CommandType.TC_CLIENT_CONNECT_REQUEST,
        CommandType.NEW_TXN,
        CommandType.ADD_PARTITION_TO_TXN,
        CommandType.ADD_SUBSCRIPTION_TO_TXN,
        CommandType.END_TXN,
        CommandType.END_TXN_ON_PARTITION,
        CommandType.END_TXN_ON_SUBSCRIPTION,
    ),
    _refused,
)
"""Routes where transactions are not enabled."""
ROUTES: Routes = {
    **REFUSALS,
    CommandType.END_TXN_ON_PARTITION: Route(
        TransactionCommands.end_on_partition,
        SUPERUSER,
        refuse=_refusal("endTxnOnPartitionResponse"),
    ),
    CommandType.END_TXN_ON_SUBSCRIPTION: Route(
        TransactionCommands.end_on_subscription,
        SUPERUSER,
        refuse=_refusal("endTxnOnSubscriptionResponse"),
    ),
}
"""Routes where they are."""
