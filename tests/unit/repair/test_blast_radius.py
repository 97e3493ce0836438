"""Copies that topics would keep without a bookie, and marked ledgers, over a cluster in memory."""

import pytest

from engine.metadata import paths
from engine.repair.blast_radius import blast_radius
from engine.repair.under_replication import under_replication
from tests.unit.repair.conftest import Start
from tests.unit.repair.test_repair import members

pytestmark = pytest.mark.virtual_time


async def test_owners_are_counted_by_the_copies_that_they_keep(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    whole = await cluster.written(entries=10, shape=(3, 3, 2))
    single = await cluster.written(entries=10, shape=(2, 1, 1))
    empty = await cluster.written(entries=0, shape=(3, 3, 2))
    survey = await blast_radius(cluster.store)
    assert survey.ledgers == 3
    alone = await members(cluster, single)
    for name in ("b0", "b1", "b2"):
        share = survey.bookies[name]
        named = {weak.owner: weak.copies for weak in share.weakest}
        assert named.pop(f"ledger {whole}") == 2
        assert f"ledger {empty}" not in named  # no entry can be lost
        assert (named == {f"ledger {single}": 0}) == (name in alone)
        assert share.owners.get(0, 0) == (name in alone)
        assert share.ledgers == 2 + (name in alone)
        assert share.size > 0


async def test_a_bookie_that_is_away_is_no_copy_for_others(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    ledger = await cluster.written(entries=10, shape=(3, 3, 2))
    await cluster.lose("b2")
    survey = await blast_radius(cluster.store)
    copies = {name: share.weakest[0].copies for name, share in survey.bookies.items()}
    assert copies == {"b0": 1, "b1": 1, "b2": 2}
    assert survey.bookies["b0"].weakest[0].owner == f"ledger {ledger}"


async def test_striped_entries_count_by_their_own_write_set(start_cluster: Start) -> None:
    cluster = await start_cluster(4)
    await cluster.written(entries=40, shape=(4, 2, 2))
    survey = await blast_radius(cluster.store)
    assert {share.weakest[0].copies for share in survey.bookies.values()} == {1}
    first = await blast_radius(cluster.store)
    assert sum(share.size for share in first.bookies.values()) > 0


async def test_open_ledgers_are_counted_and_have_no_size(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    await cluster.written(entries=10, close=False)
    share = (await blast_radius(cluster.store)).bookies["b0"]
    assert (share.ledgers, share.open, share.size, share.owners) == (1, 1, 0, {2: 1})


async def test_marked_ledgers_have_size_age_and_worker(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    recovery = cluster.recovery("w1")
    ledgers = [await cluster.written(entries=10) for _ in range(3)]
    opened = await cluster.written(entries=10, close=False)
    for ledger in (*ledgers, opened):
        await recovery.records.mark(ledger, ["b1"])
    assert await recovery.records.lock(ledgers[1], "w1")
    listed = await under_replication(cluster.store, recovery.records)
    assert (listed.ledgers, listed.is_all) == (4, True)
    assert listed.workers == {"w1": 1}
    rows = {row.ledger_id: row for row in listed.rows}
    metadata = await recovery.client.metadata(ledgers[0])
    assert rows[ledgers[0]].size == metadata.length
    assert rows[opened].size is None
    assert rows[opened].open
    assert rows[ledgers[1]].worker == "w1"
    assert listed.size == 3 * metadata.length
    assert rows[ledgers[0]].bookies == ("b1",)
    await cluster.store.delete(paths.ledger(ledgers[2]))
    rows = {r.ledger_id: r for r in (await under_replication(cluster.store, recovery.records)).rows}
    assert rows[ledgers[2]].size is None
    few = await under_replication(cluster.store, recovery.records, read_max=2)
    assert (few.ledgers, len(few.rows)) == (4, 2)
    await recovery.stop()
