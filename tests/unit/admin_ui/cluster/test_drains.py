"""A broker drained and reinstated by the console's API: previewed, confirmed, recorded, and its progress shown."""

from collections.abc import Iterator
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from engine.admin.api.bundles import SPLIT_BUNDLE, SplitBundle
from engine.metadata import paths
from gateway.services.engine_link import Engine
from tests.support.admin.gateway_client import Gateway
from tests.support.waiting import until_blocking
from tests.unit.admin_ui.test_cluster_pages import (
    API,
    PLAIN,
    Call,
    bundle_of,
    filled,
    path_of,
    preview,
    register,
)
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

OTHER = "127.0.0.1:1"


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(filled) as made:
        yield made


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    link.run(lambda engine: link.bench.loaded(PLAIN))
    return Gateway(link.cluster)


def own(link: BenchLink) -> str:
    return link.bench.broker.record.id


def drain(call: Call, broker: str, **body: Any) -> Any:
    return call("POST", f"{API}/brokers/{broker}/drain", body)


def end(call: Call, broker: str, **body: Any) -> Any:
    return call("POST", f"{API}/brokers/{broker}/drain/end", body)


def drains(call: Call) -> Any:
    return call("GET", f"{API}/load-balance").json["drains"]


def test_the_only_broker_cannot_be_drained(call: Call, link: BenchLink) -> None:
    answer = drain(call, own(link), preview=True)
    assert (answer.status, answer.json["token"]) == (200, None)
    assert answer.json["problem"].startswith(f"{own(link)} cannot be drained: it is the only brok")
    assert drain(call, "x:1", preview=True).status == 404
    assert end(call, own(link), preview=True).status == 404
    assert drains(call) == []


def test_a_broker_is_drained_as_previewed_and_reinstated(call: Call, link: BenchLink) -> None:
    register(link, OTHER)
    owned = [str(bundle) for bundle in link.bench.broker.running.ownership.owned()]
    shown = drain(call, own(link), preview=True).json
    assert (shown["problem"], shown["total"], shown["staying"]) == ("", len(owned), 0)
    assert shown["destinations"] == [{"broker": OTHER, "bundles": len(owned)}]
    assert {row["bundle"] for row in shown["bundles"]} == set(owned)
    counts = [row["topics"] for row in shown["bundles"]]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == shown["topics"] == 13
    assert drains(call) == [], "a preview changes nothing"
    done = drain(call, own(link), token=shown["token"])
    assert (done.status, done.json["leaving"]) == (200, len(owned))
    entry = AuditEntry.objects.latest("pk")
    assert (entry.method, entry.target.endswith("/drain"), entry.status) == ("POST", True, 200)
    until_blocking(lambda: drains(call)[0]["left"] == 0)
    (row,) = drains(call)
    assert (row["broker"], row["since"]) == (own(link), done.json["at"])
    assert (row["moved"], row["unloaded"]) == (0, len(owned)), "the other broker is none"
    moves = call("GET", f"{API}/load-balance").json["moves"]
    assert {(move["kind"], move["to_broker"]) for move in moves} == {("drain", OTHER)}
    again = drain(call, own(link), preview=True).json
    assert again["problem"] == f"{own(link)} is being drained already"
    ending = end(call, own(link), preview=True).json
    assert ending["drain"]["left"] == 0
    assert end(call, own(link), token=ending["token"]).status == 200
    assert drains(call) == []
    assert AuditEntry.objects.latest("pk").target.endswith("/drain/end")
    late = end(call, own(link), token=ending["token"])
    assert (late.status, "ended meanwhile" in late.json["reason"]) == (409, True)


def test_a_drain_other_than_the_previewed_one_is_refused(call: Call, link: BenchLink) -> None:
    register(link, OTHER)
    ownership, bundle = link.bench.broker.running.ownership, bundle_of(link, PLAIN)
    link.run(lambda _: ownership.release(bundle))
    token = drain(call, own(link), preview=True).json["token"]
    link.run(lambda _: ownership.acquire(bundle))
    answer = drain(call, own(link), token=token)
    assert (answer.status, "1 were acquired since" in answer.json["reason"]) == (409, True)
    assert drains(call) == []


def test_the_progress_of_a_broker_that_does_not_answer_is_unknown(
    call: Call, link: BenchLink
) -> None:
    register(link, OTHER)
    mark = b'{"brokers": {"gone:1": {"atMs": 5, "by": "anna"}}}'
    link.run(
        lambda engine: engine.store.create(paths.LOADBALANCE_DRAINING, mark, make_parents=True)
    )
    unknown = {"left": None, "moved": None, "unloaded": None, "refused": []}
    assert drains(call) == [{"broker": "gone:1", "since": 5, "by": "anna", **unknown}]
    token = end(call, "gone:1", preview=True).json["token"]
    assert end(call, "gone:1", token=token).status == 200
    assert drains(call) == []


def test_moves_and_splits_that_people_ask_for_are_among_the_last_moves(
    call: Call, link: BenchLink
) -> None:
    register(link, OTHER)
    bundle = bundle_of(link, PLAIN)
    token = preview(call, bundle, "split")["token"]
    parts = call("POST", path_of(bundle, "split"), {"token": token}).json["parts"]
    part = bundle_of(link, PLAIN)
    token = preview(call, part, "transfer", destination=OTHER)["token"]
    assert call("POST", path_of(part, "transfer"), {"token": token}).status == 200
    moved, split = call("GET", f"{API}/load-balance").json["moves"]
    assert (moved["kind"], moved["bundle"]) == ("operator", str(part))
    assert moved["result"].startswith(f"unloaded only: {OTHER} cannot prepare")
    assert moved["reason"].startswith("asked for by ")
    assert (split["kind"], split["bundle"], split["to_broker"]) == ("split", str(bundle), "")
    assert split["result"] == f"split into {', '.join(parts)}"


def test_a_split_without_a_reason_is_not_recorded(call: Call, link: BenchLink) -> None:
    async def divide(engine: Engine) -> None:
        bundle = link.bench.broker.running.ownership.owned()[0]
        await engine.call(SPLIT_BUNDLE, SplitBundle(bundle.namespace, bundle.range))

    link.run(divide)
    assert call("GET", f"{API}/load-balance").json["moves"] == []
