"""Permissions of a namespace, its topics and its subscriptions, as Apache Pulsar stores them in ``auth_policies``.

Every change is a compare-and-set on the namespace's
policies, so that no concurrent grant is lost. Functions raise Refusal and the store's errors. After cancellation a
change may or may not have happened.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from engine.auth.authorization.policy_view import NamespaceAccess
from engine.base.errors import Conflict, NotFound
from engine.base.names import NamespaceName, TopicName
from engine.metadata.records import Document, Stored, decode_json
from engine.metadata.store import Found, MetadataStore
from engine.tenancy.namespaces import get_policies, update_policies
from engine.tenancy.policies.policy import find, put

_NAMESPACE = ("auth_policies", "namespace_auth")
_TOPICS = ("auth_policies", "destination_auth")
_SUBSCRIPTIONS = ("auth_policies", "subscription_auth_roles")

Granted = dict[str, list[str]]
"""Actions by role, or roles by subscription."""


async def of_namespace(store: MetadataStore, name: NamespaceName) -> Granted:
    """Return the actions by role. Raises NotFound without the namespace."""
    return _granted(await get_policies(store, name), _NAMESPACE)


async def of_subscriptions(store: MetadataStore, name: NamespaceName) -> Granted:
    """Return the roles by subscription. Raises NotFound without the namespace."""
    return _granted(await get_policies(store, name), _SUBSCRIPTIONS)


async def of_topic(store: MetadataStore, topic: TopicName) -> Granted:
    """Return the actions by role, on the topic and on its namespace. Raises NotFound without the namespace."""
    policies = await get_policies(store, topic.namespace)
    granted = _granted(policies, _NAMESPACE)
    for role, actions in _granted(policies, (*_TOPICS, str(topic))).items():
        granted[role] = list(dict.fromkeys([*granted.get(role, []), *actions]))
    return granted


def _granted(policies: Stored, path: tuple[str, ...]) -> Granted:
    stored: Mapping[str, Sequence[str]] = find(policies, path) or {}
    return {name: list(values) for name, values in stored.items()}


async def grant(
    store: MetadataStore,
    name: NamespaceName,
    role: str,
    actions: list[str],
    *,
    topic: TopicName | None = None,
) -> None:
    """``role`` may do exactly ``actions`` from now on: in the namespace, or on one topic of it. NotFound without the
    namespace."""
    path = _NAMESPACE if topic is None else (*_TOPICS, str(topic))
    try:
        await update_policies(store, name, lambda policies: put(policies, (*path, role), actions))
    except NotFound as error:
        raise NotFound("Topic's namespace does not exist") from error


async def revoke(
    store: MetadataStore, name: NamespaceName, role: str, *, topic: TopicName | None = None
) -> None:
    """Remove the permissions of ``role``; having none is no error. Raises NotFound without the namespace."""

    def change(policies: Document) -> None:
        if topic is None:
            put(policies, (*_NAMESPACE, role), None)
        else:
            _remove_last(policies, _TOPICS, str(topic), role)

    await update_policies(store, name, change)


def _remove_last(policies: Document, path: tuple[str, ...], inner: str, role: str) -> None:
    """Remove a role of a topic, and the topic's entry with its last role."""
    put(policies, (*path, inner, role), None)
    if not find(policies, (*path, inner)):
        put(policies, (*path, inner), None)


async def grant_on_subscription(
    store: MetadataStore, name: NamespaceName, subscription: str, roles: list[str]
) -> None:
    """Replace the roles that may use subscriptions of one name. Raises NotFound without the namespace."""
    await update_policies(
        store, name, lambda policies: put(policies, (*_SUBSCRIPTIONS, subscription), roles)
    )


async def revoke_on_subscription(
    store: MetadataStore, name: NamespaceName, subscription: str, role: str
) -> None:
    """Remove a role of a subscription, and the subscription's entry with its last role.

    Raises NotFound for a subscription that has no roles, and without the namespace.
    """

    def change(policies: Document) -> None:
        require_whole(policies)
        roles = find(policies, (*_SUBSCRIPTIONS, subscription))
        if roles is None:
            raise NotFound(f"couldn't find subscription {subscription}")
        remaining = [other for other in roles if other != role]
        put(policies, (*_SUBSCRIPTIONS, subscription), remaining or None)

    await update_policies(store, name, change)


def require_whole(policies: Stored) -> None:
    """Raise Conflict when the access part of policies is damaged. It gives no right (A32), and a change of a grant
    would make rights of it."""
    damage = NamespaceAccess.of(policies).damage
    if damage:
        raise Conflict(f"The stored policies are damaged ({damage}); repair them first")


def has_grants(policies: Found, topic: TopicName) -> bool:
    """Return whether a namespace's policies, as their node was read, have permissions on a topic."""
    if policies is None or not policies[0]:
        return False
    document = decode_json(policies[0], "policies of a namespace")
    return find(document, (*_TOPICS, str(topic))) is not None


async def forget_topic(store: MetadataStore, topic: TopicName) -> None:
    """Remove the permissions on a topic that is being deleted; a namespace that is deleted too is no error."""
    path = (*_TOPICS, str(topic))
    with suppress(NotFound):
        policies = await get_policies(store, topic.namespace)
        if find(policies, path) is not None:
            await update_policies(store, topic.namespace, lambda stored: put(stored, path, None))


def words_of(policies: Stored, role: str, *, topic: TopicName | None = None) -> list[str]:
    """Return the actions that are granted to a role, as policies of a namespace have them: there, or on one topic."""
    path = _NAMESPACE if topic is None else (*_TOPICS, str(topic))
    return list((find(policies, path) or {}).get(role) or ())


def granted_in(policies: Stored, *, topic: TopicName | None = None) -> Granted:
    """Return the actions by role that policies of a namespace have: there, or on one topic alone."""
    return _granted(policies, _NAMESPACE if topic is None else (*_TOPICS, str(topic)))


def put_words(
    policies: Document, role: str, actions: list[str], *, topic: TopicName | None = None
) -> None:
    """Set the actions that are granted to a role in policies; without an action the role has no entry."""
    if topic is not None and not actions:
        _remove_last(policies, _TOPICS, str(topic), role)
        return
    path = _NAMESPACE if topic is None else (*_TOPICS, str(topic))
    put(policies, (*path, role), actions or None)


def roles_in(policies: Stored, subscription: str) -> list[str]:
    """Return the roles that alone may use a subscription of the namespace; empty where it is open."""
    return list((find(policies, _SUBSCRIPTIONS) or {}).get(subscription) or ())


def put_roles(policies: Document, subscription: str, roles: list[str]) -> None:
    """Set the roles that alone may use a subscription in policies; without a role it is open."""
    put(policies, (*_SUBSCRIPTIONS, subscription), roles or None)
