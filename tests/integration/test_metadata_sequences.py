"""The embedded metadata server beside Apache's ZooKeeper: the same operations, the same answers and events.

``python -m tests.oracle.metadata`` plays more of these sequences.
"""

from collections.abc import Iterator

import pytest

from tests.oracle.metadata.compare import (
    Difference,
    Mode,
    compare_many,
    our_server,
    real_server,
)
from tests.support.zookeeper.process import zookeeper_missing

AT_A_TIME = 10


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """Ports of Apache's server and of ours."""
    missing = zookeeper_missing()
    if missing is not None:
        pytest.skip(missing)
    with real_server() as theirs, our_server() as ours:
        yield theirs, ours


@pytest.mark.parametrize(
    ("mode", "count"), [(Mode.SEVERAL, 120), (Mode.EXACT, 30), (Mode.ROOT, 30), (Mode.EXPIRY, 10)]
)
async def test_sequences_of_operations_have_the_answers_and_events_of_zookeeper(
    ports: tuple[int, int], mode: Mode, count: int
) -> None:
    differences: list[Difference] = []
    seeds = (f"{mode.value}.{i}" for i in range(count))
    assert await compare_many(ports, seeds, AT_A_TIME, mode, differences.append) == count
    assert not differences, "\n".join(f"--- {seed}\n{text}" for seed, text in differences)
