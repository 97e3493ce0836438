"""Permissions of a namespace, of its topics and subscriptions, as Apache Pulsar stores them in ``auth_policies``.

They are kept and answered; nobody asks for them yet. Every change is a compare-and-set on the namespace's policies, so
that of many who grant at once none is lost. Raises Refusal, and the store's own errors. Cancelled: a change may or may
not have happened.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from engine.base.errors import NotFound
from engine.base.names import NamespaceName, TopicName
from engine.metadata.records import Document, Stored
from engine.metadata.store import MetadataStore
from engine.tenancy.namespaces import get_policies, update_policies
from engine.tenancy.policies.policy import find, put

_NAMESPACE = ("auth_policies", "namespace_auth")
_TOPICS = ("auth_policies", "destination_auth")
_SUBSCRIPTIONS = ("auth_policies", "subscription_auth_roles")

Granted = dict[str, list[str]]
"""Actions by role, or roles by subscription."""


async def of_namespace(store: MetadataStore, name: NamespaceName) -> Granted:
    """Actions by role. NotFound without the namespace."""
    return _found(await get_policies(store, name), _NAMESPACE)


async def of_subscriptions(store: MetadataStore, name: NamespaceName) -> Granted:
    """Roles by subscription. NotFound without the namespace."""
    return _found(await get_policies(store, name), _SUBSCRIPTIONS)


async def of_topic(store: MetadataStore, topic: TopicName) -> Granted:
    """Actions by role: those on the topic beside those on its namespace. NotFound without the namespace."""
    policies = await get_policies(store, topic.namespace)
    found = _found(policies, _NAMESPACE)
    for role, actions in _found(policies, (*_TOPICS, str(topic))).items():
        found[role] = list(dict.fromkeys([*found.get(role, []), *actions]))
    return found


def _found(policies: Stored, path: tuple[str, ...]) -> Granted:
    found: Mapping[str, Sequence[str]] = find(policies, path) or {}
    return {name: list(values) for name, values in found.items()}


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
    """Forget what was granted to ``role``; nothing was is fine. NotFound without the namespace."""

    def change(policies: Document) -> None:
        if topic is None:
            put(policies, (*_NAMESPACE, role), None)
        else:
            _remove_last(policies, _TOPICS, str(topic), role)

    await update_policies(store, name, change)


def _remove_last(policies: Document, path: tuple[str, ...], inner: str, role: str) -> None:
    """Remove a role of a topic, which is not listed any more without one."""
    put(policies, (*path, inner, role), None)
    if not find(policies, (*path, inner)):
        put(policies, (*path, inner), None)


async def grant_on_subscription(
    store: MetadataStore, name: NamespaceName, subscription: str, roles: list[str]
) -> None:
    """Exactly ``roles`` may use subscriptions of that name from now on. NotFound without the namespace."""
    await update_policies(
        store, name, lambda policies: put(policies, (*_SUBSCRIPTIONS, subscription), roles)
    )


async def revoke_on_subscription(
    store: MetadataStore, name: NamespaceName, subscription: str, role: str
) -> None:
    """Take one role away; the subscription is not listed any more without one. NotFound for a subscription that has no
    roles, and without the namespace."""

    def change(policies: Document) -> None:
        roles = find(policies, (*_SUBSCRIPTIONS, subscription))
        if roles is None:
            raise NotFound(f"couldn't find subscription {subscription}")
        left = [one for one in roles if one != role]
        put(policies, (*_SUBSCRIPTIONS, subscription), left or None)

    await update_policies(store, name, change)


async def forget_topic(store: MetadataStore, topic: TopicName) -> None:
    """Forget what was granted on a topic that is being deleted; its namespace may be on its way out, too."""
    path = (*_TOPICS, str(topic))
    with suppress(NotFound):
        policies = await get_policies(store, topic.namespace)
        if find(policies, path) is not None:
            await update_policies(store, topic.namespace, lambda stored: put(stored, path, None))
