"""Commands of transactions: those of clients to a coordinator, and those of coordinators to a topic's broker (X10)."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

from engine.auth.actions import Action
from engine.auth.judge import Verdict
from engine.auth.resource_names import CLUSTER, SubscriptionName
from engine.auth.rights import AUTHENTICATED, SUPERUSER, Right
from engine.base.names import TopicName, is_transaction_log
from engine.broker.connection.bounds import check_name
from engine.broker.connection.lookups import parse_topic
from engine.broker.context import Context
from engine.broker.errors import (
    BrokerError,
    MetadataError,
    NotAuthorized,
    ServiceNotReady,
    TopicNotFound,
)
from engine.broker.outlet import ClientConnection
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.broker.transactions.coordinator.coordinator import Coordinator
from engine.broker.transactions.coordinator.coordinators import Coordinators
from engine.broker.transactions.outcomes import Outcome, waited
from engine.broker.transactions.txn_id import TxnId
from engine.net.routing import Answer, Refuse, Route, Routes, refused
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.states import CommandType
from engine.wire.varints import INT64_MAX

Step = Callable[[Coordinator, TxnId, Outcome], None]
"""Starts a step of a transaction; raises BrokerError."""
DISABLED = "Transactions are not enabled."


def _txn_of(body: Any) -> TxnId:
    """Return the transaction that a command names."""
    return TxnId(body.txnid_most_bits, body.txnid_least_bits)


def _low_water_mark(body: pb.CommandEndTxnOnPartition | pb.CommandEndTxnOnSubscription) -> int:
    """Return the mark that a coordinator states; -1 when it states none, or -1 as Apache's do."""
    mark = body.txnid_least_bits_of_low_watermark
    stated = body.HasField("txnid_least_bits_of_low_watermark") and mark <= INT64_MAX
    return mark if stated else -1


def _commits(
    body: pb.CommandEndTxn | pb.CommandEndTxnOnPartition | pb.CommandEndTxnOnSubscription,
) -> bool:
    """Return whether a request commits. Raises MetadataError when it does not state that: the absent value of the
    action would be a commit."""
    if not body.HasField("txn_action"):
        raise MetadataError("txn_action is missing")
    return body.txn_action == pb.COMMIT


# The names of a request are read by the judge and by its handler, and those of a client's transactions repeat.
_parsed = lru_cache(maxsize=1000)(parse_topic)


def _topics_of(body: pb.CommandAddPartitionToTxn) -> tuple[TopicName, ...]:
    """Return the topics that a transaction is about to publish to. Raises InvalidTopicName."""
    return tuple(map(_parsed, body.partitions))


def _subscriptions_of(body: pb.CommandAddSubscriptionToTxn) -> tuple[SubscriptionName, ...]:
    """Return the subscriptions that a transaction is about to acknowledge on. Raises InvalidTopicName, NotAllowed."""
    return tuple(
        SubscriptionName(_parsed(named.topic), check_name("subscription", named.subscription))
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
        self._owned = coordinators.owned

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

    def begin(self, body: pb.CommandNewTxn) -> Answer:
        """Handle NEW_TXN."""
        coordinator = self._coordinators.ready(body.tc_id)
        if coordinator is None or not coordinator.can_begin:
            return self._begin(body)
        connection, request_id = self._connection, body.request_id

        def report(error: BrokerError | None) -> None:
            connection.answered(_begun(request_id, txn, error))

        connection.awaits()
        try:
            txn = coordinator.begin_soon(body.txn_ttl_millis, self._role, report)
        except BrokerError as error:
            connection.answered(_begun(request_id, TxnId(body.tc_id, 0), error))
        return None

    async def _begin(self, body: pb.CommandNewTxn) -> bytes:
        try:
            coordinator = await self._coordinators.of(body.tc_id)
            txn = await coordinator.begin(body.txn_ttl_millis, self._role)
        except BrokerError as error:
            return _begun(body.request_id, TxnId(body.tc_id, 0), error)
        return _begun(body.request_id, txn)

    def add_partitions(self, body: pb.CommandAddPartitionToTxn) -> Answer:
        """Handle ADD_PARTITION_TO_TXN."""

        def add(coordinator: Coordinator, txn: TxnId, outcome: Outcome) -> None:
            topics = [topic.full for topic in _topics_of(body)]
            coordinator.add_partitions_soon(txn, topics, outcome)

        return self._handle("addPartitionToTxnResponse", body, add)

    def add_subscriptions(self, body: pb.CommandAddSubscriptionToTxn) -> Answer:
        """Handle ADD_SUBSCRIPTION_TO_TXN."""

        def add(coordinator: Coordinator, txn: TxnId, outcome: Outcome) -> None:
            named = [(of.topic.full, of.name) for of in _subscriptions_of(body)]
            coordinator.add_subscriptions_soon(txn, named, outcome)

        return self._handle("addSubscriptionToTxnResponse", body, add)

    def end(self, body: pb.CommandEndTxn) -> Answer:
        """Handle END_TXN, which is answered once the transaction is ended everywhere."""

        def end(coordinator: Coordinator, txn: TxnId, outcome: Outcome) -> None:
            coordinator.end_soon(txn, _commits(body), outcome)

        return self._handle("endTxnResponse", body, end)

    def _handle(self, field: str, body: Any, step: Step) -> Answer:
        """Do a step of a transaction of the client."""
        txn = _txn_of(body)
        coordinator = self._coordinators.ready(txn.most)
        if coordinator is None:
            return self._step_later(field, body, step)
        with self._reporting(field, body) as report:
            owner = coordinator.owner(txn)
            if owner is not None and owner != self._role:
                self._connection.answered(b"")
                return self._step_later(field, body, step)
            step(coordinator, txn, report)
        return None

    async def _step_later(self, field: str, body: Any, step: Step) -> bytes:
        """Do a step once its coordinator is open and the client is known to be permitted."""

        async def of_client(txn: TxnId) -> None:
            coordinator = await self._coordinators.of(txn.most)
            await self._check_owner(coordinator.owner(txn))
            await waited(partial(step, coordinator, txn))

        return await _answered(field, body, of_client)

    @contextmanager
    def _reporting(self, field: str, body: Any) -> Iterator[Outcome]:
        """Yield the outcome that answers a request, also when the block raises a BrokerError."""
        connection, request_id, txn = self._connection, body.request_id, _txn_of(body)

        def report(error: BrokerError | None) -> None:
            connection.answered(_answer(field, request_id, txn, error))

        connection.awaits()
        try:
            yield report
        except BrokerError as error:
            report(error)

    @property
    def _role(self) -> str | None:
        """The role that transactions of this connection belong to."""
        return self._connection.identity.principal

    async def _check_owner(self, owner: str | None) -> None:
        """Return if the client may act on a transaction that ``owner`` began. Raises NotAuthorized."""
        if owner is None or owner == self._role:
            return
        judgement = self._context.judge.judge(self._connection.identity, Action.SUPERUSER, CLUSTER)
        verdict = judgement if isinstance(judgement, Verdict) else await judgement
        if not verdict.allowed:
            raise NotAuthorized("Client is not the owner of the transaction")

    # --- of coordinators ------------------------------------------------------------------------

    def end_on_partition(self, body: pb.CommandEndTxnOnPartition) -> Answer:
        """Handle END_TXN_ON_PARTITION."""
        field, later = "endTxnOnPartitionResponse", self._end_on_partition
        return self._end_owned(field, body, body.topic, None, later)

    async def _end_on_partition(self, field: str, body: pb.CommandEndTxnOnPartition) -> bytes:
        async def end(txn: TxnId) -> None:
            topic = await self._topic(body.topic)
            if topic is not None:
                self._check_owned(topic)
            buffer = topic.transactions if topic is not None else None
            if buffer is not None:
                await buffer.end(
                    txn,
                    commit=_commits(body),
                    low_water_mark=_low_water_mark(body),
                )

        return await _answered(field, body, end)

    def end_on_subscription(self, body: pb.CommandEndTxnOnSubscription) -> Answer:
        """Handle END_TXN_ON_SUBSCRIPTION."""
        field, later = "endTxnOnSubscriptionResponse", self._end_on_subscription
        of = body.subscription
        return self._end_owned(field, body, of.topic, of.subscription, later)

    async def _end_on_subscription(self, field: str, body: pb.CommandEndTxnOnSubscription) -> bytes:
        async def end(txn: TxnId) -> None:
            topic = await self._topic(body.subscription.topic)
            if topic is not None:
                self._check_owned(topic)
            name = body.subscription.subscription
            # A subscription that cannot be read now may have acknowledgements of the transaction.
            if topic is not None and name in topic.subscriptions.unread:
                raise ServiceNotReady(f"Subscription {name} cannot be read now")
            subscription = topic.subscriptions.get(name) if topic is not None else None
            pending = subscription.pending_acks if subscription is not None else None
            if pending is not None:
                await pending.end(
                    txn,
                    commit=_commits(body),
                    low_water_mark=_low_water_mark(body),
                )

        return await _answered(field, body, end)

    def _end_owned(
        self,
        field: str,
        body: Any,
        topic: str,
        subscription: str | None,
        later: Callable[[str, Any], Awaitable[bytes]],
    ) -> Answer:
        """End a transaction on what is served here, or answer by ``later`` where something has to be awaited first."""
        with self._reporting(field, body) as report:
            taken = self._owned.end(
                _txn_of(body),
                topic,
                subscription,
                commit=_commits(body),
                low_water_mark=_low_water_mark(body),
                outcome=report,
            )
            if not taken:
                self._connection.answered(b"")
                return later(field, body)
        return None

    def _check_owned(self, topic: Topic) -> None:
        """Raise ServiceNotReady when another broker may have the topic meanwhile: what this one does not know of could
        be there."""
        if not self._owned.owns(topic.name.full):
            raise ServiceNotReady(f"Topic {topic.name} is being unloaded")

    async def _topic(self, name: str) -> Topic | None:
        """Return the topic, which is loaded when it is not; None when it does not exist, so that nothing of a
        transaction is left. Raises BrokerError."""
        parsed = parse_topic(name)
        if is_transaction_log(parsed):
            return None
        try:
            return await self._registry.get(parsed, create=False)
        except TopicNotFound:
            return None


async def _answered(field: str, body: Any, act: Callable[[TxnId], Awaitable[None]]) -> bytes:
    """Act on the transaction that the request names, and return the answer."""
    txn = _txn_of(body)
    try:
        await act(txn)
    except BrokerError as error:
        return _answer(field, body.request_id, txn, error)
    return _answer(field, body.request_id, txn)


def _answer(field: str, request_id: int, txn: TxnId, error: BrokerError | None = None) -> bytes:
    """Return the answer to a request about a transaction."""
    if error is None:
        return commands.transaction_answer(field, request_id, txn)
    return commands.transaction_answer(field, request_id, txn, code=error.code, message=str(error))


_begun = partial(_answer, "newTxnResponse")


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
