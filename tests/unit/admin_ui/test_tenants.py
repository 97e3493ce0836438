"""Tenants, namespaces and policies as the console shows and changes them, on a real broker in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from admin_ui.policies import selectors
from admin_ui.topics import held_space
from engine.base.clock import SystemClock
from engine.base.errors import NotReady
from engine.base.names import NamespaceName
from engine.metadata.store import StoreUnavailableError
from engine.tenancy.namespaces import get_policies, update_policies
from engine.tenancy.policies.table import POLICIES
from gateway.services.admin import partitioned_topics, topics
from gateway.services.collection.collector import Collector
from gateway.services.engine_link import Engine, EngineLink
from tests.support.admin.bench import AdminBench
from tests.support.admin.clusters import cluster_of
from tests.support.admin.gateway_client import Answer, Gateway
from tests.support.waiting import until_blocking

API = "/api/v1/clusters/standalone/tenants"
DEFAULT = f"{API}/public/namespaces/default"
NAMESPACE = NamespaceName.of("public", "default")
ACME = {"name": "acme", "admin_roles": ["ops"], "allowed_clusters": ["standalone"]}
Call = Callable[..., Answer]


class BenchLink(EngineLink):
    """A link to a broker over one bookie, all on the link's own loop."""

    bench: AdminBench

    def __init__(self, workers: Any = None, **settings: str) -> None:
        async def connect() -> Engine:
            # Pages and Django have the machine's clock.
            self.bench = AdminBench(SystemClock(), **settings)
            await self.bench.start()
            return self.bench.engine._replace(workers=workers)

        super().__init__(connect)
        self.cluster = cluster_of(self)

    async def _close(self) -> None:
        await self._tasks.close()
        await self.bench.close()

    def opened(self) -> bool:
        """Return whether broker and bookie are started; on a busy machine that takes longer than a page's timeout."""
        try:
            self.run(_nothing)
        except StoreUnavailableError:
            return False
        return True

    def silence(self) -> None:
        """Make every broker unreachable; the metadata store still answers."""
        self.bench.admin._reachable = lambda: []


async def _nothing(_: Engine) -> None: ...


@contextmanager
def bench_link(
    *filling: Callable[[Engine], Awaitable[object]], workers: Any = None, **settings: str
) -> Iterator[BenchLink]:
    """Open a link to a broker with ``settings``, run ``filling`` on it, yield it and close it."""
    made = BenchLink(workers, **settings)
    until_blocking(made.opened)
    for fill in filling:
        made.run(fill)
    yield made
    made.close()


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(topics_of_default) as made:
        yield made


async def topics_of_default(engine: Engine) -> None:
    await partitioned_topics.create(engine, NAMESPACE.topic("pt"), 3, {})
    await topics.create(engine, NAMESPACE.topic("plain"), {})


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


def row(body: dict[str, Any], name: str) -> dict[str, Any]:
    policy: dict[str, Any] = next(row for row in body["policies"] if row["name"] == name)
    return policy


def set_policy(call: Call, name: str, value: Any) -> Answer:
    """Preview the policy, and save it unless the preview is refused."""
    previewed = call("POST", f"{DEFAULT}/policies/{name}", {"preview": True, "value": value})
    if previewed.status != 200:
        return previewed
    return call("POST", f"{DEFAULT}/policies/{name}", {"token": previewed.json["token"]})


def test_tenants_are_listed_without_numbers_while_none_are_known(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_known(_: Collector) -> None:
        raise NotReady("No numbers yet")

    monkeypatch.setattr(Collector, "snapshot", nothing_known)
    listed = call("GET", f"{API}?q=public").json
    assert [(row["name"], row["numbers"]) for row in listed["rows"]] == [("public", None)]


def test_tenants_are_listed_with_the_sums_of_their_topics(call: Call) -> None:
    (row,) = call("GET", f"{API}?q=public").json["rows"]
    assert row["numbers"].keys() == {
        *("topics", "unknown", "msg_rate_in", "msg_rate_out", "storage_bytes", "backlog"),
        "oldest_at",
        *("backlog_messages", "backlog_estimated", "backlog_unmeasured"),
    }


def test_a_tenant_lives_from_creation_to_deletion(call: Call) -> None:
    made = call("POST", API, ACME)
    assert (made.status, made.json) == (201, {**ACME, "namespaces": 0})
    assert call("POST", API, ACME).status == 409
    changed = call("PUT", f"{API}/acme", {"admin_roles": [], "allowed_clusters": ["standalone"]})
    assert changed.json["admin_roles"] == []
    made = call("POST", f"{API}/acme/namespaces", {"name": "orders", "bundles": 8})
    assert (made.status, made.json["bundles"], made.json["topics"]) == (201, 8, 0)
    listed = call("GET", f"{API}?q=ACM").json
    assert [(row["name"], row["namespaces"]) for row in listed["rows"]] == [("acme", 1)]
    assert listed["total"] == 1
    assert call("DELETE", f"{API}/acme").status == 409
    assert call("DELETE", f"{API}/acme/namespaces/orders").status == 204
    assert call("DELETE", f"{API}/acme").status == 204
    assert call("GET", f"{API}?q=acme").json["total"] == 0
    assert call("GET", f"{API}/acme/namespaces").status == 404


def test_every_verb_is_in_the_audit_log(call: Call) -> None:
    call("POST", API, ACME)
    set_policy(call, "messageTTL", 5)
    call("DELETE", f"{API}/acme")
    assert [
        (entry.method, entry.target, entry.status) for entry in AuditEntry.objects.order_by("id")
    ] == [
        ("POST", API, 201),
        ("POST", f"{DEFAULT}/policies/messageTTL", 200),
        ("DELETE", f"{API}/acme", 204),
    ]


def test_lists_are_ordered_by_name_or_by_a_sum_over_topics(call: Call) -> None:
    assert call("POST", API, ACME).status == 201
    lists = ((API, ["acme", "public"]), (f"{API}/public/namespaces", ["default"]))
    for path, present in lists:
        for sort in ("-topics", "-backlog", "oldest_age", "-msg_rate_out", "storage_bytes"):
            rows = call("GET", f"{path}?sort={sort}").json["rows"]
            assert {row["name"] for row in rows} >= set(present)
        names = [row["name"] for row in call("GET", f"{path}?sort=-name").json["rows"]]
        assert names == sorted(names, reverse=True)
        answer = call("GET", f"{path}?sort=size")
        assert (answer.status, answer.json["field"]) == (400, "sort")


def test_namespaces_are_listed_with_their_numbers_of_topics_and_policies(call: Call) -> None:
    set_policy(call, "messageTTL", 60)
    body = call("GET", f"{API}/public/namespaces").json
    assert body["tenant"]["name"] == "public"
    (row,) = body["rows"]
    numbers = row.pop("numbers")
    assert row == {
        "name": "default",
        "topics": 2,
        "policies": 1,
        "deleting": False,
        "quotas": [],
    }
    assert numbers is None or numbers["oldest_at"] in (0, None)
    set_policy(call, "maxTopicsPerNamespace", 10)
    (row,) = call("GET", f"{API}/public/namespaces").json["rows"]
    (quota,) = row["quotas"]
    assert (quota["name"], quota["limit"], quota["at_most"]) == ("topics", 10, False)
    assert quota["used"] == 4, "a plain topic and three partitions"
    shown = call("GET", DEFAULT).json
    assert shown["topics"] == 2
    assert shown["first_topics"] == [
        "persistent://public/default/plain",
        "persistent://public/default/pt",
    ]
    assert call("DELETE", DEFAULT).status == 409, "its topics prevent that"


def test_held_space_of_a_namespace_is_read_of_its_largest_topics(
    call: Call, link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def space() -> Any:
        return call("GET", f"{DEFAULT}/held-space").json

    until_blocking(lambda: space().get("topics") == 2)
    answer = space()
    assert (answer["read"], answer["unread"]) == (2, [])
    assert {row["topic"] for row in answer["by_topic"]} == {
        "persistent://public/default/plain",
        "persistent://public/default/pt",
    }
    monkeypatch.setattr(held_space, "TOPICS_MAX", 1)
    assert (space()["read"], space()["topics"]) == (1, 2)
    link.silence()
    (unread,) = space()["unread"]
    assert unread["reason"]
    assert space()["held"] == []


def test_a_deletion_that_did_not_end_is_shown_and_can_be_ended(call: Call, link: BenchLink) -> None:
    call("POST", f"{API}/public/namespaces", {"name": "going", "bundles": 1})

    def mark(policies: dict[str, Any]) -> None:
        policies["deleted"] = True

    name = NamespaceName.of("public", "going")
    link.run(lambda engine: update_policies(engine.store, name, mark))
    rows = call("GET", f"{API}/public/namespaces").json["rows"]
    assert {row["name"]: row["deleting"] for row in rows} == {"default": False, "going": True}
    assert call("GET", f"{API}/public/namespaces/going").status == 404
    assert call("DELETE", f"{API}/public/namespaces/going").status == 204


def test_each_policy_has_its_value_its_level_and_the_inherited_value(
    call: Call,
) -> None:
    before = call("GET", DEFAULT).json
    assert [policy_row["name"] for policy_row in before["policies"]] == [
        policy.name
        for policy in POLICIES
        if policy.key and (policy.shown or policy.name == "replication")
    ]
    assert before["unknown"] == ""
    ttl = row(before, "messageTTL")
    assert (ttl["value"], ttl["level"], ttl["own"], ttl["inherited"]) == (0, "broker", None, 0)
    assert ttl["parts"] == [
        {
            "name": "",
            "type": "integer",
            "minimum": "0",
            "maximum": "2147483647",
            "unit": "seconds",
            "optional": False,
        }
    ]
    after = set_policy(call, "messageTTL", 60).json["row"]
    assert after == {**ttl, "value": 60, "level": "namespace", "own": 60}
    assert row(call("GET", DEFAULT).json, "messageTTL") == after
    removed = set_policy(call, "messageTTL", None)
    assert (removed.status, removed.json["row"]) == (200, ttl)


def test_a_change_of_a_state_other_than_previewed_is_refused(call: Call) -> None:
    path = f"{DEFAULT}/policies/messageTTL"
    seen = call("POST", path, {"preview": True, "value": 70}).json
    assert set_policy(call, "messageTTL", 60).status == 200
    refused = call("POST", path, {"token": seen["token"]})
    assert (refused.status, "changed meanwhile" in refused.json["reason"]) == (409, True)
    assert row(call("GET", DEFAULT).json, "messageTTL")["own"] == 60


def test_properties_are_changed_only_while_they_are_as_shown(call: Call) -> None:
    path = f"{DEFAULT}/properties"
    assert call("GET", DEFAULT).json["properties"] == {}
    done = call("PUT", path, {"value": {"team": "ops", "tier": ""}, "expected": {}})
    assert (done.status, done.json["properties"]) == (200, {"team": "ops", "tier": ""})
    refused = call("PUT", path, {"value": {}, "expected": {}})
    assert (refused.status, "changed meanwhile" in refused.json["reason"]) == (409, True)
    done = call("PUT", path, {"value": {"a": "b"}, "expected": {"team": "ops", "tier": ""}})
    assert (done.status, call("GET", DEFAULT).json["properties"]) == (200, {"a": "b"})
    assert (
        call("PUT", path, {"value": {"a": "b" * (64 << 10)}, "expected": {"a": "b"}}).status == 412
    )


def test_a_number_too_large_for_javascript_is_sent_and_accepted_as_text(
    call: Call, link: BenchLink
) -> None:
    name, most = "backlogQuota.destination_storage", str((1 << 63) - 1)
    size = next(part for part in row(call("GET", DEFAULT).json, name)["parts"])
    assert (size["name"], size["maximum"]) == ("limitSize", most)
    given = {"limitSize": most, "policy": "producer_exception"}
    own = set_policy(call, name, given).json["row"]["own"]
    assert own["limitSize"] == most
    stored = link.run(lambda engine: get_policies(engine.store, NAMESPACE))
    assert (
        stored["backlog_quota_map"]["destination_storage"]["limitSize"]
        == int(most)
        > selectors.EXACT_MAX
    )
    assert set_policy(call, name, {**given, "limitSize": 5}).status == 200


@pytest.mark.parametrize(
    ("name", "value", "status", "reason"),
    [
        ("messageTTL", "soon", 400, "messageTTL: expected a whole number, got a string"),
        ("retention", {"retentionSizeInMB": 5}, 400, "a zero limit needs the other"),
        ("nonsense", 1, 404, "Namespaces have no policy nonsense"),
    ],
)
def test_an_invalid_value_is_refused_with_the_reason(
    call: Call, name: str, value: Any, status: int, reason: str
) -> None:
    refused = set_policy(call, name, value)
    assert refused.status == status
    assert reason in refused.json["reason"]


def test_stored_policies_are_shown_while_a_broker_hangs(
    call: Call, link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*args: Any) -> Any:
        await asyncio.sleep(60.0)

    monkeypatch.setattr(selectors, "BROKER_TIMEOUT_S", 0.05)
    monkeypatch.setattr(link.bench.admin._rpc, "_post", hang)
    assert set_policy(call, "messageTTL", 60).json["row"]["own"] == 60
    body = call("GET", DEFAULT).json
    assert body["unknown"].startswith("No answer in time")
    assert row(body, "messageTTL")["value"] == 60


def test_without_a_broker_the_broker_defaults_are_unknown_and_not_zero(
    call: Call, link: BenchLink
) -> None:
    set_policy(call, "messageTTL", 60)
    link.silence()
    body = call("GET", DEFAULT).json
    assert body["unknown"]
    assert body["topics"] == 2
    quota = row(body, "maxTopicsPerNamespace")
    assert (quota["value"], quota["level"], quota["inherited"]) == (None, None, None)
    ttl = row(body, "messageTTL")
    assert (ttl["own"], ttl["inherited"]) == (60, None)


def test_without_the_store_all_pages_answer_503(call: Call, link: BenchLink) -> None:
    link.bench.store.fail_at(1, calls=1_000)
    for target in (API, f"{API}/public/namespaces", DEFAULT):
        assert call("GET", target).status == 503


def test_other_clusters_and_missing_names_are_404(call: Call) -> None:
    assert call("GET", "/api/v1/clusters/elsewhere/tenants").status == 404
    assert call("GET", f"{API}/nope/namespaces").status == 404
    assert call("GET", f"{API}/public/namespaces/nope").status == 404
    path = f"{API}/public/namespaces/nope/policies/{POLICIES[0].name}"
    assert call("POST", path, {"preview": True, "value": 1}).status == 404
    assert call("PUT", f"{API}/public/namespaces/nope/properties", {
        "value": {}, "expected": {}
    }).status == 404  # fmt: skip


def test_limits_that_are_set_while_brokers_run_hold_at_once(call: Call, link: BenchLink) -> None:
    limits = "/admin/v2/brokers/configuration"
    info = {"allowedClusters": ["standalone"]}
    assert call("POST", f"{limits}/maxTenants/3").status == 200
    assert call("POST", f"{limits}/maxNamespacesPerTenant/1").status == 200
    assert call("PUT", "/admin/v2/tenants/third", info).status == 204
    refused = call("PUT", "/admin/v2/tenants/fourth", info)
    assert (refused.status, refused.json["reason"]) == (
        412,
        "Exceed the maximum number of tenants",
    )
    assert call("PUT", "/admin/v2/namespaces/third/one").status == 204
    refused = call("PUT", "/admin/v2/namespaces/third/two")
    assert (refused.status, refused.json["reason"]) == (
        412,
        "Exceed the maximum number of namespace in tenant :third",
    )
    assert call("POST", API, ACME).status == 412
    more = {"name": "more", "bundles": 4}
    assert call("POST", f"{API}/third/namespaces", more).status == 412
    assert call("DELETE", f"{limits}/maxTenants").status == 200
    assert call("PUT", "/admin/v2/tenants/fourth", info).status == 204
