"""The routes of policies have the methods that Pulsar documents for them."""

import pytest

from engine.tenancy.policies.policy import Level, Policy
from engine.tenancy.policies.table import OFFLOADING, POLICIES
from gateway.rest.policies import NAMESPACE_PATH, TOPIC_PATH
from gateway.rest.routes import routes, shape

ROUTES = [
    pytest.param(policy, level, id=f"{policy.name}-{level}")
    for policy in POLICIES
    for level in (Level.NAMESPACE, Level.TOPIC)
    if policy.route_at(level) is not None
]


@pytest.mark.parametrize(("policy", "level"), ROUTES)
def test_a_route_sets_and_removes_by_the_documented_methods(policy: Policy, level: Level) -> None:
    route = policy.route_at(level)
    assert route is not None
    parent = NAMESPACE_PATH if level is Level.NAMESPACE else TOPIC_PATH
    documented = routes()[shape(f"{parent}/{route.path}")].methods - {"GET"}
    removal = {route.removal.method} if route.removal else set()
    assert {route.method} | removal == documented


def test_a_policy_without_a_removal_has_none_in_pulsar() -> None:
    kept = {
        policy.name
        for policy in POLICIES
        for level in (Level.NAMESPACE, Level.TOPIC)
        if (route := policy.route_at(level)) is not None and route.removal is None
    }
    assert kept == {
        "schemaAutoUpdateCompatibilityStrategy",
        "isAllowAutoUpdateSchema",
        "schemaValidationEnforced",
        "subscriptionAuthMode",
        "replication",
        "allowedClusters",
        OFFLOADING.name,
        "offloadThreshold",
        "offloadThresholdInSeconds",
    }
