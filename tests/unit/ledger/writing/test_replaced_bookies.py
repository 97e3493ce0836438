"""A replaced bookie: its answers do not count for its successor (I11), which receives the true LAC (I8)."""

import asyncio

import pytest

from engine.ledger.digest import header_of
from engine.wire import bookie_commands as wire
from tests.support.ledger_cluster import Listener, run_of
from tests.support.scripted_bookies import World, numbered
from tests.unit.ledger.test_invariants import Holding, members_of, until

pytestmark = pytest.mark.virtual_time


async def test_i11_answers_before_the_replacement_do_not_count_for_the_successor(
    world: World,
) -> None:
    await world.start(3)
    listener = Listener()
    writer = await world.client().create(2, 2, 2, listener=listener)
    members = members_of(world, writer)
    spare = next(b for b in world.bookies.values() if b not in members)
    other, new = Holding(members[1]), Holding(spare)
    writer.append(run_of(*numbered(3)))
    await until(lambda: len(other.held) == 3 and writer._tracker.below(0) == 3)
    members[0].transports[0].write(wire.add_reply(wire.EIO, writer.ledger_id, 2))
    await until(lambda: len(new.held) == 3)
    other.release()
    await until(lambda: writer._tracker.below(1) == 3)
    for _ in range(5):
        await asyncio.sleep(0)
    assert listener.below == 0
    new.release()
    await listener.reach(3)


async def test_i8_a_resent_entry_carries_no_more_than_is_confirmed(world: World) -> None:
    await world.start(3)
    listener = Listener()
    writer = await world.client().create(2, 2, 2, listener=listener)
    members = members_of(world, writer)
    spare = next(b for b in world.bookies.values() if b not in members)
    writer.append(run_of(*numbered(2)))
    await listener.reach(2)
    Holding(members[1])
    writer.append(run_of(*numbered(3)))
    new = Holding(spare)
    await until(lambda: writer._tracker.below(0) == 5)
    members[0].transports[0].write(wire.add_reply(wire.EIO, writer.ledger_id, 4))
    await until(lambda: len(new.held) == 3)
    sent = [request for request in spare.requests if isinstance(request, wire.AddRequest)]
    assert [request.entry_id for request in sent] == [2, 3, 4]
    assert [header_of(request.entry).lac for request in sent] == [1, 1, 1]
