"""Dump a stopped bookie's files for people: ``python -m bookie.tools.inspect {journal|log|index|mark} PATH``.

``journal`` takes a journal file, ``log`` an entry log, ``index`` and ``mark`` the ledger directory's ``current``.
"""

import argparse
import sys
from collections.abc import Iterator

from bookie.storage.entry_log_format import (
    FILE_HEADER_BYTES,
    PAGE,
    block_size,
    decode_block,
    decode_file_header,
)
from bookie.storage.errors import DamagedError
from bookie.storage.files import Disk, SystemDisk
from bookie.storage.index import DELETED, FENCED, LIMBO, BookieIndex
from bookie.storage.journal_format import BLOCK, Kind, decode_fence, decode_lac
from bookie.storage.journal_format import decode_file_header as decode_journal_header
from bookie.storage.journal_reader import read_groups
from bookie.storage.ledgers import lac_of
from bookie.storage.mark import read_mark
from bookie.storage.runs import cut_frames
from engine.base.errors import MagnetarError

FLAGS = ((FENCED, "fenced"), (LIMBO, "limbo"), (DELETED, "deleted"))


def journal_lines(disk: Disk, path: str) -> Iterator[str]:
    """Groups, records and runs of one journal file. Raises DamagedError."""
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
            if record.kind == Kind.FENCE:
                yield f"  fence ledger={decode_fence(record.body)[0]}"
            elif record.kind == Kind.EXPLICIT_LAC:
                ledger_id, _, body = decode_lac(record.body)
                yield f"  explicit LAC ledger={ledger_id} lac={lac_of(body)}"
            elif record.kind == Kind.ADDS:
                for run in cut_frames(bytes(record.body)):
                    yield f"  add {run.ledger_id}:{run.first}..{run.below - 1} bytes={run.stop - run.start}"
            else:
                yield f"  unknown kind {record.kind} bytes={len(record.body)}"


def log_lines(disk: Disk, path: str) -> Iterator[str]:
    """Blocks of an entry log up to the first that does not verify."""
    file = disk.open(path)
    size = file.size()
    log_id = decode_file_header(file.pread(FILE_HEADER_BYTES, 0))
    yield f"log id={log_id if log_id is not None else 'DAMAGED'} bytes={size}"
    offset = FILE_HEADER_BYTES
    while offset < size:
        head = file.pread(64, offset)
        if offset % PAGE and not any(head[: PAGE - offset % PAGE]):
            offset += PAGE - offset % PAGE  # a write ended here
            continue
        length = block_size(head)
        block = decode_block(file.pread(length, offset)) if length else None
        if block is None:
            yield f"offset={offset} DAMAGED or never finished, {size - offset} bytes left"
            break
        last = block.first + len(block.table) - 1
        yield f"offset={offset} {block.ledger_id}:{block.first}..{last} bytes={len(block.data)}"
        offset += length
    file.close()


def index_lines(disk: Disk, directory: str) -> Iterator[str]:
    """Ledgers, their blocks, and the use of logs."""
    index = BookieIndex(disk.open_index(f"{directory}/index"))
    try:
        yield f"identity {(index.identity() or b'MISSING').decode(errors='replace')!r}"
        for record in index.ledgers():
            flags = " ".join(name for flag, name in FLAGS if record.flags & flag)
            yield f"ledger {record.ledger_id} last={record.last} {flags}".rstrip() + (
                f" explicit_lac={lac_of(record.explicit_lac)}" if record.explicit_lac else ""
            )
            for first, place in index.blocks(record.ledger_id):
                yield (
                    f"  {first}..{first + place.entries - 1} log={place.log_id:08x} "
                    f"offset={place.offset} size={place.size}"
                )
        for log_id, used in sorted(index.usage.items()):
            yield f"log {log_id:08x} ledgers={len(used)} bytes={sum(used.values())}"
    finally:
        index.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bookie.tools.inspect", description=__doc__)
    parser.add_argument("what", choices=["journal", "log", "index", "mark"])
    parser.add_argument("path")
    arguments = parser.parse_args()
    disk = SystemDisk()
    lines = {"journal": journal_lines, "log": log_lines, "index": index_lines}
    try:
        if arguments.what == "mark":
            print(read_mark(disk, arguments.path))
        else:
            for line in lines[arguments.what](disk, arguments.path):
                print(line)
    except (MagnetarError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
