"""Commands of transactions: those of clients to a coordinator, and those of coordinators to a topic's broker (X10)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from engine.auth.actions import Action
from engine.auth.judge import Verdict
from engine.auth.resource_names import CLUSTER, SubscriptionName
from engine.auth.rights import AUTHENTICATED, SUPERUSER, Right
from engine.base.names import TopicName
from engine.broker.connection.bounds import check_name
from engine.broker.connection.lookups import parse_topic
from engine.broker.context import Context
from engine.broker.errors import BrokerError, NotAuthorized, ServiceNotReady, TopicNotFound
from engine.broker.outlet import ClientConnection
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.broker.transactions.coordinator.coordinator import Coordinator
from engine.broker.transactions.coordinator.coordinators import Coordinators
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


def _topics_of(body: pb.CommandAddPartitionToTxn) -> tuple[TopicName, ...]:
    """Return the topics that a transaction is about to publish to. Raises InvalidTopicName."""
    return tuple(map(parse_topic, body.partitions))


def _subscriptions_of(body: pb.CommandAddSubscriptionToTxn) -> tuple[SubscriptionName, ...]:
    """Return the subscriptions that a transaction is about to acknowledge on. Raises InvalidTopicName, NotAllowed."""
    return tuple(
        SubscriptionName(parse_topic(named.topic), check_name("subscription", named.subscription))
        for named in body.subscription
    )


class TransactionCommands:
    """Commands of transactions of one connection."""

    def __init__(
        self,
        connection: ClientConnection,
        context: Context,
        registry: TopicRegistry,
        coordinators: Coordinators,
    ) -> None:
        self._connection = connection
        self._context = context
        self._registry = registry
        self._coordinators = coordinators

    # --- of clients -----------------------------------------------------------------------------

    async def connect(self, body: pb.CommandTcClientConnectRequest) -> bytes:
        """Handle TC_CLIENT_CONNECT_REQUEST and return the answer."""
        try:
            await self._coordinators.of(body.tc_id)
        except BrokerError as error:
            return commands.coordinator_connected(
                body.request_id, code=error.code, message=str(error)
            )
        return commands.coordinator_connected(body.request_id)

    async def begin(self, body: pb.CommandNewTxn) -> bytes:
        """Handle NEW_TXN and return the answer."""
        field, none = "newTxnResponse", (body.tc_id, 0)
        try:
            coordinator = await self._coordinators.of(body.tc_id)
            txn = await coordinator.begin(body.txn_ttl_millis, self._role)
        except BrokerError as error:
            return commands.transaction_answer(
                field, body.request_id, none, code=error.code, message=str(error)
            )
        return commands.transaction_answer(field, body.request_id, txn)

    async def add_partitions(self, body: pb.CommandAddPartitionToTxn) -> bytes:
        """Handle ADD_PARTITION_TO_TXN and return the answer."""

        async def add(coordinator: Coordinator, txn: TxnId) -> None:
            await coordinator.add_partitions(txn, [topic.full for topic in _topics_of(body)])

        return await self._answer("addPartitionToTxnResponse", body, add)

    async def add_subscriptions(self, body: pb.CommandAddSubscriptionToTxn) -> bytes:
        """Handle ADD_SUBSCRIPTION_TO_TXN and return the answer."""

        async def add(coordinator: Coordinator, txn: TxnId) -> None:
            named = [(of.topic.full, of.name) for of in _subscriptions_of(body)]
            await coordinator.add_subscriptions(txn, named)

        return await self._answer("addSubscriptionToTxnResponse", body, add)

    async def end(self, body: pb.CommandEndTxn) -> bytes:
        """Handle END_TXN and return the answer, once the transaction is ended everywhere."""

        async def end(coordinator: Coordinator, txn: TxnId) -> None:
            await coordinator.end(txn, commit=body.txn_action == pb.COMMIT)

        return await self._answer("endTxnResponse", body, end)

    async def _answer(
        self, field: str, body: Any, act: Callable[[Coordinator, TxnId], Awaitable[None]]
    ) -> bytes:
        """Act on a transaction of the client and return the answer."""

        async def of_client(txn: TxnId) -> None:
            coordinator = await self._coordinators.of(txn.most)
            await self._check_owner(coordinator.owner(txn))
            await act(coordinator, txn)

        return await _answered(field, body, of_client)

    @property
    def _role(self) -> str | None:
        """The role that transactions of this connection belong to."""
        identity = self._connection.identity
        return identity.original or identity.role

    async def _check_owner(self, owner: str | None) -> None:
        """Return if the client may act on a transaction that ``owner`` began. Raises NotAuthorized."""
        if owner is None or owner == self._role:
            return
        judgement = self._context.judge.judge(self._connection.identity, Action.SUPERUSER, CLUSTER)
        verdict = judgement if isinstance(judgement, Verdict) else await judgement
        if not verdict.allowed:
            raise NotAuthorized("Client is not the owner of the transaction")

    # --- of coordinators ------------------------------------------------------------------------

    async def end_on_partition(self, body: pb.CommandEndTxnOnPartition) -> bytes:
        """Handle END_TXN_ON_PARTITION and return the answer."""

        async def end(txn: TxnId) -> None:
            topic = await self._topic(body.topic)
            buffer = topic.transactions if topic is not None else None
            if buffer is not None:
                await buffer.end(
                    txn,
                    commit=body.txn_action == pb.COMMIT,
                    low_water_mark=_low_water_mark(body),
                )

        return await _answered("endTxnOnPartitionResponse", body, end)

    async def end_on_subscription(self, body: pb.CommandEndTxnOnSubscription) -> bytes:
        """Handle END_TXN_ON_SUBSCRIPTION and return the answer."""

        async def end(txn: TxnId) -> None:
            topic = await self._topic(body.subscription.topic)
            name = body.subscription.subscription
            # A subscription that cannot be read now may have acknowledgements of the transaction.
            if topic is not None and name in topic.subscriptions.unread:
                raise ServiceNotReady(f"Subscription {name} cannot be read now")
            subscription = topic.subscriptions.get(name) if topic is not None else None
            pending = subscription.pending_acks if subscription is not None else None
            if pending is not None:
                await pending.end(
                    txn,
                    commit=body.txn_action == pb.COMMIT,
                    low_water_mark=_low_water_mark(body),
                )

        return await _answered("endTxnOnSubscriptionResponse", body, end)

    async def _topic(self, name: str) -> Topic | None:
        """Return the topic, which is loaded when it is not; None when it does not exist, so that nothing of a
        transaction is left. Raises BrokerError."""
        try:
            return await self._registry.get(parse_topic(name), create=False)
        except TopicNotFound:
            return None


async def _answered(field: str, body: Any, act: Callable[[TxnId], Awaitable[None]]) -> bytes:
    """Act on the transaction that the request names, and return the answer."""
    txn = _txn_of(body)
    answer = partial(commands.transaction_answer, field, body.request_id, txn)
    try:
        await act(txn)
    except BrokerError as error:
        return answer(code=error.code, message=str(error))
    return answer()


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
    CommandType.TC_CLIENT_CONNECT_REQUEST: Route(TransactionCommands.connect, AUTHENTICATED),
    CommandType.NEW_TXN: Route(TransactionCommands.begin, AUTHENTICATED),
    CommandType.ADD_PARTITION_TO_TXN: Route(
        TransactionCommands.add_partitions,
        Right(Action.PRODUCE, TopicName, _topics_of),
        refuse=_refusal("addPartitionToTxnResponse"),
    ),
    CommandType.ADD_SUBSCRIPTION_TO_TXN: Route(
        TransactionCommands.add_subscriptions,
        Right(Action.CONSUME, SubscriptionName, _subscriptions_of),
        refuse=_refusal("addSubscriptionToTxnResponse"),
    ),
    CommandType.END_TXN: Route(TransactionCommands.end, AUTHENTICATED),
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
