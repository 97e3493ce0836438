"""Crashes at every disk operation of a workload: everything that the bookie answered survives."""

import random

import pytest

from bookie.storage.checkpoint import begin_flush
from bookie.storage.codes import Code
from bookie.storage.errors import DamagedError, DiskFullError, JournalDamagedError, StorageError
from bookie.storage.journal.journal_format import Record, RecordKind
from bookie.storage.logs.entry_log import EntryLogReader
from bookie.storage.logs.entry_log_format import FILE_HEADER_BYTES
from bookie.storage.logs.log_files import LogFiles
from bookie.storage.read_queue import StoredEntries
from bookie.storage.recover import Storage
from bookie.storage.runs import cut_frames
from tests.sim.kit.disk import Crashed, FaultDisk
from tests.support.storages import (
    JOURNAL,
    LEDGER,
    add,
    fence,
    flush,
    frame,
    fresh,
    opened,
    read,
)


class Workload:
    """Adds, re-adds, fences and flushes, with the answered and the pending ones."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.answered: dict[tuple[int, int], bytes] = {}
        self.fenced: dict[int, None] = {}
        self.attempted: dict[tuple[int, int], list[bytes]] = {}
        self.next = dict.fromkeys(range(4), 0)
        self.steps = 0

    def step(self, storage: Storage) -> None:
        self.steps += 1
        draw = self.draw.random()
        if draw < 0.75:
            self._add(storage, self.draw.randrange(4))
        elif draw < 0.80:
            ledger = self.draw.randrange(4)
            fence(storage, ledger)
            self.fenced[ledger] = None
        else:
            flush(storage, checkpoint=draw < 0.9)

    def _add(self, storage: Storage, ledger: int) -> None:
        again = self.draw.random() < 0.2 and self.next[ledger] > 0
        first = self.draw.randrange(self.next[ledger]) if again else self.next[ledger]
        count = self.draw.randrange(1, 12)
        payloads = [
            b"%d:%d:%d." % (ledger, first + i, self.steps) + bytes(self.draw.randrange(600))
            for i in range(count)
        ]
        for i, payload in enumerate(payloads):
            self.attempted.setdefault((ledger, first + i), []).append(payload)
        data = b"".join(frame(ledger, first + i, p) for i, p in enumerate(payloads))
        recovery = ledger in self.fenced
        if recovery and self.draw.random() < 0.5:
            assert add(storage, data) == Code.FENCED
            for i in range(count):
                self.attempted[ledger, first + i].pop()
            return
        assert add(storage, data, recovery=recovery) == Code.OK
        self.next[ledger] = max(self.next[ledger], first + count)
        for i, payload in enumerate(payloads):
            self.answered[ledger, first + i] = payload

    def check(self, storage: Storage) -> None:
        for (ledger, entry), payload in self.answered.items():
            got = read(storage, ledger, entry)
            # A copy that was under way when the machine stopped may have replaced the answered one.
            assert got == payload or got == self.attempted[ledger, entry][-1], (ledger, entry, got)
        for ledger in self.fenced:
            assert (
                storage.ledgers.add(next(cut_frames(frame(ledger, 10_000, b"late")))) == Code.FENCED
            )

    def settle(self, storage: Storage) -> None:
        """Take the entries that are readable after a crash as answered: they must stay."""
        for place in self.attempted:
            got = read(storage, *place)
            if isinstance(got, bytes):
                self.answered[place] = got
                self.attempted[place] = [got]
                self.next[place[0]] = max(self.next[place[0]], place[1] + 1)


def run_until_crash(disk: FaultDisk, work: Workload, steps: int) -> None:
    try:
        storage = opened(disk, seed=disk.operations)
        work.settle(storage)
        for _ in range(steps):
            work.step(storage)
    except Crashed:
        pass


@pytest.mark.parametrize("keeps", ["nothing", "some", "all"])
def test_answered_adds_and_fences_survive_a_crash_at_every_disk_operation(keeps: str) -> None:
    steps = 60
    whole = fresh()
    run_until_crash(whole, Workload(7), steps)
    total = whole.operations
    assert total > 100
    for at in range(fresh().operations, total, 3 if keeps == "some" else 5):
        disk, work, chance = fresh(), Workload(7), random.Random(at)

        def plan(op: str, path: str, disk: FaultDisk = disk, at: int = at) -> int | None:
            if disk.operations < at:
                return None
            if op == "pwritev" and at % 2:
                return at * 37 % 5000  # torn write
            raise Crashed(f"{op} {path}")

        disk.plan = plan
        run_until_crash(disk, work, steps)
        disk.crash(
            {"nothing": lambda: False, "all": lambda: True}.get(
                keeps, lambda c=chance: c.random() < 0.5
            )
        )
        if at % 3 == 1:
            disk.drop_index(f"{LEDGER}/index")  # the machine stopped, and that did not survive it
        storage = opened(disk, seed=at)
        assert not storage.entries.in_limbo()
        work.check(storage)
        if at % 4 == 0:
            work.settle(storage)
            disk.crash()
            disk.drop_index(f"{LEDGER}/index")
            work.check(opened(disk, seed=at + 1))


def test_crashes_one_after_another_lose_nothing() -> None:
    disk, work, chance = fresh(), Workload(11), random.Random(5)
    for _ in range(40):
        stop = disk.operations + chance.randrange(1, 120)

        def plan(op: str, path: str, stop: int = stop) -> int | None:
            if disk.operations < stop:
                return None
            if op == "pwritev" and chance.random() < 0.5:
                return chance.randrange(6000)
            raise Crashed(op)

        disk.plan = plan
        run_until_crash(disk, work, 30)
        disk.crash(lambda: chance.random() < 0.5)
        storage = opened(disk, seed=stop)
        work.check(storage)
        disk.crash(lambda: chance.random() < 0.5)
    assert len(work.answered) > 200


def test_a_torn_tail_is_cut_and_never_appended_to() -> None:
    disk = fresh()
    storage = opened(disk)
    assert add(storage, frame(1, 0, b"kept")) == Code.OK
    disk.plan = lambda op, path: 60 if op == "pwritev" else None
    with pytest.raises(Crashed):
        add(storage, frame(1, 1, b"torn" * 100))
    disk.crash(lambda: True)
    storage = opened(disk, seed=2)
    assert read(storage, 1, 0) == b"kept"
    assert read(storage, 1, 1) == Code.NO_ENTRY
    assert add(storage, frame(1, 1, b"again")) == Code.OK
    disk.crash()
    assert read(opened(disk, seed=3), 1, 1) == b"again"


def journal_file(disk: FaultDisk, storage: Storage) -> str:
    storage.journal.close()
    [path] = [f"{JOURNAL}/{name}" for name in storage.journal._in_use.values()]
    return path


@pytest.mark.parametrize("byte", [0, 30, 100, 200])
def test_a_damaged_group_before_good_ones_refuses_to_start(byte: int) -> None:
    disk = fresh()
    storage = opened(disk)
    for entry in range(3):
        assert add(storage, frame(1, entry, b"x" * 100)) == Code.OK
    path = journal_file(disk, storage)
    disk.crash()
    disk.damage(path, 4096 + byte)
    with pytest.raises(JournalDamagedError, match="group"):
        opened(disk)


@pytest.mark.parametrize("size", [2 * 4096, 2 * 4096 + 100, 4 * 4096])
def test_a_journal_file_that_became_shorter_refuses_to_start(size: int) -> None:
    disk = fresh()
    storage = opened(disk)
    for entry in range(3):
        assert add(storage, frame(1, entry, b"x" * 100)) == Code.OK
    path = journal_file(disk, storage)
    disk.crash()
    file = disk.open(path)
    file.truncate(size)
    file.fdatasync()
    with pytest.raises(JournalDamagedError, match="its end is lost"):
        opened(disk)


def test_accepted_loss_fences_everything_and_denies_nothing() -> None:
    disk = fresh()
    storage = opened(disk)
    for entry in range(3):
        assert add(storage, frame(1, entry, b"x" * 100)) == Code.OK
        flush(storage, checkpoint=entry == 0)
    path = [f"{JOURNAL}/{name}" for name in storage.journal._in_use.values()][-1]
    disk.crash()
    disk.damage(path, 2 * 4096 + 100)
    storage = opened(disk, accept_loss=True, seed=9)
    assert read(storage, 1, 0) == b"x" * 100
    assert read(storage, 1, 1) == Code.LIMBO
    assert read(storage, 77, 0) == Code.LIMBO
    assert add(storage, frame(1, 9, b"")) == Code.FENCED
    disk.crash()
    storage = opened(disk, seed=10)
    assert read(storage, 1, 2) == Code.LIMBO
    assert read(storage, 78, 0) == Code.LIMBO
    assert add(storage, frame(1, 9, b"")) == Code.FENCED


def test_a_missing_journal_file_refuses_to_start() -> None:
    disk = fresh()
    storage = opened(disk)
    add(storage, frame(1, 0, b"x"))
    path = journal_file(disk, storage)
    disk.crash()
    disk.remove(path)
    disk.sync_dir(JOURNAL)
    with pytest.raises(JournalDamagedError, match="missing"):
        opened(disk)


def test_a_damaged_header_of_a_used_file_refuses_to_start() -> None:
    disk = fresh()
    storage = opened(disk)
    add(storage, frame(1, 0, b"x"))
    path = journal_file(disk, storage)
    disk.crash()
    disk.damage(path, 20)
    with pytest.raises(JournalDamagedError):
        opened(disk)


def test_a_lost_mark_refuses_to_start() -> None:
    disk = fresh()
    add(opened(disk), frame(1, 0, b"x"))
    disk.crash()
    disk.damage(f"{LEDGER}/lastMark", 12)
    with pytest.raises(DamagedError, match="lastMark"):
        opened(disk)


def test_recycled_journal_files_never_replay_what_an_earlier_use_held() -> None:
    disk = fresh()
    storage = opened(disk)
    for entry in range(100):  # many rolls over few files
        assert add(storage, frame(1, entry, b"old%d" % entry + bytes(2000))) == Code.OK
        if entry % 10 == 9:
            flush(storage)
    deleted = storage.ledgers.delete(1, 1000)
    assert deleted is not None
    storage.entries.delete(deleted)
    flush(storage)
    disk.crash()
    storage = opened(disk, seed=4)
    assert storage.replayed == 0
    assert len(disk.listdir(JOURNAL)) <= 7
    assert read(storage, 1, 5) == Code.NO_LEDGER
    assert add(storage, frame(1, 200, b"late")) == Code.FENCED


def test_a_failed_sync_is_final() -> None:
    disk = fresh()
    storage = opened(disk)

    def plan(op: str, path: str) -> None:
        if op == "fdatasync":
            raise OSError(5, "Input/output error")

    disk.plan = plan
    with pytest.raises(OSError, match="Input/output"):
        storage.journal.write_group([Record(RecordKind.ADDS, frame(1, 0, b"x"), 1)])
    disk.plan = None
    with pytest.raises(StorageError, match="failed earlier"):
        storage.journal.write_group([Record(RecordKind.ADDS, frame(1, 0, b"x"), 1)])


def test_a_full_disk_refuses_a_group_and_keeps_the_journal_usable() -> None:
    disk = fresh()
    storage = opened(disk)
    used = disk.capacity_bytes - disk.free_bytes("/")
    disk.capacity_bytes = used + 1000
    refused = 0
    for entry in range(40):
        try:
            storage.journal.write_group([Record(RecordKind.ADDS, frame(1, entry, bytes(3000)), 1)])
        except DiskFullError:
            refused += 1
    assert refused > 0
    disk.capacity_bytes = 1 << 30
    storage.journal.write_group([Record(RecordKind.ADDS, frame(1, 99, b"after"), 1)])
    disk.crash()
    assert read(opened(disk, seed=3), 1, 99) == b"after"


def test_a_flush_that_met_a_full_disk_is_tried_again_without_loss() -> None:
    disk = fresh()
    storage = opened(disk)
    for entry in range(3):
        add(storage, frame(1, entry, bytes(1000)))
    work = begin_flush(storage.ledgers, storage.journal.mark)
    room, disk.capacity_bytes = (
        disk.capacity_bytes,
        disk.capacity_bytes - disk.free_bytes("/") + 1500,
    )
    with pytest.raises(OSError, match="No space"):
        storage.flusher.flush(work)
    assert read(storage, 1, 2) == bytes(1000)
    disk.capacity_bytes = room
    storage.flusher.flush(work)
    storage.ledgers.cache.flushed()
    storage.flusher.checkpoint()
    disk.crash()
    storage = opened(disk, seed=3)
    assert [read(storage, 1, entry) for entry in range(3)] == [bytes(1000)] * 3


def test_a_disk_still_full_after_the_begun_log_was_collected_is_no_damage() -> None:
    disk = fresh()
    storage = opened(disk)
    add(storage, frame(1, 0, bytes(1000)))
    work = begin_flush(storage.ledgers, storage.journal.mark)
    room, disk.capacity_bytes = (
        disk.capacity_bytes,
        disk.capacity_bytes - disk.free_bytes("/") + FILE_HEADER_BYTES,
    )
    with pytest.raises(OSError, match="No space"):
        storage.flusher.flush(work)
    dead = storage.logs.unreferenced(storage.entries.usage)
    assert dead  # what the flush had begun holds nothing that counts
    storage.logs.remove(dead)
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes("/")
    with pytest.raises(OSError, match="No space"):
        storage.flusher.flush(work)
    disk.capacity_bytes = room
    storage.flusher.flush(work)
    assert read(storage, 1, 0) == bytes(1000)


def test_a_flipped_bit_in_an_entry_log_is_an_error_not_an_absence() -> None:
    disk = fresh()
    storage = opened(disk)
    add(storage, frame(1, 0, b"x" * 500))
    flush(storage)
    [log] = [name for name in disk.listdir(LEDGER) if name.endswith(".log")]
    for offset in (*range(0, 40, 3), *range(FILE_HEADER_BYTES, FILE_HEADER_BYTES + 600, 13)):
        disk.damage(f"{LEDGER}/{log}", offset)
        reader = StoredEntries(storage.entries, opened_reader(disk), lambda *_: None)
        code, data = reader.read(1, 0)
        padding = 24 <= offset < FILE_HEADER_BYTES
        assert (code, data[32:]) == ((Code.OK, b"x" * 500) if padding else (Code.IO, b""))
        disk.damage(f"{LEDGER}/{log}", offset)


def opened_reader(disk: FaultDisk) -> EntryLogReader:
    return EntryLogReader(disk, LogFiles(disk, [LEDGER]), 1 << 20)
