"""Recovery against real bookies: confirmed entries stay, a fenced writer confirms nothing more, one close wins."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from engine.ledger.digest import Digest, DigestType, Header, master_key
from engine.ledger.errors import LedgerError, LedgerFencedError, LedgerRecoveryError
from engine.ledger.ledger_metadata import LedgerState
from engine.ledger.quorum import write_set
from engine.ledger.reading.reader import LedgerReader
from engine.metadata import paths
from engine.wire.bookie_commands import add_request
from tests.support.ledger_cluster import Cluster, Listener, payloads_of, run_of

pytestmark = pytest.mark.virtual_time

Start = Callable[[int], Awaitable[Cluster]]


def numbered(first: int, count: int) -> list[bytes]:
    return [b"entry %05d" % i for i in range(first, first + count)]


async def read_all(reader: LedgerReader) -> list[bytes]:
    got: list[bytes] = []
    while len(got) <= reader.last_confirmed:
        got += payloads_of(await reader.read(len(got), reader.last_confirmed, 1 << 20))
    return got


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 2, 2), (3, 3, 2), (3, 2, 2), (3, 2, 1)])
async def test_an_unclosed_ledger_is_recovered_with_every_confirmed_entry(
    start_cluster: Start, shape: tuple[int, int, int]
) -> None:
    cluster = await start_cluster(shape[0])
    listener = Listener()
    dead = cluster.client()
    writer = await dead.create(*shape, listener=listener)
    wanted: list[bytes] = []
    for size in (3, 50, 1):
        payloads = numbered(len(wanted), size)
        writer.append(run_of(*payloads))
        wanted += payloads
    await listener.reach(54)
    await dead.close()  # the process is gone: nothing was closed

    reader = await cluster.client().open(writer.ledger_id, recover=True)
    assert (reader.closed, reader.last_confirmed) == (True, 53)
    assert reader.length == sum(map(len, wanted))
    assert await read_all(reader) == wanted


async def test_empty_ledger_is_recovered_as_empty(start_cluster: Start) -> None:
    cluster = await start_cluster(1)
    writer = await cluster.client().create(1, 1, 1)
    reader = await cluster.client().open(writer.ledger_id, recover=True)
    assert (reader.closed, reader.last_confirmed, reader.length) == (True, -1, 0)


async def test_a_fenced_writer_confirms_nothing_more(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    listener = Listener()
    writer = await cluster.client().create(3, 3, 2, listener=listener)
    writer.append(run_of(*numbered(0, 10)))
    await listener.reach(10)
    reader = await cluster.client().open(writer.ledger_id, recover=True)
    assert reader.last_confirmed == 9
    writer.append(run_of(*numbered(10, 10)))
    assert isinstance(await listener.fail(confirmed=10), LedgerFencedError)
    assert listener.below == 10
    with pytest.raises(LedgerFencedError):
        writer.append(run_of(b"x"))
    with pytest.raises(LedgerFencedError):
        await writer.close()
    stored = await cluster.client().metadata(writer.ledger_id)
    assert (stored.state, stored.last_entry) == (LedgerState.CLOSED, 9)


async def test_recovery_under_load_keeps_every_confirmed_entry(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    for turn in range(5):
        listener = Listener()
        writer = await cluster.client().create(3, 3, 2, listener=listener)
        sent: list[bytes] = []

        async def load(writer: object = writer, sent: list[bytes] = sent) -> None:
            while True:
                payloads = numbered(len(sent), 7)
                try:
                    writer.append(run_of(*payloads))  # type: ignore[attr-defined]
                except LedgerError:
                    return
                sent += payloads
                await asyncio.sleep(0.0001)

        loading = asyncio.get_running_loop().create_task(load())
        await listener.reach(100 * (turn + 1))
        reader = await cluster.client().open(writer.ledger_id, recover=True)
        await loading
        assert isinstance(await listener.fail(), LedgerFencedError)
        assert reader.last_confirmed >= listener.below - 1
        assert await read_all(reader) == sent[: reader.last_confirmed + 1]


async def test_concurrent_recoveries_agree(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    listener = Listener()
    dead = cluster.client()
    writer = await dead.create(3, 3, 2, listener=listener)
    writer.append(run_of(*numbered(0, 40)))
    await listener.reach(40)
    await dead.close()
    clients = [cluster.client() for _ in range(4)]
    readers = await asyncio.gather(
        *(client.open(writer.ledger_id, recover=True) for client in clients)
    )
    assert {reader.last_confirmed for reader in readers} == {39}
    _, stat = await cluster.store.get(paths.ledger(writer.ledger_id))
    assert stat.version == 2  # IN_RECOVERY once, CLOSED once


async def test_recovery_succeeds_with_one_bookie_down_and_replaces_it(start_cluster: Start) -> None:
    cluster = await start_cluster(4)
    listener = Listener()
    dead = cluster.client()
    writer = await dead.create(3, 3, 2, listener=listener)
    wanted = numbered(0, 40)
    writer.append(run_of(*wanted))
    await listener.reach(40)
    await dead.close()
    await cluster.stop(writer.metadata.segments[0].bookies[0])
    reader = await cluster.client().open(writer.ledger_id, recover=True)
    assert reader.last_confirmed == 39
    assert await read_all(reader) == wanted


async def test_recovery_without_coverage_fails_and_can_be_repeated(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    listener = Listener()
    dead = cluster.client()
    writer = await dead.create(3, 3, 2, listener=listener)
    writer.append(run_of(*numbered(0, 10)))
    await listener.reach(10)
    await dead.close()
    for victim in ("b0", "b1"):
        await cluster.stop(victim)
    client = cluster.client()
    with pytest.raises(LedgerRecoveryError):
        await client.open(writer.ledger_id, recover=True)
    assert (await client.metadata(writer.ledger_id)).state is LedgerState.IN_RECOVERY
    await cluster.start("b0")
    async with asyncio.timeout(120):
        while True:
            try:
                reader = await client.open(writer.ledger_id, recover=True)
                break
            except LedgerRecoveryError:
                # The client does not know yet that the bookie is available again.
                await asyncio.sleep(0.05)
    assert reader.last_confirmed == 9


async def test_recovery_completes_or_drops_an_unconfirmed_entry_by_proof(
    start_cluster: Start,
) -> None:
    """Make the only copy of an unconfirmed entry durable; with its bookie down, decide nothing from the other two."""
    cluster = await start_cluster(3)
    dead = cluster.client()
    listener = Listener()
    writer = await dead.create(3, 3, 2, listener=listener)
    writer.append(run_of(*numbered(0, 5)))
    await listener.reach(5)
    holder = writer.metadata.segments[0].bookies[write_set(5, 3, 3)[0]]
    header = Header(writer.ledger_id, 5, 4, writer.length + 5)
    stray = Digest(DigestType.CRC32C, b"").seal(header, b"stray")
    channel = dead.bookies.links.channel(holder)
    channel.send(add_request(writer.ledger_id, 5, master_key(b""), stray))
    channel.close()  # sends what is queued first
    while channel.down is None:
        await asyncio.sleep(0.01)
    await dead.close()
    reader = await cluster.client().open(writer.ledger_id, recover=True)
    assert reader.last_confirmed in (4, 5)
    got = await read_all(reader)
    assert got == [*numbered(0, 5), b"stray"][: reader.last_confirmed + 1]
    if reader.last_confirmed == 5:
        await cluster.stop(holder)
        assert await read_all(await cluster.client().open(writer.ledger_id, recover=False)) == got


async def test_recovery_in_the_writers_own_process_stops_the_writer(start_cluster: Start) -> None:
    cluster = await start_cluster(2)
    client = cluster.client()
    listener = Listener()
    writer = await client.create(2, 2, 2, listener=listener)
    writer.append(run_of(*numbered(0, 30)))
    reader = await client.open(writer.ledger_id, recover=True)
    assert [type(error) for error in listener.errors] == [LedgerFencedError]
    assert reader.last_confirmed >= listener.below - 1
    assert await read_all(reader) == numbered(0, reader.last_confirmed + 1)


async def test_open_without_recovery_follows_the_writer(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    listener = Listener()
    writer = await cluster.client().create(3, 3, 2, listener=listener)
    writer.append(run_of(*numbered(0, 10)))
    await listener.reach(10)
    writer.append(run_of(*numbered(10, 1)))  # carries the LAC of the ten
    await listener.reach(11)
    reader = await cluster.client().open(writer.ledger_id, recover=False)
    assert not reader.closed
    assert reader.last_confirmed in (9, 10)
    assert payloads_of(await reader.read(0, 9, 1 << 20)) == numbered(0, 10)
    await writer.close()
    assert await reader.read_last_confirmed() == 10
    assert reader.closed
