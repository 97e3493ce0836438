"""The transactions of one coordinator: unfinished ones with deadlines, and those that ended lately (X8). Pure."""

import heapq
from collections import OrderedDict
from collections.abc import Iterator, ValuesView
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.base.ids import Position
from engine.broker.errors import InvalidTxnStatus, NotAllowed, TransactionNotFound
from engine.broker.transactions.txn_id import TxnId
from engine.wire import pulsar_pb2 as pb

Entry = pb.TransactionMetadataEntry
Status = pb.TransactionMetadataEntry.TxnStatus
FINISHED_REMEMBERED_MAX = 10_000
"""Ended transactions whose outcome is known: a client that received no answer to END_TXN asks again."""
PARTICIPANTS_MAX = 10_000
"""Topics of a transaction, and its subscriptions."""


@dataclass(slots=True)
class ClientTransaction:
    """A transaction that is not ended. ``timeout_ms`` counts from ``started_ms``, milliseconds since the epoch."""

    id: TxnId
    timeout_ms: int
    started_ms: int
    owner: str | None
    """Role of the client that began it; None without authentication."""
    status: Status = Entry.OPEN
    timed_out: bool = False
    partitions: dict[str, None] = field(default_factory=dict)
    """Full names of topics that it publishes to."""
    subscriptions: dict[tuple[str, str], None] = field(default_factory=dict)
    """Topics and subscriptions that it acknowledges on."""
    positions: list[Position] = field(default_factory=list)
    """Entries of the transaction in the coordinator's log."""

    @property
    def status_name(self) -> str:
        return Status.Name(self.status)

    def check_open(self) -> None:
        """Raise InvalidTxnStatus, with Apache's text, once the transaction is being ended."""
        if self.status != Entry.OPEN:
            raise InvalidTxnStatus(
                f"Expect Txn `{self.id}` to be in OPEN status but it is in {self.status_name} status"
            )

    def check_room(self, added: int) -> None:
        """Raise NotAllowed when ``added`` topics or subscriptions are too many."""
        if added + max(len(self.partitions), len(self.subscriptions)) > PARTICIPANTS_MAX:
            raise NotAllowed(
                f"Transaction {self.id} may have at most {PARTICIPANTS_MAX} topics and subscriptions"
            )


class TransactionOutcome(NamedTuple):
    """Outcome of a transaction that ended."""

    committed: bool
    owner: str | None


class TransactionTable:
    """Transactions by the least significant bits of their ids, in the order in which they began."""

    def __init__(self, coordinator: int) -> None:
        self._coordinator = coordinator
        # The first is read with every end, which in a dict passes all that were removed before it.
        self._unfinished: OrderedDict[int, ClientTransaction] = OrderedDict()
        self._finished: OrderedDict[int, TransactionOutcome] = OrderedDict()
        self._deadlines: list[tuple[int, int]] = []
        """Heap of (time, id), also of transactions that ended meanwhile."""
        self._recalled: dict[int, str] = {}
        self.newest = -1
        """Highest id that was given to a transaction."""

    def __len__(self) -> int:
        return len(self._unfinished)

    def __iter__(self) -> Iterator[ClientTransaction]:
        return iter(list(self._unfinished.values()))

    def values(self) -> ValuesView[ClientTransaction]:
        return self._unfinished.values()

    @property
    def low_water_mark(self) -> int:
        """The highest id up to which all transactions have ended; -1 without one."""
        # Ids rise, so the first one is the smallest.
        return next(iter(self._unfinished), self.newest + 1) - 1

    def begin(self, timeout_ms: int, now_ms: int, owner: str | None) -> ClientTransaction:
        """Return a new transaction."""
        self.newest += 1
        txn = ClientTransaction(TxnId(self._coordinator, self.newest), timeout_ms, now_ms, owner)
        self._add(txn)
        return txn

    def _add(self, txn: ClientTransaction) -> None:
        self._unfinished[txn.id.least] = txn
        heapq.heappush(self._deadlines, (txn.started_ms + txn.timeout_ms, txn.id.least))

    def get(self, txn: TxnId) -> ClientTransaction:
        """Return a transaction that is not ended. Raises TransactionNotFound, InvalidTxnStatus when it has ended."""
        unfinished = self._unfinished.get(txn.least)
        if unfinished is not None:
            return unfinished
        outcome = self._finished.get(txn.least)
        if outcome is None:
            raise TransactionNotFound(f"The transaction with this txdID `{txn}`not found ")
        status = "COMMITTED" if outcome.committed else "ABORTED"
        raise InvalidTxnStatus(
            f"Expect Txn `{txn}` to be in OPEN status but it is in {status} status"
        )

    def outcome(self, txn: TxnId) -> TransactionOutcome | None:
        """Return how a transaction ended; None when it did not, or not lately."""
        return self._finished.get(txn.least)

    def owner(self, txn: TxnId) -> str | None:
        """Return the role that began a transaction, also of one that ended lately. Raises TransactionNotFound."""
        outcome = self._finished.get(txn.least)
        return outcome.owner if outcome is not None else self.get(txn).owner

    def finish(self, txn: ClientTransaction) -> None:
        """Note that a transaction is ended on all its topics and subscriptions."""
        del self._unfinished[txn.id.least]
        self._remember(txn.id.least, TransactionOutcome(txn.status == Entry.COMMITTING, txn.owner))

    def _remember(self, least: int, outcome: TransactionOutcome) -> None:
        self._finished[least] = outcome
        while len(self._finished) > FINISHED_REMEMBERED_MAX:
            self._finished.popitem(last=False)

    # Deadlines

    @property
    def next_deadline_ms(self) -> int | None:
        """Time of the first deadline, maybe of a transaction that has ended; None without one."""
        return self._deadlines[0][0] if self._deadlines else None

    def overdue(self, now_ms: int) -> list[ClientTransaction]:
        """Return the open transactions whose deadlines have passed, each once."""
        overdue = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            txn = self._unfinished.get(heapq.heappop(self._deadlines)[1])
            if txn is not None and txn.status == Entry.OPEN:
                overdue.append(txn)
        # Most transactions end long before their deadline, which may be a day ahead.
        if len(self._deadlines) > 1000 + 2 * len(self._unfinished):
            self._set_deadlines()
        return overdue

    def limit_starts(self, now_ms: int) -> None:
        """Let transactions that began in the future, by a clock that was ahead, begin now."""
        for txn in self.values():
            txn.started_ms = min(txn.started_ms, now_ms)
        self._set_deadlines()

    def _set_deadlines(self) -> None:
        self._deadlines = [(txn.started_ms + txn.timeout_ms, txn.id.least) for txn in self.values()]
        heapq.heapify(self._deadlines)

    # Recovery

    def recall(self, record: Entry) -> None:
        """Note the highest id, and how transactions ended, from a record that may be acknowledged. Those of the log's
        end are passed in their order, before ``replay``."""
        least = record.txnid_least_bits
        self.newest = max(self.newest, least, record.max_local_txn_id)
        if record.metadata_op == Entry.NEW and record.HasField("owner"):
            self._recalled[least] = record.owner
        elif record.new_status in (Entry.COMMITTED, Entry.ABORTED):
            owner = self._recalled.pop(least, None)
            self._remember(least, TransactionOutcome(record.new_status == Entry.COMMITTED, owner))

    def replay(self, record: Entry, position: Position) -> list[Position]:
        """Apply a record of the log; return the positions of a transaction that is done with.

        The records before a transaction's first one may have been removed after it had ended: those that remain of it
        are ignored.
        """
        least = record.txnid_least_bits
        # The records may be seen by ``recall``, and not be acknowledged yet.
        if record.metadata_op == Entry.NEW and least not in self._finished:
            owner = record.owner if record.HasField("owner") else None
            id_ = TxnId(self._coordinator, least)
            self._add(ClientTransaction(id_, record.timeout_ms, record.start_time, owner))
        txn = self._unfinished.get(least)
        if txn is None:
            return [position]  # its entries that are not acknowledged are those of an ended one
        txn.positions.append(position)
        match record.metadata_op:
            case Entry.ADD_PARTITION:
                txn.partitions.update(dict.fromkeys(record.partitions))
            case Entry.ADD_SUBSCRIPTION:
                for named in record.subscriptions:
                    txn.subscriptions[named.topic, named.subscription] = None
            case Entry.UPDATE if record.new_status in (Entry.COMMITTED, Entry.ABORTED):
                self._unfinished.pop(least)
                self._remember(
                    least, TransactionOutcome(record.new_status == Entry.COMMITTED, txn.owner)
                )
                return txn.positions
            case Entry.UPDATE:
                txn.status = record.new_status
        return []
