"""One transaction coordinator: it begins transactions, records what they touch, and ends them everywhere or times out.

A step is decided in memory and appended to the log at once, so that the log has the steps in the order in which they
were decided. It is answered when its entry is durable, an end when it was confirmed everywhere: the record of that is
stored behind the answer, because the next coordinator would repeat the end and find it done. When an entry may not be
durable, the coordinator ends: the next one, here or on another broker, decides by the log (X7, X8). Time-outs count
from a transaction's begin, also at its next owner (X9).

Steps have callbacks for their outcomes, and tasks only where requests to other brokers are awaited.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.log import bound
from engine.base.tasks import TaskScope
from engine.broker.errors import (
    InvalidTxnStatus,
    NotAllowed,
    TooManyRequests,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
)
from engine.broker.settings import TransactionSettings
from engine.broker.transactions.coordinator import log_records
from engine.broker.transactions.coordinator.coordinator_log import CoordinatorLog
from engine.broker.transactions.coordinator.latencies import Latencies
from engine.broker.transactions.coordinator.participants import Participants
from engine.broker.transactions.coordinator.transaction_table import (
    ClientTransaction,
    Entry,
    TransactionTable,
)
from engine.broker.transactions.outcomes import Outcome, waited
from engine.broker.transactions.txn_id import TxnId
from engine.tenancy.initialization import COORDINATORS

CHECK_S_MAX = 5.0
"""Longest time between checks for transactions that timed out."""


class CoordinatorState(Enum):
    """State of a coordinator, in Apache's words."""

    INITIALIZING = "Initializing"
    READY = "Ready"
    CLOSED = "Close"


class Coordinator:
    """Created around an open log; ``recover`` is called once. Methods raise BrokerError.

    ``failed`` is called once, when the coordinator cannot continue and must be opened again.
    """

    def __init__(
        self,
        id_: int,
        log: CoordinatorLog,
        participants: Participants,
        settings: TransactionSettings,
        clock: Clock,
        failed: Callable[["Coordinator"], None],
    ) -> None:
        self.id = id_
        self.topic = COORDINATORS.partition_at(id_)
        """The partition whose owner serves this coordinator."""
        self.log = log
        self.table = TransactionTable(id_)
        self.state = CoordinatorState.INITIALIZING
        self.recover_began_ms = clock.wall_ms()
        self.recover_ended_ms = 0
        self.begun = 0
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        self.latencies = Latencies()
        """Times from a transaction's begin until it was committed."""
        self._participants = participants
        self._settings = settings
        self._clock = clock
        self._epoch_ms = clock.wall_ms() - int(clock.monotonic_s() * 1000)
        self._failed = failed
        self._log = bound(__name__, coordinator=id_)
        self._tasks = TaskScope(f"coordinator {id_}", self._task_failed)
        self._endings: dict[int, list[Outcome]] = {}
        """Outcomes that wait for the ends of transactions, of all whose end is decided."""
        self._owned: Counter[str] = Counter()
        """Transactions that are not ended, by role."""
        self._timer: asyncio.TimerHandle | None = None
        log.on_failed = self._append_failed
        log.ledger.on_ended(self.fail)

    async def recover(self) -> None:
        """Apply the log, continue the ends that were decided, and watch over the time-outs. Raises the log's errors."""
        await self.log.replay(self.table)
        self.table.limit_starts(self._now_ms())
        for txn in self.table:
            if txn.owner is not None:
                self._owned[txn.owner] += 1
            if txn.status != Entry.OPEN:
                self._endings[txn.id.least] = []
                self._decided(txn)
        self.recover_ended_ms = self._clock.wall_ms()
        if self.state is CoordinatorState.INITIALIZING:  # it may have failed meanwhile
            self.state = CoordinatorState.READY
            self._check_deadlines()
        self._log.info("coordinator ready open=%d newest=%d", len(self.table), self.table.newest)

    # --- requests -------------------------------------------------------------------------------

    async def begin(self, timeout_ms: int, owner: str | None) -> TxnId:
        """Begin a transaction, which is aborted after ``timeout_ms``; durable on return.

        Raises NotAllowed without a time-out, TooManyRequests at a limit.
        """
        self.check_ready()
        while not self.can_begin:
            try:
                await self.log.reserve(self.table.newest + 1)
            except MagnetarError as error:
                raise self._moved() from error
            self.check_ready()
        return await waited(partial(self.begin_soon, timeout_ms, owner))

    @property
    def can_begin(self) -> bool:
        """False while the next id has to be reserved first."""
        return self.log.covers(self.table.newest + 1)

    def begin_soon(self, timeout_ms: int, owner: str | None, outcome: Outcome) -> TxnId:
        """Begin as ``begin`` while ``can_begin``; durable with the outcome."""
        self.check_ready()
        if timeout_ms < 1:
            raise NotAllowed(f"txn_ttl_millis {timeout_ms}: must be at least 1")
        timeout_ms = min(timeout_ms, self._settings.transaction_timeout_max_ms)
        self._check_limits(owner)
        txn = self.table.begin(timeout_ms, self._now_ms(), owner)
        if owner is not None:
            self._owned[owner] += 1
        record = log_records.new_record(
            txn.id,
            timeout_ms=timeout_ms,
            started_ms=txn.started_ms,
            newest=self.table.newest,
            owner=owner,
        )
        self._arm()
        self.log.append(record, txn.positions, partial(self._begun, outcome))
        return txn.id

    def _begun(self, outcome: Outcome, error: Exception | None) -> None:
        self.begun += error is None
        self._report(outcome, error)

    def _check_limits(self, owner: str | None) -> None:
        settings = self._settings
        limit = settings.max_active_transactions_per_coordinator
        if 0 < limit <= len(self.table):
            raise TooManyRequests(
                f"Transaction coordinator {self.id} has {len(self.table)} transactions, at most {limit} are allowed "
                "(max_active_transactions_per_coordinator)"
            )
        limit = settings.max_active_transactions_per_owner
        if owner is not None and 0 < limit <= self._owned[owner]:
            raise TooManyRequests(
                f"Role {owner} has {self._owned[owner]} transactions at coordinator {self.id}, at most {limit} are "
                "allowed (max_active_transactions_per_owner)"
            )

    def add_partitions_soon(self, txn_id: TxnId, topics: Sequence[str], outcome: Outcome) -> None:
        """Note topics, by full name, that a transaction is about to publish to; durable with the outcome."""
        txn = self._open(txn_id)
        txn.check_room(len(topics))
        txn.partitions.update(dict.fromkeys(topics))
        record = log_records.partitions_record(
            txn_id, topics, changed_ms=self._clock.wall_ms(), newest=self.table.newest
        )
        self.log.append(record, txn.positions, partial(self._report, outcome))

    def add_subscriptions_soon(
        self, txn_id: TxnId, subscriptions: Sequence[tuple[str, str]], outcome: Outcome
    ) -> None:
        """Note subscriptions, with their topics, on which a transaction is about to acknowledge; durable with the
        outcome."""
        txn = self._open(txn_id)
        txn.check_room(len(subscriptions))
        txn.subscriptions.update(dict.fromkeys(subscriptions))
        record = log_records.subscriptions_record(
            txn_id, subscriptions, changed_ms=self._clock.wall_ms(), newest=self.table.newest
        )
        self.log.append(record, txn.positions, partial(self._report, outcome))

    async def end(self, txn_id: TxnId, *, commit: bool) -> None:
        """Commit or abort a transaction; done on all its topics and subscriptions on return.

        Repeated for a transaction that ended so lately, it does nothing. Cancel-safe: the end continues. Raises
        InvalidTxnStatus when it was or is being ended otherwise.
        """
        await waited(partial(self.end_soon, txn_id, commit))

    def end_soon(self, txn_id: TxnId, commit: bool, outcome: Outcome) -> None:
        """End as ``end``; done with the outcome."""
        self.check_ready()
        ended = self.table.outcome(txn_id)
        if ended is not None and ended.committed == commit:
            outcome(None)
            return
        txn = self.table.get(txn_id)
        wanted = Entry.COMMITTING if commit else Entry.ABORTING
        if txn.status == Entry.OPEN:
            self._decide(txn, commit=commit)
        elif txn.status != wanted:
            raise InvalidTxnStatus(
                f"Expect Txn `{txn_id}` to be in OPEN status but it is in {txn.status_name} status"
            )
        self._endings[txn_id.least].append(outcome)

    def owner(self, txn_id: TxnId) -> str | None:
        """Return the role that began a transaction. Raises TransactionNotFound."""
        self.check_ready()
        return self.table.owner(txn_id)

    def find(self, txn_id: TxnId) -> ClientTransaction:
        """Return a transaction that is not ended. Raises TransactionNotFound."""
        self.check_ready()
        if self.table.outcome(txn_id) is not None:
            raise TransactionNotFound(f"The transaction with this txdID `{txn_id}`not found ")
        return self.table.get(txn_id)

    def _open(self, txn_id: TxnId) -> ClientTransaction:
        self.check_ready()
        txn = self.table.get(txn_id)
        txn.check_open()
        return txn

    # --- ends -----------------------------------------------------------------------------------

    def _decide(self, txn: ClientTransaction, *, commit: bool) -> None:
        """Decide how an open transaction ends. Nothing can be added to it from now on."""
        txn.status = Entry.COMMITTING if commit else Entry.ABORTING
        self._endings[txn.id.least] = []
        record = self._status_record(txn, Entry.OPEN, txn.status)
        self.log.append(record, txn.positions, partial(self._decided, txn))

    def _decided(self, txn: ClientTransaction, error: Exception | None = None) -> None:
        """End a transaction on its topics and subscriptions, now that the decision is durable, unless there was an
        error."""
        if error is None and self.state is not CoordinatorState.CLOSED:
            self._participants.end(
                txn.id,
                txn.partitions,
                txn.subscriptions,
                commit=txn.status == Entry.COMMITTING,
                low_water_mark=lambda: self.table.low_water_mark,
                tasks=self._tasks,
                ended=partial(self._ended, txn),
            )

    def _ended(self, txn: ClientTransaction) -> None:
        """Finish a transaction whose end was confirmed everywhere."""
        if self.state is CoordinatorState.CLOSED:
            return
        commit = txn.status == Entry.COMMITTING
        record = self._status_record(txn, txn.status, Entry.COMMITTED if commit else Entry.ABORTED)
        self.log.append(record, txn.positions, partial(self._finished, txn))
        self.table.finish(txn)
        if txn.owner is not None:
            self._owned[txn.owner] -= 1
            if not self._owned[txn.owner]:
                del self._owned[txn.owner]
        if commit:
            self.committed += 1
            self.latencies.add(self._now_ms() - txn.started_ms)
        else:
            self.aborted += 1
        for outcome in self._endings.pop(txn.id.least):
            outcome(None)

    def _finished(self, txn: ClientTransaction, error: Exception | None) -> None:
        """Drop the records of a transaction, now that the last one of them is durable, unless there was an error."""
        if error is None:
            self.log.release(txn.positions)

    def _status_record(
        self, txn: ClientTransaction, expected: Entry.TxnStatus, status: Entry.TxnStatus
    ) -> bytes:
        return log_records.status_record(
            txn.id,
            expected,
            status,
            changed_ms=self._clock.wall_ms(),
            newest=self.table.newest,
        )

    # --- time-outs ------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        """Return the time since the epoch by the clock as it was when this coordinator was opened: one that is set
        later neither delays time-outs nor makes them early (X6)."""
        return self._epoch_ms + int(self._clock.monotonic_s() * 1000)

    def _arm(self) -> None:
        """Set the one timer, unless it is set, for the first deadline."""
        deadline_ms = self.table.next_deadline_ms
        if self._timer is not None:
            if deadline_ms is None or self._timer.when() <= self._at(deadline_ms):
                return
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None and self.state is CoordinatorState.READY:
            at_s = self._at(deadline_ms)
            self._timer = asyncio.get_running_loop().call_at(at_s, self._check_deadlines)

    def _at(self, deadline_ms: int) -> float:
        """Return the time of the event loop for a deadline, at most CHECK_S_MAX ahead."""
        delay_s = (deadline_ms - self._now_ms()) / 1000
        return asyncio.get_running_loop().time() + min(max(delay_s, 0.0), CHECK_S_MAX)

    def _check_deadlines(self) -> None:
        self._timer = None
        if self.state is not CoordinatorState.READY:
            return
        for txn in self.table.overdue(self._now_ms()):
            txn.timed_out = True
            self.timed_out += 1
            self._decide(txn, commit=False)
        self._arm()

    # --- life -----------------------------------------------------------------------------------

    def check_ready(self) -> None:
        """Raise TransactionCoordinatorNotFound unless requests are served."""
        if self.state is not CoordinatorState.READY:
            raise self._moved()

    def _moved(self) -> TransactionCoordinatorNotFound:
        return TransactionCoordinatorNotFound(
            f"Transaction coordinator {self.id} is not ready here"
        )

    def _report(self, outcome: Outcome, error: Exception | None) -> None:
        """Report a step whose entry is durable, unless there was an error: it may be durable or not."""
        outcome(None if error is None else self._moved())

    def _append_failed(self, error: Exception) -> None:
        if self.state is not CoordinatorState.CLOSED:
            self._log.warning("the log cannot be written: %s", error)
            self.fail()

    def _task_failed(self, name: str, error: BaseException) -> None:
        if not isinstance(error, TransactionCoordinatorNotFound):
            self._log.error("task failed name=%s", name, exc_info=error)
            self.fail()

    def fail(self) -> None:
        """End at once, because the log decides what happened. Safe to call twice."""
        if self.state is CoordinatorState.CLOSED:
            return
        self._stop()
        self._failed(self)

    def _stop(self) -> None:
        self.state = CoordinatorState.CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        endings, self._endings = self._endings, {}
        for outcomes in endings.values():
            for outcome in outcomes:
                outcome(self._moved())

    async def close(self) -> None:
        """End, and close the log. Requests to other brokers stop; the next owner sends them again."""
        self._stop()
        await self._tasks.close()
        await self.log.close()
