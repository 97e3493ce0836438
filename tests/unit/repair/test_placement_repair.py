"""Copies in too few racks are moved, and a read-only bookie that is to be taken out is drained while it serves."""

import asyncio
import random

import pytest

from engine.ledger.quorum import write_set
from engine.metadata import paths
from engine.metadata.records import BookieRacks
from engine.repair.checking import fewest_copies
from engine.repair.decommissions import DRAINED, read_decommission, request_decommission
from tests.sim.kit.cluster import FAST
from tests.support.ledger_cluster import Listener, run_of
from tests.unit.repair.conftest import RepairedCluster, Start
from tests.unit.repair.test_repair import members, read_all, stopped, until

pytestmark = pytest.mark.virtual_time


async def set_racks(cluster: RepairedCluster, racks: dict[str, str]) -> None:
    value = BookieRacks({"default": {name: {"rack": rack} for name, rack in racks.items()}})
    await cluster.store.create(paths.BOOKIE_RACKS, value.encode(), make_parents=True)


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_ledger_in_one_rack_is_moved_where_that_is_enabled(
    start_cluster: Start, enabled: bool
) -> None:
    cluster = await start_cluster(3)
    ledger = await cluster.written(entries=50)
    wanted = await read_all(cluster, ledger)
    await cluster.start("b3")
    await set_racks(cluster, {"b0": "/r/1", "b1": "/r/1", "b2": "/r/1", "b3": "/r/2"})
    recovery = cluster.recovery(
        "r",
        auditor_periodic_placement_policy_check_interval=20,
        repaired_placement_policy_not_adhering_bookie_enabled=enabled,
    )
    recovery.start()
    await asyncio.sleep(90)
    after = await members(cluster, ledger)
    assert ("b3" in after) is enabled
    assert len(after) == 3
    assert recovery.worker.ledgers_placed == int(enabled)
    assert recovery.auditor.counts.not_adhering == int(not enabled)
    assert bool(recovery.auditor.counts.ledgers_marked) is enabled
    assert [n async for n in recovery.records.marked()] == []
    assert await read_all(cluster, ledger) == wanted
    await stopped(recovery)


async def test_a_read_only_bookie_is_drained_while_it_serves(start_cluster: Start) -> None:
    cluster = await start_cluster(4)
    closed = await cluster.written(entries=50)
    name = sorted(await members(cluster, closed))[0]
    listener = Listener()
    writer = await cluster.client(FAST).create(4, 3, 2, listener=listener)
    writer.append(run_of(b"before"))
    await listener.reach(1)
    recovery = cluster.recovery("r")
    recovery.start()
    await request_decommission(cluster.store, cluster.clock, name, "somebody")
    await asyncio.sleep(20)
    request = await read_decommission(cluster.store, name)
    assert request is not None
    assert "read-only" in request.waits
    assert name in await members(cluster, closed)
    await cluster.start("b4")
    cluster.bookies[name].mode.ask("drained by the test")
    for number in range(10):
        writer.append(run_of(b"%d" % number))
        await listener.reach(number + 2)  # the writer sees no error
    await writer.close()

    async def drained() -> bool:
        now = await read_decommission(cluster.store, name)
        return now is not None and now.waits == DRAINED

    await until(drained)
    assert name not in await members(cluster, closed) | await members(cluster, writer.ledger_id)
    assert len(await read_all(cluster, closed)) == 50
    assert listener.errors == []
    await cluster.stop(name)

    async def over() -> bool:
        return await cluster.store.exists(paths.cookie(name)) is None

    await until(over)
    await stopped(recovery)


async def test_a_check_that_is_made_due_runs_at_once(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    await cluster.written()
    recovery = cluster.recovery("r", auditor_periodic_check_interval=86400)
    recovery.start()
    await asyncio.sleep(60)
    assert recovery.auditor.counts.ledgers_checked == 0
    await recovery.records.set_checked(paths.CHECKED_LEDGERS, 1)
    await asyncio.sleep(60)
    assert recovery.auditor.counts.ledgers_checked == 1
    await stopped(recovery)


def test_copies_are_counted_by_ranges_as_entry_by_entry() -> None:
    rng = random.Random(7)
    for _ in range(300):
        size = rng.randrange(1, 6)
        quorum = rng.randrange(1, size + 1)
        first = rng.randrange(20)
        last = first + rng.randrange(30)
        ranges = []
        for _ in range(size):
            held, at = [], 0
            while at < 60:
                high = at + rng.randrange(25)
                held.append((at, high))
                at = high + 2 + rng.randrange(6)
            ranges.append(held if rng.random() < 0.8 else [])
        one_by_one = min(
            sum(
                any(low <= entry <= high for low, high in ranges[place])
                for place in write_set(entry, size, quorum)
            )
            for entry in range(first, last + 1)
        )
        assert fewest_copies(ranges, first, last, quorum) == one_by_one
