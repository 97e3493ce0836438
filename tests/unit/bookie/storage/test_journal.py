"""The journal: what one sync covers, files made ready ahead, and a failed sync that is final."""

import asyncio
from typing import Any

import pytest

from bookie.storage.codes import Code
from bookie.storage.errors import DiskFullError, JournalDamagedError
from bookie.storage.journal.journal import Journal, journal_names
from bookie.storage.journal.journal_format import RecordKind
from bookie.storage.recover import Storage
from tests.sim.kit.disk import Crashed, FaultDisk, InlineLane
from tests.support.storages import (
    JOURNAL,
    LEDGER,
    BackgroundWork,
    add,
    flush,
    frame,
    fresh,
    opened,
    read,
)


class Loop:
    """A journal before an open storage, and the order of the answers."""

    def __init__(self, storage: Storage, disk: FaultDisk, **bounds: int) -> None:
        self.lane = InlineLane()
        self.journal = Journal(storage.journal, self.lane, self._failed, **bounds)
        self.answered: list[Any] = []
        self.failed: BaseException | None = None
        self.syncs: list[str] = []
        disk.plan = self._plan

    def _plan(self, op: str, path: str) -> None:
        if op == "fdatasync" and path.startswith(JOURNAL):
            self.syncs.append(path)

    def _failed(self, error: BaseException) -> None:
        self.failed = error

    def append(self, entry: int, size: int, entries: int = 1) -> None:
        body = frame(1, entry, bytes(size))
        self.journal.append(
            RecordKind.ADDS, body, entries, lambda error: self.answered.append((entry, error))
        )


async def test_a_group_is_what_arrived_during_the_last_sync() -> None:
    disk = fresh()
    loop = Loop(opened(disk), disk)
    for entry in range(5):
        loop.append(entry, 100)
    await loop.journal.drain()
    assert len(loop.syncs) == loop.journal.groups == 1
    for entry in range(5, 8):
        loop.append(entry, 100)
        await loop.journal.drain()
    assert loop.journal.groups == 4
    assert loop.answered == [(entry, None) for entry in range(8)]


@pytest.mark.parametrize(
    ("bounds", "groups"),
    [
        ({"group_bytes_max": 2500}, 5),
        ({"group_entries_max": 20}, 5),
        ({"group_entries_max": 1}, 10),
        ({"group_bytes_max": 1}, 10),
        ({"group_bytes_max": 2500, "group_entries_max": 50}, 5),
        ({}, 1),
    ],
)
async def test_a_group_keeps_to_its_bounds_but_a_record_is_never_divided(
    bounds: dict[str, int], groups: int
) -> None:
    disk = fresh()
    storage = opened(disk)
    loop = Loop(storage, disk, **bounds)
    for entry in range(10):
        loop.append(entry, 1000, entries=10)
    await loop.journal.drain()
    assert loop.journal.groups == groups
    assert [name for name, _ in loop.answered] == list(range(10))
    assert loop.journal.pending_bytes == 0
    disk.crash()
    storage = opened(disk, seed=2)
    assert storage.replayed == 10
    assert read(storage, 1, 9) == bytes(1000)


async def test_a_failed_sync_answers_no_request_then_or_later() -> None:
    disk = fresh()
    loop = Loop(opened(disk), disk)
    loop.append(0, 10)
    await loop.journal.drain()

    def plan(op: str, path: str) -> None:
        if op == "fdatasync":
            raise OSError(28, "No space left on device")  # even this: what was written is lost

    disk.plan = plan
    loop.append(1, 10)
    await loop.journal.drain()
    disk.plan = None
    assert isinstance(loop.failed, OSError)
    assert not isinstance(loop.failed, DiskFullError)
    loop.append(2, 10)
    await asyncio.sleep(0)
    assert [name for name, _ in loop.answered] == [0]
    assert loop.journal.failed


async def test_a_file_is_made_ready_when_the_last_ready_one_was_taken() -> None:
    disk = fresh()
    storage = opened(disk)
    work = BackgroundWork(disk, storage, [LEDGER])
    task = asyncio.get_running_loop().create_task(work.checkpointer.run())
    try:
        await work.checkpointer.step(checkpoint=True)
        assert not storage.journal.wants_spare
        assert add(storage, frame(1, 0, bytes(20_000))) == Code.OK
        before = storage.journal.mark.file_id
        assert add(storage, frame(1, 1, bytes(20_000))) == Code.OK
        assert storage.journal.mark.file_id == before + 1
        assert storage.journal.wants_spare
        names = journal_names(disk, JOURNAL)
        work.checkpointer._journal.mark = storage.journal.mark
        work.checkpointer.journal_grew()
        while storage.journal.wants_spare:
            await asyncio.sleep(0)
        [made] = set(journal_names(disk, JOURNAL)) - set(names)
        file = disk.open(f"{JOURNAL}/{made}")
        assert file.pread(64 << 10, 0) == bytes(file.size())
        assert file.size() == 32 << 10
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_files_before_the_mark_are_reused_up_to_the_configured_number() -> None:
    disk = fresh()
    storage = opened(disk)
    for entry in range(60):
        assert add(storage, frame(1, entry, bytes(6000))) == Code.OK
        if entry % 20 == 19:
            flush(storage)
            assert len(journal_names(disk, JOURNAL)) <= 4 + 1
    for entry in range(10):
        assert read(storage, 1, entry) == bytes(6000)


def test_a_crash_at_any_disk_operation_of_a_roll_loses_no_answer() -> None:
    at = 0
    while True:
        at += 1
        disk = fresh()
        storage = opened(disk)
        assert add(storage, frame(1, 0, bytes(20_000))) == Code.OK
        stop = disk.operations + at

        def plan(op: str, path: str, disk: FaultDisk = disk, stop: int = stop) -> int | None:
            if disk.operations < stop:
                return None
            if op == "pwritev" and stop % 2:
                return stop * 37 % 5000
            raise Crashed(f"{op} {path}")

        disk.plan = plan
        answered = 1
        try:
            for entry in range(1, 4):
                assert add(storage, frame(1, entry, bytes(20_000))) == Code.OK
                answered += 1
        except Crashed:
            pass
        disk.crash(lambda at=at: at % 3 == 0)  # type: ignore[misc]
        storage = opened(disk, seed=at)
        for entry in range(answered):
            assert read(storage, 1, entry) == bytes(20_000)
        if answered == 4:
            break
    assert at > 10


@pytest.mark.parametrize("bit", range(0, 8 * 44, 29))
def test_any_flipped_bit_in_a_head_before_good_groups_is_damage(bit: int) -> None:
    disk = fresh()
    storage = opened(disk)
    for entry in range(3):
        assert add(storage, frame(1, entry, b"x" * 100)) == Code.OK
    path = f"{JOURNAL}/{list(storage.journal._in_use.values())[-1]}"
    disk.crash()
    disk.damage(path, 4096 + bit // 8, 1 << bit % 8)
    with pytest.raises(JournalDamagedError):
        opened(disk)
