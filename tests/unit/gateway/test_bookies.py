"""Bookies of the overview, against the shipped status server on real sockets."""

from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import BookieRegistration
from engine.net.network import LoopNetwork
from engine.net.status import Page, StatusServer
from gateway.services.bookies import INFO_PAGE, Bookies


async def test_state_comes_from_the_store_and_room_from_each_bookies_own_page() -> None:
    answers = [b'{"freeSpace":3000000000,"totalSpace":4000000000}', b'{"freeSpace":"x"}']
    pages = [
        StatusServer(LoopNetwork(), {INFO_PAGE: lambda body=body: Page(200, body)})
        for body in answers
    ]
    for page in pages:
        await page.start("127.0.0.1", 0)
    store = MemoryServer().session()
    for path in ("/ledgers", paths.AVAILABLE, paths.READ_ONLY, paths.COOKIES):
        await store.create(path)
    for node, port in (
        (paths.available_bookie("a"), pages[0].port),
        (paths.read_only_bookie("b"), pages[1].port),
        (paths.available_bookie("c"), None),
    ):
        await store.create(node, BookieRegistration.at("127.0.0.1", 3181, port).encode())
    await store.create(f"{paths.COOKIES}/d")
    try:
        rows = await Bookies().rows(store)
    finally:
        for page in pages:
            await page.close()
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
    page = StatusServer(LoopNetwork(), {})
    await page.start("127.0.0.1", 0)
    await page.close()
    record = BookieRegistration.at("127.0.0.1", 3181, page.port).encode()
    await store.create(paths.available_bookie("a"), record)
    [row] = await Bookies().rows(store)
    assert (row["state"], row["free_bytes"]) == ("writable", None)
