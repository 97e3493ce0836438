"""A managed ledger: the entries of one topic as a chain of ledgers, one owner at a time.

``appender`` writes, ``rolling`` keeps the list of ledgers, ``cursor_set`` the cursors, ``reads`` and ``backlog``
read. This is what holds them together: the public face, and the one place where the object ends. Fenced is its end
for good (M15): a fresh open recovers the last ledger and writes the list anew, which no old object can undo.
"""

import asyncio
import logging
from collections.abc import Callable

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.cursor_set import CursorSet, InitialPosition
from engine.managed.errors import (
    ManagedLedgerClosedError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
)
from engine.managed.positions import LedgerLine
from engine.managed.reading import search
from engine.managed.reading.backlog import Backlog, BacklogCache
from engine.managed.reading.entry_cache import EntryCache
from engine.managed.reading.reads import LedgerReads
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.managed.stats import LedgerInfo, ManagedLedgerStats
from engine.managed.writing.appender import Appender, LogStatus
from engine.managed.writing.appends import AppendSink
from engine.managed.writing.rolling import LedgerList
from engine.metadata.store import MetadataStore

__all__ = ["AppendSink", "InitialPosition", "ManagedLedger"]

log = logging.getLogger(__name__)


class ManagedLedger:
    """Made by ``ManagedLedgerFactory.open``. All calls on one event loop.

    Raises ManagedLedgerFencedError once another owner opened it (terminal), ManagedLedgerClosedError after ``close``.
    It lives at most as long as the metadata session that it was opened under: see ``proven``.
    """

    append: Callable[[Slice, AppendSink], None]
    """``append(run, sink)``: append all entries of ``run`` to one ledger; sets ``run.ledger_id`` and ``run.first`` when
    it is written. Never waits and never raises for the world's reasons: every outcome goes to ``sink``, possibly within
    this call when refused (closed, fenced, terminated, queue full). (The appender's own method, once per slice.)"""

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
        backlog_cache: BacklogCache,
        reads: LedgerReads,
    ) -> None:
        self.name = name
        self.config = config
        self.line: LedgerLine = ledger_list.line
        self.reads = reads
        self.settings = settings
        self.clock = clock
        self.entropy = entropy
        self.tasks = TaskScope(f"log {name}")
        self.tail = cache.tail()
        self.backlog = Backlog(self, backlog_cache)
        self.when_ended: Callable[[], None] | None = None
        self._closer = TaskScope(f"log {name} end")
        self._list = ledger_list
        self._cursors = CursorSet(self, ledger_list, store, ledgers)
        self._appender = Appender(self, ledger_list, config, cache)
        self.append = self._appender.append
        self._store = store
        self._session_id = store.session_id
        self._end_callbacks: list[Callable[[], None]] = []
        self._read_callbacks: list[Callable[[Cursor], None]] = []
        self._ended = False
        self._error: ManagedLedgerError | None = None
        self._trimming = False
        self._cursors_known = False  # until then nobody can say what is consumed
        self._closing: asyncio.Task[None] | None = None
        self.step = "nothing"
        """What ``start`` is doing."""

    async def start(self) -> None:
        """Called once by the factory: fence the previous owner, open a ledger, load the cursors."""
        self.step = "recovery of the last ledger"
        await self._list.recover()
        self.step = "creation of a ledger"
        await self._appender.open_first()
        self.step = "loading of the cursors"
        await self._cursors.load()
        self._check()  # somebody else may have opened it meanwhile
        self._cursors_known = True
        self._sweep_soon()

    # Facts

    @property
    def cursors(self) -> dict[str, Cursor]:
        """Cursors by name."""
        return self._cursors.by_name

    @property
    def unread_cursors(self) -> dict[str, str]:
        """Cursors that are or may be stored and cannot be used now, and why; see ``on_cursor_read``."""
        return self._cursors.unread

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

    def stats(self) -> ManagedLedgerStats:
        """Facts now; cheap."""
        ledgers, appender = self.line.ledgers, self._appender
        current = ledgers[-1] if ledgers else None
        return ManagedLedgerStats(
            name=self.name,
            entries=self.line.end - self.line.base,
            size=sum(one.size for one in ledgers),
            entries_added=appender.entries_added,
            bytes_added=appender.bytes_added,
            current_ledger_id=current.ledger_id if current else -1,
            current_ledger_entries=current.entries if current else 0,
            current_ledger_size=current.size if current else 0,
            last_ledger_created_ms=self._list.created_ms,
            pending_entries=appender.appends.entries,
            cache_bytes=self.tail.size,
            last_confirmed=self.last_confirmed,
            state=appender.state.value,
            ledgers=tuple(
                LedgerInfo(
                    one.ledger_id, one.entries, one.size, one.timestamp_ms, one.timestamp_ms > 0
                )
                for one in ledgers
            ),
            cursors=tuple(one.stats() for one in self.cursors.values()),
            unread_cursors=dict(self._cursors.unread),
        )

    # Appending

    async def writable(self) -> None:
        """Return when appends are taken, trying to open a ledger when there is none. Cancel-safe.

        Raises AppendFailedError with the reason, and what forbids appends for good. A bookie that went away unnoticed
        is only found by an append.
        """
        await self._appender.writable()

    def on_appended(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` once per confirmed range, after the sinks; returns how to stop it. Must not raise."""
        appender = self._appender
        appender.callbacks = [*appender.callbacks, callback]

        def stop() -> None:
            appender.callbacks = [one for one in appender.callbacks if one is not callback]

        return stop

    async def terminate(self) -> Position:
        """Seal the topic: no appends any more. Returns the last entry's position; durable before it returns."""
        self._check()
        try:
            return await self._appender.terminate()
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            raise

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
        Raises CursorUnreadableError while the storage that holds its acknowledgements does not answer.
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
        """Delete a cursor with its state. Raises CursorNotFoundError.

        After another failure, or cancelled, the cursor is among ``unread_cursors`` until it is known whether it is
        gone; if not it comes back as it was stored. Delete again to be sure.
        """
        self._check()
        try:
            await self._cursors.delete(name)
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            raise
        self.trim_soon()

    def on_cursor_read(self, callback: Callable[[Cursor], None]) -> None:
        """Call ``callback`` with each of ``unread_cursors`` that turns up in ``cursors`` after all. Must not raise."""
        self._read_callbacks.append(callback)

    def cursor_read(self, cursor: Cursor) -> None:
        """From the cursors: see ``on_cursor_read``."""
        for callback in self._read_callbacks:
            callback(cursor)

    def cursor_persisted(self, cursor: Cursor) -> None:
        """From a cursor: its persisted mark moved."""
        ledgers = self.line.ledgers
        if len(ledgers) > 1 and cursor.trim_limit >= self.line.base + ledgers[0].entries:
            self.trim_soon()

    # Reading

    async def read_entry(self, position: Position) -> Slice:
        """The one entry at ``position``. Raises InvalidPositionError when there is none."""
        self._check()
        return await search.read_entry(self, position)

    async def find_by_time(self, publish_ms: int) -> Position:
        """Last entry published before ``publish_ms`` (by the metadata's publish time; entries are taken as ordered).

        ``(first ledger, -1)`` when there is none. The next one is ``next_position`` of it: what ``Cursor.reset`` takes.
        """
        self._check()
        return await search.find_by_time(self, publish_ms)

    # Changes

    def trim_soon(self) -> None:
        """Trim in the background, once however often it is asked for."""
        if self._trimming or self._ended or not self._cursors_known:
            return
        if len(self.line.ledgers) > 1:
            self._trimming = True
            self.tasks.spawn("trim", self._trim_quietly())
        else:
            self._sweep_soon()

    async def _trim_quietly(self) -> None:
        try:
            await self.trim()
        except (LedgerError, WorldError, ManagedLedgerError) as error:
            log.warning("not trimmed log=%s error=%s", self.name, error)
        finally:
            self._trimming = False

    async def trim(self) -> None:
        """Delete closed ledgers that every durable cursor consumed, by persisted state, and retention lets go."""
        self._check()
        try:
            if self._cursors_known:
                await self._list.trim(self._cursors.consumed, self.config, self._dropped)
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            raise
        finally:
            await self._list.sweep()

    def _dropped(self, ledger_ids: list[int]) -> None:
        """Ledgers went from the front of the line: nobody may read there any more, from this very moment."""
        for ledger_id in ledger_ids:
            self.reads.forget(ledger_id)
        for cursor in list(self.cursors.values()):
            cursor.trimmed()

    def _sweep_soon(self) -> None:
        if self._list.has_doomed and not self._ended:
            self.tasks.spawn("sweep", self._list.sweep())

    async def update_config(self, config: LedgerConfig) -> None:
        """Use new limits and retention from now on; quorums from the next ledger on."""
        self._check()
        self.config = config
        self._appender.configure(config)
        self.trim_soon()

    async def update_properties(self, changes: dict[str, str | None]) -> None:
        """Set properties, or remove those given None; durable before it returns."""
        self._check()
        try:
            await self._list.update_properties(changes)
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            raise

    # The end

    def on_fenced(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when this object became useless because another owner took over."""
        self._end_callbacks.append(callback)

    async def close(self) -> None:
        """Persist cursors, close the ledger. Pending appends are waited for, queued ones fail. Safe to call twice."""
        if self._closing is None:
            if self._ended:
                return
            self._error = ManagedLedgerClosedError(f"{self.name} is closed")
            self._appender.refuse(self._error)
            self._closing = self._closer.spawn("close", self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        failures: list[BaseException] = []
        try:
            await self._appender.close()
        except LedgerError as error:
            failures.append(error)
        for cursor in list(self.cursors.values()):
            try:
                await cursor.close()
            except (LedgerError, WorldError, ManagedLedgerError) as error:
                failures.append(error)
        if self._error is not None:
            self._end(LogStatus.CLOSED, self._error)
        await self.tasks.close()
        await self._list.sweep()
        if failures:
            log.warning("not closed cleanly log=%s error=%s", self.name, failures[0])

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
        """Another owner has the topic: stop acknowledging anything, for good (M15)."""
        if self._ended:
            return
        log.warning("fenced log=%s reason=%s", self.name, error)
        if not isinstance(error, ManagedLedgerFencedError):
            error = ManagedLedgerFencedError(str(error))
        self._error = error
        self._end(LogStatus.FENCED, error)
        for callback in self._end_callbacks:
            callback()

    def abandon(self) -> None:
        """Stop at once, as a crash would: nothing is written any more."""
        if not self._ended:
            self._error = ManagedLedgerClosedError(f"{self.name} is closed")
            self._end(LogStatus.CLOSED, self._error)

    def _end(self, state: LogStatus, error: ManagedLedgerError) -> None:
        self._ended = True
        for cursor in self.cursors.values():
            cursor.abandon(error)
        self._appender.stop(state, error)
        self.backlog.close()
        self.tasks.cancel()
        if self.when_ended is not None:
            self.when_ended()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
