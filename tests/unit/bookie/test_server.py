"""A complete bookie over sockets: the answers to requests before and after restarts and crashes."""

import asyncio
import errno
import json
import struct
from pathlib import Path

import pytest

from bookie.cookies import IdentityError
from bookie.storage.codes import Code
from bookie.storage.logs.entry_log_format import FILE_HEADER_BYTES
from engine.metadata import paths
from tests.sim.kit.disk import Crashed
from tests.support.bookies import KEY, OTHER_KEY, Machine, add, make, read

GOLDEN = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "golden" / "bookkeeper_v2.jsonl")
    .read_text()
    .splitlines()
]


async def test_frames_recorded_from_apache_bookkeeper_receive_the_recorded_answers() -> None:
    async with Machine() as machine:
        client = await machine.client()
        for row in GOLDEN:
            answer = await client.ask(bytes.fromhex(row["request"]))
            want = b"" if row["response"] == "connection closed" else bytes.fromhex(row["response"])
            assert answer == want, row["note"]
            if not answer:
                await client.close()
                client = await machine.client()
        await client.close()


async def test_flushed_entries_read_the_same_as_cached_ones() -> None:
    async with Machine() as machine:
        client = await machine.client()
        payloads = {
            (ledger, entry): bytes([ledger]) * (entry * 37 % 4000)
            for ledger in (1, 2)
            for entry in range(60)
        }
        for (ledger, entry), payload in payloads.items():
            assert await client.add(ledger, entry, payload) == Code.OK
        cached = {place: await client.read(*place) for place in payloads}
        await machine.bookie.serving.checkpointer.step(checkpoint=True)
        assert machine.bookie.metrics.counters["bookie_flushes"][1]() > 1
        assert {place: await client.read(*place) for place in payloads} == payloads == cached
        assert await client.read(1, -1) == payloads[1, 59]
        assert await client.read(1, 60) == Code.NO_ENTRY
        assert await client.read(3, 0) == Code.NO_LEDGER
        await client.close()


async def test_entries_of_many_ledgers_in_one_buffer_are_each_answered_and_survive() -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        frames = b"".join(add(i % 5, i // 5, b"%d" % i) for i in range(50))
        client.writer.write(frames[:777])
        await client.writer.drain()
        client.writer.write(frames[777:])
        answers = [await client.answer() for _ in range(50)]
        assert {struct.unpack(">iqq", answer[8:]) for answer in answers} == {
            (0, i % 5, i // 5) for i in range(50)
        }
        await client.close()
        await machine.kill()
    async with machine:
        client = await machine.client()
        for i in range(50):
            assert await client.read(i % 5, i // 5) == b"%d" % i
        await client.close()


async def test_refused_runs_of_a_buffer_are_not_replayed_after_a_crash() -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        client.writer.write(
            add(1, 1, b"b") + add(1, 2, b"no", key=OTHER_KEY) + add(1, 3, b"c") + add(2, 0, b"d")
        )
        answers = [await client.answer() for _ in range(4)]
        assert {struct.unpack(">iqq", answer[8:]) for answer in answers} == {
            (Code.OK, 1, 1),
            (Code.UNAUTHORIZED, 1, 2),
            (Code.OK, 1, 3),
            (Code.OK, 2, 0),
        }
        await client.close()
        await machine.kill()
    async with machine:
        client = await machine.client()
        assert [await client.read(1, i) for i in range(4)] == [b"a", b"b", Code.NO_ENTRY, b"c"]
        assert await client.read(2, 0) == b"d"
        await client.close()


async def test_a_fence_survives_a_crash_also_of_a_ledger_never_seen() -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        assert await client.read(1, -1, fence=KEY) == b"a"
        assert await client.read(9, -1, fence=KEY) == Code.NO_ENTRY
        await client.close()
        await machine.kill()
    async with machine:
        client = await machine.client()
        assert await client.add(1, 1, b"b") == Code.FENCED
        assert await client.add(9, 0, b"b") == Code.FENCED
        assert await client.add(9, 0, b"b", flags=2) == Code.OK
        assert await client.read(9, -1, fence=OTHER_KEY) == Code.UNAUTHORIZED
        await client.close()


async def test_a_fencing_read_is_answered_only_when_the_fence_is_synced() -> None:
    async with Machine() as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        synced: list[str] = []

        def plan(op: str, path: str) -> None:
            if op == "fdatasync" and "journal" in path:
                synced.append(path)

        machine.disk.plan = plan
        for entry, answer in ((0, b"a"), (5, Code.NO_ENTRY)):
            assert await client.read(entry + 10, 0, fence=KEY) == Code.NO_ENTRY
            assert await client.read(1, entry, fence=KEY) == answer
        assert len(synced) == 3
        await client.close()


async def test_a_failed_sync_answers_no_request_and_ends_the_bookie() -> None:
    async with Machine() as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK

        def plan(op: str, path: str) -> None:
            if op == "fdatasync":
                raise OSError(errno.EIO, "Input/output error")

        machine.disk.plan = plan
        with pytest.raises(AssertionError, match="closed"):
            await client.add(1, 1, b"b")
        assert machine.bookie.over.is_set()
        assert isinstance(machine.bookie.failed, OSError)
        assert not machine.bookie.ready
        with pytest.raises(ConnectionError):
            await machine.client()
        await client.close()


async def test_a_full_disk_makes_the_bookie_read_only_and_room_makes_it_writable() -> None:
    machine = Machine(disk_check_interval_s=0.05)
    async with machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        disk = machine.disk
        room, used = disk.capacity_bytes, disk.capacity_bytes - disk.free_bytes("/")
        disk.capacity_bytes = used + 1
        await machine.bookie.serving.disks.check()
        assert await client.add(1, 1, b"b") == Code.READ_ONLY
        assert await client.add(1, 1, b"b", flags=2) == Code.READ_ONLY
        assert await client.read(1, 0) == b"a"
        assert await client.read(1, 0, fence=KEY) == b"a"
        await until_exists(machine, paths.read_only_bookie("bookie-1:3181"))
        assert await machine.store.exists(paths.available_bookie("bookie-1:3181")) is None
        assert machine.bookie.ready
        disk.capacity_bytes = room
        await machine.bookie.serving.disks.check()
        await until_exists(machine, paths.available_bookie("bookie-1:3181"))
        assert await client.add(2, 0, b"b") == Code.OK
        await client.close()


async def test_a_disk_that_fills_during_a_flush_loses_nothing() -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        for entry in range(20):
            assert await client.add(1, entry, b"%d" % entry * 500) == Code.OK
        disk = machine.disk
        room, disk.capacity_bytes = disk.capacity_bytes, disk.capacity_bytes - disk.free_bytes("/")
        assert not await machine.bookie.serving.checkpointer.step(checkpoint=True)
        assert await client.add(1, 20, b"x") == Code.READ_ONLY
        assert await client.read(1, 7) == b"7" * 500
        disk.capacity_bytes = room
        assert await machine.bookie.serving.checkpointer.step(checkpoint=True)
        await machine.bookie.serving.disks.check()
        assert await client.add(1, 20, b"x") == Code.OK
        assert [await client.read(1, i) for i in range(20)] == [b"%d" % i * 500 for i in range(20)]
        await client.close()


async def until_exists(machine: Machine, path: str) -> None:
    changed = asyncio.Event()
    stop = machine.store.watch(path, lambda _: changed.set())
    try:
        async with asyncio.timeout(120):
            while await machine.store.exists(path) is None:
                await changed.wait()
                changed.clear()
    finally:
        stop()


async def test_malformed_frames_close_their_connection_and_no_other() -> None:
    async with Machine() as machine:
        other = await machine.client()
        bad = [
            b"\x00\x00\x00\x00",
            b"\x00\x00\x00\x01\x02",
            b"\x7f\xff\xff\xff",
            struct.pack(">II", 4, 0x02020000),
            struct.pack(">II", 4, 0x02010000),
            struct.pack(">II", 4, 0x02070000),
            bytes.fromhex("000000050a06080310"),
            bytes.fromhex("000000080a060803100d1801"),
            read(1, 0, fence=KEY[:10]),
        ]
        for frame in bad:
            client = await machine.client()
            assert await client.ask(frame) == b"", frame.hex()
            await client.close()
            assert await other.read(1, 0) == Code.NO_LEDGER
        assert machine.bookie.metrics.malformed == len(bad)
        assert await other.add(-1, 0, b"") == Code.BAD_REQUEST
        assert await other.add(1, -5, b"") == Code.BAD_REQUEST
        assert await other.read(1, -2) == Code.BAD_REQUEST
        await other.close()


async def test_damaged_log_answers_io_error() -> None:
    async with Machine(read_cache_bytes=0) as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a" * 100) == Code.OK
        await machine.bookie.serving.checkpointer.step(checkpoint=True)
        [log] = [n for n in machine.disk.listdir("/data/ledgers/current") if n.endswith(".log")]
        machine.disk.damage(f"/data/ledgers/current/{log}", FILE_HEADER_BYTES + 90)
        assert await client.read(1, 0) == Code.IO
        assert machine.bookie.metrics.damaged == 1
        await client.close()


async def test_deleted_ledgers_are_forgotten_and_not_restored() -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        for ledger in (1, 2):
            await machine.store.create(paths.ledger(ledger), b"", make_parents=True)
            for entry in range(40):
                assert await client.add(ledger, entry, bytes(1000)) == Code.OK
        await machine.bookie.serving.checkpointer.step(checkpoint=True)
        assert await machine.bookie.serving.garbage.collect() == 0
        assert await client.add(1, 40, b"still cached") == Code.OK
        await machine.store.delete(paths.ledger(1))
        assert await machine.bookie.serving.garbage.collect() == 1
        for _ in range(2):
            assert await client.read(1, 0) == Code.NO_LEDGER
            assert await client.add(1, 41, b"late") == Code.FENCED
            assert await client.read(2, 39) == bytes(1000)
            await machine.bookie.serving.checkpointer.step(checkpoint=True)
        await client.close()
        await machine.kill()
    async with machine:
        client = await machine.client()
        assert await client.read(1, 0) == Code.NO_LEDGER
        assert await client.add(1, 41, b"late", flags=2) == Code.FENCED
        assert await client.read(2, 39) == bytes(1000)
        await machine.store.delete(paths.ledger(2))
        assert await machine.bookie.serving.garbage.collect() == 1
        assert not [n for n in machine.disk.listdir("/data/ledgers/current") if n.endswith(".log")][
            1:
        ]
        await client.close()


async def test_nothing_is_deleted_when_the_store_is_another_clusters() -> None:
    async with Machine() as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        await machine.store.put(paths.INSTANCE_ID, b"somebody else")
        with pytest.raises(Exception, match="not this cluster"):
            await machine.bookie.serving.garbage.collect()
        assert await client.read(1, 0) == b"a"
        await client.close()


async def test_registers_again_after_the_session_expired() -> None:
    machine = Machine()
    async with machine:
        path = paths.available_bookie("bookie-1:3181")
        assert await machine.store.exists(path) is not None
        before = machine.store.session_id
        machine.metadata.expire(before)
        async with asyncio.timeout(120):
            while machine.store.session_id == before or await machine.store.exists(path) is None:
                await asyncio.sleep(0.02)
        stat = await machine.store.exists(path)
        assert stat is not None
        assert stat.ephemeral_owner == machine.store.session_id


async def test_registration_and_cookie_have_bookkeepers_bytes() -> None:
    async with Machine() as machine:
        instance = (await machine.store.get(paths.INSTANCE_ID))[0].decode()
        want = (
            '5\nbookieHost: "bookie-1:3181"\njournalDir: "/data/journal"\nledgerDirs: "1\\t/data/ledgers"\n'
            f'instanceId: "{instance}"\n'
        ).encode()
        assert (await machine.store.get(paths.cookie("bookie-1:3181")))[0] == want
        for directory in ("journal", "ledgers"):
            file = machine.disk.open(f"/data/{directory}/current/VERSION")
            assert file.pread(1000, 0) == want
        value, stat = await machine.store.get(paths.available_bookie("bookie-1:3181"))
        port = machine.bookie.port
        varint = bytes([port & 0x7F | 0x80, port >> 7 & 0x7F | 0x80, port >> 14])
        assert value == b"2#\n\x06bookie\x10" + varint + b'\x1a\t127.0.0.1"\nbookie-rpc'
        assert stat.ephemeral_owner == machine.store.session_id


@pytest.mark.parametrize("loss", ["disks", "one directory", "store cookie", "cluster"])
async def test_a_bookie_whose_disks_and_store_disagree_does_not_start(loss: str) -> None:
    machine = Machine()
    async with machine:
        pass
    async with machine:
        store = machine.store
        disk = machine.disk
        for directory in ("journal", "ledgers"):
            if loss == "disks" or (loss == "one directory" and directory == "journal"):
                disk.remove(f"/data/{directory}/current/VERSION")
        if loss == "store cookie":
            await store.delete(paths.cookie("bookie-1:3181"))
        if loss == "cluster":
            await store.put(paths.INSTANCE_ID, b"another")
    with pytest.raises(IdentityError):
        async with machine:
            pass


@pytest.mark.virtual_time
async def test_a_first_start_cut_off_anywhere_can_be_repeated() -> None:
    whole = Machine()
    async with whole:
        total = whole.disk.operations
    for at in range(total):
        machine = Machine()

        def plan(op: str, path: str, machine: Machine = machine, at: int = at) -> None:
            if machine.disk.operations > at:
                raise Crashed(op)

        machine.disk.plan = plan
        store = machine.metadata.session()
        bookie = make(machine.disk, store)
        try:
            async with asyncio.timeout(0.2):
                await bookie.start()
        except (Crashed, TimeoutError):
            pass
        bookie.failed = RuntimeError("killed")
        machine.disk.plan = None
        await bookie.stop()
        await store.close()
        machine.disk.crash()
        async with machine:
            client = await machine.client()
            assert await client.add(1, 0, b"a") == Code.OK
            await client.close()


async def test_metrics_and_ready_are_served() -> None:
    async with Machine(http_server_port=0) as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        machine.bookie.mode.set(True, "disk usage of /d 0.822")
        pages = {}
        for path in ("/metrics", "/ready", "/api/v1/bookie/info", "/nothing"):
            reader, writer = await asyncio.open_connection("127.0.0.1", machine.bookie._status.port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            pages[path] = await reader.read()
            writer.close()
            await writer.wait_closed()
        assert b"200" in pages["/ready"].split(b"\r\n")[0]
        assert b"bookie_entries_added_total 1.0" in pages["/metrics"]
        bookkeeper = (
            *("bookie_SERVER_STATUS{} 0", "bookie_ledger_writable_dirs{} 1"),
            *('bookkeeper_server_ADD_ENTRY_count{success="true"} 1', "bookie_ledgers_count{} 1"),
            *('bookkeeper_server_READ_ENTRY_count{success="false"} 0', "process_open_fds "),
        )
        for line in bookkeeper:
            assert f"\n{line}".encode() in pages["/metrics"]
        space = json.loads(pages["/api/v1/bookie/info"].partition(b"\r\n\r\n")[2])
        assert 0 < space["freeSpace"] <= space["totalSpace"] == machine.disk.capacity_bytes
        assert (space["ledgers"], space["storedBytes"] > 0) == (1, True)
        assert (space["readOnly"], space["reason"]) == (True, "disk usage of /d 0.822")
        assert space["since"] == machine.bookie.mode.since_ms > 0
        assert 0 <= space["usage"] < space["usageWritable"] <= space["usageLimit"] < 1
        assert b"404" in pages["/nothing"].split(b"\r\n")[0]
        await client.close()


async def test_adds_beyond_the_bound_wait_in_the_socket_and_are_all_answered() -> None:
    machine = Machine(max_pending_add_bytes=4096)
    async with machine:
        client = await machine.client()
        frames = [add(1, entry, bytes(3000)) for entry in range(300)]
        client.writer.writelines(frames)
        seen = [struct.unpack(">iqq", (await client.answer())[8:]) for _ in frames]
        assert seen == [(0, 1, entry) for entry in range(300)]
        assert machine.bookie.serving.checkpointer.flushes >= 3
        assert [await client.read(1, entry) for entry in (0, 150, 299)] == [bytes(3000)] * 3
        await client.close()


async def test_a_lost_index_is_rebuilt_before_a_client_is_served() -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        assert await client.read(2, 0, fence=KEY) == Code.NO_ENTRY
        await client.close()
    machine.disk.drop_index("/data/ledgers/current/index")
    async with machine:
        client = await machine.client()
        assert await client.read(1, 0) == b"a"
        assert await client.read(1, 1) == Code.NO_ENTRY
        assert await client.add(2, 0, b"b") == Code.FENCED
        await client.close()


async def test_a_registration_left_by_a_crash_is_replaced_at_once() -> None:
    machine = Machine()
    async with machine:
        pass
    before = machine.metadata.session()
    path = paths.available_bookie("bookie-1:3181")
    await before.create(path, b"left behind", ephemeral=True)
    async with asyncio.timeout(120), machine:
        value, stat = await machine.store.get(path)
        assert value != b"left behind"
        assert stat.ephemeral_owner == machine.store.session_id
        await before.close()
        assert await machine.store.exists(path) is not None
