"""Opening of the storage: check what is on disk, replay the journal, leave everything flushed behind a new mark.

Synchronous; runs in a lane before the bookie serves requests. Nothing is ever appended behind what was replayed.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from bookie.storage.checkpoint import Flusher, begin_flush
from bookie.storage.errors import DamagedError, JournalDamagedError
from bookie.storage.index.index import BookieIndex
from bookie.storage.index.manifest import Manifest, ManifestState, read_manifest
from bookie.storage.journal.journal import JournalWriter, read_headers
from bookie.storage.journal.journal_format import (
    BLOCK,
    FileHeader,
    Mark,
    Record,
    RecordKind,
    decode_fence,
    decode_lac,
    decode_mark,
    group_file_id,
)
from bookie.storage.journal.journal_reader import journal_blocks, read_groups
from bookie.storage.ledgers import Ledgers
from bookie.storage.logs.entry_log import EntryLogReader, EntryLogWriter
from bookie.storage.logs.log_files import LogFiles
from bookie.storage.mark import Checkpoint, read_mark, write_mark
from bookie.storage.rebuild import rebuild_index
from bookie.storage.runs import cut_frames
from bookie.storage.write_cache import WriteCache
from engine.base.disk.files import Disk
from engine.base.disk.index_disk import Index, IndexDisk

log = logging.getLogger(__name__)


class Limits(NamedTuple):
    """Sizes of the storage in bytes. ``direct``: write the journal or entry logs past the page cache."""

    journal_file_bytes: int
    journal_direct: bool
    generation_bytes_max: int
    entry_log_bytes_max: int
    entry_log_direct: bool
    block_bytes_max: int
    read_cache_bytes_max: int
    journal_backups_max: int = 4
    """Journal files kept for the next use, zero-filled or used before."""


class Storage(NamedTuple):
    """The open parts of the storage. ``replayed`` counts journal records; ``rebuilt``: the index was lost."""

    entries: BookieIndex
    ledgers: Ledgers
    log: EntryLogWriter
    logs: LogFiles
    reader: EntryLogReader
    journal: JournalWriter
    manifest: Manifest
    flusher: Flusher
    replayed: int
    rebuilt: bool

    def close(self) -> None:
        """Close all files without flushing."""
        self.journal.close()
        self.log.leave()
        self.manifest.close()
        self.reader.close()
        self.entries.close()


def format_storage(
    disk: IndexDisk, journal_dir: str, ledger_dirs: list[str], identity: bytes
) -> None:
    """Set up empty directories: manifest, first mark, index with identity. Can be repeated after a crash."""
    home = ledger_dirs[0]
    mark = Mark(0, 0, 1)
    manifest = Manifest(disk, home)
    manifest.rewrite([])
    write_mark(disk, home, Checkpoint(mark, manifest.place))
    manifest.remove_old()
    manifest.close()
    index = BookieIndex(disk.open_index(f"{home}/index"))
    try:
        index.set_mark(mark.encode())
        index.set_identity(identity)
        index.flush()
    finally:
        index.close()
    for directory in ledger_dirs:
        disk.sync_dir(directory)
    disk.sync_dir(journal_dir)


def open_storage(
    disk: IndexDisk,
    journal_dir: str,
    ledger_dirs: list[str],
    identity: bytes,
    limits: Limits,
    draw_salt: Callable[[], int],
    *,
    accept_loss: bool = False,
) -> Storage:
    """Open the storage, replay the journal and flush. The first of ``ledger_dirs`` holds index, manifest and mark, all
    hold entry logs.

    A lost index is rebuilt from manifest and logs. Raises DamagedError with what to check. With ``accept_loss`` a
    damaged journal is cut instead: every ledger is fenced and in limbo, and no entry is denied from then on.
    """
    home = ledger_dirs[0]
    checkpoint = read_mark(disk, home)
    mark = checkpoint.mark
    manifest = Manifest(disk, home)
    state = _manifest_state(disk, home, checkpoint)
    index = BookieIndex(_open_index(disk, f"{home}/index"))
    try:
        logs = LogFiles(disk, ledger_dirs)
        rebuilt = _is_lost(index, identity, mark, home)
        if rebuilt:
            log.warning("index is lost or older than the last checkpoint, rebuilding it")
            rebuild_index(disk, logs, index, state, identity, mark)
        _learn_ends(logs, index, state)
        writer = EntryLogWriter(logs, limits.entry_log_bytes_max, direct=limits.entry_log_direct)
        ledgers = Ledgers(
            WriteCache(limits.generation_bytes_max), index.ledgers(), limbo=index.in_limbo()
        )
        flusher = Flusher(disk, home, index, writer, logs, manifest, limits.block_bytes_max, mark)
        journal, replayed = _replay(
            disk, journal_dir, mark, ledgers, flusher, limits, draw_salt, accept_loss
        )
        # A log that no record points to is of a flush or a compaction that a crash interrupted.
        unfinished = logs.unreferenced(index.usage)
        for log_id in unfinished:
            logs.ends.pop(log_id, None)
        journal.recycle(flusher.checkpoint())
        logs.remove(unfinished)
    except BaseException:
        index.close()
        raise
    reader = EntryLogReader(disk, logs, limits.read_cache_bytes_max)
    return Storage(
        index, ledgers, writer, logs, reader, journal, manifest, flusher, replayed, rebuilt
    )


def _manifest_state(disk: Disk, home: str, checkpoint: Checkpoint) -> ManifestState | None:
    try:
        return read_manifest(disk, home, checkpoint.manifest)
    except DamagedError as error:
        log.error("manifest cannot be read, only the index is used reason=%s", error)
        return None


def _open_index(disk: IndexDisk, path: str) -> Index:
    try:
        return disk.open_index(path)
    except OSError:
        raise
    except Exception as error:  # the database raises its own errors for its files
        raise DamagedError(
            f"{path} cannot be opened: {error}. If no other process has it open, rebuild it: "
            "python -m bookie.tools.rebuild_index"
        ) from error


def _is_lost(index: BookieIndex, identity: bytes, mark: Mark, home: str) -> bool:
    """Return whether the index is older than the last checkpoint or missing.

    Raises DamagedError when it belongs to another bookie.
    """
    stored = index.identity()
    if stored is not None and stored != identity:
        raise DamagedError(f"{home}/index is another bookie's: put this bookie's disks back")
    indexed_mark = decode_mark(index.mark() or b"")
    return stored is None or indexed_mark is None or indexed_mark < mark


def _learn_ends(logs: LogFiles, index: BookieIndex, state: ManifestState | None) -> None:
    """Set up to where each log counts, and which log ids are used up."""
    listed = state.ends if state is not None else {}
    ends = {log_id: end for log_id, end in listed.items() if end and log_id in logs}
    if any(log_id in logs and log_id not in ends for log_id in index.usage):
        ends |= {log_id: end for log_id, end in index.ends().items() if log_id not in ends}
    logs.ends.update(ends)
    logs.skip_to(1 + max([0, *listed, *index.usage]))
    for log_id in index.usage:
        if log_id not in logs:
            log.error("entry log is missing, its entries cannot be read log=%08x", log_id)


def _replay(
    disk: Disk,
    journal_dir: str,
    mark: Mark,
    ledgers: Ledgers,
    flusher: Flusher,
    limits: Limits,
    draw_salt: Callable[[], int],
    accept_loss: bool,
) -> tuple[JournalWriter, int]:
    headers = read_headers(disk, journal_dir)
    live = sorted(
        (header.file_id, name, header)
        for name, header in headers.items()
        if header is not None and header.file_id >= max(mark.file_id, 1)
    )
    replayed, sequence = 0, mark.sequence
    try:
        _check_files(disk, journal_dir, mark, headers, [file_id for file_id, _, _ in live])
        for file_id, name, header in live:
            offset = mark.offset if file_id == mark.file_id else BLOCK
            if file_id != mark.file_id and header.first_sequence != sequence:
                raise JournalDamagedError(
                    f"{journal_dir}/{name} begins with group {header.first_sequence}, but the file before it "
                    f"ends before group {sequence}: groups are missing or damaged"
                )
            for group in read_groups(disk, f"{journal_dir}/{name}", header, offset, sequence):
                for record in group.records:
                    apply_record(ledgers, record)
                    replayed += 1
                sequence += group.whole
                if ledgers.cache.full:
                    # With the mark of the start: the journal is needed until the replay is complete.
                    flusher.flush(begin_flush(ledgers, mark))
                    ledgers.cache.flushed()
    except JournalDamagedError:
        if not accept_loss:
            raise
        ledgers.enter_limbo()
        flusher.enter_limbo()
        sequence += 1 << 32  # above any sequence number in the damaged part
    spares = [
        name for name, header in headers.items() if header is None or header.file_id < mark.file_id
    ]
    writer = JournalWriter(
        disk,
        journal_dir,
        file_bytes=limits.journal_file_bytes,
        direct=limits.journal_direct,
        draw_salt=draw_salt,
        next_file_id=1 + max([mark.file_id, *(file_id for file_id, _, _ in live)]),
        sequence=sequence,
        spares=sorted(spares, reverse=True),
        names=sorted(headers),
        backups_max=limits.journal_backups_max,
    )
    for file_id, name, _ in live:
        writer.adopt(file_id, name)
        _sync(disk, f"{journal_dir}/{name}")
    start_mark = writer.begin_file()
    flusher.flush(begin_flush(ledgers, start_mark))
    ledgers.cache.flushed()
    return writer, replayed


def _sync(disk: Disk, path: str) -> None:
    """Sync a replayed file. Its last group may be whole in the page cache only, and the next file's header will imply
    it."""
    file = disk.open(path)
    file.fdatasync()
    file.close()


def _check_files(
    disk: Disk,
    journal_dir: str,
    mark: Mark,
    headers: dict[str, FileHeader | None],
    live: list[int],
) -> None:
    if mark.file_id and mark.file_id not in live:
        raise JournalDamagedError(
            f"{journal_dir}: the file with id {mark.file_id} that the mark names is missing or its header is damaged"
        )
    if live and live != list(range(live[0], live[0] + len(live))):
        raise JournalDamagedError(
            f"{journal_dir}: of files {live[0]} to {live[-1]} only {live} are there"
        )
    newest = live[-1] if live else mark.file_id
    for name, header in headers.items():
        if header is not None:
            continue
        file = disk.open(f"{journal_dir}/{name}")
        for offset, buf in journal_blocks(file, BLOCK):
            used = group_file_id(buf, 0)
            if used > newest:
                file.close()
                raise JournalDamagedError(
                    f"{journal_dir}/{name}: header is damaged, but at {offset} there is a group of file {used}"
                )
        file.close()


def apply_record(ledgers: Ledgers, record: Record) -> None:
    """Apply a journal record to ``ledgers``. Raises JournalDamagedError when it verifies but is not of its kind."""
    try:
        _apply(ledgers, record)
    except ValueError as error:
        raise JournalDamagedError(f"journal record of kind {record.kind}: {error}") from error


def _apply(ledgers: Ledgers, record: Record) -> None:
    match record.kind:
        case RecordKind.ADDS:
            for run in cut_frames(bytes(record.body)):
                ledgers.replay_adds(run)
        case RecordKind.FENCE:
            ledgers.replay_fence(*decode_fence(record.body))
        case RecordKind.EXPLICIT_LAC:
            ledgers.replay_lac(*decode_lac(record.body))
        case _:
            raise JournalDamagedError(f"journal record of unknown kind {record.kind}")
