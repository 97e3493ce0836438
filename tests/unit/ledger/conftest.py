"""A cluster in one process: real bookies on loopback and disk, metadata in memory."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.ledger_cluster import Cluster
from tests.support.scripted_bookies import World, scripted_world


@pytest.fixture
async def start_cluster(tmp_path: Path) -> AsyncIterator[Callable[[int], Awaitable[Cluster]]]:
    """``await start_cluster(3)``: a cluster of so many bookies."""
    cluster = Cluster(tmp_path)

    async def start(count: int) -> Cluster:
        for i in range(count):
            await cluster.start(f"b{i}")
        return cluster

    yield start
    await cluster.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """No bookies yet: ``await world.start(3)``."""
    async with scripted_world() as made:
        yield made
