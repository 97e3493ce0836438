"""Transactions of one topic: its messages wait in the log until a marker behind them commits or aborts them.

Readers are given the entries before the first one of an open transaction (``ManagedLedger.hold_reads``); those of
aborted ones are left out when they are read (X1). The transactions are restored when the topic is loaded, from the
newest snapshot and the entries behind it; until then nothing is read (X1).

A topic has this part from its first transactional message on, before which an empty snapshot is stored: a topic
without a snapshot has no transactions.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial
from typing import Any, Protocol

from engine.base.backoff import Backoff
from engine.base.errors import MagnetarError
from engine.base.ids import EARLIEST, Position
from engine.base.names import TopicName
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.errors import BrokerError, ServiceNotReady
from engine.broker.transactions.buffer.end_markers import marker
from engine.broker.transactions.buffer.open_transactions import OpenTransactions
from engine.broker.transactions.buffer.snapshots import BufferSnapshot
from engine.broker.transactions.buffer.topic_snapshots import TopicSnapshots
from engine.broker.transactions.buffer.unmarked_ends import UnmarkedEnds
from engine.broker.transactions.entry_runs import EntryRuns
from engine.broker.transactions.outcomes import Outcome, waited
from engine.broker.transactions.ports import TransactionCounts
from engine.broker.transactions.txn_id import TxnId
from engine.managed.writing.appends import Appendable

log = logging.getLogger(__name__)

READY_WAIT_S = 5.0
"""Seconds for which a request waits for the topic's transactions to be restored, before it is refused."""
RETRY_MAX_S = 10.0


class BufferLog(Appendable, Protocol):
    """Part of ``ManagedLedger``, which documents it."""

    @property
    def last_confirmed(self) -> Position: ...

    @property
    def last_readable(self) -> Position: ...

    @property
    def terminated(self) -> Position | None: ...

    def next_position(self, position: Position, /) -> Position: ...

    def hold_reads(self, before: Position, /) -> None: ...

    def release_reads(self) -> None: ...

    def durable_runs(
        self, start: Position, last: Position, /
    ) -> AsyncIterator[tuple[Slice, range]]: ...

    def on_trimmed(self, callback: Callable[[], None], /) -> None: ...


class BufferHost(Protocol):
    """Parts of a topic that its transactions use."""

    name: TopicName
    scope: TaskScope
    context: Context

    def touched(self) -> None: ...

    def transactions_ready(self, error: MagnetarError | None) -> None:
        """Note that transactional messages are taken from now on, or why they cannot be for now."""
        ...

    def without_transactions(self) -> None:
        """Note that the topic turned out to have no transactions."""
        ...


class _Marker:
    """A marker that is being stored, and the outcomes that wait for it. An ``EntryReceiver``."""

    __slots__ = ("_ended", "commit", "outcomes", "txn")

    def __init__(
        self, txn: TxnId, *, commit: bool, ended: Callable[["_Marker", Position | None], None]
    ) -> None:
        """``ended`` is called with the marker's position, or None when it may not be stored."""
        self.txn = txn
        self.commit = commit
        self.outcomes: list[Outcome] = []
        self._ended = ended

    def stored(self, position: Position) -> None:
        self._ended(self, position)

    def failed(self, error: Exception) -> None:
        self._ended(self, None)
        self.settle(ServiceNotReady(f"The marker may not be stored: {error}"))

    def settle(self, error: BrokerError | None) -> None:
        for outcome in self.outcomes:
            outcome(error)


class TopicBuffer:
    """The transactions of one topic. ``state`` has Pulsar's names."""

    __slots__ = (
        "_changes",
        "_ending",
        "_first_snapshot",
        "_host",
        "_is_held",
        "_limit",
        "_log",
        "_marked_now",
        "_markers",
        "_recovered",
        "_recovery_ms",
        "_snapshot_ms",
        "_snapshots",
        "_sweeping",
        "_timer",
        "_unmarked",
        "_writing",
        "state",
        "transactions",
    )

    def __init__(self, host: BufferHost, topic_log: BufferLog) -> None:
        self._host = host
        self._log = topic_log
        self.state = "NoSnapshot"
        self.transactions = OpenTransactions()
        self._limit = EARLIEST
        """Position before which entries could be read when the limit was set last."""
        self._is_held = False
        self._ending: dict[TxnId, _Marker] = {}
        """Markers that are being stored."""
        self._markers = EntryRuns(topic_log, self._markers_reported)
        self._marked_now: list[_Marker] = []
        """Markers that became durable, whose outcomes are not reported yet."""
        self._recovered: asyncio.Event | None = None
        """Set when the transactions are restored; None where nothing had to be."""
        self._recovery_ms = (0, 0)
        self._first_snapshot: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._unmarked = UnmarkedEnds(host.scope, self._store_ends)
        self._changes = 0
        """Changes of the readable end, and of what is aborted, since the last snapshot."""
        self._snapshot_ms = 0
        snapshots = host.context.transaction_snapshots
        assert snapshots is not None
        self._snapshots = TopicSnapshots(host.name, snapshots, host.context.transactions)

    # --- what readers may be given --------------------------------------------------------------

    @property
    def aborted(self) -> Mapping[TxnId, Position]:
        """Aborted transactions, whose messages no reader is given."""
        return self.transactions.aborted

    @property
    def open(self) -> Collection[TxnId]:
        """Transactions that are open, the oldest first."""
        return self.transactions.ongoing.keys()

    @property
    def restored(self) -> bool:
        """False while the transactions are being restored and nothing is read."""
        return self._recovered is None or self._recovered.is_set()

    async def ready(self) -> None:
        """Wait until the transactions are restored. Raises ServiceNotReady when they are not in READY_WAIT_S."""
        if self._recovered is not None and not self._recovered.is_set():
            try:
                async with asyncio.timeout(READY_WAIT_S):
                    await self._recovered.wait()
            except TimeoutError as error:
                raise ServiceNotReady(
                    f"Transactions of {self._host.name} are not restored yet"
                ) from error

    def _set_limit(self) -> None:
        """Let readers have the entries before the first open transaction."""
        limit = self.transactions.limit
        if limit is None:
            if self._is_held:
                self._is_held = False
                self._log.release_reads()
        else:
            # What was readable stays readable: a transaction behind an ended one begins behind its first entry.
            self._limit = max(limit, self._limit) if self._is_held else limit
            self._is_held = True
            self._log.hold_reads(self._limit)

    # --- messages -------------------------------------------------------------------------------

    @property
    def takes(self) -> bool:
        """True when transactional messages may be appended now; else ``prepare`` makes it so."""
        return self.state == "Ready"

    def prepare(self) -> None:
        """Store the first snapshot, unless that is under way; the host is notified of the outcome."""
        if self.state == "NoSnapshot":
            self.state = "FirstSnapshotting"
            self._first_snapshot = self._host.scope.spawn("first snapshot", self._prepare())

    async def _prepare(self) -> None:
        try:
            await self._store_snapshot()
        except Exception as error:
            self.state = "NoSnapshot"
            if not isinstance(error, MagnetarError):
                self._host.transactions_ready(ServiceNotReady("The first snapshot failed"))
                raise  # a programming error: the task logs its traceback
            log.warning("transactions not taken topic=%s: %s", self._host.name, error)
            self._host.transactions_ready(error)
            return
        self._begin()
        self._host.transactions_ready(None)

    def _begin(self) -> None:
        self.state = "Ready"
        self._log.on_trimmed(self._trim)

    def enter(self, txn: TxnId) -> None:
        """Note that an entry of the transaction is appended next. Raises NotAllowed when it is over."""
        self.transactions.check_open(txn)
        # Before it is appended: nothing behind it is readable when it is stored (X1).
        if txn not in self.transactions.ongoing:
            self.transactions.enter(txn, self._log.next_position(self._log.last_confirmed))
            if not self._is_held:
                self._set_limit()

    def stored(self, txn: TxnId | None, position: Position, entries: int) -> None:
        """Note that ``entries`` from ``position`` on are stored, which are of the transaction or of none."""
        if txn is not None and self.transactions.stored(txn, position):
            self._set_limit()
        if not self._is_held:  # else they are readable at the end of a transaction, which counts
            self._changed(entries)

    # --- ends -----------------------------------------------------------------------------------

    async def end(self, txn: TxnId, *, commit: bool, low_water_mark: int) -> None:
        """End as ``TransactionBuffer.end``."""
        await self.ready()
        if self._first_snapshot is not None:
            # Messages that wait for it are appended before the marker.
            await asyncio.wait([self._first_snapshot], timeout=READY_WAIT_S)
        await waited(partial(self._end, txn, commit, low_water_mark))

    def end_soon(self, txn: TxnId, *, commit: bool, low_water_mark: int, outcome: Outcome) -> bool:
        """End as ``TransactionBuffer.end_soon``."""
        if not self.restored or not (self._first_snapshot is None or self._first_snapshot.done()):
            return False
        self._end(txn, commit, low_water_mark, outcome)
        return True

    def _end(self, txn: TxnId, commit: bool, low_water_mark: int, outcome: Outcome) -> None:
        self._mark(txn, commit, partial(self._over, txn.most, low_water_mark, outcome))

    def _mark(self, txn: TxnId, commit: bool, outcome: Outcome) -> None:
        """Append the marker of a transaction, unless that is under way or there is nothing to end. Raises
        InvalidTxnStatus, ServiceNotReady."""
        present = self._ending.get(txn)
        if present is None:
            self.transactions.check_same(txn, commit=commit)
            self.transactions.ending(txn, commit=commit)
            if self._log.terminated is not None and self._end_unmarked(txn, commit, outcome):
                return
            # Without an entry here, or after an earlier marker, there is nothing to end (X3).
            if txn not in self.transactions.ongoing:
                outcome(None)
                return
            present = self._ending[txn] = _Marker(txn, commit=commit, ended=self._marked)
            present.outcomes.append(outcome)
            now_ms = self._host.context.clock.wall_ms()
            self._markers.append(marker(txn, commit=commit, now_ms=now_ms), present)
        elif present.commit is commit:
            present.outcomes.append(outcome)
        else:
            raise ServiceNotReady(f"Transaction {txn} is being ended the other way")

    def _end_unmarked(self, txn: TxnId, commit: bool, outcome: Outcome) -> bool:
        """End a transaction of a terminated topic, and return whether there was anything to end. Raises ServiceNotReady
        when the topic was closed meanwhile."""
        if self.state == "Close":
            raise self._unloaded()
        known = self.transactions
        if txn in known.ongoing:
            known.ended(txn, self._log.last_confirmed, commit=commit)
            self._set_limit()
            self._host.touched()
        elif txn not in self._unmarked:
            return False
        self._unmarked.add(txn, outcome, last=not known.ongoing)
        return True

    def _marked(self, marked: _Marker, position: Position | None) -> None:
        del self._ending[marked.txn]
        if position is not None:
            self.transactions.ended(marked.txn, position, commit=marked.commit)
            self._marked_now.append(marked)

    def _markers_reported(self) -> None:
        """Let readers have what transactions held whose markers were stored together, then report their ends."""
        marked, self._marked_now = self._marked_now, []
        self._set_limit()
        self._changed(len(marked))
        self._host.touched()
        for stored in marked:
            stored.settle(None)

    def _over(
        self, coordinator: int, low_water_mark: int, outcome: Outcome, error: BrokerError | None
    ) -> None:
        """Note what a coordinator states of its transactions with an end that succeeded."""
        if error is None:
            self.transactions.raise_mark(coordinator, low_water_mark)
            due = self.transactions.lost is not None and self._sweeping is None
            if due and not self._host.scope.closed:
                self._sweeping = self._host.scope.spawn("lost ends", self._sweep())
        outcome(error)

    async def _sweep(self) -> None:
        """Abort the first open transactions while their coordinators state that they are over."""
        try:
            while (txn := self.transactions.lost) is not None:
                log.info("end of transaction was lost topic=%s txn=%s", self._host.name, txn)
                await waited(partial(self._mark, txn, False))
        except MagnetarError as error:
            log.info("lost end not stored yet topic=%s: %s", self._host.name, error)
        finally:
            self._sweeping = None

    def _trim(self) -> None:
        if self.transactions.trim(self._log.next_position(EARLIEST)):
            self._changed(1)

    # --- snapshots ------------------------------------------------------------------------------

    def _changed(self, count: int) -> None:
        """Count changes, and see that they are in a snapshot before long."""
        self._changes += count
        settings = self._host.context.transactions
        if self._writing is not None or self._host.scope.closed or self.state != "Ready":
            return
        if self._changes >= settings.transaction_buffer_snapshot_max_transaction_count:
            self._write_soon()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(
                settings.transaction_buffer_snapshot_min_time_in_millis / 1000, self._write_soon
            )

    def _write_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is None and not self._host.scope.closed:
            self._writing = self._host.scope.spawn("snapshot of transactions", self._write())

    async def _write(self) -> None:
        changes, self._changes = self._changes, 0
        try:
            await self._store_snapshot()
        except MagnetarError as error:
            log.info("snapshot of transactions not stored topic=%s: %s", self._host.name, error)
            self._changes += changes
        finally:
            self._writing = None
        if self._changes:
            self._changed(0)

    async def _store_ends(self) -> None:
        """Store a snapshot behind one that is being written. Raises MagnetarError."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
        self._writing = asyncio.current_task()
        try:
            await self._store_snapshot()
        finally:
            self._writing = None

    async def _store_snapshot(self) -> None:
        snapshot = BufferSnapshot(self._log.last_readable, dict(self.transactions.aborted))
        now_ms = self._host.context.clock.wall_ms()
        await self._snapshots.write(snapshot, self._log.next_position(EARLIEST), now_ms)
        self._snapshot_ms = now_ms

    # --- recovery -------------------------------------------------------------------------------

    def restore(self) -> None:
        """Hold reads until the transactions are restored from what is stored. Called before anything is read."""
        self.state = "Initializing"
        self._recovered = asyncio.Event()
        self._is_held = True
        self._log.hold_reads(EARLIEST)
        last = self._log.last_confirmed
        self._host.scope.spawn("transactions", self._restore(last))

    async def _restore(self, last: Position) -> None:
        host, backoff = self._host, Backoff(max_s=RETRY_MAX_S)
        began_ms = host.context.clock.wall_ms()
        while True:
            try:
                restored = await self._read(last)
                break
            except Exception as error:
                # Unexpected errors are retried, too: without the transactions nothing may be read (X1).
                expected = isinstance(error, MagnetarError)
                log.warning(
                    *("transactions not restored topic=%s: %s", host.name, error),
                    exc_info=None if expected else error,
                )
                await asyncio.sleep(backoff.next_s(host.context.entropy.random()))
        assert self._recovered is not None
        self._recovery_ms = began_ms, host.context.clock.wall_ms()
        self._recovered.set()
        if restored is None:
            self.state = "NoSnapshot"
            host.without_transactions()
        else:
            self.transactions = restored
            self._begin()
            self._trim()
        self._set_limit()
        host.transactions_ready(None)
        host.touched()

    async def _read(self, last: Position) -> OpenTransactions | None:
        """Return the transactions as of the entry ``last``; None when the topic has a snapshot of none."""
        snapshot = await self._snapshots.read(self._log.next_position(EARLIEST))
        if snapshot is None:
            return None
        transactions = OpenTransactions(snapshot.aborted)
        start = self._log.next_position(snapshot.max_read)
        async for run, indexes in self._log.durable_runs(start, last):
            transactions.read(run, indexes)
        return transactions

    def close(self) -> None:
        """Take no more snapshots. Called when the topic closes."""
        self.state = "Close"
        self._unmarked.fail(self._unloaded())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _unloaded(self) -> ServiceNotReady:
        return ServiceNotReady(f"Topic {self._host.name} is being unloaded")

    # --- statistics -----------------------------------------------------------------------------

    @property
    def counts(self) -> TransactionCounts:
        known = self.transactions
        return TransactionCounts(len(known.ongoing), known.committed_total, known.aborted_total)

    def stats(self, *, low_water_marks: bool, segments: bool) -> dict[str, Any]:
        """Return the answer of ``transactionBufferStats``."""
        known = self.transactions
        document: dict[str, Any] = {
            "state": self.state,
            "maxReadPosition": str(self._log.last_readable),
            "lastSnapshotTimestamps": self._snapshot_ms,
            "ongoingTxnSize": len(known.ongoing),
            "recoverStartTime": self._recovery_ms[0],
            "recoverEndTime": self._recovery_ms[1],
            "totalAbortedTransactions": len(known.aborted),
            "snapshotType": self._snapshots.kind,
        }
        if segments and self._snapshots.kind == "Segment":
            document["segmentsStats"] = self._snapshots.segment_stats(len(known.aborted))
        if low_water_marks:
            document["lowWaterMarks"] = dict(known.low_water_marks)
        return document

    def transaction_stats(self, txn: TxnId) -> dict[str, Any]:
        """Return the answer of ``transactionInBufferStats``."""
        first = self.transactions.ongoing.get(txn)
        document: dict[str, Any] = {"aborted": txn in self.transactions.aborted}
        if first is not None:
            document["startPosition"] = str(first)
        return document
