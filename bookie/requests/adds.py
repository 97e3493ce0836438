"""Adds: decide, cache, journal, and answer after the group's sync; one journal record for each received slice.

Overload: a full write cache or too many bytes queued for the journal hold the connections that send adds; their sockets
are not read until there is room again (B14). Apache's client treats ETOOMANYREQUESTS for an add like a time-out, as a
failed bookie. It replaces the bookie in the ledger's ensemble; without a replacement the ledger fails. An unread socket
makes the client wait, and only if that outlasts its own time-out does it replace the bookie. Short overload therefore
costs latency instead of ensembles, and nothing is queued here but one read of each socket. Reads, fences and
connections without adds continue. When the disk has no room, waiting would not help: adds are answered EREADONLY at
once, also those of connections held until then.
"""

from collections.abc import Callable
from functools import partial

from bookie.metrics import BookieMetrics
from bookie.mode import Mode
from bookie.requests.connection import BookieConnection
from bookie.requests.lac_waiters import LacWaiters
from bookie.settings import BookieSettings
from bookie.storage.codes import Code
from bookie.storage.journal.journal import Journal
from bookie.storage.journal.journal_format import Record, RecordKind
from bookie.storage.ledgers import Ledgers
from bookie.storage.runs import cut_frames
from engine.base.slices import AddRun
from engine.wire import bookie_commands as wire
from engine.wire.kernels import build_add_replies

PRIORITY_FLAGS = wire.RECOVERY_ADD | wire.HIGH_PRIORITY
"""Flags of adds that a read-only bookie accepts while it has room."""
LAC_OFFSET = 16
"""Offset of the last add confirmed in an entry's header."""

Done = Callable[[Code], None]
"""Callback with the outcome, called once: at once after a refusal, else after the sync."""


class Adds:
    """The path of all entries and other records into cache and journal."""

    def __init__(
        self,
        settings: BookieSettings,
        ledgers: Ledgers,
        journal: Journal,
        mode: Mode,
        metrics: BookieMetrics,
        waiters: LacWaiters,
        *,
        on_cache_full: Callable[[], None],
        on_group: Callable[[], None],
        on_disk_full: Callable[[Exception], None],
        has_room: Callable[[], bool],
    ) -> None:
        self._pending_max = settings.max_pending_add_bytes
        self._ledgers = ledgers
        self._cache = ledgers.cache
        self._journal = journal
        self._metrics = metrics
        self._waiters = waiters
        self._waiting = waiters.by_ledger
        self._on_cache_full = on_cache_full
        self._on_group = on_group
        self._on_disk_full = on_disk_full
        self._has_room = has_room
        self._held: dict[BookieConnection, None] = {}
        self._mode = mode
        mode.on_change(self._mode_changed)

    def _mode_changed(self, read_only: bool) -> None:
        if read_only:
            # Their adds are refused, instead of waiting for room that may never be freed.
            self._release()

    # V2, in runs

    def runs(
        self, connection: BookieConnection, buf: bytes, start: int, stop: int, runs: list[AddRun]
    ) -> None:
        """Add the accepted runs to cache and journal; refuse the others at once."""
        accepted: list[AddRun] = []
        begin = start  # start of the stretch of accepted runs being gathered
        entries = refused = 0
        for run in runs:
            code = self._accept(run)
            if code == Code.OK:
                accepted.append(run)
                entries += run.count
                continue
            refused += 1
            self._metrics.refused(code, run.count)
            connection.send(build_add_replies(buf, run, code))
            self._log(connection, buf, begin, run.start, entries, accepted)
            accepted, entries, begin = [], 0, run.stop
        self._log(connection, buf, begin, stop, entries, accepted)
        if self._journal.pending_bytes > self._pending_max or self._cache.full:
            self._hold_when_pressed(connection, held=refused < len(runs))

    def _accept(self, run: AddRun) -> Code:
        if self._mode.read_only and not (run.flags & PRIORITY_FLAGS and self._has_room()):  # (I31)
            return Code.READ_ONLY
        return self._ledgers.add(run, recovery=bool(run.flags & wire.RECOVERY_ADD))

    def _log(
        self,
        connection: BookieConnection,
        buf: bytes,
        start: int,
        stop: int,
        entries: int,
        runs: list[AddRun],
    ) -> None:
        if runs:
            body = buf if start == 0 and stop == len(buf) else memoryview(buf)[start:stop]
            done = partial(self._logged, connection, runs, stop - start)
            self._journal.append(RecordKind.ADDS, body, entries, done)

    def _logged(
        self,
        connection: BookieConnection,
        runs: list[AddRun],
        size: int,
        error: Exception | None,
    ) -> None:
        rc = Code.OK
        if error is not None:
            self._on_disk_full(error)
            rc = Code.READ_ONLY
        for run in runs:
            connection.send(build_add_replies(run.buf, run, rc))
            if rc:
                self._metrics.refused(rc, run.count)
            else:
                self._metrics.added += run.count
        if not rc:
            self._metrics.added_bytes += size
            if self._waiting:
                for run in runs:
                    self._notify_waiters(run.ledger_id, run.buf, run.offsets[-1])
        if self._held:
            self.relieve()
        self._on_group()

    def _notify_waiters(self, ledger_id: int, buf: bytes, offset: int) -> None:
        """Notify long polls of the LAC in the header of the entry at ``offset``."""
        if ledger_id in self._waiting:
            lac = buf[offset + LAC_OFFSET : offset + LAC_OFFSET + 8]
            self._waiters.advanced(ledger_id, int.from_bytes(lac, "big", signed=True))

    # Single adds

    def add_single(
        self,
        connection: BookieConnection,
        frame: bytes,
        *,
        recovery: bool,
        priority: bool,
        done: Done,
    ) -> None:
        """Add the entry in one complete V2 frame, whichever protocol carried it; stored and journalled as ``runs``
        does."""
        code = Code.READ_ONLY
        if not self._mode.read_only or (priority and self._has_room()):
            [run] = cut_frames(frame)
            code = self._ledgers.add(run, recovery=recovery)
        if code != Code.OK:
            self._metrics.refused(code, 1)
            done(code)
            return
        self._journal.append(
            RecordKind.ADDS, frame, 1, partial(self._single_logged, frame, run, done)
        )
        self._hold_when_pressed(connection)

    def _single_logged(
        self, frame: bytes, run: AddRun, done: Done, error: Exception | None
    ) -> None:
        if error is not None:
            self._metrics.refused(Code.READ_ONLY, 1)
        else:
            self._metrics.added += 1
            self._metrics.added_bytes += len(frame)
            if self._waiting:
                self._notify_waiters(run.ledger_id, frame, run.offsets[-1])
        self._recorded(done, error)

    def record(self, connection: BookieConnection, record: Record, done: Done) -> None:
        """Journal a record other than adds. The outcome is READ_ONLY when the disk is full."""
        self._journal.append(RecordKind(record.kind), record.body, 0, partial(self._recorded, done))
        self._hold_when_pressed(connection)

    def force(self, connection: BookieConnection, done: Done) -> None:
        """Call ``done`` after everything journalled so far is synced: an empty record behind all others."""
        self.record(connection, Record(RecordKind.ADDS, b"", 0), done)

    def _recorded(self, done: Done, error: Exception | None) -> None:
        if error is not None:
            self._on_disk_full(error)
        done(Code.OK if error is None else Code.READ_ONLY)
        if self._held:
            self.relieve()
        self._on_group()

    # Pressure

    def _hold_when_pressed(self, connection: BookieConnection, *, held: bool = True) -> None:
        """Hold the sender while there is overload and anything it sent was accepted; request a flush of a full
        cache."""
        if held and self._pressed():
            connection.hold_requests()
            self._held[connection] = None
        if self._cache.full:
            self._on_cache_full()

    def _pressed(self) -> bool:
        return self._journal.pending_bytes > self._pending_max or (
            self._cache.full and self._cache.flushing is not None
        )

    def relieve(self) -> None:
        """Resume reading held connections if there is room."""
        if not self._held or self._pressed():
            return
        if self._journal.pending_bytes > self._pending_max // 2:
            return
        self._release()

    def _release(self) -> None:
        held, self._held = self._held, {}
        for connection in held:
            connection.release_requests()

    def drop(self, connection: BookieConnection) -> None:
        """Forget a closed connection."""
        self._held.pop(connection, None)
