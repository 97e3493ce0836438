"""Print a stopped bookie's files as text: ``python -m bookie.tools.inspect WHAT PATH…``.

``journal`` takes a journal file, ``log`` an entry log, ``index``, ``mark`` and ``manifest`` the ``current`` of the
first ledger directory. ``bookie`` takes the journal directory's ``current`` and those of all ledger directories, and
prints a summary.
"""

import sys
from collections.abc import Iterator, Sequence

from bookie.storage.compaction import candidates
from bookie.storage.errors import DamagedError
from bookie.storage.index.index import DELETED, FENCED, LIMBO, PINNED, BookieIndex, LedgerRecord
from bookie.storage.index.manifest import read_manifest
from bookie.storage.journal.journal import read_headers
from bookie.storage.journal.journal_format import (
    BLOCK,
    Record,
    RecordKind,
    decode_fence,
    decode_lac,
)
from bookie.storage.journal.journal_format import decode_file_header as decode_journal_header
from bookie.storage.journal.journal_reader import read_groups
from bookie.storage.ledgers import lac_of
from bookie.storage.logs.entry_log_format import FILE_HEADER_BYTES, decode_file_header
from bookie.storage.logs.log_files import LogFiles
from bookie.storage.mark import read_mark
from bookie.storage.rebuild import read_log
from bookie.storage.runs import cut_frames
from engine.base.disk.index_disk import IndexDisk, SystemIndexDisk
from engine.base.errors import MagnetarError
from engine.base.settings import ProgramParser

FLAGS = ((FENCED, "fenced"), (LIMBO, "limbo"), (DELETED, "deleted"))


def journal_lines(disk: IndexDisk, path: str) -> Iterator[str]:
    """Yield groups, records and runs of one journal file. Raises DamagedError."""
    file = disk.open(path)
    header = decode_journal_header(file.pread(BLOCK, 0))
    file.close()
    if header is None:
        raise DamagedError(f"{path}: header does not verify")
    yield f"file id={header.file_id} first_group={header.first_sequence}"
    offset = BLOCK
    for group in read_groups(disk, path, header, offset, header.first_sequence):
        yield f"group {group.sequence} offset={offset} records={len(group.records)}" + (
            "" if group.whole else " TORN"
        )
        offset = group.next_offset
        for record in group.records:
            yield from _record_lines(record)


def _record_lines(record: Record) -> Iterator[str]:
    if record.kind == RecordKind.FENCE:
        yield f"  fence ledger={decode_fence(record.body)[0]}"
    elif record.kind == RecordKind.EXPLICIT_LAC:
        ledger_id, _, body = decode_lac(record.body)
        yield f"  explicit LAC ledger={ledger_id} lac={lac_of(body)}"
    elif record.kind == RecordKind.ADDS:
        for run in cut_frames(bytes(record.body)):
            yield f"  add {run.ledger_id}:{run.first}..{run.below - 1} bytes={run.stop - run.start}"
    else:
        yield f"  unknown kind {record.kind} bytes={len(record.body)}"


def log_lines(disk: IndexDisk, path: str) -> Iterator[str]:
    """Yield the blocks of an entry log, and the unreadable ranges between and behind them."""
    file = disk.open(path)
    size = file.size()
    log_id = decode_file_header(file.pread(FILE_HEADER_BYTES, 0))
    yield f"log id={log_id if log_id is not None else 'DAMAGED'} bytes={size}"
    for piece in read_log(file, size):
        if piece.head is None:
            yield f"offset={piece.offset} DAMAGED or never finished bytes={piece.size}"
            continue
        ledger_id, first, entries, _ = piece.head
        yield (
            f"offset={piece.offset} {ledger_id}:{first}..{first + entries - 1} bytes={piece.size}"
            + ("" if piece.block is not None else " DAMAGED")
        )
    file.close()


def index_lines(disk: IndexDisk, directory: str) -> Iterator[str]:
    """Yield ledgers, their blocks, and the use of logs."""
    index = BookieIndex(disk.open_index(f"{directory}/index"))
    try:
        yield f"identity {(index.identity() or b'MISSING').decode(errors='replace')!r}"
        if index.in_limbo():
            yield "limbo: entries of any ledger may have been lost"
        for record in index.records():
            yield ledger_line(record)
            for first, place in index.blocks(record.ledger_id):
                yield (
                    f"  {first}..{first + place.entries - 1} log={place.log_id:08x} "
                    f"offset={place.offset} size={place.size} share={place.share}"
                )
        for log_id, used in sorted(index.usage.items()):
            live = {ledger_id: size for ledger_id, size in used.items() if ledger_id != PINNED}
            yield f"log {log_id:08x} ledgers={len(live)} bytes={sum(live.values())}" + (
                " PINNED: part of it cannot be read" if PINNED in used else ""
            )
    finally:
        index.close()


def ledger_line(record: LedgerRecord) -> str:
    flags = "".join(f" {name}" for flag, name in FLAGS if record.flags & flag)
    lac = f" explicit_lac={lac_of(record.explicit_lac)}" if record.explicit_lac else ""
    return f"ledger {record.ledger_id} last={record.last}{flags}{lac}"


def mark_lines(disk: IndexDisk, directory: str) -> Iterator[str]:
    mark, manifest = read_mark(disk, directory)
    yield f"mark file={mark.file_id} offset={mark.offset} group={mark.sequence}"
    yield f"manifest number={manifest.number} bytes={manifest.size}"


def manifest_lines(disk: IndexDisk, directory: str) -> Iterator[str]:
    """Yield the state from which an index would be rebuilt. Raises DamagedError."""
    place = read_mark(disk, directory).manifest
    state = read_manifest(disk, directory, place)
    yield f"manifest number={place.number} synced={place.size} verified={state.size}" + (
        " limbo" if state.limbo else ""
    )
    for log_id, end in sorted(state.ends.items()):
        yield f"log {log_id:08x} " + (f"end={end}" if end else "removed")
    for _, record in sorted(state.ledgers.items()):
        yield ledger_line(record)


def bookie_lines(disk: IndexDisk, journal_dir: str, ledger_dirs: list[str]) -> Iterator[str]:
    """Yield a summary of a bookie: journals and where replay starts, logs with their live share, ledgers, disk
    space."""
    checkpoint = read_mark(disk, ledger_dirs[0])
    yield from mark_lines(disk, ledger_dirs[0])
    for name, header in sorted(read_headers(disk, journal_dir).items()):
        if header is None:
            yield f"journal {name} never used, or its header is damaged"
        else:
            used = "needed" if header.file_id >= checkpoint.mark.file_id else "to be used again"
            yield f"journal {name} id={header.file_id} first_group={header.first_sequence} {used}"
    logs = LogFiles(disk, ledger_dirs)
    index = BookieIndex(disk.open_index(f"{ledger_dirs[0]}/index"))
    try:
        logs.ends.update(index.ends())
        yield from _use_lines(index, logs)
        records = index.records()
        counts = [f"{name}={sum(bool(r.flags & flag) for r in records)}" for flag, name in FLAGS]
        yield f"ledgers {len(records)} {' '.join(counts)}"
    finally:
        index.close()
    for directory in [journal_dir, *ledger_dirs]:
        free, total = disk.free_bytes(directory), disk.total_bytes(directory)
        yield f"disk {directory} free={free} total={total} used={1 - free / max(total, 1):.3f}"


def _use_lines(index: BookieIndex, logs: LogFiles) -> Iterator[str]:
    live_logs = {candidate.log_id: candidate for candidate in candidates(index, logs, 2.0)}
    for log_id in sorted({*logs.ids(), *index.usage}):
        if log_id not in logs:
            yield f"log {log_id:08x} MISSING, the index names it"
        elif index.is_pinned(log_id):
            yield f"log {log_id:08x} {logs.directory(log_id)} kept: part of it cannot be read"
        elif log_id not in live_logs:
            yield f"log {log_id:08x} {logs.directory(log_id)} dead, to be removed"
        else:
            candidate = live_logs[log_id]
            yield (
                f"log {log_id:08x} {logs.directory(log_id)} bytes={candidate.size} live={candidate.live} "
                f"share={candidate.share:.3f} ledgers={len(candidate.ledgers)}"
            )


def main(argv: Sequence[str]) -> int:
    parser = ProgramParser(prog="magnetar bookie inspect", description=__doc__)
    lines = {
        "journal": journal_lines,
        "log": log_lines,
        "index": index_lines,
        "mark": mark_lines,
        "manifest": manifest_lines,
    }
    parser.add_argument("what", choices=[*lines, "bookie"])
    parser.add_argument("path", nargs="+")
    arguments = parser.parse_args(argv)
    disk = SystemIndexDisk()
    try:
        if arguments.what == "bookie":
            if len(arguments.path) < 2:
                parser.error("bookie: needs the journal's and at least one ledger directory")
            output = bookie_lines(disk, arguments.path[0], arguments.path[1:])
        elif len(arguments.path) > 1:
            parser.error(f"{arguments.what}: takes one path")
        else:
            output = lines[arguments.what](disk, arguments.path[0])
        for line in output:
            print(line)
    except (MagnetarError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
