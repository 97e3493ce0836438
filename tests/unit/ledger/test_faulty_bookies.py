"""The ledger client against bookies that misbehave on the wire: hang, answer late, twice, out of order or nonsense."""

import asyncio

import pytest

from engine.ledger.errors import (
    LedgerRecoveryError,
    NoSuchEntryError,
    NotEnoughBookiesError,
    ReadError,
    UnauthorizedError,
)
from engine.ledger.ledger_metadata import LedgerState
from engine.wire import bookie_commands as wire
from tests.support.ledger_cluster import PATIENT, Listener, payloads_of, run_of
from tests.support.scripted_bookies import (
    Answer,
    Scripted,
    World,
    honest,
    numbered,
    refusing,
    silent,
)

pytestmark = pytest.mark.virtual_time


async def test_a_bookie_that_hangs_is_replaced_after_the_timeout(world: World) -> None:
    await world.start(4)
    listener = Listener()
    # The hung bookie is replaced when its add times out.
    client = world.client(add_entry_timeout_s=1.0)
    writer = await client.create(3, 3, 3, listener=listener)
    hung = world.bookies[writer.metadata.segments[0].bookies[1]]
    hung.answer = silent
    writer.append(run_of(*numbered(10)))
    await listener.reach(10)
    assert hung.name not in writer.metadata.segments[-1].bookies
    assert [segment.first for segment in writer.metadata.segments] == [0]
    hung.answer = honest
    await writer.close()


async def test_striped_entries_are_resent_only_to_their_write_set(world: World) -> None:
    await world.start(4)
    listener = Listener()
    # The silent bookie is replaced when its add times out.
    client = world.client(add_entry_timeout_s=1.0)
    writer = await client.create(3, 2, 2, listener=listener)
    members = writer.metadata.segments[0].bookies
    writer.append(run_of(*numbered(4)))
    await listener.reach(4)
    world.bookies[members[0]].answer = silent
    writer.append(run_of(*numbered(8)))
    await listener.reach(12)
    spare = next(b for b in world.bookies.values() if b.name not in members)
    start = writer.metadata.segments[-1].first
    held = sorted(entry for _, entry in spare.entries)
    assert held == [e for e in range(start, 12) if (0 - e) % 3 < 2]
    await writer.close()


@pytest.mark.parametrize("rc", [wire.EIO, wire.EREADONLY, wire.ETOOMANYREQUESTS, wire.EBADREQ])
async def test_a_bookie_that_refuses_is_replaced(world: World, rc: int) -> None:
    await world.start(3)
    listener = Listener()
    writer = await world.client().create(2, 2, 2, listener=listener)
    bad = world.bookies[writer.metadata.segments[0].bookies[0]]
    bad.answer = lambda _b, r: [wire.add_reply(rc, r.ledger_id, r.entry_id)]
    writer.append(run_of(*numbered(5)))
    await listener.reach(5)
    assert bad.name not in writer.metadata.segments[-1].bookies
    await writer.close()


async def test_a_refused_password_ends_the_writer(world: World) -> None:
    await world.start(1)
    listener = Listener()
    writer = await world.client().create(1, 1, 1, listener=listener)
    world.bookies["b0"].answer = lambda _b, r: [wire.add_reply(wire.EUA, r.ledger_id, r.entry_id)]
    writer.append(run_of(b"x"))
    assert isinstance(await listener.fail(), UnauthorizedError)


async def test_answers_out_of_order_and_twice_confirm_in_order(world: World) -> None:
    await world.start(1)
    listener = Listener()
    writer = await world.client().create(1, 1, 1, listener=listener)
    kept: list[bytes] = []

    def reversed_answers(bookie: Scripted, request: object) -> list[bytes]:
        kept.extend(honest(bookie, request))  # type: ignore[arg-type]
        return [*reversed(kept), *kept] if len(kept) == 6 else []

    world.bookies["b0"].answer = reversed_answers
    writer.append(run_of(*numbered(6)))
    await listener.reach(6)
    assert listener.marks == sorted(set(listener.marks))


@pytest.mark.parametrize("garbage", [b"\0\0\0\x18" + b"\xff" * 24, b"\x7f\xff\xff\xff" + b"\0" * 9])
async def test_garbage_closes_the_connection_and_not_the_ledger(
    world: World, garbage: bytes
) -> None:
    await world.start(2)
    listener = Listener()
    writer = await world.client().create(1, 1, 1, listener=listener)
    bad = world.bookies[writer.metadata.segments[0].bookies[0]]
    bad.answer = lambda _b, _r: [garbage]
    writer.append(run_of(*numbered(3)))
    await listener.reach(3)
    assert writer.metadata.segments[-1].bookies != (bad.name,)
    await writer.close()


async def test_an_answer_to_an_add_that_was_never_sent_fails_the_bookie(world: World) -> None:
    await world.start(2)
    listener = Listener()
    writer = await world.client().create(1, 1, 1, listener=listener)
    bad = world.bookies[writer.metadata.segments[0].bookies[0]]
    bad.answer = lambda _b, r: [wire.add_reply(wire.EOK, r.ledger_id, r.entry_id + 7)]
    writer.append(run_of(*numbered(3)))
    await listener.reach(3)
    assert writer.last_confirmed == 2
    assert bad.name not in writer.metadata.segments[-1].bookies


async def test_a_slow_replica_is_overtaken(world: World) -> None:
    await world.start(2)
    # The next replica is asked when the first one is silent for so long.
    client = world.client(speculative_read_timeout_s=0.3)
    writer = await client.create(2, 2, 2, listener=Listener())
    writer.append(run_of(*numbered(5)))
    await writer.close()
    slow = world.bookies[writer.metadata.segments[0].bookies[0]]
    slow.answer = silent
    reader = await client.open(writer.ledger_id, recover=False)
    async with asyncio.timeout(PATIENT.read_entry_timeout_s):
        assert payloads_of(await reader.read(0, 4, 1000)) == numbered(5)


async def test_an_entry_missing_everywhere_differs_from_an_unknown_one(world: World) -> None:
    await world.start(2)
    client = world.client()
    writer = await client.create(2, 2, 2, listener=Listener())
    writer.append(run_of(*numbered(2)))
    await writer.close()
    reader = await client.open(writer.ledger_id, recover=False)
    for bookie in world.bookies.values():
        bookie.entries.clear()
    with pytest.raises(NoSuchEntryError):
        await reader.read(0, 1, 1000)
    world.bookies["b1"].answer = refusing(wire.EIO)
    with pytest.raises(ReadError):
        await reader.read(0, 1, 1000)


async def test_an_intact_prefix_is_returned_and_the_rest_read_from_another_replica(
    world: World,
) -> None:
    await world.start(2)
    client = world.client()
    writer = await client.create(2, 2, 2, listener=Listener())
    writer.append(run_of(*numbered(6)))
    await writer.close()
    holed = world.bookies[writer.metadata.segments[0].bookies[0]]
    del holed.entries[writer.ledger_id, 3]
    reader = await client.open(writer.ledger_id, recover=False)
    assert payloads_of(await reader.read(0, 5, 1000)) == numbered(6)[:3]
    assert payloads_of(await reader.read(3, 5, 1000)) == numbered(6)[3:]


async def test_recovery_does_not_truncate_on_unknown_answers(world: World) -> None:
    """Keep the tail at AQ 2 of 3: one copy may be on the failing bookie, so one "no" and one error prove nothing."""
    await world.start(3)
    dead = world.client()
    listener = Listener()
    writer = await dead.create(3, 3, 2, listener=listener)
    writer.append(run_of(*numbered(4)))
    await listener.reach(4)
    await dead.close()
    members = [world.bookies[b] for b in writer.metadata.segments[0].bookies]

    def cannot_say(bookie: Scripted, request: wire.AddRequest | wire.ReadRequest) -> list[bytes]:
        if isinstance(request, wire.ReadRequest) and request.entry_id >= 4:
            return [wire.read_reply(wire.EIO, request.ledger_id, request.entry_id)]
        return honest(bookie, request)

    members[0].answer = members[1].answer = cannot_say
    client = world.client()
    with pytest.raises(LedgerRecoveryError):
        await client.open(writer.ledger_id, recover=True)
    assert (await client.metadata(writer.ledger_id)).state is LedgerState.IN_RECOVERY
    members[0].answer = honest
    reader = await client.open(writer.ledger_id, recover=True)
    assert reader.last_confirmed == 3


async def test_recovery_fences_with_every_read(world: World) -> None:
    await world.start(3)
    dead = world.client()
    listener = Listener()
    writer = await dead.create(3, 3, 2, listener=listener)
    writer.append(run_of(*numbered(4)))
    await listener.reach(4)
    await dead.close()
    for bookie in world.bookies.values():
        bookie.requests.clear()
    await world.client().open(writer.ledger_id, recover=True)
    for bookie in world.bookies.values():
        reads = [r for r in bookie.requests if isinstance(r, wire.ReadRequest)]
        beyond = [r for r in reads if r.entry_id not in range(-1 + 1, 3)]
        assert reads
        assert all(r.flags & wire.DO_FENCING for r in beyond)


async def test_recovery_replaces_a_bookie_that_fails_during_it(world: World) -> None:
    await world.start(4)
    dead = world.client()
    listener = Listener()
    writer = await dead.create(3, 3, 3, listener=listener)
    members = [world.bookies[b] for b in writer.metadata.segments[0].bookies]
    held: list[bytes] = []

    def keep(bookie: Scripted, request: wire.AddRequest | wire.ReadRequest) -> list[bytes]:
        held.extend(honest(bookie, request))
        return []

    members[2].answer = keep  # holds the entries, so they are not confirmed but must be completed
    writer.append(run_of(*numbered(5)))
    while len(held) < 5:
        await asyncio.sleep(0.01)
    await dead.close()

    def no_adds(bookie: Scripted, request: wire.AddRequest | wire.ReadRequest) -> list[bytes]:
        if isinstance(request, wire.AddRequest):
            return [wire.add_reply(wire.EIO, request.ledger_id, request.entry_id)]
        return honest(bookie, request)

    members[2].answer = honest
    members[1].answer = no_adds
    client = world.client()
    reader = await client.open(writer.ledger_id, recover=True)
    assert reader.last_confirmed == 4
    stored = await client.metadata(writer.ledger_id)
    assert members[1].name not in stored.segments[-1].bookies
    for name in stored.segments[-1].bookies:
        assert all((writer.ledger_id, e) in world.bookies[name].entries for e in range(5))
    assert payloads_of(await reader.read(0, 4, 1000)) == numbered(5)


async def test_without_a_quorum_the_writer_fails(world: World) -> None:
    await world.start(1)
    listener = Listener()
    # The only bookie is given up when its add times out.
    writer = await world.client(add_entry_timeout_s=1.0).create(1, 1, 1, listener=listener)
    world.bookies["b0"].answer = silent
    writer.append(run_of(b"x"))
    assert isinstance(await listener.fail(), NotEnoughBookiesError)


async def test_recovery_keeps_every_ensemble_it_wrote_to(world: World) -> None:
    """Find each part of the tail where it was written, when two bookies die in two windows of one recovery."""
    await world.start(5)
    dead = world.client()
    writer = await dead.create(3, 3, 3, listener=Listener())
    members = [world.bookies[b] for b in writer.metadata.segments[0].bookies]
    held: list[bytes] = []

    def keep(bookie: Scripted, request: wire.AddRequest | wire.ReadRequest) -> list[bytes]:
        held.extend(honest(bookie, request))
        return []

    members[2].answer = keep
    writer.append(run_of(*numbered(12)))
    while len(held) < 12:
        await asyncio.sleep(0.01)
    await dead.close()

    def no_adds_from(limit: int) -> Answer:
        def answer(bookie: Scripted, request: wire.AddRequest | wire.ReadRequest) -> list[bytes]:
            if isinstance(request, wire.AddRequest) and request.entry_id >= limit:
                return [wire.add_reply(wire.EIO, request.ledger_id, request.entry_id)]
            return honest(bookie, request)

        return answer

    members[0].answer = no_adds_from(1)
    members[1].answer = no_adds_from(7)
    members[2].answer = honest
    client = world.client()
    reader = await client.open(writer.ledger_id, recover=True)
    stored = await client.metadata(writer.ledger_id)
    assert (reader.last_confirmed, len(stored.segments)) == (11, 3)
    for entry in range(12):
        for name in stored.bookies(entry):
            assert (writer.ledger_id, entry) in world.bookies[name].entries
