"""The console's API: windows, filters, errors, audit, saved views, and its OpenAPI document."""

import csv
import io
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import jsonschema
import pytest
from django.conf import settings
from django.core.management import call_command

from admin_ui import openapi
from admin_ui.models import AuditEntry

Call = Callable[..., Any]
TOPICS = "/admin/v2/persistent/public/default"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    contents: dict[str, Any] = json.loads(
        (Path(settings.BASE_DIR) / "frontend" / "openapi.json").read_text()
    )
    return contents


def conform(document: dict[str, Any], body: Any, path: str, method: str = "get") -> None:
    """``body`` has the shape that the document promises for 200."""
    operation = document["paths"][path][method]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    text = json.dumps({**schema, "components": document["components"]})
    # JSON Schema has no "nullable"; OpenAPI 3.0 has no type lists.
    whole = json.loads(text, object_hook=_nullable)
    jsonschema.validate(body, whole)


def _nullable(part: dict[str, Any]) -> dict[str, Any]:
    if not part.pop("nullable", False):
        return part
    return {"anyOf": [part, {"type": "null"}]}


def test_the_committed_document_is_what_the_code_describes() -> None:
    call_command("export_openapi", "--check")


def test_the_document_is_valid_and_complete() -> None:
    call_command(
        *("spectacular", "--validate", "--fail-on-warn", "--file", "/dev/null"),
        *("--custom-settings", "admin_ui.openapi.SPECTACULAR"),
    )


def test_the_environment_describes_the_instance(call: Call, document: dict[str, Any]) -> None:
    body = call("GET", "/api/v1/environment").json
    conform(document, body, "/api/v1/environment")
    assert body["clusters"] == ["standalone"]
    assert body["user"] is None
    assert body["broker_url"] == "", "no broker is registered"
    named = call("GET", "/api/v1/environment", headers={"host": "localhost:1234"}).json
    assert named["http_url"] == "http://localhost:1234"


def test_the_overview_without_brokers_reports_it(call: Call, document: dict[str, Any]) -> None:
    body = call("GET", "/api/v1/clusters/standalone/overview").json
    conform(document, body, "/api/v1/clusters/{cluster}/overview")
    titles = [item["title"] for item in body["attention"]["items"]]
    assert titles[:2] == ["No broker is registered", "No bookie is registered"]
    assert body["attention"]["known"] is False


def test_topics_are_filtered_sorted_and_windowed_on_the_server(
    call: Call, document: dict[str, Any]
) -> None:
    for name, count in (("orders", 3), ("Order-items", 2), ("other", 1)):
        assert call("PUT", f"{TOPICS}/{name}/partitions", count).status == 204
    body = call("GET", "/api/v1/clusters/standalone/topics?q=ORDER&sort=-partitions&limit=1").json
    conform(document, body, "/api/v1/clusters/{cluster}/topics")
    assert body["total"] == 2
    assert [row["topic"] for row in body["rows"]] == ["orders"]
    second = call(
        "GET", "/api/v1/clusters/standalone/topics?q=order&sort=-partitions&limit=1&offset=1"
    ).json
    assert [row["topic"] for row in second["rows"]] == ["Order-items"]
    everything = call(
        "GET", "/api/v1/clusters/standalone/topics?sort=name&namespace=public/default"
    ).json
    names = [row["name"] for row in everything["rows"]]
    assert names == sorted(names)
    assert everything["total"] == 3


def test_the_list_is_filtered_by_what_needs_attention(call: Call) -> None:
    assert call("PUT", f"{TOPICS}/healthy/partitions", 1).status == 204
    for cause in ("any", "no-consumer"):
        answer = call("GET", f"/api/v1/clusters/standalone/topics?attention={cause}").json
        assert (answer["total"], answer["rows"]) == (0, [])


def test_words_of_a_query_match_in_any_order(call: Call) -> None:
    for name in ("orders", "Order-items", "other"):
        assert call("PUT", f"{TOPICS}/{name}/partitions", 1).status == 204
    rows = call("GET", "/api/v1/clusters/standalone/topics?q=ITEMS%20%20public").json["rows"]
    assert [row["topic"] for row in rows] == ["Order-items"]


def test_the_list_is_exported_whole_in_its_order_with_its_filter(call: Call) -> None:
    for number in range(1, 4):
        assert call("PUT", f'{TOPICS}/=q{number},"x"/partitions', number).status == 204
    assert call("PUT", f"{TOPICS}/other/partitions", 1).status == 204
    path = "/api/v1/clusters/standalone/topics/export?q=q&sort=-partitions"
    lines = list(csv.DictReader(io.StringIO(call("GET", f"{path}&format=csv").body.decode())))
    assert [line["partitions"] for line in lines] == ["3", "2", "1"]
    assert lines[0]["name"] == 'persistent://public/default/=q3,"x"'
    assert lines[0]["backlog"] in ("", "0"), "what is not known is empty"
    rows = call("GET", f"{path}&format=json").json
    assert [row["partitions"] for row in rows] == [3, 2, 1]
    assert call("GET", f"{path}&format=xml").json["field"] == "format"
    assert call("GET", f"{path}&sort=x").json["field"] == "sort"
    nothing = call("GET", "/api/v1/clusters/standalone/topics/export?q=nothing&format=json")
    assert nothing.json == []


def test_tenants_and_namespaces_are_found_by_words(call: Call, document: dict[str, Any]) -> None:
    body = call("GET", "/api/v1/clusters/standalone/scopes?q=default%20PUB").json
    conform(document, body, "/api/v1/clusters/{cluster}/scopes")
    assert body["namespaces"] == {"total": 1, "names": ["public/default"]}
    assert body["tenants"]["names"] == []
    of_tenant = call("GET", "/api/v1/clusters/standalone/scopes?tenant=publi").json
    assert "public" in of_tenant["tenants"]["names"]
    assert of_tenant["namespaces"]["total"] == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sort=nonsense", "sort"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("offset=-1", "offset"),
        ("domain=bogus", "domain"),
        ("attention=bogus", "attention"),
    ],
)
def test_a_wrong_parameter_is_400_and_named(call: Call, query: str, field: str) -> None:
    answer = call("GET", f"/api/v1/clusters/standalone/topics?{query}")
    assert answer.status == 400
    assert answer.json["field"] == field


def test_history_conforms_and_refuses_what_is_not_kept(
    call: Call, document: dict[str, Any]
) -> None:
    body = call("GET", "/api/v1/clusters/standalone/history?topic=never-seen").json
    conform(document, body, "/api/v1/clusters/{cluster}/history")
    assert body["columns"][0] == "at"
    for query, last in (("broker=b&minutes=10080", "topics"), ("bookie=b&ago=1440", "ledgers")):
        body = call("GET", f"/api/v1/clusters/standalone/history?{query}").json
        conform(document, body, "/api/v1/clusters/{cluster}/history")
        assert body["columns"][-1] == last
        assert "" not in body["columns"]
    for query, field in (
        ("minutes=0", "minutes"),
        ("minutes=10081", "minutes"),
        ("topic=a&minutes=60&ago=10021", "ago"),
        ("subscription=s", "subscription"),
        ("broker=b&subscription=s", "subscription"),
        ("topic=a&broker=b", "broker"),
    ):
        answer = call("GET", f"/api/v1/clusters/standalone/history?{query}")
        assert (answer.status, answer.json["field"]) == (400, field)


@pytest.mark.parametrize(
    ("action", "body", "field"),
    [
        ("skip", {}, "count"),
        ("skip", {"count": 0}, "count"),
        ("skip", {"count": "many"}, "count"),
        ("reset", {"preview": True}, "timestamp"),
        ("reset", {"timestamp": -1}, "timestamp"),
        ("skip-all", {"preview": "perhaps"}, "preview"),
    ],
)
def test_a_cursor_change_needs_its_amount(
    call: Call, action: str, body: dict[str, Any], field: str
) -> None:
    where = (
        f"/api/v1/clusters/standalone/topics/persistent/public/default/x/subscriptions/s/{action}"
    )
    answer = call("POST", where, body)
    assert answer.status == 400
    assert answer.json["field"] == field


def test_every_change_is_in_the_audit_log_with_its_outcome(
    call: Call, document: dict[str, Any]
) -> None:
    call("GET", "/admin/v2/tenants")
    call("PUT", "/admin/v2/tenants/t1", {"allowedClusters": ["standalone"]})
    call("PUT", "/admin/v2/tenants/t1", {"allowedClusters": ["standalone"]})
    call("DELETE", "/admin/v2/tenants/n%6Fpe")
    body = call("GET", "/api/v1/audit?q=tenants").json
    conform(document, body, "/api/v1/audit")
    assert [(row["method"], row["target"], row["status"]) for row in body["rows"]] == [
        ("DELETE", "/admin/v2/tenants/n%6Fpe", 404),
        ("PUT", "/admin/v2/tenants/t1", 409),
        ("PUT", "/admin/v2/tenants/t1", 204),
    ]
    assert {row["actor"] for row in body["rows"]} == {"anonymous"}


def test_the_audit_log_is_verified_and_a_changed_entry_is_named(
    call: Call, document: dict[str, Any]
) -> None:
    for _ in range(2):
        call("DELETE", "/admin/v2/tenants/nope")
    fits = call("GET", "/api/v1/audit/verify").json
    conform(document, fits, "/api/v1/audit/verify")
    assert (fits["problem"], fits["entry_id"], fits["entries"]) == ("", None, 2)
    assert fits["link"]["number"] == 4
    changed = str(AuditEntry.objects.latest("id").pk)
    AuditEntry.objects.filter(pk=changed).update(actor="eve")
    broken = call("GET", "/api/v1/audit/verify").json
    conform(document, broken, "/api/v1/audit/verify")
    assert broken["problem"] == f"entry {changed} or link 3 of the chain was changed"
    assert (broken["entry_id"], broken["link"]["number"]) == (changed, 2)


def test_a_preview_is_no_change(call: Call) -> None:
    where = (
        "/api/v1/clusters/standalone/topics/persistent/public/default/x/subscriptions/s/skip-all"
    )
    call("POST", where, {"preview": True})
    assert not AuditEntry.objects.exists()
    call("POST", where, {"preview": False})
    assert AuditEntry.objects.count() == 1


def test_views_are_saved_listed_and_deleted(call: Call, document: dict[str, Any]) -> None:
    view = {"name": "Big", "resource": "topics", "query": {"sort": "-backlog"}}
    created = call("POST", "/api/v1/views", view)
    assert created.status == 201
    assert call("POST", "/api/v1/views", view).status == 409
    body = call("GET", "/api/v1/views?resource=topics").json
    conform(document, body, "/api/v1/views")
    assert body["rows"][0]["query"] == {"sort": "-backlog"}
    where = f"/api/v1/views/{created.json['id']}"
    assert call("POST", "/api/v1/views", {**view, "name": "Small"}).status == 201
    assert call("PUT", where, {"name": "Small"}).status == 409
    assert call("PUT", where, {"name": ""}).json["field"] == "name"
    renamed = call("PUT", where, {"name": "Largest"})
    assert (renamed.status, renamed.json["name"]) == (200, "Largest")
    assert renamed.json["query"] == view["query"]
    assert call("PUT", "/api/v1/views/999999", {"name": "x"}).status == 404
    assert call("DELETE", where).status == 204
    assert call("DELETE", where).status == 404
    assert call("POST", "/api/v1/views", {**view, "resource": "x"}).json["field"] == "resource"


@pytest.mark.parametrize("path", ["overview", "history", "topics", "topics/persistent/a/b/c"])
def test_a_cluster_that_is_not_served_is_404_and_named(call: Call, path: str) -> None:
    answer = call("GET", f"/api/v1/clusters/moon%2F1/{path}")
    assert answer.status == 404
    assert answer.json["reason"] == "This gateway serves the cluster standalone, not moon/1"


def test_unknown_api_paths_are_404_with_a_reason(call: Call) -> None:
    answer = call("GET", "/api/v1/nothing")
    assert answer.status == 404
    assert "/api/v1/nothing" in answer.json["reason"]


def test_a_topic_without_a_broker_is_503_and_an_invalid_name_412(call: Call) -> None:
    assert (
        call("GET", "/api/v1/clusters/standalone/topics/persistent/public/default/x").status == 503
    )
    assert (
        call("GET", "/api/v1/clusters/standalone/topics/persistent/public/bad%20ns/x").status == 412
    )
    assert (
        call("GET", "/api/v1/clusters/standalone/topics/bogus/public/default/x").json["field"]
        == "domain"
    )


def test_the_page_answers_console_routes_and_nothing_else(call: Call) -> None:
    for target in ("/", "/c/standalone/topics", "/analyses/runs/1", "/audit", "/payload-rules"):
        answer = call("GET", target)
        assert answer.status in (200, 503)
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["cache-control"] == "no-cache"
    assert call("POST", "/").status == 405
    assert call("GET", "/nosuch").status == 404


@pytest.mark.parametrize(
    ("path", "body", "field", "text"),
    [
        ("rehearsal", {"type": "AVRO", "messages": 1_001}, "messages", "1000"),
        ("rehearsal", {"type": "AVRO", "messages": 0}, "messages", "1"),
        ("verdict", {"type": "AVR0"}, "type", "AVR0"),
        ("verdict", {"definition": "{}"}, "type", "required"),
        ("verdict", {"type": "AVRO", "definition": 5, "properties": []}, "properties", "list"),
        ("verdict", {"type": "AVRO", "properties": {"a": {}}}, "properties", "string"),
    ],
)
def test_a_wrong_candidate_is_400_and_the_field_named(
    call: Call, path: str, body: dict[str, Any], field: str, text: str
) -> None:
    topic = "/api/v1/clusters/standalone/topics/persistent/public/default/t/schemas"
    answer = call("POST", f"{topic}/{path}", body)
    assert (answer.status, answer.json["field"]) == (400, field)
    assert text in answer.json["reason"]
    assert call("POST", topic, {"type": "AVRO"}).json["field"] == "newest"
    assert call("DELETE", topic).json["field"] == "newest"


def test_requests_at_once_generate_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two threads meet in the generator, which changes settings of the process."""
    both = Barrier(2, timeout=0.05)
    generated: list[None] = []

    def document() -> dict[str, Any]:
        generated.append(None)
        # Two threads would meet here; a single one waits in vain.
        with suppress(BrokenBarrierError):
            both.wait()
        return {}

    monkeypatch.setattr(openapi, "document", document)
    openapi._text.cache_clear()
    try:
        with ThreadPoolExecutor(2) as pool:
            texts = list(pool.map(lambda _: openapi.document_text(), range(2)))
    finally:
        openapi._text.cache_clear()
    assert texts == ["{}\n"] * 2
    assert len(generated) == 1
