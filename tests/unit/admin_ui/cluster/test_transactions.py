"""Transactions of a cluster by the console's API: listed, filtered, and one aborted as previewed."""

from collections.abc import Iterator
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from engine.broker.transactions.txn_id import TxnId
from gateway.services.engine_link import Engine
from tests.support.admin.gateway_client import Gateway
from tests.support.transactions.coordinator_steps import add_partitions, add_subscriptions
from tests.unit.admin_ui.test_cluster_pages import API, Call
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

TOPICS = [f"persistent://public/default/t{n}" for n in range(2)]
HOUR_MS = 3_600_000


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(MAGNETAR_TRANSACTION_COORDINATOR_ENABLED="true") as made:
        yield made


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    gateway = Gateway(link.cluster)
    listed(gateway)  # its broker takes the coordinator over
    return gateway


def begin(link: BenchLink, owner: str, topics: list[str]) -> TxnId:
    async def work(_: Engine) -> TxnId:
        coordinators = link.bench.broker.running.coordinators
        assert coordinators is not None
        coordinator = await coordinators.of(0)
        txn = await coordinator.begin(HOUR_MS, owner)
        await add_partitions(coordinator, txn, topics)
        await add_subscriptions(coordinator, txn, [(topics[0], "s")])
        return txn

    return link.run(work)


def listed(call: Call, query: str = "") -> Any:
    answer = call("GET", f"{API}/transactions{query}")
    assert answer.status == 200
    return answer.json


def abort(call: Call, txn: TxnId, **body: Any) -> Any:
    return call("POST", f"{API}/transactions/{txn.most}/{txn.least}/abort", body)


def test_open_transactions_are_listed_with_their_coordinators(call: Call, link: BenchLink) -> None:
    assert listed(call)["rows"] == []
    first, second = begin(link, "shop", TOPICS), begin(link, "bank", TOPICS[:1])
    page = listed(call)
    assert (page["enabled"], page["total"]) == (True, 2)
    assert [(row["coordinator"], row["number"]) for row in page["rows"]] == [first, second]
    shown = page["rows"][0]
    assert (shown["status"], shown["owner"], shown["timeout_ms"]) == ("OPEN", "shop", HOUR_MS)
    assert shown["topics"] == TOPICS
    assert shown["subscriptions"] == [{"topic": TOPICS[0], "subscription": "s"}]
    (coordinator,) = page["coordinators"]
    assert (coordinator["state"], coordinator["open"], coordinator["newest"]) == ("Ready", 2, 1)
    assert (coordinator["reason"], coordinator["low_water_mark"]) == ("", -1)
    assert [row["owner"] for row in listed(call, "?q=T1")["rows"]] == ["shop"]
    assert [row["owner"] for row in listed(call, "?offset=1&limit=1")["rows"]] == ["bank"]
    assert listed(call, "?older=60")["total"] == 0
    assert call("GET", f"{API}/transactions?older=-1").status == 400


def test_a_transaction_is_aborted_as_previewed(call: Call, link: BenchLink) -> None:
    txn = begin(link, "shop", TOPICS)
    preview = abort(call, txn, preview=True).json
    assert preview["transaction"]["topics"] == TOPICS
    assert listed(call)["total"] == 1, "a preview changes nothing"
    assert abort(call, txn, token="x").status == 400
    other = begin(link, "bank", TOPICS)
    assert abort(call, other, token=preview["token"]).status == 400
    done = abort(call, txn, token=preview["token"])
    assert (done.status, done.json["transaction"]["number"]) == (200, txn.least)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.method, entry.target.endswith("/abort"), entry.status) == ("POST", True, 200)
    assert [row["owner"] for row in listed(call)["rows"]] == ["bank"]
    assert abort(call, txn, token=preview["token"]).status == 404
    assert abort(call, txn, preview=True).status == 404


def test_an_abort_is_of_what_was_shown(call: Call, link: BenchLink) -> None:
    txn = begin(link, "shop", TOPICS[:1])
    token = abort(call, txn, preview=True).json["token"]

    async def more(_: Engine) -> None:
        coordinators = link.bench.broker.running.coordinators
        assert coordinators is not None
        await add_partitions(await coordinators.of(0), txn, TOPICS)

    link.run(more)
    assert abort(call, txn, token=token).status == 409
    assert listed(call)["total"] == 1


def test_a_coordinator_that_does_not_answer_is_named(call: Call, link: BenchLink) -> None:
    listed(call)
    link.silence()
    page = listed(call)
    assert (page["enabled"], page["rows"]) == (True, [])
    (coordinator,) = page["coordinators"]
    assert (coordinator["state"], coordinator["open"]) == (None, None)
    assert coordinator["reason"] != ""


def test_a_cluster_without_transactions_is_not_one_without_open_ones(
    transactional_db: None,
) -> None:
    with bench_link() as link:
        page = listed(Gateway(link.cluster))
        assert (page["enabled"], page["coordinators"], page["rows"]) == (False, [], [])
