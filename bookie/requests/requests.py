"""Handling of each frame: V2 here, V3 in ``v3``. The protocol is determined for every frame."""

import logging
from collections.abc import Callable
from functools import partial

from bookie.metrics import BookieMetrics
from bookie.mode import Mode
from bookie.requests.adds import PRIORITY_FLAGS, Adds
from bookie.requests.connection import BookieConnection
from bookie.requests.entry_reads import EntryReads
from bookie.requests.lac_waiters import LacWaiters
from bookie.requests.v3 import Blocks, V3Requests
from bookie.settings import BookieSettings
from bookie.storage.codes import Code
from bookie.storage.journal.journal import Journal
from bookie.storage.ledgers import Ledgers
from bookie.storage.read_queue import ReadQueue
from bookie.storage.runs import Stored
from engine.base.clock import Clock
from engine.base.errors import PeerError
from engine.wire import bookie_commands as wire

log = logging.getLogger(__name__)

VERSIONS = (1, 2)
BATCH_OVERHEAD = 24 + 8 + 4
"""Bytes of a batch read's budget that BookKeeper counts before the first entry."""


class Requests:
    """The handler of all connections of a bookie.

    ``space`` returns total and free bytes for ledgers; ``blocks`` reads ranges from the index in the read lane.
    """

    def __init__(
        self,
        settings: BookieSettings,
        ledgers: Ledgers,
        journal: Journal,
        reads: ReadQueue,
        mode: Mode,
        metrics: BookieMetrics,
        clock: Clock,
        *,
        on_cache_full: Callable[[], None],
        on_group: Callable[[], None],
        on_disk_full: Callable[[Exception], None],
        has_room: Callable[[], bool],
        space: Callable[[], tuple[int, int]],
        blocks: Blocks,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._waiters = LacWaiters(settings.max_pending_read_requests)
        self._adds = Adds(
            settings,
            ledgers,
            journal,
            mode,
            metrics,
            self._waiters,
            on_cache_full=on_cache_full,
            on_group=on_group,
            on_disk_full=on_disk_full,
            has_room=has_room,
        )
        self._reads = EntryReads(settings, ledgers, journal, reads, metrics, self._waiters)
        self._v3 = V3Requests(
            settings,
            ledgers,
            self._adds,
            self._reads,
            self._waiters,
            mode,
            metrics,
            clock,
            space=space,
            blocks=blocks,
        )
        self.adds = self._adds.runs

    @property
    def long_polls(self) -> int:
        """The number of reads that wait for a ledger's LAC."""
        return self._waiters.waiting

    def relieve(self) -> None:
        """Resume reading held connections if there is room."""
        self._adds.relieve()

    def closed(self, connection: BookieConnection, error: Exception | None) -> None:
        self._adds.drop(connection)
        self._waiters.drop(connection)
        if isinstance(error, PeerError):
            self._metrics.malformed += 1
            log.warning("connection closed peer=%s reason=%s", connection.peer_name, error)

    def request(self, connection: BookieConnection, buf: bytes, start: int, stop: int) -> None:
        """Handle one complete frame that is no plain add.

        Raises BookieFrameError to close the connection, as BookKeeper does.
        """
        if stop - start > 4 and wire.is_v3(buf, start):
            self._v3.request(connection, buf, start, stop)
            return
        match wire.parse_request(buf, start, stop):
            case wire.AddRequest() as add:
                self._slow_add(connection, add, buf[start:stop])
            case wire.ReadRequest() as read:
                self._read(connection, read)
            case wire.BatchReadRequest() as batch:
                self._batch(connection, batch)
            case wire.AuthRequest() as auth:
                connection.send(wire.auth_message(wire.AUTH_DISABLED, b"", auth.version))

    def _slow_add(self, connection: BookieConnection, add: wire.AddRequest, frame: bytes) -> None:
        """Add an entry of version 1, or one that the kernel leaves to this path."""
        code = Code.BAD_REQUEST
        if add.version not in VERSIONS:
            code = Code.BAD_VERSION
        elif add.ledger_id >= 0 and add.entry_id >= 0 and not add.flags & ~PRIORITY_FLAGS:
            self._adds.add_single(
                connection,
                frame,
                recovery=bool(add.flags & wire.RECOVERY_ADD),
                priority=bool(add.flags & PRIORITY_FLAGS),
                done=partial(self._slow_added, connection, add),
            )
            return
        self._metrics.refused(code, 1)
        self._slow_added(connection, add, code)

    def _slow_added(self, connection: BookieConnection, add: wire.AddRequest, code: Code) -> None:
        connection.send(wire.add_reply(code, add.ledger_id, add.entry_id, add.version))

    # Reads

    def _read(self, connection: BookieConnection, read: wire.ReadRequest) -> None:
        if read.version not in VERSIONS:
            self._answer_read(connection, read, Code.BAD_VERSION, [])
        elif read.master_key is not None and read.version >= 2:
            fenced = partial(self._read_fenced, connection, read)
            self._reads.fence(read.ledger_id, read.master_key, fenced)
        else:
            self._read_fenced(connection, read, Code.OK)

    def _read_fenced(
        self, connection: BookieConnection, read: wire.ReadRequest, code: Code
    ) -> None:
        answer = partial(self._answer_read, connection, read)
        if code != Code.OK:
            answer(code, [])
        else:
            self._reads.entry(connection, read.ledger_id, read.entry_id, answer)

    def _answer_read(
        self,
        connection: BookieConnection,
        read: wire.ReadRequest,
        code: Code,
        entries: list[Stored],
    ) -> None:
        entry = bytes(entries[0]) if code == Code.OK else b""
        self._metrics.read(code, len(entry))
        rc = _v2_code(code)
        connection.send(wire.read_reply(rc, read.ledger_id, read.entry_id, entry, read.version))

    # Batch reads

    def _batch(self, connection: BookieConnection, batch: wire.BatchReadRequest) -> None:
        if batch.version not in VERSIONS:
            self._answer_batch(connection, batch, Code.BAD_VERSION, [])
        elif batch.master_key is not None:
            fenced = partial(self._batch_fenced, connection, batch)
            self._reads.fence(batch.ledger_id, batch.master_key, fenced)
        else:
            self._batch_fenced(connection, batch, Code.OK)

    def _batch_fenced(
        self, connection: BookieConnection, batch: wire.BatchReadRequest, code: Code
    ) -> None:
        answer = partial(self._answer_batch, connection, batch)
        if code != Code.OK:
            answer(code, [])
            return
        # A limit of 0 bytes returns one entry.
        size = min(batch.bytes_max, self._settings.max_batch_read_bytes)
        self._reads.batch(
            connection,
            batch.ledger_id,
            batch.first_entry,
            max(batch.count_max, 0),
            size - BATCH_OVERHEAD,
            answer,
        )

    def _answer_batch(
        self,
        connection: BookieConnection,
        batch: wire.BatchReadRequest,
        code: Code,
        entries: list[Stored],
    ) -> None:
        self._metrics.read(code, sum(map(len, entries)), max(len(entries), 1))
        connection.send_parts(
            wire.batch_read_reply(
                _v2_code(code),
                batch.ledger_id,
                batch.first_entry,
                batch.request_id,
                entries,
                batch.version,
            )
        )


def _v2_code(code: Code) -> Code:
    """Return IO for LIMBO: V2 has a number for limbo, but Java clients close the connection on it."""
    return Code.IO if code == Code.LIMBO else code
