"""Search of the audit log by who, what, where and when; its entries, its file, and marks for charts."""

import csv
import io
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings

from admin_ui.audit import entry_search as searching
from admin_ui.audit.entry_search import INDEXED, ORDER, search
from admin_ui.csv_text import csv_line
from admin_ui.models import AuditEntry
from gateway.clusters.cluster import Cluster
from tests.support.access.callers import SUPERUSER, bearer, by_token
from tests.support.admin.gateway_client import Gateway, call, cluster, engine, gateway
from tests.unit.admin_ui.access.test_rights_pages import filled

__all__ = ["call", "cluster", "engine", "gateway"]
TOPIC = "persistent://t1/n/p"
CONSOLE = "/api/v1/clusters/standalone"
CALLS = (
    ("ann", "PUT", "/admin/v2/persistent/t1/n/p-partition-1/unload", None),
    ("ann", "POST", f"{CONSOLE}/topics/persistent/t1/n/p/unload", {"token": "x"}),
    ("app", "DELETE", "/admin/v2/persistent/t1/n/p", None),
    ("ann", "POST", "/admin/v2/namespaces/t1/n/retention", {"retentionTimeInMinutes": 1}),
    (SUPERUSER, "PUT", "/admin/v2/namespaces/t2/n/unload", None),
    (SUPERUSER, "POST", f"{CONSOLE}/tenants", {"name": "=t3", "admin_roles": []}),
    (
        "bob",
        "POST",
        f"{CONSOLE}/topics",
        {"domain": "persistent", "tenant": "t2", "namespace": "n", "topic": "q"},
    ),
)
"""Changes of different callers: most are refused for one reason or another."""


@pytest.fixture
def changed(call: Gateway, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """The gateway after the calls, with rights that are judged."""
    cluster.link.run(filled)
    monkeypatch.setattr(settings, "IDENTITY", by_token(authorization_enabled=True))
    for role, method, path, body in CALLS:
        call(method, path, body, headers=bearer(role))
    return call


def audit(call: Gateway, query: str = "", role: str = SUPERUSER) -> Any:
    answer = call("GET", f"/api/v1/audit?{query}", headers=bearer(role))
    assert answer.status == 200, answer.body
    return answer.json


def numbers(call: Gateway, query: str) -> list[int]:
    """Return the positions of the calls that are found, oldest first."""
    ids = list(AuditEntry.objects.order_by("id").values_list("id", flat=True))
    return sorted(ids.index(int(row["id"])) for row in audit(call, query)["rows"])


def test_entries_name_what_they_are_about(changed: Gateway) -> None:
    rows = audit(changed)["rows"][::-1]
    about = [(row["tenant"], row["namespace"], row["topic"]) for row in rows]
    assert about == [
        ("t1", "t1/n", TOPIC),
        ("t1", "t1/n", TOPIC),
        ("t1", "t1/n", TOPIC),
        ("t1", "t1/n", ""),
        ("t2", "t2/n", ""),
        ("", "", ""),
        ("t2", "t2/n", "persistent://t2/n/q"),
    ]
    assert {row["cluster"] for row in rows} == {"standalone"}
    assert [row["operation"] for row in rows[:2]] == [
        "PUT /admin/v2/persistent/{tenant}/{namespace}/{topic}/unload",
        "unloadTopic",
    ]
    assert [row["role"] for row in rows] == [role for role, *_ in CALLS]


FILTERS = {
    "actor=ann": [0, 1, 3],
    "role=bob": [6],
    "tenant=t1": [0, 1, 2, 3],
    "namespace=t2/n": [4, 6],
    f"topic={TOPIC}": [0, 1, 2],
    "topic=persistent://t2/n/p": [],
    "operation=unloadTopic": [1],
    "method=DELETE": [2],
    "q=UNLOAD": [0, 1, 4],
    "q=100%25": [],
    "q=unload&tenant=t1&actor=ann": [0, 1],
    "cluster=standalone&status=2xx": [4],
    "cluster=other": [],
    "status=403": [2],
    "status=unknown": [],
    "limit=2": [5, 6],
    "limit=2&offset=2": [3, 4],
    "from=0": [0, 1, 2, 3, 4, 5, 6],
    "to=1000": [],
}
"""Positions of the calls that pass, by the filter."""


def test_entries_are_found_by_who_what_where_and_when(changed: Gateway) -> None:
    assert {query: numbers(changed, query) for query in FILTERS} == FILTERS


def test_a_wrong_filter_is_refused_by_name(changed: Gateway) -> None:
    for query in ("method=PEEK", "status=9", "from=x", "offset=5001", "until_id=x"):
        answer = changed("GET", f"/api/v1/audit?{query}", headers=bearer(SUPERUSER))
        assert (answer.status, answer.json["field"]) == (400, query.partition("=")[0])


def test_the_time_limits_entries_exactly(changed: Gateway) -> None:
    times = list(AuditEntry.objects.order_by("id").values_list("at_ms", flat=True))
    for number, at in enumerate(range(100, 800, 100)):
        AuditEntry.objects.filter(at_ms=times[number]).update(at_ms=at)
    assert numbers(changed, "from=300&to=500") == [2, 3, 4]
    assert numbers(changed, "from=300&to=500&tenant=t1") == [2, 3]
    assert numbers(changed, "to=200&q=unload") == [0, 1]


@pytest.mark.parametrize("times", [(1_000, 1_000), (1_005, 1_000)])
def test_a_time_has_the_entries_that_gateways_wrote_out_of_order(
    changed: Gateway, times: tuple[int, int]
) -> None:
    ids = AuditEntry.objects.order_by("id").values_list("id", flat=True)[:2]
    for key, at in zip(ids, times, strict=True):
        AuditEntry.objects.filter(id=key).update(at_ms=at)
    assert numbers(changed, f"from=1000&to={times[0]}") == [0, 1]


def test_an_entry_has_an_address_of_its_own(changed: Gateway) -> None:
    row = audit(changed, "status=403")["rows"][0]
    answer = changed("GET", f"/api/v1/audit/{row['id']}", headers=bearer(SUPERUSER))
    assert answer.json == row
    gone = changed("GET", "/api/v1/audit/999999", headers=bearer(SUPERUSER))
    assert gone.status == 404
    assert changed("GET", f"/api/v1/audit/{row['id']}", headers=bearer("ann")).status == 403


def test_the_file_has_all_entries_and_no_formulas(
    changed: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "CHUNK", 2)
    AuditEntry.objects.filter(status=403).update(actor="=1+1")
    answer = changed("GET", "/api/v1/audit.csv", headers=bearer(SUPERUSER))
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    head, *rows = csv.reader(io.StringIO(answer.body.decode()))
    assert [row[0] for row in rows] == [row["id"] for row in audit(changed)["rows"]]
    assert head[:3] == ["id", "at", "actor"]
    assert {row[2] for row in rows} == {"ann", "bob", SUPERUSER, "'=1+1"}
    some = changed("GET", "/api/v1/audit.csv?tenant=t1", headers=bearer(SUPERUSER))
    assert len(some.body.splitlines()) == 1 + 4
    assert changed("GET", "/api/v1/audit.csv", headers=bearer("ann")).status == 403
    assert csv_line(["a,b", -1, None, "-1", True]) == '"a,b",-1,,\'-1,True\r\n'


def test_unindexed_terms_are_searched_in_the_newest_entries(
    changed: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SEARCHED_MAX", 3)
    first = audit(changed, "q=unload")
    assert numbers(changed, "q=unload") == [4]
    oldest = AuditEntry.objects.order_by("id")[3]
    assert first["searched_since"] == oldest.at_ms
    assert audit(changed, f"topic={TOPIC}")["total"] == 3, "an index finds entries of any age"
    assert audit(changed, f"topic={TOPIC}")["searched_since"] is None


def test_large_numbers_of_entries_are_not_counted_to_the_end(
    changed: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = audit(changed, "limit=2")
    assert (body["total"], body["exact"]) == (7, True)
    monkeypatch.setattr(searching, "COUNTED_MAX", 4)
    body = audit(changed, "limit=2")
    assert (body["total"], body["exact"]) == (4, False)


@pytest.mark.parametrize("sort", ORDER.parameter.enum)
@pytest.mark.parametrize("chosen", ["", "tenant=t1&", "q=unload&", "status=4xx&from=1&"])
def test_entries_that_are_added_do_not_move_the_rows_of_further_windows(
    changed: Gateway, sort: str, chosen: str
) -> None:
    query = f"{chosen}sort={sort}"
    whole, first = audit(changed, query), audit(changed, f"{query}&limit=2")
    for role, method, path, body in CALLS:
        changed(method, path, body, headers=bearer(role))
    assert audit(changed, query)["total"] == 2 * whole["total"]
    rows = first["rows"]
    for offset in range(2, whole["total"], 2):
        further = f"{query}&limit=2&offset={offset}&until_id={first['until_id']}"
        page = audit(changed, further)
        assert (page["total"], page["until_id"]) == (whole["total"], first["until_id"])
        rows = rows + page["rows"]
    assert rows == whole["rows"]


@pytest.mark.django_db
@pytest.mark.parametrize("sort", ORDER.parameter.enum)
def test_a_list_up_to_an_entry_is_read_in_its_order_without_a_sort(sort: str) -> None:
    AuditEntry.objects.create(at_ms=7, actor="a", address="b", method="PUT", target="/")
    entries = async_to_sync(search)({}, sort=sort, until_id=9).entries
    for query in ORDER.queries(entries, sort):
        plan = query[:100].explain()
        assert "TEMP B-TREE" not in plan, plan


@pytest.mark.django_db
def test_each_filter_is_answered_in_the_order_of_the_list_without_a_sort() -> None:
    """Compare the plans, which hold for any number of entries."""
    AuditEntry.objects.create(at_ms=7, actor="a", address="b", method="PUT", target="/")
    times = {"from": "5", "to": "9"}
    for key in INDEXED:
        for params in ({key: "x"}, {key: "x", **times}):
            plan = async_to_sync(search)(params).entries[:100].explain()
            assert f"INDEX audit_{key} ({key}=?" in plan, plan
            assert "TEMP B-TREE" not in plan, plan
    for params in ({}, times, {"q": "x"}, {"cluster": "x", **times}, {"status": "4xx"}):
        plan = async_to_sync(search)(params).entries[:100].explain()
        assert "TEMP B-TREE" not in plan, (params, plan)
        assert "INDEX" not in plan, (params, plan)


def marks(call: Gateway, role: str, query: str) -> Any:
    return call("GET", f"{CONSOLE}/marks?{query}", headers=bearer(role))


def test_changes_of_a_topic_are_marks_for_each_who_may_see_it(changed: Gateway) -> None:
    AuditEntry.objects.filter(operation="unloadTopic").update(status=200)
    rows = marks(changed, "app", f"topic={TOPIC}").json["rows"]
    assert [row["operation"] for row in rows] == ["unloadTopic"], "refused calls changed nothing"
    assert (rows[0]["actor"], rows[0]["id"]) == ("", "")
    assert "given" not in rows[0]
    (row,) = marks(changed, "ann", f"topic={TOPIC}").json["rows"]
    assert (row["actor"], row["id"]) == ("ann", "")
    (row,) = marks(changed, SUPERUSER, f"topic={TOPIC}").json["rows"]
    assert row["id"]
    assert marks(changed, "stranger", f"topic={TOPIC}").status == 403
    assert marks(changed, "ann", "tenant=t2").status == 403
    assert marks(changed, "ann", "").status == 403
    at = row["at"]
    assert marks(changed, "app", f"topic={TOPIC}&from={at + 1}").json["rows"] == []
    assert len(marks(changed, "app", f"topic={TOPIC}&from={at}&to={at}").json["rows"]) == 1


def test_marks_of_a_namespace_are_not_those_of_its_topics(changed: Gateway) -> None:
    AuditEntry.objects.all().update(status=200)
    rows = marks(changed, "app", "tenant=t1&namespace=n").json["rows"]
    assert [row["operation"].rpartition("/")[2] for row in rows] == ["retention"]
    assert marks(changed, "ann", "tenant=t1").json["rows"] == []
    assert len(marks(changed, SUPERUSER, "").json["rows"]) == 1
