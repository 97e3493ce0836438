"""A cluster of five machines with TLS and credentials on its links survives the death of each of them."""

import tempfile
from pathlib import Path

import pytest

from tests.machines.cluster import missing
from tests.machines.run import run

KILLED = ("kill machine 1", "kill machine 4", "kill machine 5")
"""One with a broker and a bookie, one with gateway and proxy, one with gateway, database and Redis."""


def test_killed_machines_lose_nothing_and_the_console_names_them() -> None:
    if reason := missing():
        pytest.skip(reason)
    # Not in a folder of pytest: PostgreSQL runs as another user, who may not enter those.
    with tempfile.TemporaryDirectory(prefix="machines-") as folder:
        assert run(Path(folder), only=KILLED, say=print) == []
