"""Bookies of the overview, against the shipped status server on real sockets."""

from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import BookieRegistration
from engine.net.http import HttpServer, Response, pages
from engine.net.network import LoopNetwork
from gateway.services.bookies import INFO_PAGE, Bookies


async def test_state_comes_from_the_store_and_room_from_each_bookies_own_page() -> None:
    answers = [b'{"freeSpace":3000000000,"totalSpace":4000000000}', b'{"freeSpace":"x"}']
    servers = [
        HttpServer(
            LoopNetwork(),
            pages({INFO_PAGE: lambda body=body: Response(200, body)}),
            connections_max=0,
        )
        for body in answers
    ]
    for server in servers:
        await server.listen("127.0.0.1", 0)
    store = MemoryServer().session()
    for path in ("/ledgers", paths.AVAILABLE, paths.READ_ONLY, paths.COOKIES):
        await store.create(path)
    for node, port in (
        (paths.available_bookie("a"), servers[0].port),
        (paths.read_only_bookie("b"), servers[1].port),
        (paths.available_bookie("c"), None),
    ):
        await store.create(node, BookieRegistration.at("127.0.0.1", 3181, port).encode())
    await store.create(f"{paths.COOKIES}/d")
    try:
        rows = await Bookies().rows(store)
    finally:
        for server in servers:
            await server.close()
    assert [tuple(row.values()) for row in rows] == [
        ("a", "writable", 3_000_000_000, 4_000_000_000),
        ("b", "read-only", None, None),
        ("c", "writable", None, None),
        ("d", "down", None, None),
    ]


async def test_a_bookie_that_does_not_answer_has_no_numbers() -> None:
    store = MemoryServer().session()
    for path in ("/ledgers", paths.AVAILABLE, paths.READ_ONLY, paths.COOKIES):
        await store.create(path)
    server = HttpServer(LoopNetwork(), pages({}), connections_max=0)
    await server.listen("127.0.0.1", 0)
    await server.close()
    record = BookieRegistration.at("127.0.0.1", 3181, server.port).encode()
    await store.create(paths.available_bookie("a"), record)
    [row] = await Bookies().rows(store)
    assert (row["state"], row["free_bytes"]) == ("writable", None)
