"""Opening the storage: checks what is on disk, replays the journal, leaves everything flushed behind a new mark.

Synchronous; runs in a lane before the bookie answers anyone. Nothing is ever appended behind what was replayed.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bookie.storage.checkpoint import Flusher, begin_flush, read_mark, write_mark
from bookie.storage.entry_log import EntryLogReader, EntryLogWriter, log_ids, log_path
from bookie.storage.errors import DamagedError, JournalDamagedError
from bookie.storage.files import Disk, File
from bookie.storage.index import BookieIndex
from bookie.storage.journal import JournalWriter, read_headers
from bookie.storage.journal_format import (
    BLOCK,
    FileHeader,
    Kind,
    Mark,
    Record,
    decode_fence,
    decode_group_head,
    decode_lac,
    group_file_id,
    group_head_size,
    padded,
)
from bookie.storage.ledgers import Ledgers
from bookie.storage.runs import cut_frames
from bookie.storage.write_cache import WriteCache
from engine.base.crc32c import crc32c

SCAN_BYTES = 1 << 20
HEAD_BYTES = 64 << 10


class Limits(NamedTuple):
    """Sizes in bytes that shape the storage; ``direct``: write journal or entry logs past the page cache."""

    journal_file_bytes: int
    journal_direct: bool
    generation_bytes_max: int
    entry_log_bytes_max: int
    entry_log_direct: bool
    block_bytes_max: int
    read_cache_bytes_max: int


class Storage(NamedTuple):
    """Everything opened; ``replayed`` counts journal records."""

    entries: BookieIndex
    ledgers: Ledgers
    log: EntryLogWriter
    reader: EntryLogReader
    journal: JournalWriter
    flusher: Flusher
    replayed: int


class Group(NamedTuple):
    """A group as found: its good records, where the next one would begin, and whether it is whole."""

    sequence: int
    next_offset: int
    records: list[Record]
    whole: bool


def format_storage(disk: Disk, journal_dir: str, ledger_dir: str, identity: bytes) -> None:
    """Set up empty directories: index with identity, first mark. May be repeated after a crash in between."""
    index = BookieIndex(disk.open_index(f"{ledger_dir}/index"))
    try:
        if index.identity() != identity:
            index.set_identity(identity)
        index.flush()
    finally:
        index.close()
    write_mark(disk, ledger_dir, Mark(0, 0, 1))
    disk.sync_dir(ledger_dir)
    disk.sync_dir(journal_dir)


def open_storage(
    disk: Disk,
    journal_dir: str,
    ledger_dir: str,
    identity: bytes,
    limits: Limits,
    draw_salt: Callable[[], int],
    *,
    accept_loss: bool = False,
) -> Storage:
    """Open, replay, flush. Raises DamagedError with what to look at.

    ``accept_loss`` cuts a damaged journal instead, fences every ledger and puts it in limbo: absence is denied then.
    """
    mark = read_mark(disk, ledger_dir)
    index = BookieIndex(disk.open_index(f"{ledger_dir}/index"))
    try:
        if index.identity() != identity:
            raise DamagedError(
                f"{ledger_dir}/index is empty or another bookie's: restore it; entries cannot be found without it"
            )
        ids = log_ids(disk, ledger_dir)
        log = EntryLogWriter(
            disk,
            ledger_dir,
            1 + max([*ids, *index.usage], default=0),
            limits.entry_log_bytes_max,
            direct=limits.entry_log_direct,
        )
        ledgers = Ledgers(
            WriteCache(limits.generation_bytes_max), index.ledgers(), limbo=index.in_limbo()
        )
        flusher = Flusher(disk, ledger_dir, index, log, limits.block_bytes_max, mark)
        journal, replayed = _replay(
            disk, journal_dir, mark, ledgers, flusher, limits, draw_salt, accept_loss
        )
    except BaseException:
        index.close()
        raise
    # What no record points to was written by a flush that a crash cut off; its entries came from the journal again.
    for log_id in ids:
        if log_id not in index.usage:
            disk.remove(log_path(ledger_dir, log_id))
    reader = EntryLogReader(disk, ledger_dir, limits.read_cache_bytes_max)
    return Storage(index, ledgers, log, reader, journal, flusher, replayed)


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
                    _apply(ledgers, record)
                    replayed += 1
                sequence += group.whole
                if ledgers.cache.full:
                    flusher.flush(begin_flush(ledgers, mark))
                    ledgers.cache.flushed()
    except JournalDamagedError:
        if not accept_loss:
            raise
        ledgers.enter_limbo()
        flusher.enter_limbo()
        sequence += 1 << 32  # above whatever the damaged part has used
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
    )
    for file_id, name, _ in live:
        writer.adopt(file_id, name)
        _sync(disk, f"{journal_dir}/{name}")
    begun = writer.begin_file()
    flusher.flush(begin_flush(ledgers, begun))
    ledgers.cache.flushed()
    writer.recycle(flusher.checkpoint())
    return writer, replayed


def _sync(disk: Disk, path: str) -> None:
    """The last group may be whole only in memory so far; the next file's header will say that it exists."""
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
        for offset, buf in _blocks(file, BLOCK):
            used = group_file_id(buf, 0)
            if used > newest:
                file.close()
                raise JournalDamagedError(
                    f"{journal_dir}/{name}: header is damaged, but at {offset} there is a group of file {used}"
                )
        file.close()


def _apply(ledgers: Ledgers, record: Record) -> None:
    match record.kind:
        case Kind.ADDS:
            for run in cut_frames(bytes(record.body)):
                ledgers.replay_adds(run)
        case Kind.FENCE:
            ledgers.replay_fence(*decode_fence(record.body))
        case Kind.EXPLICIT_LAC:
            ledgers.replay_lac(*decode_lac(record.body))
        case _:
            raise JournalDamagedError(f"journal record of unknown kind {record.kind}")


def read_groups(
    disk: Disk, path: str, header: FileHeader, offset: int, sequence: int
) -> Iterator[Group]:
    """Groups from ``offset`` on, of which the first must be ``sequence``.

    A torn tail yields its good records with ``whole`` False and ends. Raises JournalDamagedError when good groups
    follow a bad one.
    """
    file = disk.open(path)
    try:
        while True:
            group = _read_group(file, header, offset, sequence)
            if group is None or not group.whole:
                after = offset + BLOCK if group is None else group.next_offset
                later = _later_group(file, header, after, sequence)
                if later is not None:
                    raise JournalDamagedError(
                        f"{path}: group {sequence} at {offset} is damaged, group {later[1]} at {later[0]} is good"
                    )
                if group is not None:
                    yield group
                return
            yield group
            offset, sequence = group.next_offset, sequence + 1
    finally:
        file.close()


def _read_group(file: File, header: FileHeader, offset: int, sequence: int) -> Group | None:
    """None when no head of this sequence verifies at ``offset``."""
    buf = file.pread(HEAD_BYTES, offset)
    need = group_head_size(buf, 0)
    if need > len(buf):
        buf = file.pread(need, offset)
    head = decode_group_head(buf, 0, header)
    if head is None or head.sequence != sequence:
        return None
    if head.length > len(buf):
        buf = file.pread(head.length, offset)
    records, whole = _good_records(buf, head.bodies, head.descriptors)
    return Group(sequence, offset + padded(head.length), records, whole)


def _good_records(buf: bytes, pos: int, flat: tuple[int, ...]) -> tuple[list[Record], bool]:
    records: list[Record] = []
    view = memoryview(buf)
    for i in range(0, len(flat), 4):
        kind, size, count, crc = flat[i : i + 4]
        body = view[pos : pos + size]
        if len(body) != size or crc32c(body) != crc:
            return records, False
        records.append(Record(kind, body, count))
        pos += size
    return records, True


def _blocks(file: File, start: int) -> Iterator[tuple[int, bytes]]:
    """Offset and first bytes of each block from ``start`` on."""
    offset = start
    while chunk := file.pread(SCAN_BYTES, offset):
        for pos in range(0, len(chunk), BLOCK):
            yield offset + pos, chunk[pos : pos + BLOCK]
        offset += len(chunk)
        if len(chunk) < SCAN_BYTES:
            return


def _later_group(
    file: File, header: FileHeader, start: int, sequence: int
) -> tuple[int, int] | None:
    """Offset and sequence of a good group head after a bad group, if there is one."""
    for offset, buf in _blocks(file, start):
        need = group_head_size(buf, 0)
        if not need:
            continue
        head = decode_group_head(buf if need <= len(buf) else file.pread(need, offset), 0, header)
        if head is not None and head.sequence > sequence:
            return offset, head.sequence
    return None
