"""Effective values of all policies, from the documents of namespaces and topics. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.metadata.records import Document
from engine.tenancy.policies.policy import Level, Policy, completed, find, put
from engine.tenancy.policies.table import POLICIES
from engine.tenancy.settings import PolicySettings

_SUBSCRIPTIONS = "subscriptionPolicies"


class InForce(NamedTuple):
    """Effective value of a policy, and the level that sets it."""

    value: Any
    level: Level


def in_force(
    settings: PolicySettings,
    namespace: Mapping[str, Any],
    topic: Mapping[str, Any],
    everywhere: Mapping[str, Any] | None = None,
) -> dict[str, InForce]:
    """Return the effective value of every policy by name.

    The order of precedence is: the topic's value, its value for all clusters (``everywhere``), the namespace's
    (``namespace`` as ``of_cluster`` returns it), the broker's.
    """
    documents = (
        (Level.TOPIC, topic),
        (Level.GLOBAL, everywhere or {}),
        (Level.NAMESPACE, namespace),
    )
    effective: dict[str, InForce] = {}
    for policy in POLICIES:
        default = policy.default(settings)
        effective[policy.name] = InForce(default, Level.BROKER)
        for level, document in documents:
            value = policy.holds(level, document)
            if value is not None:
                effective[policy.name] = InForce(completed(default, value), level)
                break
    return effective


def of_cluster(document: Mapping[str, Any], cluster: str) -> Document:
    """Return a namespace's policies with the values of ``cluster`` for those that are stored per cluster."""
    policies = dict(document)
    for policy in POLICIES:
        if policy.per_cluster:
            policies[policy.key[0]] = find(document, (*policy.key, cluster))
    return policies


def put_on_namespace(document: Document, policy: Policy, value: Any, cluster: str) -> None:
    """Store ``value`` in a namespace's policies, for ``cluster`` if it is stored per cluster; None removes it."""
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
    """Return the values that a topic's policies set for single subscriptions, by subscription name."""
    values = {
        name: policies.get(policy.per_subscription)
        for name, policies in (topic.get(_SUBSCRIPTIONS) or {}).items()
    }
    return {name: value for name, value in values.items() if value is not None}


def put_on_subscription(topic: Document, policy: Policy, subscription: str, value: Any) -> None:
    """Store ``value`` for one subscription of a topic; None removes it."""
    stored = None if value is None else {policy.per_subscription: value}
    put(topic, (_SUBSCRIPTIONS, subscription), stored)
