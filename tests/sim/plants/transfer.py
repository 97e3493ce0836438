"""Mistakes of transactions."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.ranges import words_of
from engine.broker.topics.subscriptions.pending_host import SubscriptionOfPending
from engine.broker.transactions.buffer import topic_snapshots
from engine.broker.transactions.buffer.open_transactions import OpenTransactions
from engine.broker.transactions.buffer.snapshots import BufferSnapshot, single_value
from engine.broker.transactions.buffer.topic_buffer import TopicBuffer
from engine.broker.transactions.coordinator.coordinator import Coordinator
from engine.broker.transactions.coordinator.coordinator_log import CoordinatorLog
from engine.broker.transactions.coordinator.participants import Participants
from engine.broker.transactions.coordinator.transaction_table import (
    ClientTransaction,
    TransactionTable,
)
from engine.broker.transactions.outcomes import Outcome
from engine.broker.transactions.pending import pending_state
from engine.broker.transactions.pending.pending_ack_handle import PendingAckHandle
from engine.broker.transactions.pending.pending_log import PendingLog
from engine.broker.transactions.pending.pending_state import (
    AckedCursor,
    PendingAck,
    PendingState,
    TxnAcks,
)
from engine.broker.transactions.txn_id import TxnId
from tests.sim.plants.planting import Patches


def markers_precede_the_decision() -> Patches:
    """End a transaction on its topics before the decision is durable."""
    real = Coordinator._decide

    def decide(self: Coordinator, txn: ClientTransaction, *, commit: bool) -> None:
        decided = self._decided
        try:
            self._decided = lambda *_: None  # type: ignore[method-assign]
            real(self, txn, commit=commit)
        finally:
            self._decided = decided  # type: ignore[method-assign]
        decided(txn)

    return [(Coordinator, "_decide", decide)]


def time_out_races_the_commit() -> Patches:
    """Abort transactions that time out although their commit is decided."""

    real = TransactionTable.overdue

    def overdue(self: TransactionTable, now_ms: int) -> list[ClientTransaction]:
        real(self, now_ms)
        late = [txn for txn in self if txn.started_ms + txn.timeout_ms <= now_ms]
        return [txn for txn in late if not txn.timed_out]

    return [(TransactionTable, "overdue", overdue)]


def low_water_mark_is_the_newest() -> Patches:
    """State that all transactions are over that have begun."""

    def mark(self: TransactionTable) -> int:
        return self.newest

    return [(TransactionTable, "low_water_mark", property(mark))]


def ids_begin_anew_with_each_owner() -> Patches:
    """Number transactions from those that are open when a coordinator is opened."""
    real = CoordinatorLog.replay

    async def replay(self: CoordinatorLog, table: TransactionTable) -> None:
        await real(self, table)
        table.newest = max((txn.id.least for txn in table), default=-1)

    return [(CoordinatorLog, "replay", replay)]


def decided_ends_are_not_continued() -> Patches:
    """Leave transactions that were being ended to a coordinator that has died."""
    real = Coordinator.recover

    async def recover(self: Coordinator) -> None:
        decided = self._decided
        try:
            self._decided = lambda *_: None  # type: ignore[method-assign]
            await real(self)
        finally:
            self._decided = decided  # type: ignore[method-assign]

    return [(Coordinator, "recover", recover)]


def failed_request_counts_as_an_end() -> Patches:
    """Request the end of a transaction once of each topic and subscription."""
    real = Participants._ended_here

    async def end(self: Participants, txn: TxnId, topic: str, frame: Any, commit: bool) -> None:
        try:
            await self._ask(topic, frame)
        except MagnetarError:
            return

    def ended_here(
        self: Participants, end: Any, participant: Any, began_s: float, error: Any
    ) -> None:
        real(self, end, participant, began_s, None)

    return [(Participants, "_end", end), (Participants, "_ended_here", ended_here)]


def open_transactions_are_read() -> Patches:
    """Let readers have entries as soon as they are durable."""
    return [(TopicBuffer, "_set_limit", lambda self: self._log.release_reads())]


def aborted_messages_are_delivered() -> Patches:
    """Forget an aborted transaction as a committed one."""
    real = OpenTransactions.ended

    def ended(self: OpenTransactions, txn: TxnId, position: Position, *, commit: bool) -> None:
        real(self, txn, position, commit=True)

    return [(OpenTransactions, "ended", ended)]


def snapshots_have_no_aborted_transactions() -> Patches:
    """Store where a topic could be read, and not what is left out."""

    def value(topic: str, snapshot: BufferSnapshot) -> Mapping[str, Any]:
        return single_value(topic, snapshot._replace(aborted={}))

    return [(topic_snapshots, "single_value", value)]


def snapshot_is_ahead_of_what_may_be_read() -> Patches:
    """Store the last durable entry as the end to which the topic could be read."""
    real = TopicBuffer._store_snapshot

    async def store(self: TopicBuffer) -> None:
        last = self._log.last_confirmed

        def value(topic: str, snapshot: BufferSnapshot) -> Mapping[str, Any]:
            return single_value(topic, snapshot._replace(max_read=last))

        before, topic_snapshots.single_value = topic_snapshots.single_value, value  # type: ignore[assignment]
        try:
            await real(self)
        finally:
            topic_snapshots.single_value = before

    return [(TopicBuffer, "_store_snapshot", store)]


def readers_do_not_wait_for_the_transactions() -> Patches:
    """Serve readers of a topic while its transactions are being restored."""
    real = TopicBuffer.restore

    def restore(self: TopicBuffer) -> None:
        real(self)
        self._log.release_reads()

    return [(TopicBuffer, "restore", restore)]


def pending_acknowledgements_end_with_their_owner() -> Patches:
    """Load a subscription without what open transactions have acknowledged."""

    async def records(self: PendingLog) -> AsyncIterator[Any]:
        for nothing in ():
            yield nothing

    return [(PendingLog, "records", records)]


def commits_acknowledge_nothing() -> Patches:
    """End a committed transaction without acknowledging its messages."""

    def commit(self: SubscriptionOfPending, held: TxnAcks) -> None:
        pass

    return [(SubscriptionOfPending, "commit", commit)]


def aborted_acknowledgements_stay() -> Patches:
    """Acknowledge what an aborted transaction had acknowledged."""

    def release(
        self: SubscriptionOfPending, positions: Sequence[Position], *, everything: bool
    ) -> None:
        self.acked.acknowledge(list(positions))

    return [(SubscriptionOfPending, "release", release)]


def commits_are_not_in_the_log_of_acknowledgements() -> Patches:
    """Apply a commit in memory alone."""
    real = PendingAckHandle._end_one

    def end(self: PendingAckHandle, txn: TxnId, commit: bool, outcome: Outcome) -> None:
        held = self._state.transactions.get(txn)
        if held is None or not commit:
            real(self, txn, commit, outcome)
            return
        self._host.commit(held)
        self._state.remove(txn)
        self._note_end(txn)
        outcome(None)

    return [(PendingAckHandle, "_end_one", end)]


def records_go_before_the_cursor_is_stored() -> Patches:
    """Drop the records of committed transactions as soon as they are applied."""

    def trim(self: PendingAckHandle) -> None:
        if self._log is not None:
            self._log.drop(self._done)
            self._done = []

    return [(PendingAckHandle, "_trim_later", trim)]


def a_part_is_taken_for_the_batch() -> Patches:
    """Acknowledge whole entries of which a committed transaction acknowledged a part."""
    real = SubscriptionOfPending.commit

    def commit(self: SubscriptionOfPending, held: TxnAcks) -> None:
        acks = {position: ack._replace(kept=0) for position, ack in held.acks.items()}
        real(self, TxnAcks(acks, held.cumulative, held.places))

    return [(SubscriptionOfPending, "commit", commit)]


def parts_of_a_batch_do_not_conflict() -> Patches:
    """Let transactions acknowledge the same messages of a batch."""
    real = pending_state._overlap

    def overlap(ack: PendingAck, kept: int) -> bool:
        return real(ack, kept) and not (ack.kept and kept)

    return [(pending_state, "_overlap", overlap)]


def ended_transactions_take_the_parts_of_others_along() -> Patches:
    """Forget all that is pending of a batch when one of its transactions ends."""

    def remove(self: PendingState, txn: TxnId) -> None:
        held = self.transactions.pop(txn, None)
        if held is None:
            return
        if self._cumulative == txn:
            self._cumulative = None
        for position in held.acks:
            self._kept.pop(position, None)

    return [(PendingState, "remove", remove)]


def last_part_in_a_transaction_counts() -> Patches:
    """Replace what a transaction acknowledged of a batch by what it acknowledges next of it."""
    real = PendingState.restore

    def restore(
        self: PendingState, txn: TxnId, acks: Sequence[PendingAck], *, cumulative: bool = False
    ) -> TxnAcks:
        held = real(self, txn, acks, cumulative=cumulative)
        if not cumulative:
            held.acks |= {ack.position: ack for ack in acks}
        return held

    return [(PendingState, "restore", restore)]


def aborted_parts_come_with_the_next_attachment() -> Patches:
    """Leave parts of batches that an aborted transaction had acknowledged undelivered while consumers are attached."""
    real = PendingAckHandle._end_stored

    def end_stored(self: PendingAckHandle, txn: TxnId, commit: bool, *rest: Any) -> None:
        held = self._state.transactions.get(txn)
        host, release = self._host, self._host.release
        parts = {at for at, ack in held.acks.items() if ack.kept} if held is not None else set()

        def whole(positions: Sequence[Position], *, everything: bool) -> None:
            due = [at for at in positions if at not in parts]
            if due or everything:
                release(due, everything=everything)

        class Host:
            def __getattr__(self, name: str) -> Any:
                return whole if name == "release" else getattr(host, name)

        self._host = Host()  # type: ignore[assignment]
        try:
            real(self, txn, commit, *rest)
        finally:
            self._host = host

    return [(PendingAckHandle, "_end_stored", end_stored)]


def cumulative_ignores_what_others_have() -> Patches:
    """Accept a cumulative acknowledgement over messages that another transaction acknowledged."""

    def add(
        self: PendingState,
        txn: TxnId,
        ack: PendingAck,
        cursor: AckedCursor,
        topic: str,
        name: str,
    ) -> None:
        others = {other: held for other, held in self.transactions.items() if other != txn}
        before = {other: held.acks for other, held in others.items()}
        for held in others.values():
            held.acks = {}
        try:
            real(self, txn, ack, cursor, topic, name)
        finally:
            for other, held in others.items():
                held.acks = before[other]

    real = PendingState.add_cumulative
    return [(PendingState, "add_cumulative", add)]


def second_cumulative_replaces_the_first() -> Patches:
    """Let the next transaction acknowledge cumulatively while one has done so."""
    real = PendingState.add_cumulative

    def add(self: PendingState, txn: TxnId, *rest: Any) -> Any:
        before, self._cumulative = self._cumulative, None
        try:
            return real(self, txn, *rest)
        finally:
            self._cumulative = self._cumulative or before

    return [(PendingState, "add_cumulative", add)]


def acknowledged_for_good_is_acknowledged_again() -> Patches:
    """Accept a cumulative acknowledgement behind the position of the cursor."""
    real = PendingState.add_cumulative

    class Fresh:
        mark_delete = Position(-1, -1)

    def add(
        self: PendingState, txn: TxnId, ack: PendingAck, cursor: AckedCursor, *rest: str
    ) -> Any:
        return real(self, txn, ack, Fresh(), *rest)  # type: ignore[arg-type]

    return [(PendingState, "add_cumulative", add)]


def batch_at_a_cumulative_end_is_passed() -> Patches:
    """Acknowledge the whole batch in which a cumulative acknowledgement ends."""
    real = SubscriptionOfPending.commit

    def commit(self: SubscriptionOfPending, held: TxnAcks) -> None:
        up_to = held.cumulative
        if up_to is not None:
            held = TxnAcks(held.acks, up_to._replace(kept=0), held.places)
        real(self, held)

    return [(SubscriptionOfPending, "commit", commit)]


def batch_at_a_cumulative_end_is_left_out() -> Patches:
    """Acknowledge only what is before the batch in which a cumulative acknowledgement ends."""

    def commit(self: SubscriptionOfPending, held: TxnAcks) -> None:
        up_to = held.cumulative
        real(self, TxnAcks(held.acks, None, held.places))
        if up_to is not None and up_to.position > self.acked.mark_delete:
            every = words_of((1 << 64) - 1)
            kept = every if up_to.kept else ()
            self.acked.acknowledge_cumulative(up_to.position, kept)

    real = SubscriptionOfPending.commit
    return [(SubscriptionOfPending, "commit", commit)]


def cumulative_is_read_back_as_a_single_one() -> Patches:
    """Take a cumulative acknowledgement in the log for one of its entry alone."""
    real = PendingLog.records

    async def records(self: PendingLog) -> AsyncIterator[Any]:
        async for place, record in real(self):
            record.ack_type = 0
            yield place, record

    return [(PendingLog, "records", records)]


def aborted_cumulative_stays_hidden() -> Patches:
    """Leave the messages below an aborted cumulative acknowledgement undelivered."""
    real = SubscriptionOfPending.release

    def release(
        self: SubscriptionOfPending, positions: Sequence[Position], *, everything: bool
    ) -> None:
        if positions:
            real(self, positions, everything=False)

    return [(SubscriptionOfPending, "release", release)]
