"""Bodies that no store, log or answer could hold afterwards: refused by the field, and the audit log stays readable."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.base.errors import MagnetarError
from engine.metadata import paths
from engine.metadata.records import encode_json
from gateway.services.engine_link import EngineLink

Call = Callable[..., Any]
HALF = '"\\ud800"'
V2 = "/admin/v2"


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "/tenants/t", '{"adminRoles": [%s], "allowedClusters": ["standalone"]}', "adminRoles[0]"),
        ("POST", "/namespaces/public/default/permissions/subscription/s", "[%s]", "body[0]"),
        ("POST", "/namespaces/grantPermissionsOnTopics", '[{"roles": [%s]}]', "body[0].roles[0]"),
        ("PUT", "/clusters/c", '{"serviceUrl": %s}', "serviceUrl"),
        ("POST", "/clusters/standalone/failureDomains/d", '{"brokers": [%s]}', "brokers[0]"),
        ("POST", "/bookies/racks-info/b:1?group=g", '{"rack": "/r", "hostname": %s}', "hostname"),
    ],
)  # fmt: skip
def test_half_a_character_is_refused_by_its_field(
    call: Call, method: str, path: str, body: str, field: str
) -> None:
    answer = call(method, V2 + path, (body % HALF).encode())
    assert answer.status == 400
    assert answer.json["field"] == field
    assert "lone surrogate" in answer.json["reason"]


@pytest.mark.parametrize("depth", [500, 990])
def test_deep_bodies_are_refused_and_recorded(call: Call, depth: int) -> None:
    answer = call("PUT", f"{V2}/tenants/t", b"[" * depth + b"]" * depth)
    assert (answer.status, answer.json["field"]) == (400, "body")
    [row] = call("GET", "/api/v1/audit").json["rows"]
    assert row["status"] == 400


def test_a_number_that_is_not_finite_is_refused_and_stored_nowhere(call: Call) -> None:
    for number in (b"1e400", b"-1e400", b"NaN"):
        body = b'{"msgRateIn": %s, "msgRateOut": 1}' % number
        assert call("POST", f"{V2}/resource-quotas", body).status == 400
    assert call("GET", f"{V2}/resource-quotas").json["msgRateIn"] == 40.0
    rows = call("GET", "/api/v1/audit").json["rows"]
    assert [row["status"] for row in rows] == [400, 400, 400]


def test_values_stored_by_another_tool_hide_no_page_of_the_audit_log(
    call: Call, engine: EngineLink
) -> None:
    """Answer the audit page though a record holds a non-finite number and half a character."""
    stored = b'{"msgRateIn": Infinity, "note": "\\udfff", "msgRateOut": 2.0}'
    engine.run(lambda it: it.store.create(paths.DEFAULT_BUNDLE_QUOTA, stored, make_parents=True))
    assert call("POST", f"{V2}/resource-quotas", {"msgRateIn": 1}).status == 204
    answer = call("GET", "/api/v1/audit")
    assert answer.status == 200
    [change] = answer.json["rows"][0]["changes"]
    assert change["before"]["msgRateIn"] == "Infinity"
    assert change["before"]["note"] == "\udfff"


def test_a_member_given_twice_is_refused(call: Call) -> None:
    body = b'{"adminRoles": [], "allowedClusters": ["x"], "allowedClusters": ["standalone"]}'
    answer = call("PUT", f"{V2}/tenants/t", body)
    assert (answer.status, answer.json["field"]) == (400, "allowedClusters")


def test_no_record_is_written_with_a_number_that_is_not_finite() -> None:
    for number in (float("inf"), float("nan")):
        with pytest.raises((ValueError, MagnetarError)):
            encode_json({"rate": number})
