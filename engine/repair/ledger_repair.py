"""The repair of one ledger: what is missing is copied to other bookies, which then take the places of the lost ones in
its metadata. Nothing is ever deleted (I45).

1. Check who lacks what. The ledger is as good as its metadata read now; every change is a compare-and-set on it.
2. Copy each settled segment's entries to a replacement by the placement policy (I46). Only when all of them are
   durable there, store it as the member (I33).
3. The last segment of a ledger that is not closed belongs to its writer, and is never copied. When its members stay
   lost for a grace period, the ledger is recovered: fenced and closed, and then copied like any other.

``OwnCopies`` restores what one bookie lacks itself (I47). To check an entry it needs the ledger's type of digest, and
for HMAC a key made of the password as well; metadata has both.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from itertools import chain, combinations

from engine.base.measures.byte_rate import ByteRate
from engine.ledger import metadata_update
from engine.ledger.client import LedgerClient
from engine.ledger.digest import Digest, DigestType
from engine.ledger.errors import NoSuchLedgerError, NotEnoughBookiesError, UnprovenBookiesError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment
from engine.metadata.store import MetadataStore
from engine.repair.checking import LedgerFindings, Ranges, check, ends, held_from
from engine.repair.marks import RepairRecords
from engine.repair.segment_copy import CopyCounts, SegmentCopy

log = logging.getLogger(__name__)


class LedgerRepair:
    """Checks and repairs ledgers through one client; shared by the worker and the tools of a process."""

    def __init__(
        self,
        store: MetadataStore,
        client: LedgerClient,
        *,
        batch_bytes: int,
        rate_by_bytes: int,
    ) -> None:
        self._store = store
        self._client = client
        self._batch_bytes = batch_bytes
        self._rate = ByteRate(rate_by_bytes)
        self.counts = CopyCounts()
        self.segments_copied = 0
        self.ledgers_recovered = 0

    async def examine(
        self, ledger_id: int, lost: Collection[str] = (), named: Collection[str] | None = None
    ) -> tuple[LedgerMetadata, LedgerFindings]:
        """Read and check a ledger, as ``check`` does. Raises NoSuchLedgerError, the store's errors."""
        await self._client.bookies.registrations.load()
        metadata = await self._client.metadata(ledger_id)
        return metadata, await check(
            self._client.access(ledger_id, metadata.password or b""), metadata, lost, named
        )

    async def copy(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        findings: LedgerFindings,
        lost: Collection[str] = (),
    ) -> LedgerMetadata:
        """Copy every settled segment with lost members, to none of ``lost``, and return the metadata as stored then.

        Raises UnprovenBookiesError when only bookies of an open ledger's last segment could be copied to, which have
        not shown yet that they hold what its writer sent; NotEnoughBookiesError without any bookie; ReadError or
        NoSuchEntryError without an intact copy, WriteError, NoSuchLedgerError. Segments copied before an error stay
        copied.
        """
        unproven: list[str] = []
        if metadata.state is not LedgerState.CLOSED:
            # A bookie whose disks were replaced denies what it had. It may come to know the ledger only through its
            # writer, or else a recovery would take its denials for proof that entries were never confirmed.
            last = metadata.segments[-1].bookies
            unproven = [bookie for bookie in last if bookie not in findings.sound]
        spans = dict(ends(metadata))
        error: NotEnoughBookiesError | None = None
        for segment in metadata.segments:
            positions = findings.lost.get(segment.first, ())
            if not positions:
                continue
            try:
                span = (segment.first, spans[segment.first])
                metadata = await self._copy_segment(
                    ledger_id, metadata, segment, span, positions, lost, unproven
                )
            except NotEnoughBookiesError as e:
                error = e  # another segment may have other members
        if error is not None:
            raise error
        return metadata

    async def _copy_segment(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        segment: Segment,
        span: tuple[int, int],
        positions: tuple[int, ...],
        lost: Collection[str],
        unproven: Collection[str],
    ) -> LedgerMetadata:
        chosen = self._replacements(metadata, segment, positions, [*lost, *unproven])
        if not chosen:
            is_unproven = unproven and self._replacements(metadata, segment, positions, lost)
            raise (UnprovenBookiesError if is_unproven else NotEnoughBookiesError)(
                f"ledger {ledger_id}: no bookie can take the place of "
                + ", ".join(segment.bookies[position] for position in positions)
            )
        await self.copy_span(ledger_id, metadata, span, chosen)
        replaced = {segment.bookies[position]: bookie for position, bookie in chosen.items()}
        changed = await metadata_update.replace_members(
            self._store,
            ledger_id,
            metadata,
            segment.first,
            replaced,
            self._client.settings.metadata_timeout_s,
        )
        self.segments_copied += 1
        log.info(
            "segment copied ledger=%d first=%d last=%d replaced=%s",
            ledger_id,
            *span,
            ",".join(f"{old}>{new}" for old, new in replaced.items()),
        )
        return changed

    def misplaced(self, metadata: LedgerMetadata) -> LedgerFindings:
        """Return as ``lost`` the positions to move, so that every write set of a closed ledger touches as many racks or
        regions as it should (I50). Empty where it does, or where no bookie could change that."""
        findings = LedgerFindings()
        choice, quorum = self._client.bookies.choice, metadata.write_quorum
        for segment in metadata.segments:
            members = segment.bookies
            if metadata.state is not LedgerState.CLOSED or choice.adheres(members, quorum):
                continue
            places = range(len(members))
            for positions in chain(combinations(places, 1), combinations(places, 2)):
                moved = [members[position] for position in positions]
                chosen = choice.replacements(positions, members, quorum, moved)
                after = [chosen.get(position, bookie) for position, bookie in enumerate(members)]
                if len(chosen) == len(positions) and choice.adheres(after, quorum):
                    findings.lost[segment.first] = positions
                    break
        return findings

    def _replacements(
        self,
        metadata: LedgerMetadata,
        segment: Segment,
        positions: tuple[int, ...],
        excluded: Collection[str],
    ) -> dict[int, str]:
        return self._client.bookies.choice.replacements(
            positions, segment.bookies, metadata.write_quorum, excluded
        )

    async def copy_span(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        span: tuple[int, int],
        targets: Mapping[int, str],
    ) -> None:
        """Copy the entries of ``span``, of one segment, to bookies by their positions. Raises as ``SegmentCopy``."""
        await SegmentCopy(
            self._client.access(ledger_id, metadata.password or b""),
            metadata,
            span,
            targets,
            batch_bytes=self._batch_bytes,
            rate=self._rate,
            counts=self.counts,
        ).run()

    async def recover(self, ledger_id: int, metadata: LedgerMetadata) -> None:
        """Fence and close a ledger whose writer did not replace its lost bookies. Raises LedgerError."""
        log.info("open ledger of lost bookies is recovered ledger=%d", ledger_id)
        await self._client.open(ledger_id, metadata.password or b"", recover=True, known=metadata)
        self.ledgers_recovered += 1


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

    async def is_open(self, ledger_id: int) -> bool:
        """Return whether a ledger exists and is not closed. Raises the store's errors."""
        try:
            metadata = await self._client.metadata(ledger_id)
        except NoSuchLedgerError:
            return False
        return metadata.state is not LedgerState.CLOSED

    async def mark(self, ledger_id: int) -> None:
        """Mark a ledger as under-replicated. Raises the store's errors."""
        await self._records.prepare()
        await self._records.mark(ledger_id, [self._bookie_id])
