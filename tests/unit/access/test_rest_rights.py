"""Every path of Pulsar's REST interface states the right that Apache Pulsar 4.0.8 requires, or a listed difference with
its reason."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory

from engine.auth.actions import Action
from engine.auth.resource_names import CLUSTER, SubscriptionName, TenantName
from engine.auth.rights import AUTHENTICATED, Right
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.initialization import COORDINATORS
from gateway.http.auth.access import declared_rights
from gateway.rest.base import AdminResource
from gateway.rest.routes import shape
from gateway.rest.urls import table

APACHE = Path(__file__).with_name("apache_rest_needs.csv")
NEEDS: dict[tuple[Action, Any], str] = {
    (Action.SUPERUSER, None): "superuser",
    (Action.AUTHENTICATED, None): "authenticated only",
    (Action.PUBLIC, None): "public",
    (Action.TENANT_ADMIN, TenantName): "tenant admin",
    (Action.TENANT_ADMIN, NamespaceName): "tenant admin",
    (Action.TENANT_ADMIN, TopicName): "tenant admin",
    (Action.LOOKUP, TopicName): "produce or consume",
    (Action.LOOKUP, NamespaceName): "produce or consume (namespace)",
    (Action.PRODUCE, TopicName): "produce",
    (Action.CONSUME, TopicName): "consume",
    (Action.CONSUME, SubscriptionName): "consume",
    (Action.CONSUME, NamespaceName): "consume (namespace)",
    (Action.PACKAGES, NamespaceName): "packages",
    (Action.FUNCTIONS, NamespaceName): "functions",
    (Action.SOURCES, NamespaceName): "sources",
    (Action.SINKS, NamespaceName): "sinks",
}
_TRANSACTIONS = "/admin/v3/transactions"
_TOPIC = "{tenant}/{namespace}/{topic}"
DIFFERENCES: dict[tuple[str, str], tuple[str, str]] = {
    **{
        ("GET", f"{_TRANSACTIONS}/{path}"): (need, "it names topics of any tenant")
        for need, path in (
            ("superuser", "coordinatorInternalStats/{coordinatorId}"),
            ("superuser", "slowTransactions/{timeout}"),
            ("superuser", "transactionMetadata/{mostSigBits}/{leastSigBits}"),
            ("superuser", "coordinators"),
            ("superuser", "coordinatorStats"),
            ("produce or consume", f"transactionBufferStats/{_TOPIC}"),
            ("produce or consume", f"transactionBufferInternalStats/{_TOPIC}"),
            (
                "produce or consume",
                f"transactionInBufferStats/{_TOPIC}/{{mostSigBits}}/{{leastSigBits}}",
            ),
            ("consume", f"pendingAckStats/{_TOPIC}/{{subName}}"),
            ("consume", f"pendingAckInternalStats/{_TOPIC}/{{subName}}"),
            (
                "consume",
                f"transactionInPendingAckStats/{_TOPIC}/{{subName}}/{{mostSigBits}}/{{leastSigBits}}",
            ),
            ("consume", f"positionStatsInPendingAck/{_TOPIC}/{{subName}}/{{ledgerId}}/{{entryId}}"),
        )
    },
    ("DELETE", "/admin/v2/non-persistent/{tenant}/{namespace}/{topic}/truncate"): (
        "tenant admin",
        "Apache refuses it for everybody (405); the same refusal comes behind the right here",
    ),
}
"""Needs stated in place of Apache's, with the reason."""
NOT_LISTED = {
    (
        "GET",
        "/admin/v2/broker-stats/broker-resource-availability/{tenant}/{namespace}",
    ): "superuser",
    ("GET", "/admin/v2/broker-stats/destinations"): "superuser",
    ("GET", "/admin/v2/brokers"): "superuser",
    ("DELETE", "/admin/v2/resourcegroups/{resourcegroup}"): "superuser",
    ("GET", "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema"): "produce or consume",
    (
        "POST",
        "/topics/non-persistent/{tenant}/{namespace}/{topic}/partitions/{partition}",
    ): "produce",
    ("GET", "/metrics"): "public",
    **{
        (method, f"/admin/v2/{path}"): "superuser"
        for method, path in (
            ("GET", "worker-stats/functionsmetrics"),
            ("GET", "worker-stats/metrics"),
            ("GET", "worker/assignments"),
            ("GET", "worker/cluster"),
            ("GET", "worker/cluster/leader"),
            ("GET", "worker/cluster/leader/ready"),
            ("GET", "worker/connectors"),
            ("GET", "worker/drain"),
            ("PUT", "worker/drain"),
            ("GET", "worker/leader/drain"),
            ("PUT", "worker/leader/drain"),
            ("PUT", "worker/rebalance"),
        )
    },
    ("PUT", "/admin/v3/functions/leader/{tenant}/{namespace}/{functionName}"): "superuser",
    ("GET", "/status.html"): "public",
    **{
        (
            "POST",
            f"/admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}/subscription/{{subName}}"
            "/expireMessages/{expireTimeInSeconds}",
        ): "consume"
        for domain in ("persistent", "non-persistent")
    },
}
"""Needs stated for paths that are missing in the list of Apache's needs."""


def needs_of_components() -> dict[tuple[str, str], str]:
    """Return the needs of the calls of functions, sources and sinks, by Apache's own documents: the list has none."""
    needs = {("GET", "/admin/v3/packages/{type}/{tenant}/{namespace}"): "packages"}
    for method, path, view in all_rows():
        tree = path.split("/")[3] if path.startswith("/admin/v") else ""
        if not hasattr(view, "component") or not tree:
            continue
        need = f"{tree.removesuffix('s')}s"
        if tree + "/builtins" in path or "/builtin" in path or path.endswith("/connectors"):
            need = "authenticated only"
        if "/reload" in path or path.endswith(("functions/upload", "functions/download")):
            need = "superuser"
        needs[method, path] = need
    return needs


OLDER = ("/admin/v2/", "/admin/v3/", "/lookup/v2/topic/", "/topics/", "/metrics", "/status.html")
"""Prefixes of paths that are no older form of another path. An older form has the same view."""
Row = tuple[str, str, type[AdminResource]]


def all_rows() -> list[Row]:
    """Return method, path and view of every documented call."""
    return [
        (method, route.template, view)
        for route, view, _ in table()
        for method in sorted(route.methods)
    ]


def built(row: Row) -> bool:
    method, _, view = row
    return hasattr(view, method.lower())


def rights_of(row: Row) -> tuple[Right[Any], ...]:
    method, _, view = row
    return declared_rights(view).get(method, (AUTHENTICATED,))


def needs_of_apache() -> dict[tuple[str, str], str]:
    with APACHE.open(newline="") as file:
        return {(row["method"], shape(row["path"])): row["needs"] for row in csv.DictReader(file)}


def test_every_path_states_apaches_needs_or_a_listed_difference() -> None:
    asked = needs_of_apache()
    wrong, compared = [], 0
    for row in filter(built, all_rows()):
        method, path, _ = row
        if not path.startswith(OLDER):
            continue
        (right,) = rights_of(row)
        stated = NEEDS[right.action, right.kind]
        if (method, path) in DIFFERENCES:
            wanted = DIFFERENCES[method, path][0]
        elif (method, path) in NOT_LISTED:
            wanted = NOT_LISTED[method, path]
        else:
            wanted = asked[method, shape(path)]
            compared += 1
        if stated != wanted:
            wrong.append((method, path, wanted, stated))
    assert wrong == []
    assert compared > 450


def test_listed_exceptions_are_of_calls_that_are_built() -> None:
    calls = {row[:2] for row in filter(built, all_rows())}
    assert {*DIFFERENCES, *NOT_LISTED} <= calls


def test_missing_and_disabled_calls_need_an_authenticated_caller() -> None:
    """Require no further right: the answer is the same for all callers and names nothing."""
    rows = [row for row in all_rows() if not built(row)]
    assert len(rows) > 20
    assert {rights_of(row) for row in rows} == {(AUTHENTICATED,)}


def test_older_forms_of_paths_have_the_view_of_the_newer_one() -> None:
    views = {view for _, path, view in all_rows() if path.startswith(OLDER)}
    older = {(path, view) for _, path, view in all_rows() if not path.startswith(OLDER)}
    own = {path for path, view in older if view not in views}
    assert own == {
        "/admin/namespaces/{tenant}/{cluster}",
        "/admin/namespaces/{cluster}/antiAffinity/{group}",
    }
    assert {
        NEEDS[r.action, r.kind] for row in all_rows() if row[1] in own for r in rights_of(row)
    } == {"tenant admin"}


NOT_LISTED |= needs_of_components()
VALUES = {"tenant": "t", "namespace": "n", "topic": "p", "subName": "s", "domain": "persistent"}


def call_of(path: str, view: type[AdminResource]) -> AdminResource:
    """Return a view set up for a request of this path."""
    names = re.findall(r"\{(\w+)\}", path)
    made = view(**({"domain": "non-persistent"} if "/non-persistent/" in path else {}))
    if view.__name__.startswith("Produce"):
        made = view()
    kwargs = {name: VALUES.get(name, "x") for name in names}
    if "{cluster}/{namespace}" in path:
        kwargs["namespace"] = "c/n"
        del kwargs["cluster"]
    kwargs["served_cluster"] = "standalone"  # as below /clusters/<name>/
    body = b'[{"topic": "persistent://t/n/p", "role": "r"}]'
    request = RequestFactory().generic(
        "POST", "/?tenant=t&property=t", body, content_type="application/json"
    )
    made.setup(request, **kwargs)
    return made


def test_the_resource_is_the_one_that_the_path_names() -> None:
    namespaces = {NamespaceName.of("t", "n"), NamespaceName.parse("t/c/n")}
    for row in filter(built, all_rows()):
        _, path, view = row
        for right in rights_of(row):
            for resource in right.of(call_of(path, view)):
                if right.kind is None:
                    assert resource == CLUSTER
                    continue
                if resource == COORDINATORS:
                    assert "transactions/coordinator" in path
                    continue
                assert type(resource) is right.kind, path
                if isinstance(resource, TopicName | SubscriptionName):
                    topic = resource.topic if isinstance(resource, SubscriptionName) else resource
                    domain = "non-persistent" if "/non-persistent/" in path else "persistent"
                    assert (topic.persistent, topic.namespace in namespaces, topic.local) == (
                        domain == "persistent",
                        True,
                        "p",
                    ), path
                elif isinstance(resource, NamespaceName):
                    assert resource in namespaces
                else:
                    assert resource == TenantName("t")


def test_a_view_without_the_right_of_a_method_makes_no_url() -> None:
    class OnlyReads(AdminResource):
        read_rights = AUTHENTICATED

        async def get(self, request: Any) -> Any: ...

        async def post(self, request: Any) -> Any: ...

    with pytest.raises(TypeError, match=r"OnlyReads: POST has no right; `write_rights`"):
        OnlyReads.as_view()
