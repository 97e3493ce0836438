"""The pages of a bookie's status port: BookKeeper's paths and texts, changes only where allowed."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from bookie.bookie_pages import PREFIX, BookiePages
from engine.base.entropy import RandomEntropy
from engine.net.http import Request, Response
from engine.repair.ledger_listing import ledgers
from engine.repair.pages.sanity import is_sane
from tests.sim.kit.cluster import FAST
from tests.unit.repair.conftest import RepairedCluster

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster() -> AsyncIterator[RepairedCluster]:
    made = RepairedCluster()
    await made.start("b0")
    yield made
    await made.close()


async def ask(pages: BookiePages, method: str, page: str, body: object = None) -> tuple[int, str]:
    path, _, query = page.partition("?")
    raw = b"" if body is None else json.dumps(body).encode()
    response = await pages.answer(Request(method, PREFIX + path, query, {}, raw))
    assert isinstance(response, Response)
    return response.status, response.body.decode()


def pages_of(cluster: RepairedCluster, *, changes: bool = True) -> BookiePages:
    bookie = cluster.bookies["b0"]

    async def sane() -> bool:
        return await is_sane(
            "b0",
            FAST,
            store=cluster.store,
            network=cluster.network,
            clock=cluster.clock,
            entropy=RandomEntropy(),
        )

    return BookiePages(bookie, cluster.store, bookie._tasks.spawn, sane, changes=changes)


async def test_the_scrubber_is_shown_and_hurried(cluster: RepairedCluster) -> None:
    await cluster.written(shape=(1, 1, 1))
    await asyncio.sleep(30)
    pages = pages_of(cluster)
    status, body = await ask(pages, "GET", "scrub")
    before = json.loads(body)
    assert (status, before["running"], before["unreadableNow"]) == (200, False, 0)
    assert (await ask(pages, "PUT", "scrub"))[0] == 200
    await asyncio.sleep(20)
    after = json.loads((await ask(pages, "GET", "scrub"))[1])
    assert after["lastPass"]["began_ms"] > before["lastPass"]["began_ms"]
    assert after["lastPass"]["entries"] == 20
    assert (await ask(pages_of(cluster, changes=False), "PUT", "scrub"))[0] == 403
    assert await pages.answer(Request("GET", "/api/v1/else", "", {}, b"")) is None


async def test_states_and_lists_are_those_of_bookkeeper(cluster: RepairedCluster) -> None:
    pages = pages_of(cluster)
    assert json.loads((await ask(pages, "GET", "state"))[1]) == {
        "running": True,
        "readOnly": False,
        "shuttingDown": False,
        "availableForHighPriorityWrites": True,
    }
    assert await ask(pages, "GET", "is_ready") == (200, "OK\n")
    assert await ask(pages, "GET", "list_bookies?type=rw") == (200, '{"b0":null}')
    assert await ask(pages, "GET", "list_bookies?type=ro") == (200, "{}")
    assert (await ask(pages, "GET", "list_bookies?type=all"))[0] == 400
    assert "LastLogMark: Journal Id - 1(1.txn)" in (await ask(pages, "GET", "last_log_mark"))[1]
    files = json.loads((await ask(pages, "GET", "list_disk_file"))[1])
    assert list(files) == ["index files", "journal files", "entrylog files"]
    assert files["journal files"] == "journal-0000\t"
    journal = json.loads((await ask(pages, "GET", "list_disk_file?file_type=journal"))[1])
    assert journal == {"journal files": "journal-0000\t"}
    assert (await ask(pages, "GET", "list_disk_file?file_type=else"))[0] == 400


async def test_sanity_writes_a_ledger_where_changes_are_allowed(cluster: RepairedCluster) -> None:
    pages = pages_of(cluster)
    assert await ask(pages, "GET", "sanity") == (200, '{"passed":true,"readOnly":false}')
    assert [batch async for batch in ledgers(cluster.store)] == []
    assert (await ask(pages_of(cluster, changes=False), "GET", "sanity"))[0] == 403
    await ask(pages, "PUT", "state/readonly", {"readOnly": True})
    assert await ask(pages, "GET", "sanity") == (200, '{"passed":false,"readOnly":true}')


async def test_a_bookie_is_made_read_only_and_writable_again(cluster: RepairedCluster) -> None:
    pages = pages_of(cluster)
    asked = await ask(pages, "PUT", "state/readonly", {"readOnly": True})
    assert asked == (200, '{"readOnly":true}')
    await asyncio.sleep(30)
    assert (await ask(pages, "GET", "state/readonly"))[1] == '{"readOnly":true}'
    assert (await ask(pages, "GET", "list_bookies?type=ro"))[1] == '{"b0":null}'
    assert (await ask(pages, "PUT", "state/readonly", {"readOnly": 1}))[0] == 400
    assert (await ask(pages, "PUT", "state/readonly", {"readOnly": False}))[
        1
    ] == '{"readOnly":false}'
    refused = await ask(
        pages_of(cluster, changes=False), "PUT", "state/readonly", {"readOnly": True}
    )
    assert refused[0] == 403


async def test_garbage_is_collected_on_request(cluster: RepairedCluster) -> None:
    ledger = await cluster.written(shape=(1, 1, 1))
    await asyncio.sleep(15)
    await cluster.client().delete(ledger)
    pages = pages_of(cluster)
    assert (await ask(pages, "PUT", "gc", {"majorCompactionThreshold": 2}))[0] == 400
    assert (await ask(pages, "PUT", "gc"))[0] == 200
    assert (await ask(pages, "GET", "gc"))[1] == '{"is_in_force_gc":"true"}'
    await asyncio.sleep(5)
    assert (await ask(pages, "GET", "gc"))[1] == '{"is_in_force_gc":"false"}'
    assert cluster.bookies["b0"].serving.garbage.ledgers_forgotten == 1
