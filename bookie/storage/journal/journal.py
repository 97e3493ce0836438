"""The journal: a synchronous writer of groups to recycled files, and group commit on the event loop in front of it.

A group is what was queued while the previous one was synced; there is no timer. A failed sync is final: the writer
refuses all later groups, nothing of that group is answered, and the process must exit.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from bookie.storage.errors import DiskFullError, LaterFormatError, StorageError
from bookie.storage.journal.journal_format import (
    BLOCK,
    FILE_MAGIC,
    VERSION,
    FileHeader,
    Mark,
    Record,
    RecordKind,
    decode_file_header,
    encode_group,
)
from bookie.storage.logs.log_files import FULL_ERRORS
from engine.base.disk.files import Disk, File, Lane
from engine.base.disk.later_formats import later_text, later_version
from engine.base.loop import last_call

ZERO_BYTES = 1 << 20
SPARES_MAX = 4
GROUP_BYTES_MAX = 16 << 20

Done = Callable[[Exception | None], None]
"""Callback with None after the record is durable, or with a DiskFullError."""


def journal_names(disk: Disk, directory: str) -> list[str]:
    return [name for name in disk.listdir(directory) if name.startswith("journal-")]


def as_full(error: OSError) -> Exception:
    """Return a DiskFullError for a full disk, else ``error`` itself. A full disk is a state and no failure."""
    return DiskFullError(str(error)) if error.errno in FULL_ERRORS else error


class JournalWriter:
    """A synchronous writer of groups. All calls but ``prepare`` and ``recycle`` are made from one lane, in order."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        file_bytes: int,
        direct: bool,
        draw_salt: Callable[[], int],
        next_file_id: int,
        sequence: int,
        spares: Sequence[str],
        names: Sequence[str],
        backups_max: int = SPARES_MAX,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._file_bytes = file_bytes
        self._direct = direct
        self._draw_salt = draw_salt
        self._next_file_id = next_file_id
        self._sequence = sequence
        self._spares = list(spares)
        self._names = dict.fromkeys(names)
        self._backups_max = backups_max
        self._slots = count(1 + max((int(name[8:]) for name in names), default=-1))
        self._file: File | None = None
        self._header = FileHeader(0, 0, 0, 0)
        self._offset = 0
        self._in_use: dict[int, str] = {}
        self._broken: BaseException | None = None

    def files(self) -> list[str]:
        """Return the names of the journal's files."""
        return list(self._names)

    def adopt(self, file_id: int, name: str) -> None:
        """Register a file that recovery has replayed; it is recycled after the mark has passed it."""
        self._in_use[file_id] = name

    @property
    def mark(self) -> Mark:
        """The place of the next group."""
        return Mark(self._header.file_id, self._offset, self._sequence)

    def begin_file(self) -> Mark:
        """Begin another file; its header is durable on return. Raises OSError."""
        if self._file is not None:
            self._file.close()
            self._file = None
        name = self._spares.pop() if self._spares else self._create()
        try:
            file = self._disk.open(f"{self._directory}/{name}", direct=self._direct)
            header = FileHeader(self._next_file_id, self._draw_salt(), self._sequence, file.size())
            file.pwritev([header.encode()], 0)
            file.fdatasync()
        except BaseException:
            self._broken = StorageError(f"could not begin journal file {name}")
            raise
        self._next_file_id += 1
        self._file, self._header, self._offset = file, header, BLOCK
        self._in_use[header.file_id] = name
        return self.mark

    def write_group(self, records: Sequence[Record]) -> Mark:
        """Write and sync a group and return the place of the next one.

        Raises DiskFullError when nothing was written, and StorageError after an earlier failure; any other OSError is
        fatal.
        """
        if self._broken is not None:
            raise StorageError(f"journal failed earlier: {self._broken}") from self._broken
        parts, size = encode_group(self._header.file_id, self._header.salt, self._sequence, records)
        if self._file is None or (self._offset > BLOCK and self._offset + size > self._file_bytes):
            self._roll()
            parts, size = encode_group(
                self._header.file_id, self._header.salt, self._sequence, records
            )
        assert self._file is not None
        try:
            self._file.pwritev(parts, self._offset)
        except OSError as error:
            full = as_full(error)
            if full is error:
                self._broken = error
            raise full from error
        try:
            self._file.fdatasync()  # begins after the write returned (I19, B1)
        except BaseException as error:
            # The kernel may have dropped the pages, a second sync could succeed (B8)
            self._broken = error
            raise
        self._offset += size
        self._sequence += 1
        return self.mark

    def _roll(self) -> None:
        if not self._spares:
            try:
                self._spares.append(self._create())
            except OSError as error:
                raise as_full(error) from error
        self.begin_file()

    def _create(self) -> str:
        """Create a zero-filled, synced file. On error nothing is left behind."""
        name = f"journal-{next(self._slots):04d}"
        path = f"{self._directory}/{name}"
        # Bypasses the page cache: groups would wait while the whole file is written back at once.
        file = self._disk.open(path, create=True, direct=self._direct)
        try:
            zeros = memoryview(bytes(ZERO_BYTES))
            size = -(-self._file_bytes // BLOCK) * BLOCK
            for offset in range(0, size, ZERO_BYTES):
                file.pwritev([zeros[: size - offset]], offset)
            file.fdatasync()
        except OSError:
            file.close()
            self._disk.remove(path)
            raise
        file.close()
        self._disk.sync_dir(self._directory)
        self._names[name] = None
        return name

    @property
    def wants_spare(self) -> bool:
        return not self._spares

    def prepare(self) -> None:
        """Create a spare file ahead of need. May run in another lane than ``write_group``."""
        if self.wants_spare:
            self._spares.append(self._create())

    def recycle(self, mark: Mark) -> None:
        """Free the files wholly before a durable mark (I27): a few become spares, the others are removed. Any lane."""
        for file_id in [file_id for file_id in list(self._in_use) if file_id < mark.file_id]:
            name = self._in_use.pop(file_id)
            if len(self._spares) < self._backups_max:
                self._spares.insert(0, name)
            else:
                del self._names[name]
                self._disk.remove(f"{self._directory}/{name}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_headers(disk: Disk, directory: str) -> dict[str, FileHeader | None]:
    """Return the header of each journal file by name; None where it does not verify. Raises LaterFormatError (K6)."""
    headers: dict[str, FileHeader | None] = {}
    for name in journal_names(disk, directory):
        file = disk.open(f"{directory}/{name}")
        block = file.pread(BLOCK, 0)
        file.close()
        if later := later_version(block, FILE_MAGIC, VERSION):
            raise LaterFormatError(later_text(f"{directory}/{name}", later, VERSION))
        headers[name] = decode_file_header(block)
    return headers


class Journal:
    """Group commit on the event loop. ``append`` never waits; the caller bounds ``pending_bytes``."""

    def __init__(
        self,
        writer: JournalWriter,
        lane: Lane,
        on_fatal: Callable[[BaseException], None],
        *,
        group_bytes_max: int = GROUP_BYTES_MAX,
        group_entries_max: int = 0,
    ) -> None:
        """Begin with an empty queue.

        ``group_bytes_max`` and ``group_entries_max`` (0: no bound) limit one group, which has at least one record.
        """
        self._writer = writer
        self._lane = lane
        self._on_fatal = on_fatal
        self._group_bytes_max = group_bytes_max
        self._group_entries_max = group_entries_max
        self._records: list[Record] = []
        self._waiters: list[Done] = []
        self._busy = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.mark = writer.mark
        """The end of the last durable group; everything answered so far lies before it."""
        self.pending_bytes = 0
        self.failed = False
        self.groups = 0
        self.group_bytes = 0

    def append(self, kind: RecordKind, body: bytes | memoryview, entries: int, done: Done) -> None:
        """Queue one record. ``done`` is called on the loop, and never if the journal fails."""
        self._records.append(Record(kind, body, entries))
        self._waiters.append(done)
        self.pending_bytes += len(body)
        if not self._busy:
            self._busy = True
            self._idle.clear()
            # Not at once: other records received in this turn of the loop join the same group.
            last_call(asyncio.get_running_loop())(self._commit)

    def _commit(self) -> None:
        records, waiters = self._records, self._waiters
        n = len(records)
        if n > 1 and (self.pending_bytes > self._group_bytes_max or self._group_entries_max):
            n = self._group_size(records)
        if n < len(records):
            self._records, self._waiters = records[n:], waiters[n:]
            records, waiters = records[:n], waiters[:n]
        else:
            self._records, self._waiters = [], []
        self._lane.call(
            partial(self._writer.write_group, records), partial(self._written, records, waiters)
        )

    def _group_size(self, records: list[Record]) -> int:
        """Return how many of the first records form one group: at least one, otherwise within the bounds."""
        size = entries = 0
        for n, record in enumerate(records):
            size += len(record.body)
            entries += record.entries
            over = size > self._group_bytes_max or 0 < self._group_entries_max < entries
            if n and over:
                return n
        return len(records)

    def _written(
        self,
        records: list[Record],
        waiters: list[Done],
        mark: Mark | None,
        error: BaseException | None,
    ) -> None:
        size = sum(len(record.body) for record in records)
        self.pending_bytes -= size
        if error is not None and not isinstance(error, DiskFullError):
            self.failed = True
            self._idle.set()
            self._on_fatal(error)
            return
        if mark is not None:
            self.mark = mark
            self.groups += 1
            self.group_bytes += size
        if self._records:
            self._commit()  # before the callbacks: the disk works while the answers are sent
        else:
            self._busy = False
            self._idle.set()
        for done in waiters:
            done(error)

    async def drain(self) -> None:
        """Wait until nothing is queued or the journal has failed."""
        await self._idle.wait()
