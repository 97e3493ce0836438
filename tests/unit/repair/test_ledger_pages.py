"""BookKeeper's pages of ledgers on a status port: refused unless the operator shows ledgers, its paths and texts."""

import json

import pytest

from engine.net.http import Request, Response
from engine.repair.pages.ledger_pages import PREFIX, LedgerPages
from tests.sim.kit.cluster import FAST
from tests.unit.repair.conftest import RepairedCluster, Start

pytestmark = pytest.mark.virtual_time


def pages_of(cluster: RepairedCluster, *, shows: bool = True, changes: bool = False) -> LedgerPages:
    return LedgerPages(cluster.store, cluster.client(FAST), shows=shows, changes=changes)


async def ask(pages: LedgerPages, method: str, page: str) -> tuple[int, str]:
    path, _, query = page.partition("?")
    response = await pages.answer(Request(method, PREFIX + path, query, {}, b""))
    assert isinstance(response, Response)
    return response.status, response.body.decode()


async def test_ledgers_are_hidden_unless_the_operator_shows_them(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    ledger = await cluster.written()
    hidden = pages_of(cluster, shows=False, changes=True)
    for method, page in (
        ("GET", "list"),
        ("GET", f"metadata?ledger_id={ledger}"),
        ("GET", f"read?ledger_id={ledger}"),
        ("DELETE", f"delete?ledger_id={ledger}"),
    ):
        status, body = await ask(hidden, method, page)
        assert (status, "http_server_ledgers_enabled" in body) == (403, True)
    assert await hidden.answer(Request("GET", "/api/v1/else", "", {}, b"")) is None


async def test_ledgers_are_listed_with_their_metadata_and_without_passwords(
    start_cluster: Start,
) -> None:
    cluster = await start_cluster(3)
    ledger, still_open = await cluster.written(entries=3), await cluster.written(close=False)
    pages = pages_of(cluster)
    listed = json.loads((await ask(pages, "GET", "list"))[1])
    assert listed == {str(ledger): None, str(still_open): None}
    known = json.loads((await ask(pages, "GET", "list?print_metadata=true&page=1"))[1])
    assert known[str(still_open)]["state"] == "OPEN"
    assert (await ask(pages, "GET", "list?print_metadata=true&page=2"))[1] == "{}"
    shown = json.loads((await ask(pages, "GET", f"metadata?ledger_id={ledger}"))[1])[str(ledger)]
    assert shown == known[str(ledger)]
    assert (shown["closed"], shown["lastEntryId"], shown["ensembleSize"]) == (True, 2, 3)
    assert len(shown["allEnsembles"]["0"]) == 3
    assert "password" not in shown


async def test_entries_are_read_up_to_the_last_confirmed_one(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    ledger = await cluster.written(entries=1500)
    pages = pages_of(cluster)
    read = json.loads((await ask(pages, "GET", f"read?ledger_id={ledger}"))[1])
    assert (len(read), read["7"]) == (1000, "entry 00007")
    page = json.loads((await ask(pages, "GET", f"read?ledger_id={ledger}&page=2"))[1])
    assert page.pop("Entries for page: ") == "2"
    assert list(page) == [str(n) for n in range(1000, 1500)]
    asked = f"read?ledger_id={ledger}&start_entry_id=3&end_entry_id=4"
    assert json.loads((await ask(pages, "GET", asked))[1]) == {
        "3": "entry 00003",
        "4": "entry 00004",
    }


async def test_deletion_needs_changes_to_be_allowed(start_cluster: Start) -> None:
    cluster = await start_cluster(3)
    ledger = await cluster.written()
    assert (await ask(pages_of(cluster), "DELETE", f"delete?ledger_id={ledger}"))[0] == 403
    pages = pages_of(cluster, changes=True)
    deleted = (200, f'"Deleted ledger: {ledger}"')
    assert await ask(pages, "DELETE", f"delete?ledger_id={ledger}") == deleted
    assert await ask(pages, "DELETE", f"delete?ledger_id={ledger}") == deleted
    assert (await ask(pages, "GET", "list"))[1] == "{}"


@pytest.mark.parametrize(
    ("method", "page", "status", "words"),
    [
        ("GET", "metadata", 404, "ledger_id provided"),
        ("GET", "metadata?ledger_id=99", 404, "99"),
        ("GET", "read?ledger_id=99", 404, "99"),
        ("GET", "read?ledger_id=x", 400, "ledger_id must be a number"),
        ("GET", "read?ledger_id=-1", 400, "ledger_id must be 0 or more"),
        ("GET", "list?print_metadata=true&page=0", 400, "page must be 1 or more"),
        ("DELETE", "delete", 404, "Should provide ledger_id"),
        ("GET", "delete?ledger_id=1", 404, "Not found method"),
        ("PUT", "list", 404, "Not found method"),
    ],
)
async def test_a_request_that_cannot_be_answered_is_explained(
    start_cluster: Start, method: str, page: str, status: int, words: str
) -> None:
    cluster = await start_cluster(1)
    answer = await ask(pages_of(cluster, changes=True), method, page)
    assert answer[0] == status
    assert words in answer[1]
