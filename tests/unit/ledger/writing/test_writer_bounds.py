"""The writer with slow, hung and lagging bookies: its waits, its bounds and its end."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ledger import metadata_update
from engine.ledger.errors import LedgerClosedError
from engine.ledger.ledger_metadata import LedgerState
from engine.ledger.writing.progress import AckProgress
from engine.metadata import paths
from engine.metadata.memory import Fault
from engine.wire import bookie_commands as wire
from tests.support.ledger_cluster import PATIENT, Listener, run_of
from tests.support.scripted_bookies import Request, Scripted, World, honest, numbered, silent

pytestmark = pytest.mark.virtual_time


def test_a_bookies_silence_is_measured_from_its_last_answer() -> None:
    progress = AckProgress(2, silence_s=1.0, age_s=100.0)
    progress.started(0.0)
    assert progress.check([0, 5], 5, 0.5) == ([], True)
    assert progress.check([1, 5], 5, 0.75) == ([], True)
    assert progress.check([1, 5], 5, 1.5) == ([], True)
    assert progress.check([1, 5], 5, 1.75) == ([0], False)
    assert progress.check([None, 5], 5, 9.0) == ([], False)


def test_an_unanswered_add_fails_its_bookie_despite_other_answers() -> None:
    progress = AckProgress(1, silence_s=1.0, age_s=2.0)
    progress.started(0.0)
    sent = 10
    for tick in range(8):  # two ticks' worth behind, always: fine
        assert progress.check([sent - 8], sent, tick * 0.25) == ([], True)
        sent += 4
    behind = 0
    late: list[int] = []
    while not late:
        behind += 1
        tick += 1
        late, _ = progress.check([sent - 8 - 4 * behind + behind], sent, tick * 0.25)
        sent += 4
        assert behind < 40
    assert behind > 4


def test_a_new_member_owes_no_answers_to_earlier_adds() -> None:
    progress = AckProgress(2, silence_s=1.0, age_s=2.0)
    progress.started(0.0)
    progress.check([0, 0], 100, 0.0)
    progress.replaced(0, 0, 1.9)
    assert progress.check([0, 100], 100, 2.5) == ([], True)
    assert progress.check([0, 100], 100, 2.9) == ([0], False)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_a_bookie_that_answers_everything_in_time_never_fails(steps: list[int]) -> None:
    progress = AckProgress(1, silence_s=1.0, age_s=1.0)
    progress.started(0.0)
    sent = 0
    for tick, added in enumerate(steps):
        # what was sent up to a tick before is answered now
        assert progress.check([sent], sent + added, tick * 0.5)[0] == []
        sent += added


async def test_a_bookie_that_lags_increasingly_is_replaced_without_a_stall(world: World) -> None:
    await world.start(4)
    listener = Listener()
    # The lagging bookie is replaced when an add of its is too old, though it answers others in time.
    client = world.client(add_entry_age_max_s=0.4, add_entry_timeout_s=0.2)
    writer = await client.create(3, 3, 2, listener=listener)
    lagging = world.bookies[writer.metadata.segments[0].bookies[0]]
    owed: list[bytes] = []
    asked = 0

    def every_second(bookie: Scripted, request: Request) -> list[bytes]:
        nonlocal asked
        asked += 1
        owed.extend(honest(bookie, request))
        return [owed.pop(0)] if asked % 2 == 0 else []

    lagging.answer = every_second
    count = 0
    async with asyncio.timeout(120):
        while lagging.name in writer.metadata.segments[-1].bookies:
            writer.append(run_of(*numbered(4)))
            count += 4
            await listener.reach(count)
            await asyncio.sleep(0.01)
    assert count > 40
    await writer.close()


async def test_bytes_for_a_bookie_that_reads_nothing_are_bounded(world: World) -> None:
    await world.start(4)
    listener = Listener()
    client = world.client(unsent_bytes_max=1 << 20, add_entry_timeout_s=60.0)
    writer = await client.create(3, 3, 2, listener=listener)
    stopped = world.bookies[writer.metadata.segments[0].bookies[0]]
    writer.append(run_of(b"x"))
    await listener.reach(1)
    for transport in stopped.transports:
        transport.pause_reading()  # as a stopped process
    channel = client.bookies.links.channel(stopped.name)
    payload = b"x" * 500_000
    count = 1
    most = 0
    while channel.down is None:
        writer.append(run_of(payload))
        count += 1
        await listener.reach(count)
        most = max(most, channel.buffered_bytes)
        assert count < 400
    assert most < 3 << 20
    assert writer.pending_bytes < 1 << 20
    writer.append(run_of(b"y"))
    await listener.reach(count + 1)
    assert stopped.name not in writer.metadata.segments[-1].bookies
    await writer.close()


async def test_a_striped_writer_continues_past_a_hung_bookie(world: World) -> None:
    await world.start(4)
    listener = Listener()
    # The hung bookie is replaced when its add times out.
    client = world.client(add_entry_timeout_s=1.0)
    writer = await client.create(3, 2, 2, listener=listener)
    world.bookies[writer.metadata.segments[0].bookies[1]].answer = silent
    writer.append(run_of(*numbered(9)))
    async with asyncio.timeout(PATIENT.add_entry_timeout_s):
        await listener.reach(9)
    assert len(writer.metadata.segments) == 1
    await writer.close()


async def test_close_waits_for_pending_adds_and_refuses_new_ones(world: World) -> None:
    await world.start(1)
    listener = Listener()
    writer = await world.client().create(1, 1, 1, listener=listener)
    held: list[bytes] = []

    def hold(bookie: Scripted, request: Request) -> list[bytes]:
        held.extend(honest(bookie, request))
        return []

    world.bookies["b0"].answer = hold
    writer.append(run_of(*numbered(3)))
    closing = [asyncio.ensure_future(writer.close()) for _ in range(2)]
    while len(held) < 3:
        await asyncio.sleep(0.005)
    with pytest.raises(LedgerClosedError):
        writer.append(run_of(b"late"))
    assert not closing[0].done()
    world.bookies["b0"].transports[0].write(b"".join(held))
    await asyncio.gather(*closing)
    assert listener.marks == [3]
    assert (writer.metadata.state, writer.metadata.last_entry) == (LedgerState.CLOSED, 2)
    assert writer.length == sum(map(len, numbered(3)))


async def test_a_cancelled_close_continues_and_can_be_awaited_again(world: World) -> None:
    await world.start(1)
    listener = Listener()
    writer = await world.client().create(1, 1, 1, listener=listener)
    writer.append(run_of(b"x"))
    await listener.reach(1)
    world.server.on_call = lambda _s, op, _path: Fault(delay_s=2.0) if op == "put" else None
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await writer.close()
    assert (await metadata_update.read(world.store, writer.ledger_id)).state is LedgerState.OPEN
    await writer.close()
    assert (await metadata_update.read(world.store, writer.ledger_id)).state is LedgerState.CLOSED


async def test_a_cancelled_create_leaves_at_most_an_empty_ledger(world: World) -> None:
    await world.start(1)
    client = world.client()
    await client.create(1, 1, 1, listener=Listener())  # the directories are there
    world.server.on_call = lambda _s, op, path: (
        Fault(reply_delay_s=2.0) if op == "create" and paths.ledger_id(path) is not None else None
    )
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await client.create(1, 1, 1, listener=Listener())
    world.server.on_call = None
    listener = Listener()
    writer = await client.create(1, 1, 1, listener=listener)
    assert writer.ledger_id == 2
    writer.append(run_of(b"x"))
    await listener.reach(1)
    empty = await client.open(1, recover=True)
    assert empty.last_confirmed == -1


async def test_a_cancelled_read_leaves_no_request_behind(world: World) -> None:
    await world.start(1)
    listener = Listener()
    client = world.client()
    writer = await client.create(1, 1, 1, listener=listener)
    writer.append(run_of(*numbered(10)))
    await listener.reach(10)
    await writer.close()
    reader = await client.open(writer.ledger_id, recover=False)
    bookie = world.bookies["b0"]
    for batches in (True, False):
        bookie.answer = silent
        if not batches:
            client.bookies.links.mark_batches_refused("b0")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.read(0, 9, 1000)
        channel = client.bookies.links.reading("b0")
        assert not channel._batch_sinks
        assert not channel._readers
        bookie.answer = honest
        assert (await reader.read(0, 9, 1000))[0].first == 0


async def test_deleting_a_ledger_ends_its_writer(world: World) -> None:
    await world.start(1)
    listener = Listener()
    client = world.client()
    writer = await client.create(1, 1, 1, listener=listener)
    world.bookies["b0"].answer = silent
    writer.append(run_of(b"x"))
    await client.delete(writer.ledger_id)
    assert isinstance(await listener.fail(), LedgerClosedError)
    assert listener.below == 0
    with pytest.raises(LedgerClosedError):
        writer.append(run_of(b"y"))
    await client.delete(writer.ledger_id)  # a second deletion is no error


async def test_a_read_only_bookie_is_replaced_and_still_read_from(world: World) -> None:
    await world.start(3)
    listener = Listener()
    client = world.client(delay_ensemble_change=True)
    writer = await client.create(2, 2, 1, listener=listener)
    writer.append(run_of(*numbered(3)))
    await listener.reach(3)
    full = writer.metadata.segments[0].bookies[0]
    changed = asyncio.Event()
    client.bookies.registrations.on_change(changed.set)
    await world.make_read_only(full)
    while full not in client.bookies.registrations.read_only:
        changed.clear()
        await changed.wait()

    def read_only(bookie: Scripted, request: Request) -> list[bytes]:
        if isinstance(request, wire.AddRequest):
            return [wire.add_reply(wire.EREADONLY, request.ledger_id, request.entry_id)]
        return honest(bookie, request)

    world.bookies[full].answer = read_only
    writer.append(run_of(*numbered(3)))
    async with asyncio.timeout(120):
        while full in writer.metadata.segments[-1].bookies:
            await asyncio.sleep(0.01)
    await listener.reach(6)
    assert len(await writer.reader().read(0, 2, 1000)) == 1
    await writer.close()
