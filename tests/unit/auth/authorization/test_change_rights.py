"""Rights that depend on what a change contains."""

from engine.auth.actions import Action
from engine.auth.authorization.change_rights import judge_change, rights_of_tenant_change
from engine.auth.authorization.policy_view import TenantAccess
from engine.auth.resource_names import CLUSTER, TenantName

TENANT = TenantName("t1")
STORED = TenantAccess.of({"adminRoles": ["boss"], "allowedClusters": ["a", "b"]})
ADMIN = (Action.TENANT_ADMIN, TENANT)


def test_an_administrator_rewrites_its_tenant_but_not_the_clusters() -> None:
    same = TenantAccess.of({"adminRoles": ["boss", "deputy"], "allowedClusters": ["b", "a"]})
    assert rights_of_tenant_change(TENANT, STORED, same) == (ADMIN,)
    for clusters in (["a"], ["a", "b", "c"], [], None):
        wanted = TenantAccess.of({"adminRoles": ["boss"], "allowedClusters": clusters})
        needed = rights_of_tenant_change(TENANT, STORED, wanted)
        assert needed == (ADMIN, (Action.SUPERUSER, CLUSTER))


def test_no_role_changes_read_only_policies() -> None:
    assert judge_change(policies_read_only=False).allowed
    refused = judge_change(policies_read_only=True)
    assert not refused.allowed
    assert "/admin/flags/policies-readonly" in refused.reason
