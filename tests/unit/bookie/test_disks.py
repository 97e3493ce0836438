"""Disk space: adds stop before the space for compaction and replay is used; freed space is used again."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from bookie.storage.codes import Code
from bookie.storage.recover import Storage
from engine.metadata import paths
from tests.support.bookies import KEY, Client, Machine
from tests.support.waiting import stays

MIB = 1 << 20


def small(**changes: object) -> Machine:
    """Return a bookie on a disk of 4 MiB."""
    values = {
        "journal_file_bytes": 64 << 10,
        "write_cache_bytes": 256 << 10,
        "entry_log_bytes_max": 128 << 10,
        "disk_check_interval_s": 0.01,
        "min_usable_size_for_high_priority_writes": 64 << 10,
        "compaction_rate_by_bytes": 1 << 40,
    }
    machine = Machine(**values | changes)
    machine.disk.capacity_bytes = 4 * MIB
    return machine


async def add_until_refused(client: Client, ledgers: list[int]) -> dict[tuple[int, int], bytes]:
    draw = random.Random(1)
    kept: dict[tuple[int, int], bytes] = {}
    for entry in range(5000):
        for ledger in ledgers:
            payload = b"%d:%d." % (ledger, entry) + bytes(draw.randrange(3000))
            code = await client.add(ledger, entry, payload)
            if code != Code.OK:
                assert code == Code.READ_ONLY
                return kept
            kept[ledger, entry] = payload
    raise AssertionError("the disk never got full")


@pytest.fixture
async def clients() -> AsyncIterator[list[Client]]:
    """Clients that are closed at the end of the test, even when it fails."""
    opened: list[Client] = []
    yield opened
    for client in opened:
        client.writer.close()


def storage_of(machine: Machine) -> Storage:
    return machine.bookie.serving.storage


async def test_adds_are_refused_while_a_crash_can_still_be_replayed_and_space_be_freed(
    clients: list[Client],
) -> None:
    machine = small(is_force_gc_allow_when_no_space=True)
    async with machine:
        client = await machine.client()
        clients.append(client)
        for ledger in (1, 2, 3):
            await machine.store.create(paths.ledger(ledger), b"", make_parents=True)
        kept = await add_until_refused(client, [1, 2, 3])
        assert sum(map(len, kept.values())) > MIB
        assert machine.disk.free_bytes("/") > 128 << 10
        assert await client.read(1, 0, fence=KEY) == kept[1, 0]
        assert await client.add(2, 9000, b"recovered", flags=2) == Code.OK
        await machine.kill()
    async with machine:  # on the same disk, as full as it was
        client = await machine.client()
        clients.append(client)
        assert machine.bookie.read_only
        for place, payload in kept.items():
            assert await client.read(*place) == payload
        for ledger in (2, 3):
            await machine.store.delete(paths.ledger(ledger))
        await machine.bookie.serving.garbage.collect()
        assert await machine.bookie.serving.garbage.compact(0.9) > 0
        await machine.bookie.serving.disks.check()
        assert not machine.bookie.read_only
        for (ledger, entry), payload in kept.items():
            assert await client.read(ledger, entry) == (payload if ledger == 1 else Code.NO_LEDGER)
        assert await client.add(4, 0, b"again") == Code.OK


async def test_the_write_cache_shrinks_with_the_room_there_is() -> None:
    async with small() as machine:
        cache = storage_of(machine).ledgers.cache
        whole = cache.generation_bytes_max
        machine.disk.capacity_bytes -= machine.disk.free_bytes("/") - (800 << 10)
        await machine.bookie.serving.disks.check()
        assert cache.generation_bytes_max == 100 << 10 < whole
        machine.disk.capacity_bytes = 4 * MIB
        await machine.bookie.serving.disks.check()
        assert cache.generation_bytes_max == whole


@pytest.mark.parametrize("kind", ["minor", "major"])
async def test_compaction_runs_by_itself_at_its_interval_and_is_counted(
    kind: str, clients: list[Client]
) -> None:
    changes: dict[str, object] = {
        "gc_wait_time_s": 0.01,
        "minor_compaction_interval_s": 0.0 if kind == "major" else 0.01,
        "major_compaction_interval_s": 0.0 if kind == "minor" else 0.01,
        "minor_compaction_threshold": 0.75,
        "major_compaction_threshold": 0.75,
    }
    async with small(**changes) as machine:
        machine.disk.capacity_bytes = 1 << 30
        client = await machine.client()
        clients.append(client)
        for ledger in (1, 2):
            await machine.store.create(paths.ledger(ledger), b"", make_parents=True)
        for entry in range(150):
            for ledger in (1, 2):
                assert await client.add(ledger, entry, bytes([ledger]) * 1500) == Code.OK
        await machine.bookie.serving.checkpointer.step(checkpoint=True)
        before = machine.disk.free_bytes("/")
        await machine.store.delete(paths.ledger(2))
        counters = machine.bookie.metrics.counters
        async with asyncio.timeout(120):
            while counters["bookie_entry_logs_compacted"][1]() < 3:
                await asyncio.sleep(0.01)
        assert machine.disk.free_bytes("/") > before
        assert counters["bookie_compaction_copied_bytes"][1]() > 100_000
        assert counters["bookie_compaction_freed_bytes"][1]() > 100_000
        assert counters["bookie_ledgers_deleted"][1]() == 1
        gauges = machine.bookie.metrics.gauges
        live = gauges["bookie_entry_log_live_bytes"][1]()
        usage = machine.bookie.serving.storage.entries.usage
        assert live == sum(sum(used.values()) for used in usage.values())
        assert 0 < live < 300_000
        assert [await client.read(1, entry) for entry in range(150)] == [bytes([1]) * 1500] * 150


async def test_without_thresholds_or_intervals_nothing_is_compacted(clients: list[Client]) -> None:
    changes: dict[str, object] = {
        "gc_wait_time_s": 0.001,
        "minor_compaction_threshold": 0.0,
        "major_compaction_interval_s": 0.0,
    }
    async with small(**changes) as machine:
        client = await machine.client()
        clients.append(client)
        for ledger in (1, 2):
            await machine.store.create(paths.ledger(ledger), b"", make_parents=True)
        for entry in range(100):
            assert await client.add(1 + entry % 2, entry, bytes(1500)) == Code.OK
        await machine.bookie.serving.checkpointer.step(checkpoint=True)
        await machine.store.delete(paths.ledger(2))
        async with asyncio.timeout(120):
            while machine.bookie.serving.garbage.ledgers_forgotten < 1:
                await asyncio.sleep(0.01)
        await stays(lambda: machine.bookie.serving.garbage.logs_compacted == 0, 0.05)
