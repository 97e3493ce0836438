"""Requested decommissions: carried out by whichever process is the auditor, and only for bookies that are stopped."""

import asyncio

import pytest

from engine.metadata import paths
from engine.repair.decommissions import (
    Decommission,
    decommissions,
    read_decommission,
    request_decommission,
    withdraw_decommission,
)
from engine.repair.marks import MarkFormatError
from tests.unit.repair.conftest import RepairedCluster, Start
from tests.unit.repair.test_repair import members, stopped, until

pytestmark = pytest.mark.virtual_time


async def request(cluster: RepairedCluster, bookie: str) -> None:
    assert await request_decommission(cluster.store, cluster.clock, bookie, "ada")


async def test_auditor_removes_the_cookie_when_no_ledger_names_the_bookie(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(4)
    ledger = await cluster.written(entries=50)
    name = min(await members(cluster, ledger))
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=10_000)
    recovery.start()
    await request(cluster, name)

    async def waits() -> bool:
        stored = await read_decommission(cluster.store, name)
        return stored is not None and stored.waits != ""

    await until(waits)
    assert await recovery.records.read(ledger) is None  # it serves: nothing is copied yet
    await cluster.lose(name)

    async def ended() -> bool:
        return await decommissions(cluster.store) == {}

    await until(ended)
    assert name not in await members(cluster, ledger)
    assert await cluster.store.exists(paths.cookie(name)) is None
    await stopped(recovery)


async def test_next_auditor_carries_on_and_progress_is_stored(start_cluster: Start) -> None:
    cluster = await start_cluster(3)  # no bookie is left to copy to
    ledger = await cluster.written(entries=5)
    name = min(await members(cluster, ledger))
    await request(cluster, name)
    await cluster.lose(name)
    first = cluster.recovery("first", lost_bookie_recovery_delay=10_000)
    first.client.bookies.start()
    reign = asyncio.create_task(first.auditor.run())  # without a worker, whose lock would stay

    async def counted() -> bool:
        stored = await read_decommission(cluster.store, name)
        return stored is not None and (stored.first, stored.left) == (1, 1)

    await until(counted)
    reign.cancel()
    await stopped(first)
    assert await cluster.store.exists(paths.cookie(name)) is not None
    await cluster.start("b9")
    second = cluster.recovery("second", lost_bookie_recovery_delay=10_000)
    second.start()

    async def ended() -> bool:
        return await decommissions(cluster.store) == {}

    await until(ended)
    assert await cluster.store.exists(paths.cookie(name)) is None
    await stopped(second)


async def test_withdrawn_request_keeps_the_cookie(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    ledger = await cluster.written(entries=5)
    name = min(await members(cluster, ledger))
    await request(cluster, name)
    assert not await request_decommission(cluster.store, cluster.clock, name, "bob")
    assert (await decommissions(cluster.store))[name].by == "ada"
    assert await withdraw_decommission(cluster.store, name)
    assert not await withdraw_decommission(cluster.store, name)
    assert await read_decommission(cluster.store, name) is None
    assert await cluster.store.exists(paths.cookie(name)) is not None


def test_a_node_of_another_form_is_refused_by_its_path() -> None:
    assert Decommission.decode("b", Decommission("ada", 5).encode()) == Decommission("ada", 5)
    for value in (b"", b"[]", b"7", b'{"by": "ada", "colour": 1}'):
        with pytest.raises(MarkFormatError, match="/magnetar/decommissions/b"):
            Decommission.decode("b", value)
