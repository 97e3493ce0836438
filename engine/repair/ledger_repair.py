"""The repair of one ledger: what is missing is copied to other bookies, which then take the places of the lost ones in
its metadata. Nothing is ever deleted (I45).

1. Check who lacks what. The ledger is as good as its metadata read now; every change is a compare-and-set on it.
2. Copy each settled segment's entries to a replacement by the placement policy (I46). Only when all of them are
   durable there, store it as the member (I33).
3. The last segment of a ledger that is not closed belongs to its writer, and is never copied. When its members stay
   lost for a grace period, the ledger is recovered: fenced and closed, and then copied like any other.
"""

import logging
from collections.abc import Collection, Mapping

from engine.ledger import metadata_update
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NotEnoughBookiesError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment
from engine.metadata.store import MetadataStore
from engine.repair.checking import LedgerFindings, check, ends
from engine.repair.segment_copy import ByteRate, CopyCounts, SegmentCopy

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
        self, ledger_id: int, lost: Collection[str] = ()
    ) -> tuple[LedgerMetadata, LedgerFindings]:
        """Read and check a ledger. Raises NoSuchLedgerError, the store's errors."""
        await self._client.bookies.registrations.load()
        metadata = await self._client.metadata(ledger_id)
        return metadata, await check(
            self._client.access(ledger_id, metadata.password or b""), metadata, lost
        )

    async def copy(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        findings: LedgerFindings,
        lost: Collection[str] = (),
    ) -> LedgerMetadata:
        """Copy every settled segment with lost members, to none of ``lost``, and return the metadata as stored then.

        Raises NotEnoughBookiesError without a bookie to copy to, ReadError or NoSuchEntryError without an intact copy,
        WriteError, NoSuchLedgerError. Segments copied before an error stay copied.
        """
        excluded = list(lost)
        if metadata.state is not LedgerState.CLOSED:
            # A bookie whose disks were replaced denies what it had. It may come to know the ledger only through its
            # writer, or else a recovery would take its denials for proof that entries were never confirmed.
            last = metadata.segments[-1].bookies
            excluded += [bookie for bookie in last if bookie not in findings.sound]
        spans = dict(ends(metadata))
        error: NotEnoughBookiesError | None = None
        for segment in metadata.segments:
            positions = findings.lost.get(segment.first, ())
            if not positions:
                continue
            try:
                span = (segment.first, spans[segment.first])
                metadata = await self._copy_segment(
                    ledger_id, metadata, segment, span, positions, excluded
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
        excluded: Collection[str],
    ) -> LedgerMetadata:
        choice = self._client.bookies.choice
        chosen = choice.replacements(positions, segment.bookies, metadata.write_quorum, excluded)
        if not chosen:
            raise NotEnoughBookiesError(
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
