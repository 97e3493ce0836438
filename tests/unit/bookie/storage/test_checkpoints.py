"""The guarantees of a checkpoint (I26, I27), and the bound on the journal's length (B13)."""

import asyncio
from collections.abc import Callable

import pytest

from bookie.storage.codes import Code
from bookie.storage.journal.journal_format import lac_record
from bookie.storage.recover import Storage
from tests.support.bookies import Machine
from tests.support.storages import (
    KEY,
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
from tests.unit.bookie.requests.test_v3 import lac_body
from tests.unit.bookie.storage.test_invariants import JournalWatch

LAC = lac_body(1, 0)


def write_lac(storage: Storage) -> None:
    assert storage.ledgers.write_lac(1, KEY, LAC) == Code.OK
    storage.journal.write_group([lac_record(1, KEY, LAC)])


def is_fenced(storage: Storage) -> bool:
    return add(storage, frame(1, 1, b"late")) == Code.FENCED


def has_lac(storage: Storage) -> bool:
    ledger = storage.ledgers.get(1)
    return ledger is not None and ledger.explicit_lac == LAC


@pytest.mark.parametrize(
    ("change", "holds"), [(lambda storage: fence(storage, 1), is_fenced), (write_lac, has_lac)]
)
def test_a_change_of_a_flushed_ledger_is_in_the_next_flush(
    change: Callable[[Storage], None], holds: Callable[[Storage], bool]
) -> None:
    disk = fresh()
    storage = opened(disk)
    assert add(storage, frame(1, 0, b"a")) == Code.OK
    flush(storage)
    change(storage)
    flush(storage)
    disk.crash()
    storage = opened(disk, seed=2)
    assert storage.replayed == 0
    assert read(storage, 1, 0) == b"a"
    assert holds(storage)


async def test_journal_files_are_given_up_only_behind_a_mark_that_is_stored() -> None:
    disk = fresh()
    storage = opened(disk)
    watch = disk.plan = JournalWatch(disk)
    work = BackgroundWork(disk, storage, [LEDGER])
    for entry in range(120):
        assert add(storage, frame(1, entry, bytes(3000))) == Code.OK
        work.checkpointer._journal.mark = storage.journal.mark
        if entry % 3 == 2:
            assert await work.checkpointer.step(checkpoint=entry % 2 == 0)
    assert watch.reused > 3
    assert len(watch.marks) > 3


async def test_a_long_journal_is_shortened_without_a_request() -> None:
    async with Machine(
        journal_file_bytes=64 << 10, write_cache_bytes=64 << 20, flush_interval_s=3600
    ) as machine:
        client = await machine.client()
        storage = machine.bookie.serving.storage
        for entry in range(100):
            assert await client.add(1, entry, bytes(10_000)) == Code.OK
        async with asyncio.timeout(120):
            while (
                machine.bookie.serving.journal.mark.file_id > storage.flusher.persisted.file_id + 2
            ):
                await asyncio.sleep(0)
        await client.close()
