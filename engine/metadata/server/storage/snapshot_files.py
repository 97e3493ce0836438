"""Snapshots of the tree beside the log, and the start from both.

``snapshot-<number>`` has all nodes and sessions that existed when the segment of that number began. It is written
while changes continue, so a node may already have the data of a later one; applying the segment to it makes it exact.
It gets its final name only when all those later changes are durable themselves. The one before is kept with its
segments, so that a start is possible when the last one is damaged.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from engine.base.disk.files import Disk, File
from engine.base.disk.later_formats import HEADER_BYTES_MAX
from engine.metadata.server.changes import Change, Transaction
from engine.metadata.server.storage.change_format import (
    HEADER_BYTES,
    INSTANCE_BYTES,
    RECORD_HEAD_BYTES,
    SNAPSHOT_MAGIC,
    StoreFileHeader,
    decode_changes,
    decode_header,
    decode_transactions,
    encode_changes,
    encode_record,
)
from engine.metadata.server.storage.metadata_log import (
    TEMPORARY,
    DamagedStoreError,
    read_records,
    read_segment,
    refuse_later,
    segment_name,
)

SNAPSHOTS_KEPT = 2
LOG_PREFIX, SNAPSHOT_PREFIX = "log-", "snapshot-"
FOREIGN = "version-2"
"""Folder of a real ZooKeeper's data."""


def snapshot_name(number: int) -> str:
    return f"{SNAPSHOT_PREFIX}{number:010}"


class SnapshotWriter:
    """Writer of one snapshot: ``write`` for each block, then ``finish``; or ``abandon``. Used in one lane."""

    def __init__(self, disk: Disk, directory: str, segment: StoreFileHeader) -> None:
        """Begin the snapshot that belongs to a segment that has just begun. Raises OSError."""
        self._disk = disk
        self._directory = directory
        self._header = segment._replace(magic=SNAPSHOT_MAGIC)
        self._path = f"{directory}/{snapshot_name(segment.number)}"
        self._file: File = disk.open(self._path + TEMPORARY, create=True)
        self._file.truncate(0)
        self._file.pwritev([self._header.encode()], 0)
        self._blocks = 0
        self.size = HEADER_BYTES

    def write(self, changes: Iterable[Change]) -> None:
        """Write and sync a block. Raises OSError."""
        self._write(encode_changes(changes))
        self._file.fdatasync()  # block by block, so that the last sync is short and delays the log little

    def _write(self, body: bytes) -> None:
        record = encode_record(self._header.salt, self._blocks, body)
        self.size += self._file.pwritev([record], self.size)
        self._blocks += 1

    def finish(self) -> None:
        """Make the snapshot durable under its final name, then remove what is needed no more. Raises OSError.

        Everything that the snapshot shows must be durable in the log before.
        """
        self._write(b"")  # the end: without it the file is not complete
        self._file.fdatasync()
        self._file.close()
        self._disk.rename(self._path + TEMPORARY, self._path)
        self._disk.sync_dir(self._directory)
        remove_old(self._disk, self._directory)

    def abandon(self) -> None:
        self._file.close()
        self._disk.remove(self._path + TEMPORARY)


def remove_old(disk: Disk, directory: str) -> None:
    """Remove all but the last snapshots, and the segments that none of those needs."""
    snapshots = _numbers(disk, directory, SNAPSHOT_PREFIX)
    if len(snapshots) < SNAPSHOTS_KEPT:
        return  # the log since its beginning is what the only snapshot falls back to
    oldest = snapshots[-SNAPSHOTS_KEPT]
    names = [snapshot_name(number) for number in snapshots if number < oldest]
    segments = _numbers(disk, directory, LOG_PREFIX)
    names += [segment_name(number) for number in segments if number < oldest]
    for name in names:
        disk.remove(f"{directory}/{name}")
    if names:
        disk.sync_dir(directory)


class Stored(NamedTuple):
    """State of a store after its load. ``number`` and ``sequence``: of the next segment and its first group."""

    instance: bytes
    zxid: int
    number: int
    sequence: int
    log_bytes: int
    """Size of the log that the start read."""
    segments: int
    snapshot_bytes: int


def load(
    disk: Disk, directory: str, apply: Callable[[Change], None], draw_instance: Callable[[], bytes]
) -> Stored:
    """Apply the last snapshot and the log behind it. Creates the directory.

    Raises DamagedStoreError, UnreadableRecordError and OSError.
    """
    disk.makedirs(directory)
    _remove_temporary(disk, directory)
    snapshots = _numbers(disk, directory, SNAPSHOT_PREFIX)
    segments = _numbers(disk, directory, LOG_PREFIX)
    if not segments and not snapshots:
        if FOREIGN in disk.listdir(directory):
            raise DamagedStoreError(
                f"{directory} has the data of another ZooKeeper ({FOREIGN}): give this server another data_dir"
            )
        return Stored(draw_instance(), 0, 1, 1, 0, 0, 0)
    first = snapshots[-1] if snapshots else 1
    _check_segments(directory, first, segments)
    reading = _Reading(disk, directory, apply)
    if snapshots:
        reading.snapshot(first, snapshots[-2] if len(snapshots) > 1 else None, segments)
    for number in range(first, segments[-1] + 1):
        reading.segment(number, last=number == segments[-1])
    return reading.stored(segments[-1] + 1)


class _Reading:
    """The state of a start while it reads one file after another."""

    def __init__(self, disk: Disk, directory: str, apply: Callable[[Change], None]) -> None:
        self._disk = disk
        self._directory = directory
        self._apply = apply
        self._instance = bytes(INSTANCE_BYTES)
        self._sequence = 0
        self._zxid = 0
        self._log_bytes = self._segments = self._snapshot_bytes = 0

    def snapshot(self, number: int, before: int | None, segments: list[int]) -> None:
        path = f"{self._directory}/{snapshot_name(number)}"
        file = self._disk.open(path)
        try:
            data = file.pread(HEADER_BYTES_MAX, 0)
            refuse_later(path, data, SNAPSHOT_MAGIC)
            header = decode_header(data[:HEADER_BYTES], SNAPSHOT_MAGIC)
            offset, complete = HEADER_BYTES, False
            if header is not None and header.number == number:
                for head, body in read_records(file, header, 0):
                    complete = not body
                    offset += RECORD_HEAD_BYTES + head.length
                    for change in decode_changes(body):
                        self._apply(change)
            if header is None or not complete or offset != file.size():
                raise _damaged_snapshot(self._directory, path, offset, before, segments)
        finally:
            file.close()
        self._adopt(header, path)
        self._snapshot_bytes = offset

    def segment(self, number: int, *, last: bool) -> None:
        path = f"{self._directory}/{segment_name(number)}"
        expected = self._sequence
        segment = read_segment(
            self._disk, self._directory, number, partial(self._group, path), last=last
        )
        if expected and segment.header.sequence != expected:
            raise DamagedStoreError(
                f"{self._directory}/{segment_name(number - 1)} lacks the groups {expected} to"
                f" {segment.header.sequence - 1}: restore {self._directory} from a backup; or, to give up every change"
                f" from there on, remove {segment_name(number)} and the later log files"
            )
        self._adopt(segment.header, path)
        self._sequence = segment.sequence
        self._log_bytes += segment.size
        self._segments += 1

    def _group(self, path: str, body: bytes) -> None:
        transaction: Transaction
        for transaction in decode_transactions(body):
            for change in transaction.changes:
                self._apply(change)
            self._zxid = max(self._zxid, transaction.zxid)

    def _adopt(self, header: StoreFileHeader, path: str) -> None:
        if self._sequence and header.instance != self._instance:
            raise DamagedStoreError(
                f"{path} belongs to another store: remove it, or restore {self._directory} from a backup"
            )
        self._instance = header.instance
        self._sequence = header.sequence
        self._zxid = max(self._zxid, header.zxid)

    def stored(self, number: int) -> Stored:
        return Stored(
            self._instance,
            self._zxid,
            number,
            self._sequence,
            self._log_bytes,
            self._segments,
            self._snapshot_bytes,
        )


def _numbers(disk: Disk, directory: str, prefix: str) -> list[int]:
    """Return the numbers of the files with a prefix, ascending."""
    names = [
        name.removeprefix(prefix) for name in disk.listdir(directory) if name[:4] == prefix[:4]
    ]
    return sorted(int(name) for name in names if name.isdecimal())


def _remove_temporary(disk: Disk, directory: str) -> None:
    """Remove files that a crash left incomplete."""
    for name in disk.listdir(directory):
        if name.startswith((LOG_PREFIX, SNAPSHOT_PREFIX)) and name.endswith(TEMPORARY):
            disk.remove(f"{directory}/{name}")


def _check_segments(directory: str, first: int, segments: list[int]) -> None:
    """Raise DamagedStoreError when a segment from ``first`` on is missing."""
    last = segments[-1] if segments else first
    missing = next((n for n in range(first, max(first, last) + 1) if n not in segments), None)
    if missing is not None:
        raise DamagedStoreError(
            f"{directory}/{segment_name(missing)} is missing: restore {directory} from a backup"
        )


def _damaged_snapshot(
    directory: str, path: str, offset: int, before: int | None, segments: list[int]
) -> DamagedStoreError:
    remedy = f"restore {directory} from a backup"
    if before is not None and before in segments:
        remedy = f"remove it, and nothing is lost: {snapshot_name(before)} and the log since are complete"
    elif before is None and 1 in segments:
        remedy = "remove it, and nothing is lost: the log since the beginning is complete"
    return DamagedStoreError(f"{path} is damaged at byte {offset}: {remedy}")
