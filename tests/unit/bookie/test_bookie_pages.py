"""The pages of a bookie's status port: BookKeeper's paths and texts, changes only where allowed."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from bookie.bookie_pages import PREFIX, BookiePages
from engine.net.http import Request, Response
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
    return BookiePages(cluster.bookies["b0"], changes=changes)


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
