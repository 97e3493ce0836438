"""One list of REST calls, run against both sides in the same order: status and body must be equal after normalising."""

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest

from tests.oracle.conftest import Side

T = "/admin/v2/persistent/oracle/ns"
HOSTS = re.compile(r"127\.0\.0\.1:\d+|localhost:\d+")
CALLS: list[tuple[str, str, Any]] = [
    ("GET", "/admin/v2/clusters", None),
    ("GET", "/admin/v2/clusters/nobody", None),
    ("GET", "/admin/v2/tenants/nobody", None),
    ("PUT", "/admin/v2/tenants/oracle", {"adminRoles": ["a"], "allowedClusters": ["standalone"]}),
    ("PUT", "/admin/v2/tenants/oracle", {"adminRoles": ["a"], "allowedClusters": ["standalone"]}),
    ("GET", "/admin/v2/tenants/oracle", None),
    ("PUT", "/admin/v2/tenants/bad%20name", {"adminRoles": [], "allowedClusters": ["standalone"]}),
    ("PUT", "/admin/v2/tenants/empty", {"adminRoles": [], "allowedClusters": []}),
    ("PUT", "/admin/v2/tenants/far", {"adminRoles": [], "allowedClusters": ["nowhere"]}),
    ("GET", "/admin/v2/namespaces/nobody", None),
    ("PUT", "/admin/v2/namespaces/oracle/ns", None),
    ("PUT", "/admin/v2/namespaces/oracle/ns", None),
    ("PUT", "/admin/v2/namespaces/nobody/ns", None),
    ("GET", "/admin/v2/namespaces/oracle", None),
    ("GET", "/admin/v2/namespaces/oracle/missing", None),
    ("PUT", f"{T}/plain", None),
    ("PUT", f"{T}/plain", None),
    ("GET", "/admin/v2/persistent/oracle/ns", None),
    ("GET", f"{T}/plain/partitions", None),
    ("PUT", f"{T}/parted/partitions", 3),
    ("PUT", f"{T}/parted/partitions", 3),
    ("GET", f"{T}/parted/partitions", None),
    ("POST", f"{T}/parted/partitions", 5),
    ("POST", f"{T}/parted/partitions", 2),
    ("GET", f"{T}/parted/partitions", None),
    ("PUT", f"{T}/none/partitions", 0),
    ("GET", "/admin/v2/persistent/oracle/ns/partitioned", None),
    ("GET", f"{T}/missing/stats", None),
    ("GET", f"{T}/missing/subscriptions", None),
    ("GET", f"{T}/missing/internalStats", None),
    ("PUT", f"{T}/plain/subscription/s1", None),
    ("PUT", f"{T}/plain/subscription/s1", None),
    ("GET", f"{T}/plain/subscriptions", None),
    ("POST", f"{T}/plain/subscription/s1/skip_all", None),
    ("POST", f"{T}/plain/subscription/s1/skip/5", None),
    ("POST", f"{T}/plain/subscription/missing/skip_all", None),
    ("POST", f"{T}/plain/subscription/s1/resetcursor/1700000000000", None),
    ("DELETE", f"{T}/plain/subscription/missing", None),
    ("DELETE", f"{T}/plain/subscription/s1", None),
    ("GET", f"{T}/plain/subscriptions", None),
    ("GET", f"{T}/plain/stats", None),
    ("DELETE", f"{T}/missing", None),
    ("DELETE", f"{T}/plain", None),
    ("DELETE", "/admin/v2/namespaces/oracle/ns", None),
    ("DELETE", f"{T}/parted/partitions", None),
    ("DELETE", "/admin/v2/tenants/oracle", None),
    ("DELETE", "/admin/v2/namespaces/oracle/ns", None),
    ("DELETE", "/admin/v2/namespaces/oracle/ns", None),
    ("DELETE", "/admin/v2/tenants/oracle", None),
    ("DELETE", "/admin/v2/tenants/oracle", None),
    ("GET", "/admin/v2/brokers/health", None),
    ("GET", "/admin/v2/brokers/bogus/path", None),
    ("GET", "/admin/v2/nothing", None),
]
OURS_ONLY = "oldestUnacknowledgedAt"
"""Member of a topic's statistics for our console."""
OURS: list[tuple[str, str, int, int, str]] = [
    # Apache takes the slashes for a legacy name with a cluster, whose namespace is then "..", and looks it up. A path
    # in our metadata store has no such parts: such a name is refused before anything is looked up.
    (
        "GET",
        "/admin/v2/persistent/public/default/..%2F..%2Fx/stats",
        404,
        412,
        "Invalid topic name",
    ),
]


def call(side: Side, method: str, path: str, body: Any) -> tuple[int, Any]:
    status, raw = side.call(method, path, body)
    return status, normal(raw)


def normal(raw: bytes) -> Any:
    """Return a body without what must differ: addresses, request ids, times, and Jetty's HTML pages."""
    text = HOSTS.sub("HOST", raw.decode(errors="replace"))
    try:
        return shape(json.loads(text))
    except ValueError:
        return "HTML" if text.lstrip().startswith("<") else text


def shape(value: Any) -> Any:
    """Large answers (statistics) by their keys and types: numbers there depend on the moment."""
    if isinstance(value, dict) and len(value) > 8:
        return {key: type(item).__name__ for key, item in sorted(value.items()) if key != OURS_ONLY}
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return sorted(value)  # Java's sets have no order
    return value


def parsed(line: str) -> tuple[str, str, Any]:
    """Parse a call's line: method, path, and a body in JSON if there is one."""
    method, path, *body = line.split(" ", 2)
    return method, path, json.loads(body[0]) if body else None


def differences(sides: tuple[Side, Side], calls: Iterable[tuple[str, str, Any]]) -> list[str]:
    """Calls, asked of both sides in this order, that are not answered alike."""
    theirs, ours = sides
    lines = []
    for method, path, body in calls:
        want, got = call(theirs, method, path, body), call(ours, method, path, body)
        if want != got:
            lines.append(f"{method} {path} {body}\n  apache {want}\n  ours   {got}")
    return lines


@pytest.mark.timeout(300)
def test_every_call_has_the_same_answer_on_both_sides(sides: tuple[Side, Side]) -> None:
    wrong = differences(sides, CALLS)
    assert not wrong, "\n".join(wrong)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("method", "path", "theirs_status", "status", "word"), OURS)
def test_where_ours_must_differ_it_says_why(
    sides: tuple[Side, Side], method: str, path: str, theirs_status: int, status: int, word: str
) -> None:
    theirs, ours = sides
    assert call(theirs, method, path, None)[0] == theirs_status
    got, body = call(ours, method, path, None)
    assert got == status
    assert word in body["reason"]
