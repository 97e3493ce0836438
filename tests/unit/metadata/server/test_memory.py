"""Memory of the tree, which is all in memory."""

import gc
import tracemalloc

from engine.metadata.server.protocol import CreateMode
from tests.support.metadata.machine_bench import Bench

NODES = 4000
PARENT = "/managed-ledgers/public/default/persistent"


def test_a_small_node_takes_less_than_a_kilobyte() -> None:
    """Measure nodes of 100 bytes at paths of 50 characters, every fourth of them ephemeral.

    With 100,000 nodes each takes 600 bytes, of which its data and its path are 250.
    """
    bench = Bench()
    client = bench.client()
    for end in range(len(PARENT)):
        if PARENT[end + 1 : end + 2] in ("/", ""):
            bench.create(client, PARENT[: end + 1])
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        for number in range(NODES):
            mode = CreateMode.PERSISTENT if number % 4 else CreateMode.EPHEMERAL
            path = f"{PARENT}/{number:07d}"
            assert bench.create(client, path, b"%0100d" % number, mode).answer is not None
            bench.outcomes.clear()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / NODES < 1024
