"""Managed ledgers over one real bookie, metadata in memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.managed_cluster import Brokers


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    made = Brokers(tmp_path)
    await made.start()
    yield made
    await made.close()
