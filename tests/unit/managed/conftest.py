"""Managed ledgers over one bookie, in memory."""

from collections.abc import AsyncIterator

import pytest

from tests.support.managed_cluster import Brokers


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    made = Brokers()
    await made.start()
    yield made
    await made.close()
