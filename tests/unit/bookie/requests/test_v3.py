"""The V3 protocol over a real socket: durable as V2, long polls, explicit LAC, and the answers about a bookie."""

import itertools
from collections.abc import Iterator

import pytest

from bookie.storage.codes import Code
from engine.wire import availability
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from tests.support.bookies import KEY, OTHER_KEY, Client, Machine, add, read
from tests.support.waiting import until

TXN: Iterator[int] = itertools.count(1)


def entry(ledger: int, entry_id: int, payload: bytes, lac: int | None = None) -> bytes:
    ids = (ledger, entry_id, entry_id - 1 if lac is None else lac, 0)
    return b"".join(n.to_bytes(8, "big", signed=True) for n in ids) + payload


def lac_body(ledger: int, lac: int) -> bytes:
    return v3.explicit_lac(ledger, lac, b"sums")


async def answer(client: Client) -> pb.Response:
    reply = await client.answer()
    assert reply, "connection closed"
    return v3.parse_response(reply, 0, len(reply))


async def ask(client: Client, request: bytes) -> pb.Response:
    client.writer.write(request)
    return await answer(client)


async def put(client: Client, ledger: int, entry_id: int, payload: bytes, **more: object) -> int:
    """Add an entry; return the V2 result code."""
    body = entry(ledger, entry_id, payload)
    key = more.pop("key", KEY)
    request = v3.add_request(next(TXN), ledger, entry_id, key, body, **more)  # type: ignore[arg-type]
    return v3.code((await ask(client, request)).status)


def waits(ledger: int, previous: int, timeout_ms: int = 10_000, **more: bool) -> bytes:
    return v3.read_request(
        next(TXN), ledger, -1, previous_lac=previous, timeout_ms=timeout_ms, piggyback=True
    )


async def test_entries_added_by_v3_are_the_bytes_that_v2_stores_and_survive_a_crash() -> None:
    machine = Machine()
    two, three = 0x2222222222, 0x3333333333
    async with machine:
        client = await machine.client()
        for i in range(40):
            assert await put(client, three, i, b"%d" % i * 300) == Code.OK
            assert await client.add(two, i, b"%d" % i * 300) == Code.OK
        await client.close()
        await machine.kill()
    async with machine:  # replayed, then read from the log
        client = await machine.client()
        for i in range(40):
            assert await client.ask(read(three, i)) == (await client.ask(read(two, i))).replace(
                two.to_bytes(8, "big"), three.to_bytes(8, "big")
            )
            got = await ask(client, v3.read_request(next(TXN), three, i))
            assert got.readResponse.body == entry(three, i, b"%d" % i * 300, i - 1)
            assert got.readResponse.maxLAC == 38
        assert await client.add(three, 40, b"by V2 now") == Code.OK
        assert await put(client, two, 40, b"by V3 now") == Code.OK
        await client.close()


async def test_both_protocols_may_arrive_in_one_buffer() -> None:
    async with Machine() as machine:
        client = await machine.client()
        frames = [
            add(1, 0, b"a") + add(1, 1, b"b"),
            v3.add_request(7, 1, 2, KEY, entry(1, 2, b"c")),
            add(1, 3, b"d"),
            v3.read_request(8, 1, 2),
            read(1, 3),
        ]
        client.writer.write(b"".join(frames))
        answers = [await client.answer() for _ in range(6)]
        transactions = {
            b[4:8] if b[4] == 2 else v3.parse_response(b, 0, len(b)).header.txnId for b in answers
        }
        assert transactions == {b"\x02\x01\0\0", b"\x02\x02\0\0", 7, 8}
        assert sum(b[8:12] == bytes(4) for b in answers if b[4] == 2) == 4
        await client.close()


async def test_v3_adds_are_refused_as_v2_adds_are() -> None:
    async with Machine() as machine:
        client = await machine.client()
        assert await put(client, 1, 0, b"a") == Code.OK
        assert await put(client, 1, 1, b"b", key=OTHER_KEY) == Code.UNAUTHORIZED
        assert await put(client, 1, 9, b"out of order") == Code.OK
        assert await put(client, 1, 4, b"late") == Code.OK
        fence = v3.read_request(next(TXN), 1, -1, fence_key=KEY)
        fenced = await ask(client, fence)
        assert fenced.readResponse.body[32:] == b"out of order"
        assert not fenced.readResponse.HasField("maxLAC")
        assert await put(client, 1, 10, b"c") == Code.FENCED
        assert await put(client, 1, 10, b"c", recovery=True) == Code.OK
        machine.bookie.mode.set(True, "test")
        assert await put(client, 2, 0, b"d") == Code.READ_ONLY
        assert await put(client, 2, 0, b"d", priority=100) == Code.OK
        assert await put(client, 1, 11, b"e", recovery=True) == Code.OK
        write = v3.write_lac_request(next(TXN), 1, 5, KEY, lac_body(1, 5))
        assert (await ask(client, write)).status == pb.EREADONLY
        await client.close()


async def test_a_v3_fence_is_durable_before_it_is_answered() -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        for ledger in (1, 2):
            assert await put(client, ledger, 0, b"a") == Code.OK
        assert (await ask(client, v3.read_request(1, 1, -1, fence_key=KEY))).status == pb.EOK
        assert (await ask(client, v3.read_request(2, 9, 3, fence_key=KEY))).status == pb.ENOENTRY
        assert (await ask(client, v3.read_request(3, 2, -1, fence_key=OTHER_KEY))).status == pb.EUA
        await client.close()
        await machine.kill()
    async with machine:
        client = await machine.client()
        assert await put(client, 1, 1, b"b") == Code.FENCED
        assert await put(client, 9, 0, b"b") == Code.FENCED
        assert await put(client, 2, 1, b"b") == Code.OK
        await client.close()


async def read_lac(client: Client, ledger: int) -> tuple[int, bytes, bytes]:
    got = await ask(client, v3.read_lac_request(next(TXN), ledger))
    return v3.code(got.status), got.readLacResponse.lacBody, got.readLacResponse.lastEntryBody


async def write_lac(client: Client, ledger: int, lac: int, key: bytes = KEY) -> int:
    request = v3.write_lac_request(next(TXN), ledger, lac, key, lac_body(ledger, lac))
    return v3.code((await ask(client, request)).status)


@pytest.mark.parametrize("flushed", [False, True])
async def test_an_explicit_lac_survives_a_crash_and_never_decreases(flushed: bool) -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        assert await read_lac(client, 1) == (Code.NO_ENTRY, b"", b"")
        assert await put(client, 1, 0, b"a") == Code.OK
        assert await put(client, 1, 1, b"b") == Code.OK
        assert await read_lac(client, 1) == (Code.OK, b"", entry(1, 1, b"b"))
        assert await write_lac(client, 1, 1) == Code.OK
        assert await write_lac(client, 1, 0) == Code.OK  # late on the way
        assert await write_lac(client, 1, 1, key=OTHER_KEY) == Code.UNAUTHORIZED
        assert await write_lac(client, 5, 3) == Code.OK  # a ledger of which nothing else is here
        if flushed:
            await machine.bookie.serving.checkpointer.step(checkpoint=True)
        await client.close()
        await machine.kill()
    for _ in range(2):
        async with machine:
            client = await machine.client()
            assert await read_lac(client, 1) == (Code.OK, lac_body(1, 1), entry(1, 1, b"b"))
            assert await read_lac(client, 5) == (Code.OK, lac_body(5, 3), b"")
            assert (await ask(client, v3.read_request(1, 1, 0))).readResponse.maxLAC == 1
            assert await client.read(5, 0) == Code.NO_ENTRY
            await client.close()


async def test_an_explicit_lac_is_answered_only_after_its_sync() -> None:
    async with Machine() as machine:
        client = await machine.client()
        synced: list[str] = []

        def plan(op: str, path: str) -> None:
            if op == "fdatasync" and "journal" in path:
                synced.append(path)

        machine.disk.plan = plan
        assert await write_lac(client, 1, 1) == Code.OK
        assert len(synced) == 1
        force = v3.force_request(next(TXN), 1)
        assert (await ask(client, force)).status == pb.EOK
        assert len(synced) == 2
        await client.close()


async def test_a_long_poll_is_answered_when_the_writer_adds_an_entry() -> None:
    async with Machine() as machine:
        writer, reader = await machine.client(), await machine.client()
        assert await writer.add(1, 0, b"a") == Code.OK
        for how in ("V2", "V3"):
            last = 0 if how == "V2" else 1
            reader.writer.write(waits(1, last - 1))
            if how == "V3":
                reader.writer.write(waits(1, 7))  # waits on
            waiting = 1 if how == "V2" else 2
            await until(lambda n=waiting: machine.bookie.serving.requests.long_polls == n)
            if how == "V2":
                assert await writer.add(1, 1, b"b") == Code.OK
            else:
                assert await put(writer, 1, 2, b"c") == Code.OK
            got = (await answer(reader)).readResponse
            assert (got.status, got.entryId, got.maxLAC) == (pb.EOK, last, last)
            assert got.body[32:] == b"ab"[last : last + 1]
            assert got.lacUpdateTimestamp > 1_600_000_000_000
        await reader.close()
        await until(lambda: machine.bookie.serving.requests.long_polls == 0)
        await writer.close()


async def test_a_long_poll_ends_with_an_explicit_lac_a_fence_or_its_time() -> None:
    async with Machine() as machine:
        writer, reader = await machine.client(), await machine.client()
        assert await writer.add(1, 0, b"a") == Code.OK
        polls = machine.bookie.serving.requests
        reader.writer.write(waits(1, -1))
        await until(lambda: polls.long_polls == 1)
        assert await write_lac(writer, 1, 0) == Code.OK
        got = (await answer(reader)).readResponse
        assert (got.entryId, got.maxLAC, got.body[32:]) == (0, 0, b"a")
        got = (await ask(reader, waits(1, 0, timeout_ms=20))).readResponse
        assert (got.status, got.entryId, got.maxLAC) == (pb.EOK, -1, 0)
        assert not got.HasField("body")
        reader.writer.write(waits(1, 0))
        await until(lambda: polls.long_polls == 1)
        assert await writer.read(1, 0, fence=KEY) == b"a"
        got = (await answer(reader)).readResponse
        assert (got.status, got.maxLAC, got.HasField("body")) == (pb.EOK, 0, False)
        assert polls.long_polls == 0
        await reader.close()
        await writer.close()


async def test_a_long_poll_over_a_flushed_ledger_knows_its_lac() -> None:
    async with Machine() as machine:
        client = await machine.client()
        for i in range(5):
            assert await put(client, 1, i, b"%d" % i) == Code.OK
        await machine.bookie.serving.checkpointer.step(checkpoint=True)
        got = (await ask(client, waits(1, 1))).readResponse
        assert (got.entryId, got.maxLAC, got.body[32:]) == (2, 3, b"2")
        reads = machine.bookie.metrics.v3_requests[pb.READ_ENTRY]
        assert reads == 1
        await client.close()


async def test_too_many_long_polls_are_refused() -> None:
    async with Machine(max_pending_read_requests=2) as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        client.writer.write(waits(1, 5) + waits(1, 6))
        assert (await ask(client, waits(1, 7))).status == pb.ETOOMANYREQUESTS
        await client.close()


async def test_lists_of_entries_cover_cache_and_log() -> None:
    async with Machine() as machine:
        client = await machine.client()

        async def held(ledger: int) -> list[tuple[int, int]]:
            got = await ask(client, v3.entries_request(next(TXN), ledger))
            assert got.status == pb.EOK
            blob = got.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
            return availability.merged(availability.decode(blob))

        for i in (0, 1, 2, 5, 6, 7, 10):
            assert await client.add(1, i, b"x") == Code.OK
        assert await held(1) == [(0, 2), (5, 7), (10, 10)]
        await machine.bookie.serving.checkpointer.step(checkpoint=True)
        assert await client.add(1, 11, b"x") == Code.OK
        assert await client.add(1, 3, b"x") == Code.OK
        assert await held(1) == [(0, 3), (5, 7), (10, 11)]
        assert await client.read(8, -1, fence=KEY) == Code.NO_ENTRY
        assert await held(8) == []
        await client.close()
