"""A bookie stays listed for as long as it serves."""

import asyncio
from pathlib import Path

from tests.ledger_cluster import Cluster


async def test_a_bookie_whose_node_is_deleted_registers_again(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start("b0")
    path = "/ledgers/available/b0"
    for _ in range(2):
        await cluster.store.delete(path)
        async with asyncio.timeout(5):
            while await cluster.store.exists(path) is None:
                await asyncio.sleep(0.001)
    await cluster.close()
    assert await cluster.store.exists(path) is None
