"""Fixtures of the crash tests."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.metadata.connect import connect
from tests.crash.kit.place import Place

SEED = int(os.environ.get("CRASH_SEED", "1"))


@pytest.fixture
async def places(zookeeper_hosts: str, tmp_path: Path) -> AsyncIterator[Any]:
    """``await places(name)`` makes a new place."""
    made: list[Place] = []

    async def make(name: str) -> Place:
        chroot = f"{tmp_path.name}-{name}"
        store = await connect(f"zk:{zookeeper_hosts}/{chroot}", session_timeout_s=4.0)
        made.append(Place(tmp_path, zookeeper_hosts, store, chroot, SEED))
        return made[-1]

    yield make
    for place in made:
        place.bookie.end()
        await place.store.close()
