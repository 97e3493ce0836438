"""A managed ledger: the entries of one topic as a chain of ledgers, one owner at a time.

Appends go to the open ledger's writer at once and come back as ranges of confirmed entries. While the next ledger is
being opened they wait. A ledger that fails ends everything under way with an unknown outcome; what comes later goes to
a fresh ledger. Fenced is the end of this object.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError
from engine.ledger.writer import LedgerWriter
from engine.managed import lookup
from engine.managed.appends import Appends, AppendSink
from engine.managed.cursor import Cursor
from engine.managed.entry_cache import EntryCache
from engine.managed.errors import (
    AppendFailedError,
    AppendQueueFullError,
    ManagedLedgerClosedError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
    ManagedLedgerTerminatedError,
)
from engine.managed.lifecycle import is_full, next_check_s
from engine.managed.positions import LedgerLine
from engine.managed.reads import LedgerReads
from engine.managed.rolling import LedgerList
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.managed.stats import LedgerInfo, ManagedLedgerStats
from engine.managed.topic_cursors import InitialPosition, TopicCursors
from engine.metadata.store import MetadataStore

__all__ = ["AppendSink", "InitialPosition", "ManagedLedger"]

log = logging.getLogger(__name__)


class State(Enum):
    """In Pulsar's words, as its statistics show them."""

    OPENED = "LedgerOpened"
    CREATING = "CreatingLedger"
    CLOSED_LEDGER = "ClosedLedger"
    TERMINATED = "Terminated"
    FENCED = "Fenced"
    CLOSED = "Closed"


class ManagedLedger:
    """Made by ``ManagedLedgerFactory.open``. All calls on one event loop.

    Raises ManagedLedgerFencedError once another owner opened it (terminal), ManagedLedgerClosedError after ``close``.
    It lives at most as long as the metadata session that it was opened under: see ``proven``.
    """

    def __init__(
        self,
        name: str,
        config: LedgerConfig,
        ledger_list: LedgerList,
        *,
        store: MetadataStore,
        ledgers: LedgerClient,
        clock: Clock,
        entropy: Entropy,
        settings: ManagedSettings,
        cache: EntryCache,
        reads: LedgerReads,
    ) -> None:
        self.name = name
        self.config = config
        self.line: LedgerLine = ledger_list.line
        self.reads = reads
        self.settings = settings
        self.clock = clock
        self.entropy = entropy
        self.tasks = TaskScope(f"topic {name}")
        self._closer = TaskScope(f"topic {name} end")
        self.tail = cache.tail()
        self._list = ledger_list
        self._cursors = TopicCursors(self, ledger_list, store, ledgers)
        self._store = store
        self._session_id = store.session_id
        self._ledgers = ledgers
        self._cache = cache
        self._state = State.CLOSED_LEDGER
        self._writer: LedgerWriter | None = None
        self._retired: LedgerWriter | None = None
        self._writer_base = 0
        self._writer_bytes = 0
        self._writer_since_s = 0.0
        self._appends = Appends(settings.append_queue_entries_max, settings.append_queue_bytes_max)
        self._callbacks: list[Callable[[], None]] = []
        self._end_callbacks: list[Callable[[], None]] = []
        self._ended = False
        self.when_ended: Callable[[], None] | None = None
        self._error: ManagedLedgerError | None = None
        self._last_failure: Exception | None = None
        self._retry_at_s = float("-inf")
        self._age_timer: asyncio.TimerHandle | None = None
        self._trimming = False
        self._cursors_known = False  # until then nobody can say what is consumed
        self._closing: asyncio.Task[None] | None = None
        self._entries_added = 0
        self._bytes_added = 0

    # Facts

    @property
    def cursors(self) -> dict[str, Cursor]:
        """Cursors by name."""
        return self._cursors.by_name

    @property
    def last_confirmed(self) -> Position:
        """Last durable entry; ``(ledger, -1)`` of the first ledger while there is none."""
        return self.line.before(self.line.end)

    @property
    def properties(self) -> dict[str, str]:
        return dict(self._list.properties)

    @property
    def terminated(self) -> Position | None:
        """Last entry of a sealed topic, else None."""
        return self._list.terminated

    @property
    def ended(self) -> bool:
        """Closed or fenced: open the topic anew."""
        return self._ended

    def next_position(self, position: Position) -> Position:
        """First position behind ``position`` that holds or will hold an entry."""
        return self.line.position(self.line.ordinal_after(position))

    def previous_position(self, position: Position) -> Position:
        """Last existing entry before ``position``; ``(first ledger, -1)`` when there is none."""
        return self.line.before(self.line.ordinal(position))

    def entries_between(self, first: Position, stop: Position) -> int:
        """Number of entries at or behind ``first`` and before ``stop``; 0 when reversed."""
        return max(self.line.ordinal(stop) - self.line.ordinal(first), 0)

    # Appending

    def append(self, run: Slice, sink: AppendSink) -> None:
        """Append all entries of ``run`` to one ledger; sets ``run.ledger_id`` and ``run.first`` when it is written.

        Never waits and never raises for the world's reasons: every outcome goes to ``sink``, possibly within this
        call when refused (closed, fenced, terminated, queue full).
        """
        if self._state is State.OPENED:
            self._send(run, sink)
        elif self._state is State.CREATING:
            self._enqueue(run, sink)
        elif self._state is State.CLOSED_LEDGER and self._error is None:
            if self.clock.monotonic_s() < self._retry_at_s:
                sink.append_failed(run, 0, AppendFailedError(f"no ledger: {self._last_failure}"))
                return
            self._enqueue(run, sink)
            self._start_roll()
        else:
            sink.append_failed(run, 0, self._refusal())

    async def writable(self) -> None:
        """Return when appends are taken, trying to open a ledger when there is none. Cancel-safe.

        Raises AppendFailedError with the reason, and what forbids appends for good. A bookie that went away unnoticed
        is only found by an append.
        """
        may_try = self._error is None and self.clock.monotonic_s() >= self._retry_at_s
        if self._state is State.CLOSED_LEDGER and may_try:
            self._start_roll()
        while self._is_rolling():
            await self._list.wait_quiet()
            await asyncio.sleep(0)
        if self._state is State.CLOSED_LEDGER:
            raise AppendFailedError(f"no ledger: {self._last_failure}")
        if self._state is not State.OPENED:
            raise self._refusal()

    def _refusal(self) -> Exception:
        if self._error is not None:
            return self._error
        return ManagedLedgerTerminatedError(f"{self.name} was terminated at {self.terminated}")

    def _enqueue(self, run: Slice, sink: AppendSink) -> None:
        if not self._appends.wait(run, sink):
            waiting = self._appends.waiting_entries
            error = AppendQueueFullError(f"{waiting} entries wait for a new ledger already")
            sink.append_failed(run, 0, error)

    def _send(self, run: Slice, sink: AppendSink) -> None:
        assert self._writer is not None
        try:
            first = self._writer.append(run)
        except LedgerError as error:
            sink.append_failed(run, 0, AppendFailedError(str(error)))
            return
        self._appends.sent(run, sink)
        self.tail.append(self._writer_base + first, run)
        self._writer_bytes += run.size
        if (
            first + run.count >= self.config.ledger_entries_max
            or self._writer_bytes >= self.config.ledger_bytes_max
        ):
            self._roll_if_full()

    def confirmed(self, below: int) -> None:
        """From the ledger writer: every entry id < ``below`` is durable."""
        if self._ended or not self.proven():
            return  # the sinks were told that the outcome is unknown
        found = self._appends.confirmed(below)
        entries = size = 0
        for run, _, start, stop in found:
            entries += stop - start
            spans = run.spans[2 * start : 2 * stop]
            whole = stop - start == run.count
            size += run.size if whole else sum(spans[1::2]) - sum(spans[0::2])
        self.line.grow(entries, size)
        self._entries_added += entries
        self._bytes_added += size
        for run, sink, start, stop in found:
            sink.appended(run, start, stop)
        for callback in self._callbacks:
            callback()

    def failed(self, error: LedgerError) -> None:
        """From the ledger writer: nothing more will be confirmed, the outcome of the rest is unknown."""
        if self._ended or self._writer is None:
            return
        if isinstance(error, LedgerFencedError | LedgerClosedError):
            self.fenced(ManagedLedgerFencedError(f"{self.name} was taken over: {error}"))
            return
        log.warning(
            "ledger failed topic=%s ledger=%d error=%s", self.name, self._writer.ledger_id, error
        )
        self._new_tail()
        if self._state is State.OPENED:
            self._start_roll()
        self._fail_appends(AppendFailedError(f"outcome unknown: {error}"))

    def _fail_appends(self, error: Exception) -> None:
        for run, sink, start in self._appends.take_all():
            sink.append_failed(run, start, error)

    def _new_tail(self) -> None:
        """Entries were appended that will never be: what is cached behind them would have wrong places."""
        self.tail.close()
        self.tail = self._cache.tail()

    def on_appended(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` once per confirmed range, after the sinks; returns how to stop it. Must not raise."""
        self._callbacks = [*self._callbacks, callback]

        def stop() -> None:
            self._callbacks = [one for one in self._callbacks if one is not callback]

        return stop

    def on_fenced(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when this object became useless because another owner took over."""
        self._end_callbacks.append(callback)

    # Rolling

    async def start(self) -> None:
        """Called once by the factory: fence the previous owner, open a ledger, load the cursors."""
        await self._list.recover()
        if self._list.terminated is not None:
            self._state = State.TERMINATED
        else:
            writer = await self._list.follow(None, self.config, self)
            if writer.error is not None:
                raise writer.error
            self._use(writer)
        await self._cursors.load()
        self._cursors_known = True

    def _use(self, writer: LedgerWriter) -> None:
        self._writer = writer
        base = self.line.first_ordinal(writer.ledger_id)
        assert base is not None
        self._writer_base = base
        self._writer_bytes = 0
        self._writer_since_s = self.clock.monotonic_s()
        self._state = State.OPENED
        self._last_failure = None
        self.reads.wrote(writer)
        self._watch_age()

    def _watch_age(self) -> None:
        if self._age_timer is not None:
            self._age_timer.cancel()
        age_s = self.clock.monotonic_s() - self._writer_since_s
        loop = asyncio.get_running_loop()
        self._age_timer = loop.call_later(next_check_s(age_s, self.config), self._age_passed)

    def _age_passed(self) -> None:
        self._age_timer = None
        if self._state is State.OPENED:
            self._roll_if_full()
            if self._state is State.OPENED:
                self._watch_age()

    def _roll_if_full(self) -> None:
        assert self._writer is not None
        age_s = self.clock.monotonic_s() - self._writer_since_s
        entries = self._writer.last_pushed + 1
        if is_full(entries, self._writer_bytes, age_s, self.config):
            self._start_roll()

    def _start_roll(self) -> None:
        self._state = State.CREATING
        self.tasks.spawn("roll", self._roll())

    async def _roll(self) -> None:
        if self._state is not State.CREATING:
            return
        if self._writer is not None:
            self._retired = self._writer
        try:
            writer = await self._list.follow(self._retired, self.config, self)
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            return
        except (LedgerError, WorldError) as error:
            self._no_ledger(error)
            return
        if self._retired is not None:
            self.reads.forget(self._retired.ledger_id)
            self._retired = None
        if self._state is not State.CREATING:
            writer.abandon(LedgerClosedError("the topic was closed meanwhile"))
            return
        if writer.error is not None:  # while the list was written: it tells so only once
            self._retired = writer
            self._no_ledger(writer.error)
            return
        self._use(writer)
        while (waiting := self._appends.take_waiting()) is not None:
            # A waiting run may fill this ledger too: the rest then waits for the next one, in order.
            self.append(*waiting)
            if self._is_rolling():
                break
        self.trim_soon()

    def _no_ledger(self, error: Exception) -> None:
        """There is no next ledger yet; an append after a while tries again."""
        if isinstance(error, LedgerFencedError):
            self.fenced(ManagedLedgerFencedError(f"{self.name} was taken over: {error}"))
            return
        level = logging.WARNING if self._last_failure is None else logging.DEBUG  # once an episode
        log.log(level, "no new ledger topic=%s error=%s", self.name, error)
        if self._state is State.CREATING:
            self._state = State.CLOSED_LEDGER
            self._writer = None
            self._last_failure = error
            self._retry_at_s = self.clock.monotonic_s() + self.settings.retry_initial_s
            self._fail_appends(AppendFailedError(f"no ledger: {error}"))

    def _is_rolling(self) -> bool:
        return self._state is State.CREATING

    # Cursors

    async def open_cursor(
        self,
        name: str,
        initial: Position | InitialPosition,
        properties: dict[str, int] | None = None,
        durable: bool = True,
        cursor_properties: dict[str, str] | None = None,
    ) -> Cursor:
        """The cursor ``name``, made if missing (durable before it returns); ``initial`` matters only then.

        A position is the first entry to be read; EARLIEST and LATEST of ``engine.base.ids`` work too.
        """
        self._check()
        try:
            return await self._cursors.open(
                name, initial, properties or {}, durable, cursor_properties or {}
            )
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            raise

    async def delete_cursor(self, name: str) -> None:
        """Delete a cursor with its state. Raises CursorNotFoundError."""
        self._check()
        await self._cursors.delete(name)
        self.trim_soon()

    def cursor_persisted(self, cursor: Cursor) -> None:
        """From a cursor: its persisted mark moved."""
        ledgers = self.line.ledgers
        if len(ledgers) > 1 and cursor.trim_limit >= self.line.base + ledgers[0].entries:
            self.trim_soon()

    # Reading

    async def read_entry(self, position: Position) -> Slice:
        """The one entry at ``position``. Raises InvalidPositionError when there is none."""
        self._check()
        return await lookup.read_entry(self, position)

    async def find_by_time(self, publish_ms: int) -> Position:
        """Last entry published before ``publish_ms`` (by the metadata's publish time; entries are taken as ordered).

        ``(first ledger, -1)`` when there is none. The next one is ``next_position`` of it: what ``Cursor.reset`` takes.
        """
        self._check()
        return await lookup.find_by_time(self, publish_ms)

    # Changes

    def trim_soon(self) -> None:
        """Trim in the background, once however often it is asked for."""
        if self._trimming or self._ended or not self._cursors_known:
            return
        if len(self.line.ledgers) > 1:
            self._trimming = True
            self.tasks.spawn("trim", self._trim_quietly())

    async def _trim_quietly(self) -> None:
        try:
            await self.trim()
        except (LedgerError, WorldError, ManagedLedgerError) as error:
            log.warning("not trimmed topic=%s error=%s", self.name, error)
        finally:
            self._trimming = False

    async def trim(self) -> None:
        """Delete closed ledgers that every durable cursor consumed, by persisted state, and retention lets go."""
        self._check()
        try:
            for ledger_id in await self._list.trim(self._cursors.consumed, self.config):
                self.reads.forget(ledger_id)
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            raise
        finally:
            for cursor in list(self.cursors.values()):
                cursor.trimmed()

    async def update_config(self, config: LedgerConfig) -> None:
        """Use new limits and retention from now on; quorums from the next ledger on."""
        self._check()
        self.config = config
        if self._state is State.OPENED:
            self._roll_if_full()
            self._watch_age()
        self.trim_soon()

    async def update_properties(self, changes: dict[str, str | None]) -> None:
        """Set properties, or remove those given None; durable before it returns."""
        self._check()
        try:
            await self._list.update_properties(changes)
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            raise

    async def terminate(self) -> Position:
        """Seal the topic: no appends any more. Returns the last entry's position; durable before it returns."""
        self._check()
        while self._state is State.CREATING:
            await self._list.wait_quiet()
            await asyncio.sleep(0)
        self._check()
        writer = self._writer or self._retired
        self._state = State.TERMINATED
        self._fail_appends_waiting()
        try:
            return await self._list.seal(writer)
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            raise
        except (LedgerError, WorldError):
            if self._state is State.TERMINATED:  # not sealed: the next append opens a ledger
                self._state = State.CLOSED_LEDGER
                self._retired, self._writer = writer, None
            raise

    def _fail_appends_waiting(self) -> None:
        while (waiting := self._appends.take_waiting()) is not None:
            run, sink = waiting
            sink.append_failed(run, 0, self._refusal())

    async def close(self) -> None:
        """Persist cursors, close the ledger. Pending appends are waited for, queued ones fail. Safe to call twice."""
        if self._closing is None:
            if self._ended:
                return
            self._error = ManagedLedgerClosedError(f"{self.name} is closed")
            self._state = State.CLOSED
            self._fail_appends_waiting()
            self._closing = self._closer.spawn("close", self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._list.wait_quiet()
        failures: list[BaseException] = []
        writer = self._writer
        if writer is not None:
            try:
                await writer.close()
            except LedgerError as error:
                failures.append(error)
        for cursor in list(self.cursors.values()):
            try:
                await cursor.close()
            except (LedgerError, WorldError, ManagedLedgerError) as error:
                failures.append(error)
        if self._error is not None:
            self._end(self._error)
        await self.tasks.close()
        if failures:
            log.warning("not closed cleanly topic=%s error=%s", self.name, failures[0])

    def proven(self) -> bool:
        """Whether this process may confirm anything at this moment. When not, the topic may have another owner already:
        it ends here as if fenced."""
        store = self._store
        if store.session_proven and store.session_id == self._session_id:
            return True
        self.fenced(
            ManagedLedgerFencedError(f"the ownership of {self.name} is not proven any more")
        )
        return False

    def fenced(self, error: Exception) -> None:
        """Another owner has the topic: stop acknowledging anything, for good."""
        if self._ended:
            return
        log.warning("fenced topic=%s reason=%s", self.name, error)
        if not isinstance(error, ManagedLedgerFencedError):
            error = ManagedLedgerFencedError(str(error))
        self._state = State.FENCED
        self._error = error
        self._end(error)
        for callback in self._end_callbacks:
            callback()

    def abandon(self) -> None:
        """Stop at once, as a crash would: nothing is written any more."""
        if not self._ended:
            self._state = State.CLOSED
            self._error = ManagedLedgerClosedError(f"{self.name} is closed")
            self._end(self._error)

    def _end(self, error: ManagedLedgerError) -> None:
        self._ended = True
        writer, self._writer = self._writer, None
        if self._age_timer is not None:
            self._age_timer.cancel()
            self._age_timer = None
        if writer is not None and not writer.closed:
            writer.abandon(LedgerClosedError(str(error)))
        for cursor in self.cursors.values():
            cursor.abandon(error)
        self._fail_appends(error)
        self.tail.close()
        self.tasks.cancel()
        if self.when_ended is not None:
            self.when_ended()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def stats(self) -> ManagedLedgerStats:
        """Facts now; cheap."""
        ledgers = self.line.ledgers
        current = ledgers[-1] if ledgers else None
        return ManagedLedgerStats(
            name=self.name,
            entries=self.line.end - self.line.base,
            size=sum(one.size for one in ledgers),
            entries_added=self._entries_added,
            bytes_added=self._bytes_added,
            current_ledger_id=current.ledger_id if current else -1,
            current_ledger_entries=current.entries if current else 0,
            current_ledger_size=current.size if current else 0,
            last_ledger_created_ms=self._list.created_ms,
            pending_entries=self._appends.entries,
            cache_bytes=self.tail.size,
            last_confirmed=self.last_confirmed,
            state=self._state.value,
            ledgers=tuple(
                LedgerInfo(
                    one.ledger_id, one.entries, one.size, one.timestamp_ms, one.timestamp_ms > 0
                )
                for one in ledgers
            ),
            cursors=tuple(one.stats() for one in self.cursors.values()),
        )
