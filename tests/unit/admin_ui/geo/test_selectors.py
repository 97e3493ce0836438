"""The links of a cluster by the console's API: figures with how far they are known, and the topics that are behind."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.geo import selectors
from engine.auth.viewer import Viewer
from engine.base.errors import Forbidden, NotReady
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.records import encode_json
from gateway.services.admin import topics
from gateway.services.engine_link import Engine
from gateway.services.feeds.row_list import RowChanges
from gateway.services.history.readings import History
from tests.support.admin.gateway_client import Answer, Gateway
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

API = "/api/v1/clusters/standalone"
DEFAULT = NamespaceName.of("public", "default")
PATIENCE_S = 30
Call = Callable[..., Answer]


async def filled(engine: Engine) -> None:
    record = encode_json({"brokerServiceUrl": "pulsar://eu:6650"})
    await engine.store.create(paths.cluster("eu"), record)
    await engine.store.create(paths.cluster("ap"), encode_json({}))
    for local in ("a", "b", "c"):
        await topics.create(engine, DEFAULT.topic(local), {})


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(filled) as made:
        yield made


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    """A gateway whose collector has everything of its broker."""
    made = Gateway(link.cluster)
    until = time.monotonic() + PATIENCE_S
    while not link.cluster.collector.has_all_links:
        assert made("GET", f"{API}/overview").status in (200, 503)
        assert time.monotonic() < until
        time.sleep(0.05)
    return made


def sent(backlog: int, oldest: int | None, cause: str | None = None, since: int = 0) -> list[Any]:
    return [backlog, oldest, 1_500, 10_000, cause, f"why {cause}" if cause else "", since]


def report(link: BenchLink, *rows: list[Any]) -> None:
    """Have the cluster's broker report these links."""
    collector = link.cluster.collector
    named = [[str(DEFAULT.topic(row[0])), *row[1:]] for row in rows]

    async def apply(engine: Engine) -> None:
        [broker] = await engine.admin.brokers()
        collector.links.apply(broker.id, RowChanges(5_000, named, []))

    link.run(apply)


THREE = (
    ["a", ["eu", sent(5, 900, "unreachable", 1_000), [2_000, 7_000]]],
    ["b", ["eu", sent(9, 800), None]],
    ["c", ["eu", sent(0, 0), None]],
)


def test_every_known_cluster_has_its_link_with_figures_of_both_directions(
    call: Call, link: BenchLink
) -> None:
    report(link, *THREE)
    body = call("GET", f"{API}/geo").json
    assert body["cluster"] == "standalone"
    assert body["records"] == [
        {"name": "ap", "url": ""},
        {"name": "eu", "url": "pulsar://eu:6650"},
    ]
    ap, eu = body["links"]
    assert (ap["remote"], ap["known"], ap["topics"], ap["causes"]) == ("ap", "live", 0, [])
    trend = eu.pop("trend")
    assert eu == {
        "remote": "eu",
        "known": "live",
        "at": 5_000,
        "silent": [],
        "topics": 3,
        "stopped": 1,
        "backlog": 14,
        "oldest_at": 800,
        "msg_rate": 4.5,
        "bytes_rate": 30.0,
        "received_topics": 1,
        "received_msg_rate": 2.0,
        "received_bytes_rate": 7.0,
        "causes": [
            {
                "cause": "unreachable",
                "topics": 1,
                "topic": str(DEFAULT.topic("a")),
                "why": "why unreachable",
                "since": 1_000,
            }
        ],
    }
    assert trend["step_ms"] == 10_000
    assert [len(trend[name]) for name in ("sent", "received", "backlog")] == [90] * 3
    assert set(trend["sent"]) == {None}


def test_figures_that_no_broker_has_reported_are_unknown_and_not_zero(
    call: Call, link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = link.cluster.collector._brokers
    monkeypatch.setattr(type(brokers), "with_links", lambda self: set())
    monkeypatch.setattr(link.cluster.collector.links, "at", {})
    ap, eu = call("GET", f"{API}/geo").json["links"]
    for row in (ap, eu):
        assert row["known"] == "no"
        assert row["topics"] is row["backlog"] is row["msg_rate"] is row["oldest_at"] is None
        assert len(row["silent"]) == 1


def test_records_and_history_that_cannot_be_read_are_shown_as_unknown(
    call: Call, link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unread(engine: Engine) -> None:
        raise NotReady("the store is away")

    async def no_history(self: History, names: list[str], minutes: int) -> None:
        raise NotReady("the file is away")

    monkeypatch.setattr(selectors, "_records", unread)
    monkeypatch.setattr(History, "recent", no_history)
    report(link, *THREE)
    body = call("GET", f"{API}/geo").json
    assert body["records"] is None
    [eu] = body["links"]
    assert (eu["remote"], eu["trend"]) == ("eu", None)


def test_a_links_topics_are_those_behind_in_the_order_of_their_delay(
    call: Call, link: BenchLink
) -> None:
    report(link, *THREE)
    body = call("GET", f"{API}/geo/links/eu").json
    assert [row["topic"] for row in body["rows"]] == ["b", "a"]
    assert (body["total"], body["link"]["backlog"]) == (2, 14)
    assert body["causes"] == [{"cause": "unreachable", "topics": 1}]
    first = body["rows"][1]
    assert (first["tenant"], first["namespace"], first["domain"]) == (
        *("public", "default"),
        "persistent",
    )
    assert (first["cause"], first["why"], first["since"]) == (
        *("unreachable", "why unreachable"),
        1_000,
    )


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("all=1", ["b", "a", "c"]),
        ("all=1&sort=topic", ["a", "b", "c"]),
        ("sort=-backlog", ["b", "a"]),
        ("sort=delay", ["a", "b"]),
        ("cause=unreachable", ["a"]),
        ("q=DEFAULT/b", ["b"]),
        ("limit=1", ["b"]),
        ("offset=1", ["a"]),
    ],
)
def test_a_links_topics_are_filtered_sorted_and_windowed(
    call: Call, link: BenchLink, query: str, shown: list[str]
) -> None:
    report(link, *THREE)
    body = call("GET", f"{API}/geo/links/eu?{query}").json
    assert [row["topic"] for row in body["rows"]] == shown


def test_an_unknown_delay_is_above_all(call: Call, link: BenchLink) -> None:
    report(link, *THREE, ["c", ["eu", sent(1, None), None]])
    rows = call("GET", f"{API}/geo/links/eu").json["rows"]
    assert [row["topic"] for row in rows] == ["c", "b", "a"]


def test_wrong_requests_are_refused_by_name(call: Call) -> None:
    refused = call("GET", f"{API}/geo/links/eu?sort=size")
    assert (refused.status, refused.json["field"]) == (400, "sort")
    missing = call("GET", f"{API}/geo/links/mars")
    assert missing.status == 404
    assert missing.json["reason"] == "standalone knows ap, eu, not mars"


def test_a_viewer_of_some_tenants_gets_their_topics_alone(call: Call, link: BenchLink) -> None:
    report(link, *THREE)
    cluster, params = link.cluster, {"remote": "eu"}
    sees = Viewer(namespaces=frozenset({"public/default"}))
    other = Viewer(namespaces=frozenset({"public/other"}))

    async def asked(viewer: Viewer) -> dict[str, Any]:
        return await selectors.link(viewer, cluster, dict(params))

    own = link.run(lambda _: asked(sees))
    assert (len(own["rows"]), own["link"]) == (2, None)
    assert link.run(lambda _: asked(other))["rows"] == []
    with pytest.raises(Forbidden, match="links between clusters"):
        link.run(lambda _: selectors.geo(sees, cluster, {}))


def test_the_links_of_all_clusters_are_shown_as_far_as_each_is_seen(
    call: Call, link: BenchLink
) -> None:
    report(link, *THREE)
    [shown] = call("GET", "/api/v1/geo").json["clusters"]
    assert (shown["cluster"], shown["why"]) == ("standalone", "")
    assert [row["remote"] for row in shown["ends"]["links"]] == ["ap", "eu"]
    some = Viewer(namespaces=frozenset({"public/default"}))
    hidden = link.run(lambda _: selectors.ends(some, link.cluster))
    assert hidden["ends"] is None
    assert "links between clusters" in hidden["why"]
