"""Operations on transactions: of a coordinator, and of the topics and subscriptions that they touch. Pure.

The topic of an operation on a coordinator is its partition of the assignment topic, whose owner serves the coordinator.
"""

from dataclasses import dataclass
from types import NoneType

from engine.admin.api.arguments import LONG_MAX, JsonObject, OnSubscription, OnTopic, within
from engine.admin.api.rights import CONSUME_SUBSCRIPTION, LOOKUP_TOPIC
from engine.auth.rights import SUPERUSER
from engine.rpc.operation import Operation

DISABLED = "This Broker is not configured with transactionCoordinatorEnabled=true."


@dataclass(frozen=True, slots=True)
class OnTransaction(OnTopic):
    """Transaction by its id, on a topic."""

    most: int
    least: int

    def __post_init__(self) -> None:
        within("most", self.most, 0, LONG_MAX)
        within("least", self.least, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class SlowTransactions(OnTopic):
    """Transactions that are older than ``timeout_ms``."""

    timeout_ms: int

    def __post_init__(self) -> None:
        within("timeout_ms", self.timeout_ms, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class LogStats(OnTopic):
    """``metadata`` adds that of each ledger."""

    metadata: bool = False


@dataclass(frozen=True, slots=True)
class BufferStats(OnTopic):
    """Statistics of a topic's transactions, with the coordinators' low-water marks and the segments of aborted
    ones."""

    low_water_marks: bool = False
    segments: bool = False


@dataclass(frozen=True, slots=True)
class PendingAckStats(OnSubscription):
    """Statistics of a subscription's transactions, with the coordinators' low-water marks."""

    low_water_marks: bool = False


@dataclass(frozen=True, slots=True)
class PendingAckLogStats(OnSubscription):
    """``metadata`` adds that of each ledger."""

    metadata: bool = False


@dataclass(frozen=True, slots=True)
class TransactionOnSubscription(OnSubscription):
    """Transaction by its id, on a subscription."""

    most: int
    least: int


@dataclass(frozen=True, slots=True)
class AcknowledgedPosition(OnSubscription):
    """Position of an entry; ``batch_index`` -1 is the whole entry."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1


COORDINATOR_STATS = Operation("coordinator_stats", OnTopic, JsonObject, LOOKUP_TOPIC, reads=True)
"""Pulsar's TransactionCoordinatorStats."""
COORDINATOR_LOG_STATS = Operation(
    "coordinator_log_stats", LogStats, JsonObject, SUPERUSER, reads=True
)
"""Pulsar's TransactionLogStats."""
TRANSACTION_METADATA = Operation(
    "transaction_metadata", OnTransaction, JsonObject, SUPERUSER, reads=True
)
"""Pulsar's TransactionMetadata, with empty statistics of each topic and subscription. Raises NotFound for one that is
not known, or has ended."""
SLOW_TRANSACTIONS = Operation(
    "slow_transactions", SlowTransactions, dict[str, JsonObject], SUPERUSER, reads=True
)
"""TransactionMetadata by id of those that are not ended."""
ABORT_TRANSACTION = Operation("abort_transaction", OnTransaction, NoneType, SUPERUSER)
"""Aborts a transaction; done on all its topics on return. Raises NotFound, Conflict when it is being committed."""
BUFFER_STATS = Operation(
    "transaction_buffer_stats", BufferStats, JsonObject, LOOKUP_TOPIC, reads=True
)
"""Pulsar's TransactionBufferStats."""
TRANSACTION_IN_BUFFER = Operation(
    "transaction_in_buffer", OnTransaction, JsonObject, LOOKUP_TOPIC, reads=True
)
"""Pulsar's TransactionInBufferStats."""
PENDING_ACK_STATS = Operation(
    "pending_ack_stats", PendingAckStats, JsonObject, CONSUME_SUBSCRIPTION, reads=True
)
"""Pulsar's TransactionPendingAckStats."""
PENDING_ACK_LOG_STATS = Operation(
    "pending_ack_log_stats", PendingAckLogStats, JsonObject, CONSUME_SUBSCRIPTION, reads=True
)
"""Pulsar's TransactionPendingAckInternalStats. Raises NotFound without a log."""
TRANSACTION_IN_PENDING_ACK = Operation(
    "transaction_in_pending_ack",
    TransactionOnSubscription,
    JsonObject,
    CONSUME_SUBSCRIPTION,
    reads=True,
)
"""Pulsar's TransactionInPendingAckStats."""
POSITION_IN_PENDING_ACK = Operation(
    "position_in_pending_ack", AcknowledgedPosition, JsonObject, CONSUME_SUBSCRIPTION, reads=True
)
"""Pulsar's PositionInPendingAckStats."""
