"""The copies that one bookie should have: which entries are missing there, and their restoration from other
bookies (I47).

A digest needs the ledger's type of digest, and HMAC a key made of its password as well. Metadata has both.
"""

from collections.abc import Callable

from engine.ledger.client import LedgerClient
from engine.ledger.digest import Digest, DigestType
from engine.ledger.errors import NoSuchLedgerError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.repair.checking import Ranges, ends, held_from
from engine.repair.ledger_repair import LedgerRepair
from engine.repair.marks import RepairRecords

Check = Callable[[bytes, int, int, int, int], bool]
"""Check of an entry: (buf, start, stop, ledger, entry)."""


class OwnCopies:
    """The copies of the bookie ``bookie_id``, for its scrubber."""

    def __init__(
        self, client: LedgerClient, records: RepairRecords, repair: LedgerRepair, bookie_id: str
    ) -> None:
        self._client = client
        self._records = records
        self._repair = repair
        self._bookie_id = bookie_id

    async def look(self, ledger_id: int, held: Ranges) -> tuple[Check, Ranges] | None:
        """Return the check of a ledger's entries, and ranges that are missing where the bookie has ``held``; None for a
        ledger that was deleted.

        Raises the store's errors.
        """
        try:
            metadata = await self._client.metadata(ledger_id)
        except NoSuchLedgerError:
            return None
        digest = Digest(metadata.digest or DigestType.CRC32, metadata.password or b"")
        return digest.check, self._missing(metadata, held)

    def _missing(self, metadata: LedgerMetadata, held: Ranges) -> Ranges:
        size, quorum = metadata.ensemble_size, metadata.write_quorum
        missing: Ranges = []
        for (first, last), segment in zip(ends(metadata), metadata.segments, strict=False):
            if self._bookie_id not in segment.bookies:
                continue
            position = segment.bookies.index(self._bookie_id)
            at = first
            for low, high in [*held, (last + 1, last + 1)]:
                stop = min(low, last + 1) - 1
                if at <= stop and held_from(position, at, size, quorum) <= stop:
                    missing.append((at, stop))
                at = max(at, high + 1)
        return missing

    async def restore(self, ledger_id: int, first: int, last: int) -> int:
        """Write entries to the bookie again, read from any intact copy, as far as it should have them; return their
        number.

        Raises LedgerError where there is no such copy or the bookie does not take it, the store's errors.
        """
        try:
            metadata = await self._client.metadata(ledger_id)
        except NoSuchLedgerError:
            return 0
        self._client.bookies.start()
        await self._client.bookies.registrations.load()
        written = 0
        firsts = [segment.first for segment in metadata.segments]
        for segment, below in zip(metadata.segments, [*firsts[1:], last + 1], strict=True):
            span = (max(first, segment.first), min(last, below - 1))
            if span[0] <= span[1] and self._bookie_id in segment.bookies:
                own = {segment.bookies.index(self._bookie_id): self._bookie_id}
                await self._repair.copy_span(ledger_id, metadata, span, own)
                written += span[1] - span[0] + 1
        return written

    async def mark(self, ledger_id: int) -> None:
        """Mark a ledger as under-replicated. Raises the store's errors."""
        await self._records.prepare()
        await self._records.mark(ledger_id, [self._bookie_id])
