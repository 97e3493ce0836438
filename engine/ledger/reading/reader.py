"""Reads of confirmed entries: a run at a time from one replica, verified, from the next replica when that fails."""

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
"""Assumed bytes of an entry before the first one was read."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""Bytes requested at most in one batch read; a bookie returns up to 5 MiB."""


class OpenLedger(Protocol):
    """A ledger that is being written in this process; its writer knows what is confirmed."""

    @property
    def metadata(self) -> LedgerMetadata: ...

    @property
    def last_confirmed(self) -> int: ...

    @property
    def length(self) -> int: ...


class LedgerReader:
    """Reader of entries 0 to ``last_confirmed`` of one ledger, created by ``LedgerClient.open`` or
    ``LedgerWriter.reader``."""

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
        self._moved: dict[int, tuple[str, ...]] = {}
        """Current members of re-replicated segments, by their first entry."""
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
        """Highest entry id known to be confirmed; it never falls (I9)."""
        return self._known if self._writer is None else self._writer.last_confirmed

    @property
    def closed(self) -> bool:
        return self.metadata.state is LedgerState.CLOSED

    @property
    def length(self) -> int:
        """Payload bytes of all entries; of an open ledger those up to ``last_confirmed``, 0 where that is unknown."""
        if self._writer is not None:
            return self._writer.length
        return self.metadata.length if self.closed else self._open_length

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        """Read contiguous entries from ``first`` on, with verified digests: at least one, at most to ``last``.

        Fewer are read when ``bytes_max`` is about reached, estimated from the sizes seen so far. Raises
        NoSuchEntryError when ``first`` is beyond ``last_confirmed`` or every replica lacks it, ReadError when no
        replica returned it and at least one did not answer or failed. Cancel-safe.
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
        reads = ReplicaReads(
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
            op = await reads.run()
        finally:
            self._sticky += reads.failures
        slices = op.slices()
        op.close()
        self._entry_bytes = max(sum(run.size for run in slices) / op.intact_count(), 1.0)
        return slices

    async def _members_now(self, segment_first: int) -> tuple[str, ...] | None:
        """Return a segment's bookies by the metadata as stored now, because a repair may have moved it; None when that
        is unknown."""
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
        """Return a scan of entries ``first`` to ``last`` in order, with ``ranges`` concurrent reads of about
        ``bytes_max`` each::

        async with reader.scan(0, reader.last_confirmed, 1 << 20) as scan:
            async for slices in scan:
                ...
        """
        return Scan(self, first, last, bytes_max, ranges)

    def entries_in(self, size: int) -> int:
        """Estimate how many entries ``size`` bytes hold, from the entries of this ledger seen so far; at least 1."""
        return max(1, int(size // self._size_guess()))

    def _size_guess(self) -> float:
        if self._entry_bytes:
            return self._entry_bytes
        if self.length and self.last_confirmed >= 0:
            return max(self.length / (self.last_confirmed + 1), 1.0)
        return float(ENTRY_GUESS)

    def confirm(self, entry_id: int) -> None:
        """Note that the ledger's writer has confirmed all entries up to ``entry_id``."""
        self._known = max(self._known, entry_id)

    async def read_last_confirmed(self) -> int:
        """Read the last confirmed entry again from the metadata and bookies. Raises ReadError without coverage."""
        if self._writer is not None:
            return self._writer.last_confirmed
        if not self.closed:
            self._metadata = await metadata_update.read(self._access.store, self.ledger_id)
            if self.closed:
                self._known = self._metadata.last_entry
            else:
                tail = await read_tail(self._access, self._metadata, self._digest)
                known = tail.stored if self._unconfirmed else tail.confirmed
                if known > self._known:  # a reader's mark never falls (I9)
                    self._known = known
                    self._open_length = tail.length if known == tail.stored else 0
        return self._known
