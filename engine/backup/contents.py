"""A backup as a whole: its manifest, and its records checked one against the other."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from engine.backup.backup_manifest import BackupManifest, read_manifest
from engine.backup.backup_records import (
    Record,
    SavedEnd,
    SavedEntries,
    SavedLedger,
    SavedNode,
)
from engine.backup.errors import DamagedBackupError
from engine.backup.part_files import check_files, part_name, read_parts
from engine.base.crc32c import crc32c
from engine.base.disk.files import Disk, Lane
from engine.base.slices import Slice
from engine.ledger.errors import MetadataFormatError
from engine.ledger.ledger_metadata import decode as decode_metadata


@dataclass(slots=True)
class Contents:
    """The backup in ``folder``. ``ends`` has the complete ledgers after ``check``."""

    disk: Disk
    lane: Lane
    folder: str
    manifest: BackupManifest
    ends: dict[int, SavedEnd] = field(default_factory=dict)

    @classmethod
    async def open(cls, disk: Disk, lane: Lane, folder: str) -> "Contents":
        """Read the manifest. Raises BackupError."""
        return cls(disk, lane, folder, await read_manifest(disk, lane, folder))

    async def records(self) -> AsyncIterator[Record]:
        """Yield all records. Raises DamagedBackupError, OSError."""
        async for record in read_parts(self.disk, self.lane, self.folder, self.manifest.parts):
            yield record

    async def check(self) -> None:
        """Check every file against the manifest and every record against the others; note the ends of the ledgers.

        Raises DamagedBackupError, which names the file or the ledger.
        """
        for number in range(self.manifest.parts):
            if part_name(number) not in self.manifest.files:
                raise DamagedBackupError(f"the manifest does not name {part_name(number)}")
        await check_files(self.disk, self.lane, self.folder, self.manifest.files)
        self.ends.clear()
        nodes, entries = 0, 0
        run: LedgerSum | None = None
        async for record in self.records():
            match record:
                case SavedNode():
                    nodes += 1
                case SavedLedger():
                    run = LedgerSum.of(record)
                case SavedEntries():
                    run = _expected(run, record.ledger_id)
                    run.add(record.first, record.run)
                case SavedEnd():
                    run = _expected(run, record.ledger_id)
                    if run.end() != record:
                        raise DamagedBackupError(f"ledger {record.ledger_id} differs from its end")
                    self.ends[record.ledger_id] = record
                    entries += record.last_entry + 1
                    run = None
        counts = self.manifest.counts
        if (nodes, len(self.ends), entries) != (counts.nodes, counts.ledgers, counts.entries):
            raise DamagedBackupError(
                f"there are {nodes} nodes, {len(self.ends)} ledgers and {entries} entries, and the manifest states"
                f" {counts.nodes}, {counts.ledgers} and {counts.entries}"
            )


@dataclass(slots=True)
class LedgerSum:
    """Sums of a ledger's entries so far."""

    ledger_id: int
    last_entry: int = -1
    length: int = 0
    checksum: int = 0

    @classmethod
    def of(cls, ledger: SavedLedger) -> "LedgerSum":
        """Begin a ledger. Raises DamagedBackupError when its metadata cannot be read."""
        try:
            decode_metadata(ledger.metadata)
        except MetadataFormatError as error:
            raise DamagedBackupError(f"metadata of ledger {ledger.ledger_id}: {error}") from error
        return cls(ledger.ledger_id)

    def add(self, first: int, run: Slice) -> None:
        """Add the next entries. Raises DamagedBackupError when they are others."""
        if first != self.last_entry + 1:
            raise DamagedBackupError(
                f"entry {self.last_entry + 1} of ledger {self.ledger_id} is missing"
            )
        view = memoryview(run.buf)
        for start, stop in zip(run.spans[::2], run.spans[1::2], strict=True):
            self.checksum = crc32c(view[start:stop], self.checksum)
        self.last_entry += run.count
        self.length += run.size

    def end(self) -> SavedEnd:
        """Return the end that a ledger with these entries has."""
        return SavedEnd(self.ledger_id, self.last_entry, self.length, self.checksum)


def _expected(run: LedgerSum | None, ledger_id: int) -> LedgerSum:
    if run is None or run.ledger_id != ledger_id:
        raise DamagedBackupError(f"a record of ledger {ledger_id} has no beginning before it")
    return run
