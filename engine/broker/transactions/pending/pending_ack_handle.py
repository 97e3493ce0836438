"""Acknowledgements of one subscription that open transactions made, and the end of these transactions.

An acknowledgement is checked, appended to the subscription's log, then confirmed; from the check on it is hidden from
dispatch (X4), so that no other can be accepted meanwhile. A commit is in the log before the subscription's cursor is
changed, and an abort before the messages are delivered again: after a crash the log is replayed, and the cursor's state
follows (X5). Records of ended transactions are kept until the cursor's state that includes them is stored, some more so
that an acknowledgement that arrives late is refused.

When the outcome of an append is not known, the log is abandoned and replayed before the next request is handled. Until
then everything hidden stays hidden.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Protocol

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.loop import last_call
from engine.base.names import TopicName
from engine.base.ranges import WORD_BITS
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.errors import BrokerError, NotAllowed, ServiceNotReady
from engine.broker.policies import TopicPolicies
from engine.broker.ports import PendingAckLogs
from engine.broker.transactions.log_stats import log_stats
from engine.broker.transactions.outcomes import Outcome, waited
from engine.broker.transactions.pending.ack_records import ack_record, end_record
from engine.broker.transactions.pending.pending_log import PendingLog, log_name
from engine.broker.transactions.pending.pending_state import (
    AckedCursor,
    PendingAck,
    PendingState,
    TxnAcks,
)
from engine.broker.transactions.ports import LogPlace, StatedAck
from engine.broker.transactions.record_writer import RecordOutcome
from engine.broker.transactions.txn_id import TxnId
from engine.wire import pulsar_pb2 as pb

log = logging.getLogger(__name__)

ENDED_MAX = 1000
"""Ended transactions that are remembered, so that an acknowledgement that arrives late is refused."""
ACKS_MAX = 100_000
"""Entries that open transactions of one subscription may have acknowledged."""
CLOSE_S = 5.0
"""Seconds for which the close of a topic waits for that of a log, which the next owner closes otherwise."""
WORDS_MAX = 1 << 14
"""Words of an ack set: a million messages in a batch."""


class PendingHost(Protocol):
    """Parts of a subscription that its transactional acknowledgements use."""

    name: str

    @property
    def topic(self) -> TopicName: ...

    @property
    def scope(self) -> TaskScope: ...

    @property
    def acked(self) -> AckedCursor: ...

    @property
    def policies(self) -> TopicPolicies: ...

    def hide(self, pending: PendingState, /) -> None:
        """Leave what ``pending`` has out of dispatch from now on."""
        ...

    def commit(self, held: TxnAcks, /) -> None:
        """Acknowledge for good what a transaction acknowledged. Must not raise."""
        ...

    def release(self, positions: Sequence[Position], /, *, everything: bool) -> None:
        """Deliver entries again, or ``everything`` that is not acknowledged. Must not raise."""
        ...


class PendingAckHandle:
    """Transactional acknowledgements of one durable subscription; see ``TransactionAcks``.

    ``fresh``: the subscription was just created, so that a log of its name is an earlier one's, and is deleted.
    """

    def __init__(
        self, host: PendingHost, logs: PendingAckLogs, context: Context, *, fresh: bool
    ) -> None:
        self._host = host
        self._logs = logs
        self._context = context
        self._name = log_name(host.topic, host.name)
        self._fresh = fresh
        self._log: PendingLog | None = None
        self._loaded = False
        """True when ``_log``, or that there is none, is what is stored."""
        self._closed = False
        self._lock = asyncio.Lock()
        self._state = PendingState()
        self._hides = False
        self._era = 0
        """Number of times that everything was forgotten."""
        self._call_last = last_call(asyncio.get_running_loop())
        self._gathered: dict[TxnId, tuple[list[StatedAck], list[Outcome], int]] = {}
        """Acknowledgements of this turn of the loop, with their outcomes and the era of their state."""
        self._ending: dict[TxnId, list[Outcome]] = {}
        """Outcomes of ends whose record is being appended."""
        self._ended: OrderedDict[TxnId, None] = OrderedDict()
        """Transactions that ended; the latest last."""
        self._done: list[LogPlace] = []
        """Records of ended transactions. Those of commits are needed until the subscription's cursor is stored; the
        next owner reads from all of them which transactions ended."""
        self._marks: dict[int, int] = {}
        """Low-water marks by coordinator."""
        self._recovery_ms = (0, 0)
        self.status = "None"
        """State, under Apache's name."""
        self.committed = self.aborted = 0
        """Transactions that ended since the topic was loaded."""

    # --- the log --------------------------------------------------------------------------------

    async def ready(self, *, make: bool = False) -> None:
        """Load the log if there is one, or with ``make`` create it. Nothing may be dispatched before.

        Raises ServiceNotReady. Cancel-safe.
        """
        if self._is_ready(make):
            return
        async with self._lock:
            if self._is_ready(make):
                return
            try:
                await self._load(make)
            except MagnetarError as error:
                self.status = "Error"
                raise self._unavailable(error) from error

    def _is_ready(self, make: bool) -> bool:
        if self._closed:
            raise ServiceNotReady(f"Topic {self._host.topic} is being unloaded")
        if self._log is None:
            return self._loaded and not make
        return self._loaded and not self._log.ledger.ended

    def _unavailable(self, error: Exception) -> ServiceNotReady:
        return ServiceNotReady(
            f"Acknowledgements of transactions on {self._host.name} are not available now: {error}"
        )

    async def _load(self, make: bool) -> None:
        if self._fresh:
            await self._logs.delete(self._host.topic, self._host.name)
            self._fresh = False
        if self._log is not None:
            self._log.ledger.abandon()
        began_ms = self._context.clock.wall_ms()
        self.status = "Initializing"
        host = self._host
        ledger = await self._logs.open(host.topic, host.name, host.policies, make=make)
        opened: PendingLog | None = None
        if ledger is not None:
            try:
                opened = await PendingLog.of(ledger, self._context.transactions.pending_ack_batches)
                await self._replay(opened)
            except BaseException:
                ledger.abandon()
                raise
        self._log, self._loaded = opened, True
        self.status = "None" if opened is None else "Ready"
        self._recovery_ms = began_ms, self._context.clock.wall_ms()

    async def _replay(self, opened: PendingLog) -> None:
        """Become what the log says. Commits are applied again: the cursor may not have stored them."""
        state, done = PendingState(), list[LogPlace]()
        commits: list[TxnAcks] = []
        ended: list[TxnId] = []
        async for place, record in opened.records():
            txn = TxnId(record.txnid_most_bits, record.txnid_least_bits)
            if record.pending_ack_op == pb.PendingAckMetadataEntry.ACK:
                cumulative = record.ack_type == pb.CommandAck.Cumulative
                held = state.restore(txn, acks_of(record), cumulative=cumulative)
                held.places.append(place)
                continue
            held = state.transactions.get(txn) or TxnAcks()
            state.remove(txn)
            ended.append(txn)
            done += *held.places, place
            if record.pending_ack_op == pb.PendingAckMetadataEntry.COMMIT:
                commits.append(held)
        if self._closed:
            raise ServiceNotReady(f"Topic {self._host.topic} is being unloaded")
        before, everything = self._state.positions, self._state.up_to is not None
        self._era += 1
        self._state.take_over(state)
        self._done = done
        for txn in ended:
            self._note_end(txn)
        if self._state:
            self._hide()
        for held in commits:
            self._host.commit(held)
        released = [position for position in before if self._state.kept(position) is None]
        if released or everything:
            self._host.release(released, everything=everything)

    def _hide(self) -> None:
        if not self._hides:
            self._hides = True
            self._host.hide(self._state)

    def _append(
        self,
        record: bytes,
        stored: Callable[[PendingLog, LogPlace, bool], None],
        outcome: Outcome,
    ) -> None:
        """Append a record and report the outcome.

        ``stored`` is called before with the log, the place, and whether everything was forgotten since. After a failure
        the log is replayed before it is used again.
        """
        opened, era = self._log, self._era
        assert opened is not None

        def at(place: LogPlace) -> None:
            stored(opened, place, era != self._era)
            outcome(None)

        def failed(error: Exception) -> None:
            if self._log is opened:
                self._loaded, self.status = False, "Error"
            outcome(self._unavailable(error))

        opened.writer.append(record, RecordOutcome(at, failed))

    @property
    def open(self) -> Collection[TxnId]:
        """Transactions that are open, in the order of their first acknowledgement."""
        return self._state.transactions.keys()

    # --- requests -------------------------------------------------------------------------------

    async def acknowledge(self, txn: TxnId, acks: Sequence[StatedAck], *, cumulative: bool) -> None:
        """Acknowledge entries when the transaction commits; durable on return.

        Raises TransactionConflict, NotAllowed (the transaction ended, an entry does not exist), ServiceNotReady: it is
        not known whether they are acknowledged.
        """
        await self.ready(make=True)
        await waited(partial(self._acknowledge, txn, acks, cumulative))

    def acknowledge_soon(
        self, txn: TxnId, acks: Sequence[StatedAck], *, cumulative: bool, outcome: Outcome
    ) -> bool:
        """Acknowledge as ``TransactionAcks.acknowledge_soon``."""
        if not self._is_ready(make=True):
            return False
        self._acknowledge(txn, acks, cumulative, outcome)
        return True

    def _acknowledge(
        self, txn: TxnId, acks: Sequence[StatedAck], cumulative: bool, outcome: Outcome
    ) -> None:
        """Check and hide acknowledgements, then append their record. Raises as ``acknowledge``."""
        self._check_open(txn)
        for ack in acks:
            if len(ack.ack_set) > WORDS_MAX or ack.batch_size > WORDS_MAX * WORD_BITS:
                raise NotAllowed(f"ack_set of {ack.position}: more than {WORDS_MAX} words")
        pending = [PendingAck.of(ack) for ack in acks]
        topic, name, cursor = self._host.topic.full, self._host.name, self._host.acked
        if cumulative:
            if len(pending) != 1:
                raise NotAllowed(
                    f"a cumulative acknowledgement has one message id, not {len(pending)}"
                )
            self._state.add_cumulative(txn, pending[0], cursor, topic, name)
            self._hide()
            self._store_gathered()
            record = ack_record(txn, acks, cumulative=True)
            self._append(record, partial(self._ack_stored, txn), outcome)
            return
        if self._state.count + len(pending) > ACKS_MAX:
            raise NotAllowed(f"open transactions may acknowledge {ACKS_MAX} entries of {name}")
        self._state.add(txn, pending, cursor, topic, name)
        self._hide()
        self._gather(txn, acks, outcome)

    def _gather(self, txn: TxnId, acks: Sequence[StatedAck], outcome: Outcome) -> None:
        """Append acknowledgements together with those that other commands of this turn of the loop make in the same
        transaction."""
        gathered = self._gathered.get(txn)
        if gathered is None:
            if not self._gathered:
                self._call_last(self._store_gathered)
            gathered = self._gathered[txn] = [], [], self._era
        gathered[0].extend(acks)
        gathered[1].append(outcome)

    def _store_gathered(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for txn, (acks, outcomes, era) in gathered.items():
            settle = partial(_settle, outcomes)
            if era != self._era or not self._loaded:
                settle(self._unavailable(ServiceNotReady("the log is being replayed")))
                continue
            record = ack_record(txn, acks, cumulative=False)
            self._append(record, partial(self._ack_stored, txn), settle)

    def _ack_stored(self, txn: TxnId, opened: PendingLog, place: LogPlace, forgotten: bool) -> None:
        if forgotten:
            opened.drop((place,))
        else:
            self._state.transactions[txn].places.append(place)

    def _check_open(self, txn: TxnId) -> None:
        # One that the coordinator has ended would keep the messages from every consumer.
        if txn in self._ended or txn in self._ending or txn.least <= self._marks.get(txn.most, -1):
            raise NotAllowed(f"Transaction {txn} has been ended. Please use a new transaction.")

    async def end(self, txn: TxnId, *, commit: bool, low_water_mark: int) -> None:
        """Apply or discard what the transaction acknowledged; durable on return, and made once when repeated.

        Transactions up to ``low_water_mark`` are aborted: their end was lost. Raises ServiceNotReady. Cancel-safe.
        """
        await self.ready()
        await waited(partial(self._end, txn, commit, low_water_mark))

    def end_soon(self, txn: TxnId, *, commit: bool, low_water_mark: int, outcome: Outcome) -> bool:
        """End as ``TransactionAcks.end_soon``."""
        if not self._is_ready(make=False):
            return False
        self._end(txn, commit, low_water_mark, outcome)
        return True

    def _end(self, txn: TxnId, commit: bool, low_water_mark: int, outcome: Outcome) -> None:
        self._end_one(txn, commit, partial(self._over, txn.most, low_water_mark, outcome))

    def _over(
        self, coordinator: int, low_water_mark: int, outcome: Outcome, error: BrokerError | None
    ) -> None:
        """Abort the first transaction of which a coordinator states that it is over, and report the outcome when there
        is none any more."""
        if error is None:
            mark = max(low_water_mark, self._marks.get(coordinator, -1))
            self._marks[coordinator] = mark
            stale = self._state.first_up_to(coordinator, mark)
            if stale is not None:
                again = partial(self._over, coordinator, low_water_mark, outcome)
                self._end_one(stale, False, again)
                return
        outcome(error)

    def _end_one(self, txn: TxnId, commit: bool, outcome: Outcome) -> None:
        """Append the record of an end, unless that is under way or there is nothing to end."""
        present = self._ending.get(txn)
        if present is not None:
            present.append(outcome)
            return
        held = self._state.transactions.get(txn)
        if held is None:
            self._note_end(txn)
            outcome(None)
            return
        self._store_gathered()
        record = end_record(txn, commit=commit, cumulative=held.cumulative is not None)
        self._ending[txn] = [outcome]
        self._append(record, partial(self._end_stored, txn, commit), partial(self._settle_end, txn))

    def _settle_end(self, txn: TxnId, error: BrokerError | None) -> None:
        _settle(self._ending.pop(txn), error)

    def _end_stored(
        self, txn: TxnId, commit: bool, opened: PendingLog, place: LogPlace, forgotten: bool
    ) -> None:
        if forgotten:
            opened.drop((place,))
            return
        held = self._state.transactions[txn]
        self._note_end(txn)
        self._done += *held.places, place
        if commit:
            self.committed += 1
            # Before they are no longer hidden: they must not be delivered in between.
            self._host.commit(held)
            self._state.remove(txn)
        else:
            self.aborted += 1
            self._state.remove(txn)
            self._host.release([*held.acks], everything=held.cumulative is not None)
        self._trim_later()

    def _note_end(self, txn: TxnId) -> None:
        self._ended[txn] = None
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    def _trim_later(self) -> None:
        lag = self._context.transactions.transaction_pending_ack_log_index_min_lag
        if len(self._done) >= lag and not self._host.scope.closed:
            self._host.scope.spawn(f"trim {self._name}", self._trim())

    async def _trim(self) -> None:
        """Drop the records of ended transactions once the subscription's cursor is stored with them."""
        opened, done, self._done = self._log, self._done, []
        try:
            await self._host.acked.persisted()
        except MagnetarError as error:
            # The records stay in the log; the next owner applies them again.
            log.debug("records not dropped log=%s: %s", self._name, error)
            return
        if opened is not None and self._log is opened:
            opened.drop(done)

    # --- the life of the subscription -----------------------------------------------------------

    async def clear(self) -> None:
        """Forget everything, because the subscription's position was moved back: also commits, which a replay would
        apply again. Durable on return. Raises ServiceNotReady: it may or may not be forgotten then.
        """
        await self.ready()
        opened = self._log
        if opened is None:
            return
        self._store_gathered()
        opened.writer.flush()
        self._era += 1
        self._state.clear()
        self._done = []
        try:
            await opened.clear()
        except MagnetarError as error:
            self._loaded, self.status = False, "Error"
            raise self._unavailable(error) from error

    async def delete(self) -> None:
        """Delete the log with the subscription. Raises LedgerError, ManagedLedgerError, the store's errors."""
        self._closed, self.status = True, "Close"
        async with self._lock:
            await self._logs.delete(self._host.topic, self._host.name)

    async def close(self) -> None:
        """Stop and close the log. The records of ended transactions stay: a wait for the cursor to be stored would have
        no bound."""
        self._closed, self.status = True, "Close"
        opened = self._log
        if opened is not None:
            self._store_gathered()
            opened.writer.flush()
            try:
                async with asyncio.timeout(CLOSE_S):
                    await opened.ledger.close()
            except TimeoutError:
                opened.ledger.abandon()

    # --- statistics -----------------------------------------------------------------------------

    def stats(self, *, low_water_marks: bool) -> dict[str, Any]:
        began_ms, ended_ms = self._recovery_ms
        document: dict[str, Any] = {
            "state": self.status,
            "ongoingTxnSize": len(self._state.transactions),
            "recoverStartTime": began_ms,
            "recoverEndTime": ended_ms,
        }
        if low_water_marks:
            marks = sorted(self._marks.items())
            document["lowWaterMarks"] = {str(most): mark for most, mark in marks}
        return document

    def log_stats(self) -> dict[str, Any] | None:
        """Return the statistics of the log; None when there is none."""
        return None if self._log is None else log_stats(self._log.ledger)

    def transaction_stats(self, txn: TxnId) -> dict[str, Any]:
        held = self._state.transactions.get(txn)
        if held is None or held.cumulative is None:
            return {}
        return {"cumulativeAckPosition": str(held.cumulative.position)}

    def position_state(self, position: Position, batch_index: int | None) -> str:
        cursor = self._host.acked
        if position <= cursor.mark_delete:
            return "MarkDelete"
        kept = self._state.kept(position)
        if kept is None:
            return "NotInPendingAck"
        if batch_index is None:
            return "PendingAck"
        size = self._state.batch_size(position)
        if batch_index < 0 or (size and batch_index >= size):
            return "InvalidPosition"
        return "NotInPendingAck" if kept >> batch_index & 1 else "PendingAck"


def _settle(outcomes: list[Outcome], error: BrokerError | None) -> None:
    for outcome in outcomes:
        outcome(error)


def acks_of(record: pb.PendingAckMetadataEntry) -> list[PendingAck]:
    """Return the acknowledgements in a record."""
    return [
        PendingAck.of(
            StatedAck(Position(ack.ledgerId, ack.entryId), list(ack.ack_set), ack.batch_size)
        )
        for ack in record.pending_ack_metadata
    ]
