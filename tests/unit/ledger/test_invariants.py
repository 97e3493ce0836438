"""Invariants I1 to I18 of the ledger client, against bookies whose answers the test decides.

I19 to I32 belong to the bookie; the client's share of them (I20, I21, I25, I32) is here as well.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.ledger import metadata_update
from engine.ledger.client import LedgerClient
from engine.ledger.digest import header_of, master_key
from engine.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    LedgerRecoveryError,
    MetadataFormatError,
    NoSuchEntryError,
    ReadError,
    UnauthorizedError,
)
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment
from engine.ledger.quorum import holds
from engine.ledger.writing.writer import LedgerWriter
from engine.metadata import paths
from engine.metadata.memory import Fault
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
from tests.support.waiting import stays, until

pytestmark = pytest.mark.virtual_time


def members_of(world: World, writer: LedgerWriter) -> list[Scripted]:
    return [world.bookies[b] for b in writer.metadata.segments[-1].bookies]


class Holding:
    """A bookie that executes requests and holds back the answers to adds until they are released."""

    def __init__(self, bookie: Scripted) -> None:
        self._bookie = bookie
        self.held: list[bytes] = []
        bookie.answer = self

    def __call__(self, bookie: Scripted, request: Request) -> list[bytes]:
        frames = honest(bookie, request)
        if isinstance(request, wire.ReadRequest):
            return frames
        self.held += frames
        return []

    def release(self) -> None:
        """Send the held answers over the oldest connection."""
        self._bookie.transports[0].write(b"".join(self.held))
        self.held.clear()


async def written(
    world: World, shape: tuple[int, int, int], count: int, client: LedgerClient | None = None
) -> tuple[LedgerWriter, list[Scripted]]:
    """Return the writer of a ledger with ``count`` confirmed entries, and its bookies."""
    listener = Listener()
    writer = await (client or world.client()).create(*shape, listener=listener)
    writer.append(run_of(*numbered(count)))
    await listener.reach(count)
    return writer, members_of(world, writer)


# I1 to I4: what was confirmed stays, and stays the same


@pytest.mark.parametrize("hung", [0, 1, 2])
async def test_i1_recovery_keeps_every_confirmed_entry_whichever_bookie_hangs(
    world: World, hung: int
) -> None:
    await world.start(3)
    dead = world.client()
    listener = Listener()
    writer = await dead.create(3, 3, 2, listener=listener)
    members = members_of(world, writer)
    members[2].answer = silent  # the ack quorum is members 0 and 1 alone
    writer.append(run_of(*numbered(6)))
    await listener.reach(6)
    await dead.close()
    for i, bookie in enumerate(members):
        bookie.answer = silent if i == hung else honest
    # A read that the hung bookie got is answered once the next replica is asked as well.
    client = world.client(speculative_read_timeout_s=0.3)
    reader = await client.open(writer.ledger_id, recover=True)
    assert reader.closed
    assert reader.last_confirmed == 5
    assert payloads_of(await reader.read(0, 5, 1000)) == numbered(6)


async def test_i1_close_ends_at_the_last_confirmed_entry(world: World) -> None:
    await world.start(1)
    writer, [bookie] = await written(world, (1, 1, 1), 4)
    bookie.answer = silent
    writer.append(run_of(*numbered(3)))
    writer.abandon(LedgerError("the process gives up"))
    await writer.close()
    assert (writer.metadata.last_entry, writer.metadata.length) == (3, 4 * len(b"entry 0"))


async def test_i2_confirmed_entries_are_readable_with_all_but_one_copy_lost(world: World) -> None:
    await world.start(3)
    writer, members = await written(world, (3, 3, 3), 5)
    await writer.close()
    reader = await world.client().open(writer.ledger_id, recover=False)
    members[0].entries.clear()
    members[1].answer = refusing(wire.EIO)
    for first in range(5):
        assert payloads_of(await reader.read(first, first, 100)) == [b"entry %d" % first]


async def test_i3_recovered_entries_lie_on_an_ack_quorum_of_their_write_set(world: World) -> None:
    await world.start(3)
    dead = world.client()
    writer, members = await written(world, (3, 2, 2), 4, dead)
    for bookie in members:
        Holding(bookie)
    writer.append(run_of(*numbered(6)))
    await until(lambda: sum(len(bookie.entries) for bookie in members) == 20)
    # Member 1 crashed before its sync: no entry above 3 was confirmed.
    members[1].entries = {slot: entry for slot, entry in members[1].entries.items() if slot[1] < 4}
    await dead.close()
    for bookie in members:
        bookie.answer = honest
    reader = await world.client().open(writer.ledger_id, recover=True)
    assert reader.last_confirmed >= 3
    for entry in range(reader.last_confirmed + 1):
        for position, bookie in enumerate(members):
            if holds(position, entry, 3, 2):
                assert (writer.ledger_id, entry) in bookie.entries


@pytest.mark.parametrize("batches", [True, False])
async def test_i4_a_damaged_copy_is_never_delivered(world: World, batches: bool) -> None:
    await world.start(2)
    writer, members = await written(world, (2, 2, 2), 8)
    await writer.close()
    for bookie in members:
        bookie.batches = batches
    for entry, bookie in ((2, members[0]), (5, members[1])):
        stored = bytearray(bookie.entries[writer.ledger_id, entry])
        stored[-1] ^= 1
        bookie.entries[writer.ledger_id, entry] = bytes(stored)
    reader = await world.client().open(writer.ledger_id, recover=False)
    payloads: list[bytes] = []
    while len(payloads) < 8:
        payloads += payloads_of(await reader.read(len(payloads), 7, 1000))
    assert payloads == numbered(8)


# I5, I6, I13, I14: metadata only moves forward, by compare-and-set


def test_i5_i6_only_forward_steps_of_metadata_are_allowed() -> None:
    opened = LedgerMetadata(2, 2, 1, (Segment(0, ("a", "b")),))
    closed = opened.with_ensemble(5, ("a", "c")).closed(9, 90)
    changed = opened.with_ensemble(5, ("a", "c"))
    grown = changed.with_ensemble(7, ("a", "d"))
    elsewhere = (grown.segments[0], Segment(6, ("a", "c")), grown.segments[2])
    for after, before in (
        (opened, opened.recovering()),
        (closed.recovering(), closed),
        (replace(closed, last_entry=8), closed),
        (replace(closed, length=91), closed),
        (closed.with_ensemble(7, ("a", "d")), closed),
        (replace(grown, segments=elsewhere), grown),
        (replace(opened, write_quorum=1), opened),
        (replace(opened, password=b"other"), opened),
    ):
        with pytest.raises(MetadataFormatError):
            after.check_follows(before)
    opened.recovering().check_follows(opened)
    closed.check_follows(opened)
    closed.check_follows(opened.recovering())
    # A repair puts another member into a segment whose end is settled.
    replace(changed, segments=(Segment(0, ("x", "b")), changed.segments[1])).check_follows(changed)
    replace(closed, segments=(Segment(0, ("x", "b")), closed.segments[1])).check_follows(closed)


async def test_i5_a_closed_ledger_keeps_its_end(world: World) -> None:
    await world.start(2)
    # The close ends when the add whose answers are held back times out.
    client = world.client(add_entry_timeout_s=1.0)
    writer, members = await written(world, (2, 2, 2), 3, client)
    held = [Holding(bookie) for bookie in members]
    writer.append(run_of(b"late"))
    # The answers never reach the writer; recovery finds the entry.
    await until(lambda: all(holder.held for holder in held))
    for bookie in members:
        bookie.answer = honest
    stored = (await world.client().open(writer.ledger_id, recover=True)).metadata
    with pytest.raises((LedgerClosedError, LedgerFencedError)):
        await writer.close()
    assert await world.client().metadata(writer.ledger_id) == stored


async def test_i13_no_ensemble_change_once_recovery_began(world: World) -> None:
    await world.start(3)
    listener = Listener()
    writer = await world.client().create(2, 2, 2, listener=listener)
    before = writer.metadata.segments
    await metadata_update.start_recovery(world.store, writer.ledger_id, None, 1.0)
    members_of(world, writer)[0].answer = refusing(wire.EIO)
    writer.append(run_of(b"x"))
    assert isinstance(await listener.fail(), LedgerFencedError)
    stored = await metadata_update.read(world.store, writer.ledger_id)
    assert (stored.state, stored.segments) == (LedgerState.IN_RECOVERY, before)


async def test_i14_a_lost_compare_and_set_is_decided_again_on_the_stored_metadata(
    world: World,
) -> None:
    await world.start(5)
    listener = Listener()
    writer = await world.client().create(2, 2, 2, listener=listener)
    path = paths.ledger(writer.ledger_id)
    data, _ = await world.store.get(path)
    await world.store.put(path, data)  # the version moves, nothing else: the change is made again
    members_of(world, writer)[0].answer = refusing(wire.EIO)
    writer.append(run_of(b"x"))
    await listener.reach(1)
    stored = await metadata_update.read(world.store, writer.ledger_id)
    assert stored.segments == writer.metadata.segments
    # and another's ensemble means that another writes: stop
    other = stored.with_ensemble(1, ("zz", "yy"))
    await metadata_update.change(world.store, writer.ledger_id, lambda _stored: other, 1.0)
    members_of(world, writer)[0].answer = refusing(wire.EIO)
    writer.append(run_of(b"y"))
    assert isinstance(await listener.fail(), LedgerFencedError)
    assert (await metadata_update.read(world.store, writer.ledger_id)).segments == other.segments


async def test_i14_a_change_whose_answer_was_lost_is_resolved_by_reading(world: World) -> None:
    await world.start(3)
    listener = Listener()
    writer = await world.client().create(2, 2, 2, listener=listener)
    lost = iter([Fault(lose_reply=True)])
    world.server.on_call = lambda _session, op, _path: next(lost, None) if op == "put" else None
    members_of(world, writer)[0].answer = refusing(wire.EIO)
    writer.append(run_of(*numbered(3)))
    await listener.reach(3)
    stored = await metadata_update.read(world.store, writer.ledger_id)
    assert stored.segments == writer.metadata.segments
    await writer.close()


# I7 to I12: what the writer confirms


async def test_i7_a_covered_fence_ends_all_confirmation(world: World) -> None:
    await world.start(3)
    listener = Listener()
    writer = await world.client().create(3, 3, 2, listener=listener)
    members = members_of(world, writer)
    members[2].answer = silent
    Holding(members[0])
    writer.append(run_of(*numbered(2)))
    await until(lambda: len(members[1].entries) == 2)
    members[0].answer = honest
    recovered = await world.client().open(writer.ledger_id, recover=True)
    assert members[0].fenced or members[1].fenced
    writer.append(run_of(b"after the fence"))
    assert isinstance(await listener.fail(), LedgerFencedError)
    assert writer.last_confirmed <= recovered.last_confirmed


async def test_i8_no_entry_carries_more_than_was_confirmed(world: World) -> None:
    await world.start(4)
    listener = Listener()
    writer = await world.client().create(3, 3, 2, listener=listener)
    seen: list[int] = []

    def watch(bookie: Scripted, request: Request) -> list[bytes]:
        if isinstance(request, wire.AddRequest):
            lac = header_of(request.entry).lac
            assert lac < request.entry_id
            seen.append(lac)
            if lac > writer.last_confirmed:
                raise AssertionError(f"LAC {lac} above {writer.last_confirmed}")
        return honest(bookie, request)

    for bookie in world.bookies.values():
        bookie.answer = watch
    for _ in range(10):
        writer.append(run_of(*numbered(3)))
        await listener.next()
    members_of(world, writer)[0].answer = refusing(wire.EIO)
    writer.append(run_of(*numbered(3)))
    await listener.reach(33)
    assert max(seen) > 20


async def test_i8_a_reader_believes_no_entry_the_writer_has_not_confirmed(world: World) -> None:
    """Hide an entry that an ack quorum holds while the writer has no confirmation of it, or it is not synced there."""
    await world.start(3)
    writer, members = await written(world, (3, 3, 2), 4)
    held = [Holding(bookie) for bookie in members]
    writer.append(run_of(*numbered(3)))
    await until(lambda: all(len(bookie.entries) == 7 for bookie in members))
    client = world.client()
    reader = await client.open(writer.ledger_id, recover=False)
    assert reader.last_confirmed <= writer.last_confirmed == 3
    unsure = await client.open(writer.ledger_id, recover=False, unconfirmed=True)
    assert unsure.last_confirmed == 6  # a reader that asks for it sees what an ack quorum stores
    for holder in held:
        holder.release()


async def test_i9_a_readers_last_confirmed_never_falls(world: World) -> None:
    await world.start(2)
    writer, members = await written(world, (2, 2, 2), 3)
    writer.append(run_of(b"carries the mark"))
    await until(lambda: writer.last_confirmed == 3)
    reader = await world.client().open(writer.ledger_id, recover=False)
    assert reader.last_confirmed == 2
    for bookie in members:
        bookie.entries.clear()
    assert await reader.read_last_confirmed() == 2


async def test_i10_confirmations_are_in_order_without_gaps(world: World) -> None:
    await world.start(1)
    listener = Listener()
    writer = await world.client().create(1, 1, 1, listener=listener)
    [bookie] = members_of(world, writer)
    held = Holding(bookie)
    writer.append(run_of(*numbered(5)))
    await until(lambda: len(held.held) == 5)
    first, rest = held.held[0], held.held[1:]
    held.held = rest
    held.release()
    await stays(lambda: listener.below == 0, 0.05)  # entry 0 is missing
    held.held = [first]
    held.release()
    await listener.reach(5)
    assert listener.marks == [5]


async def test_i11_an_answer_of_a_replaced_bookie_does_not_count(world: World) -> None:
    await world.start(3)
    listener = Listener()
    writer = await world.client().create(2, 2, 2, listener=listener)
    members = members_of(world, writer)
    spare = next(b for b in world.bookies.values() if b not in members)
    old, new = Holding(members[0]), Holding(spare)
    writer.append(run_of(*numbered(3)))
    await until(lambda: len(old.held) == 3)
    members[0].transports[0].write(wire.add_reply(wire.EIO, writer.ledger_id, 0))
    await until(lambda: len(new.held) == 3)
    old.release()
    await stays(lambda: listener.below == 0, 0.05)
    new.release()
    await listener.reach(3)


async def test_i12_a_new_segment_starts_behind_the_last_confirmed_entry(
    world: World,
) -> None:
    """Hold back answers that complete entries until the metadata is changed (bugs 1591, 3005, 4651)."""
    await world.start(3)
    listener = Listener()
    writer = await world.client().create(2, 2, 1, listener=listener)
    members = members_of(world, writer)
    writer.append(run_of(*numbered(4)))
    await listener.reach(4)
    held = Holding(members[1])
    members[0].answer = silent
    writer.append(run_of(*numbered(4)))
    await until(lambda: len(held.held) == 4)
    changing = asyncio.Event()

    def slow(_session: int, operation: str, _path: str) -> Fault | None:
        if operation != "put":
            return None
        changing.set()
        return Fault(delay_s=0.3)

    world.server.on_call = slow
    members[0].transports[0].write(wire.add_reply(wire.EIO, writer.ledger_id, 4))
    await changing.wait()
    held.release()  # an ack quorum of one holds all eight now, in mid-change
    await stays(lambda: listener.below == 4 or len(writer.metadata.segments) == 2, 0.1)
    await listener.reach(8)
    assert [segment.first for segment in writer.metadata.segments] == [0, 4]


# I15 to I18: recovery and creation


@pytest.mark.parametrize(
    "ignorant",
    [silent, refusing(wire.EIO), refusing(wire.EUNKNOWNLEDGERSTATE), refusing(wire.ENOLEDGER)],
)
@pytest.mark.parametrize(("shape", "knowing"), [((3, 3, 2), 1), ((2, 2, 2), 0), ((3, 3, 3), 0)])
async def test_i15_unknown_answers_never_prove_absence(
    world: World,
    ignorant: Callable[[Scripted, Request], list[bytes]],
    shape: tuple[int, int, int],
    knowing: int,
) -> None:
    """Leave the end undecided with one "no entry" fewer than WQ - AQ + 1."""
    await world.start(shape[0])
    dead = world.client()
    writer, members = await written(world, shape, 3, dead)
    await dead.close()

    def about_the_tail(bookie: Scripted, request: Request) -> list[bytes]:
        return ignorant(bookie, request) if request.entry_id >= 3 else honest(bookie, request)

    for bookie in members[knowing:]:
        bookie.answer = about_the_tail
    # A silent bookie counts as ignorant once its read times out.
    client = world.client(read_entry_timeout_s=1.0)
    with pytest.raises(LedgerRecoveryError):
        await client.open(writer.ledger_id, recover=True)
    assert (
        await metadata_update.read(world.store, writer.ledger_id)
    ).state is LedgerState.IN_RECOVERY


async def test_i16_recovery_reads_nothing_before_the_last_segment(world: World) -> None:
    await world.start(3)
    dead = world.client()
    writer, members = await written(world, (2, 2, 2), 4, dead)
    for bookie in world.bookies.values():
        if bookie not in members:
            Holding(bookie)
    Holding(members[1])
    members[0].answer = refusing(wire.EIO)
    writer.append(run_of(b"tail"))
    await until(lambda: len(writer.metadata.segments) == 2)
    await dead.close()
    for bookie in world.bookies.values():
        bookie.answer = honest
        bookie.entries = {slot: e for slot, e in bookie.entries.items() if slot[1] != 4}
        bookie.requests.clear()
    members[1].entries.clear()  # its marks are gone, the metadata's is not
    reader = await world.client().open(writer.ledger_id, recover=True)
    assert reader.last_confirmed == 3
    fencing = [
        request.entry_id
        for bookie in world.bookies.values()
        for request in bookie.requests
        if isinstance(request, wire.ReadRequest) and request.flags & wire.DO_FENCING
    ]
    assert fencing
    assert set(fencing) <= {-1, 4}


async def test_i17_an_abandoned_recovery_can_be_completed_by_the_next(world: World) -> None:
    await world.start(3)
    dead = world.client()
    writer, members = await written(world, (3, 3, 2), 5, dead)
    await dead.close()
    for bookie in members:
        bookie.answer = silent
    attempt = asyncio.ensure_future(world.client().open(writer.ledger_id, recover=True))
    await until(lambda: all(bookie.requests[-1].entry_id == -1 for bookie in members))
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert (
        await metadata_update.read(world.store, writer.ledger_id)
    ).state is LedgerState.IN_RECOVERY
    for bookie in members:
        bookie.answer = honest
    reader = await world.client().open(writer.ledger_id, recover=True)
    assert payloads_of(await reader.read(0, 4, 1000)) == numbered(5)


async def test_i18_a_create_whose_answer_was_lost_is_recognised_by_its_token(world: World) -> None:
    await world.start(1)
    await world.client().create(1, 1, 1, listener=Listener())  # the directories are there
    lost = iter([Fault(lose_reply=True)])

    def lose(_session: int, op: str, path: str) -> Fault | None:
        return next(lost, None) if op == "create" and paths.ledger_id(path) is not None else None

    world.server.on_call = lose
    writer = await world.client().create(1, 1, 1, listener=Listener())
    assert writer.ledger_id == 1
    assert (await metadata_update.read(world.store, 1)).ctoken == writer.metadata.ctoken != 0


async def test_i18_a_taken_id_is_never_adopted(world: World) -> None:
    await world.start(1)
    first, second = world.client(), world.client()
    taken = await first.create(1, 1, 1, listener=Listener())
    data, _ = await world.store.get(paths.ledger(taken.ledger_id))
    await world.store.create(paths.ledger(1), data, make_parents=True)
    writer = await second.create(1, 1, 1, listener=Listener())
    assert writer.ledger_id == 2
    assert (await world.store.get(paths.ledger(1)))[0] == data


# The client's share of the bookie's invariants


async def test_i20_every_negative_answer_that_counts_was_fenced_with_the_key(world: World) -> None:
    await world.start(3)
    dead = world.client()
    listener = Listener()
    writer = await dead.create(3, 3, 2, b"secret", listener=listener)
    writer.append(run_of(*numbered(2)))
    await listener.reach(2)
    await dead.close()
    for bookie in world.bookies.values():
        bookie.requests.clear()
    await world.client().open(writer.ledger_id, b"secret", recover=True)
    for bookie in world.bookies.values():
        for request in bookie.requests:
            if isinstance(request, wire.ReadRequest) and request.entry_id != 1:
                assert request.flags & wire.DO_FENCING
                assert request.master_key == master_key(b"secret")


@pytest.mark.parametrize("batches", [True, False])
async def test_i21_damage_and_timeouts_are_not_absence(world: World, batches: bool) -> None:
    await world.start(2)
    writer, members = await written(world, (2, 2, 2), 3)
    await writer.close()
    for bookie in members:
        bookie.batches = batches
    # A silent bookie has failed once its read times out.
    client = world.client(read_entry_timeout_s=1.0)
    reader = await client.open(writer.ledger_id, recover=False)
    members[0].entries.clear()
    members[1].entries = {slot: entry[:-1] for slot, entry in members[1].entries.items()}
    with pytest.raises(ReadError):
        await reader.read(0, 2, 1000)
    members[1].answer = silent
    with pytest.raises(ReadError):
        await reader.read(0, 2, 1000)
    members[1].answer, members[1].entries = honest, {}
    with pytest.raises(NoSuchEntryError):
        await reader.read(0, 2, 1000)


async def test_i25_a_wrong_password_neither_writes_nor_fences(world: World) -> None:
    await world.start(1)
    dead = world.client()
    listener = Listener()
    writer = await dead.create(1, 1, 1, b"right", listener=listener)
    writer.append(run_of(b"x"))
    await listener.reach(1)
    await dead.close()
    with pytest.raises(UnauthorizedError):
        await world.client().open(writer.ledger_id, b"wrong", recover=True)
    assert (await metadata_update.read(world.store, writer.ledger_id)).state is LedgerState.OPEN
    assert not world.bookies["b0"].fenced


@pytest.mark.parametrize("batches", [True, False])
async def test_i32_an_entry_in_the_place_of_another_is_a_damaged_copy(
    world: World, batches: bool
) -> None:
    await world.start(2)
    writer, members = await written(world, (2, 2, 2), 4)
    await writer.close()
    for bookie in members:
        bookie.batches = batches
    entries = members[0].entries
    ledger = writer.ledger_id
    entries[ledger, 1], entries[ledger, 2] = entries[ledger, 2], entries[ledger, 1]
    reader = await world.client().open(ledger, recover=False)
    payloads: list[bytes] = []
    while len(payloads) < 4:
        payloads += payloads_of(await reader.read(len(payloads), 3, 1000))
    assert payloads == numbered(4)


async def test_c11_a_bookie_that_hangs_in_recovery_delays_it_by_one_timeout(world: World) -> None:
    """Replace, after one add timeout, a bookie whose copy is needed for every ack quorum."""
    await world.start(4)
    dead = world.client()
    listener = Listener()
    writer = await dead.create(3, 3, 3, listener=listener)
    members = members_of(world, writer)
    Holding(members[2])
    writer.append(run_of(*numbered(3)))
    await until(lambda: all(len(bookie.entries) == 3 for bookie in members))
    await dead.close()

    def no_answer_to_adds(bookie: Scripted, request: Request) -> list[bytes]:
        return [] if isinstance(request, wire.AddRequest) else honest(bookie, request)

    members[2].answer = no_answer_to_adds
    # The hung bookie is replaced when its add times out.
    client = world.client(add_entry_timeout_s=1.0)
    async with asyncio.timeout(PATIENT.add_entry_timeout_s):
        reader = await client.open(writer.ledger_id, recover=True)
    assert reader.last_confirmed == 2
    assert members[2].name not in reader.metadata.segments[-1].bookies
