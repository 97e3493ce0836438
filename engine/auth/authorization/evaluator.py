"""Authorization by Pulsar's rules: superusers, administrators of tenants, and grants. Pure and synchronous.

A superuser may do everything, an administrator of a tenant everything in it, any other role what is granted to it on
the namespace or the topic. A right never depends on whether what it names exists, so that a refusal says nothing of it
(A12).
"""

from dataclasses import dataclass

from engine.auth.actions import UNJUDGED, Action
from engine.auth.authorization.policy_view import Granted, NamespaceAccess, PolicyView
from engine.auth.authorization.refusal_texts import PREFIX_REFUSAL
from engine.auth.identity import Identity
from engine.auth.internal import INTERNAL_METHOD, INTERNAL_ROLE
from engine.auth.judge import ALLOWED, Verdict
from engine.auth.resource_names import Resource, SubscriptionName, TenantName, WholeCluster
from engine.base.names import FUNCTION_STATE_PREFIX, SYSTEM_PREFIX, NamespaceName, TopicName

GRANTS: dict[Action, tuple[str, ...]] = {
    Action.LOOKUP: ("produce", "consume"),
    Action.PRODUCE: ("produce",),
    Action.CONSUME: ("consume",),
    Action.PACKAGES: ("packages",),
    Action.FUNCTIONS: ("functions",),
    Action.SOURCES: ("sources",),
    Action.SINKS: ("sinks",),
}
"""The grants of which any one allows an action. An action that is not here cannot be granted."""
CHANGE_EVENTS = "__change_events"
"""Local name of the topic of each namespace that holds its topics' policies."""
GLOBAL_CLUSTER = "global"
ROLE_LENGTH_SHOWN = 100


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Settings of authorization.

    ``cluster``: the name of the judge's own cluster. ``wildcards``: whether a granted role that begins or ends with
    ``*`` is a pattern. Superusers, proxies and administrators are compared exactly.
    """

    superusers: frozenset[str] = frozenset()
    proxies: frozenset[str] = frozenset()
    cluster: str = ""
    wildcards: bool = False


def judge(
    identity: Identity, action: Action, resource: Resource, view: PolicyView, rules: AccessRules
) -> Verdict:
    """Return whether ``identity`` may do ``action`` on ``resource``.

    A refusal says what is missing and who can give it. Of a call that a proxy passes on, the proxy and the client that
    it acts for both need the right (A13). Raises NotKnown, from the view.
    """
    if action in UNJUDGED:
        return ALLOWED
    roles = roles_of(identity)
    if not all(roles):
        return Verdict(False, "The client is not authenticated; it must present credentials")
    if roles[-1] in rules.proxies:
        return Verdict(
            False,
            f"role {shown(roles[-1])} is a proxy's; it must name a client, which is no proxy",
        )
    for role in roles[1:] if _is_internal(identity) else roles:
        if role not in rules.superusers:
            verdict = _of_role(role, action, resource, view, rules)
            if not verdict.allowed:
                return verdict
    return ALLOWED


def roles_of(identity: Identity) -> tuple[str, ...]:
    """Return the roles that must each have a right: the client's own, and of a proxy then that of its client."""
    own = identity.role or ""
    return (own,) if identity.original is None else (own, identity.original)


def _is_internal(identity: Identity) -> bool:
    """Return whether the caller is a process of the instance: its role counts only with the method of its token."""
    return (identity.role, identity.method) == (INTERNAL_ROLE, INTERNAL_METHOD)


def _of_role(
    role: str, action: Action, resource: Resource, view: PolicyView, rules: AccessRules
) -> Verdict:
    if action is Action.AUTHENTICATED:
        return ALLOWED
    tenant = tenant_of(resource)
    if action is Action.SUPERUSER or tenant is None:
        return Verdict(
            False, f"role {shown(role)} is no superuser; the setting super_user_roles makes it one"
        )
    record = view.tenant(tenant)
    if record is not None and role in record.administrators:
        return ALLOWED
    if action not in GRANTS or isinstance(resource, TenantName | WholeCluster):
        return Verdict(
            False,
            f"role {shown(role)} is no administrator of tenant {tenant}; a superuser can make it one",
        )
    return _of_grants(role, action, resource, view, rules)


def tenant_of(resource: Resource) -> str | None:
    """Return the tenant that a resource belongs to; None for the cluster."""
    match resource:
        case TenantName():
            return resource.name
        case SubscriptionName():
            return resource.topic.tenant
        case NamespaceName() | TopicName():
            return resource.tenant
        case WholeCluster():
            return None


def namespace_of(resource: Resource) -> NamespaceName | None:
    """Return the namespace that a resource is or belongs to; None for the cluster and a tenant."""
    match resource:
        case SubscriptionName():
            return resource.topic.namespace
        case TopicName():
            return resource.namespace
        case NamespaceName():
            return resource
        case TenantName() | WholeCluster():
            return None


def _of_grants(
    role: str,
    action: Action,
    resource: NamespaceName | TopicName | SubscriptionName,
    view: PolicyView,
    rules: AccessRules,
) -> Verdict:
    """Return the verdict about a role that administers nothing here."""
    topic = resource.topic if isinstance(resource, SubscriptionName) else resource
    namespace = topic.namespace if isinstance(topic, TopicName) else topic
    if _is_closed(action, topic):
        return Verdict(
            False,
            f"role {shown(role)} may not {action.value} on {topic}, which is the cluster's own;"
            f" only an administrator of tenant {namespace.tenant} may",
        )
    access = view.namespace(namespace)
    wanted = GRANTS[action]
    if access is None or not (
        namespace.cluster in (None, GLOBAL_CLUSTER, rules.cluster)
        and _is_granted(role, wanted, topic, access, rules)
    ):
        return Verdict(
            False,
            f"role {shown(role)} lacks {' or '.join(wanted)} on {topic};"
            f" a tenant admin of {namespace.tenant} can grant it",
        )
    if isinstance(resource, SubscriptionName):
        return _of_subscription(role, resource, access)
    if action is Action.CONSUME and isinstance(resource, NamespaceName):
        return _of_all_subscriptions(role, resource, access)
    return ALLOWED


def _is_closed(action: Action, resource: NamespaceName | TopicName) -> bool:
    """Return whether no grant allows an action on a topic, because it is the cluster's own (A12).

    Publishing there sets policies, and no limit counts on such a topic; consuming may create one. The log of policies
    may be read.
    """
    if not isinstance(resource, TopicName) or not resource.local.startswith(SYSTEM_PREFIX):
        return False
    if resource.local.startswith(FUNCTION_STATE_PREFIX):
        return False
    is_log = resource.partitioned.local == CHANGE_EVENTS
    return action is Action.PRODUCE or (action is Action.CONSUME and not is_log)


def _is_granted(
    role: str,
    wanted: tuple[str, ...],
    resource: NamespaceName | TopicName,
    access: NamespaceAccess,
    rules: AccessRules,
) -> bool:
    if _has(role, wanted, access.granted, rules):
        return True
    if not isinstance(resource, TopicName):
        # A grant on one topic is none on its namespace.
        return False
    # Apache before 4.0 wrote a grant for each partition, later ones for the partitioned topic.
    topics = (resource,) if resource.partition < 0 else (resource, resource.partitioned)
    return any(_has(role, wanted, access.topics.get(topic.full, {}), rules) for topic in topics)


def _has(role: str, wanted: tuple[str, ...], granted: Granted, rules: AccessRules) -> bool:
    if not granted.get(role, frozenset()).isdisjoint(wanted):
        return True
    return rules.wildcards and any(
        matches(pattern, role) and not actions.isdisjoint(wanted)
        for pattern, actions in granted.items()
    )


def matches(pattern: str, role: str) -> bool:
    """Return whether a granted role that begins or ends with ``*`` matches; without one it is no pattern."""
    return (pattern.endswith("*") and role.startswith(pattern[:-1])) or (
        pattern.startswith("*") and role.endswith(pattern[1:])
    )


def _of_subscription(role: str, subscription: SubscriptionName, access: NamespaceAccess) -> Verdict:
    """Return the verdict about a role that may consume the topic, by the rules of subscriptions (A14)."""
    roles = access.subscriptions.get(subscription.name)
    if roles is not None and role not in roles:
        return Verdict(
            False,
            f"role {shown(role)} is not among the roles of {subscription};"
            f" a tenant admin of {subscription.topic.tenant} can add it",
        )
    if access.prefixed and not has_prefix(subscription.name, role):
        return Verdict(
            False,
            f"{subscription} does not begin with {shown(role)}-, as this namespace demands;"
            f" a tenant admin of {subscription.topic.tenant} can change subscription_auth_mode",
            PREFIX_REFUSAL.format(role=shown(role), topic=subscription.topic),
        )
    return ALLOWED


def has_prefix(subscription: str, role: str) -> bool:
    """Return whether a subscription is named after a role: ``app`` or ``app-…``, but not ``application``."""
    return subscription == role or subscription.startswith(f"{role}-")


def _of_all_subscriptions(role: str, namespace: NamespaceName, access: NamespaceAccess) -> Verdict:
    """Return the verdict about a role that consumes the namespace: no subscription in it may be closed to the role."""
    if access.prefixed or any(role not in roles for roles in access.subscriptions.values()):
        return Verdict(
            False,
            f"role {shown(role)} may not use all subscriptions of {namespace};"
            f" a tenant admin of {namespace.tenant} can do it",
        )
    return ALLOWED


def shown(role: str) -> str:
    """Return a role as one line of bounded length."""
    if len(role) <= ROLE_LENGTH_SHOWN and role.isprintable():
        return role
    return repr(role[:ROLE_LENGTH_SHOWN])
