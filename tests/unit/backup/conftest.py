"""Two clusters in memory: one that is backed up, and an empty one."""

from collections.abc import AsyncIterator

import pytest

from tests.support.managed_cluster import Brokers


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    """The cluster that is backed up, with one bookie."""
    made = Brokers()
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def empty() -> AsyncIterator[Brokers]:
    """The cluster into which backups are restored, with two bookies of other names."""
    made = Brokers()
    for name in ("r0", "r1"):
        await made.cluster.start(name)
    yield made
    await made.close()
