"""The admin REST: metadata operations, names in paths, bodies, errors, and what is not built."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from gateway.rest.urls import table

Call = Callable[..., Any]
TENANT = {"adminRoles": ["admin1"], "allowedClusters": ["standalone"]}


def test_a_tenant_is_created_read_changed_and_deleted_with_pulsars_statuses(call: Call) -> None:
    assert call("PUT", "/admin/v2/tenants/t1", TENANT).status == 204
    assert call("GET", "/admin/v2/tenants").json == ["public", "pulsar", "t1"]
    assert call("GET", "/admin/v2/tenants/t1").json == TENANT
    assert call("PUT", "/admin/v2/tenants/t1", TENANT).json == {"reason": "Tenant already exist"}
    assert call("POST", "/admin/v2/tenants/t1", {"allowedClusters": []}).status == 412
    assert call("DELETE", "/admin/v2/tenants/t1").status == 204
    assert call("DELETE", "/admin/v2/tenants/t1").status == 404


def test_a_change_answers_204_without_body_or_content_type(call: Call) -> None:
    answer = call("PUT", "/admin/v2/tenants/t1", TENANT)
    assert answer.body == b""
    assert "content-type" not in answer.headers


def test_a_namespace_lives_and_dies(call: Call) -> None:
    call("PUT", "/admin/v2/tenants/t1", TENANT)
    assert call("PUT", "/admin/v2/namespaces/t1/ns1").status == 204
    assert call("PUT", "/admin/v2/namespaces/t1/ns1").status == 409
    assert call("GET", "/admin/v2/namespaces/t1").json == ["t1/ns1"]
    assert call("GET", "/admin/v2/namespaces/t1/ns1/bundles").json["numBundles"] == 32
    assert call("DELETE", "/admin/v2/tenants/t1").status == 409
    assert call("DELETE", "/admin/v2/namespaces/t1/ns1").status == 204
    assert call("GET", "/admin/v2/namespaces/t1/ns1").status == 404


def test_a_partitioned_topic_is_created_without_a_broker(call: Call) -> None:
    topic = "/admin/v2/persistent/public/default/pt"
    assert call("PUT", f"{topic}/partitions", 3).status == 204
    assert call("GET", f"{topic}/partitions").json == {"partitions": 3, "deleted": False}
    assert call("GET", "/admin/v2/persistent/public/default/partitioned").json == [
        "persistent://public/default/pt"
    ]
    assert call("POST", f"{topic}/partitions", 2).status == 422
    assert call("POST", f"{topic}/partitions", 0).status == 422


def test_a_topic_does_not_grow_while_no_broker_reports_its_subscriptions(call: Call) -> None:
    topic = "/admin/v2/persistent/public/default/pt"
    assert call("PUT", f"{topic}/partitions", 3).status == 204
    answer = call("POST", f"{topic}/partitions", 5)
    assert answer.status == 503
    assert "No broker is available" in answer.json["reason"]
    assert call("GET", f"{topic}/partitions").json == {"partitions": 3, "deleted": False}


@pytest.mark.parametrize(
    ("body", "content_type", "count"),
    [
        (b"3", None, 3),
        (b'"2"', "application/json", 2),
        (b"4.7", "application/json", 4),
        (b"2", "text/plain", 2),
        (b'{"partitions": 2}', "application/vnd.partitioned-topic-metadata+json", 2),
    ],
)
def test_partition_counts_are_accepted_in_every_form_that_clients_send(
    call: Call, body: bytes, content_type: str | None, count: int
) -> None:
    topic = "/admin/v2/persistent/public/default/pt/partitions"
    assert call("PUT", topic, body, content_type=content_type).status == 204
    assert call("GET", topic).json["partitions"] == count


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{bad", "body"),
        (b"[]", "body"),
        (b'{"adminRoles": "str", "allowedClusters": ["standalone"]}', "adminRoles"),
        (b'{"allowedClusters": [1]}', "allowedClusters"),
        (b'{"allowedClusters": NaN}', "body"),
        (b"[" * 100_000, "body"),
    ],
)
def test_a_wrong_body_is_400_and_the_reason_names_the_field(
    call: Call, body: bytes, field: str
) -> None:
    answer = call("PUT", "/admin/v2/tenants/t1", body, content_type="application/json")
    assert answer.status == 400
    assert answer.json["field"] == field
    assert field in answer.json["reason"]
    assert call("GET", "/admin/v2/tenants/t1").status == 404


def test_a_form_body_is_415_without_a_body(call: Call) -> None:
    answer = call(
        "PUT", "/admin/v2/tenants/t1", b"a=b", content_type="application/x-www-form-urlencoded"
    )
    assert (answer.status, answer.body) == (415, b"")


def test_a_body_over_the_limit_is_413(call: Call) -> None:
    answer = call("PUT", "/admin/v2/tenants/t1", b" " * (1 << 20) + b"{}")
    assert answer.status == 413
    assert "reason" in answer.json


def test_segments_are_decoded_once_and_subscriptions_twice(call: Call) -> None:
    for segment, name in [("a%2Fb", None), ("pl+us", "pl us"), ("pct%2525x", "pct%25x")]:
        target = f"/admin/v2/persistent/public/default/{segment}/partitions"
        if name is None:
            continue
        assert call("PUT", target, 1).status == 204
        assert (
            f"persistent://public/default/{name}"
            in call("GET", "/admin/v2/persistent/public/default/partitioned").json
        )


@pytest.mark.parametrize(
    "target",
    [
        "/admin/v2/tenants/..",
        "/admin/v2/tenants/%2e%2e",
        "/admin/v2/tenants/../clusters",
        "/admin/v2/persistent/public/default/%2e/stats",
        "/admin/v2/tenants//",
        "/admin/v2/persistent/public//x",
        "/admin/v2/persistent/public/default/x%00y/stats",
        "/admin/v2/persistent/public/default/x%ff/stats",
        "/admin/v2/persistent/public/default/x/y/z/w",
        "/admin/v2/nosuchroute",
        "/admin/tenants",
    ],
)
def test_path_tricks_lead_nowhere(call: Call, target: str) -> None:
    answer = call("GET", target, headers={"Accept": "application/json"})
    assert answer.status == 404
    assert answer.json["message"] == "Not Found"
    assert answer.json["url"] == target


@pytest.mark.parametrize(
    ("accept", "start"),
    [
        (None, b"<html>"),
        ("*/*", b"<html>"),
        ("text/html, */*", b"<html>"),
        ("application/json", b"{"),
        ("application/json, text/html", b"{"),
        ("text/plain", b"HTTP ERROR 404"),
        ("image/png", b""),
    ],
)
def test_the_page_of_an_unknown_path_is_what_the_client_names_first(
    call: Call, accept: str | None, start: bytes
) -> None:
    answer = call("GET", "/admin/<b>", headers={"Accept": accept} if accept else {})
    assert answer.status == 404
    assert answer.body.startswith(start)
    assert b"<b>" not in answer.body or start != b"<html>"


def test_one_trailing_slash_is_tolerated_without_a_redirect(call: Call) -> None:
    assert call("GET", "/admin/v2/tenants/").json == ["public", "pulsar"]
    assert call("PUT", "/admin/v2/tenants/t1/", TENANT).status == 204


def test_a_number_in_a_path_must_be_one(call: Call) -> None:
    base = "/admin/v2/persistent/public/default/x/subscription/s"
    for tail in ("skip/abc", "resetcursor/abc", "position/abc", "skip/99999999999999999999"):
        method = "GET" if tail.startswith("position") else "POST"
        assert call(method, f"{base}/{tail}").status == 404
    assert call("POST", f"{base}/skip/-2").json["field"] == "numMessages"


def test_the_wrong_verb_is_405_with_the_allowed_ones(call: Call) -> None:
    answer = call("PATCH", "/admin/v2/tenants")
    assert (answer.status, answer.body) == (405, b"")
    assert "GET" in answer.headers["allow"]
    options = call("OPTIONS", "/admin/v2/tenants")
    assert (options.status, options.body) == (200, b"")


def test_a_browser_at_a_path_of_clients_is_led_to_the_console(call: Call) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    answer = call("GET", "/admin/v2/persistent/public/default/hello/truncate", headers=browser)
    assert answer.status == 405
    assert b'<a href="/">Open the console</a>' in answer.body
    assert "DELETE" in answer.headers["allow"]
    answer = call("GET", "/topics/persistent/public/default/a%2Fb", headers=browser)
    page = f"/c/{settings.CLUSTERS[0].name}/t/public/default/a%2Fb"
    assert (answer.status, answer.headers["location"]) == (302, page)
    answer = call("GET", "/topics/non-persistent/public/default/hello", headers=browser)
    assert answer.headers["location"].endswith("/hello?domain=non-persistent")
    answer = call("GET", "/topics/persistent/public/default/hello")
    assert (answer.status, answer.body) == (405, b"")


@pytest.mark.parametrize("accept", ["text/plain", "text/html", "application/xml"])
def test_an_accept_header_without_json_is_406(call: Call, accept: str) -> None:
    assert call("GET", "/admin/v2/tenants", headers={"accept": accept}).status == 406


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html, application/json;q=0.9"])
def test_an_accept_header_with_json_is_served(call: Call, accept: str) -> None:
    assert call("GET", "/admin/v2/tenants", headers={"accept": accept}).status == 200


def test_without_a_broker_a_topic_operation_is_503_with_a_request_id(call: Call) -> None:
    call("PUT", "/admin/v2/persistent/public/default/pt/partitions", 1)
    answer = call("GET", "/admin/v2/persistent/public/default/pt-partition-0/stats")
    assert answer.status == 503
    assert answer.json["reason"] == "No broker is available"
    assert answer.json["request_id"]
    assert call("GET", "/admin/v2/brokers/health").status == 503
    assert call("GET", "/admin/v2/brokers").json == []


def _concrete(template: str) -> str:
    import re

    from gateway.rest.routes import converter

    return re.sub(
        r"\{(\w+)\}", lambda m: "1" if converter(m[1]) == "number" else f"x{m[1]}", template
    )


def test_everything_documented_and_not_built_is_501_with_a_reason(call: Call) -> None:
    checked = 0
    for route, view, _ in table():
        for method in sorted(route.methods):
            if hasattr(view, method.lower()):
                continue
            answer = call(method, _concrete(route.template))
            assert answer.status == 501, (method, route.template)
            assert answer.json["reason"].startswith(f"{method} ")
            checked += 1
    assert checked > 20


def test_a_foreign_host_or_origin_changes_nothing(call: Call) -> None:
    assert call("GET", "/admin/v2/tenants", headers={"host": "evil.example:8080"}).status == 400
    answer = call("PUT", "/admin/v2/tenants/t1", TENANT, headers={"origin": "http://evil.example"})
    assert answer.status == 403
    other_port = {"origin": "http://127.0.0.1:9999"}
    assert call("PUT", "/admin/v2/tenants/t1", TENANT, headers=other_port).status == 403
    own = {"origin": "http://127.0.0.1:8080"}
    assert call("PUT", "/admin/v2/tenants/t1", TENANT, headers=own).status == 204


def test_every_answer_carries_the_security_headers(call: Call) -> None:
    for target in ("/", "/admin/v2/tenants", "/nosuch"):
        headers = call("GET", target).headers
        assert "unsafe-eval" not in headers["content-security-policy"]
        assert "script-src 'self';" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
