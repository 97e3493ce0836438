"""Check of a ledger's copy in tiered storage before the ledger is deleted from the bookies (U1)."""

import asyncio

from engine.ledger.client import LedgerClient
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.positions import LedgerSpan
from engine.managed.reading.entry_reader import EntryReader, open_object
from engine.managed.stored.offloads import offload_of
from engine.offload.errors import DamagedObjectError
from engine.offload.object_store import ObjectStores
from engine.offload.reading.object_reader import ObjectReader

READ_BYTES = 1 << 20
"""Bytes of entries that are compared at once."""


async def check_copy(objects: ObjectStores, ledgers: LedgerClient, span: LedgerSpan) -> None:
    """Return when ``objects`` have the complete copy that the record of ``span`` names.

    All blocks of a copy that was written here were read back before it counted; its index and its last block are
    read once more, because objects may have been deleted meanwhile. A copy of another implementation has no
    checksums: each of its entries is compared with that on the bookies. Cancel-safe.

    Raises MissingObjectError or DamagedObjectError when there is no such copy, ObjectStoreError, LedgerError.
    """
    copy = await open_object(objects, span, offload_of(span))
    last = copy.last_confirmed
    if copy.index.checksums:
        await copy.read(last, last, 1)
        return
    try:
        kept = await ledgers.open(span.ledger_id, recover=False)
    except NoSuchLedgerError:
        # There is nothing to delete, and nothing to compare with.
        return
    await _compare(kept, copy, last)


async def _compare(kept: EntryReader, copy: ObjectReader, last: int) -> None:
    at = 0
    while at <= last:
        entries = await _some(kept, at, last)
        below = at + len(entries)
        copied: list[bytes] = []
        while at + len(copied) < below:
            copied += await _some(copy, at + len(copied), below - 1)
        for entry_id, (entry, copied_entry) in enumerate(zip(entries, copied, strict=True), at):
            if entry != copied_entry:
                raise DamagedObjectError(
                    f"ledger {copy.ledger_id}: entry {entry_id} of the copy is not that on the bookies"
                )
        at = below
        await asyncio.sleep(0)


async def _some(reader: EntryReader, first: int, last: int) -> list[bytes]:
    runs = await reader.read(first, last, READ_BYTES)
    return [bytes(run.entry(i)) for run in runs for i in range(run.count)]
