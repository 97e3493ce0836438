"""A bookie stays listed for as long as it serves."""

import asyncio
from pathlib import Path

import pytest

from bookie import presence
from bookie.cookies import IdentityError
from bookie.presence import Presence
from bookie.settings import BookieSettings
from engine.base.clock import SystemClock
from engine.metadata import memory
from engine.metadata.memory import MemoryServer
from engine.metadata.paths import COOKIES, available_bookie, cookie, read_only_bookie
from tests.support.ledger_cluster import Cluster
from tests.support.stores.losing import LosingStore

STEPS = 5
"""Calls of one registration, and some."""


async def test_a_bookie_whose_node_is_deleted_registers_again(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start("b0")
    path = "/ledgers/available/b0"
    for _ in range(2):
        await cluster.store.delete(path)
        async with asyncio.timeout(120):
            while await cluster.store.exists(path) is None:
                await asyncio.sleep(0.001)
    await cluster.close()
    assert await cluster.store.exists(path) is None


async def test_a_bookie_that_was_taken_out_while_it_was_cut_off_does_not_register(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path)
    bookie = await cluster.start("b0")
    await cluster.store.delete(cookie("b0"))
    await cluster.store.delete(available_bookie("b0"))  # as its session's end does
    async with asyncio.timeout(120):
        await bookie.over.wait()
    assert isinstance(bookie.failed, IdentityError)
    assert "decommissioned" in str(bookie.failed)
    assert await cluster.store.exists(available_bookie("b0")) is None
    await cluster.close()


class Bench:
    """A bookie's registration on a store that loses sessions."""

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.store = LosingStore(self.server)
        for path in ("/ledgers", COOKIES, cookie("b0")):
            self.server.tree.create(path, b"", 0, False, 0)
        settings = BookieSettings(data_dir="/nowhere")
        self.presence = Presence(self.store, SystemClock(), settings, "b0", 3181)

    @property
    def listed(self) -> bool:
        nodes = (available_bookie("b0"), read_only_bookie("b0"))
        stats = [self.server.tree.exists(path) for path in nodes]
        wanted = stats[1] if self.presence.read_only else stats[0]
        return wanted is not None and wanted.ephemeral_owner == self.store.session_id

    async def settled(self, case: str) -> None:
        """Wait until the bookie is registered; fail if it ever reports that while its node is missing."""
        try:
            async with asyncio.timeout(120):
                while not (self.presence.registered and self.listed):
                    assert not (self.presence.registered and self.store.lives), case
                    await asyncio.sleep(0)
        except TimeoutError:
            pytest.fail(case)
        self.store.losses.clear()


@pytest.mark.parametrize("second", ["before", "after"])
@pytest.mark.parametrize("first", ["before", "after"])
async def test_two_sessions_lost_at_any_steps_of_one_registration(
    monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    monkeypatch.setattr(memory, "RECONNECT_S", 0.001)
    monkeypatch.setattr(presence, "RETRY_S", 0.001)
    bench = Bench()
    await bench.presence.register()
    keeping = asyncio.get_running_loop().create_task(bench.presence.keep())
    for i in range(STEPS):
        for j in range(i + 1, i + 1 + STEPS):
            bench.store.lose_at({i: first, j: second})
            bench.store.lose()
            await bench.settled(f"lost {first} call {i} and {second} call {j}")
    keeping.cancel()
    await bench.store.close()
