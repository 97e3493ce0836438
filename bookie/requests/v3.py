"""The V3 protocol: protobuf requests of Apache BookKeeper's own client and tools.

Adds take V2's path: the same frame bytes enter the same journal, cache and group commit, so that stored entries do not
depend on the protocol. Beyond V2 there are the explicit LAC, long polls for the LAC, disk sizes, lists of stored
entries, and FORCE_LEDGER.

Differences from BookKeeper's bookie: adds with the deferred-sync flag are answered after the sync like all others (the
flag allows an earlier answer and does not require one), so FORCE_LEDGER has little to wait for. An add whose message
and entry disagree about ids is EBADREQ. Lists of entries are answered (its DbLedgerStorage does not answer).
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct

from bookie.metrics import BookieMetrics
from bookie.mode import Mode
from bookie.requests.adds import LAC_OFFSET, Adds
from bookie.requests.connection import BookieConnection
from bookie.requests.entry_reads import LAST, EntryReads
from bookie.requests.lac_waiters import LacWaiters
from bookie.settings import BookieSettings
from bookie.storage.codes import Code
from bookie.storage.journal.journal_format import LAC_BODY_MAX, LAC_BODY_MIN, lac_record
from bookie.storage.ledgers import Ledgers
from bookie.storage.runs import MASTER_KEY_BYTES, Stored
from engine.base.clock import Clock
from engine.wire import availability
from engine.wire import bookie_commands as v2
from engine.wire import bookie_v3 as wire
from engine.wire import bookkeeper_pb2 as pb

ENTRY_HEADER_BYTES = 32
LONG_POLL_S_MAX = 24 * 3600.0
KNOWN_LACS_MAX = 4096
"""Ledgers whose LAC is remembered beside the cache, so that plain reads need no second lookup."""
_IDS = Struct(">qq")

Blocks = Callable[[int], "asyncio.Future[list[tuple[int, int]]]"]
"""Ranges (first, last) of a ledger's entries in the index, read in the read lane."""
Confirmed = Callable[[Code, int], None]


class V3Requests:
    """Handlers of V3 requests, by operation."""

    def __init__(
        self,
        settings: BookieSettings,
        ledgers: Ledgers,
        adds: Adds,
        reads: EntryReads,
        waiters: LacWaiters,
        mode: Mode,
        metrics: BookieMetrics,
        clock: Clock,
        *,
        space: Callable[[], tuple[int, int]],
        blocks: Blocks,
    ) -> None:
        self._frame_max = settings.netty_max_frame_size_bytes
        self._ledgers = ledgers
        self._adds = adds
        self._reads = reads
        self._waiters = waiters
        self._mode = mode
        self._metrics = metrics
        self._clock = clock
        self._space = space
        self._blocks = blocks
        self._known: dict[
            int, tuple[int, int]
        ] = {}  # ledger → last entry, what its header confirms
        self._handlers: dict[
            int, tuple[str, Callable[[BookieConnection, pb.Request], None], Callable[..., bytes]]
        ] = {
            pb.READ_ENTRY: ("readRequest", self._read, wire.read_reply),
            pb.ADD_ENTRY: ("addRequest", self._add, wire.add_reply),
            pb.WRITE_LAC: ("writeLacRequest", self._write_lac, wire.write_lac_reply),
            pb.READ_LAC: ("readLacRequest", self._read_lac, wire.read_lac_reply),
            pb.GET_BOOKIE_INFO: ("getBookieInfoRequest", self._info, wire.info_reply),
            pb.FORCE_LEDGER: ("forceLedgerRequest", self._force, wire.force_reply),
            pb.GET_LIST_OF_ENTRIES_OF_LEDGER: (
                "getListOfEntriesOfLedgerRequest",
                self._entries,
                wire.entries_reply,
            ),
        }

    def request(self, connection: BookieConnection, buf: bytes, start: int, stop: int) -> None:
        """Handle one complete V3 frame. Raises BookieFrameError to close the connection."""
        request = wire.parse_request(buf, start, stop)
        operation = request.header.operation
        self._metrics.v3_requests[operation] = self._metrics.v3_requests.get(operation, 0) + 1
        if operation == pb.AUTH and request.HasField("authRequest"):
            connection.send(wire.auth_disabled_reply(request))
            return
        if operation == pb.START_TLS and connection.offers_tls:
            connection.begin_tls(wire.start_tls_reply(request))
            return
        field, handle, reply = self._handlers.get(operation, ("", None, None))
        if handle is None or reply is None or not request.HasField(field):
            # Also START_TLS where there is no TLS, or in TLS.
            connection.send(wire.refusal(request, Code.BAD_REQUEST))
        elif request.header.version != wire.VERSION:
            connection.send(reply(request, Code.BAD_VERSION))
        else:
            handle(connection, request)

    # Adds

    def _add(self, connection: BookieConnection, request: pb.Request) -> None:
        add = request.addRequest
        body, key = add.body, add.masterKey
        if (
            add.ledgerId < 0
            or add.entryId < 0
            or len(body) < ENTRY_HEADER_BYTES
            or _IDS.unpack_from(body) != (add.ledgerId, add.entryId)
        ):
            self._added(connection, request, Code.BAD_REQUEST)
            return
        if len(key) != MASTER_KEY_BYTES:  # no ledger can have such a key
            self._added(connection, request, Code.UNAUTHORIZED)
            return
        recovery = add.HasField("flag") and add.flag == pb.AddRequest.RECOVERY_ADD
        self._adds.add_single(
            connection,
            v2.add_request(
                add.ledgerId, add.entryId, key, body, v2.RECOVERY_ADD if recovery else 0
            ),
            recovery=recovery,
            priority=recovery or request.header.priority > 0,
            done=partial(self._added, connection, request),
        )

    def _added(self, connection: BookieConnection, request: pb.Request, code: Code) -> None:
        connection.send(wire.add_reply(request, code))

    def _force(self, connection: BookieConnection, request: pb.Request) -> None:
        ledger_id = request.forceLedgerRequest.ledgerId
        code = self._missing(ledger_id)
        if code != Code.OK:
            connection.send(wire.force_reply(request, code))
            return
        self._adds.force(connection, partial(self._forced, connection, request))

    def _forced(self, connection: BookieConnection, request: pb.Request, code: Code) -> None:
        # Everything acknowledged is synced already. On a full disk nothing is lost, but the record proves nothing.
        connection.send(wire.force_reply(request, Code.IO if code != Code.OK else code))

    def _missing(self, ledger_id: int) -> Code:
        """Return OK for a ledger that is stored here, else the code to answer."""
        ledger = self._ledgers.get(ledger_id)
        if ledger_id < 0:
            return Code.BAD_REQUEST
        return self._ledgers.absent(ledger_id) if ledger is None or ledger.deleted_ms else Code.OK

    # Reads

    def _read(self, connection: BookieConnection, request: pb.Request) -> None:
        read = request.readRequest
        fences = read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER
        if fences:
            fenced = partial(self._read_fenced, connection, request)
            self._reads.fence(read.ledgerId, read.masterKey, fenced)
        elif read.HasField("previousLAC"):
            self._long_poll(connection, request)
        else:
            self._read_plain(connection, request, None)

    def _read_fenced(self, connection: BookieConnection, request: pb.Request, code: Code) -> None:
        if code != Code.OK:
            self._answer(connection, request, code)
            return
        read = request.readRequest
        answer = partial(self._answer, connection, request)
        self._reads.entry(connection, read.ledgerId, read.entryId, answer)

    def _read_plain(
        self, connection: BookieConnection, request: pb.Request, updated_ms: int | None
    ) -> None:
        """Answer with the requested entry and the known LAC."""
        read = request.readRequest
        done = partial(self._plain_read, connection, request, updated_ms)
        self._reads.entry(connection, read.ledgerId, read.entryId, done)

    def _plain_read(
        self,
        connection: BookieConnection,
        request: pb.Request,
        updated_ms: int | None,
        code: Code,
        entries: list[Stored],
    ) -> None:
        if code != Code.OK:
            self._answer(connection, request, code)
            return

        def confirmed(code: Code, lac: int) -> None:
            # The entry is answered even when its ledger's LAC cannot be read.
            self._answer(
                connection,
                request,
                Code.OK,
                entries,
                max_lac=lac if code == Code.OK else None,
                lac_updated_ms=updated_ms,
            )

        self._confirmed(connection, request.readRequest.ledgerId, confirmed)

    def _answer(
        self,
        connection: BookieConnection,
        request: pb.Request,
        code: Code,
        entries: Sequence[Stored] = (),
        *,
        entry_id: int | None = None,
        max_lac: int | None = None,
        lac_updated_ms: int | None = None,
    ) -> None:
        entry = bytes(entries[0]) if entries else None
        self._metrics.read(code, len(entry or b""))
        connection.send(
            wire.read_reply(
                request,
                code,
                entry,
                entry_id=entry_id,
                max_lac=max_lac,
                lac_updated_ms=lac_updated_ms,
            )
        )

    # Last add confirmed

    def _confirmed(self, connection: BookieConnection, ledger_id: int, then: Confirmed) -> None:
        """Pass the LAC known here to ``then``: from the last entry's header, or written explicitly."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or ledger.deleted_ms or ledger.limbo:
            then(self._missing(ledger_id) if ledger is None or not ledger.limbo else Code.LIMBO, -1)
            return
        last, known = ledger.last, self._known.get(ledger_id)
        if last < 0:
            then(Code.OK, ledger.written_lac)
        elif known is not None and known[0] == last:
            then(Code.OK, max(known[1], ledger.written_lac))
        else:
            done = partial(self._last_read, connection, ledger_id, last, then)
            self._reads.entry(connection, ledger_id, last, done)

    def _last_read(
        self,
        connection: BookieConnection,
        ledger_id: int,
        last: int,
        then: Confirmed,
        code: Code,
        entries: list[Stored],
    ) -> None:
        if code != Code.OK:
            then(code, -1)
            return
        lac = int.from_bytes(entries[0][LAC_OFFSET : LAC_OFFSET + 8], "big", signed=True)
        known = self._known.pop(ledger_id, None)
        if known is None and len(self._known) >= KNOWN_LACS_MAX:
            del self._known[next(iter(self._known))]
        # An entry added again in recovery may carry an older LAC than it or its predecessor did.
        self._known[ledger_id] = (last, lac if known is None else max(lac, known[1]))
        self._confirmed(connection, ledger_id, then)  # reads again if entries were added meanwhile

    # Long polls

    def _long_poll(self, connection: BookieConnection, request: pb.Request) -> None:
        read = request.readRequest
        if _piggybacks(read) and read.entryId != LAST:
            self._answer(connection, request, Code.BAD_REQUEST)
            return
        self._confirmed(connection, read.ledgerId, partial(self._poll_or_wait, connection, request))

    def _poll_or_wait(
        self, connection: BookieConnection, request: pb.Request, code: Code, lac: int
    ) -> None:
        read = request.readRequest
        ledger = self._ledgers.get(read.ledgerId)
        if code != Code.OK or ledger is None:
            self._answer(connection, request, code)
        elif lac > read.previousLAC or read.timeOut <= 0 or ledger.fenced:
            self._poll(connection, request, None)
        elif not self._waiters.wait(
            connection,
            read.ledgerId,
            read.previousLAC,
            min(read.timeOut / 1000, LONG_POLL_S_MAX),
            partial(self._woken, connection, request),
        ):
            self._answer(connection, request, Code.TOO_MANY_REQUESTS)

    def _woken(self, connection: BookieConnection, request: pb.Request, advanced: bool) -> None:
        self._poll(connection, request, self._clock.wall_ms() if advanced else None)

    def _poll(
        self, connection: BookieConnection, request: pb.Request, updated_ms: int | None
    ) -> None:
        """Answer a long poll whose wait has ended."""
        read = request.readRequest
        if not _piggybacks(read):
            self._read_plain(connection, request, updated_ms)
            return
        self._confirmed(
            connection, read.ledgerId, partial(self._piggyback, connection, request, updated_ms)
        )

    def _piggyback(
        self,
        connection: BookieConnection,
        request: pb.Request,
        updated_ms: int | None,
        code: Code,
        lac: int,
    ) -> None:
        """Answer with the LAC and the entry after the one that the reader knew, if it is stored here."""
        read = request.readRequest
        if code != Code.OK or lac <= read.previousLAC:
            self._answer(connection, request, code, max_lac=lac if code == Code.OK else None)
            return
        next_entry = read.previousLAC + 1
        done = partial(self._piggybacked, connection, request, lac, updated_ms)
        self._reads.entry(connection, read.ledgerId, max(next_entry, 0), done)

    def _piggybacked(
        self,
        connection: BookieConnection,
        request: pb.Request,
        lac: int,
        updated_ms: int | None,
        code: Code,
        entries: list[Stored],
    ) -> None:
        answer = partial(self._answer, connection, request, max_lac=lac, lac_updated_ms=updated_ms)
        if code == Code.OK:
            answer(code, entries, entry_id=max(request.readRequest.previousLAC + 1, 0))
        elif code == Code.NO_ENTRY:  # striping put it on another bookie; the LAC alone is an answer
            answer(Code.OK)
        else:
            self._answer(connection, request, code)

    # Explicit LAC

    def _write_lac(self, connection: BookieConnection, request: pb.Request) -> None:
        write = request.writeLacRequest
        body, key = write.body, write.masterKey
        code = Code.OK
        if (
            write.ledgerId < 0
            or not LAC_BODY_MIN <= len(body) <= LAC_BODY_MAX
            or _IDS.unpack_from(body) != (write.ledgerId, write.lac)
        ):
            code = Code.BAD_REQUEST
        elif self._mode.read_only:
            code = Code.READ_ONLY
        elif len(key) != MASTER_KEY_BYTES:
            code = Code.UNAUTHORIZED
        else:
            code = self._ledgers.write_lac(write.ledgerId, key, body)
        if code != Code.OK:
            self._lac_written(connection, request, code)
            return
        record = lac_record(write.ledgerId, key, body)
        self._adds.record(connection, record, partial(self._lac_written, connection, request))

    def _lac_written(self, connection: BookieConnection, request: pb.Request, code: Code) -> None:
        write = request.writeLacRequest
        if code == Code.OK and self._waiters.by_ledger:
            self._waiters.advanced(write.ledgerId, write.lac)
        connection.send(wire.write_lac_reply(request, code))

    def _read_lac(self, connection: BookieConnection, request: pb.Request) -> None:
        done = partial(self._lac_read, connection, request)
        self._reads.entry(connection, request.readLacRequest.ledgerId, LAST, done)

    def _lac_read(
        self,
        connection: BookieConnection,
        request: pb.Request,
        code: Code,
        entries: list[Stored],
    ) -> None:
        ledger = self._ledgers.get(request.readLacRequest.ledgerId)
        written = ledger.explicit_lac if ledger is not None else b""
        if code == Code.NO_LEDGER:
            # BookKeeper 4.17 answers so, although its sources suggest NO_LEDGER.
            code = Code.NO_ENTRY
        elif code == Code.NO_ENTRY and written:
            code = Code.OK
        self._metrics.read(code, 0)
        entry = bytes(entries[0]) if entries else None
        has_lac = code == Code.OK
        connection.send(
            wire.read_lac_reply(
                request, code, written if has_lac else b"", entry if has_lac else None
            )
        )

    # About the bookie

    def _info(self, connection: BookieConnection, request: pb.Request) -> None:
        connection.send(wire.info_reply(request, Code.OK, *self._space()))

    def _entries(self, connection: BookieConnection, request: pb.Request) -> None:
        """List what the cache holds now, then what the index holds. Entries move only from cache to index, so none is
        missed."""
        ledger_id = request.getListOfEntriesOfLedgerRequest.ledgerId
        code = self._missing(ledger_id)
        ledger = self._ledgers.get(ledger_id)
        if code == Code.OK and ledger is not None and ledger.limbo:
            code = Code.LIMBO
        if code != Code.OK:
            connection.send(wire.entries_reply(request, code))
            return
        cached = self._ledgers.cache.ranges(ledger_id)
        connection.read_begun()
        ranges = self._blocks(ledger_id)
        ranges.add_done_callback(partial(self._listed, connection, request, cached))

    def _listed(
        self,
        connection: BookieConnection,
        request: pb.Request,
        cached: list[tuple[int, int]],
        ranges: "asyncio.Future[list[tuple[int, int]]]",
    ) -> None:
        if ranges.cancelled() or ranges.exception() is not None:
            connection.send(wire.entries_reply(request, Code.IO))
        else:
            held = availability.encode(availability.merged(cached + ranges.result()))
            answer = wire.entries_reply(request, Code.OK, held)
            if len(answer) > self._frame_max:  # more gaps than fit into a frame
                answer = wire.entries_reply(request, Code.BAD_REQUEST)
            connection.send(answer)
        connection.read_done()


def _piggybacks(read: pb.ReadRequest) -> bool:
    return read.HasField("flag") and read.flag == pb.ReadRequest.ENTRY_PIGGYBACK
