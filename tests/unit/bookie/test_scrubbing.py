"""The scrubber: everything kept is read back in time, and damaged or missing entries are written again from other
copies."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from bookie.scrubbing import POSITION_NAME, Scrubber, without
from bookie.storage.read_queue import QueuedRead
from engine.repair.auto_recovery import AutoRecovery
from tests.sim.kit.cluster import FAST
from tests.sim.kit.disk import FaultDisk
from tests.support.ledger_cluster import Listener, payloads_of, run_of
from tests.unit.repair.conftest import RepairedCluster

pytestmark = pytest.mark.virtual_time

HOUR_S = 3600.0


class Scrubbed(RepairedCluster):
    """Bookies that are flushed soon and read back within an hour."""

    def __init__(self) -> None:
        super().__init__(scrub_interval_s=HOUR_S, flush_interval_s=1.0)
        self.recoveries: dict[str, AutoRecovery] = {}

    def scrubber(self, name: str) -> Scrubber:
        """Return a bookie's scrubber, which from then on reaches other copies."""
        scrubber = self.bookies[name].serving.scrubber
        if name not in self.recoveries:
            self.recoveries[name] = self.recovery(name)
        scrubber.others = self.recoveries[name].own_copies
        return scrubber

    def damage(self, name: str, payload: bytes) -> None:
        """Flip a bit of an entry in a bookie's entry log."""
        disk = self.disks[name]
        assert isinstance(disk, FaultDisk)
        [(path, offset)] = [n for n in disk.find(payload) if n[0].endswith(".log")]
        disk.damage(path, offset)

    async def stop_all(self) -> None:
        for recovery in self.recoveries.values():
            await recovery.stop()
        await self.close()


@pytest.fixture
async def cluster() -> AsyncIterator[Scrubbed]:
    made = Scrubbed()
    for i in range(3):
        await made.start(f"b{i}")
    yield made
    await made.stop_all()


async def pass_ends(scrubber: Scrubber) -> None:
    """Wait for the end of a pass that begins now."""
    before = scrubber.last
    scrubber.hurry()
    async with asyncio.timeout(600):
        while scrubber.last is before:
            await asyncio.sleep(1)


async def read_from(cluster: Scrubbed, name: str, ledger: int, entries: int) -> list[bytes]:
    """Return a ledger's entries while only one bookie serves."""
    for other in [n for n in cluster.bookies if n != name]:
        await cluster.stop(other)
    reader = await cluster.client(FAST).open(ledger, recover=False)
    listed: list[bytes] = []
    while len(listed) < entries:
        listed += payloads_of(await reader.read(len(listed), entries - 1, 1 << 20))
    return listed


async def test_a_damaged_entry_is_found_and_written_again(cluster: Scrubbed) -> None:
    ledger = await cluster.written(entries=50)
    await asyncio.sleep(5)
    cluster.damage("b1", b"entry 00007")
    scrubber = cluster.scrubber("b1")
    await pass_ends(scrubber)
    assert scrubber.last is not None
    assert scrubber.last.unreadable == scrubber.last.restored == 50  # of the block
    assert scrubber.readable(ledger, [(0, 49)]) == [(0, 49)]
    await asyncio.sleep(5)
    await pass_ends(scrubber)
    assert scrubber.last.unreadable == 0
    assert (await read_from(cluster, "b1", ledger, 50))[7] == b"entry 00007"


async def test_an_entry_whose_digest_is_wrong_is_written_again(cluster: Scrubbed) -> None:
    """Damage from before the block was written, which only the check of metadata detects."""
    ledger = await cluster.written(entries=4)
    await asyncio.sleep(5)
    storage = cluster.bookies["b2"].serving.storage
    block = storage.reader.read(storage.entries.blocks(ledger)[0][1])
    changed = block.part(2, 3)
    changed.buf = block.data.replace(b"entry 00002", b"entry xxxxx")
    changed.master_key = storage.ledgers.get(ledger).master_key  # type: ignore[union-attr]
    storage.ledgers.add(changed, recovery=True)
    await asyncio.sleep(5)
    scrubber = cluster.scrubber("b2")
    await pass_ends(scrubber)
    assert scrubber.last is not None
    assert (scrubber.last.unreadable, scrubber.last.restored) == (1, 1)
    assert (await read_from(cluster, "b2", ledger, 4))[2] == b"entry 00002"


async def test_entries_that_a_worker_writes_again_are_listed_at_once(cluster: Scrubbed) -> None:
    """Check that a later copy is not hidden for the minutes in which the scrubber does not try again."""
    ledger = await cluster.written(entries=50)
    await asyncio.sleep(5)
    cluster.damage("b1", b"entry 00007")
    scrubber = cluster.scrubber("b1")
    for other in ("b0", "b2"):
        await cluster.stop(other)
    await pass_ends(scrubber)
    assert scrubber.readable(ledger, [(0, 49)]) == []
    for other in ("b0", "b2"):
        await cluster.start(other)
    recovery = cluster.recoveries["b1"]
    metadata, findings = await recovery.repair.examine(ledger)
    assert not findings.whole
    await recovery.repair.copy(ledger, metadata, findings)
    await asyncio.sleep(5)
    assert scrubber.readable(ledger, [(0, 49)]) == [(0, 49)]
    _, findings = await recovery.repair.examine(ledger)
    assert findings.whole
    assert scrubber.state()["unreadableNow"] == 0


async def test_a_missing_entry_is_written_again(cluster: Scrubbed) -> None:
    ledger = await cluster.written(entries=20)
    await asyncio.sleep(5)
    storage = cluster.bookies["b0"].serving.storage
    storage.entries._cut_out(ledger, 5, 3)
    scrubber = cluster.scrubber("b0")
    await pass_ends(scrubber)
    assert scrubber.last is not None
    assert (scrubber.last.missing, scrubber.last.restored) == (3, 3)
    assert len(await read_from(cluster, "b0", ledger, 20)) == 20


async def test_damage_that_a_read_meets_is_restored_between_passes(cluster: Scrubbed) -> None:
    ledger = await cluster.written(entries=20)
    await asyncio.sleep(5)
    scrubbers = [cluster.scrubber(f"b{i}") for i in range(3)]
    await pass_ends(scrubbers[0])
    await asyncio.sleep(HOUR_S / 4)
    for i in range(3):
        cluster.bookies[f"b{i}"].serving.storage.reader.close()
    cluster.damage("b0", b"entry 00011")
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    queue = cluster.bookies["b0"].serving.reads
    cluster.bookies["b0"].serving.storage.reader._blocks.clear()
    queue.put(QueuedRead(ledger, 11, 1, 1 << 20, lambda code, entries: done.set_result(code)))
    await done
    await asyncio.sleep(20)
    assert scrubbers[0].restored == 20
    assert scrubbers[0].now.ended_ms  # no pass began


async def test_without_an_intact_copy_the_ledger_is_marked_and_its_entries_are_not_listed(
    cluster: Scrubbed,
) -> None:
    ledger = await cluster.written(entries=20, shape=(1, 1, 1))
    await asyncio.sleep(5)
    metadata = await cluster.client(FAST).metadata(ledger)
    [name] = metadata.segments[0].bookies
    cluster.damage(name, b"entry 00003")
    scrubber = cluster.scrubber(name)
    await pass_ends(scrubber)
    records = cluster.recoveries[name].records
    assert [n async for n in records.marked()] == [ledger]
    assert scrubber.readable(ledger, [(0, 19)]) == []
    assert scrubber.state()["unreadableNow"] == 20
    findings = (await cluster.recoveries[name].repair.examine(ledger))[1]
    assert findings.lost == {0: (0,)}


async def test_a_pass_takes_most_of_the_set_time_and_is_continued_after_a_restart(
    cluster: Scrubbed,
) -> None:
    for _ in range(3):
        listener = Listener()
        writer = await cluster.client(FAST).create(3, 3, 2, listener=listener)
        writer.append(run_of(*(bytes(100_000) for _ in range(20))))
        await listener.reach(20)
        await writer.close()
    await asyncio.sleep(5)
    scrubber = cluster.scrubber("b0")
    await pass_ends(scrubber)
    total = scrubber.last.bytes if scrubber.last else 0
    assert total > 6_000_000
    await asyncio.sleep(HOUR_S)
    scrubber = cluster.bookies["b0"].serving.scrubber
    assert scrubber.now.bytes < total  # at RATE_MIN it takes minutes
    await asyncio.sleep(100)
    done = scrubber.now.bytes
    assert 0 < done < total
    await cluster.stop("b0")
    await cluster.start("b0")
    again = cluster.scrubber("b0")
    await asyncio.sleep(1)
    assert again.now.began_ms == scrubber.now.began_ms
    assert again.now.bytes >= done
    assert again.last == scrubber.last
    await asyncio.sleep(HOUR_S * 0.9)
    assert again.last is not None
    assert again.last.bytes == total


async def test_a_damaged_position_begins_another_pass(cluster: Scrubbed) -> None:
    await cluster.written()
    await asyncio.sleep(5)
    await pass_ends(cluster.scrubber("b0"))
    await cluster.stop("b0")
    disk = cluster.disks["b0"]
    file = disk.open(f"/b0/ledgers/current/{POSITION_NAME}")
    assert json.loads(file.pread(file.size(), 0))["last"]["entries"] == 20
    file.pwritev([b"not"], 0)
    await cluster.start("b0")
    again = cluster.scrubber("b0")
    await pass_ends(again)
    assert again.last is not None
    assert again.last.entries == 20


def test_ranges_without_holes() -> None:
    assert without([(0, 9), (20, 29)], [(3, 4), (8, 21), (29, 40)]) == [(0, 2), (5, 7), (22, 28)]
