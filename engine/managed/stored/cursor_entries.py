"""The newest state in a cursor ledger."""

from collections.abc import Callable

from engine.base.tasks import with_pauses
from engine.ledger.errors import CorruptEntryError, NoSuchEntryError
from engine.ledger.reading.reader import LedgerReader
from engine.managed.errors import StoredRecordError
from engine.managed.stored.records import CursorState

ENTRIES_TRIED_MAX = 8
"""Entries tried from the end when the last ones are lost. Each of them is newer than the snapshot in the node."""


async def last_readable(reader: LedgerReader, lost: Callable[[str], None]) -> CursorState | None:
    """Return the state in the last entry that can be read; None when there is none. ``lost`` is called with the reason
    for each later entry that cannot.

    Raises LedgerError when storage does not answer. Cancel-safe.
    """
    last = reader.last_confirmed
    for entry in range(last, max(last - ENTRIES_TRIED_MAX, -1), -1):
        try:
            (run,) = await reader.read(entry, entry, 1)
            return await with_pauses(CursorState.decoding(run.entry(0)))
        except (NoSuchEntryError, CorruptEntryError, StoredRecordError) as error:
            lost(str(error))
    return None
