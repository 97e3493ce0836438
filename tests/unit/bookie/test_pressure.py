"""Bounds on a bookie's memory while clients request more than it can serve (B14)."""

import asyncio
import socket
import struct

from bookie.requests.connection import STORED_READS_MAX
from bookie.storage.codes import Code
from engine.net.transport import BUFFERED_BYTES_MAX, HIGH_WATER_BYTES
from tests.support.bookies import Client, Machine, add, read

ENTRY = 100_000


async def filled(machine: Machine, entries: int) -> Client:
    client = await machine.client()
    for entry in range(entries):
        assert await client.add(1, entry, bytes([entry]) * ENTRY) == Code.OK
    return client


async def narrow_client(machine: Machine) -> Client:
    """Return a client whose kernel buffers little of what it has not read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", machine.bookie.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=64 << 10)
    return Client(reader, writer)


def buffered(machine: Machine) -> int:
    return max(c.buffered_bytes for c in machine.bookie._listener.connections)


async def settled(machine: Machine) -> int:
    """Wait until the unsent bytes no longer change; return their number."""
    before, same = -1, 0
    async with asyncio.timeout(120):
        while same < 20:
            await asyncio.sleep(0)
            now = buffered(machine)
            before, same = now, same + 1 if now == before else 0
    return before


async def test_a_client_that_requests_much_and_reads_nothing_has_bounded_answers() -> None:
    for flushed in (False, True):
        async with Machine(write_cache_bytes=8 << 20) as machine:
            await (await filled(machine, 20)).close()
            if flushed:
                await machine.bookie.serving.checkpointer.step(checkpoint=True)
            client = await narrow_client(machine)
            asked = [entry % 20 for entry in range(2000)]  # 200 MB
            client.writer.write(b"".join(read(1, entry) for entry in asked))
            bound = 2 * HIGH_WATER_BYTES + (STORED_READS_MAX + 1) * (ENTRY + 100) + (256 << 10)
            assert 0 < await settled(machine) < bound < BUFFERED_BYTES_MAX
            seen: list[int] = []
            for _ in range(100):
                answer = await client.answer()
                ids = struct.unpack_from(">iqq", answer, 8)
                assert ids[:2] == (0, 1)
                assert answer[60:] == bytes([ids[2]]) * ENTRY
                assert buffered(machine) < bound
                seen.append(ids[2])
            assert len(set(seen)) == 20
            client.writer.transport.abort()


async def test_every_request_put_off_is_answered_in_the_end() -> None:
    async with Machine(write_cache_bytes=8 << 20) as machine:
        await (await filled(machine, 10)).close()
        client = await narrow_client(machine)
        frames = []
        for i in range(200):
            frames.append(read(1, i % 10))
            if i % 3 == 0:
                frames.append(add(2, i // 3, b"%d" % i))
        client.writer.write(b"".join(frames))
        answers = [await client.answer() for _ in frames]
        adds = [a for a in answers if a[5] == 1]
        assert len(adds) == 67
        assert {struct.unpack_from(">i", a, 8)[0] for a in answers} == {0}
        assert [struct.unpack_from(">q", a, 20)[0] for a in adds] == list(range(67))
        assert await client.read(2, 66) == b"198"
        await client.close()


async def test_adds_held_for_a_full_cache_are_refused_as_soon_as_the_bookie_is_read_only() -> None:
    async with Machine(max_pending_add_bytes=4096) as machine:
        client = await machine.client()
        for entry in range(20):
            assert await client.add(1, entry, bytes(2000)) == Code.OK
        disk = machine.disk
        room, disk.capacity_bytes = disk.capacity_bytes, disk.capacity_bytes - disk.free_bytes("/")
        assert not await machine.bookie.serving.checkpointer.step(checkpoint=True)
        machine.bookie.mode.set(False, "as if nobody had looked at the disk yet")
        frames = [add(1, entry, bytes(2000)) for entry in range(20, 120)]
        client.writer.writelines(frames)
        async with asyncio.timeout(120):
            codes = [struct.unpack_from(">i", await client.answer(), 8)[0] for _ in frames]
        assert set(codes) <= {Code.OK, Code.READ_ONLY}
        assert codes[-1] == Code.READ_ONLY
        assert machine.bookie.read_only
        disk.capacity_bytes = room
        assert await machine.bookie.serving.checkpointer.step(checkpoint=True)
        for entry, answered in zip(range(20, 120), codes, strict=True):
            if answered == Code.OK:
                assert await client.read(1, entry) == bytes(2000)
        await client.close()


async def test_reads_and_fences_of_others_go_on_while_adds_are_held() -> None:
    async with Machine() as machine:
        writer, other = await machine.client(), await machine.client()
        assert await writer.add(1, 0, b"a") == Code.OK
        # as if a slow disk had not synced them
        machine.bookie.serving.journal.pending_bytes += 1 << 30
        assert await writer.add(1, 1, b"b") == Code.OK
        writer.writer.write(add(1, 2, b"c"))
        assert await other.read(1, 1) == b"b"
        assert await other.read(1, 0, fence=b"\0" * 20) == Code.UNAUTHORIZED
        assert await other.read(1, 2) == Code.NO_ENTRY
        machine.bookie.serving.journal.pending_bytes -= 1 << 30
        machine.bookie.serving.requests.relieve()
        assert struct.unpack_from(">i", await writer.answer(), 8)[0] == Code.OK
        await writer.close()
        await other.close()
