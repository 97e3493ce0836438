"""Auto-recovery over bookies in memory: what is lost is copied, marks go when ledgers are whole, writers go on."""

import asyncio

import pytest

from engine.ledger.errors import NotEnoughBookiesError
from engine.ledger.ledger_metadata import LedgerState
from engine.metadata import paths
from engine.repair.auto_recovery import AutoRecovery
from engine.repair.bookie_changes import (
    BookieChangeError,
    decommission,
    held_by,
    recover_bookies,
)
from engine.repair.checking import lacks
from engine.repair.election import Election
from engine.repair.ledger_listing import ledgers
from tests.sim.kit.cluster import FAST
from tests.support.ledger_cluster import Listener, payloads_of, run_of
from tests.unit.repair.conftest import RepairedCluster, Start

pytestmark = pytest.mark.virtual_time

WAIT_S = 120.0


async def until(condition, seconds: float = WAIT_S) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.2)


async def members(cluster: RepairedCluster, ledger: int) -> set[str]:
    metadata = await cluster.client(FAST).metadata(ledger)
    return {bookie for segment in metadata.segments for bookie in segment.bookies}


async def read_all(cluster: RepairedCluster, ledger: int) -> list[bytes]:
    reader = await cluster.client(FAST).open(ledger, recover=False)
    listed: list[bytes] = []
    while len(listed) <= reader.last_confirmed:
        listed += payloads_of(await reader.read(len(listed), reader.last_confirmed, 1 << 20))
    return listed


async def stopped(*recoveries: AutoRecovery) -> None:
    for recovery in recoveries:
        await recovery.stop()


@pytest.mark.parametrize("shape", [(3, 3, 2), (3, 2, 2), (2, 2, 1)])
async def test_copies_of_a_lost_bookie_are_made_again(
    start_cluster: Start, shape: tuple[int, int, int]
) -> None:
    cluster = await start_cluster(4)
    ledger = await cluster.written(entries=200, shape=shape)
    wanted = await read_all(cluster, ledger)
    (lost, *_) = sorted(await members(cluster, ledger))
    recovery = cluster.recovery("r", rereplication_batch_bytes=4096)
    recovery.start()
    await cluster.lose(lost)

    async def moved() -> bool:
        return lost not in await members(cluster, ledger)

    await until(moved)
    metadata, findings = await recovery.repair.examine(ledger)
    assert findings.whole
    assert metadata.state is LedgerState.CLOSED

    async def unmarked() -> bool:
        return [n async for n in recovery.records.marked()] == []

    await until(unmarked)
    assert await read_all(cluster, ledger) == wanted
    assert recovery.repair.counts.entries_written >= 100
    await stopped(recovery)


async def test_a_bookie_that_is_back_within_the_delay_is_waited_for(start_cluster: Start) -> None:
    cluster = await start_cluster(4)
    ledger = await cluster.written()
    before = await members(cluster, ledger)
    (away, *_) = sorted(before)
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=30)
    recovery.start()
    await asyncio.sleep(2)
    await cluster.stop(away)
    await asyncio.sleep(20)
    assert list(recovery.auditor.waits_for) == [away]
    await cluster.start(away)
    await asyncio.sleep(60)
    assert recovery.auditor.waits_for == {}
    assert recovery.auditor.counts.audits_cancelled == 1
    assert await members(cluster, ledger) == before
    assert recovery.auditor.counts.ledgers_marked == 0
    await stopped(recovery)


async def test_damaged_records_keep_no_ledger_from_its_repair(start_cluster: Start) -> None:
    cluster = await start_cluster(4)
    ledger = await cluster.written()
    (lost, *_) = sorted(await members(cluster, ledger))
    for path, value in (
        (paths.marked_ledger(ledger), b"replica: }"),
        (paths.marked_ledger(ledger + 1000), b"\xff"),
        (paths.LOST_BOOKIE_DELAY, b"soon"),
        (paths.KNOWN_COOKIES, b"[1"),
        (paths.decommission("x"), b""),
    ):
        await cluster.store.create(path, value, make_parents=True)
    recovery = cluster.recovery("r")
    recovery.start()
    await cluster.lose(lost)

    async def repaired() -> bool:
        marked = [n async for n in recovery.records.marked()]
        return lost not in await members(cluster, ledger) and not marked

    await until(repaired)
    assert (await cluster.store.get(paths.LOST_BOOKIE_DELAY))[0] == b"soon", "not ours to change"
    await stopped(recovery)


async def test_a_loss_during_a_check_of_all_ledgers_is_audited_and_a_short_absence_is_none(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(5)
    ledger_ids = [await cluster.written(entries=1) for _ in range(80)]
    # At this pace the check takes 400 seconds, and asks about ledgers each 80.
    slow = {"auditor_periodic_check_interval": 20, "auditor_ledgers_per_second": 0.2}
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=100, **slow)
    recovery.start()

    async def checking() -> bool:
        return recovery.auditor.counts.ledgers_checked > 0

    await until(checking, 400)
    away, lost, *_ = sorted(set.union(*[await members(cluster, n) for n in ledger_ids]))
    await cluster.stop(away)
    await asyncio.sleep(85)
    await cluster.start(away)
    assert recovery.auditor.counts.ledgers_checked > 16
    await asyncio.sleep(5)
    assert recovery.auditor.counts.ledgers_marked == 0
    await cluster.lose(lost)

    async def moved() -> bool:
        for ledger in ledger_ids:
            if lost in await members(cluster, ledger):
                return False
        return True

    await until(moved, 150)
    assert recovery.auditor.counts.ledgers_checked < len(ledger_ids), "it is still"
    await stopped(recovery)


async def test_intact_copies_of_a_marked_ledger_stay_where_they_are(start_cluster: Start) -> None:
    cluster = await start_cluster(5)
    ledger = await cluster.written(entries=40, shape=(3, 2, 2))
    before = await cluster.client(FAST).metadata(ledger)
    recovery = cluster.recovery("r")
    await recovery.records.prepare()
    await recovery.records.mark(ledger, before.segments[0].bookies[:1])
    recovery.start()

    async def unmarked() -> bool:
        return await recovery.records.read(ledger) is None

    await until(unmarked)
    assert (await cluster.client(FAST).metadata(ledger)).segments == before.segments
    assert recovery.repair.counts.entries_written == 0
    await stopped(recovery)


async def test_a_repair_waits_for_bookies_that_its_mark_does_not_name(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(5)
    ledger = await cluster.written(entries=40)
    lost, away, other = sorted(await members(cluster, ledger))
    recovery = cluster.recovery("r")
    await cluster.lose(lost)
    await cluster.stop(away)
    await recovery.records.prepare()
    await recovery.records.mark(ledger, [lost])
    repairs = asyncio.create_task(recovery.worker.run())  # without an auditor, which names both
    await asyncio.sleep(60)
    assert lost not in await members(cluster, ledger)
    assert {away, other} < await members(cluster, ledger)
    assert await recovery.records.read(ledger) is not None, "it is not known to be whole"
    assert recovery.worker.deferred == 0
    await cluster.start(away)

    async def unmarked() -> bool:
        return await recovery.records.read(ledger) is None

    await until(unmarked)
    await cluster.lose(away)
    await recovery.records.mark(ledger, [away])
    await until(unmarked)
    assert away not in await members(cluster, ledger)
    repairs.cancel()
    await stopped(recovery)


async def test_two_lost_bookies_are_not_waited_for_and_a_trigger_ends_the_wait(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(5)
    ledger = await cluster.written()
    a, *_ = sorted(await members(cluster, ledger))
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=100_000)
    recovery.start()
    await asyncio.sleep(2)
    await cluster.lose(a)
    await asyncio.sleep(20)
    assert a in await members(cluster, ledger)
    await recovery.records.trigger_audit()

    async def without(name: str) -> bool:
        return name not in await members(cluster, ledger)

    await until(lambda: without(a))
    c, d, _ = sorted(await members(cluster, ledger))
    await cluster.lose(c)
    await asyncio.sleep(5)
    await cluster.start("b9")
    await cluster.lose(d)
    await until(lambda: without(c))
    await stopped(recovery)


async def test_nothing_is_marked_or_taken_while_it_is_disabled(start_cluster: Start) -> None:
    cluster = await start_cluster(4)
    ledger = await cluster.written()
    (lost, *_) = sorted(await members(cluster, ledger))
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=0)
    await recovery.records.enable(False)
    recovery.start()
    await cluster.lose(lost)
    await recovery.records.mark(ledger, [lost])
    await asyncio.sleep(60)
    assert lost in await members(cluster, ledger)
    await recovery.records.enable(True)

    async def moved() -> bool:
        return lost not in await members(cluster, ledger)

    await until(moved)
    await stopped(recovery)


async def test_an_open_ledger_is_recovered_after_its_grace_and_not_before(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(4)
    ledger = await cluster.written(close=False)
    (lost, *_) = sorted(await members(cluster, ledger))
    client = cluster.client(FAST)
    # The writer's process is gone: it replaces no bookie.
    for dead in list(cluster._clients[:1]):
        await dead.close()
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=0)
    recovery.start()
    await asyncio.sleep(1)
    await cluster.lose(lost)
    await asyncio.sleep(8)
    assert (await client.metadata(ledger)).state is LedgerState.OPEN

    async def moved() -> bool:
        return lost not in await members(cluster, ledger)

    await until(moved)
    assert (await client.metadata(ledger)).state is LedgerState.CLOSED
    assert len(await read_all(cluster, ledger)) == 20
    await stopped(recovery)


async def test_a_writer_that_replaces_its_bookie_keeps_its_ledger(start_cluster: Start) -> None:
    cluster = await start_cluster(5)
    listener = Listener()
    writer = await cluster.client(FAST).create(3, 3, 2, listener=listener)
    writer.append(run_of(b"a", b"b"))
    await listener.reach(2)
    (lost, *_) = sorted(await members(cluster, writer.ledger_id))
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=0)
    recovery.start()
    await cluster.lose(lost)
    await asyncio.sleep(1)
    writer.append(run_of(b"c"))

    async def moved() -> bool:
        return lost not in await members(cluster, writer.ledger_id)

    await until(moved)
    writer.append(run_of(b"d"))
    await listener.reach(4)
    await writer.close()
    assert await read_all(cluster, writer.ledger_id) == [b"a", b"b", b"c", b"d"]
    assert recovery.repair.ledgers_recovered == 0
    await stopped(recovery)


async def test_a_deleted_ledger_loses_its_mark_and_a_hopeless_one_keeps_it(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(2)
    ledger = await cluster.written(shape=(1, 1, 1))
    (lost,) = await members(cluster, ledger)
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=0)
    await recovery.records.mark(999, ["gone"])
    recovery.start()
    await cluster.lose(lost)
    await asyncio.sleep(300)
    assert [n async for n in recovery.records.marked()] == [ledger]
    assert (await cluster.client(FAST).metadata(ledger)).segments[0].bookies == (lost,)
    assert recovery.worker.deferred > 0
    assert recovery.repair.counts.unreadable > 0
    families = "".join(recovery.families())
    assert "replication_auditor_NUM_UNDER_REPLICATED_LEDGERS{} 1" in families
    await stopped(recovery)


async def test_a_copy_needs_another_bookie(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    ledger = await cluster.written()
    (lost, *_) = sorted(await members(cluster, ledger))
    await cluster.lose(lost)
    recovery = cluster.recovery("r")
    metadata, findings = await recovery.repair.examine(ledger)
    with pytest.raises(NotEnoughBookiesError, match=lost):
        await recovery.repair.copy(ledger, metadata, findings)
    await cluster.start("b9")
    metadata, findings = await recovery.repair.examine(ledger)
    await recovery.repair.copy(ledger, metadata, findings)
    assert "b9" in await members(cluster, ledger)
    await stopped(recovery)


async def test_a_replaced_bookie_gets_its_copies_back(start_cluster: Start) -> None:
    """Start a bookie whose cookie was removed again, with empty disks, under the same id."""
    cluster = await start_cluster(3)
    ledger = await cluster.written()
    wanted = await read_all(cluster, ledger)
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=1000)
    recovery.start()
    await asyncio.sleep(2)
    await cluster.lose("b1")
    del cluster._settings["b1"]
    await cluster.store.delete(paths.cookie("b1"))
    await cluster.start("b1")

    async def whole() -> bool:
        _, findings = await recovery.repair.examine(ledger)
        return findings.whole

    assert not await whole()
    await until(whole)
    assert await read_all(cluster, ledger) == wanted
    await stopped(recovery)


async def test_decommission_ends_when_nothing_is_left_and_removes_the_cookie(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(4)
    held = [await cluster.written() for _ in range(3)]
    (name, *_) = sorted(await members(cluster, held[0]))
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=100_000)
    recovery.start()
    with pytest.raises(BookieChangeError, match="registered"):
        await decommission(cluster.store, recovery.records, name, timeout_s=60)
    count = (await held_by(cluster.store, name)).ledgers
    assert count >= 1
    await cluster.lose(name)
    seen: list[tuple[int, int]] = []
    done = await decommission(
        cluster.store, recovery.records, name, timeout_s=600, progress=lambda *n: seen.append(n)
    )
    assert done == count
    assert seen[0] == (count, count)
    assert seen[-1] == (0, count)
    assert await cluster.store.exists(paths.cookie(name)) is None
    await stopped(recovery)


async def test_decommission_that_does_not_end_names_what_is_left(start_cluster: Start) -> None:
    cluster = await start_cluster(4)
    ledger = await cluster.written()
    (name, *_) = sorted(await members(cluster, ledger))
    recovery = cluster.recovery("r")
    await cluster.lose(name)
    with pytest.raises(
        BookieChangeError, match=rf"1 of 1 ledgers are left on {name}.*\[{ledger}\]"
    ):
        await decommission(cluster.store, recovery.records, name, timeout_s=5)
    assert await cluster.store.exists(paths.cookie(name)) is not None
    await stopped(recovery)


async def test_recover_copies_from_a_bookie_that_serves(start_cluster: Start) -> None:
    cluster = await start_cluster(4)
    ledger = await cluster.written()
    (name, *_) = sorted(await members(cluster, ledger))
    recovery = cluster.recovery("r")
    planned = await recover_bookies(cluster.store, recovery.repair, [name], dry_run=True)
    assert planned.copied == [ledger]
    assert name in await members(cluster, ledger)
    done = await recover_bookies(cluster.store, recovery.repair, [name])
    assert done == ([ledger], {})
    assert name not in await members(cluster, ledger)
    await stopped(recovery)


async def test_all_stored_ledgers_are_listed(start_cluster: Start) -> None:
    cluster = await start_cluster(1)
    made = [await cluster.written(entries=1, shape=(1, 1, 1)) for _ in range(70)]
    await cluster.store.put(paths.ledger(made[3]), b"damaged")
    listed = [n async for batch in ledgers(cluster.store) for n, _ in batch]
    assert listed == [n for n in made if n != made[3]]


@pytest.mark.parametrize(
    ("ranges", "position", "missing"),
    [
        ([(0, 9)], 0, False),
        ([(0, 4), (6, 9)], 0, True),
        ([(0, 4), (6, 9)], 1, False),
        ([], 0, True),
        ([(1, 9)], 0, True),
        ([(1, 9)], 1, False),
        ([(0, 8)], 0, True),
    ],
)
def test_missing_entries_are_those_of_the_position(
    ranges: list[tuple[int, int]], position: int, missing: bool
) -> None:
    """Position 0 of 3 at a write quorum of 2 has entries 0, 2, 3, 5, 6, 8, 9; position 1 has 0, 1, 3, 4, 6, 7, 9."""
    held = [(low, high) for low, high in ranges]
    if position == 1 and ranges == [(1, 9)]:
        held = [(0, 1), (3, 4), (6, 7), (9, 9)]
    assert lacks(held, 0, 9, position, 3, 2) is missing


async def test_idle_ledger_whose_last_segment_is_empty_is_closed_and_copied(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(4)  # the writer replaces the lost bookie by the only other one
    ledger = await cluster.written(entries=20, close=False)
    named = await members(cluster, ledger)
    lost = min(named)
    recovery = cluster.recovery("r")
    recovery.start()
    await cluster.lose(lost)

    async def whole() -> bool:
        return lost not in await members(cluster, ledger)

    await until(whole)
    assert len(await read_all(cluster, ledger)) == 20
    await stopped(recovery)


async def test_a_process_without_auto_recovery_ends_though_the_metadata_store_is_away(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(1)
    store = cluster.server.session(10.0)
    election = Election(store, "r")
    cluster.server.partition(store.session_id)
    began = asyncio.get_running_loop().time()
    await election.resign()
    assert asyncio.get_running_loop().time() == began
