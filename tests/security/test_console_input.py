"""Hostile input to the console: extra members, filters, markup, formulas of spreadsheets, and raw queries."""

import ast
import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from admin_ui.analyses.shapes import RunRequest
from admin_ui.topics import export
from tests.support.access.callers import bearer, by_token
from tests.support.admin.gateway_client import Gateway

ROOT = Path(__file__).parents[2]
TENANT = {"allowedClusters": ["standalone"]}
VIEW = {"name": "mine", "resource": "topics", "query": {"q": "x"}}
SCRIPT = "<script>alert(1)</script>"
ENCODED = "%3Cscript%3Ealert(1)%3C%2Fscript%3E"


def test_members_that_a_body_does_not_have_change_nothing(call: Gateway, settings: Any) -> None:
    settings.IDENTITY = by_token()
    extra = {"owner": "root", "id": "77", "created_at": 1, "is_staff": True, "tenant": "other"}
    made = call("POST", "/api/v1/views", VIEW | extra, headers=bearer("app"))
    assert made.status == 201
    assert made.json.keys() == {"id", "name", "resource", "query", "created_at"}
    assert made.json["created_at"] > 1
    assert made.json["id"] != "77"
    assert call("GET", "/api/v1/views", headers=bearer("root")).json["rows"] == []
    [row] = call("GET", "/api/v1/views", headers=bearer("app")).json["rows"]
    assert row == made.json


def test_a_view_of_another_owner_does_not_exist(call: Gateway, settings: Any) -> None:
    settings.IDENTITY = by_token()
    made = call("POST", "/api/v1/views", VIEW, headers=bearer("app")).json
    path = f"/api/v1/views/{made['id']}"
    for method, body in (("PUT", {"name": "theirs"}), ("DELETE", None)):
        foreign = call(method, path, body, headers=bearer("other"))
        missing = call(method, "/api/v1/views/999", body, headers=bearer("other"))
        assert (
            (foreign.status, foreign.body) == (missing.status, missing.body) == (404, missing.body)
        )
    [row] = call("GET", "/api/v1/views", headers=bearer("app")).json["rows"]
    assert row["name"] == "mine"


def test_a_run_has_the_owner_and_the_state_that_the_gateway_gives() -> None:
    body = {"analysis": "topic-profile", "parameters": {"topic": "t"}}
    extra = {
        "created_by": "root",
        "state": "succeeded",
        "id": "x",
        "attempt": 9,
        "cluster": "other",
    }
    request = RunRequest(data=body | extra)
    assert request.is_valid()
    assert dict(request.validated_data) == body


@pytest.mark.parametrize(
    "sort",
    ["password", "owner__password", "__class__", "name;drop table x", "name,1", "?"],
)
def test_a_list_is_sorted_by_named_columns_alone(call: Gateway, sort: str) -> None:
    answer = call("GET", f"/api/v1/clusters/standalone/topics?sort={sort}")
    assert (answer.status, answer.json["field"]) == (400, "sort")


def test_filters_are_values_and_no_conditions(call: Gateway) -> None:
    assert call("PUT", "/admin/v2/tenants/t1", TENANT).status == 204
    total = call("GET", "/api/v1/audit").json["total"]
    assert total == 1
    for query in ("actor__startswith=zz", "request_id__regex=zz", "given__contains=zz", "pk=0"):
        assert call("GET", f"/api/v1/audit?{query}").json["total"] == total
    for value in ("%27%20OR%20%271%27=%271", "x%27;DROP%20TABLE%20admin_ui_auditentry;--", "%25zz"):
        for name in ("actor", "q"):
            assert call("GET", f"/api/v1/audit?{name}={value}").json["total"] == 0
    assert call("GET", "/api/v1/audit").json["total"] == total


def test_a_token_in_the_query_of_a_change_is_not_recorded(call: Gateway) -> None:
    target = "/admin/v2/tenants/t1?token=abc.def.ghi&force=true"
    assert call("PUT", target, TENANT).status == 204
    answer = call("GET", "/api/v1/audit")
    assert b"abc.def.ghi" not in answer.body
    assert answer.json["rows"][0]["target"] == "/admin/v2/tenants/t1?token=(hidden)&force=true"


PATHS = (
    f"/{ENCODED}",
    f"/{SCRIPT}",
    f"/api/v1/{ENCODED}",
    f"/admin/v2/{ENCODED}",
    f"/admin/v2/tenants/{ENCODED}",
    f"/admin/v2/persistent/public/default/{ENCODED}/stats",
    f"/api/v1/clusters/{ENCODED}/topics",
    f"/api/v1/clusters/standalone/topics?sort={ENCODED}",
    f"/lookup/v2/topic/persistent/public/{ENCODED}/t",
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("accept", ["text/html", "*/*", "text/plain", "application/json"])
def test_a_name_is_no_markup_of_an_answer(call: Gateway, path: str, accept: str) -> None:
    for method in ("GET", "POST"):
        answer = call(method, path, headers={"accept": accept})
        assert answer.headers["x-content-type-options"] == "nosniff"
        kind = answer.headers.get("content-type", "")
        is_text = kind.startswith(("application/json", "text/plain")) or not answer.body
        assert is_text or SCRIPT not in answer.body.decode()


MARKUP = re.compile(
    r"dangerouslySetInnerHTML|\.(inner|outer)HTML|insertAdjacentHTML|document\.write\b|\beval\(|new Function\("
)


def test_the_console_makes_no_markup_and_no_code_of_texts() -> None:
    files = [
        path for path in (ROOT / "frontend" / "src").rglob("*.ts*") if ".test." not in path.name
    ]
    assert len(files) > 100
    assert [str(path) for path in files if MARKUP.search(path.read_text())] == []


FORMULA = ("=", "+", "-", "@", "\t", "\r")


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", 'a"\r\n=1', "a,=1"]
)
def test_a_table_has_no_cell_that_a_spreadsheet_evaluates(name: str) -> None:
    row: Any = {"name": f"persistent://public/default/{name}", "topic": name, "loaded": True}
    text = export.FORMATS["csv"].head + export.FORMATS["csv"].write([row], True)
    [head, cells] = csv.reader(io.StringIO(text, newline=""))
    assert head == list(export.COLUMNS)
    assert cells[0] == row["name"]
    assert not [cell for cell in cells if cell.startswith(FORMULA)]


def test_the_name_of_an_exported_file_has_nothing_of_the_request(call: Gateway) -> None:
    path = "/api/v1/clusters/standalone/topics/export?format=csv&q=%0d%0aX:%20y%22"
    answer = call("GET", path)
    assert answer.headers["content-disposition"] == 'attachment; filename="topics.csv"'
    assert "x" not in answer.headers


RAW = {"raw", "extra", "RawSQL"}
EXECUTING = {"execute", "executemany", "executescript", "sql"}
OF_MARKS = {"rows", "marks", "kind"}
"""Names of variables of statements, which hold marks for values and words of SQL."""


def is_fixed(node: ast.expr) -> bool:
    """Return whether an expression is made of literals, constants and marks for values."""
    if isinstance(node, ast.JoinedStr):
        return all(is_fixed(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return is_fixed(node.value)
    if isinstance(node, ast.BinOp):
        return is_fixed(node.left) and is_fixed(node.right)
    if isinstance(node, ast.Name):
        return node.id.isupper() or node.id in OF_MARKS
    return isinstance(node, ast.Constant)


OF_PEOPLE = ROOT / "spark_jobs/jobs/sql"
"""The analysis whose query is a person's own text: tests/unit/spark_jobs/jobs/test_sql.py has what it must refuse."""


def raw_queries(source: str) -> list[str]:
    """Return the calls that make a query of other texts than literals, constants and marks for values."""
    raw = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        is_made = any(not is_fixed(argument) for argument in node.args[:1])
        if name in RAW or (name in EXECUTING and is_made):
            raw.append(ast.unparse(node))
    return raw


def test_queries_are_made_of_constants_and_values() -> None:
    packages = ("gateway", "admin_ui", "spark_jobs")
    files = [
        path
        for name in packages
        for path in (ROOT / name).rglob("*.py")
        if path.parent != OF_PEOPLE
    ]
    assert {str(path): raw for path in files if (raw := raw_queries(path.read_text()))} == {}


@pytest.mark.parametrize(
    "source",
    ["T.objects.raw(q)", "rows.extra(where=[q])", "c.execute(f'select {q}')", "spark.sql(q)"],
)
def test_a_query_of_texts_is_reported(source: str) -> None:
    assert raw_queries(source) == [source]
