"""REST refuses with the status and text of Apache Pulsar 4.0.8, as recorded from it, and looks at nothing first."""

import csv
from pathlib import Path
from typing import Any

import pytest

from engine.auth.authorization.refusal_texts import AccessCheck
from gateway.rest.access.refusals import TABLE, checks
from gateway.rest.routes import routes, shape
from tests.support.access.callers import bearer, by_token
from tests.support.admin.gateway_client import Gateway

NEEDS = Path(__file__).with_name("apache_rest_needs.csv")
OPERATION = (
    "Unauthorized to validateTopicOperation for operation [{}] on topic [persistent://cap/n/t]"
)
TENANT = (
    "Unauthorized to validateTenantOperation for originalPrincipal [null] and clientAppId [app]"
    " about operation [{}] on tenant [cap]"
)
TENANT_OR_SUPERUSER = (
    "Unauthorized to validateBothTenantOperationAndSuperUser for originalPrincipal [null] and clientAppId [app]"
    " about operation [{}] "
)
NAMESPACE = "Unauthorized to validateNamespaceOperation for operation [{}] on namespace [cap/n]"
POLICY = "Unauthorized to validateNamespacePolicyOperation for operation [{}] on namespace [cap/n] on policy [{}]"
BROKER = (
    "Unauthorized to validateBothSuperuserAndBrokerOperation for originalPrincipal [null] and clientAppId [app]"
    " about operation [{}] on broker [127.0.0.1:8080]"
)
SUPERUSER = "This operation requires super-user access"
RECORDED: list[tuple[str, str, int, str]] = [
    ("GET", "/admin/v2/tenants", 401, TENANT_OR_SUPERUSER.format("LIST_TENANTS")),
    ("PUT", "/admin/v2/tenants/zz", 401, TENANT_OR_SUPERUSER.format("CREATE_TENANT")),
    ("GET", "/admin/v2/tenants/cap", 401, TENANT_OR_SUPERUSER.format("GET_TENANT")),
    (
        "GET",
        "/admin/v2/clusters/standalone",
        401,
        "Unauthorized to validateBothSuperuserAndClusterOperation for originalPrincipal [null] and clientAppId [app]"
        " about operation [GET_CLUSTER] on cluster [standalone]",
    ),
    ("GET", "/admin/v2/brokers", 401, BROKER.format("LIST_BROKERS")),
    (
        "GET",
        "/admin/v2/brokers/configuration/runtime",
        401,
        BROKER.format("LIST_RUNTIME_CONFIGURATIONS"),
    ),
    ("GET", "/admin/v2/namespaces/cap", 401, TENANT.format("LIST_NAMESPACES")),
    ("PUT", "/admin/v2/namespaces/cap/n2", 401, TENANT.format("CREATE_NAMESPACE")),
    ("GET", "/admin/v2/namespaces/cap/n", 403, POLICY.format("READ", "ALL")),
    ("GET", "/admin/v2/namespaces/cap/n/messageTTL", 403, POLICY.format("READ", "TTL")),
    ("POST", "/admin/v2/namespaces/cap/n/messageTTL", 403, POLICY.format("WRITE", "TTL")),
    ("GET", "/admin/v2/namespaces/cap/n/topics", 403, NAMESPACE.format("GET_TOPICS")),
    ("GET", "/admin/v2/namespaces/cap/n/permissions", 403, NAMESPACE.format("GET_PERMISSION")),
    ("POST", "/admin/v2/namespaces/cap/n/permissions/x", 403, NAMESPACE.format("GRANT_PERMISSION")),
    ("PUT", "/admin/v2/persistent/cap/n/t", 403, NAMESPACE.format("CREATE_TOPIC")),
    ("DELETE", "/admin/v2/persistent/cap/n/t", 403, NAMESPACE.format("DELETE_TOPIC")),
    ("GET", "/admin/v2/persistent/cap/n/t/stats", 401, OPERATION.format("GET_STATS")),
    ("GET", "/admin/v2/persistent/cap/n/t/partitions", 401, OPERATION.format("LOOKUP")),
    (
        "GET",
        "/admin/v2/persistent/cap/n/t/retention",
        403,
        "Unauthorized to validateTopicPolicyOperation for operation [READ] on topic [persistent://cap/n/t]"
        " on policy [RETENTION]",
    ),
    ("GET", "/lookup/v2/topic/persistent/cap/n/t", 401, OPERATION.format("LOOKUP")),
    ("GET", "/admin/v2/schemas/cap/n/t/schema", 401, OPERATION.format("GET_METADATA")),
    ("GET", "/admin/v2/broker-stats/load-report", 401, SUPERUSER),
    ("GET", "/admin/v2/resourcegroups", 401, SUPERUSER),
    ("GET", "/admin/v2/bookies/all", 401, SUPERUSER),
]
"""Answers of Apache's broker to the role ``app``, which has no right; the broker's address is the gateway's here."""


@pytest.mark.parametrize(("method", "path", "status", "text"), RECORDED)
def test_a_role_without_rights_reads_apaches_refusal(
    method: str, path: str, status: int, text: str, call: Gateway, settings: Any
) -> None:
    settings.IDENTITY = by_token(authorization_enabled=True)
    answer = call(method, path, headers=bearer("app"))
    assert (answer.status, answer.json) == (status, {"reason": text})


def test_the_list_of_clusters_is_open_to_every_role(call: Gateway, settings: Any) -> None:
    settings.IDENTITY = by_token(authorization_enabled=True)
    assert call("GET", "/admin/v2/clusters", headers=bearer("app")).json == ["standalone"]


def test_each_call_that_apache_judges_has_its_words() -> None:
    """List only documented calls, and miss none whose need is more than authentication."""
    with NEEDS.open(newline="") as file:
        judged = {
            (row["method"], shape(row["path"]))
            for row in csv.DictReader(file)
            if row["needs"] not in ("authenticated only", "public", "refused for all (405)")
        }
    documented = {(method, form) for form, route in routes().items() for method in route.methods}
    missing = (judged & documented) - checks().keys()
    assert {call for call in missing if not call[1].startswith("/topics/")} == set()
    with TABLE.open(newline="") as file:
        listed = {(row["method"], shape(row["path"])) for row in csv.DictReader(file)}
    assert listed <= documented
    assert {words.check for words in checks().values()} < set(AccessCheck)
