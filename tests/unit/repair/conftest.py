"""A cluster in memory with auto-recovery, and a ledger to lose copies of."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.base.entropy import RandomEntropy
from engine.repair.auto_recovery import AutoRecovery
from engine.repair.settings import RepairSettings
from tests.sim.kit.cluster import FAST
from tests.support.ledger_cluster import Cluster, Listener, run_of

SETTINGS = RepairSettings(
    lost_bookie_recovery_delay=5,
    auditor_periodic_check_interval=0,
    open_ledger_rereplication_grace_period_s=10.0,
    rw_rereplicate_backoff_s=1.0,
)


class RepairedCluster(Cluster):
    """Bookies ``b0``, ``b1``, …, of which each may have auto-recovery beside it."""

    def recovery(self, name: str, **changes: Any) -> AutoRecovery:
        return AutoRecovery(
            replace(SETTINGS, **changes),
            FAST,
            name,
            store=self.server.session(10.0),
            network=self.network,
            clock=self.clock,
            entropy=RandomEntropy(),
        )

    async def written(
        self, *, entries: int = 20, shape: tuple[int, int, int] = (3, 3, 2), close: bool = True
    ) -> int:
        """Write a ledger and return its id."""
        listener = Listener()
        writer = await self.client(FAST).create(*shape, listener=listener)
        if entries:
            writer.append(run_of(*(b"entry %05d" % i for i in range(entries))))
        await listener.reach(entries)
        if close:
            await writer.close()
        return writer.ledger_id

    async def lose(self, name: str) -> None:
        """Stop a bookie for good."""
        await self.stop(name)
        del self.disks[name]


Start = Callable[[int], Awaitable[RepairedCluster]]


@pytest.fixture
async def start_cluster() -> AsyncIterator[Start]:
    cluster = RepairedCluster()

    async def start(count: int) -> RepairedCluster:
        for i in range(count):
            await cluster.start(f"b{i}")
        return cluster

    yield start
    await cluster.close()
