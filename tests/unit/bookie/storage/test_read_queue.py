"""Reads of stored entries: a job that stays in one block returns the same as an index lookup for each entry."""

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

import pytest

from bookie.storage.codes import Code
from bookie.storage.index.index import BookieIndex, Placed
from bookie.storage.logs.entry_log import EntryLogReader, EntryLogWriter
from bookie.storage.logs.entry_log_format import blocks_of
from bookie.storage.logs.log_files import LogFiles
from bookie.storage.read_queue import QueuedRead, ReadQueue, StoredEntries
from bookie.storage.runs import VIEWED_BYTES, cut_frames
from tests.sim.kit.disk import FaultDisk, InlineLane
from tests.support.bookies import add

T = TypeVar("T")


class Store:
    """Index and entry log without journal and cache."""

    def __init__(
        self, block_bytes: int = 400, read_ahead_bytes: int = 1 << 20, cache_bytes: int = 1 << 20
    ) -> None:
        self.disk = FaultDisk()
        self.disk.makedirs("/l")
        self.index = BookieIndex(self.disk.open_index("/l/index"))
        self.logs = LogFiles(self.disk, ["/l"])
        self.log = EntryLogWriter(self.logs, 16 << 20, direct=False)
        self.reader = EntryLogReader(self.disk, self.logs, cache_bytes)
        self.entries = StoredEntries(
            self.index, self.reader, lambda *damage: None, read_ahead_bytes
        )
        self.block_bytes = block_bytes

    def write(self, ledger: int, first: int, payloads: list[bytes]) -> None:
        frames = b"".join(add(ledger, first + i, payload) for i, payload in enumerate(payloads))
        blocks = list(blocks_of(cut_frames(frames), self.block_bytes))
        placed = zip(blocks, self.log.append(blocks), strict=True)
        self.index.put((Placed(b.ledger_id, b.first, place) for b, place in placed), [])


class Jobs(InlineLane):
    """A lane that runs a job when the test calls ``finish``."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[Callable[[], None]] = []

    def call(
        self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> None:
        self._waiting.append(lambda: done(work(), None))

    def finish(self) -> None:
        """Finish the oldest job."""
        self._waiting.pop(0)()


def asked(ledger: int, first: int, count: int = 1) -> QueuedRead:
    return QueuedRead(ledger, first, count, 1 << 20, lambda *_: None)


def test_a_job_answers_as_single_reads_do() -> None:
    draw = random.Random(3)
    store = Store()
    for ledger, first, count in ((1, 0, 30), (2, 5, 9), (1, 12, 7), (1, 40, 3), (2, 0, 2)):
        store.write(ledger, first, [draw.randbytes(draw.randrange(150)) for _ in range(count)])
    requests = [asked(draw.choice((1, 2, 3)), draw.randrange(45)) for _ in range(300)]
    requests += [asked(1, i) for i in range(45)] + [asked(1, 0, 100), asked(2, 3, 4)]
    for request, (code, entries) in zip(requests, store.entries.answer(requests), strict=True):
        alone = [
            store.entries.read(request.ledger_id, request.first + i)
            for i in range(request.entries_max)
        ]
        good = next((i for i, answer in enumerate(alone) if answer[0] != Code.OK), len(alone))
        assert code == (alone[0][0] if not good else Code.OK)
        assert entries == [entry for _, entry in alone[:good]]


def test_an_entry_rewritten_between_two_jobs_is_read() -> None:
    store = Store()
    store.write(1, 0, [b"old"] * 4)
    [(_, [before])] = store.entries.answer([asked(1, 1)])
    store.write(1, 1, [b"new"])
    [(_, [after])] = store.entries.answer([asked(1, 1)])
    assert before.endswith(b"old")
    assert after.endswith(b"new")


def in_order(store: Store, ledger: int, count: int, job: int = 1) -> list[bytes]:
    """Return entries that are read in order, in jobs of ``job`` requests."""
    payloads = []
    for first in range(0, count, job):
        for code, entries in store.entries.answer(
            [asked(ledger, first + i) for i in range(min(job, count - first))]
        ):
            assert code == Code.OK
            payloads += entries
    return payloads


@pytest.mark.parametrize("job", [1, 7, 64])
def test_a_ledger_read_in_order_is_read_in_ranges_each_once(job: int) -> None:
    store = Store(block_bytes=4 << 10, read_ahead_bytes=64 << 10)
    payloads = [b"%d" % i + bytes(1000) for i in range(900)]
    store.write(1, 0, payloads)
    size = sum(place.size for _, place in store.index.blocks(1))
    preads: list[int] = []
    store.disk.plan = lambda op, path: preads.append(1) if op == "pread" else None
    assert [entry[32:] for entry in in_order(store, 1, 900, job)] == payloads
    assert store.reader.misses < size / (64 << 10) + 6
    assert len(preads) == store.reader.misses + 1  # the file's header
    assert size <= store.reader.read_bytes < size * 1.1


def test_a_range_is_read_in_few_operations_and_within_its_budget() -> None:
    store = Store(block_bytes=4 << 10, read_ahead_bytes=64 << 10)
    payloads = [b"%d" % i + bytes(i % 3 * 700) for i in range(900)]
    store.write(1, 0, payloads)
    at = 0
    while at < 900:
        request = QueuedRead(1, at, 0, 100 << 10, lambda *_: None)
        [(code, entries)] = store.entries.answer([request])
        assert code == Code.OK
        assert [entry[32:] for entry in entries] == payloads[at : at + len(entries)]
        assert sum(len(entry) + 4 for entry in entries) <= 100 << 10
        at += len(entries)
        assert at == 900 or sum(len(e) + 4 for e in entries) > (100 << 10) - 2000
    assert store.reader.misses < 30


def test_reads_here_and_there_read_no_more_than_their_blocks() -> None:
    store = Store(block_bytes=4 << 10, read_ahead_bytes=64 << 10, cache_bytes=0)
    store.write(1, 0, [bytes(1000)] * 900)
    draw = random.Random(1)
    for _ in range(50):
        [(code, _)] = store.entries.answer([asked(1, draw.randrange(450) * 2)])
        assert code == Code.OK
    assert store.reader.read_bytes < 50 * (5 << 10) + (64 << 10)


def test_damage_in_a_read_ahead_fails_only_reads_of_the_damaged_block() -> None:
    store = Store(block_bytes=4 << 10, read_ahead_bytes=64 << 10)
    store.write(1, 0, [bytes(1000)] * 40)
    bad = store.index.blocks(1)[5]
    store.disk.damage(store.logs.path(bad[1].log_id), bad[1].offset + 200)
    for entry in range(40):
        [(code, _)] = store.entries.answer([asked(1, entry)])
        damaged = bad[0] <= entry < bad[0] + bad[1].entries
        assert code == (Code.IO if damaged else Code.OK), entry


def test_a_range_ends_before_damage_and_fails_when_it_begins_there() -> None:
    store = Store(block_bytes=4 << 10, read_ahead_bytes=64 << 10)
    store.write(1, 0, [bytes(1000)] * 40)
    first, place = store.index.blocks(1)[5]
    store.disk.damage(store.logs.path(place.log_id), place.offset + 200)
    [(code, entries)] = store.entries.answer([asked(1, 0, 40)])
    assert (code, len(entries)) == (Code.OK, first)
    assert store.entries.answer([asked(1, first, 40)]) == [(Code.IO, [])]


def test_a_block_that_is_not_the_one_the_index_means_is_an_error() -> None:
    store = Store(block_bytes=4 << 10)
    store.write(1, 0, [bytes(1000)] * 8)
    store.write(2, 0, [bytes(1000)] * 8)
    [(_, place), *_] = store.index.blocks(1)
    [(_, other), *_] = store.index.blocks(2)
    path, size = store.logs.path(place.log_id), place.size
    file = store.disk.open(path)
    file.pwritev([file.pread(size, other.offset)], place.offset)  # a misdirected write
    assert store.entries.answer([asked(1, 0)]) == [(Code.IO, [])]
    assert store.entries.answer([asked(2, 0)])[0][0] == Code.OK


def test_large_entries_are_answered_without_a_copy() -> None:
    store = Store(block_bytes=128 << 10)
    payloads = [bytes([i]) * VIEWED_BYTES for i in range(10)]
    store.write(7, 0, payloads)
    ((code, entries),) = store.entries.answer([asked(7, 0, 10)])
    assert code == Code.OK
    assert all(isinstance(entry, memoryview) for entry in entries)
    assert [bytes(entry[-VIEWED_BYTES:]) for entry in entries] == payloads


async def test_a_large_read_is_answered_before_the_next_read() -> None:
    store = Store(block_bytes=128 << 10)
    store.write(7, 0, [bytes([i]) * (200 << 10) for i in range(10)])
    answered: list[int] = []
    lane = Jobs()
    queue = ReadQueue(store.entries, lane, lambda error: None)
    for first in (0, 4, 8, 9):
        asks = 600 << 10 if first < 8 else 1
        queue.put(QueuedRead(7, first, 4, asks, lambda *_, first=first: answered.append(first)))
    seen = []
    for _ in range(3):
        await asyncio.sleep(0)
        lane.finish()
        seen.append(list(answered))
    assert seen == [[0], [0, 4], [0, 4, 8, 9]]
    assert queue.pending == 0
