"""Brokers, bundles and bookies by the console's API: their known figures, and bundles changed as previewed."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.cluster import selectors, services, shapes
from admin_ui.models import AuditEntry
from engine.admin.api.arguments import OnBundle, OnTopic
from engine.admin.api.bundles import UNLOAD_BUNDLE
from engine.admin.api.messages import LAST_MESSAGE_ID
from engine.base.errors import Conflict, NotReady
from engine.base.names import BundleName, NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.records import encode_json
from engine.ownership import division
from engine.ownership.load.planned import MoveSkip
from engine.tenancy.namespaces import get_bundles
from engine.tenancy.resources.racks import set_rack
from gateway.services.admin import topics
from gateway.services.bundles import owner_now
from gateway.services.engine_link import Engine
from tests.support.admin.clusters import cluster_without_link
from tests.support.admin.gateway_client import Answer, Gateway
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

API = "/api/v1/clusters/standalone"
DEFAULT = NamespaceName.of("public", "default")
PLAIN = DEFAULT.topic("plain")
PATIENCE_S = 30
Call = Callable[..., Answer]


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(filled) as made:
        yield made


async def filled(engine: Engine) -> None:
    for count in range(12):
        await topics.create(engine, DEFAULT.topic(f"t{count}"), {})
    await topics.create(engine, PLAIN, {})


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


def settled(call: Call, path: str, enough: Callable[[Any], bool]) -> Any:
    """Return the answer once the collector has received enough for it."""
    until = time.monotonic() + PATIENCE_S
    while True:
        answer = call("GET", f"{API}/{path}")
        if answer.status == 200 and enough(answer.json):
            return answer.json
        assert time.monotonic() < until, answer.json
        time.sleep(0.05)


def bundles_of(call: Call, more: str = "") -> list[Any]:
    answer = settled(
        call,
        f"bundles?q=public/default{more}",
        lambda body: body["rows"] and all(row["topics"] is not None for row in body["rows"]),
    )
    return list(answer["rows"])


def bundle_of(link: BenchLink, topic: TopicName) -> BundleName:
    return link.run(lambda engine: get_bundles(engine.store, DEFAULT)).of_topic(topic)


def path_of(bundle: BundleName, change: str) -> str:
    return f"{API}/bundles/{bundle.namespace}/{bundle.range}/{change}"


def owner(link: BenchLink, bundle: BundleName) -> str:
    return link.run(lambda engine: owner_now(engine.store, bundle))


def preview(call: Call, bundle: BundleName, change: str, **more: Any) -> Any:
    answer = call("POST", path_of(bundle, change), {"preview": True, **more})
    assert answer.status == 200, answer.json
    return answer.json


def test_each_bundle_has_its_owner_and_the_sum_of_its_topics(call: Call, link: BenchLink) -> None:
    link.run(lambda engine: link.bench.loaded(PLAIN))
    rows = bundles_of(call)
    assert len(rows) == 4
    assert sum(row["topics"] for row in rows) == 13
    (row,) = [row for row in rows if row["bundle"] == bundle_of(link, PLAIN).range]
    broker = link.bench.broker.record.id
    assert (row["owner"], row["state"], row["known"]) == (broker, "up", "live")
    others = [row for row in bundles_of(call, f"&broker={broker}") if row["owner"] != broker]
    assert others == []
    brokers = settled(call, "brokers", lambda body: body["rows"][0]["known"] == "live")
    (line,) = brokers["rows"]
    assert (line["id"], line["state"]) == (broker, "up")
    assert line["started"] == link.bench.broker.record.started_ms
    owned = link.bench.broker.running.ownership.owned()
    assert line["bundles"] == len(owned)
    assert brokers["unowned"] > 0


def test_bundles_are_sorted_filtered_and_windowed(call: Call, link: BenchLink) -> None:
    by_topics = [row["topics"] for row in bundles_of(call, "&sort=-topics")]
    assert by_topics == sorted(by_topics, reverse=True)
    names = [row["bundle"] for row in bundles_of(call)]
    assert names == sorted(names)
    window = call("GET", f"{API}/bundles?q=DEFAULT&offset=1&limit=2").json
    assert (window["total"], [row["bundle"] for row in window["rows"]]) == (4, names[1:3])
    assert call("GET", f"{API}/bundles?q=no-such").json["total"] == 0
    assert call("GET", f"{API}/bundles?sort=colour").json["field"] == "sort"


def test_unknown_values_are_last_in_every_order() -> None:
    rows: list[Any] = [
        {"tenant": "t", "namespace": "n", "bundle": name, "topics": count}
        for name, count in (("a", None), ("b", 1), ("c", 3))
    ]
    for sort in ("topics", "-topics"):
        assert selectors._ordered(list(rows), sort)[-1]["bundle"] == "a"


def test_a_broker_that_does_not_answer_is_shown_with_its_last_figures(
    call: Call, link: BenchLink
) -> None:
    link.run(lambda engine: link.bench.loaded(PLAIN))
    bundles_of(call)
    settled(call, "brokers", lambda body: body["rows"][0]["known"] == "live")
    link.silence()
    body = settled(call, "brokers", lambda body: body["rows"][0]["state"] == "down")
    assert (body["rows"][0]["known"], body["rows"][0]["topics"] >= 1) == ("last", True)
    wanted = bundle_of(link, PLAIN).range
    rows = settled(
        call,
        "bundles?q=public/default",
        lambda body: all(row["known"] == "last" for row in body["rows"] if row["owner"]),
    )["rows"]
    (row,) = [row for row in rows if row["bundle"] == wanted]
    assert (row["state"], row["topics"] > 0) == ("down", True)


def test_bookies_are_listed_with_their_racks(call: Call, link: BenchLink) -> None:
    rows = settled(call, "bookies", lambda body: body["rows"])["rows"]
    assert [row["rack"] for row in rows] == [""]
    bookie = rows[0]["id"]
    rack = {"rack": "/r1", "hostname": "h"}
    link.run(lambda engine: set_rack(engine.store, bookie, "default", rack))
    (row,) = settled(call, "bookies", lambda body: body["rows"][0]["rack"])["rows"]
    assert (row["rack"], row["group"]) == ("/r1", "default")
    assert (row["known"], row["free_bytes"], row["ledgers"]) == ("no", None, None)


def test_bookies_are_listed_with_what_placement_needs_of_them(call: Call, link: BenchLink) -> None:
    answer = settled(call, "bookies", lambda body: body["placement"])
    assert answer["placement"] == {
        "regions_min": 0,
        "regions": [],
        "ensemble": 1,
        "ack_quorum": 1,
    }
    needs = link.cluster.collector.attention.needs
    (report,) = needs._reports.values()
    needs.report("b:9", {**report, "regions": [2, "eu; us"]})
    placement = call("GET", f"{API}/bookies").json["placement"]
    assert (placement["regions_min"], placement["regions"]) == (2, ["eu", "us"])
    for broker in list(needs._reports):
        needs.report(broker, {key: report[key] for key in ("session_ms", "default", "topics")})
    assert call("GET", f"{API}/bookies").json["placement"] is None


def test_a_bundle_is_given_up_as_previewed(call: Call, link: BenchLink) -> None:
    link.run(lambda engine: link.bench.loaded(PLAIN))
    bundles_of(call)
    bundle, broker = bundle_of(link, PLAIN), link.bench.broker.record.id
    before = AuditEntry.objects.count()
    previewed = preview(call, bundle, "unload")
    assert AuditEntry.objects.count() == before, "a preview changes nothing"
    assert (previewed["row"]["owner"], previewed["brokers"], previewed["parts"]) == (broker, 1, [])
    done = call("POST", path_of(bundle, "unload"), {"token": previewed["token"]})
    assert (done.status, done.json["before"], done.json["owner"]) == (200, broker, "")
    assert owner(link, bundle) == ""
    entry = AuditEntry.objects.latest("pk")
    assert (entry.target.endswith("/unload"), entry.status) == (True, 200)
    again = call("POST", path_of(bundle, "unload"), {"token": previewed["token"]})
    assert (again.status, "has no owner now" in again.json["reason"]) == (409, True)
    assert preview(call, bundle, "unload")["token"] is None, "there is nothing to give up"


def test_a_split_is_the_one_that_was_shown(call: Call, link: BenchLink) -> None:
    bundle = bundle_of(link, PLAIN)
    given_up = OnBundle(DEFAULT, bundle.range)
    link.run(lambda engine: engine.call(UNLOAD_BUNDLE, given_up))
    bundles_of(call)
    preview(call, bundle, "split")
    assert owner(link, bundle) == "", "a preview acquires nothing"
    previewed = preview(call, bundle, "split", algorithm="topics")
    parts = [part["bundle"] for part in previewed["parts"]]
    assert len(parts) == 2
    done = call("POST", path_of(bundle, "split"), {"token": previewed["token"]})
    assert (done.status, done.json["parts"], done.json["owner"]) == (200, parts, None)
    ranges = link.run(lambda engine: get_bundles(engine.store, DEFAULT)).ranges
    assert set(parts) <= set(ranges)
    assert bundle.range not in ranges
    assert {row["bundle"] for row in bundles_of(call)} == set(ranges)
    again = call("POST", path_of(bundle, "split"), {"token": previewed["token"]})
    assert (again.status, "split since the preview" in again.json["reason"]) == (409, True)
    assert call("POST", path_of(bundle, "split"), {"preview": True}).status == 412
    too_little = preview(call, BundleName.parse(DEFAULT, parts[0]), "split", algorithm="flow")
    assert (too_little["token"], too_little["parts"]) == (None, [])


def register(link: BenchLink, broker: str) -> None:
    """Register a broker of this id that answers no call."""
    record = {"webServiceUrl": f"http://{broker}", "pulsarServiceUrl": f"pulsar://{broker}"}
    record |= {"adminRpcUrl": f"http://{broker}"}
    link.run(lambda engine: engine.store.create(paths.broker(broker), encode_json(record)))


def isolate(link: BenchLink, namespace: str, brokers: str) -> None:
    """Let a policy keep a namespace on brokers whose ids match ``brokers``."""
    policy = {
        "namespaces": [namespace],
        "primary": [brokers],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    path = "/admin/v2/clusters/standalone/namespaceIsolationPolicies/kept"
    answer = Gateway(link.cluster)("POST", path, policy)
    assert answer.status == 204, answer.json


def test_a_transfer_names_why_a_broker_cannot_receive_the_bundle(
    call: Call, link: BenchLink
) -> None:
    link.run(lambda engine: link.bench.loaded(PLAIN))
    bundle, broker = bundle_of(link, PLAIN), link.bench.broker.record.id
    absent = preview(call, bundle, "transfer", destination="x:1")
    assert (absent["token"], absent["state"], absent["allowed"]) == (None, "", False)
    assert absent["problem"] == "x:1 is not registered: it cannot receive bundles"
    own = preview(call, bundle, "transfer", destination=broker)
    assert (own["token"], own["problem"]) == (None, f"{broker} owns the bundle already")
    register(link, "127.0.0.1:1")
    isolate(link, "public/default", broker)
    kept = preview(call, bundle, "transfer", destination="127.0.0.1:1")
    assert (kept["token"], kept["allowed"]) == (None, False)
    assert kept["problem"] == "Isolation policies forbid public/default on 127.0.0.1:1"
    missing = call("POST", path_of(bundle, "transfer"), {"preview": True})
    assert (missing.status, missing.json["field"]) == (400, "destination")


def test_a_transfer_that_only_unloads_is_no_move(call: Call, link: BenchLink) -> None:
    link.run(lambda engine: link.bench.loaded(PLAIN))
    bundle, broker = bundle_of(link, PLAIN), link.bench.broker.record.id
    register(link, "127.0.0.1:1")
    previewed = preview(call, bundle, "transfer", destination="127.0.0.1:1")
    assert (previewed["allowed"], previewed["problem"]) == (True, "")
    assert previewed["row"]["owner"] == broker
    token = previewed["token"]
    assert call("POST", path_of(bundle, "unload"), {"token": token}).json["field"] == "token"
    done = call("POST", path_of(bundle, "transfer"), {"token": token})
    assert (done.status, done.json["moved"], done.json["owner"]) == (200, False, "")
    assert done.json["reason"].startswith("127.0.0.1:1 cannot prepare")
    assert (done.json["before"], done.json["destination"]) == (broker, "127.0.0.1:1")
    entry = AuditEntry.objects.latest("pk")
    assert (entry.target.endswith("/transfer"), entry.status) == (True, 200)
    again = call("POST", path_of(bundle, "transfer"), {"token": token})
    assert (again.status, "has no owner now" in again.json["reason"]) == (409, True)


def test_invalid_paths_and_bodies_are_refused(call: Call, link: BenchLink) -> None:
    bundle = bundle_of(link, PLAIN)
    assert call("POST", f"{API}/bundles/public/default/x/unload", {"preview": True}).json[
        "field"
    ] == ("bundle")
    assert call("POST", path_of(bundle, "unload"), {}).json["field"] == "token"
    asked = {"preview": True, "algorithm": "colour"}
    assert call("POST", path_of(bundle, "split"), asked).json["field"] == "algorithm"
    missing = BundleName(NamespaceName.of("public", "none"), bundle.lower, bundle.upper)
    assert call("POST", path_of(missing, "unload"), {"preview": True}).status == 404
    link.run(lambda engine: link.bench.loaded(PLAIN))
    token = preview(call, bundle, "unload")["token"]
    assert call("POST", path_of(bundle, "split"), {"token": token}).json["field"] == "token"


def test_an_unload_whose_broker_does_not_answer_is_no_success(call: Call, link: BenchLink) -> None:
    link.run(lambda engine: link.bench.loaded(PLAIN))
    bundle = bundle_of(link, PLAIN)
    previewed = preview(call, bundle, "unload")
    link.silence()
    answer = call("POST", path_of(bundle, "unload"), {"token": previewed["token"]})
    assert (answer.status, "at" in answer.json) == (503, False)


async def test_the_owner_is_unknown_while_the_store_is_unavailable() -> None:
    class Away:
        async def get(self, *given: Any) -> Any:
            raise NotReady("away")

    bundle = BundleName(DEFAULT, 0, 1)
    assert await services._owner_after(cluster_without_link(), Engine(Away(), None), bundle) is None  # type: ignore[arg-type]


def test_the_names_of_algorithms_are_those_of_brokers() -> None:
    assert {*shapes.ALGORITHMS.values(), shapes.WHERE_ASKED} == set(division.ALGORITHMS)


def test_an_owner_that_changed_since_the_preview_is_named(link: BenchLink) -> None:
    bundle = bundle_of(link, PLAIN)

    async def other(engine: Engine) -> None:
        link.cluster.collector.start()
        await services._check_as_seen(link.cluster, engine, bundle, "pulsar://other:1")

    link.run(lambda engine: engine.call(LAST_MESSAGE_ID, OnTopic(PLAIN)))
    with pytest.raises(Conflict, match=r"is owned by .* now, other than"):
        link.run(other)


def test_the_balance_of_load_is_the_last_plan_of_the_leader_with_its_reasons(
    call: Call, link: BenchLink
) -> None:
    answer = call("GET", f"{API}/load-balance")
    assert (answer.status, answer.json["at"]) == (200, None)
    assert answer.json["reason"] == "the leader has not checked the balance yet"
    leader = answer.json["leader"]
    move = {"bundle": "t/n/0x00000000_0x80000000", "source": "a:1", "destination": "b:1"}
    move |= {"reason": "busy", "result": "moved"}
    record = encode_json({"moves": [{**move, "atMs": 7}]})

    async def plan(engine: Engine) -> None:
        await engine.store.create(paths.LOADBALANCE_MOVES, record, make_parents=True)
        await link.bench.broker.running.load_leader.check()

    link.run(plan)
    balance = call("GET", f"{API}/load-balance").json
    assert (balance["leader"], balance["reason"]) == (leader, "")
    (load,) = balance["loads"]
    assert (load["broker"], load["load"] is None) == (leader, load["why"] != "")
    assert (balance["spread"], balance["spread_max"], balance["silent"]) == (None, 0.25, [])
    assert {"subject": "cluster", "reason": "there is one broker only", "kind": "alone"} in balance[
        "not_moved"
    ]
    shown = {"from_broker": move.pop("source"), "to_broker": move.pop("destination"), "at": 7}
    assert balance["moves"] == [{"kind": "balance", **move, **shown}]
    assert balance["drains"] == []


def test_a_leader_that_is_a_broker_of_apache_pulsar_is_named(call: Call, link: BenchLink) -> None:
    async def replaced(engine: Engine) -> None:
        store = engine.store
        _, stat = await store.get(paths.LOADBALANCE_LEADER)
        await store.put(
            paths.LOADBALANCE_LEADER, b'{"brokerId":"x:1","serviceUrl":"http://x:1"}', stat.version
        )
        report = b'{"webServiceUrl":"http://x:1","pulsarServiceUrl":"pulsar://x:2"}'
        await store.create(paths.broker("x:1"), report)

    link.run(replaced)
    balance = call("GET", f"{API}/load-balance").json
    assert balance["leader"] == "x:1"
    assert "broker of Apache Pulsar" in balance["reason"]
    others = {row["broker"] for row in balance["loads"]}
    assert others == {"x:1", link.bench.broker.record.id}, "other brokers report the loads"
    assert balance["silent"] == ["x:1"]


def test_without_a_leader_that_answers_the_reports_are_shown(call: Call, link: BenchLink) -> None:
    async def absent_leader(engine: Engine) -> None:
        _, stat = await engine.store.get(paths.LOADBALANCE_LEADER)
        await engine.store.put(paths.LOADBALANCE_LEADER, b'{"brokerId":"x:1"}', stat.version)

    link.run(absent_leader)
    balance = call("GET", f"{API}/load-balance").json
    assert (balance["leader"], balance["reason"]) == ("x:1", "the leader is not registered")
    assert [row["broker"] for row in balance["loads"]] == [link.bench.broker.record.id]
    running = link.bench.broker.running
    skip = MoveSkip("t/n/0x00000000_0x80000000", "give the topic partitions", "one topic")
    running.splitter.skips = (skip,)
    assert call("GET", f"{API}/load-balance").json["not_split"] == [skip._asdict()]
    link.silence()
    silent = call("GET", f"{API}/load-balance")
    assert silent.status == 503, silent.json
