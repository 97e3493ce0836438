"""Reads for both protocols: from the cache at once, else through the read lane; never behind the journal.

An answer is the stored entry, or one of: NO_ENTRY and NO_LEDGER, promises that this bookie never acknowledged it (I21,
B4); LIMBO, it may have been lost here; IO, it is here but cannot be read intact (B3); or the reason why it was not
looked up.
"""

from collections.abc import Callable
from functools import partial

from bookie.metrics import BookieMetrics
from bookie.requests.connection import BookieConnection
from bookie.requests.lac_waiters import LacWaiters
from bookie.settings import BookieSettings
from bookie.storage.codes import Code
from bookie.storage.journal.journal import Journal
from bookie.storage.journal.journal_format import RecordKind, fence_record
from bookie.storage.ledgers import Ledgers
from bookie.storage.read_queue import QueuedRead, ReadQueue
from bookie.storage.runs import MASTER_KEY_BYTES, VIEWED_BYTES, Stored

LAST = -1
"""The last stored entry, in place of an entry id."""

Found = Callable[[Code, list[Stored]], None]
"""Callback, called once with the outcome and, after OK, the entries (one, or the batch)."""
Fenced = Callable[[Code], None]


class EntryReads:
    """Lookups and fences. A read from the disk is counted at its connection, which bounds them."""

    def __init__(
        self,
        settings: BookieSettings,
        ledgers: Ledgers,
        journal: Journal,
        reads: ReadQueue,
        metrics: BookieMetrics,
        waiters: LacWaiters,
    ) -> None:
        self._pending_max = settings.max_pending_read_requests
        self._ledgers = ledgers
        self._cache = ledgers.cache
        self._journal = journal
        self._reads = reads
        self._metrics = metrics
        self._waiters = waiters

    def fence(self, ledger_id: int, master_key: bytes, done: Fenced) -> None:
        """Fence a ledger. ``done`` is called with OK only after the fence is durable (I20, B5)."""
        code = Code.BAD_REQUEST
        if ledger_id >= 0:
            # No ledger can have a key of another length.
            valid = len(master_key) == MASTER_KEY_BYTES
            code = self._ledgers.fence(ledger_id, master_key) if valid else Code.UNAUTHORIZED
        ledger = self._ledgers.get(ledger_id)
        if code != Code.OK or ledger is None or ledger.fence_durable:
            done(code)
            return
        if self._waiters.by_ledger:
            self._waiters.fenced(ledger_id)
        record = fence_record(ledger_id, master_key)
        self._journal.append(
            RecordKind.FENCE, record.body, 0, partial(self._fenced, ledger_id, done)
        )

    def _fenced(self, ledger_id: int, done: Fenced, error: Exception | None) -> None:
        ledger = self._ledgers.get(ledger_id)
        if error is not None or ledger is None:
            done(Code.IO)
            return
        if not ledger.fence_durable:
            ledger.fence_durable = True
            self._metrics.fenced += 1
        done(Code.OK)

    def entry(
        self, connection: BookieConnection, ledger_id: int, requested: int, done: Found
    ) -> None:
        """Read one entry, or the last one."""
        code, first = self._locate(ledger_id, requested)
        if code != Code.OK:
            done(code, [])
            return
        hit = self._cache.find(ledger_id, first)
        if hit is not None:
            run, i = hit
            done(Code.OK, [run.buf[run.offsets[i] : run.end(i)]])
        else:
            self._from_disk(connection, ledger_id, first, 1, 0, done)

    def batch(
        self,
        connection: BookieConnection,
        ledger_id: int,
        requested: int,
        entries_max: int,
        bytes_max: int,
        done: Found,
    ) -> None:
        """Read consecutive entries: at most ``entries_max`` (0: any number) and ``bytes_max``, but at least one."""
        code, first = self._locate(ledger_id, requested)
        if code != Code.OK:
            done(code, [])
            return
        entries = self._cached(ledger_id, first, entries_max, bytes_max)
        if entries:
            done(Code.OK, entries)
        else:
            self._from_disk(connection, ledger_id, first, entries_max, bytes_max, done)

    def _locate(self, ledger_id: int, requested: int) -> tuple[Code, int]:
        """Return OK and the entry id to look up, or the code to answer."""
        if ledger_id < 0 or requested < LAST:
            return Code.BAD_REQUEST, -1
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or ledger.deleted_ms or requested > ledger.last or ledger.last < 0:
            return self._ledgers.absent(ledger_id), -1
        if requested == LAST:
            return (Code.LIMBO, -1) if ledger.limbo else (Code.OK, ledger.last)
        return Code.OK, requested

    def _cached(self, ledger_id: int, first: int, entries_max: int, budget: int) -> list[Stored]:
        """Return consecutive entries from the cache. An entry outside the cache ends the batch; clients continue with
        the next request."""
        entries: list[Stored] = []
        while not entries_max or len(entries) < entries_max:
            hit = self._cache.find(ledger_id, first + len(entries))
            if hit is None:
                break
            run, i = hit
            start, stop = run.offsets[i], run.end(i)
            large = stop - start >= VIEWED_BYTES
            entry = (memoryview(run.buf) if large else run.buf)[start:stop]
            budget -= len(entry) + 4
            if entries and budget < 0:
                break
            entries.append(entry)
        return entries

    def _from_disk(
        self,
        connection: BookieConnection,
        ledger_id: int,
        first: int,
        entries_max: int,
        bytes_max: int,
        done: Found,
    ) -> None:
        if self._reads.pending >= self._pending_max:
            done(Code.TOO_MANY_REQUESTS, [])
            return
        connection.read_begun()
        stored = partial(self._stored, connection, ledger_id, done)
        self._reads.put(QueuedRead(ledger_id, first, entries_max, bytes_max, stored))

    def _stored(
        self,
        connection: BookieConnection,
        ledger_id: int,
        done: Found,
        code: Code,
        entries: list[Stored],
    ) -> None:
        if code == Code.NO_ENTRY:
            code = self._ledgers.absent(ledger_id)
        done(code, entries)
        connection.read_done()
