"""Requested decommissions: carried out by whichever process is the auditor, and only for bookies that are stopped."""

import asyncio
from typing import Any

import pytest

from engine.base.clock import LoopClock
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.repair.bookie_changes import BookieChangeError, decommission, remove_cookie
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


async def test_ledgers_that_lost_their_marks_are_marked_again(start_cluster: Start) -> None:
    cluster = await start_cluster(3)  # no bookie is left to copy to
    ledger = await cluster.written(entries=5)
    name = min(await members(cluster, ledger))
    await cluster.lose(name)
    await request(cluster, name)
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=10_000)
    recovery.client.bookies.start()
    reign = asyncio.create_task(recovery.auditor.run())  # without a worker

    async def is_marked() -> bool:
        return await recovery.records.is_marked(ledger)

    for _ in range(2):
        await until(is_marked)
        mark = await recovery.records.read(ledger)
        assert mark is not None
        assert await recovery.records.remove(mark)  # as one who takes the bookie for serving
    await until(is_marked)
    reign.cancel()
    await stopped(recovery)


async def test_an_unknown_bookie_is_not_reported_as_decommissioned(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(1)
    records = cluster.recovery("r").records
    with pytest.raises(BookieChangeError, match="b7 is not known"):
        await decommission(cluster.store, records, "b7", timeout_s=60)
    await cluster.lose("b0")
    assert await decommission(cluster.store, records, "b0", timeout_s=60) == 0
    assert await cluster.store.exists(paths.cookie("b0")) is None


async def test_of_two_requests_at_once_one_is_taken() -> None:
    server = MemoryServer()
    requests = [
        request_decommission(server.session(), LoopClock(), "b0", who) for who in ("ada", "bob")
    ]
    assert sorted(await asyncio.gather(*requests)) == [False, True]


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


async def ended(cluster: RepairedCluster) -> bool:
    return await decommissions(cluster.store) == {}


async def test_ledgers_whose_metadata_cannot_be_read_keep_the_cookie(start_cluster: Start) -> None:
    cluster = await start_cluster(2)
    await cluster.store.create(paths.ledger(77), b"no metadata", make_parents=True)
    await cluster.lose("b0")
    await request(cluster, "b0")
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=10_000)
    recovery.start()

    async def waits() -> bool:
        stored = await read_decommission(cluster.store, "b0")
        return stored is not None and "such as 77" in stored.waits

    await until(waits)
    await asyncio.sleep(30)
    assert await cluster.store.exists(paths.cookie("b0")) is not None
    with pytest.raises(BookieChangeError, match="77"):
        await decommission(cluster.store, recovery.records, "b0", timeout_s=60)
    assert await cluster.store.exists(paths.cookie("b0")) is not None
    await cluster.store.delete(paths.ledger(77))
    await until(lambda: ended(cluster))
    assert await cluster.store.exists(paths.cookie("b0")) is None
    await stopped(recovery)


class Interleaved:
    """A store in which a bookie registers just before one call of ``operation`` on its cookie."""

    def __init__(self, store: MetadataStore, operation: str) -> None:
        self._store = store
        self._operation = operation

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name != self._operation:
            return real

        async def call(path: str, *rest: Any, **named: Any) -> Any:
            if path == paths.cookie("b0"):
                await self._store.create(paths.available_bookie("b0"), b"", make_parents=True)
            return await real(path, *rest, **named)

        return call


@pytest.mark.parametrize("operation", ["get", "delete"])
async def test_cookie_of_a_bookie_that_registers_at_this_moment_is_there_again(
    operation: str,
) -> None:
    store = MemoryServer().session()
    await store.create(paths.cookie("b0"), b"cookie", make_parents=True)
    assert not await remove_cookie(Interleaved(store, operation), "b0")  # type: ignore[arg-type]
    assert (await store.get(paths.cookie("b0")))[0] == b"cookie"
    assert not await remove_cookie(store, "b0")
    await store.delete(paths.available_bookie("b0"))
    assert await remove_cookie(store, "b0")
    assert await store.exists(paths.cookie("b0")) is None
    assert await remove_cookie(store, "b0")


async def test_a_request_that_cannot_be_read_holds_up_no_other(start_cluster: Start) -> None:
    cluster = await start_cluster(2)
    await cluster.store.create(paths.decommission("a0"), b"{", make_parents=True)
    await cluster.lose("b0")
    await request(cluster, "b0")
    recovery = cluster.recovery("r", lost_bookie_recovery_delay=10_000)
    recovery.start()

    async def removed() -> bool:
        return await cluster.store.exists(paths.cookie("b0")) is None

    await until(removed)
    await stopped(recovery)


def test_a_node_of_another_form_is_refused_by_its_path() -> None:
    assert Decommission.decode("b", Decommission("ada", 5).encode()) == Decommission("ada", 5)
    for value in (b"", b"[]", b"7", b'{"by": "ada", "colour": 1}'):
        with pytest.raises(MarkFormatError, match="/magnetar/decommissions/b"):
            Decommission.decode("b", value)
