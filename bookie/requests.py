"""What the bookie does with each request. Adds: decide, cache, journal, and answer after the group's sync, one journal
record for each received slice. Reads: from the cache at once, else through the read lane; never behind the journal."""

import logging
from collections.abc import Callable
from typing import Any

from bookie.connection import BookieConnection
from bookie.metrics import BookieMetrics
from bookie.settings import BookieSettings
from bookie.storage.codes import Code
from bookie.storage.journal import Journal
from bookie.storage.journal_format import Kind, fence_record
from bookie.storage.ledgers import Ledgers
from bookie.storage.reads import ReadQueue, Request
from bookie.storage.runs import MASTER_KEY_BYTES, Run, cut_frames
from engine.base.errors import PeerError
from engine.wire import bookie_commands as wire
from engine.wire.bookie_kernels import AddRun
from engine.wire.kernels import build_add_replies

log = logging.getLogger(__name__)

VERSIONS = (1, 2)
ADD_FLAGS = wire.RECOVERY_ADD | wire.HIGH_PRIORITY
BATCH_OVERHEAD = 24 + 8 + 4
"""Bytes of a batch read's budget that BookKeeper counts before the first entry."""


class Requests:
    """Handler of all connections of a bookie."""

    def __init__(
        self,
        settings: BookieSettings,
        ledgers: Ledgers,
        journal: Journal,
        reads: ReadQueue,
        metrics: BookieMetrics,
        *,
        on_cache_full: Callable[[], None],
        on_group: Callable[[], None],
        on_disk_full: Callable[[Exception], None],
        has_room: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._ledgers = ledgers
        self._cache = ledgers.cache
        self._journal = journal
        self._reads = reads
        self._metrics = metrics
        self._on_cache_full = on_cache_full
        self._on_group = on_group
        self._on_disk_full = on_disk_full
        self._has_room = has_room
        self._held: dict[BookieConnection, None] = {}
        self.read_only = False

    # Adds

    def adds(
        self, connection: BookieConnection, buf: bytes, start: int, stop: int, runs: list[AddRun]
    ) -> None:
        """Take the accepted runs into cache and journal, refuse the others at once."""
        accepted: list[AddRun] = []
        begin = start  # where the accepted stretch now being gathered begins
        entries = 0
        for run in runs:
            code = self._accept(run)
            if code == Code.OK:
                accepted.append(run)
                entries += run.count
                continue
            self._metrics.refused(code, run.count)
            connection.send(build_add_replies(buf, run, code))
            self._log_adds(connection, buf, begin, run.start, entries, accepted)
            accepted, entries, begin = [], 0, run.stop
        self._log_adds(connection, buf, begin, stop, entries, accepted)
        if self._pressed():
            connection.hold()
            self._held[connection] = None
        if self._cache.full:
            self._on_cache_full()

    def _accept(self, run: AddRun) -> Code:
        if self.read_only and not (run.flags & ADD_FLAGS and self._has_room()):
            return Code.READ_ONLY
        return self._ledgers.add(
            Run(run.buf, run.ledger_id, run.first_entry, run.offsets, run.stop, run.master_key),
            recovery=bool(run.flags & wire.RECOVERY_ADD),
        )

    def _log_adds(
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
            self._journal.append(
                Kind.ADDS, body, entries, self._added, (connection, runs, stop - start)
            )

    def _added(self, argument: Any, error: Exception | None) -> None:
        connection, runs, size = argument
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
        if self._held:
            self.relieve()
        self._on_group()

    def _pressed(self) -> bool:
        return self._journal.pending_bytes > self._settings.max_pending_add_bytes or (
            self._cache.full and self._cache.flushing is not None
        )

    def relieve(self) -> None:
        """Read again from connections that were held, if there is room now."""
        if not self._held or self._pressed():
            return
        if self._journal.pending_bytes > self._settings.max_pending_add_bytes // 2:
            return
        held, self._held = self._held, {}
        for connection in held:
            connection.release()

    def closed(self, connection: BookieConnection, error: Exception | None) -> None:
        self._held.pop(connection, None)
        if isinstance(error, PeerError):
            self._metrics.malformed += 1
            log.warning("connection closed peer=%s reason=%s", connection.peer_name, error)

    # Everything else

    def request(self, connection: BookieConnection, buf: bytes, start: int, stop: int) -> None:
        """One whole frame that is no plain add. Raises BookieFrameError to close the connection, as BookKeeper does."""
        if stop - start > 4 and wire.is_v3(buf, start):
            raise wire.BookieFrameError("the V3 protocol is not served")
        match wire.parse_request(buf, start, stop):
            case wire.AddRequest() as add:
                self._odd_add(connection, add, buf[start:stop])
            case wire.ReadRequest() as read:
                self._read_request(connection, read)
            case wire.BatchReadRequest() as batch:
                self._batch_request(connection, batch)
            case wire.AuthRequest() as auth:
                connection.send(wire.auth_message(wire.AUTH_DISABLED, b"", auth.version))

    def _odd_add(self, connection: BookieConnection, add: wire.AddRequest, frame: bytes) -> None:
        """An add of version 1, or one that the kernel does not take."""
        code = Code.BAD_REQUEST
        if add.version not in VERSIONS:
            code = Code.BAD_VERSION
        elif self.read_only:
            code = Code.READ_ONLY
        elif add.ledger_id >= 0 and add.entry_id >= 0 and not add.flags & ~ADD_FLAGS:
            [run] = cut_frames(frame)
            code = self._ledgers.add(run, recovery=bool(add.flags & wire.RECOVERY_ADD))
            if code == Code.OK:
                self._journal.append(Kind.ADDS, frame, 1, self._odd_added, (connection, add))
                return
        self._metrics.refused(code, 1)
        connection.send(wire.add_reply(code, add.ledger_id, add.entry_id, add.version))

    def _odd_added(self, argument: Any, error: Exception | None) -> None:
        connection, add = argument
        code = Code.OK
        if error is not None:
            self._on_disk_full(error)
            code = Code.READ_ONLY
        else:
            self._metrics.added += 1
        connection.send(wire.add_reply(code, add.ledger_id, add.entry_id, add.version))
        self._on_group()

    # Reads

    def _read_request(self, connection: BookieConnection, read: wire.ReadRequest) -> None:
        argument = (connection, read.version, read.entry_id)
        if read.version not in VERSIONS:
            self._answer_read(argument, read.ledger_id, Code.BAD_VERSION)
        elif read.master_key is not None and read.version >= 2:
            self._fence(read.ledger_id, read.master_key, self._read_entry, argument)
        else:
            self._read_entry(argument, read.ledger_id, Code.OK)

    def _fence(
        self,
        ledger_id: int,
        key: bytes,
        then: Callable[[Any, int, Code], None],
        argument: Any,
    ) -> None:
        """Fence, then read: whatever the answer, it goes out only when the fence is durable."""
        assert len(key) == MASTER_KEY_BYTES
        code = self._ledgers.fence(ledger_id, key) if ledger_id >= 0 else Code.BAD_REQUEST
        ledger = self._ledgers.get(ledger_id)
        if code != Code.OK or ledger is None or ledger.fence_durable:
            then(argument, ledger_id, code)
            return
        record = fence_record(ledger_id, key)
        self._journal.append(Kind.FENCE, record.body, 0, self._fenced, (ledger_id, then, argument))

    def _fenced(self, argument: Any, error: Exception | None) -> None:
        ledger_id, then, rest = argument
        ledger = self._ledgers.get(ledger_id)
        if error is not None or ledger is None:
            then(rest, ledger_id, Code.IO)
            return
        ledger.fence_durable = True
        self._metrics.fenced += 1
        then(rest, ledger_id, Code.OK)

    def _read_entry(self, argument: Any, ledger_id: int, code: Code) -> None:
        """Look an entry up; ``code`` other than OK is the answer already."""
        asked = argument[2]
        if code == Code.OK:
            code, first = self._locate(ledger_id, asked)
        if code != Code.OK:
            self._answer_read(argument, ledger_id, code)
            return
        found = self._cache.find(ledger_id, first)
        if found is not None:
            run, i = found
            self._answer_read(argument, ledger_id, Code.OK, run.buf[run.offsets[i] : run.end(i)])
        elif self._reads.pending >= self._settings.max_pending_read_requests:
            self._answer_read(argument, ledger_id, Code.TOO_MANY_REQUESTS)
        else:
            self._reads.put(
                Request(ledger_id, first, 1, 0, self._read_stored, (argument, ledger_id))
            )

    def _locate(self, ledger_id: int, asked: int) -> tuple[Code, int]:
        """OK and the entry to look for, or the answer. -1 asks for the last entry."""
        if ledger_id < 0 or asked < -1:
            return Code.BAD_REQUEST, -1
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or ledger.deleted_ms or asked > ledger.last or ledger.last < 0:
            return self._ledgers.absent(ledger_id), -1
        if asked == -1:
            return (Code.IO, -1) if ledger.limbo else (Code.OK, ledger.last)
        return Code.OK, asked

    def _read_stored(self, argument: Any, code: Code, entries: list[bytes]) -> None:
        rest, ledger_id = argument
        if code == Code.NO_ENTRY:
            code = self._ledgers.absent(ledger_id)
        self._answer_read(rest, ledger_id, code, entries[0] if code == Code.OK else b"")

    def _answer_read(self, argument: Any, ledger_id: int, code: Code, entry: bytes = b"") -> None:
        connection, version, asked = argument
        self._metrics.read(code, len(entry))
        connection.send(wire.read_reply(code, ledger_id, asked, entry, version))

    # Batch reads

    def _batch_request(self, connection: BookieConnection, batch: wire.BatchReadRequest) -> None:
        limit = self._settings.max_batch_read_bytes
        size = min(batch.bytes_max, limit) if batch.bytes_max > 0 else limit
        argument = (connection, batch, max(batch.count_max, 0), size - BATCH_OVERHEAD)
        if batch.version not in VERSIONS:
            self._answer_batch(argument, batch.ledger_id, Code.BAD_VERSION, [])
        elif batch.master_key is not None:
            self._fence(batch.ledger_id, batch.master_key, self._read_batch, argument)
        else:
            self._read_batch(argument, batch.ledger_id, Code.OK)

    def _read_batch(self, argument: Any, ledger_id: int, code: Code) -> None:
        _, batch, entries_max, budget = argument
        if code == Code.OK:
            code, first = self._locate(ledger_id, batch.first_entry)
        if code != Code.OK:
            self._answer_batch(argument, ledger_id, code, [])
            return
        entries = self._cached(ledger_id, first, entries_max, budget)
        if entries:
            self._answer_batch(argument, ledger_id, Code.OK, entries)
        elif self._reads.pending >= self._settings.max_pending_read_requests:
            self._answer_batch(argument, ledger_id, Code.TOO_MANY_REQUESTS, [])
        else:
            request = Request(
                ledger_id, first, entries_max, budget, self._batch_stored, (argument, ledger_id)
            )
            self._reads.put(request)

    def _cached(self, ledger_id: int, first: int, entries_max: int, budget: int) -> list[bytes]:
        """Consecutive entries from the cache; what is not there ends the batch, clients ask again from it on."""
        entries: list[bytes] = []
        while not entries_max or len(entries) < entries_max:
            found = self._cache.find(ledger_id, first + len(entries))
            if found is None:
                break
            run, i = found
            entry = run.buf[run.offsets[i] : run.end(i)]
            budget -= len(entry) + 4
            if entries and budget < 0:
                break
            entries.append(entry)
        return entries

    def _batch_stored(self, argument: Any, code: Code, entries: list[bytes]) -> None:
        rest, ledger_id = argument
        if code == Code.NO_ENTRY:
            code = self._ledgers.absent(ledger_id)
        self._answer_batch(rest, ledger_id, code, entries)

    def _answer_batch(
        self, argument: Any, ledger_id: int, code: Code, entries: list[bytes]
    ) -> None:
        connection, batch, _, _ = argument
        self._metrics.read(code, sum(map(len, entries)), max(len(entries), 1))
        connection.send(
            wire.batch_read_reply(
                code, ledger_id, batch.first_entry, batch.request_id, entries, batch.version
            )
        )
