"""An answer to a read is one of OK, no such entry, no such ledger, damaged, maybe lost, fenced, and never confused
(B3, B4): every kind of read, in both protocols, over a real socket; and BookKeeper's own codes for bad requests."""

import errno
import struct
from collections.abc import Awaitable, Callable

import pytest

from bookie.storage.codes import Code
from bookie.storage.logs.entry_log_format import FILE_HEADER_BYTES
from engine.wire import bookie_commands as v2
from engine.wire import bookie_v3 as v3
from tests.support.bookies import KEY, OTHER_KEY, Client, Machine, add, code, read
from tests.unit.bookie.requests.test_v3 import lac_body, put

Ask = Callable[[Client, int, int], Awaitable[int]]


async def by_v2(client: Client, ledger: int, entry: int) -> int:
    return code(await client.ask(read(ledger, entry)))


async def by_v2_fencing(client: Client, ledger: int, entry: int) -> int:
    return code(await client.ask(read(ledger, entry, fence=KEY)))


async def by_v2_batch(client: Client, ledger: int, entry: int) -> int:
    return code(await client.ask(v2.batch_read_request(ledger, entry, 1, 5, 1 << 20)))


async def status(client: Client, request: bytes) -> int:
    answer = await client.ask(request)
    return v3.code(v3.parse_response(answer, 0, len(answer)).status)


async def by_v3(client: Client, ledger: int, entry: int) -> int:
    return await status(client, v3.read_request(1, ledger, entry))


async def by_v3_fencing(client: Client, ledger: int, entry: int) -> int:
    return await status(client, v3.read_request(1, ledger, entry, fence_key=KEY))


async def by_long_poll(client: Client, ledger: int, entry: int) -> int:
    """Return the status of a long poll whose answer carries the entry with the LAC."""
    request = v3.read_request(1, ledger, -1, previous_lac=entry - 1, timeout_ms=0, piggyback=True)
    return await status(client, request)


PLAIN: tuple[Ask, ...] = (by_v2, by_v2_batch, by_v3)
ALL: tuple[Ask, ...] = (*PLAIN, by_v2_fencing, by_v3_fencing)
LIMBO = {by_v2: Code.IO, by_v2_batch: Code.IO, by_v2_fencing: Code.IO}
"""V2 has no answer of its own for what may be lost; V3 has."""


def log_path(machine: Machine) -> str:
    [name] = [n for n in machine.disk.listdir("/data/ledgers/current") if n.endswith(".log")]
    return f"/data/ledgers/current/{name}"


@pytest.mark.parametrize("ask", ALL)
async def test_absent_unknown_and_deleted_are_distinguished(ask: Ask) -> None:
    async with Machine() as machine:
        client = await machine.client()
        for ledger in (1, 2):
            assert await client.add(ledger, 3, b"a") == Code.OK
        storage = machine.bookie.serving.storage
        storage.ledgers.delete(2, 1)
        for flushed in (False, True):
            assert await ask(client, 1, 3) == Code.OK
            assert await ask(client, 1, 2) == Code.NO_ENTRY
            assert await ask(client, 1, 4) == Code.NO_ENTRY
            assert await ask(client, 2, 3) == Code.NO_LEDGER
            if ask in PLAIN:
                assert await ask(client, 9, 0) == Code.NO_LEDGER
            if not flushed:
                await machine.bookie.serving.checkpointer.step(checkpoint=True)
        assert await ask(client, -1, 0) == Code.BAD_REQUEST
        assert await ask(client, 1, -9) == Code.BAD_REQUEST
        await client.close()


@pytest.mark.parametrize("ask", [*ALL, by_long_poll])
@pytest.mark.parametrize("how", ["flipped bit", "read error", "file gone"])
async def test_an_unreadable_entry_is_an_error_never_an_absence(ask: Ask, how: str) -> None:
    async with Machine(read_cache_bytes=0) as machine:
        client = await machine.client()
        for entry in range(3):
            assert await client.add(1, entry, b"a" * 100) == Code.OK
        assert await ask(client, 1, 0) == Code.OK
        await machine.bookie.serving.checkpointer.step(checkpoint=True)
        log = log_path(machine)

        def broken(op: str, path: str) -> None:
            if op in ("pread", "open") and path == log:
                raise OSError(errno.EIO, "Input/output error")

        if how == "flipped bit":
            machine.disk.damage(log, FILE_HEADER_BYTES + 90)
        elif how == "read error":
            machine.disk.plan = broken
        else:
            machine.bookie.serving.storage.reader.drop(1)
            machine.disk.remove(log)
        assert await ask(client, 1, 0) == Code.IO
        assert await ask(client, 1, 1) == Code.IO
        assert machine.bookie.metrics.damaged > 0
        assert await by_v2(client, 1, 3) == Code.NO_ENTRY
        assert await client.add(1, 3, b"b") == (Code.FENCED if "fencing" in ask.__name__ else 0)
        await client.close()


@pytest.mark.parametrize("ask", ALL)
async def test_a_bookie_that_may_have_lost_entries_denies_none(ask: Ask) -> None:
    async with Machine() as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        storage = machine.bookie.serving.storage
        storage.ledgers.enter_limbo()
        unsure = LIMBO.get(ask, Code.LIMBO)
        assert await ask(client, 1, 0) == Code.OK
        assert await ask(client, 1, 1) == unsure
        assert await ask(client, 1, -1) == unsure  # a later one may be lost
        assert await ask(client, 8, 0) == unsure  # also after it was fenced here
        assert await ask(client, 8, 0) == unsure
        assert await client.add(7, 3, b"not its first") == Code.OK
        assert await ask(client, 7, 2) == unsure
        assert await client.add(6, 0, b"begun after the loss") == Code.OK
        assert await ask(client, 6, 1) == Code.NO_ENTRY
        for request in (v3.read_lac_request(1, 1), v3.entries_request(1, 1)):
            assert await status(client, request) == Code.LIMBO
        await client.close()


@pytest.mark.parametrize("flushed", [False, True])
async def test_a_read_of_the_last_confirmed_entry_has_the_same_codes(flushed: bool) -> None:
    async with Machine(read_cache_bytes=0) as machine:
        client = await machine.client()
        lac = v3.read_lac_request(1, 1)
        assert await status(client, lac) == Code.NO_ENTRY
        assert await client.add(1, 0, b"a" * 100) == Code.OK
        assert await status(client, lac) == Code.OK
        if flushed:
            await machine.bookie.serving.checkpointer.step(checkpoint=True)
            machine.disk.damage(log_path(machine), FILE_HEADER_BYTES + 90)
            write = v3.write_lac_request(1, 1, 0, KEY, lac_body(1, 0))
            assert await status(client, write) == Code.OK
            assert await status(client, lac) == Code.IO  # an explicit LAC does not make it up
        await client.close()


@pytest.mark.parametrize("protocol", ["v2", "v3"])
async def test_invalid_adds_are_answered_with_bookkeepers_codes(protocol: str) -> None:
    async with Machine(netty_max_frame_size_bytes=100_000) as machine:
        client = await machine.client()

        async def add_one(ledger: int, entry: int, key: bytes = KEY) -> int:
            if protocol == "v2":
                return await client.add(ledger, entry, b"x", key=key)
            return await put(client, ledger, entry, b"x", key=key)

        assert await add_one(1, 5) == Code.OK  # the first need not be 0
        assert await add_one(1, 2) == Code.OK  # nor the next higher
        assert await add_one(1, 2) == Code.OK  # nor another
        assert await add_one(1, 3, key=OTHER_KEY) == Code.UNAUTHORIZED
        assert await add_one(1, -1) == Code.BAD_REQUEST
        assert await add_one(-4, 0) == Code.BAD_REQUEST
        assert await by_v2(client, 1, 3) == Code.NO_ENTRY
        largest = 100_000 - (56 if protocol == "v2" else 100)
        for size, taken in ((largest, True), (100_001, False)):
            body = bytes(size)
            if protocol == "v2":
                frame = add(1, 6, body)
            else:
                head = struct.pack(">qqqq", 1, 6, 5, 0)
                frame = v3.add_request(1, 1, 6, KEY, head + body)
            sender = await machine.client()
            assert bool(await sender.ask(frame)) == taken  # BookKeeper closes the connection
            sender.writer.transport.abort()
        await client.close()


async def test_entries_of_a_full_disk_are_refused_as_read_only_in_both_protocols() -> None:
    async with Machine() as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        machine.disk.capacity_bytes -= machine.disk.free_bytes("/")
        full = iter([OSError(errno.ENOSPC, "full")])

        def plan(op: str, path: str) -> None:
            if op == "pwritev" and "journal" in path:
                for error in full:
                    raise error

        machine.disk.plan = plan
        assert await put(client, 1, 1, b"b") == Code.READ_ONLY
        assert await client.add(1, 1, b"b") == Code.READ_ONLY
        assert machine.bookie.read_only
        assert await by_v3(client, 1, 0) == Code.OK
        await client.close()
