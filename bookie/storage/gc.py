"""Garbage collection: forget ledgers that metadata reports as deleted, remove entry logs without live entries.

Candidates are listed first; afterwards metadata is queried for each of them. A candidate that cannot be looked up is
kept (I28, B10).
"""

from collections.abc import Awaitable, Callable

from bookie.storage.checkpoint import Flusher
from bookie.storage.index.index import BookieIndex, LedgerRecord
from bookie.storage.index.manifest import encode_end, encode_forgotten, encode_ledger
from bookie.storage.logs.entry_log import EntryLogReader
from bookie.storage.logs.log_files import LogFiles

TOMBSTONE_MS = 7 * 24 * 3600 * 1000


async def find_deleted(
    candidates: list[int], is_deleted: Callable[[int], Awaitable[bool]]
) -> list[int]:
    """Return those of ``candidates`` (listed before this call) that metadata no longer has.

    An error of ``is_deleted`` ends the search with nothing deleted. Cancel-safe.
    """
    return [ledger_id for ledger_id in candidates if await is_deleted(ledger_id)]


def forget_ledgers(
    index: BookieIndex, flusher: Flusher, tombstones: list[LedgerRecord], expired: list[int]
) -> None:
    """Remove deleted ledgers from the index, durably, leaving ``tombstones``; remove ``expired`` tombstones.

    Runs in the flush lane while no flush holds those ledgers, which would restore them. Raises OSError.
    """
    if not tombstones and not expired:
        return
    for record in tombstones:
        index.delete(record)
    if expired:
        index.forget(expired)
    notes = [encode_ledger(record) for record in tombstones]
    flusher.secure(notes + [encode_forgotten(ledger_id) for ledger_id in expired])


def retire_logs(index: BookieIndex, logs: LogFiles, flusher: Flusher) -> list[int]:
    """Record durably that no index record names the dead logs, and return them: their files may be removed.

    Logs being written are not among them. Runs in the flush lane. Raises OSError.
    """
    dead = logs.unreferenced(index.usage)
    if dead:
        for log_id in dead:
            logs.ends.pop(log_id, None)
        flusher.secure([encode_end(log_id, 0) for log_id in dead])
    return dead


def remove_logs(logs: LogFiles, reader: EntryLogReader, dead: list[int]) -> int:
    """Delete the files of retired logs and return their number. Raises OSError.

    Runs in the read lane, so that no read of them is in progress.
    """
    for log_id in dead:
        reader.drop(log_id)
    logs.remove(dead)
    return len(dead)
