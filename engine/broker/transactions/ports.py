"""Protocols of a topic's buffer of transactions and of a subscription's acknowledgements of transactions.

Documents returned by these are JSON in the form of Apache's REST answers.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from engine.base.ids import Position
from engine.broker.transactions.outcomes import Outcome
from engine.broker.transactions.txn_id import TxnId


class TransactionCounts(NamedTuple):
    """Transactions of a topic: open ones, and those that ended since it was loaded."""

    ongoing: int
    committed: int
    aborted: int


class TransactionBuffer(Protocol):
    """Transactional messages of one topic, and the end to which it may be read. Methods raise BrokerError."""

    @property
    def open(self) -> Collection[TxnId]:
        """Transactions that are open, the oldest first."""
        ...

    async def end(self, txn: TxnId, *, commit: bool, low_water_mark: int) -> None:
        """Commit or abort the transaction's messages; durable on return, and made once when repeated.

        ``low_water_mark``: all transactions of its coordinator up to this one have ended; -1 when none is known to
        have.
        """
        ...

    def end_soon(self, txn: TxnId, *, commit: bool, low_water_mark: int, outcome: Outcome) -> bool:
        """End as ``end`` and report the outcome, maybe within the call. Return False, and do nothing, when that has
        to wait for something else first."""
        ...

    @property
    def counts(self) -> TransactionCounts: ...

    def stats(self, *, low_water_marks: bool, segments: bool) -> dict[str, Any]:
        """Return the answer of ``transactionBufferStats``."""
        ...

    def transaction_stats(self, txn: TxnId) -> dict[str, Any]:
        """Return the answer of ``transactionInBufferStats``."""
        ...


class LogPlace(NamedTuple):
    """Place of a record in a log: the position of its entry, its index in that, and how many records that has."""

    position: Position
    member: int = 0
    members: int = 1


class StatedAck(NamedTuple):
    """An acknowledged entry. Bits that are set in ``ack_set`` are messages of a batch that are not acknowledged; it is
    empty when all are. ``batch_size`` 0: not stated."""

    position: Position
    ack_set: Sequence[int] = ()
    batch_size: int = 0


class TransactionAcks(Protocol):
    """Acknowledgements of one subscription that open transactions made. Methods raise BrokerError."""

    @property
    def open(self) -> Collection[TxnId]:
        """Transactions that are open, the oldest first."""
        ...

    async def ready(self) -> None:
        """Load what is stored, which the statistics need."""
        ...

    async def acknowledge(self, txn: TxnId, acks: Sequence[StatedAck], *, cumulative: bool) -> None:
        """Acknowledge entries when the transaction commits; durable on return. Raises TransactionConflict."""
        ...

    def acknowledge_soon(
        self, txn: TxnId, acks: Sequence[StatedAck], *, cumulative: bool, outcome: Outcome
    ) -> bool:
        """Acknowledge as ``acknowledge``; see ``TransactionBuffer.end_soon``."""
        ...

    async def end(self, txn: TxnId, *, commit: bool, low_water_mark: int) -> None:
        """Apply or discard the transaction's acknowledgements; see ``TransactionBuffer.end``."""
        ...

    def end_soon(self, txn: TxnId, *, commit: bool, low_water_mark: int, outcome: Outcome) -> bool:
        """End as ``end``; see ``TransactionBuffer.end_soon``."""
        ...

    def stats(self, *, low_water_marks: bool) -> dict[str, Any]:
        """Return the answer of ``pendingAckStats``."""
        ...

    def transaction_stats(self, txn: TxnId) -> dict[str, Any]:
        """Return the answer of ``transactionInPendingAckStats``."""
        ...

    def log_stats(self) -> dict[str, Any] | None:
        """Return the statistics of the log, as ``log_stats.log_stats``; None when there is none."""
        ...

    def position_state(self, position: Position, batch_index: int | None) -> str:
        """Return the state in the answer of ``positionStatsInPendingAck``."""
        ...


class OwnedEnds(Protocol):
    """Ends of transactions on topics and subscriptions that this broker serves.

    ``end`` returns False, and does nothing, when the topic is not served here now or something has to be awaited first:
    the end is then requested of whichever broker serves the topic. It raises BrokerError.
    """

    def owns(self, topic: str) -> bool:
        """Return whether the topic is served here and no other broker can serve it at this moment, so that what it does
        not know of does not exist. ``topic``: its full name."""
        ...

    def end(
        self,
        txn: TxnId,
        topic: str,
        subscription: str | None,
        *,
        commit: bool,
        low_water_mark: int,
        outcome: Outcome,
    ) -> bool:
        """End as ``TransactionBuffer.end_soon``; on a subscription as ``TransactionAcks.end_soon``. ``topic``: its full
        name."""
        ...
