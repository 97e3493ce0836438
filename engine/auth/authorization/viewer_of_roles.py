"""The viewer of an identity: which namespaces and tenants its lists and sums contain. Pure.

It sees a namespace exactly where it may list the namespace's topics (A16). A grant on one topic alone shows no
namespace, since the names of the topic's neighbours would come with it.
"""

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import AccessRules, judge
from engine.auth.authorization.policy_view import WholePolicyView
from engine.auth.identity import Identity
from engine.auth.resource_names import CLUSTER, TenantName
from engine.auth.viewer import ALL, Viewer


def viewer_for(identity: Identity, view: WholePolicyView, rules: AccessRules) -> Viewer:
    """Return what ``identity`` may see; behind a proxy, what both roles may. Raises NotKnown, from the view."""
    if judge(identity, Action.SUPERUSER, CLUSTER, view, rules).allowed:
        return ALL
    tenants = frozenset(
        name
        for name in view.tenants()
        if judge(identity, Action.TENANT_ADMIN, TenantName(name), view, rules).allowed
    )
    namespaces = frozenset(
        str(name)
        for name in view.namespaces()
        if name.tenant not in tenants and judge(identity, Action.LOOKUP, name, view, rules).allowed
    )
    return Viewer(namespaces, tenants)
