"""The room on all bookies: asked for over BookKeeper's protocol, printed as BookKeeper does."""

import json

import pytest

from engine.metadata import paths
from engine.net.http import Request, Response
from engine.repair.pages.bookie_spaces import free_and_total, readable, spaces
from engine.repair.pages.recovery_pages import BOOKIE_PREFIX, AutoRecoveryPages
from tests.unit.repair.conftest import RepairedCluster, Start

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, ""),
        (999, ""),
        (1000, "(1KB)"),
        (66356436992, "(66.356GB)"),
        (270553174016, "(270.553GB)"),
        (1_500_000, "(1.5MB)"),
        (1_999_999, "(1.999MB)"),
        (5_000_000_000_000_000, "(5000TB)"),
    ],
)
def test_sizes_are_bookkeepers(size: int, text: str) -> None:
    assert readable(size) == text


async def listed(cluster: RepairedCluster) -> tuple[int, str]:
    recovery = cluster.recovery("r")
    pages = AutoRecoveryPages(cluster.store, recovery, recovery._tasks.spawn, changes=False)
    path = f"{BOOKIE_PREFIX}list_bookie_info"
    response = await pages.answer(Request("GET", path, "", {}, b""))
    assert isinstance(response, Response)
    await recovery.stop()
    return response.status, response.body.decode()


async def test_every_bookie_is_listed_with_the_sum(start_cluster: Start) -> None:
    cluster = await start_cluster(2)
    status, body = await listed(cluster)
    page = json.loads(body)
    free, total = cluster.bookies["b0"].serving.disks.space
    assert (status, list(page)) == (200, ["b0", "b1", "ClusterInfo: "])
    assert page["b0"] == f": {free_and_total((free, total))},"
    assert page["ClusterInfo: "] == free_and_total((2 * free, 2 * total))


async def test_a_bookie_that_does_not_answer_is_left_out(start_cluster: Start) -> None:
    cluster = await start_cluster(1)
    await cluster.store.create(paths.read_only_bookie("b7"), b"", make_parents=True)
    client = cluster.recovery("r").client
    room = await spaces(cluster.store, client)
    assert room == {"b0": cluster.bookies["b0"].serving.disks.space, "b7": None}
    await client.close()
    assert list(json.loads((await listed(cluster))[1])) == ["b0", "ClusterInfo: "]
    await cluster.stop("b0")
    assert await listed(cluster) == (404, "Failed to retrieve bookie info.")
