"""Mistakes of a bookie: durability, replay, denied entries."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from bookie import garbage
from bookie.storage import recover
from bookie.storage.checkpoint import Checkpointer
from bookie.storage.codes import Code
from bookie.storage.compaction import Copier
from bookie.storage.journal import journal_reader
from bookie.storage.journal.journal_format import Record
from bookie.storage.ledgers import Ledgers
from bookie.storage.read_queue import StoredEntries
from bookie.storage.write_cache import WriteCache
from engine.metadata.store import SessionExpiredError, StoreUnavailableError
from tests.sim.kit.disk import FaultFile
from tests.sim.plants.planting import Patches


def _unsynced(part: str) -> Patches:
    real = FaultFile.fdatasync

    def fdatasync(self: FaultFile) -> None:
        if part not in self._path:
            real(self)

    return [(FaultFile, "fdatasync", fdatasync)]


def ack_before_fsync() -> Patches:
    """Answer adds that are written and not synced."""
    return _unsynced("/journal")


def entry_log_not_synced() -> Patches:
    """Release the journal at a checkpoint while entry logs are in the page cache only."""
    return _unsynced(".log")


def mark_before_flush() -> Patches:
    """Move the journal's mark past entries that were not flushed."""
    real = Checkpointer._flush

    async def flush(self: Any) -> None:
        await real(self)
        self._flusher.flushed = max(self._flusher.flushed, self._journal.mark)

    return [(Checkpointer, "_flush", flush)]


def fence_not_durable() -> Patches:
    """Answer a fence while it is in memory only."""
    real = Ledgers.fence

    def fence(self: Ledgers, ledger_id: int, master_key: bytes) -> Code:
        code = real(self, ledger_id, master_key)
        ledger = self.get(ledger_id)
        if code == Code.OK and ledger is not None:
            ledger.fence_durable = True
        return code

    return [(Ledgers, "fence", fence)]


def no_entry_on_a_corrupt_read() -> Patches:
    """Deny an entry that the log does not return intact."""
    real = StoredEntries._read_range

    def read_range(self: StoredEntries, *arguments: int) -> tuple[Code, list[bytes]]:
        code, entries = real(self, *arguments)
        return Code.NO_ENTRY if code == Code.IO else code, entries

    return [(StoredEntries, "_read_range", read_range)]


def entries_unseen_during_a_flush() -> Patches:
    """Deny entries that move from the write cache to the log."""

    def find(self: WriteCache, ledger_id: int, entry_id: int) -> Any:
        runs = self.active.ledgers.get(ledger_id)
        return None if runs is None else runs.find(entry_id)

    return [(WriteCache, "find", find)]


def replay_drops_the_last_record() -> Patches:
    """Regard the last good record of a journal file as a torn one during replay."""
    real = journal_reader.read_groups

    def read_groups(*arguments: Any) -> Iterator[journal_reader.Group]:
        last = None
        for group in real(*arguments):
            if last is not None:
                yield last
            last = group
        if last is not None:
            yield last._replace(records=last.records[:-1])

    return [(recover, "read_groups", read_groups)]


def torn_tail_accepted() -> Patches:
    """Accept the records of a group whose head verifies, whatever their checksums, during replay."""

    def good_records(buf: bytes, pos: int, flat: tuple[int, ...]) -> tuple[list[Record], bool]:
        records = []
        for i in range(0, len(flat), 4):
            kind, size, count, _ = flat[i : i + 4]
            records.append(Record(kind, memoryview(buf)[pos : pos + size], count))
            pos += size
        return records, True

    return [(journal_reader, "_good_records", good_records)]


def copies_indexed_before_durable() -> Patches:
    """Switch the index to copies that are in the page cache only, and remove the originals."""
    return [(Copier, "sync", lambda self: None)]


def silence_proves_deletion() -> Patches:
    """Collect ledgers that a metadata store without an answer did not deny."""

    async def find_deleted(
        candidates: list[int], is_deleted: Callable[[int], Awaitable[bool]]
    ) -> list[int]:
        deleted_ids = []
        for ledger_id in candidates:
            try:
                deleted = await is_deleted(ledger_id)
            except (StoreUnavailableError, SessionExpiredError):
                deleted = True
            if deleted:
                deleted_ids.append(ledger_id)
        return deleted_ids

    return [(garbage, "find_deleted", find_deleted)]
