"""Our auto-recovery on Apache's bookies: what a stopped one held is copied to another, and no mark or lock is left."""

import asyncio
from pathlib import Path

import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.net.network import LoopNetwork
from engine.repair.auto_recovery import AutoRecovery
from engine.repair.settings import RepairSettings
from tests.oracle.servers import ApacheBookie, connected, make_root
from tests.support.ledger_cluster import Listener, payloads_of, run_of
from tests.support.ports import free_ports

pytestmark = [pytest.mark.slow]

ENTRIES = 300
REPAIRED_S = 120.0


async def test_apaches_bookies_are_repaired(zookeeper: str, tmp_path: Path) -> None:
    zk = f"{zookeeper}/our-auto-recovery"
    await make_root(zk)
    bookies = [
        ApacheBookie(tmp_path, f"bookie-{i}", zk, port, autoRecoveryDaemonEnabled="false")
        for i, port in enumerate(free_ports(3), 1)
    ]
    store = await connected(zk)
    recovery = AutoRecovery(
        RepairSettings(lost_bookie_recovery_delay=1, rw_rereplicate_backoff_s=0.5),
        LedgerSettings(),
        "ours",
        store=store,
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
    )
    try:
        for bookie in bookies:
            await asyncio.to_thread(bookie.start)
        listener = Listener()
        writer = await recovery.client.create(2, 2, 2, listener=listener)
        payloads = [b"entry %d" % i for i in range(ENTRIES)]
        writer.append(run_of(*payloads))
        await listener.reach(ENTRIES)
        await writer.close()
        ledger = writer.ledger_id
        (lost, _) = writer.metadata.segments[0].bookies
        recovery.start()
        gone = next(bookie for bookie in bookies if bookie.id == lost)
        await asyncio.to_thread(gone.stop)
        async with asyncio.timeout(REPAIRED_S):
            while lost in (await recovery.client.metadata(ledger)).segments[0].bookies:
                await asyncio.sleep(0.5)
            while [n async for n in recovery.records.marked()]:
                await asyncio.sleep(0.5)
        reader = await recovery.client.open(ledger, recover=False)
        read = await reader.read(0, ENTRIES - 1, 1 << 20)
        assert payloads_of(read) == payloads[: len(payloads_of(read))]
        metadata, findings = await recovery.repair.examine(ledger)
        assert findings.whole
        assert lost not in metadata.segments[0].bookies
        assert await store.children(paths.REPAIR_LOCKS) == []
    finally:
        await recovery.stop()
        await store.close()
        for bookie in bookies:
            await asyncio.to_thread(bookie.kill)
