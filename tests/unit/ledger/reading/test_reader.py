"""Reading: batches and bookies that do not know them, order of replicas, hangs, scans, ensembles that moved."""

import asyncio
from dataclasses import replace

import pytest

from engine.base.errors import MisuseError
from engine.ledger import metadata_update
from engine.ledger.digest import Digest, DigestType, Header, master_key
from engine.ledger.errors import CorruptEntryError, NoSuchEntryError, ReadError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment, encode
from engine.ledger.reading.reader import LedgerReader
from engine.metadata import paths
from engine.metadata.records import BookieRacks
from engine.wire import bookie_commands as wire
from tests.support.ledger_cluster import PATIENT, Listener, payloads_of, run_of
from tests.support.scripted_bookies import (
    Request,
    Scripted,
    World,
    honest,
    numbered,
    refusing,
    silent,
)

pytestmark = pytest.mark.virtual_time


async def closed_ledger(
    world: World, shape: tuple[int, int, int], count: int
) -> tuple[int, list[Scripted]]:
    listener = Listener()
    client = world.client()
    writer = await client.create(*shape, listener=listener)
    writer.append(run_of(*numbered(count)))
    await listener.reach(count)
    for bookie in world.bookies.values():  # lagging copies too
        async with asyncio.timeout(120):
            while bookie.name in writer.metadata.segments[0].bookies and not bookie.entries:
                await asyncio.sleep(0.005)
    await writer.close()
    await client.close()
    for bookie in world.bookies.values():
        bookie.requests.clear()
    return writer.ledger_id, [world.bookies[b] for b in writer.metadata.segments[0].bookies]


async def read_all(reader: LedgerReader, bytes_max: int = 1 << 20) -> list[bytes]:
    payloads: list[bytes] = []
    while len(payloads) <= reader.last_confirmed:
        payloads += payloads_of(await reader.read(len(payloads), reader.last_confirmed, bytes_max))
    return payloads


async def test_a_run_is_one_request_to_one_bookie_and_one_slice(world: World) -> None:
    await world.start(3)
    ledger, members = await closed_ledger(world, (3, 3, 2), 500)
    reader = await world.client().open(ledger, recover=False)
    [run] = await reader.read(0, 499, 1 << 20)
    assert payloads_of([run]) == numbered(500)
    assert (run.ledger_id, run.first, run.count) == (ledger, 0, 500)
    assert [len(bookie.batch_requests) for bookie in members] == [1, 0, 0]
    assert not any(bookie.requests for bookie in members)


async def test_a_batch_is_bounded_by_bytes_and_the_next_continues_behind_it(world: World) -> None:
    await world.start(1)
    ledger, [bookie] = await closed_ledger(world, (1, 1, 1), 1000)
    reader = await world.client().open(ledger, recover=False)
    runs = await reader.read(0, 999, 2000)
    assert 1000 < sum(run.size for run in runs) < 4000
    assert await read_all(reader, 2000) == numbered(1000)
    assert len(bookie.batch_requests) > 3


@pytest.mark.parametrize("refuse", [True, False])
async def test_a_bookie_without_batch_reads_receives_single_reads(
    world: World, refuse: bool
) -> None:
    """Read singly after a refusal or a closed connection; writers to the bookie keep their connections."""
    await world.start(1)
    listener = Listener()
    client = world.client()
    ledger, [bookie] = await closed_ledger(world, (1, 1, 1), 20)
    writer = await client.create(1, 1, 1, listener=listener)
    if refuse:
        bookie.batch_code = wire.EBADREQ
    else:
        bookie.batches = False
    reader = await client.open(ledger, recover=False)
    assert await read_all(reader) == numbered(20)
    assert await read_all(reader) == numbered(20)
    assert len(bookie.batch_requests) == 1
    writer.append(run_of(b"still connected"))
    await listener.reach(1)
    assert len(writer.metadata.segments) == 1


async def test_batch_reads_are_tried_again_when_the_bookie_registers_again(world: World) -> None:
    await world.start(1)
    ledger, [bookie] = await closed_ledger(world, (1, 1, 1), 20)
    bookie.batches = False
    client = world.client()
    reader = await client.open(ledger, recover=False)
    await read_all(reader)
    path = paths.available_bookie(bookie.name)
    record, _ = await world.store.get(path)
    changed = asyncio.Event()
    stop = client.bookies.registrations.on_change(changed.set)
    await world.store.delete(path)
    while client.bookies.registrations.writable:
        await changed.wait()
        changed.clear()
    bookie.batches = True
    await world.store.create(path, record)
    while not client.bookies.registrations.writable:
        await changed.wait()
        changed.clear()
    stop()
    await read_all(reader)
    assert len(bookie.batch_requests) == 2


async def test_failed_and_slow_bookies_are_read_from_last(world: World) -> None:
    await world.start(3)
    ledger, members = await closed_ledger(world, (3, 3, 2), 10)
    asked: list[str] = []

    def watch(bookie: Scripted, request: Request) -> list[bytes]:
        asked.append(bookie.name)
        return (silent if bookie is members[0] else honest)(bookie, request)

    for bookie in members:
        bookie.answer = watch
    # The first replica is overtaken when it is silent for so long.
    client = world.client(speculative_read_timeout_s=0.3)
    reader = await client.open(ledger, recover=False)
    async with asyncio.timeout(PATIENT.read_entry_timeout_s):
        assert await read_all(reader) == numbered(10)
    assert asked[0] == members[0].name
    fresh = await client.open(ledger, recover=False)
    for ledger_reader in (reader, fresh):
        for first in range(10):
            asked.clear()
            await ledger_reader.read(first, first, 1)
            assert asked[0] != members[0].name


async def test_bookies_of_the_same_rack_are_read_from_first(world: World) -> None:
    await world.start(3)
    ledger, members = await closed_ledger(world, (3, 3, 2), 10)
    racks = BookieRacks({"group": {members[2].name: {"rack": "/near"}}})
    await world.store.create(paths.BOOKIE_RACKS, racks.encode(), make_parents=True)
    client = world.client(local_rack="/near")
    loaded = asyncio.Event()
    client.bookies.registrations.on_change(loaded.set)
    reader = await client.open(ledger, recover=False)
    await loaded.wait()
    for _ in range(3):
        await read_all(reader)
    assert [len(bookie.batch_requests) for bookie in members] == [0, 0, 3]


async def test_a_hung_bookies_connection_is_closed_and_all_its_requests_fail(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.start(2)
    ledger, members = await closed_ledger(world, (2, 2, 2), 10)
    client = world.client(speculative_read_timeout_s=0.0, read_entry_timeout_s=3600.0)
    asked = asyncio.Event()

    def hang(bookie: Scripted, request: object) -> list[bytes]:
        asked.set()
        return silent(bookie, request)

    members[0].answer = hang
    reader = await client.open(ledger, recover=False)
    channel = client.bookies.links.reading(members[0].name)
    reading = asyncio.ensure_future(read_all(reader))
    await asked.wait()
    now = (loop := asyncio.get_running_loop()).time
    monkeypatch.setattr(loop, "time", lambda: now() + 3600.0)
    assert await reading == numbered(10)
    assert channel.down is not None
    assert "hangs" in channel.down


async def test_a_failed_connect_is_not_repeated_immediately(world: World) -> None:
    await world.start(1)
    ledger, [bookie] = await closed_ledger(world, (1, 1, 1), 3)
    client = world.client(reconnect_backoff_max_s=30.0)
    reader = await client.open(ledger, recover=False)
    world.disconnect()
    refused = 0
    for _ in range(20):
        with pytest.raises(ReadError):
            await reader.read(0, 2, 100)
        down = client.bookies.links.reading(bookie.name).down
        refused += down == "cannot be connected to"
    assert refused >= 15


async def test_unsent_bytes_are_bounded_before_the_connection_is_established(world: World) -> None:
    """Leave one bookie unconnected: the others confirm, and its queue stays within the bound."""
    await world.start(4)
    listener = Listener()
    client = world.client(unsent_bytes_max=1 << 20, connect_timeout_s=60.0)
    writer = await client.create(3, 3, 2, listener=listener)
    first = writer.metadata.segments[0].bookies[0]
    channel = client.bookies.links.channel(first)
    assert channel.transport is None  # and it never will be
    made: list[asyncio.Transport] = []
    setattr(channel, "connection_made", made.append)  # noqa: B010
    payload = b"x" * 100_000
    for i in range(40):
        writer.append(run_of(payload))
        await listener.reach(i + 1)
        assert channel.buffered_bytes < 2 << 20
    assert channel.down == "too many bytes wait for the connection"
    assert first not in writer.metadata.segments[-1].bookies
    await writer.close()
    for transport in made:
        transport.abort()


async def test_a_reader_follows_an_ensemble_that_was_repaired(world: World) -> None:
    await world.start(4)
    ledger, members = await closed_ledger(world, (2, 2, 2), 10)
    reader = await world.client().open(ledger, recover=False)
    others = [bookie for bookie in world.bookies.values() if bookie not in members]
    for old, new in zip(members, others, strict=True):
        new.entries, old.entries = old.entries, {}
    moved = (Segment(0, tuple(bookie.name for bookie in others)),)
    await metadata_update.change(
        world.store, ledger, lambda stored: replace(stored, segments=moved), 1.0
    )
    assert await read_all(reader) == numbered(10)
    for bookie in members:
        bookie.requests.clear()
        bookie.batch_requests.clear()
    assert await read_all(reader) == numbered(10)
    assert not any(bookie.batch_requests for bookie in members)  # the reader remembers the refusal


async def test_permanent_loss_is_distinguished_from_unavailability(world: World) -> None:
    await world.start(2)
    ledger, members = await closed_ledger(world, (2, 2, 2), 3)
    reader = await world.client().open(ledger, recover=False)
    members[0].entries = {slot: entry[:-1] for slot, entry in members[0].entries.items()}
    members[1].entries = {}
    with pytest.raises(CorruptEntryError):
        await reader.read(0, 2, 1000)
    members[1].answer = refusing(wire.EIO)
    with pytest.raises(ReadError) as caught:
        await reader.read(0, 2, 1000)
    assert not isinstance(caught.value, CorruptEntryError)


async def test_a_bookie_that_refuses_access_names_the_setting(world: World) -> None:
    await world.start(1)
    ledger, members = await closed_ledger(world, (1, 1, 1), 1)
    reader = await world.client().open(ledger, recover=False)
    members[0].answer = refusing(wire.EUA)
    with pytest.raises(ReadError, match="EUA, no access: see bookkeeper_tls_certificate_file_path"):
        await reader.read(0, 0, 1000)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 2)])
@pytest.mark.parametrize("ranges", [1, 3])
async def test_a_scan_yields_every_entry_in_order(
    world: World, shape: tuple[int, int, int], ranges: int
) -> None:
    await world.start(3)
    ledger, _ = await closed_ledger(world, shape, 700)
    reader = await world.client().open(ledger, recover=False)
    payloads: list[bytes] = []
    async with reader.scan(3, 650, 900, ranges) as scan:
        async for slices in scan:
            assert slices[0].first == 3 + len(payloads)
            payloads += payloads_of(slices)
    assert payloads == numbered(700)[3:651]


async def test_a_scan_reads_ranges_ahead_and_cancels_them_at_its_end(world: World) -> None:
    await world.start(1)
    ledger, [bookie] = await closed_ledger(world, (1, 1, 1), 700)
    client = world.client()
    reader = await client.open(ledger, recover=False)
    async with reader.scan(0, 699, 900, 4) as scan:
        await anext(scan)
        bookie.batch_requests.clear()
        bookie.answer = silent
        waiting = asyncio.ensure_future(anext(scan))
        while len(bookie.batch_requests) < 3:
            await asyncio.sleep(0.005)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        bookie.answer = honest
        bookie.transports[-1].abort()
        # A cancelled wait loses nothing: the next call returns the range, or raises its failure.
        with pytest.raises(ReadError):
            await anext(scan)
        assert payloads_of(await anext(scan))
    assert not client.bookies.links.reading(bookie.name)._batch_sinks


async def test_a_scan_raises_at_the_failed_range_and_can_be_resumed(world: World) -> None:
    await world.start(1)
    ledger, [bookie] = await closed_ledger(world, (1, 1, 1), 300)
    del bookie.entries[ledger, 250]
    reader = await world.client().open(ledger, recover=False)
    payloads: list[bytes] = []
    async with reader.scan(0, 299, 900) as scan:
        with pytest.raises(NoSuchEntryError, match="entry 250"):
            async for slices in scan:
                payloads += payloads_of(slices)
    assert payloads == numbered(250)
    with pytest.raises(MisuseError):
        reader.scan(0, 1, 0)


@pytest.mark.parametrize("kind", list(DigestType))
@pytest.mark.parametrize("batches", [True, False])
async def test_ledgers_of_every_digest_are_read_and_recovered(
    world: World, kind: DigestType, batches: bool
) -> None:
    """Read ledgers as other clients write them: the metadata names the digest type, the password gives the keys."""
    await world.start(2)
    digest = Digest(kind, b"pw")
    for bookie in world.bookies.values():
        bookie.batches = batches
        length = 0
        for i, payload in enumerate(numbered(6)):
            length += len(payload)
            bookie.entries[7, i] = digest.seal(Header(7, i, i - 1, length), payload)
    opened = LedgerMetadata(
        2, 2, 2, (Segment(0, tuple(world.bookies)),), digest=kind, password=b"pw"
    )
    await world.store.create(paths.ledger(7), encode(opened), make_parents=True)
    reader = await world.client().open(7, b"pw", recover=True)
    assert (reader.last_confirmed, reader.length) == (5, sum(map(len, numbered(6))))
    assert reader.metadata.state is LedgerState.CLOSED
    assert await read_all(reader) == numbered(6)
    for bookie in world.bookies.values():
        for request in bookie.requests:
            if isinstance(request, wire.AddRequest):
                assert request.master_key == master_key(b"pw")
        if kind is not DigestType.DUMMY:
            entry = bytearray(bookie.entries[7, 3])
            entry[-1] ^= 4
            bookie.entries[7, 3] = bytes(entry)
    if kind is not DigestType.DUMMY:
        with pytest.raises(CorruptEntryError, match="entry 3"):
            await read_all(reader)
