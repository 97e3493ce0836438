"""Bookies of the overview, against the shipped status server on real sockets."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from engine.metadata import paths
from engine.metadata.apart.routed import BOOKKEEPER
from engine.metadata.memory import MemoryServer
from engine.metadata.records import BookieRegistration
from engine.metadata.store import MetadataStore
from engine.net.http import HttpServer, Response, pages
from engine.net.network import LoopNetwork
from gateway.services.bookies import INFO_PAGE, REGISTERS_MS, Bookies, PageValues
from gateway.services.health.checks import Checks
from gateway.services.health.hops import Hops, HopState, Kind


@pytest.fixture
async def store() -> MetadataStore:
    made = MemoryServer().session()
    for path in ("/ledgers", paths.AVAILABLE, paths.READ_ONLY, paths.COOKIES):
        await made.create(path)
    return made


@pytest.fixture
async def bookies() -> AsyncIterator[Bookies]:
    checks = Checks(Hops(lambda: time.time_ns() // 1_000_000))
    checks.note_viewer()
    made = Bookies(checks, lambda: 7)
    yield made
    made.close()
    await checks.close()


async def until(bookies: Bookies, condition: Callable[[list[dict[str, Any]]], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition(bookies.rows):
            await asyncio.sleep(0.02)


async def test_state_is_read_from_the_store_and_room_from_each_bookies_own_page(
    store: MetadataStore, bookies: Bookies
) -> None:
    answers = [
        b'{"freeSpace":3000000000,"totalSpace":4000000000,"ledgers":12,"storedBytes":9}',
        b'{"freeSpace":"x"}',
        b'{"freeSpace":2,"totalSpace":10,"ledgers":1,"readOnly":true,"since":5,"reason":"disk usage of /d 0.800",'
        b'"usage":0.8,"usageLimit":0.5,"usageWritable":0.5}',
    ]

    def server_of(body: bytes) -> HttpServer:
        async def page() -> Response:
            return Response(200, body)

        return HttpServer(LoopNetwork(), pages({INFO_PAGE: page}), connections_max=0)

    servers = [server_of(body) for body in answers]
    for server in servers:
        await server.listen("127.0.0.1", 0)
    for node, port in (
        (paths.available_bookie("a"), servers[0].port),
        (paths.read_only_bookie("b"), servers[1].port),
        (paths.available_bookie("c"), None),
        (paths.read_only_bookie("e"), servers[2].port),
    ):
        await store.create(node, BookieRegistration.at("127.0.0.1", 3181, port).encode())
    await store.create(f"{paths.COOKIES}/d")
    await bookies.refresh(store)
    assert [row["state"] for row in bookies.rows] == [
        *("writable", "read-only", "writable", "down", "read-only")
    ]
    wanted = [
        ("a", "writable", "live", 7, 3_000_000_000, 4_000_000_000, 12),
        ("b", "slow", "no", 0, None, None, None),  # its page says nonsense
        ("c", "writable", "no", 0, None, None, None),
        ("d", "down", "no", 0, None, None, None),
        ("e", "read-only", "live", 7, 2, 10, 1),
    ]
    fields = ("id", "state", "known", "at", "free_bytes", "total_bytes", "ledgers")
    await until(bookies, lambda rows: [tuple(row[f] for f in fields) for row in rows] == wanted)
    full = bookies.rows[4]
    figures = ("since", "reason", "usage", "usage_limit", "usage_writable")
    assert [full[name] for name in figures] == [5, "disk usage of /d 0.800", 0.8, 0.5, 0.5]
    assert (bookies.rows[0]["reason"], bookies.rows[0]["usage"]) == ("", None)
    assert [row["stored_bytes"] for row in bookies.rows] == [9, None, None, None, None]
    for server in servers:
        await server.close()
    await until(bookies, lambda rows: rows[0]["state"] == "down")
    row = bookies.rows[0]
    assert (row["free_bytes"], row["ledgers"]) == (3_000_000_000, 12), "as last reported"
    assert (row["known"], row["address"]) == ("last", "127.0.0.1:3181")
    assert bookies.rows[3]["address"] == "", "it was never there"


async def test_a_bookie_that_does_not_answer_is_down_and_one_that_is_no_more_is_not_asked(
    store: MetadataStore, bookies: Bookies
) -> None:
    server = HttpServer(LoopNetwork(), pages({}), connections_max=0)
    await server.listen("127.0.0.1", 0)
    await server.close()
    record = BookieRegistration.at("127.0.0.1", 3181, server.port).encode()
    await store.create(paths.available_bookie("a"), record)
    await bookies.refresh(store)
    await until(bookies, lambda rows: rows[0]["state"] == "down")
    await store.delete(paths.available_bookie("a"))
    await bookies.refresh(store)
    assert bookies.rows == []
    assert bookies._checks.checked(Kind.BOOKIE) == []


async def test_an_answer_is_not_success(store: MetadataStore, bookies: Bookies) -> None:
    async def fails() -> Response:
        return Response(503, b"{}")

    server = HttpServer(LoopNetwork(), pages({INFO_PAGE: fails}), connections_max=0)
    other = HttpServer(LoopNetwork(), pages({}), connections_max=0)
    for name, page_server in (("a", server), ("b", other)):
        await page_server.listen("127.0.0.1", 0)
        record = BookieRegistration.at("127.0.0.1", 3181, page_server.port).encode()
        await store.create(paths.available_bookie(name), record)
    await bookies.refresh(store)
    await until(bookies, lambda rows: [row["state"] for row in rows] == ["slow", "writable"])
    assert "answers 503 at" in bookies._checks.hops.bad[0].reason
    for page_server in (server, other):
        await page_server.close()


async def test_bookies_that_lost_their_sessions_with_the_store_may_register_again(
    store: MetadataStore, bookies: Bookies
) -> None:
    await store.create(f"{paths.COOKIES}/a")
    hops = bookies._checks.hops
    hops.failed(Kind.STORE, slow=False)
    await bookies.refresh(store)
    assert bookies.rows[0]["state"] == "slow", "before it is asked, too"
    hops.answered(Kind.STORE)
    hops.expect(Kind.STORE).since = 1  # the time is 7 ms
    await until(bookies, lambda rows: hops.of(Kind.BOOKIE)[0].state is HopState.SLOW)
    assert hops.of(Kind.BOOKIE)[0].reason == "Bookie a has not registered again yet"
    hops.expect(Kind.STORE).since = -REGISTERS_MS
    await until(bookies, lambda rows: rows[0]["state"] == "down")
    assert hops.of(Kind.BOOKIE)[0].reason == "Bookie a is gone (no longer registered)"
    hops.failed(Kind.STORE, BOOKKEEPER, slow=False)  # the store apart that bookies register with
    await until(bookies, lambda rows: rows[0]["state"] == "slow")


def test_room_that_hardly_changed_is_no_news(bookies: Bookies) -> None:
    versions = []
    for free in (500_000, 500_900, 499_100, 501_100, 501_100):
        bookies._update("k:1", PageValues(free, 1_000_000, 3))
        versions.append(bookies.version)
    assert versions == [1, 1, 1, 2, 2]
    bookies._update("k:1", PageValues(501_100, 1_000_000, 4))
    assert bookies.version == 3, "another ledger is"
