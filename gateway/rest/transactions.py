"""``/admin/v3/transactions``: coordinators, their transactions, and what topics and subscriptions know of them."""

from django.http import HttpRequest, HttpResponse

from engine.admin.api.arguments import LONG_MAX
from engine.admin.api.transactions import (
    ABORT_TRANSACTION,
    BUFFER_STATS,
    COORDINATOR_LOG_STATS,
    PENDING_ACK_LOG_STATS,
    PENDING_ACK_STATS,
    POSITION_IN_PENDING_ACK,
    TRANSACTION_IN_BUFFER,
    TRANSACTION_IN_PENDING_ACK,
    AcknowledgedPosition,
    BufferStats,
    LogStats,
    OnTransaction,
    PendingAckLogStats,
    PendingAckStats,
    TransactionOnSubscription,
)
from engine.auth.rights import SUPERUSER
from engine.base.errors import InvalidField
from gateway.http.bodies import flag, json_answer, json_body, json_list, no_content, whole_number
from gateway.rest.base import AdminResource
from gateway.rest.rights import CONSUME_SUBSCRIPTION, LOOKUP
from gateway.rest.topics import TopicPathResource
from gateway.services import transactions
from gateway.services.admin import names


def number(text: str | None, field: str, low: int = 0) -> int:
    """Return a number in a path or query. Raises InvalidField."""
    value = whole_number(text, field)
    if not low <= value <= LONG_MAX:
        raise InvalidField(field, f"must be from {low} to {LONG_MAX}")
    return value


class _Resource(AdminResource):
    # Brokers without transactions answer 503, as Apache's do.
    quiet = True


class _TopicResource(TopicPathResource):
    quiet = True


class CoordinatorsResource(_Resource):
    """The coordinators with the service URLs of their brokers."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        return await json_list(await self.work(transactions.coordinators))


class CoordinatorStatsResource(_Resource):
    """The statistics of one coordinator, or of all."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        given = request.GET.get("coordinatorId")
        if given is None:
            return json_answer(await self.work(transactions.all_stats))
        coordinator = number(given, "coordinatorId")
        return json_answer(await self.work(lambda engine: transactions.stats(engine, coordinator)))


class CoordinatorLogResource(_Resource):
    """The statistics of a coordinator's log."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, coordinatorId: str) -> HttpResponse:
        topic = transactions.partition_of(number(coordinatorId, "coordinatorId"))
        args = LogStats(topic, flag(request, "metadata"))
        return json_answer(await self.work(lambda engine: engine.call(COORDINATOR_LOG_STATS, args)))


class TransactionMetadataResource(_Resource):
    """A transaction that is not ended."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, mostSigBits: str, leastSigBits: str) -> HttpResponse:
        most, least = number(mostSigBits, "mostSigBits"), number(leastSigBits, "leastSigBits")
        return json_answer(
            await self.work(lambda engine: transactions.metadata(engine, most, least))
        )


class SlowTransactionsResource(_Resource):
    """The transactions that are older than a number of milliseconds."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, timeout: str) -> HttpResponse:
        timeout_ms, given = number(timeout, "timeout"), request.GET.get("coordinatorId")
        coordinator = None if given is None else number(given, "coordinatorId")
        return json_answer(
            await self.work(lambda engine: transactions.slow(engine, timeout_ms, coordinator))
        )


class AbortResource(_Resource):
    """The abort of a transaction."""

    write_rights = SUPERUSER

    async def post(self, request: HttpRequest, mostSigBits: str, leastSigBits: str) -> HttpResponse:
        most, least = number(mostSigBits, "mostSigBits"), number(leastSigBits, "leastSigBits")
        args = OnTransaction(transactions.partition_of(most), most, least)
        await self.work(lambda engine: engine.call(ABORT_TRANSACTION, args))
        return no_content()


class ReplicasResource(_Resource):
    """The number of coordinators, which can grow."""

    write_rights = SUPERUSER

    async def post(self, request: HttpRequest) -> HttpResponse:
        replicas = number(json_body(request), "body", low=1)
        await self.work(lambda engine: transactions.scale(engine, replicas))
        return no_content()


class BufferStatsResource(_TopicResource):
    """The statistics of a topic's transactions."""

    read_rights = LOOKUP

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        args = BufferStats(name, flag(request, "lowWaterMarks"), flag(request, "segmentStats"))
        return json_answer(await self.work(lambda engine: engine.call(BUFFER_STATS, args)))


class BufferLogResource(_TopicResource):
    """The statistics of the topics in which a topic's transactions have snapshots."""

    read_rights = LOOKUP

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, metadata = self.name(**path), flag(request, "metadata")
        return json_answer(
            await self.work(
                lambda engine: transactions.snapshot_stats(engine, name, with_metadata=metadata)
            )
        )


class InBufferResource(_TopicResource):
    """A transaction, as a topic knows it."""

    read_rights = LOOKUP

    async def get(
        self, request: HttpRequest, mostSigBits: str, leastSigBits: str, **path: str
    ) -> HttpResponse:
        most, least = number(mostSigBits, "mostSigBits"), number(leastSigBits, "leastSigBits")
        args = OnTransaction(self.name(**path), most, least)
        return json_answer(await self.work(lambda engine: engine.call(TRANSACTION_IN_BUFFER, args)))


class PendingAckStatsResource(_TopicResource):
    """The statistics of a subscription's transactions."""

    read_rights = CONSUME_SUBSCRIPTION

    async def get(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        args = PendingAckStats(name, subscription, flag(request, "lowWaterMarks"))
        return json_answer(await self.work(lambda engine: engine.call(PENDING_ACK_STATS, args)))


class PendingAckLogResource(_TopicResource):
    """The statistics of a subscription's log of transactional acknowledgements."""

    read_rights = CONSUME_SUBSCRIPTION

    async def get(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        args = PendingAckLogStats(name, subscription, flag(request, "metadata"))
        return json_answer(await self.work(lambda engine: engine.call(PENDING_ACK_LOG_STATS, args)))


class InPendingAckResource(_TopicResource):
    """A transaction, as a subscription knows it."""

    read_rights = CONSUME_SUBSCRIPTION

    async def get(
        self,
        request: HttpRequest,
        subName: str,
        mostSigBits: str,
        leastSigBits: str,
        **path: str,
    ) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        most, least = number(mostSigBits, "mostSigBits"), number(leastSigBits, "leastSigBits")
        args = TransactionOnSubscription(name, subscription, most, least)
        return json_answer(
            await self.work(lambda engine: engine.call(TRANSACTION_IN_PENDING_ACK, args))
        )


class PositionInPendingAckResource(_TopicResource):
    """A message of a subscription, as acknowledged by a transaction or not."""

    read_rights = CONSUME_SUBSCRIPTION

    async def get(
        self, request: HttpRequest, subName: str, ledgerId: str, entryId: str, **path: str
    ) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        index = request.GET.get("batchIndex")
        args = AcknowledgedPosition(
            name,
            subscription,
            number(ledgerId, "ledgerId"),
            number(entryId, "entryId"),
            -1 if index is None else number(index, "batchIndex", low=-1),
        )
        return json_answer(
            await self.work(lambda engine: engine.call(POSITION_IN_PENDING_ACK, args))
        )


TREE = "/admin/v3/transactions"
_TOPIC = "{tenant}/{namespace}/{topic}"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (f"{TREE}/coordinators", CoordinatorsResource),
    (f"{TREE}/coordinatorStats", CoordinatorStatsResource),
    (f"{TREE}/coordinatorInternalStats/{{coordinatorId}}", CoordinatorLogResource),
    (f"{TREE}/transactionMetadata/{{mostSigBits}}/{{leastSigBits}}", TransactionMetadataResource),
    (f"{TREE}/slowTransactions/{{timeout}}", SlowTransactionsResource),
    (f"{TREE}/abortTransaction/{{mostSigBits}}/{{leastSigBits}}", AbortResource),
    (f"{TREE}/transactionCoordinator/replicas", ReplicasResource),
    (f"{TREE}/transactionBufferStats/{_TOPIC}", BufferStatsResource),
    (f"{TREE}/transactionBufferInternalStats/{_TOPIC}", BufferLogResource),
    (
        f"{TREE}/transactionInBufferStats/{_TOPIC}/{{mostSigBits}}/{{leastSigBits}}",
        InBufferResource,
    ),
    (f"{TREE}/pendingAckStats/{_TOPIC}/{{subName}}", PendingAckStatsResource),
    (f"{TREE}/pendingAckInternalStats/{_TOPIC}/{{subName}}", PendingAckLogResource),
    (
        f"{TREE}/transactionInPendingAckStats/{_TOPIC}/{{subName}}/{{mostSigBits}}/{{leastSigBits}}",
        InPendingAckResource,
    ),
    (
        f"{TREE}/positionStatsInPendingAck/{_TOPIC}/{{subName}}/{{ledgerId}}/{{entryId}}",
        PositionInPendingAckResource,
    ),
]
