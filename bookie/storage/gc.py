"""Garbage collection: forgets ledgers that metadata says are deleted, removes entry logs in which nothing lives.

The candidates are listed first and metadata is asked afterwards, for each by itself; whatever cannot be asked is kept.
A log that is partly alive stays whole: compaction does not exist yet.
"""

from collections.abc import Awaitable, Callable

from bookie.storage.entry_log import EntryLogReader, log_path
from bookie.storage.files import Disk
from bookie.storage.index import BookieIndex, LedgerRecord

TOMBSTONE_MS = 7 * 24 * 3600 * 1000


async def find_deleted(
    candidates: list[int], is_deleted: Callable[[int], Awaitable[bool]]
) -> list[int]:
    """Those of ``candidates`` (listed before this call) that metadata denies. What ``is_deleted`` raises ends the
    search with nothing deleted. Cancel-safe."""
    return [ledger_id for ledger_id in candidates if await is_deleted(ledger_id)]


def collect(
    index: BookieIndex, tombstones: list[LedgerRecord], expired: list[int], current_log: int
) -> list[int]:
    """Remove deleted ledgers from the index, durably; ids of logs that hold nothing alive, without ``current_log``.

    Runs in the flush lane while no flush waits to be tried again (it would bring the ledgers back).
    """
    before = dict.fromkeys(index.usage)
    for record in tombstones:
        index.delete(record)
    logs = [log_id for log_id in before if log_id not in index.usage]
    if expired:
        index.forget(expired)
    if tombstones or expired:
        index.flush()
    return sorted(log_id for log_id in logs if log_id != current_log)


def remove_logs(disk: Disk, directory: str, reader: EntryLogReader, logs: list[int]) -> None:
    """Delete log files that no index record names any more. Runs in the read lane: no read is under way."""
    for log_id in logs:
        reader.drop(log_id)
        disk.remove(log_path(directory, log_id))
    if logs:
        disk.sync_dir(directory)
