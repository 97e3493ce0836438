"""Compaction and garbage collection: space is freed, no live entry is lost, no deleted ledger is restored, wherever
the machine stops."""

import asyncio
import random
from collections.abc import Callable
from functools import partial

import pytest

from bookie.storage.codes import Code
from bookie.storage.compaction import candidates
from bookie.storage.index.index import BookieIndex
from bookie.storage.recover import Storage
from engine.metadata import paths
from tests.sim.kit.disk import Crashed, FaultDisk
from tests.support.storages import (
    LEDGER,
    BackgroundWork,
    add,
    fence,
    flush,
    frame,
    fresh,
    opened,
    read,
)

LEDGERS = range(1, 6)
LIVE, FENCED_LEDGER, ENTRIES = (2, 5), 5, 60
ROUNDS = 3


def payload(ledger: int, entry: int, version: int = 0) -> bytes:
    return b"%d:%d:%d." % (ledger, entry, version) + bytes(entry * 31 % 700)


def fill(storage: Storage) -> dict[tuple[int, int], bytes]:
    """Write several logs of interleaved ledgers, some entries twice; return the bytes that each entry should have."""
    want: dict[tuple[int, int], bytes] = {}
    for round_ in range(ROUNDS):
        for ledger in LEDGERS:
            ids = range(round_ * ENTRIES // ROUNDS, (round_ + 1) * ENTRIES // ROUNDS)
            data = b"".join(frame(ledger, entry, payload(ledger, entry)) for entry in ids)
            assert add(storage, data) == Code.OK
            want |= {(ledger, entry): payload(ledger, entry) for entry in ids}
        flush(storage, checkpoint=round_ % 2 == 0)
        storage.log.leave()
        storage.log.release_left()
    again = b"".join(frame(2, entry, payload(2, entry, 1)) for entry in range(5, 9))
    assert add(storage, again) == Code.OK
    want |= {(2, entry): payload(2, entry, 1) for entry in range(5, 9)}
    fence(storage, FENCED_LEDGER)
    flush(storage)
    storage.log.leave()
    storage.log.release_left()
    return want


def check(storage: Storage, want: dict[tuple[int, int], bytes], gone: bool) -> None:
    """Assert that listed ledgers are complete and the others complete or, when ``gone``, permanently absent."""
    for (ledger, entry), expected in want.items():
        got = read(storage, ledger, entry)
        if ledger in LIVE:
            assert got == expected, (ledger, entry, got)
        elif gone:
            assert got == Code.NO_LEDGER, (ledger, entry, got)
        else:
            assert got in (expected, Code.NO_LEDGER), (ledger, entry, got)
    assert add(storage, frame(FENCED_LEDGER, 999, b"late")) == Code.FENCED
    if gone:
        assert add(storage, frame(1, 999, b"late")) == Code.FENCED


def coin(chance: random.Random) -> bool:
    return chance.random() < 0.5


def shares_agree(index: BookieIndex) -> None:
    """Assert that the counters of live bytes are the sums of the records' shares."""
    want: dict[int, dict[int, int]] = {}
    for record in index.records():
        for _, place in index.blocks(record.ledger_id):
            used = want.setdefault(place.log_id, {})
            used[record.ledger_id] = used.get(record.ledger_id, 0) + place.share
    assert index.usage == want


async def collected(
    disk: FaultDisk, storage: Storage, between: Callable[[], None] = lambda: None
) -> int | None:
    """Collect garbage, then compact every log with dead entries; return the number of those, None after a crash."""
    work = BackgroundWork(disk, storage, [LEDGER])

    async def run() -> int:
        await work.begin(LIVE)
        await work.garbage.collect()
        between()
        done = await work.garbage.compact(0.999)
        await work.checkpointer.step(checkpoint=True)
        return done

    return await work.until_crash(run())


async def test_dead_bytes_are_freed_and_live_entries_are_read_as_before() -> None:
    disk = fresh()
    storage = opened(disk)
    want = fill(storage)
    before = sum(storage.logs.ends.values())
    assert await collected(disk, storage) == ROUNDS
    after = sum(storage.logs.ends.values())
    assert after < before * 0.6
    names = [name for name in disk.listdir(LEDGER) if name.endswith(".log")]
    assert len(names) == len(storage.logs) < ROUNDS + 2
    shares_agree(storage.entries)
    check(storage, want, gone=True)
    disk.crash()
    storage = opened(disk, seed=2)
    check(storage, want, gone=True)
    assert candidates(storage.entries, storage.logs, 0.8) == []


@pytest.mark.parametrize("keeps", ["nothing", "some", "all"])
async def test_a_crash_at_any_disk_operation_of_collection_and_compaction_loses_nothing(
    keeps: str,
) -> None:
    whole = fresh()
    storage = opened(whole)
    fill(storage)
    start = whole.operations
    assert await collected(whole, storage)
    total = whole.operations
    assert total - start > 40
    for at in range(start, total):
        disk, chance = fresh(), random.Random(at)
        storage = opened(disk)
        want = fill(storage)

        def plan(op: str, path: str, disk: FaultDisk = disk, at: int = at) -> int | None:
            if disk.operations <= at:
                return None
            if op == "pwritev" and at % 2:
                return at * 37 % 5000
            raise Crashed(f"{op} {path}")

        disk.plan = plan
        assert await collected(disk, storage) is None, at
        keep = {"nothing": lambda: False, "all": lambda: True}
        disk.crash(keep.get(keeps, partial(coin, chance)))
        storage = opened(disk, seed=at)
        check(storage, want, gone=False)
        shares_agree(storage.entries)
        assert await collected(disk, storage) is not None
        check(storage, want, gone=True)
        disk.crash()
        if at % 2:
            disk.drop_index(f"{LEDGER}/index")
        storage = opened(disk, seed=at + 1)
        assert storage.rebuilt == bool(at % 2)
        check(storage, want, gone=True)
        shares_agree(storage.entries)


async def test_entries_written_or_deleted_during_a_copy_keep_their_state() -> None:
    disk = fresh()
    storage = opened(disk)
    want = fill(storage)
    work = BackgroundWork(disk, storage, [LEDGER])
    await work.begin(LIVE)
    await work.garbage.collect()
    [first, *_] = candidates(storage.entries, storage.logs, 0.999)
    placed = await work.garbage._copy(first)
    assert add(storage, frame(2, 1, b"anew")) == Code.OK
    flush(storage)
    want[2, 1] = b"anew"
    await work.metadata.delete(paths.ledger(5))
    await work.garbage.collect()
    await work.garbage._switch(first, placed)
    assert first.log_id not in storage.entries.usage
    shares_agree(storage.entries)
    for (ledger, entry), expected in want.items():
        assert read(storage, ledger, entry) == (expected if ledger == 2 else Code.NO_LEDGER)


@pytest.mark.parametrize("how", ["flipped bit", "read error"])
async def test_a_log_that_cannot_be_read_in_full_is_kept(how: str) -> None:
    disk = fresh()
    storage = opened(disk)
    fill(storage)
    work = BackgroundWork(disk, storage, [LEDGER])
    await work.begin(LIVE)
    await work.garbage.collect()
    [first, *others] = candidates(storage.entries, storage.logs, 0.999)
    [(_, place), *_] = storage.entries.blocks_in(first.ledgers[0], first.log_id)
    path = storage.logs.path(first.log_id)

    def broken(op: str, name: str) -> None:
        if op == "pread" and name == path:
            raise OSError(5, "Input/output error")

    if how == "read error":
        disk.plan = broken
    else:
        disk.damage(path, place.offset + place.size - 1)
    assert await work.garbage.compact(0.999) == len(others)
    assert work.garbage.logs_kept_damaged == 1
    assert first.log_id in storage.logs
    for ledger in LIVE:  # not even after all its ledgers are deleted
        await work.metadata.delete(paths.ledger(ledger))
    await work.garbage.collect()
    assert first.log_id in storage.logs
    disk.crash()
    assert first.log_id in opened(disk, seed=2).logs


async def test_a_dead_log_that_is_gone_already_is_no_failure() -> None:
    disk = fresh()
    storage = opened(disk)
    fill(storage)
    work = BackgroundWork(disk, storage, [LEDGER])
    await work.begin([])
    disk.remove(storage.logs.path(storage.logs.ids()[0]))
    assert await work.garbage.collect() == len(LEDGERS)
    assert [name for name in disk.listdir(LEDGER) if name.endswith(".log")] == []
    assert len(storage.logs) == 0


async def test_compaction_waits_for_free_space_and_then_continues() -> None:
    disk = fresh()
    storage = opened(disk)
    want = fill(storage)
    work = BackgroundWork(disk, storage, [LEDGER])
    await work.begin(LIVE)
    await work.garbage.collect()
    room = disk.capacity_bytes
    disk.capacity_bytes -= disk.free_bytes("/") - (4 << 10)
    await work.disks.check()
    assert await work.garbage.compact(0.999) == 0
    disk.capacity_bytes = room
    await work.disks.check()
    assert await work.garbage.compact(0.999) == ROUNDS
    check(storage, want, gone=True)


async def test_a_full_disk_in_the_middle_of_a_copy_leaves_everything_as_it_was() -> None:
    disk = fresh()
    storage = opened(disk)
    want = fill(storage)
    work = BackgroundWork(disk, storage, [LEDGER])
    await work.begin(LIVE)
    await work.garbage.collect()
    room = disk.capacity_bytes
    # The bookie does not check the disk between this and the compaction.
    disk.capacity_bytes -= disk.free_bytes("/") - (12 << 10)
    assert await work.garbage.compact(0.999) == 0
    check(storage, want, gone=True)
    disk.capacity_bytes = room
    assert await work.garbage.compact(0.999) == ROUNDS
    check(storage, want, gone=True)


async def test_ledgers_are_deleted_while_a_flush_waits_for_space_and_not_restored() -> None:
    disk = fresh()
    storage = opened(disk)
    fill(storage)
    work = BackgroundWork(disk, storage, [LEDGER])
    await work.begin(LIVE)
    add(storage, frame(1, 500, bytes(3000)) + frame(2, 500, b"kept" + bytes(3000)))
    room = disk.capacity_bytes
    disk.capacity_bytes -= disk.free_bytes("/") - 2000
    assert not await work.checkpointer.step(checkpoint=True)
    assert work.checkpointer.stuck
    assert await work.garbage.collect() == 3
    disk.capacity_bytes = room
    assert await work.checkpointer.step(checkpoint=True)
    assert read(storage, 1, 500) == Code.NO_LEDGER
    disk.crash()
    storage = opened(disk, seed=2)
    assert read(storage, 1, 500) == Code.NO_LEDGER
    assert read(storage, 2, 500) == b"kept" + bytes(3000)
    assert add(storage, frame(1, 501, b"late")) == Code.FENCED


async def test_copying_keeps_to_the_rate_that_is_set() -> None:
    disk = fresh()
    storage = opened(disk)
    fill(storage)
    work = BackgroundWork(disk, storage, [LEDGER])
    await work.begin(LIVE)
    await work.garbage.collect()
    [first, *_] = candidates(storage.entries, storage.logs, 0.999)
    object.__setattr__(work.garbage._settings, "compaction_rate_by_bytes", first.live * 10)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await work.garbage._copy(first)
    assert loop.time() - began > 0.05
