"""Appends of one topic: written to the open ledger at once, or queued while the next ledger is being opened.

A ledger that fails ends every append in progress with an unknown outcome. Such an append is never sent again from here:
the publisher decides. Later appends are written to a new ledger. A ledger that another owner fenced or closed ends the
topic here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from engine.base.clock import Clock
from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError
from engine.ledger.writing.writer import AckObserver, LedgerWriter
from engine.managed.errors import (
    AppendFailedError,
    AppendQueueFullError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
    ManagedLedgerTerminatedError,
)
from engine.managed.reading.reads import LedgerReads
from engine.managed.settings import ManagedSettings
from engine.managed.state import LogState, LogStatus
from engine.managed.tenure import Tenure
from engine.managed.writing.appends import Appends, AppendSink
from engine.managed.writing.lifecycle import is_full, next_check_s
from engine.managed.writing.rolling import LedgerList

log = logging.getLogger(__name__)

T = TypeVar("T")
LIST_FULL_CHECK_S = 60.0
"""Seconds between two checks of a full ledger while the list has no room for a further one."""


class Appender:
    """The writing end of a managed ledger; listener of its ledger writers. ``_writer`` is set exactly while OPENED.

    ``line.durable_to`` rises here with the entries that are confirmed.
    """

    __slots__ = (
        "_age_timer",
        "_base",
        "_bytes",
        "_clock",
        "_last_failure",
        "_line",
        "_list",
        "_on_ack",
        "_readers",
        "_reads",
        "_recovered",
        "_retired",
        "_retry_at_s",
        "_retry_s",
        "_rolled",
        "_since_s",
        "_state",
        "_tail",
        "_tasks",
        "_tenure",
        "_writer",
        "appends",
        "bytes_added",
        "entries_added",
    )

    def __init__(
        self,
        state: LogState,
        tenure: Tenure,
        ledger_list: LedgerList,
        reads: LedgerReads,
        settings: ManagedSettings,
        clock: Clock,
        tasks: TaskScope,
        rolled: Callable[[], None],
    ) -> None:
        """``rolled`` is called when a ledger was closed, which may be consumed already."""
        self.appends = Appends(settings.append_queue_entries_max, settings.append_queue_bytes_max)
        self.entries_added = 0
        self.bytes_added = 0
        self._state = state
        self._line = state.line
        self._tail = state.tail
        self._tenure = tenure
        self._list = ledger_list
        ledger_list.recovered = self._count_recovered
        self._reads = reads
        self._retry_s = settings.retry_initial_s
        self._clock = clock
        self._tasks = tasks
        self._rolled = rolled
        self._readers: tuple[Callable[[], None], ...] = ()
        self._recovered: Callable[[Position, Position], None] | None = None
        self._on_ack: AckObserver | None = None
        self._writer: LedgerWriter | None = None
        # The writer whose ledger has to be closed before the next one is created.
        self._retired: LedgerWriter | None = None
        self._base = 0
        self._bytes = 0
        self._since_s = 0.0
        self._last_failure: Exception | None = None
        self._retry_at_s = float("-inf")
        self._age_timer: asyncio.TimerHandle | None = None

    def on_readable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register as ``ManagedLedger.on_readable``."""
        self._readers = (*self._readers, callback)

        def stop() -> None:
            self._readers = tuple(reader for reader in self._readers if reader is not callback)

        return stop

    def on_recovered(self, callback: Callable[[Position, Position], None]) -> None:
        """Register as ``ManagedLedger.on_recovered``."""
        self._recovered = callback

    def watch_acks(self, observer: AckObserver | None) -> None:
        """Observe the bookies' answers, as ``ManagedLedger.watch_acks``."""
        self._on_ack = observer
        if self._writer is not None:
            self._writer.on_ack = observer

    # Entries

    def append(self, run: Slice, sink: AppendSink) -> None:
        """Append as ``ManagedLedger.append``."""
        writer = self._writer
        if writer is None:
            self._append_later(run, sink)
            return
        try:
            first = writer.append(run)
        except LedgerError as error:
            sink.append_failed(run, 0, AppendFailedError(str(error)))
            return
        self.appends.sent(run, sink)
        self._tail.append(self._base + first, run)
        self._bytes += run.size
        config = self._state.config
        if first + run.count >= config.ledger_entries_max or self._bytes >= config.ledger_bytes_max:
            self._roll_if_full()

    def _append_later(self, run: Slice, sink: AppendSink) -> None:
        state = self._state
        if state.status is LogStatus.CREATING:
            self._enqueue(run, sink)
        elif state.status is LogStatus.CLOSED_LEDGER and state.error is None:
            if self._clock.monotonic_s() < self._retry_at_s:
                sink.append_failed(run, 0, AppendFailedError(f"no ledger: {self._last_failure}"))
                return
            self._enqueue(run, sink)
            self._start_roll()
        else:
            sink.append_failed(run, 0, self._refusal())

    def _enqueue(self, run: Slice, sink: AppendSink) -> None:
        if not self.appends.wait(run, sink):
            waiting = self.appends.waiting_entries
            error = AppendQueueFullError(f"{waiting} entries wait for a new ledger already")
            sink.append_failed(run, 0, error)

    def _refusal(self) -> Exception:
        state = self._state
        if state.error is not None:
            return state.error
        return ManagedLedgerTerminatedError(f"{state.name} was terminated at {state.terminated}")

    def confirmed(self, below: int) -> None:
        """Report that every entry id < ``below`` is durable. Called by the ledger writer."""
        if self._state.ended or not self._tenure.proven():
            return  # the sinks were notified that the outcome is unknown
        confirmations = self.appends.confirmed(below)
        entries = size = 0
        for run, _, start, stop in confirmations:
            entries += stop - start
            size += run.size_of(start, stop)
        self._line.grow(entries, size)
        self.entries_added += entries
        self.bytes_added += size
        # Receipts are in order, because ids within a ledger rise, ledger ids rise strictly, and ranges are reported in
        # order (M3).
        for run, sink, start, stop in confirmations:
            sink.appended(run, start, stop)
        for callback in self._readers:
            callback()

    def notify_readers(self) -> None:
        """Notify the readers that there may be more entries to read."""
        for callback in self._readers:
            callback()

    def failed(self, error: LedgerError) -> None:
        """Fail everything unconfirmed, whose outcome is unknown. Called by the ledger writer."""
        writer = self._writer or self._retired
        if self._state.ended or writer is None:
            return
        name = self._state.name
        if isinstance(error, LedgerFencedError | LedgerClosedError):
            self._tenure.fenced(ManagedLedgerFencedError(f"{name} was taken over: {error}"))
            return
        log.warning("ledger failed log=%s ledger=%d error=%s", name, writer.ledger_id, error)
        self._tail.clear()  # later entries reuse the ordinals of those that failed
        if self._writer is not None:
            # Before the sinks are called: their new appends wait for the next ledger.
            self._start_roll()
        self._fail_all(AppendFailedError(f"outcome unknown: {error}"))

    def _fail_all(self, error: Exception) -> None:
        for run, sink, start in self.appends.take_all():
            sink.append_failed(run, start, error)

    def _fail_waiting(self) -> None:
        while (waiting := self.appends.take_waiting()) is not None:
            run, sink = waiting
            sink.append_failed(run, 0, self._refusal())

    # Ledgers

    async def open_first(self) -> None:
        """Open the ledger for the first entries of this owner. Raises LedgerError, ManagedLedgerFencedError."""
        if self._state.terminated is not None:
            self._state.status = LogStatus.TERMINATED
            return
        writer = await self._list.follow(None, self)
        if writer.error is not None:
            raise writer.error
        self._use(writer)

    def configured(self) -> None:
        """Apply changed limits now; changed quorums hold from the next ledger on."""
        if self._writer is not None:
            self._roll_if_full()
            self._watch_age()

    async def writable(self) -> None:
        """Wait as ``ManagedLedger.writable``."""
        state = self._state
        may_try = state.error is None and self._clock.monotonic_s() >= self._retry_at_s
        if state.status is LogStatus.CLOSED_LEDGER and may_try:
            self._start_roll()
        await self._roll_over()
        if state.status is LogStatus.CLOSED_LEDGER:
            raise AppendFailedError(f"no ledger: {self._last_failure}")
        if state.status is not LogStatus.OPENED:
            raise self._refusal()

    async def _roll_over(self) -> None:
        """Return when no roll-over is in progress."""
        while self._is_rolling():
            await self._list.wait_idle()
            await asyncio.sleep(0)

    def _is_rolling(self) -> bool:
        return self._state.status is LogStatus.CREATING

    def _use(self, writer: LedgerWriter) -> None:
        base = self._line.first_ordinal(writer.ledger_id)
        assert base is not None, "a ledger accepts entries only when it is in the list (M1)"
        self._writer = writer
        writer.on_ack = self._on_ack
        self._base = base
        self._bytes = 0
        self._since_s = self._clock.monotonic_s()
        self._state.status = LogStatus.OPENED
        self._last_failure = None
        self._reads.set_writer(writer)
        self._watch_age()

    def _watch_age(self) -> None:
        self._stop_watching()
        age_s = self._clock.monotonic_s() - self._since_s
        check_s = next_check_s(age_s, self._state.config)
        if not self._list.has_room:
            check_s = max(check_s, LIST_FULL_CHECK_S)
        self._age_timer = asyncio.get_running_loop().call_later(check_s, self._age_passed)

    def _stop_watching(self) -> None:
        if self._age_timer is not None:
            self._age_timer.cancel()
            self._age_timer = None

    def _age_passed(self) -> None:
        """Roll over by age. Empty ledgers roll over too, so that one that another owner closed is noticed without an
        append (M13)."""
        self._age_timer = None
        if self._writer is not None:
            self._roll_if_full()
            if self._writer is not None:
                self._watch_age()

    def _roll_if_full(self) -> None:
        assert self._writer is not None
        age_s = self._clock.monotonic_s() - self._since_s
        entries = self._writer.last_pushed + 1
        # The next ledger takes the place of an empty one, so the list does not grow.
        may_follow = self._list.has_room or not entries
        if is_full(entries, self._bytes, age_s, self._state.config) and may_follow:
            self._start_roll()

    def _start_roll(self) -> None:
        self._retire()
        self._state.status = LogStatus.CREATING
        self._tasks.spawn("roll", self._roll())

    def _retire(self) -> None:
        """Stop adding to the open ledger; appends in progress are still confirmed through its writer."""
        self._stop_watching()
        if self._writer is not None:
            self._retired, self._writer = self._writer, None

    async def _roll(self) -> None:
        if not self._is_rolling():
            return
        try:
            writer = await self._notifying_readers(self._list.follow(self._retired, self))
        except ManagedLedgerFencedError as error:
            self._tenure.fenced(error)
            return
        except Exception as error:
            # Unexpected errors too: otherwise the queued appends would wait for the next ledger for ever.
            self._no_ledger(error)
            return
        if self._retired is not None:
            self._reads.forget(self._retired.ledger_id)
            self._retired = None
        if not self._is_rolling():
            writer.listener = None
            writer.abandon(LedgerClosedError("the topic was closed meanwhile"))
            return
        # The ledger failed while the list was written; ``failed`` is called only once.
        if writer.error is not None:
            self._retired = writer
            self._no_ledger(writer.error)
            return
        self._use(writer)
        while (waiting := self.appends.take_waiting()) is not None:
            # A queued run may fill this ledger too; the remaining ones then wait for the next ledger, in order.
            self.append(*waiting)
            if self._is_rolling():
                break
        self._rolled()

    async def _notifying_readers(self, closing: Awaitable[T]) -> T:
        """Return the result of ``closing`` and notify the readers if it found entries behind the last confirmed one.

        Those entries can be read whatever becomes of the next ledger, and no append may follow that would notify the
        readers.
        """
        line = self._line
        end = line.durable_to
        try:
            return await closing
        finally:
            if line.durable_to > end and not self._state.ended:
                self.notify_readers()

    def _count_recovered(self, entries: int, size: int) -> None:
        """Count the last ``entries`` of the log, which the recovery of a ledger found. Called by the ledger list."""
        self.entries_added += entries
        self.bytes_added += size
        if self._recovered is not None:
            end = self._line.durable_to
            self._recovered(self._line.position(end - entries), self._line.before(end))

    def _no_ledger(self, error: Exception) -> None:
        """Record that there is no next ledger; the first append after a pause tries again."""
        name = self._state.name
        if isinstance(error, LedgerFencedError):
            self._tenure.fenced(ManagedLedgerFencedError(f"{name} was taken over: {error}"))
            return
        # One warning until a ledger is opened.
        level = logging.WARNING if self._last_failure is None else logging.DEBUG
        expected = isinstance(error, LedgerError | WorldError | ManagedLedgerError)
        log.log(
            level,
            "no new ledger log=%s error=%s",
            name,
            error,
            exc_info=None if expected else error,
        )
        if self._is_rolling():
            self._state.status = LogStatus.CLOSED_LEDGER
            self._last_failure = error
            self._retry_at_s = self._clock.monotonic_s() + self._retry_s
            self._fail_all(AppendFailedError(f"no ledger: {error}"))

    # The end

    async def terminate(self) -> Position:
        """Refuse further appends and terminate the topic; durable when it returns. Not terminated when it raises."""
        await self._roll_over()
        state = self._state
        state.check()
        self._retire()
        state.status = LogStatus.TERMINATED
        self._fail_waiting()
        try:
            return await self._notifying_readers(self._list.seal(self._retired))
        except BaseException:
            # It is not terminated, so the next append may open a ledger.
            if state.status is LogStatus.TERMINATED:
                state.status = LogStatus.CLOSED_LEDGER
            raise

    def refuse(self) -> None:
        """Refuse further appends, because the log is being closed; those in progress still receive their outcome.
        ``close`` follows."""
        self._state.status = LogStatus.CLOSED
        self._retire()
        self._fail_waiting()

    async def close(self) -> None:
        """Close the ledger behind the appends in progress. Raises LedgerError when that fails."""
        await self._list.wait_idle()
        if self._retired is not None:
            await self._retired.close()

    def stop(self) -> None:
        """Fail everything without an outcome, as after a crash, because the log ended."""
        error = self._state.error
        assert error is not None
        self._retire()
        writer, self._retired = self._retired, None
        if writer is not None and not writer.closed:
            writer.abandon(LedgerClosedError(str(error)))
        self._fail_all(error)
        self._tail.clear()
