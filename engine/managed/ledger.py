"""A managed ledger: the entries of one topic as a sequence of ledgers, with one owner at a time.

``state`` holds the present facts and documents which part writes each of them. Only ``appender`` appends.
``stamps`` puts the broker's metadata before entries where that is configured. Only ``rolling`` changes the list of
ledgers, and only ``trimming`` decides which may be deleted. ``cursor_set`` holds the cursors, ``entries`` reads,
``tenure`` ends all of it. This module combines them behind the public interface.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from dataclasses import replace

from engine.base.errors import WorldError
from engine.base.ids import EARLIEST, Position
from engine.base.slices import Slice
from engine.base.tasks import TaskScope, contained
from engine.ledger.errors import LedgerError
from engine.ledger.reading.reader import LedgerReader
from engine.ledger.writing.writer import AckObserver, LedgerWriter, WriterListener
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.cursor_set import CursorSet, InitialPosition
from engine.managed.errors import InvalidPositionError, ManagedLedgerError, StoredRecordError
from engine.managed.positions import LedgerLine
from engine.managed.reading import search
from engine.managed.reading.arrivals import Arrivals
from engine.managed.reading.entries import LogEntries
from engine.managed.reading.newest_first import newest_first
from engine.managed.reading.oldest_first import oldest_first, runs_between
from engine.managed.reading.publish_times import publish_time
from engine.managed.reading.reads import LedgerReads
from engine.managed.settings import LedgerConfig
from engine.managed.shared import Shared
from engine.managed.state import LogState
from engine.managed.stats import (
    EntrySummary,
    LedgerInfo,
    ManagedLedgerStats,
    MoveProgress,
    OffloadStatus,
)
from engine.managed.stored.node import StoredNode
from engine.managed.stored.offloads import offload_of
from engine.managed.stored.records import LogRecord
from engine.managed.stored.removal import Deletion, Forget
from engine.managed.stored.survey import read_ahead
from engine.managed.tenure import Tenure
from engine.managed.trimming import Trimmer
from engine.managed.writing.appender import Appender
from engine.managed.writing.appends import Appendable, AppendSink
from engine.managed.writing.ledger_holders import HeldSpan, held_spans
from engine.managed.writing.lifecycle import trimmable
from engine.managed.writing.offloading import LedgerMover
from engine.managed.writing.rolling import LedgerList
from engine.managed.writing.stamps import Stamps
from engine.metadata.store import Stat
from engine.offload.offload_policy import OffloadPolicy

__all__ = ["AppendSink", "InitialPosition", "ManagedLedger"]

log = logging.getLogger(__name__)


class ManagedLedger:
    """The managed ledger of one topic, created by ``ManagedLedgerFactory.open``. All calls on one event loop.

    Calls raise ManagedLedgerFencedError once another owner opened it (terminal), ManagedLedgerClosedError after
    ``close``. It lives at most as long as the metadata session that it was opened under.
    """

    __slots__ = (
        "_appender",
        "_appending",
        "_arrivals",
        "_closing",
        "_cursors",
        "_list",
        "_mover",
        "_node",
        "_shared",
        "_stamps",
        "_state",
        "_tasks",
        "_tenure",
        "_trimmer",
        "_when_trimmed",
        "entries",
        "line",
        "name",
        "step",
    )

    def __init__(
        self,
        name: str,
        config: LedgerConfig,
        node: StoredNode,
        record: LogRecord,
        shared: Shared,
    ) -> None:
        """``record`` is the content of ``node``."""
        self._build(name, config, node, record, shared, LedgerList, LedgerReads)

    def _build(
        self,
        name: str,
        config: LedgerConfig,
        node: StoredNode,
        record: LogRecord,
        shared: Shared,
        ledger_list: type[LedgerList],
        ledger_reads: type[LedgerReads],
    ) -> None:
        """Create the parts; the classes are those of the list of ledgers and of their readers."""
        settings = shared.settings
        line, tail = LedgerLine(record.ledgers), shared.cache.tail()
        state = LogState(name, config, line, tail, record.terminated, record.properties)
        self.name = name
        self.line = line
        self.step = "nothing"
        """The present step of ``start``, as a phrase for error messages."""
        self._state = state
        self._node = node
        self._shared = shared
        self._tasks = TaskScope(name)
        self._closing: asyncio.Task[None] | None = None
        self._tenure = Tenure(state, shared.store)
        objects = shared.objects(name)
        self._list = ledger_list(state, node, record, shared.ledgers, shared.clock, objects)
        self._arrivals = Arrivals(line)
        reads = ledger_reads(shared.ledgers, line, settings, objects, shared.blocks)
        self.entries = LogEntries(
            line, tail, reads, shared.backlog_cache, self._tasks,
            settings.read_ahead_bytes, settings.read_ahead_ranges,
        )  # fmt: skip
        self._trimmer = Trimmer(state, self._tenure, self._list, reads, self._tasks)
        self._mover = LedgerMover(state, self._tenure, self._list, reads, shared, self._tasks)
        self._mover.configured()
        self._cursors = CursorSet(
            state, self._tenure, self._list, self._trimmer, self.entries, self._tasks, shared
        )
        self._appender = Appender(
            state, self._tenure, self._list, reads, settings, shared.clock, self._tasks,
            self.trim_soon,
        )  # fmt: skip
        self._stamps = Stamps(state, shared.clock, self._appender)
        stamps = config.entry_indexes or config.entry_times
        self._appending: Appendable = self._stamps if stamps else self._appender
        self._when_trimmed: list[Callable[[], None]] = []
        self._tenure.on_end(self._end)

    async def start(self) -> None:
        """Fence the previous owner, open a ledger, load the cursors. Called once, by the factory."""
        self.step = "reading of the last ledger and the cursors"
        ledger, cursors = await read_ahead(
            self._shared.store, self._node.path, self._list.unsettled, self._node.children
        )
        self.step = "recovery of the last ledger"
        await self._list.recover(ledger)
        self.step = "reading of the last index"
        await self._stamps.recover(self.entries)
        self.step = "creation of a ledger"
        await self._appender.open_first()
        await self._load_cursors(cursors)
        self._trimmer.begin(self._cursors.trim_limit, self._trimmed)
        self._mover.soon()

    async def _load_cursors(self, known: dict[str, tuple[bytes, Stat]]) -> None:
        """Load the cursors, after the list was written. ``known``: nodes of cursors that were read already."""
        self.step = "loading of the cursors"
        # The previous owner may have created cursors after their names were read and before the list was written here.
        if not self._node.children_hold:
            self._node.children = await self._shared.store.children(self._node.path)
        await self._cursors.load(self._node.children, known)
        self._node.children = []
        self._state.check()  # another owner may have opened it meanwhile

    # State

    @property
    def cursors(self) -> dict[str, Cursor]:
        """Cursors by name."""
        return self._cursors.by_name

    @property
    def unread_cursors(self) -> dict[str, str]:
        """Cursors that are stored, or may be, and cannot be used now, with the reason; see ``on_cursor_read``."""
        return self._cursors.unread

    @property
    def last_confirmed(self) -> Position:
        """Last durable entry; ``(ledger, -1)`` of the first ledger while there is none."""
        return self._state.last_confirmed

    @property
    def last_readable(self) -> Position:
        """Last entry that readers may be given; ``(ledger, -1)`` of the first ledger while there is none."""
        return self.line.before(self.line.readable_to)

    @property
    def properties(self) -> dict[str, str]:
        return dict(self._state.properties)

    @property
    def terminated(self) -> Position | None:
        """The position of the last entry of a terminated topic, else None."""
        return self._state.terminated

    @property
    def ended(self) -> bool:
        """True once it was closed or fenced; the topic has to be opened again then."""
        return self._state.ended

    def next_position(self, position: Position) -> Position:
        """Return the first position behind ``position`` that holds or will hold an entry."""
        return self.line.position(self.line.ordinal_after(position))

    def previous_position(self, position: Position) -> Position:
        """Return the last existing entry before ``position``; ``(first ledger, -1)`` when there is none."""
        return self.line.before(self.line.ordinal(position))

    def entries_between(self, first: Position, stop: Position) -> int:
        """Return the number of entries at or behind ``first`` and before ``stop``; 0 when reversed."""
        return max(self.line.ordinal(stop) - self.line.ordinal(first), 0)

    def bytes_behind(self, position: Position) -> int:
        """Return the stored bytes of the entries behind ``position``; all entries of a ledger count as equally
        large."""
        return self.line.bytes_behind(position)

    @property
    def fetched(self) -> tuple[int, int]:
        """Entries and bytes read from bookies since this object was opened, because they were not in memory."""
        reads = self.entries.reads
        return reads.fetched_entries, reads.fetched_bytes

    @property
    def offloaded_bytes(self) -> int:
        """Bytes of the ledgers that have a complete copy in tiered storage."""
        ledgers = self.line.ledgers
        return sum(span.size for span in ledgers if span.extra and offload_of(span).complete)

    def last_before(self, size: int) -> Position:
        """Return the last entry with at most ``size`` bytes behind it, counted as ``bytes_behind`` does."""
        return self.line.last_before(size)

    @property
    def entries_added(self) -> int:
        """Entries confirmed since this object was opened."""
        return self._appender.entries_added

    def stats(self) -> ManagedLedgerStats:
        """Return the present facts; cheap."""
        ledgers, appender = self.line.ledgers, self._appender
        current = ledgers[-1] if ledgers else None
        return ManagedLedgerStats(
            name=self.name,
            entries=self.line.durable_to - self.line.base,
            size=sum(span.size for span in ledgers),
            entries_added=appender.entries_added,
            bytes_added=appender.bytes_added,
            current_ledger_id=current.ledger_id if current else -1,
            current_ledger_entries=current.entries if current else 0,
            current_ledger_size=current.size if current else 0,
            last_ledger_created_ms=self._list.created_ms,
            pending_entries=appender.appends.entries,
            cache_bytes=self._state.tail.size,
            last_confirmed=self.last_confirmed,
            state=self._state.status.value,
            ledgers=tuple(
                LedgerInfo(
                    span.ledger_id,
                    span.entries,
                    span.size,
                    span.timestamp_ms,
                    span.timestamp_ms > 0,
                    span.extra,
                )
                for span in ledgers
            ),
            cursors=tuple(cursor.stats() for cursor in self.cursors.values()),
            unread_cursors=dict(self._cursors.unread),
            moved=replace(self._mover.counters),
        )

    # Appending

    def append(self, run: Slice, sink: AppendSink) -> None:
        """Append all entries of ``run`` to one ledger; set ``run.ledger_id`` and ``run.first`` when they are written.

        Never waits and raises no error of storage or network: every outcome is reported to ``sink``, possibly within
        this call when refused (closed, fenced, terminated, queue full).
        """
        self._appending.append(run, sink)

    async def writable(self) -> None:
        """Return when appends are accepted; try to open a ledger when there is none. Cancel-safe.

        Raises AppendFailedError with the reason, and the error that forbids appends for good. A bookie that became
        unavailable unnoticed is only found by an append.
        """
        await self._appender.writable()

    def on_readable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` once per confirmed range, after the sinks, and whenever ``hold_reads`` or ``release_reads``
        made more entries readable. Return a function that ends that. Must not raise."""
        return self._appender.on_readable(callback)

    def watch_acks(self, observer: AckObserver | None) -> None:
        """Call ``observer`` with each answer of a bookie to an append, in later ledgers as well; None ends that."""
        self._appender.watch_acks(observer)

    def hold_reads(self, before: Position) -> None:
        """Give readers only the entries before ``before``, or the present ones if that is ahead of them, until the next
        call or ``release_reads`` (I40).

        What is durable still counts elsewhere: in backlogs, for LATEST, for acknowledgements, expiry and searches.
        Entries that readers were given before are not taken back. Nothing behind the limit is trimmed.
        """
        self._hold_reads(before)

    def release_reads(self) -> None:
        """Give readers everything that is durable, as soon as it is."""
        self._hold_reads(None)

    def _hold_reads(self, before: Position | None) -> None:
        if self.line.hold_reads(before):
            self._appender.notify_readers()

    def on_recovered(self, callback: Callable[[Position, Position], None]) -> None:
        """Call ``callback`` with the first and last of the entries that closing a ledger brought into the log: their
        appends had failed with an unknown outcome. It is called before anything is appended behind them and must not
        raise."""
        self._appender.on_recovered(callback)

    async def terminate(self) -> Position:
        """Terminate the topic and return the last entry's position; durable before it returns."""
        with self._tenure.owned():
            return await self._appender.terminate()

    # Cursors

    async def open_cursor(
        self,
        name: str,
        initial: Position | InitialPosition,
        properties: dict[str, int] | None = None,
        durable: bool = True,
        cursor_properties: dict[str, str] | None = None,
    ) -> Cursor:
        """Return the cursor ``name``. Create it, durably, when it is missing; ``initial`` matters only then.

        A position is the first entry to be read; EARLIEST and LATEST of ``engine.base.ids`` are valid too. Raises
        CursorUnreadableError while the storage that holds its acknowledgements does not answer, InvalidPropertyError
        for ``cursor_properties`` that are reserved or too large.
        """
        with self._tenure.owned():
            return await self._cursors.open(
                name, initial, properties or {}, durable, cursor_properties or {}
            )

    async def delete_cursor(self, name: str) -> None:
        """Delete a cursor with its state. Raises CursorNotFoundError.

        After another failure, or when cancelled, the cursor is among ``unread_cursors`` until it is known whether it
        was deleted. If it was not, it is loaded again as it was stored. To be sure, delete it again.
        """
        with self._tenure.owned():
            await self._cursors.delete(name)
        self.trim_soon()

    def on_trimmed(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever ledgers at the front were dropped. Must not raise."""
        self._when_trimmed.append(callback)

    def _trimmed(self) -> None:
        self._cursors.trimmed()
        for callback in self._when_trimmed:
            callback()

    def on_cursor_read(self, callback: Callable[[Cursor], None]) -> None:
        """Call ``callback`` with each of ``unread_cursors`` that is added to ``cursors`` after all. Must not raise."""
        self._cursors.on_read(callback)

    # Reading

    async def read_entry(self, position: Position) -> Slice:
        """Read the entry at ``position``. Raises InvalidPositionError when there is none."""
        self._state.check()
        ordinal = self.line.exact(*position)
        if ordinal < 0:
            raise InvalidPositionError(f"{self.name} has no entry {position}")
        return await self.entries.entry(ordinal)

    def entry_at_hand(self, position: Position) -> Slice | None:
        """Return the entry at ``position`` from memory; None when there is none, or it has to be read from storage."""
        ordinal = self.line.exact(*position)
        return self.entries.at_hand(ordinal) if ordinal >= 0 else None

    def newest_first(
        self, before: Position | None = None
    ) -> AsyncGenerator[tuple[Slice, int], None]:
        """Iterate over the entries before ``before`` (None: over all), the last one first, as a slice and the index in
        it. Uses no cursor and no cache. Raises LedgerError."""
        self._state.check()
        stop = self.line.durable_to if before is None else self.line.ordinal(before)
        return newest_first(self.entries, stop)

    def oldest_first(self, start: Position = EARLIEST) -> AsyncGenerator[tuple[Slice, int], None]:
        """Iterate over the entries from ``start`` on as a slice and the index in it, as far as readers may be given
        them. Uses no cursor and no cache. Raises LedgerError."""
        self._state.check()
        return oldest_first(self.entries, self.line.ordinal(start))

    def durable_runs(self, start: Position, last: Position) -> AsyncIterator[tuple[Slice, range]]:
        """Iterate over the entries from ``start`` to ``last``, also those that readers may not be given yet, as slices
        and the indexes in them. Uses no cursor and no cache. Raises LedgerError."""
        self._state.check()
        return runs_between(self.entries, self.line.ordinal(start), self.line.ordinal_after(last))

    async def find_by_time(self, publish_ms: int, after: Position = EARLIEST) -> Position:
        """Return the last entry published before ``publish_ms``, by the publish time in its metadata. Entries are
        assumed to be in order of that time.

        The result is ``(first ledger, -1)`` when there is none; its ``next_position`` is what ``Cursor.reset`` accepts.
        Nothing up to ``after`` is read: when no entry behind it is older, the result is ``after``. Raises LedgerError.
        """
        self._state.check()
        now_ms = self._shared.clock.wall_ms()

        async def time_of(ordinal: int) -> int:
            return await search.published_ms(self.entries, ordinal, now_ms)

        return await search.find_by_time(self.entries, publish_ms, time_of, after)

    async def find_older(self, before_ms: int, after: Position = EARLIEST) -> Position:
        """Do as ``find_by_time``, by the time of ``entry_summary``. An entry that arrived at ``before_ms`` or later is
        not older, whatever its publisher's clock was."""
        self._state.check()
        return await search.find_by_time(self.entries, before_ms, self._time_of, after)

    async def entry_summary(self, position: Position) -> EntrySummary:
        """Return the time and number of messages of the entry at ``position``. Raises InvalidPositionError,
        LedgerError."""
        self._state.check()
        ordinal = self.line.exact(*position)
        if ordinal < 0:
            raise InvalidPositionError(f"{self.name} has no entry {position}")
        return await self._summary_of(ordinal)

    def entry_summary_at_hand(self, position: Position) -> EntrySummary | None:
        """Return the summary of the entry at ``position`` without reading it; None when there is no entry, it is not in
        memory, or its metadata has no time."""
        ordinal = self.line.exact(*position)
        run = self.entries.at_hand(ordinal) if ordinal >= 0 else None
        if run is None:
            return None
        try:
            published_ms = publish_time(run.entry(0))
        except StoredRecordError:
            return None
        return EntrySummary(max(published_ms, self._arrivals.since_ms(ordinal)), run.messages)

    async def _time_of(self, ordinal: int) -> int:
        return (await self._summary_of(ordinal)).publish_ms

    async def _summary_of(self, ordinal: int) -> EntrySummary:
        since_ms = self._arrivals.since_ms(ordinal)
        run = await self.entries.entry(ordinal)
        now_ms = self._shared.clock.wall_ms()
        published_ms = await search.published_ms(self.entries, ordinal, now_ms, run)
        return EntrySummary(max(published_ms, since_ms), run.messages)

    def note_time(self, every_ms: int) -> None:
        """Record where the log ends now, at most once in ``every_ms``, for ``find_older``. Cheap."""
        self._arrivals.note(self._shared.clock.wall_ms(), every_ms)

    # Ledgers outside of the log

    async def new_ledger(self, custom: dict[str, bytes], listener: WriterListener) -> LedgerWriter:
        """Create a ledger that is not part of the log, with the replication of the log. Raises LedgerError, the store's
        errors.

        When cancelled, an empty ledger may remain that no record names.
        """
        self._state.check()
        config = self._state.config
        return await self._shared.ledgers.create(
            config.ensemble,
            config.write_quorum,
            config.ack_quorum,
            custom={"application": b"pulsar", **custom},
            listener=listener,
        )

    async def delete_ledger(self, ledger_id: int) -> None:
        """Delete a ledger of ``new_ledger`` that is not used any more. Raises LedgerError, the store's errors."""
        await self._shared.ledgers.delete(ledger_id)

    async def open_ledger(self, ledger_id: int) -> LedgerReader:
        """Open a ledger of ``new_ledger``; it is closed now if its writer did not close it. Raises NoSuchLedgerError,
        LedgerError, the store's errors."""
        self._state.check()
        return await self._shared.ledgers.open(ledger_id, recover=True)

    # Changes

    def freed(
        self, config: LedgerConfig, passed: Mapping[str, Position], deleted: Collection[str]
    ) -> tuple[int, Position]:
        """Return the bytes of the ledgers that trimming would delete with the limits of ``config``, and the last entry
        in them.

        The cursors of ``passed`` count as having acknowledged all entries up to their positions, those of ``deleted``
        as deleted. Entries that are only kept so that an administrator's change can be undone count as deleted: they
        soon will be.
        """
        line, now_ms = self.line, self._shared.clock.wall_ms()
        consumed = self._cursors.consumed(passed, deleted)
        count = trimmable(line.ledgers, line.base, consumed, now_ms, config)
        trimmed = line.ledgers[:count]
        last = Position(trimmed[-1].ledger_id, trimmed[-1].entries - 1) if trimmed else EARLIEST
        return sum(ledger.size for ledger in trimmed), last

    def held_spans(self) -> list[HeldSpan]:
        """Return what holds each ledger of the log now, in order."""
        cursors, line = self._cursors, self.line
        spans = ((span.ledger_id, offload_of(span)) for span in line.ledgers if span.extra)
        return held_spans(
            line,
            cursors.marks(),
            self._state.config,
            self._shared.clock.wall_ms(),
            unknown=cursors.unread,
            offloaded={id for id, of in spans if of.complete and not of.deleted_from_bookies},
            undo_limit=cursors.trim_limit(),
        )

    def trim_soon(self) -> None:
        """Trim and move ledgers to tiered storage in the background. Further requests have no effect while that is in
        progress."""
        self._trimmer.soon()
        self._mover.soon()

    def offload(self, before: Position) -> None:
        """Move all closed ledgers before that of ``before`` to tiered storage, in the background; see
        ``offload_status``. Raises OffloadError without a policy, OffloadRunningError."""
        self._mover.start(before)

    @property
    def offload_policy(self) -> OffloadPolicy | None:
        return self._state.config.offload

    @property
    def offload_status(self) -> OffloadStatus:
        return self._mover.status

    @property
    def offload_progress(self) -> MoveProgress:
        """Progress of the present moving of ledgers, or of the last."""
        return replace(self._mover.progress)

    @property
    def offload_read_error(self) -> str:
        """Reason why the last read from tiered storage failed; empty when it did not, or there was none."""
        tiered = self._shared.tiered
        meters = None if tiered is None else tiered.meters.get(self.name)
        return "" if meters is None else meters.read_error

    async def trim(self, *, retention: bool = True) -> None:
        """Delete closed ledgers that every durable cursor consumed, by its persisted state, and that retention does not
        keep. Without ``retention``, retention keeps none."""
        await self._trimmer.trim(retention=retention)

    async def update_config(self, config: LedgerConfig) -> None:
        """Apply new limits and retention at once, new quorums from the next ledger on."""
        self._state.check()
        self._state.config = config
        self._appender.configured()
        self._mover.configured()
        self.trim_soon()

    async def update_properties(self, changes: dict[str, str | None]) -> None:
        """Set properties, or remove those given as None; durable before it returns."""
        with self._tenure.owned():
            await self._list.update_properties(changes)

    # The end

    def on_fenced(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when another owner took over and this object became useless."""
        self._tenure.on_fenced(callback)

    def on_ended(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when this object ended for any reason."""
        self._tenure.on_end(callback)

    async def close(self) -> None:
        """Persist the cursors and close the ledger. Pending appends are awaited, queued ones fail. Safe to call
        twice."""
        if self._closing is None:
            if self._state.ended:
                return
            self._tenure.close()
            self._appender.refuse()
            self._closing = TaskScope(self.name).spawn("close", self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        """Close every part even when one fails, and end the tenure, after which the log can be opened again."""
        cursors = list(self.cursors.values())
        try:
            for close in (self._appender.close, *(cursor.close for cursor in cursors)):
                with contained(f"clean close of {self.name}"):
                    try:
                        await close()
                    except (LedgerError, WorldError, ManagedLedgerError) as error:
                        log.warning("not closed cleanly log=%s error=%s", self.name, error)
        finally:
            self._tenure.end()
        await self._tasks.close()
        await self._list.sweep()

    async def begin_deletion(self, forget: Forget | None) -> Deletion:
        """Mark the topic as deleted and end this object; return the remaining work. Appends without an outcome fail.

        The open ledger is not closed first, because it is deleted. After an error this object is as before, and the
        topic is marked or not.
        """
        with self._tenure.owned():
            node, record = await self._list.mark_deleted()
        # A cursor that is created at this moment keeps the node from being deleted, which finds it then.
        has_cursors = self._cursors.by_name or self._cursors.unread
        self._tenure.end()
        children = None if has_cursors else ()
        shared = self._shared
        return Deletion(
            shared.store, shared.ledgers, shared.objects(self.name), node, record, children, forget
        )

    def fenced(self, error: Exception) -> None:
        """Stop confirming anything, for good: another owner has the log (M15)."""
        self._tenure.fenced(error)

    def abandon(self) -> None:
        """Stop at once, as a crash would. Nothing is written any more."""
        self._tenure.end()

    def _end(self) -> None:
        assert self._state.error is not None
        self._cursors.abandon(self._state.error)
        self._appender.stop()
        self.entries.backlog.close()
        self._tasks.cancel()
