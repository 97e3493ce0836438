"""Rights that depend on what a change of a record contains. Pure."""

from engine.auth.actions import Action
from engine.auth.authorization.policy_view import TenantAccess
from engine.auth.judge import ALLOWED, Verdict
from engine.auth.resource_names import CLUSTER, Resource, TenantName


def rights_of_tenant_change(
    name: TenantName, stored: TenantAccess, wanted: TenantAccess
) -> tuple[tuple[Action, Resource], ...]:
    """Return the rights that rewriting a tenant needs.

    Its administrator may rewrite it, but not change its clusters: they bound what the administrator itself may do
    (A15).
    """
    needed: tuple[tuple[Action, Resource], ...] = ((Action.TENANT_ADMIN, name),)
    if stored.allowed_clusters != wanted.allowed_clusters:
        needed += ((Action.SUPERUSER, CLUSTER),)
    return needed


def judge_change(*, policies_read_only: bool) -> Verdict:
    """Return whether stored policies may change now: no role may where /admin/flags/policies-readonly exists."""
    if policies_read_only:
        return Verdict(
            False,
            "Policies are read-only; the node /admin/flags/policies-readonly must be removed first",
        )
    return ALLOWED
