"""Appends of one topic: into the open ledger at once, or waiting while the next ledger is being opened.

A ledger that fails ends everything under way with an unknown outcome (it is never sent again from here: the publisher
decides); what comes later goes to a fresh ledger. A ledger that somebody else fenced or closed ends the topic here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol, TypeVar

from engine.base.clock import Clock
from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError
from engine.ledger.writing.writer import LedgerWriter
from engine.managed.errors import (
    AppendFailedError,
    AppendQueueFullError,
    LedgerIdReusedError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
    ManagedLedgerTerminatedError,
)
from engine.managed.positions import LedgerLine
from engine.managed.reading.entry_cache import EntryCache, TailCache
from engine.managed.reading.reads import LedgerReads
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.managed.writing.appends import Appends, AppendSink
from engine.managed.writing.lifecycle import is_full, next_check_s
from engine.managed.writing.rolling import LedgerList

log = logging.getLogger(__name__)

T = TypeVar("T")


class LogStatus(Enum):
    """In Pulsar's words, as its statistics show them."""

    OPENED = "LedgerOpened"
    CREATING = "CreatingLedger"
    CLOSED_LEDGER = "ClosedLedger"
    TERMINATED = "Terminated"
    FENCED = "Fenced"
    CLOSED = "Closed"


class AppendOwner(Protocol):
    """What appending needs of its managed ledger."""

    name: str
    line: LedgerLine
    tail: TailCache
    reads: LedgerReads
    settings: ManagedSettings
    clock: Clock
    tasks: TaskScope

    def proven(self) -> bool:
        """Whether anything may be confirmed now; ``fenced`` when not."""
        ...

    def fenced(self, error: Exception) -> None:
        """Another owner has the topic."""
        ...

    def trim_soon(self) -> None:
        """A ledger was closed: it may be consumed already."""
        ...


class Appender:
    """The writing end of a managed ledger; listener of its ledger writers.

    ``state`` changes: CLOSED_LEDGER → OPENED by ``open_first`` or a roll, OPENED → CREATING by a roll, CREATING →
    OPENED or CLOSED_LEDGER by its end, any → TERMINATED, FENCED, CLOSED. ``_writer`` is set exactly while OPENED.
    """

    def __init__(
        self, owner: AppendOwner, ledger_list: LedgerList, config: LedgerConfig, cache: EntryCache
    ) -> None:
        settings = owner.settings
        self.state = LogStatus.CLOSED_LEDGER
        self.appends = Appends(settings.append_queue_entries_max, settings.append_queue_bytes_max)
        self.callbacks: list[Callable[[], None]] = []
        self.entries_added = 0
        self.bytes_added = 0
        self._owner = owner
        self._list = ledger_list
        self._config = config
        self._cache = cache
        self._writer: LedgerWriter | None = None
        self._retired: LedgerWriter | None = None  # its ledger is to be closed before the next one
        self._base = 0
        self._bytes = 0
        self._since_s = 0.0
        self._error: ManagedLedgerError | None = None
        self._ended = False
        self._last_failure: Exception | None = None
        self._retry_at_s = float("-inf")
        self._age_timer: asyncio.TimerHandle | None = None

    # Entries

    def append(self, run: Slice, sink: AppendSink) -> None:
        """See ``ManagedLedger.append``."""
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
        self._owner.tail.append(self._base + first, run)
        self._bytes += run.size
        config = self._config
        if first + run.count >= config.ledger_entries_max or self._bytes >= config.ledger_bytes_max:
            self._roll_if_full()

    def _append_later(self, run: Slice, sink: AppendSink) -> None:
        if self.state is LogStatus.CREATING:
            self._enqueue(run, sink)
        elif self.state is LogStatus.CLOSED_LEDGER and self._error is None:
            if self._owner.clock.monotonic_s() < self._retry_at_s:
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
        if self._error is not None:
            return self._error
        return ManagedLedgerTerminatedError(
            f"{self._owner.name} was terminated at {self._list.terminated}"
        )

    def confirmed(self, below: int) -> None:
        """From the ledger writer: every entry id < ``below`` is durable."""
        owner = self._owner
        if self._ended or not owner.proven():
            return  # the sinks were told that the outcome is unknown
        found = self.appends.confirmed(below)
        entries = size = 0
        for run, _, start, stop in found:
            entries += stop - start
            size += run.size_of(start, stop)
        owner.line.grow(entries, size)
        self.entries_added += entries
        self.bytes_added += size
        # M3: ids of one ledger rise, those of the list rise strictly, and ranges come in order: so do receipts.
        for run, sink, start, stop in found:
            sink.appended(run, start, stop)
        self._tell_readers()

    def _tell_readers(self) -> None:
        for callback in self.callbacks:
            callback()

    def failed(self, error: LedgerError) -> None:
        """From the ledger writer: nothing more will be confirmed, the outcome of the rest is unknown."""
        writer = self._writer or self._retired
        if self._ended or writer is None:
            return
        name = self._owner.name
        if isinstance(error, LedgerFencedError | LedgerClosedError):
            self._owner.fenced(ManagedLedgerFencedError(f"{name} was taken over: {error}"))
            return
        log.warning("ledger failed log=%s ledger=%d error=%s", name, writer.ledger_id, error)
        self._new_tail()
        if self._writer is not None:
            self._start_roll()
        self._fail_all(AppendFailedError(f"outcome unknown: {error}"))

    def _fail_all(self, error: Exception) -> None:
        for run, sink, start in self.appends.take_all():
            sink.append_failed(run, start, error)

    def _fail_waiting(self) -> None:
        while (waiting := self.appends.take_waiting()) is not None:
            run, sink = waiting
            sink.append_failed(run, 0, self._refusal())

    def _new_tail(self) -> None:
        """Entries were appended that will never be: what is cached behind them would have wrong places."""
        self._owner.tail.close()
        self._owner.tail = self._cache.tail()

    # Ledgers

    async def open_first(self) -> None:
        """Open the ledger that takes the first entries here. Raises LedgerError, ManagedLedgerFencedError."""
        if self._list.terminated is not None:
            self.state = LogStatus.TERMINATED
            return
        writer = await self._list.follow(None, self._config, self)
        if writer.error is not None:
            raise writer.error
        self._use(writer)

    def configure(self, config: LedgerConfig) -> None:
        """Other limits from now on, other quorums from the next ledger on."""
        self._config = config
        if self._writer is not None:
            self._roll_if_full()
            self._watch_age()

    async def writable(self) -> None:
        """See ``ManagedLedger.writable``."""
        may_try = self._error is None and self._owner.clock.monotonic_s() >= self._retry_at_s
        if self.state is LogStatus.CLOSED_LEDGER and may_try:
            self._start_roll()
        await self._rolled()
        if self.state is LogStatus.CLOSED_LEDGER:
            raise AppendFailedError(f"no ledger: {self._last_failure}")
        if self.state is not LogStatus.OPENED:
            raise self._refusal()

    async def _rolled(self) -> None:
        """Return when no roll is under way."""
        while self._is_rolling():
            await self._list.wait_quiet()
            await asyncio.sleep(0)

    def _is_rolling(self) -> bool:
        return self.state is LogStatus.CREATING

    def _use(self, writer: LedgerWriter) -> None:
        owner = self._owner
        base = owner.line.first_ordinal(writer.ledger_id)
        assert base is not None, "a ledger takes entries only when it is in the list (M1)"
        self._writer = writer
        self._base = base
        self._bytes = 0
        self._since_s = owner.clock.monotonic_s()
        self.state = LogStatus.OPENED
        self._last_failure = None
        owner.reads.wrote(writer)
        self._watch_age()

    def _watch_age(self) -> None:
        self._stop_watching()
        age_s = self._owner.clock.monotonic_s() - self._since_s
        loop = asyncio.get_running_loop()
        self._age_timer = loop.call_later(next_check_s(age_s, self._config), self._age_passed)

    def _stop_watching(self) -> None:
        if self._age_timer is not None:
            self._age_timer.cancel()
            self._age_timer = None

    def _age_passed(self) -> None:
        """M13: empty ledgers roll, too, so that one which somebody else closed is noticed without any append."""
        self._age_timer = None
        if self._writer is not None:
            self._roll_if_full()
            if self._writer is not None:
                self._watch_age()

    def _roll_if_full(self) -> None:
        assert self._writer is not None
        age_s = self._owner.clock.monotonic_s() - self._since_s
        if is_full(self._writer.last_pushed + 1, self._bytes, age_s, self._config):
            self._start_roll()

    def _start_roll(self) -> None:
        self._retire()
        self.state = LogStatus.CREATING
        self._owner.tasks.spawn("roll", self._roll())

    def _retire(self) -> None:
        """The open ledger takes no more entries; those under way are still confirmed through its writer."""
        self._stop_watching()
        if self._writer is not None:
            self._retired, self._writer = self._writer, None

    async def _roll(self) -> None:
        if not self._is_rolling():
            return
        try:
            writer = await self._settled(self._list.follow(self._retired, self._config, self))
        except ManagedLedgerFencedError as error:
            self._owner.fenced(error)
            return
        except (LedgerError, WorldError, LedgerIdReusedError) as error:
            self._no_ledger(error)
            return
        if self._retired is not None:
            self._owner.reads.forget(self._retired.ledger_id)
            self._retired = None
        if not self._is_rolling():
            writer.listener = None
            writer.abandon(LedgerClosedError("the topic was closed meanwhile"))
            return
        if writer.error is not None:  # while the list was written: it tells so only once
            self._retired = writer
            self._no_ledger(writer.error)
            return
        self._use(writer)
        while (waiting := self.appends.take_waiting()) is not None:
            # A waiting run may fill this ledger too: the rest then waits for the next one, in order.
            self.append(*waiting)
            if self._is_rolling():
                break
        self._owner.trim_soon()

    async def _settled(self, closing: Awaitable[T]) -> T:
        """Its result. Closing the last ledger may find entries behind the last confirmed one: they are there to be
        read, whatever becomes of the next ledger, and no append may follow that would tell of them."""
        line = self._owner.line
        end = line.end
        try:
            return await closing
        finally:
            if line.end > end and not self._ended:
                self._tell_readers()

    def _no_ledger(self, error: Exception) -> None:
        """There is no next ledger yet; an append after a while tries again."""
        name = self._owner.name
        if isinstance(error, LedgerFencedError):
            self._owner.fenced(ManagedLedgerFencedError(f"{name} was taken over: {error}"))
            return
        level = logging.WARNING if self._last_failure is None else logging.DEBUG  # once an episode
        log.log(level, "no new ledger log=%s error=%s", name, error)
        if self._is_rolling():
            self.state = LogStatus.CLOSED_LEDGER
            self._last_failure = error
            settings = self._owner.settings
            self._retry_at_s = self._owner.clock.monotonic_s() + settings.retry_initial_s
            self._fail_all(AppendFailedError(f"no ledger: {error}"))

    # The end

    async def terminate(self) -> Position:
        """Take no more appends and seal the topic; durable when it returns. Not sealed when it raises."""
        await self._rolled()
        if self._error is not None:
            raise self._error
        self._retire()
        self.state = LogStatus.TERMINATED
        self._fail_waiting()
        try:
            return await self._settled(self._list.seal(self._retired))
        except (LedgerError, WorldError):
            if self.state is LogStatus.TERMINATED:  # not sealed: the next append opens a ledger
                self.state = LogStatus.CLOSED_LEDGER
            raise

    def refuse(self, error: ManagedLedgerError) -> None:
        """Take no more appends; those under way still get their outcome. ``close`` follows."""
        self.state = LogStatus.CLOSED
        self._error = error
        self._retire()
        self._fail_waiting()

    async def close(self) -> None:
        """Close the ledger behind what is under way. Raises LedgerError when that fails."""
        await self._list.wait_quiet()
        if self._retired is not None:
            await self._retired.close()

    def stop(self, state: LogStatus, error: ManagedLedgerError) -> None:
        """End at once as a crash would: whatever has no outcome yet gets ``error``."""
        self.state = state
        self._error = error
        self._ended = True
        self._retire()
        writer, self._retired = self._retired, None
        if writer is not None and not writer.closed:
            writer.abandon(LedgerClosedError(str(error)))
        self._fail_all(error)
        self._owner.tail.close()
