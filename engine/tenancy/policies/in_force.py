"""What the documents of namespaces and topics say of all policies, and which value holds. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.metadata.records import Document
from engine.tenancy.policies.policy import Level, Policy, completed, find, put
from engine.tenancy.policies.table import POLICIES
from engine.tenancy.settings import PolicySettings

_SUBSCRIPTIONS = "subscriptionPolicies"


class InForce(NamedTuple):
    """A policy's value where it acts, and the level it comes from."""

    value: Any
    level: Level


def in_force(
    settings: PolicySettings,
    namespace: Mapping[str, Any],
    topic: Mapping[str, Any],
    everywhere: Mapping[str, Any] | None = None,
) -> dict[str, InForce]:
    """Every policy's value by name: the topic's, else what is set for it in all clusters (``everywhere``), else the
    namespace's (``of_cluster``), else the broker's."""
    documents = (
        (Level.TOPIC, topic),
        (Level.GLOBAL, everywhere or {}),
        (Level.NAMESPACE, namespace),
    )
    found: dict[str, InForce] = {}
    for policy in POLICIES:
        default = policy.default(settings)
        found[policy.name] = InForce(default, Level.BROKER)
        for level, document in documents:
            value = policy.holds(level, document)
            if value is not None:
                found[policy.name] = InForce(completed(default, value), level)
                break
    return found


def of_cluster(document: Mapping[str, Any], cluster: str) -> Document:
    """A namespace's policies as ``cluster`` has them: of those that each has its own of, this one's."""
    found = dict(document)
    for policy in POLICIES:
        if policy.per_cluster:
            found[policy.key[0]] = find(document, (*policy.key, cluster))
    return found


def put_on_namespace(document: Document, policy: Policy, value: Any, cluster: str) -> None:
    """Store ``value``, of ``cluster`` where each has its own; None removes it."""
    if not policy.per_cluster:
        if policy.within is not None:
            if value is None and find(document, policy.key) is None:
                return
            document.setdefault(policy.key[0], dict(policy.within))
        put(document, policy.key, policy.removed if value is None else value)
        return
    put(document, (*policy.key, cluster), value)
    if policy.also:
        put(document, (policy.also, cluster), value)


def of_subscriptions(topic: Mapping[str, Any], policy: Policy) -> Document:
    """What a topic's policies say for single subscriptions, by name."""
    found = {
        name: one.get(policy.per_subscription)
        for name, one in (topic.get(_SUBSCRIPTIONS) or {}).items()
    }
    return {name: value for name, value in found.items() if value is not None}


def put_on_subscription(topic: Document, policy: Policy, subscription: str, value: Any) -> None:
    """Store ``value`` for one subscription; None removes it."""
    stored = None if value is None else {policy.per_subscription: value}
    put(topic, (_SUBSCRIPTIONS, subscription), stored)
