"""Garbage collection: forgets ledgers that metadata says are deleted, removes entry logs in which nothing lives.

The candidates are listed first and metadata is asked afterwards, for each by itself; whatever cannot be asked is kept
(I28, B10).
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
    """Those of ``candidates`` (listed before this call) that metadata denies. What ``is_deleted`` raises ends the
    search with nothing deleted. Cancel-safe."""
    return [ledger_id for ledger_id in candidates if await is_deleted(ledger_id)]


def forget_ledgers(
    index: BookieIndex, flusher: Flusher, tombstones: list[LedgerRecord], expired: list[int]
) -> None:
    """Remove deleted ledgers from the index, durably, leaving tombstones, and the ``expired`` tombstones. Flush lane,
    when no flush is under way that holds those ledgers (it would bring them back). Raises OSError."""
    if not tombstones and not expired:
        return
    for record in tombstones:
        index.delete(record)
    if expired:
        index.forget(expired)
    notes = [encode_ledger(record) for record in tombstones]
    flusher.secure(notes + [encode_forgotten(ledger_id) for ledger_id in expired])


def retire_logs(index: BookieIndex, logs: LogFiles, flusher: Flusher) -> list[int]:
    """Logs that may be removed: no record names them, durably, and nobody writes them. Flush lane. Raises OSError."""
    dead = logs.unreferenced(index.usage)
    if dead:
        for log_id in dead:
            logs.ends.pop(log_id, None)
        flusher.secure([encode_end(log_id, 0) for log_id in dead])
    return dead


def remove_logs(logs: LogFiles, reader: EntryLogReader, dead: list[int]) -> int:
    """Delete files of retired logs; their number. Runs in the read lane: no read is under way. Raises OSError."""
    for log_id in dead:
        reader.drop(log_id)
    logs.remove(dead)
    return len(dead)
