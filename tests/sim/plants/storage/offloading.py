"""Mistakes in tiered storage: moving, releasing, reading, deleting, and looking for orphans."""

import contextlib
from collections.abc import Sequence
from typing import Any

from engine.base.errors import WorldError
from engine.base.slices import Slice
from engine.managed.stored.offloads import DoomedObjects, Offload, offload_of
from engine.managed.stored.removal import delete_objects
from engine.managed.writing import rolling
from engine.managed.writing.offloading import LedgerMover
from engine.managed.writing.rolling import LedgerList, OffloadChange
from engine.offload.errors import DamagedObjectError, OffloadError
from engine.offload.orphans import OrphanScan, find_orphans
from engine.offload.reading import object_reader
from engine.offload.reading.block_cache import BlockCache, BlockSource
from engine.offload.reading.object_reader import ObjectReader
from tests.sim.offloading import workload
from tests.sim.plants.planting import Patches


def copy_counts_before_it_is_read_back() -> Patches:
    """Regard a copy as complete once the store has answered, whatever it stored."""

    async def verify(self: ObjectReader, bytes_max: int) -> None:
        pass

    return [(ObjectReader, "verify", verify)]


def upload_without_an_answer_counts_as_a_copy() -> Patches:
    """Regard a copy as complete although its upload failed."""
    real = LedgerMover._write

    async def write(self: LedgerMover, *arguments: Any) -> None:
        with contextlib.suppress(OffloadError):
            await real(self, *arguments)

    return [(LedgerMover, "_write", write)]


def copy_in_doubt_is_deleted() -> Patches:
    """Delete the objects of a copy when it is unknown whether it was stored as complete."""
    real = LedgerList.note_offload

    async def note_offload(self: LedgerList, ledger_id: int, change: OffloadChange) -> bool:
        try:
            return await real(self, ledger_id, change)
        except WorldError:
            for span in self.line.ledgers:
                after = change(offload_of(span)) if span.ledger_id == ledger_id else None
                if after is not None and after.complete and after.attempt is not None:
                    doomed = DoomedObjects(ledger_id, after.attempt, after.bucket)
                    await delete_objects(self._objects, doomed)
            raise

    return [(LedgerList, "note_offload", note_offload)]


def earlier_attempts_are_forgotten() -> Patches:
    """Keep no record of the objects of an attempt that another one replaces."""
    real = LedgerList._write

    async def write(self: LedgerList, *arguments: Any, **named: Any) -> None:
        named.pop("doomed_objects", None)
        await real(self, *arguments, **named)

    return [(LedgerList, "_write", write)]


def objects_of_trimmed_ledgers_are_forgotten() -> Patches:
    """Delete only the ledger on the bookies when it is trimmed."""

    def doomed_objects_of(ledgers: Sequence[Any]) -> list[DoomedObjects]:
        return []

    return [(rolling, "doomed_objects_of", doomed_objects_of)]


def attempts_are_named_when_they_are_complete() -> Patches:
    """Write the objects of an attempt before the record names it."""
    real = LedgerList.note_offload
    unnamed: dict[int, Offload] = {}

    async def note_offload(self: LedgerList, ledger_id: int, change: OffloadChange) -> bool:
        for span in self.line.ledgers:
            prepared = change(offload_of(span)) if span.ledger_id == ledger_id else None
            if prepared is not None and not prepared.complete:
                unnamed[ledger_id] = prepared
                return True
        return await real(self, ledger_id, lambda before: change(unnamed[ledger_id]))

    return [(LedgerList, "note_offload", note_offload)]


def objects_go_before_the_record_does() -> Patches:
    """Delete the objects of trimmed ledgers before the list is stored without them."""
    real = LedgerList._write

    async def write(self: LedgerList, *arguments: Any, **named: Any) -> None:
        for doomed in self._dropped_objects:
            with contextlib.suppress(OffloadError):
                await delete_objects(self._objects, doomed)
        await real(self, *arguments, **named)

    return [(LedgerList, "_write", write)]


def damage_is_returned() -> Patches:
    """Return the entries of a block whatever its checksum is."""

    async def compared(self: ObjectReader, at: int, stop: int) -> list[bytes]:
        bounds = [*(block.offset for block in self.index.blocks[at:stop]), self._ends[stop - 1]]
        return await self._store.get_ranges(self._key, bounds)

    return [(ObjectReader, "_compared", compared)]


def fewer_entries_are_the_rest() -> Patches:
    """Take the entries that a cut answer has for all entries of the block."""
    real = object_reader.take_entries

    def take_entries(data: bytes, at: int, first: int, count_max: int) -> Any:
        taken = real(data, at, first, count_max)
        missing = count_max - len(taken.spans) // 2
        return taken._replace(spans=[*taken.spans, *(taken.end, taken.end) * missing])

    return [*damage_is_returned(), (object_reader, "take_entries", take_entries)]


def reads_begin_at_their_block() -> Patches:
    """Return a block from its first entry on, whichever entry was asked for."""
    real = ObjectReader._slice

    def shifted(self: ObjectReader, data: bytes, spans: list[int], first: int) -> Slice:
        start = self._firsts[max(i for i, low in enumerate(self._firsts) if low <= first)]
        count = len(spans) // 2
        taken = object_reader.take_entries(data, object_reader.HEADER_BYTES, start, count)
        return real(self, data, taken.spans, first)

    return [(ObjectReader, "_slice", shifted)]


def blocks_of_all_objects_are_one() -> Patches:
    """Keep blocks in memory by their number alone."""
    real = BlockCache.blocks

    async def blocks(self: BlockCache, source: BlockSource, first: int, stop: int) -> Any:
        try:
            return await real(self, source._replace(key=""), first, stop)
        except IndexError as error:
            raise DamagedObjectError("another object") from error

    return [(BlockCache, "blocks", blocks)]


def records_are_read_before_the_bucket() -> Patches:
    """Look for orphans of any age, in a bucket that is listed after the records were read."""

    async def find(store: Any, named: Any, *, cluster: str, older_than_ms: int) -> OrphanScan:
        known = await named()

        async def early() -> Any:
            return known

        return await find_orphans(store, early, cluster=cluster, older_than_ms=1 << 60)

    return [(workload, "find_orphans", find)]


def orphans_of_any_age_are_removed() -> Patches:
    """Trust the records that a server returns which is behind."""

    async def find(store: Any, named: Any, *, cluster: str, older_than_ms: int) -> OrphanScan:
        return await find_orphans(store, named, cluster=cluster, older_than_ms=1 << 60)

    return [(workload, "find_orphans", find)]
