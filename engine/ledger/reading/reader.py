"""Reads of confirmed entries: a run at once from one replica, checked, the next replica when that fails."""

import logging
from typing import Protocol

from engine.base.errors import MisuseError
from engine.base.slices import Slice
from engine.ledger import metadata_update
from engine.ledger.access import LedgerAccess
from engine.ledger.digest import Digest, DigestType
from engine.ledger.errors import LedgerError, NoSuchEntryError, ReadError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.reading.last_confirmed import read_tail
from engine.ledger.reading.replica_reads import ReplicaReads
from engine.ledger.reading.scan import Scan
from engine.metadata.store import SessionExpiredError, StoreUnavailableError

log = logging.getLogger(__name__)

ENTRY_GUESS = 1024
"""Bytes of an entry while none was seen."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""Asked for in one request at most; a bookie gives 5 MiB."""


class OpenLedger(Protocol):
    """A ledger that is being written here: its writer knows what is confirmed."""

    @property
    def metadata(self) -> LedgerMetadata: ...

    @property
    def last_confirmed(self) -> int: ...

    @property
    def length(self) -> int: ...


class LedgerReader:
    """Entries 0 to ``last_confirmed`` of one ledger. Made by ``LedgerClient.open`` or ``LedgerWriter.reader``."""

    def __init__(
        self,
        access: LedgerAccess,
        metadata: LedgerMetadata,
        *,
        writer: OpenLedger | None = None,
        unconfirmed: bool = False,
    ) -> None:
        self.ledger_id = access.ledger_id
        self._access = access
        self._metadata = metadata
        self._writer = writer
        self._unconfirmed = unconfirmed
        self._moved: dict[
            int, tuple[str, ...]
        ] = {}  # members of a segment, by its first entry, since re-replicated
        self._digest = Digest(metadata.digest or DigestType.CRC32, access.password)
        self._known = metadata.last_entry
        self._open_length = 0
        self._sticky = 0
        self._entry_bytes = 0.0

    @property
    def metadata(self) -> LedgerMetadata:
        return self._metadata if self._writer is None else self._writer.metadata

    @property
    def last_confirmed(self) -> int:
        """Highest entry id known to be confirmed; never falls."""
        return self._known if self._writer is None else self._writer.last_confirmed

    @property
    def closed(self) -> bool:
        return self.metadata.state is LedgerState.CLOSED

    @property
    def length(self) -> int:
        """Payload bytes of all entries; of an open ledger up to ``last_confirmed``, or 0 where that is not known."""
        if self._writer is not None:
            return self._writer.length
        return self.metadata.length if self.closed else self._open_length

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        """Entries from ``first`` on, contiguous, digests verified: at least one, at most to ``last`` or so many that
        ``bytes_max`` is about reached (a guess by the sizes seen).

        Raises NoSuchEntryError when ``first`` is beyond ``last_confirmed`` or every replica lacks it, ReadError when no
        replica gave it and one could not say. Cancel-safe.
        """
        if first < 0 or last < first:
            raise MisuseError(f"read of entries {first} to {last}")
        if first > self.last_confirmed:
            raise NoSuchEntryError(
                f"entry {first} of ledger {self.ledger_id} is beyond {self.last_confirmed}"
            )
        metadata = self.metadata
        index = metadata.segment_index(first)
        last = min(last, self.last_confirmed)
        if index + 1 < len(metadata.segments):
            last = min(last, metadata.segments[index + 1].first - 1)
        segment = metadata.segments[index]
        members = self._moved.get(segment.first, segment.bookies)
        try:
            return await self._read(members, metadata.write_quorum, first, last, bytes_max)
        except (NoSuchEntryError, ReadError):
            moved = await self._members_now(segment.first)
            if moved is None or moved == members:
                raise
            log.info("ensemble moved ledger=%d from_entry=%d", self.ledger_id, segment.first)
            self._moved[segment.first] = moved
        return await self._read(moved, metadata.write_quorum, first, last, bytes_max)

    async def _read(
        self, members: tuple[str, ...], write_quorum: int, first: int, last: int, bytes_max: int
    ) -> list[Slice]:
        batch_max = self._access.settings.batch_entries_max
        count = min(last + 1 - first, batch_max) if bytes_max > 0 else 1
        wanted = int(bytes_max // self._size_guess()) if bytes_max > 0 else 1
        work = ReplicaReads(
            self._access,
            members,
            write_quorum,
            (first, first + count),
            min(bytes_max, BATCH_BYTES_MAX),
            max(1, min(wanted, count)),
            start_at=self._sticky,
            digest=self._digest,
        )
        try:
            op = await work.run()
        finally:
            self._sticky += work.failures
        slices = op.slices()
        op.close()
        self._entry_bytes = max(sum(run.size for run in slices) / op.good(), 1.0)
        return slices

    async def _members_now(self, segment_first: int) -> tuple[str, ...] | None:
        """Who holds a segment by the metadata as stored now: repair may have moved it. None when that is not known."""
        try:
            stored = await metadata_update.read(self._access.store, self.ledger_id)
        except (LedgerError, StoreUnavailableError, SessionExpiredError) as e:
            log.info("metadata not read again ledger=%d reason=%s", self.ledger_id, e)
            return None
        for segment in stored.segments:
            if segment.first == segment_first:
                return segment.bookies
        return None

    def scan(self, first: int, last: int, bytes_max: int, ranges: int = 3) -> Scan:
        """Entries ``first`` to ``last`` in order, ``ranges`` reads of about ``bytes_max`` under way at once::

        async with reader.scan(0, reader.last_confirmed, 1 << 20) as scan:
            async for slices in scan:
                ...
        """
        return Scan(self, first, last, bytes_max, ranges)

    def entries_in(self, size: int) -> int:
        """About how many entries ``size`` bytes hold, by what was seen of this ledger; at least 1."""
        return max(1, int(size // self._size_guess()))

    def _size_guess(self) -> float:
        if self._entry_bytes:
            return self._entry_bytes
        if self.length and self.last_confirmed >= 0:
            return max(self.length / (self.last_confirmed + 1), 1.0)
        return float(ENTRY_GUESS)

    async def read_last_confirmed(self) -> int:
        """Ask metadata and bookies anew how far the ledger is confirmed. Raises ReadError without coverage."""
        if self._writer is not None:
            return self._writer.last_confirmed
        if not self.closed:
            self._metadata = await metadata_update.read(self._access.store, self.ledger_id)
            if self.closed:
                self._known = self._metadata.last_entry
            else:
                found = await read_tail(self._access, self._metadata, self._digest)
                known = found.stored if self._unconfirmed else found.confirmed
                if known > self._known:  # never back (I9)
                    self._known = known
                    self._open_length = found.length if known == found.stored else 0
        return self._known
