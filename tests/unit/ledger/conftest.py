"""A cluster in memory, of bookies or of scripted ones."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.support.ledger_cluster import Cluster
from tests.support.scripted_bookies import World, scripted_world


@pytest.fixture
async def start_cluster() -> AsyncIterator[Callable[[int], Awaitable[Cluster]]]:
    """A function that starts a cluster of the given number of bookies: ``await start_cluster(3)``."""
    cluster = Cluster()

    async def start(count: int) -> Cluster:
        for i in range(count):
            await cluster.start(f"b{i}")
        return cluster

    yield start
    await cluster.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A world without bookies yet: ``await world.start(3)`` starts three."""
    async with scripted_world() as made:
        yield made
