"""Reasons of rights: which roles may do what on a resource, what a role may do, and what gives them each right. Pure.

Every verdict is the evaluator's, so that a page made of this says what the judge does (A1). The records are searched
only for what gives a right that the judge allows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import (
    GRANTS,
    AccessRules,
    judge,
    matches,
    namespace_of,
    tenant_of,
)
from engine.auth.authorization.policy_view import (
    Granted,
    NamespaceAccess,
    PolicyView,
    WholePolicyView,
)
from engine.auth.identity import Identity
from engine.auth.resource_names import (
    CLUSTER,
    Kind,
    Resource,
    SubscriptionName,
    TenantName,
    WholeCluster,
)
from engine.base.errors import InvalidNameError
from engine.base.names import NamespaceName, TopicName

OF_NAMESPACE = (*GRANTS, Action.TENANT_ADMIN)
"""Actions on a namespace; publishing and consuming there is that of every topic of it."""
ACTIONS: dict[Kind, tuple[Action, ...]] = {
    WholeCluster: (Action.SUPERUSER,),
    TenantName: (Action.TENANT_ADMIN,),
    NamespaceName: OF_NAMESPACE,
    TopicName: (Action.LOOKUP, Action.PRODUCE, Action.CONSUME, Action.TENANT_ADMIN),
    SubscriptionName: (Action.CONSUME,),
}
"""The actions that are shown of a resource."""
ANY_TOPIC = "any"
"""Local name of a topic without grants of its own, made longer where there is one of this name."""


class RightSource(Enum):
    """The kinds of things that give a right."""

    SUPERUSER = "superuser"
    TENANT_ADMIN = "tenant admin"
    GRANT = "grant"


@dataclass(frozen=True, slots=True)
class RightReason:
    """A thing that gives a role a right: a list that has the role, or a grant.

    ``place``: the resource of the list or grant. ``role``: the role that is listed there, or the pattern that matches.
    ``words``: the granted actions that give the right; empty unless it is a grant.
    """

    source: RightSource
    place: Resource
    role: str
    words: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The basis as a sentence."""
        match self.source:
            case RightSource.SUPERUSER:
                return f"{self.role} is a superuser, by the setting super_user_roles"
            case RightSource.TENANT_ADMIN:
                return f"{self.role} is an administrator of tenant {self.place}"
            case RightSource.GRANT:
                verb = "is" if len(self.words) == 1 else "are"
                words = " and ".join(self.words)
                return f"{words} {verb} granted to {self.role} on {self.place}"


def bases_of(
    role: str, action: Action, resource: Resource, view: PolicyView, rules: AccessRules
) -> tuple[RightReason, ...]:
    """Return all that gives a role an action of ``ACTIONS``; empty exactly where the judge refuses it.

    Raises NotKnown, from the view.
    """
    if not judge(Identity(role), action, resource, view, rules).allowed:
        return ()
    return tuple(_bases(role, action, resource, view, rules))


def _bases(
    role: str, action: Action, resource: Resource, view: PolicyView, rules: AccessRules
) -> Iterator[RightReason]:
    if role in rules.superusers:
        yield RightReason(RightSource.SUPERUSER, CLUSTER, role)
    tenant = tenant_of(resource)
    record = None if tenant is None else view.tenant(tenant)
    if tenant is not None and record is not None and role in record.administrators:
        yield RightReason(RightSource.TENANT_ADMIN, TenantName(tenant), role)
    wanted = GRANTS.get(action, ())
    for place, granted in _grants_on(resource, view):
        for pattern, words in granted.items():
            if pattern == role or (rules.wildcards and matches(pattern, role)):
                given = tuple(word for word in wanted if word in words)
                if given:
                    yield RightReason(RightSource.GRANT, place, pattern, given)


def _grants_on(
    resource: Resource, view: PolicyView
) -> Iterator[tuple[NamespaceName | TopicName, Granted]]:
    """Yield the grants that count for a resource, with the places that they are on."""
    namespace = namespace_of(resource)
    access = None if namespace is None else view.namespace(namespace)
    if namespace is None or access is None:
        return
    yield namespace, access.granted
    topic = resource.topic if isinstance(resource, SubscriptionName) else resource
    if isinstance(topic, TopicName):
        for place in dict.fromkeys((topic, topic.partitioned)):
            yield place, access.topics.get(place.full, {})


@dataclass(frozen=True, slots=True)
class RoleAccess:
    """The rights of a role on one resource: each action that is allowed, with all that gives it."""

    role: str
    is_pattern: bool
    allowed: tuple[tuple[Action, tuple[RightReason, ...]], ...]


def roles_at(resource: Resource, view: PolicyView, rules: AccessRules) -> list[RoleAccess]:
    """Return the roles that the records of a resource name, with what each may do there: those that may do most come
    first. Raises NotKnown, from the view."""
    rows = [
        RoleAccess(role, is_pattern(role, rules), _allowed(role, resource, view, rules))
        for role in sorted(_named_at(resource, view, rules))
    ]
    return sorted(rows, key=lambda row: (-len(row.allowed), row.role))


def is_pattern(role: str, rules: AccessRules) -> bool:
    """Return whether a granted role stands for all roles that it matches."""
    return rules.wildcards and (role.startswith("*") or role.endswith("*"))


def _allowed(
    role: str, resource: Resource, view: PolicyView, rules: AccessRules
) -> tuple[tuple[Action, tuple[RightReason, ...]], ...]:
    asked = (
        (action, bases_of(role, action, judged_as(action, resource, view), view, rules))
        for action in ACTIONS[type(resource)]
    )
    return tuple((action, bases) for action, bases in asked if bases)


def judged_as(action: Action, resource: Resource, view: PolicyView) -> Resource:
    """Return what is judged for an action that is shown of a resource: for consuming in a namespace any topic of it,
    since the namespace itself stands for clearing all its subscriptions."""
    if action is Action.CONSUME and isinstance(resource, NamespaceName):
        access = view.namespace(resource)
        return resource if access is None else any_topic(resource, access)
    return resource


def _named_at(resource: Resource, view: PolicyView, rules: AccessRules) -> set[str]:
    named = set(rules.superusers)
    tenant = tenant_of(resource)
    record = None if tenant is None else view.tenant(tenant)
    if record is not None:
        named |= record.administrators
    for _, granted in _grants_on(resource, view):
        named |= granted.keys()
    if isinstance(resource, SubscriptionName):
        access = view.namespace(resource.topic.namespace)
        named |= (
            frozenset() if access is None else access.subscriptions.get(resource.name, frozenset())
        )
    return named


@dataclass(frozen=True, slots=True)
class Reach:
    """A resource that a role may do something on; see ``RoleAccess``."""

    resource: Resource
    allowed: tuple[tuple[Action, tuple[RightReason, ...]], ...]


def reach_of(role: str, view: WholePolicyView, rules: AccessRules) -> Iterator[Reach]:
    """Yield what a role may do, on the largest resources that it may do it on.

    A superuser reaches the cluster, an administrator its tenants; what is in them is not listed. A topic is listed with
    the actions that its namespace does not give, a subscription where it is closed to others. Raises NotKnown, from the
    view.
    """
    allowed = _allowed(role, CLUSTER, view, rules)
    if allowed:
        yield Reach(CLUSTER, allowed)
        return
    administered = set()
    for name in sorted(view.tenants()):
        if allowed := _allowed(role, TenantName(name), view, rules):
            administered.add(name)
            yield Reach(TenantName(name), allowed)
    for namespace in sorted(view.namespaces(), key=str):
        access = view.namespace(namespace)
        if access is not None and namespace.tenant not in administered:
            yield from _reach_in(role, namespace, access, view, rules)


def _reach_in(
    role: str, name: NamespaceName, access: NamespaceAccess, view: PolicyView, rules: AccessRules
) -> Iterator[Reach]:
    allowed = _allowed(role, name, view, rules)
    on_all = {action for action, _ in allowed}
    if allowed:
        yield Reach(name, allowed)
    for topic in _topics_of(access):
        more = tuple(
            (action, bases)
            for action, bases in _allowed(role, topic, view, rules)
            if action not in on_all
        )
        if more:
            yield Reach(topic, more)
    for subscription, roles in sorted(access.subscriptions.items()):
        if role in roles:
            yield from _closed(role, subscription, name, access, view, rules)


def _closed(
    role: str,
    subscription: str,
    name: NamespaceName,
    access: NamespaceAccess,
    view: PolicyView,
    rules: AccessRules,
) -> Iterator[Reach]:
    """Yield a subscription that is closed to others, on all topics of the namespace or on those with a grant."""
    everywhere = SubscriptionName(any_topic(name, access), subscription)
    for topic in (everywhere.topic, *_topics_of(access)):
        place = SubscriptionName(topic, subscription)
        if allowed := _allowed(role, place, view, rules):
            yield Reach(place, allowed)
            if place == everywhere:
                return


def _topics_of(access: NamespaceAccess) -> Iterator[TopicName]:
    """Yield the topics with grants of their own. A stored name that no topic may have gives no right."""
    for full in sorted(access.topics):
        with suppress(InvalidNameError):
            yield TopicName.parse(full)


def any_topic(name: NamespaceName, access: NamespaceAccess) -> TopicName:
    """Return a topic of the namespace that has no grants of its own: it stands for all of them."""
    topic = name.topic(ANY_TOPIC)
    while topic.full in access.topics:
        topic = name.topic(f"{topic.local}-")
    return topic


@dataclass(slots=True)
class RoleCounts:
    """Numbers of records that name a role."""

    is_superuser: bool = False
    is_proxy: bool = False
    tenants: int = 0
    """Tenants that it administers."""
    namespaces: set[str] = field(default_factory=set)
    """Namespaces on which, or on topics of which, something is granted to it, or with a subscription of its own."""
    grants: int = 0
    """Grants on namespaces and on topics."""
    subscriptions: int = 0


def counts_of_roles(
    view: WholePolicyView, rules: AccessRules, tenants: Iterable[str] | None
) -> dict[str, RoleCounts]:
    """Return the roles that records name, patterns among them, by name.

    ``tenants``: only of these, without the roles of the settings; None: of all. Raises NotKnown, from the view.
    """
    counts: defaultdict[str, RoleCounts] = defaultdict(RoleCounts)
    if tenants is None:
        for role in rules.superusers:
            counts[role].is_superuser = True
        for role in rules.proxies:
            counts[role].is_proxy = True
    wanted = frozenset(view.tenants() if tenants is None else tenants)
    for name in wanted:
        record = view.tenant(name)
        for role in record.administrators if record is not None else ():
            counts[role].tenants += 1
    for namespace in view.namespaces():
        access = view.namespace(namespace)
        if access is not None and namespace.tenant in wanted:
            _count_namespace(str(namespace), access, counts)
    return dict(counts)


def _count_namespace(
    name: str, access: NamespaceAccess, counts: defaultdict[str, RoleCounts]
) -> None:
    for granted in (access.granted, *access.topics.values()):
        for role in granted:
            counts[role].grants += 1
            counts[role].namespaces.add(name)
    for roles in access.subscriptions.values():
        for role in roles:
            counts[role].subscriptions += 1
            counts[role].namespaces.add(name)
