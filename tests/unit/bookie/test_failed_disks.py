"""A ledger directory whose disk fails is taken out, and the bookie serves on with the rest; with the first one or the
journal's it stops."""

import asyncio
import errno
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bookie.cookies import IdentityError
from bookie.storage.codes import Code
from engine.ledger.client import LedgerClient
from engine.repair.auto_recovery import AutoRecovery
from tests.sim.kit.cluster import FAST
from tests.sim.kit.disk import FaultDisk
from tests.support.bookies import Machine
from tests.support.ledger_cluster import Listener, payloads_of, run_of
from tests.unit.bookie.test_directories import ONE, THREE, TWO, is_whole, logs, machine, write
from tests.unit.repair.conftest import RepairedCluster


def break_disk(of: Machine, root: str, code: int = errno.EIO) -> None:
    of.disk.broken[f"{root}/current"] = code


class TwoDisks(RepairedCluster):
    """Bookies with two ledger directories each."""

    def __init__(self) -> None:
        super().__init__(
            ledger_directories=f"{ONE},{TWO}",
            flush_interval_s=1.0,
            disk_check_interval_s=1.0,
            entry_log_bytes_max=64 << 10,
            scrub_interval_s=0.0,
        )
        self.recoveries: list[AutoRecovery] = []

    async def repaired(self, name: str) -> AutoRecovery:
        recovery = self.recovery(name)
        self.bookies[name].serving.scrubber.others = recovery.own_copies
        recovery.start()
        self.recoveries.append(recovery)
        return recovery


@pytest.fixture
async def cluster() -> AsyncIterator[TwoDisks]:
    made = TwoDisks()
    for i in range(4):
        await made.start(f"b{i}")
        await made.repaired(f"b{i}")
    yield made
    for recovery in made.recoveries:
        await recovery.stop()
    await made.close()


async def _written(client: LedgerClient, size: int) -> int:
    listener = Listener()
    writer = await client.create(3, 3, 2, listener=listener)
    writer.append(run_of(*(b"%05d" % i + bytes(size) for i in range(100))))
    await listener.reach(100)
    await writer.close()
    return writer.ledger_id


@pytest.mark.virtual_time
async def test_ledgers_of_a_failed_disk_alone_are_copied_again(cluster: TwoDisks) -> None:
    client = cluster.client(FAST)
    ledgers = []
    for _ in range(6):
        ledgers.append(await _written(client, 600))
        await asyncio.sleep(2)
    storage = cluster.bookies["b0"].serving.storage
    lost = [n for n in storage.logs.ids() if storage.logs.directory(n).startswith(TWO)]
    touched = {ledger for log_id in lost for ledger in storage.entries.usage.get(log_id, ())}
    assert touched
    assert touched < set(ledgers)
    disk = cluster.disks["b0"]
    assert isinstance(disk, FaultDisk)
    disk.broken[f"{TWO}/current"] = errno.EIO
    marked: list[int] = []
    copies, records = cluster.recoveries[0].own_copies, cluster.recoveries[0].records
    mark = copies.mark

    async def noted(ledger: int) -> None:
        marked.append(ledger)
        await mark(ledger)

    copies.mark = noted  # type: ignore[method-assign]
    async with asyncio.timeout(120):
        while not marked or [n async for n in records.marked()]:
            await asyncio.sleep(0.2)
    assert set(marked) == touched
    assert cluster.bookies["b0"].failed is None
    for ledger in ledgers:
        _, findings = await cluster.recoveries[1].repair.examine(ledger)
        assert findings.whole
        reader = await client.open(ledger, recover=False)
        listed: list[bytes] = []
        while len(listed) < 100:
            listed += payloads_of(await reader.read(len(listed), 99, 1 << 20))
        assert listed[42][:5] == b"00042"


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
async def test_writes_go_on_in_the_directories_that_are_left(code: int) -> None:
    of = machine(ONE, TWO, THREE)
    async with of:
        await write(of, 1)
        break_disk(of, TWO, code)
        await write(of, 2)
        await write(of, 3)
        await of.bookie.serving.disks.check()
        assert of.bookie.failed is None
        assert list(of.bookie.serving.storage.logs.failed) == [f"{TWO}/current"]
        assert await is_whole(of, 2)
        assert await is_whole(of, 3)
        assert not of.bookie.read_only


async def test_lost_entries_are_errors_and_never_absences() -> None:
    of = machine(ONE, TWO)
    async with of:
        await write(of, 1)
        break_disk(of, TWO)
        await of.bookie.serving.disks.check()
        of.bookie.serving.storage.reader._blocks.clear()
        client = await of.client()
        read = [await client.read(1, entry) for entry in range(150)]
        await client.close()
        lost = [answer for answer in read if answer != bytes([1]) * 1500]
        assert lost
        assert {str(answer) for answer in lost} == {str(Code.IO)}
        listed = of.bookie.serving._held(1)
        assert sum(last - first + 1 for first, last in listed) == 150 - len(lost)


@pytest.mark.parametrize("root", [ONE, "/data/journal"])
async def test_without_the_index_or_the_journal_the_bookie_stops(root: str) -> None:
    of = machine(ONE, TWO)
    async with of:
        await write(of, 1)
        break_disk(of, root)
        of.bookie.serving.disks.check_soon()
        await of.bookie.over.wait()
        assert isinstance(of.bookie.failed, OSError)


async def test_one_bad_sector_takes_no_directory_out() -> None:
    of = machine(ONE, TWO)
    async with of:
        await write(of, 1)
        storage = of.bookie.serving.storage
        storage.reader._blocks.clear()
        storage.reader.close()
        [bad, *_] = logs(of, TWO)
        of.disk.broken[f"{TWO}/current/{bad}"] = errno.EIO
        assert not await is_whole(of, 1)
        await of.bookie.serving.disks.check()
        assert storage.logs.failed == {}
        assert "probe" not in of.disk.listdir(f"{TWO}/current")


async def test_a_start_without_a_failed_directory_needs_leave() -> None:
    def with_roots(*roots: str, **changes: Any) -> Machine:
        again = machine(*roots, **changes)
        again.disk, again.metadata = of.disk, of.metadata
        return again

    of = machine(ONE, TWO, THREE)
    async with of:
        await write(of, 1)
        await write(of, 2)
    left = with_roots(ONE, THREE)
    with pytest.raises(IdentityError):
        async with left:
            pass
    without_first = with_roots(TWO, THREE, allow_lost_directories=True)
    with pytest.raises(IdentityError):
        async with without_first:
            pass
    left = with_roots(ONE, THREE, allow_lost_directories=True)
    async with left:
        assert list(left.bookie.serving.scrubber.lost) == [1, 2]
        await write(left, 3)
        assert await is_whole(left, 3)
    async with with_roots(ONE, THREE) as again:
        assert await is_whole(again, 3)
