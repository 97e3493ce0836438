"""The last add confirmed of an open ledger, which needs answers that meet every ack quorum."""

from collections.abc import Callable

import pytest

from engine.ledger.errors import ReadError
from engine.wire import bookie_commands as wire
from tests.support.ledger_cluster import Listener, run_of
from tests.support.scripted_bookies import (
    Request,
    Scripted,
    World,
    honest,
    numbered,
    refusing,
    silent,
)
from tests.unit.ledger.test_invariants import members_of

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("failing", [silent, refusing(wire.EIO)])
async def test_a_readers_last_confirmed_needs_answers_for_every_ack_quorum(
    world: World, failing: Callable[[Scripted, Request], list[bytes]]
) -> None:
    await world.start(3)
    listener = Listener()
    writer = await world.client().create(3, 3, 2, listener=listener)
    members = members_of(world, writer)
    members[0].answer = silent  # it lags: the other two confirm
    writer.append(run_of(*numbered(4)))
    await listener.reach(4)
    members[0].answer = honest
    members[1].answer = members[2].answer = failing
    # A silent bookie has failed once its read times out.
    impatient = world.client(read_entry_timeout_s=1.0)
    with pytest.raises(ReadError):
        await impatient.open(writer.ledger_id, recover=False)
    members[1].answer = honest
    reader = await world.client().open(writer.ledger_id, recover=False, unconfirmed=True)
    assert reader.last_confirmed <= writer.last_confirmed
