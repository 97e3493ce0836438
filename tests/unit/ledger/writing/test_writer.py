"""Appending and reading against real bookies: order, quorums, striping, lost bookies, close."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from engine.base.errors import MisuseError
from engine.ledger.digest import Digest, DigestType, Header, master_key
from engine.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    ReadError,
    UnauthorizedError,
)
from engine.ledger.ledger_metadata import LedgerState
from engine.wire.bookie_commands import RECOVERY_ADD, add_request
from tests.support.ledger_cluster import Cluster, Listener, payloads_of, run_of

pytestmark = pytest.mark.virtual_time

Start = Callable[[int], Awaitable[Cluster]]


def numbered(first: int, count: int, size: int = 100) -> list[bytes]:
    return [b"%08d" % i + b"x" * (size - 8) for i in range(first, first + count)]


async def test_appended_runs_are_confirmed_in_order_and_read_back(start_cluster: Start) -> None:
    client = (await start_cluster(1)).client()
    listener = Listener()
    writer = await client.create(1, 1, 1, listener=listener, custom={"k": b"v"})
    wanted: list[bytes] = []
    for size in (1, 10, 200, 3):
        payloads = numbered(len(wanted), size)
        run = run_of(*payloads)
        assert writer.append(run) == len(wanted) == run.first
        assert run.ledger_id == writer.ledger_id
        wanted += payloads
    assert listener.marks == []  # append itself reports nothing
    await listener.reach(len(wanted))
    assert listener.marks == sorted(set(listener.marks))
    assert (writer.last_confirmed, writer.last_pushed) == (213, 213)
    assert writer.length == sum(map(len, wanted))
    assert writer.pending_bytes == 0

    reader = writer.reader()
    got: list[bytes] = []
    while len(got) < len(wanted):
        slices = await reader.read(len(got), reader.last_confirmed, 1 << 20)
        assert slices[0].first == len(got)
        got += payloads_of(slices)
    assert got == wanted

    await writer.close()
    metadata = await client.metadata(writer.ledger_id)
    assert (metadata.state, metadata.last_entry) == (LedgerState.CLOSED, 213)
    assert metadata.length == sum(map(len, wanted))
    assert dict(metadata.custom) == {"k": b"v"}
    with pytest.raises(LedgerClosedError):
        writer.append(run_of(b"late"))


async def test_large_entries_are_sent_without_a_copy(start_cluster: Start) -> None:
    client = (await start_cluster(1)).client()
    listener = Listener()
    writer = await client.create(1, 1, 1, listener=listener)
    payloads = [bytes([i]) * (300_000 + i) for i in range(8)]
    writer.append(run_of(*payloads))
    await listener.reach(8)
    reader = writer.reader()
    got: list[bytes] = []
    while len(got) < 8:
        got += payloads_of(await reader.read(len(got), 7, 1 << 20))
    assert got == payloads


@pytest.mark.parametrize(("e", "w", "a"), [(3, 3, 2), (3, 2, 2), (3, 2, 1), (2, 2, 2)])
async def test_entries_are_read_back_at_every_quorum_and_striping(
    start_cluster: Start, e: int, w: int, a: int
) -> None:
    client = (await start_cluster(e)).client()
    listener = Listener()
    writer = await client.create(e, w, a, listener=listener)
    wanted: list[bytes] = []
    for size in (5, 1, 30):
        payloads = numbered(len(wanted), size)
        writer.append(run_of(*payloads))
        wanted += payloads
    await writer.close()
    assert listener.below == len(wanted)
    reader = await client.open(writer.ledger_id, recover=False)
    assert (reader.closed, reader.last_confirmed) == (True, 35)
    assert reader.length == sum(map(len, wanted))
    assert payloads_of(await reader.read(0, 35, 1 << 20)) == wanted


async def test_reads_are_bounded_by_confirmed_entries_and_bytes(start_cluster: Start) -> None:
    client = (await start_cluster(1)).client()
    listener = Listener()
    writer = await client.create(1, 1, 1, listener=listener)
    reader = writer.reader()
    with pytest.raises(NoSuchEntryError):
        await reader.read(0, 10, 1000)
    writer.append(run_of(*numbered(0, 50)))
    await listener.reach(50)
    assert len(payloads_of(await reader.read(0, 1000, 1000))) == 10
    assert len(payloads_of(await reader.read(45, 1000, 1 << 20))) == 5
    assert len(payloads_of(await reader.read(7, 7, 0))) == 1
    with pytest.raises(MisuseError):
        await reader.read(3, 2, 10)


async def test_too_few_bookies_and_bad_quorums_are_refused(start_cluster: Start) -> None:
    client = (await start_cluster(1)).client()
    with pytest.raises(NotEnoughBookiesError):
        await client.create(2, 2, 1)
    with pytest.raises(MisuseError):
        await client.create(1, 2, 1)


async def test_missing_ledger_wrong_password_and_delete(start_cluster: Start) -> None:
    client = (await start_cluster(1)).client()
    with pytest.raises(NoSuchLedgerError):
        await client.open(4711, recover=True)
    writer = await client.create(1, 1, 1, password=b"secret")
    writer.append(run_of(b"x"))
    await writer.close()
    with pytest.raises(UnauthorizedError):
        await client.open(writer.ledger_id, b"other", recover=False)
    reader = await client.open(writer.ledger_id, b"secret", recover=False)
    assert payloads_of(await reader.read(0, 0, 10)) == [b"x"]
    await client.delete(writer.ledger_id)
    await client.delete(writer.ledger_id)
    with pytest.raises(NoSuchLedgerError):
        await client.open(writer.ledger_id, b"secret", recover=False)


async def test_ledger_ids_are_not_used_twice(start_cluster: Start) -> None:
    cluster = await start_cluster(1)
    clients = [cluster.client(), cluster.client()]
    made = await asyncio.gather(*(clients[i % 2].create(1, 1, 1) for i in range(10)))
    assert len({writer.ledger_id for writer in made}) == 10


async def test_a_lost_bookie_is_replaced_and_nothing_confirmed_is_lost(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(4)
    client = cluster.client()
    listener = Listener()
    writer = await client.create(3, 3, 2, listener=listener)
    before = numbered(0, 100)
    writer.append(run_of(*before))
    await listener.reach(100)
    victim = writer.metadata.segments[0].bookies[1]
    stopping = asyncio.get_running_loop().create_task(cluster.stop(victim))
    wanted = list(before)
    while not stopping.done() or len(writer.metadata.segments) == 1:
        payloads = numbered(len(wanted), 20)
        writer.append(run_of(*payloads))
        wanted += payloads
        await asyncio.sleep(0.01)
    await listener.reach(len(wanted))
    await writer.close()
    assert listener.errors == []
    stored = await client.metadata(writer.ledger_id)
    assert [segment.first for segment in stored.segments] == sorted(
        {segment.first for segment in stored.segments}
    )
    assert victim not in stored.segments[-1].bookies
    assert len(set(stored.segments[-1].bookies)) == 3
    reader = await client.open(writer.ledger_id, recover=False)
    got: list[bytes] = []
    while len(got) < len(wanted):
        got += payloads_of(await reader.read(len(got), reader.last_confirmed, 1 << 20))
    assert got == wanted


async def test_without_a_spare_bookie_the_ack_quorum_continues_and_the_bookie_returns(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(3)
    client = cluster.client()
    listener = Listener()
    writer = await client.create(3, 3, 2, listener=listener)
    writer.append(run_of(*numbered(0, 10)))
    await listener.reach(10)
    victim = writer.metadata.segments[0].bookies[2]
    await cluster.stop(victim)
    writer.append(run_of(*numbered(10, 10)))
    await listener.reach(20)
    await cluster.start(victim)
    while len(writer.metadata.segments) == 1:
        await asyncio.sleep(0.01)
    writer.append(run_of(*numbered(20, 10)))
    await listener.reach(30)
    assert writer.metadata.segments[-1].bookies == writer.metadata.segments[0].bookies
    await writer.close()
    assert payloads_of(await writer.reader().read(0, 29, 1 << 20))[:20] == numbered(0, 20)


async def test_losing_the_ack_quorum_fails_the_writer_once(start_cluster: Start) -> None:
    cluster = await start_cluster(2)
    client = cluster.client()
    listener = Listener()
    writer = await client.create(2, 2, 2, listener=listener)
    writer.append(run_of(*numbered(0, 5)))
    await listener.reach(5)
    await cluster.stop("b0")
    error = await listener.fail()
    assert isinstance(error, NotEnoughBookiesError)
    with pytest.raises(NotEnoughBookiesError):
        writer.append(run_of(b"x"))
    await writer.close()  # settles what is unconfirmed: nothing beyond entry 4 exists
    stored = await client.metadata(writer.ledger_id)
    assert (stored.state, stored.last_entry) == (LedgerState.CLOSED, 4)
    assert listener.errors == [error]


async def test_a_corrupt_replica_is_skipped(start_cluster: Start) -> None:
    cluster = await start_cluster(2)
    client = cluster.client()
    listener = Listener()
    writer = await client.create(2, 2, 2, listener=listener)
    writer.append(run_of(*numbered(0, 10)))
    await listener.reach(10)
    # overwrite one replica's entry 4 with other bytes under the same id: its digest does not fit
    good = Digest(DigestType.CRC32C, b"").seal(Header(writer.ledger_id, 4, 3, 500), b"y" * 100)
    bad = good[:-1] + b"z"
    channel = client.bookies.links.channel(writer.metadata.segments[0].bookies[0])
    channel.send(add_request(writer.ledger_id, 4, master_key(b""), bad, RECOVERY_ADD))
    await writer.close()
    reader = await client.open(writer.ledger_id, recover=False)
    for _ in range(3):
        got: list[bytes] = []
        while len(got) < 10:
            got += payloads_of(await reader.read(len(got), 9, 1 << 20))
        assert got == numbered(0, 10)


async def test_absence_is_not_reported_when_no_replica_answers(start_cluster: Start) -> None:
    cluster = await start_cluster(1)
    client = cluster.client()
    listener = Listener()
    writer = await client.create(1, 1, 1, listener=listener)
    writer.append(run_of(b"x"))
    await writer.close()
    reader = await client.open(writer.ledger_id, recover=False)
    await cluster.stop("b0")
    with pytest.raises(ReadError):
        await reader.read(0, 0, 10)


async def test_closing_the_client_fails_its_writers(start_cluster: Start) -> None:
    client = (await start_cluster(1)).client()
    listener = Listener()
    await client.create(1, 1, 1, listener=listener)
    await client.close()
    assert [type(error) for error in listener.errors] == [LedgerClosedError]
    assert issubclass(LedgerClosedError, LedgerError)
