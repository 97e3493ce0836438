"""Entry logs on a real disk: written blocks are read again, past the page cache or through it."""

import random
from pathlib import Path

import pytest

from bookie.storage.logs.entry_log import EntryLogReader, EntryLogWriter
from bookie.storage.logs.entry_log_format import PAGE, blocks_of
from bookie.storage.logs.log_files import LogFiles
from bookie.storage.runs import cut_frames
from bookie.tools.inspect import log_lines
from engine.base.disk.files import STAGING_BYTES, SystemDisk
from tests.support.bookies import add


def frames(ledger: int, first: int, sizes: list[int]) -> bytes:
    return b"".join(add(ledger, first + i, b"x" * size) for i, size in enumerate(sizes))


@pytest.mark.parametrize("direct", [True, False])
def test_every_write_is_whole_pages_and_every_block_is_found_again(
    tmp_path: Path, direct: bool
) -> None:
    disk = SystemDisk()
    logs = LogFiles(disk, [str(tmp_path)])
    logs.skip_to(7)
    writer = EntryLogWriter(logs, 1 << 30, direct=direct)
    reader = EntryLogReader(disk, logs, 1 << 20)
    blocks, places = [], []
    for ledger, sizes in ((1, [10, 4096, 0]), (2, [1 << 20, 1 << 20, 5]), (3, [70])):
        some = list(blocks_of(cut_frames(frames(ledger, 0, sizes)), 1 << 19))
        places += writer.append(some)
        blocks += some
        assert Path(logs.path(7)).stat().st_size % PAGE == 0
    writer.leave()
    for block, place in zip(blocks, places, strict=True):
        stored = reader.read(place)
        assert (stored.ledger_id, stored.first) == (block.ledger_id, block.first)
        assert stored.data == b"".join(block.parts)
    reader.close()
    lines = list(log_lines(disk, logs.path(7)))
    assert len(lines) == 1 + len(blocks)
    assert not [line for line in lines if "DAMAGED" in line]


def test_a_file_past_the_page_cache_is_read_from_anywhere_to_anywhere(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(3 * STAGING_BYTES + 8192)
    path = str(tmp_path / "file")
    Path(path).write_bytes(content)
    file = SystemDisk().open(path, direct=True)
    for offset, size in (
        (0, 1),
        (4095, 2),
        (1, STAGING_BYTES),
        (4097, 2 * STAGING_BYTES + 5),
        (len(content) - 3, 10),
        (len(content) + 5000, 10),
    ):
        assert file.pread(size, offset) == content[offset : offset + size]
        assert file.peek(size, offset) == content[offset : offset + size]
    file.close()
