"""The routes of permissions, properties and groups of a namespace, and of what is switched off."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.rest import grants

Call = Callable[..., Any]
NS = "/admin/v2/namespaces/public/default"


def test_permissions_are_granted_listed_and_revoked(call: Call) -> None:
    assert len(grants.ROUTES) == 9
    assert call("POST", f"{NS}/permissions/app", ["produce"]).status == 204
    assert call("GET", f"{NS}/permissions").json == {"app": ["produce"]}
    refused = call("POST", f"{NS}/permissions/app", ["eat"])
    assert (refused.status, refused.json["field"]) == (400, "actions")
    assert call("DELETE", f"{NS}/permissions/app").status == 204
    assert call("GET", f"{NS}/permissions").json == {}
    assert call("POST", f"{NS}/permissions/subscription/s", ["b", "a"]).status == 204
    assert call("GET", f"{NS}/permissions/subscription").json == {"s": ["a", "b"]}
    assert call("DELETE", f"{NS}/permissions/s/a").status == 204
    assert call("DELETE", f"{NS}/permissions/zz/a").status == 404


def test_permissions_of_a_topic_are_those_of_a_partitioned_one_too(call: Call) -> None:
    call("PUT", "/admin/v2/persistent/public/default/pt/partitions", 2)
    permissions = "/admin/v2/persistent/public/default/pt/permissions"
    assert call("POST", f"{permissions}/r", ["consume"]).status == 204
    assert call("GET", permissions).json == {"r": ["consume"]}
    missing = call("GET", "/admin/v2/persistent/public/default/no/permissions")
    assert (missing.status, missing.json["reason"]) == (
        404,
        "Topic persistent://public/default/no not found",
    )
    many = [{"topic": "public/default/pt", "role": "z", "actions": ["produce"]}]
    assert call("POST", "/admin/v2/namespaces/grantPermissionsOnTopics", many).status == 204
    assert call("GET", permissions).json == {"r": ["consume"], "z": ["produce"]}
    assert call("POST", "/admin/v2/namespaces/revokePermissionsOnTopics", many).status == 204
    bad = call("POST", "/admin/v2/namespaces/grantPermissionsOnTopics", [{"topic": 5}])
    assert (bad.status, bad.json["field"]) == (400, "topic")
    assert call("DELETE", f"{permissions}/r").status == 204
    assert call("GET", permissions).json == {}


def test_properties_are_merged_and_one_is_a_bare_text(call: Call) -> None:
    call("PUT", f"{NS}/properties", {"a": "b"})
    call("PUT", f"{NS}/property/c/d")
    assert call("GET", f"{NS}/properties").json == {"a": "b", "c": "d"}
    assert call("GET", f"{NS}/property/c").body == b"d"
    assert call("DELETE", f"{NS}/property/c").body == b"d"
    assert call("GET", f"{NS}/property/c").body == b""
    call("DELETE", f"{NS}/properties")
    assert call("GET", f"{NS}/properties").json == {}


def test_a_group_is_kept_as_it_was_sent(call: Call) -> None:
    assert call("GET", f"{NS}/antiAffinity").status == 204
    assert call("POST", f"{NS}/antiAffinity", "g").status == 204
    assert call("GET", f"{NS}/antiAffinity").body == b'"g"'
    assert call("DELETE", f"{NS}/antiAffinity").status == 204
    of_group = "/admin/v2/namespaces/standalone/antiAffinity/g"
    assert call("GET", of_group).json["reason"] == "Tenant should not be null"
    assert call("GET", f"{of_group}?property=public").status == 400
    assert call("GET", f"{of_group}?tenant=public").json == []
    old = of_group.replace("/v2", "")
    assert call("POST", f"{NS}/antiAffinity").status == 412
    assert call("GET", f"{old}?property=public").json == []
    assert call("GET", "/admin/v2/namespaces/no/antiAffinity/g?tenant=public").status == 412


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/admin/v3/functions/public/default", 409, "Pulsar Function Worker is not enabled"),
        ("/admin/v3/sources/builtinsources", 409, "Pulsar Function Worker is not enabled"),
        ("/admin/v3/packages/sink/public/default", 503, "No broker is available"),
        ("/admin/v3/packages/song/public/default", 412, "Invalid package domain: 'song'"),
    ],
)
def test_disabled_paths_are_refused_with_that_reason(
    call: Call, path: str, status: int, reason: str
) -> None:
    answer = call("GET", path, headers={"accept": "application/octet-stream"})
    assert answer.status == status
    assert list(answer.json) == ["reason"]
    assert answer.json["reason"].startswith(reason)


def test_paths_unknown_to_pulsar_are_not_found(call: Call) -> None:
    path = "/admin/v2/persistent/public/default/t/subscriptionExpirationTime"
    assert call("GET", path).status == 404
    assert call("DELETE", path).status == 404


def test_a_node_that_holds_legacy_namespaces_is_none_itself(call: Call) -> None:
    assert call("PUT", "/admin/namespaces/public/standalone/persistent", {}).status == 204
    topic = "/admin/persistent/public/standalone/persistent/x"
    assert call("PUT", f"{topic}/partitions", 2).status == 204
    assert call("GET", f"{topic}/partitions").json["partitions"] == 2
    listed = call("GET", "/admin/v2/namespaces/public").json
    assert listed == ["public/default", "public/standalone/persistent"]
    holder = "/admin/v2/namespaces/public/standalone"
    assert call("GET", holder).status == 404
    assert call("POST", f"{holder}/messageTTL", 5).status == 404
    console = "/api/v1/clusters/standalone/tenants/public"
    assert call("GET", f"{console}/namespaces/standalone").status == 404
    page = call("GET", f"{console}/namespaces/standalone%2Fpersistent").json
    assert (page["name"], page["bundles"], page["topics"]) == ("standalone/persistent", 32, 1)
    rows = call("GET", f"{console}/namespaces").json["rows"]
    assert [row["name"] for row in rows] == ["default", "standalone/persistent"]
    assert call("PUT", holder, {}).status == 204
    assert call("GET", holder).status == 200
