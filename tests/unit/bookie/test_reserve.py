"""Disk space that stays free of adds for compaction and replay, however high the threshold is (B9)."""

from bookie.storage.codes import Code
from tests.support.bookies import Machine

MIB = 1 << 20


async def test_adds_are_refused_when_only_the_reserve_is_left() -> None:
    machine = Machine(
        journal_file_bytes=64 << 10,
        write_cache_bytes=256 << 10,
        disk_usage_threshold=0.999,
        disk_usage_lwm_threshold=0.999,
        min_usable_size_for_entry_log_creation=256 << 10,
        min_usable_size_for_index_file_creation=1,
        min_usable_size_for_high_priority_writes=64 << 10,
    )
    machine.disk.capacity_bytes = 4 * MIB
    async with machine:
        client, disk = await machine.client(), machine.disk
        assert await client.add(1, 0, b"a") == Code.OK
        for free, code in (((256 << 10) + 1, Code.OK), ((256 << 10) - 1, Code.READ_ONLY)):
            disk.capacity_bytes += free - disk.free_bytes("/")
            await machine.bookie.serving.disks.check()
            assert machine.bookie.read_only == (code != Code.OK)
        assert await client.add(1, 1, b"b") == Code.READ_ONLY
        assert await client.add(1, 1, b"b", flags=2) == Code.OK  # recovery's, there is room
        await client.close()
