"""Parsers of the files: every truncation and every flipped bit is detected."""

import random
import struct

import pytest

from bookie.storage.journal import journal_format
from bookie.storage.journal.journal_format import (
    BLOCK,
    FileHeader,
    Mark,
    Record,
    RecordKind,
    decode_group_head,
    decode_mark,
    encode_group,
)
from bookie.storage.logs import entry_log_format
from bookie.storage.logs.entry_log_format import blocks_of, decode_block
from bookie.storage.recover import read_groups
from bookie.storage.runs import cut_frames
from bookie.storage.write_cache import LedgerRuns
from engine.base.crc32c import crc32c
from engine.base.slices import AddRun
from tests.sim.kit.disk import FaultDisk
from tests.support.bookies import KEY, add

HEADER = FileHeader(7, 0x1234_5678_9ABC_DEF0, 3, 8192)


def frames(ledger: int, first: int, sizes: list[int]) -> bytes:
    return b"".join(add(ledger, first + i, bytes([i % 256]) * size) for i, size in enumerate(sizes))


def test_a_journal_file_header_round_trips_and_no_flip_passes() -> None:
    block = HEADER.encode()
    assert len(block) == BLOCK
    assert journal_format.decode_file_header(block) == HEADER
    for i in range(52):
        bad = bytearray(block)
        bad[i] ^= 0x10
        assert journal_format.decode_file_header(bytes(bad)) is None
        assert journal_format.decode_file_header(block[:i]) is None


def test_a_journal_file_header_of_the_first_version_is_read() -> None:
    head = struct.pack(">8sIIQQQ", b"MGJOURN1", 1, BLOCK, 7, 8, 3)
    block = (head + crc32c(head).to_bytes(4, "big")).ljust(BLOCK, b"\0")
    assert journal_format.decode_file_header(block) == FileHeader(7, 8, 3, file_bytes=0)
    assert journal_format.decode_file_header(block[:30] + b"x" + block[31:]) is None


def test_a_mark_round_trips_and_no_flip_or_cut_passes() -> None:
    data = Mark(3, 8192, 99).encode()
    assert decode_mark(data) == Mark(3, 8192, 99)
    for i in range(len(data)):
        bad = bytearray(data)
        bad[i] ^= 1
        assert decode_mark(bytes(bad)) is None
        assert decode_mark(data[:i]) is None


def test_every_cut_and_flip_of_a_group_yields_only_its_good_records() -> None:
    bodies = [frames(1, 0, [10, 200]), frames(2, 5, [0]), frames(1, 2, [700])]
    parts, size = encode_group(7, HEADER.salt, 3, [Record(RecordKind.ADDS, b, 1) for b in bodies])
    group = b"".join(parts)
    assert len(group) == size == 4096
    for i in range(0, 44 + 48 + sum(map(len, bodies)), 3):
        for data in (
            group[:i] + bytes(4096 - i),
            group[:i] + bytes([group[i] ^ 4]) + group[i + 1 :],
        ):
            if data == group:
                continue
            disk = FaultDisk()
            disk.makedirs("/j")
            disk.open("/j/f", create=True).pwritev([HEADER.encode(), data], 0)
            groups = list(read_groups(disk, "/j/f", HEADER, BLOCK, 3))
            assert not [g for g in groups if g.whole]
            for group_read in groups:
                kept = [bytes(record.body) for record in group_read.records]
                assert kept == bodies[: len(kept)]
                assert len(kept) < len(bodies)


def test_a_group_of_another_use_of_the_file_is_not_taken() -> None:
    parts, _ = encode_group(7, HEADER.salt, 3, [Record(RecordKind.ADDS, b"x", 1)])
    data = b"".join(parts)
    assert decode_group_head(data, 0, HEADER) is not None
    assert decode_group_head(data, 0, HEADER._replace(file_id=8)) is None
    assert decode_group_head(data, 0, HEADER._replace(salt=1)) is None


def test_cut_frames_finds_runs_and_refuses_every_truncation() -> None:
    data = frames(1, 0, [5, 0, 9]) + frames(1, 7, [1]) + frames(2, 8, [1])
    runs = list(cut_frames(data))
    assert [(r.ledger_id, r.first, r.count) for r in runs] == [(1, 0, 3), (1, 7, 1), (2, 8, 1)]
    assert all(run.master_key == KEY for run in runs)
    whole = {0}
    for run in runs:
        whole |= {run.end(i) for i in range(run.count)}
    for cut in set(range(len(data))) - whole:
        with pytest.raises(ValueError, match="add frame at"):
            list(cut_frames(data[:cut]))


@pytest.mark.parametrize("limit", [100, 300, 1000, 100_000])
def test_blocks_hold_every_entry_once_within_the_limit(limit: int) -> None:
    draw = random.Random(limit)
    runs: list[AddRun] = []
    entry = 0
    for _ in range(30):
        if draw.random() < 0.2:
            entry += draw.randrange(5)
        runs += cut_frames(
            frames(4, entry, [draw.randrange(400) for _ in range(draw.randrange(1, 9))])
        )
        entry = runs[-1].below
    expected = {
        run.first + i: run.buf[run.offsets[i] : run.end(i)]
        for run in runs
        for i in range(run.count)
    }
    seen = {}
    for block in blocks_of(runs, limit):
        parts, size = block.encode()
        data = b"".join(parts)
        assert len(data) == size == entry_log_format.block_size(data)
        assert block.length <= limit or len(block.table) == 1
        stored = decode_block(data)
        assert stored is not None
        for i in range(len(stored.table)):
            assert block.first + i not in seen
            seen[block.first + i] = stored.entry(block.first + i)
        assert stored.entry(block.below) is None
    assert seen == expected


def test_every_cut_and_flip_of_a_block_is_noticed() -> None:
    [block] = blocks_of(cut_frames(frames(1, 0, [3, 30, 0])), 4096)
    data = b"".join(block.encode()[0])
    for i in range(len(data)):
        assert decode_block(data[:i]) is None
        assert decode_block(data[:i] + bytes([data[i] ^ 0x80]) + data[i + 1 :]) is None


def test_the_latest_copy_of_an_entry_wins_in_the_cache() -> None:
    draw = random.Random(1)
    runs, model = LedgerRuns(), {}
    for step in range(60):
        first = draw.randrange(40)
        count = draw.randrange(1, 6)
        data = b"".join(add(1, first + i, b"%d" % step) for i in range(count))
        [run] = cut_frames(data)
        runs.add(run)
        model |= dict.fromkeys(range(first, first + count), b"%d" % step)
        for entry in range(50):
            place = runs.find(entry)
            got = (
                None
                if place is None
                else place[0].buf[place[0].offsets[place[1]] + 32 : place[0].end(place[1])]
            )
            assert got == model.get(entry)
    flat = [
        (run.first + i, run.buf[run.offsets[i] + 32 : run.end(i)])
        for run in runs.resolved()
        for i in range(run.count)
    ]
    assert flat == sorted(model.items())
