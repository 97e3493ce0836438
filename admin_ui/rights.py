"""Rights of the console's calls and channels on the topics and subscriptions that they name, and the parts of the names
of resources."""

from collections.abc import Mapping
from typing import Any

from admin_ui.params import topic_name
from engine.auth.actions import Action
from engine.auth.authorization.evaluator import namespace_of, tenant_of
from engine.auth.resource_names import (
    Kind,
    Resource,
    SubscriptionName,
    TenantName,
    WholeCluster,
)
from engine.auth.rights import Right
from engine.base.names import NamespaceName, TopicName
from gateway.http.auth.access import Named

PLACE = ("domain", "tenant", "namespace", "topic")
"""The parts of a topic's name in paths and in the parameters of channels."""


def topic_at(place: Mapping[str, Any]) -> TopicName:
    """Return the topic that a path or the parameters of a channel name. Raises InvalidField, InvalidNameError."""
    return topic_name(**{part: place[part] for part in PLACE})


def path_topic(view: Named) -> TopicName:
    """Return the topic that the path names. Raises as ``topic_at``."""
    return topic_at(view.kwargs)


def path_subscription(view: Named) -> SubscriptionName:
    """Return the subscription that the path names. Raises as ``topic_at``."""
    return SubscriptionName(path_topic(view), view.kwargs["subscription"])


LOOKUP: Right[Named] = Right(Action.LOOKUP, TopicName, path_topic)
PRODUCE: Right[Named] = Right(Action.PRODUCE, TopicName, path_topic)
CONSUME: Right[Named] = Right(Action.CONSUME, TopicName, path_topic)
CONSUME_SUBSCRIPTION: Right[Named] = Right(Action.CONSUME, SubscriptionName, path_subscription)
ADMIN: Right[Named] = Right(Action.TENANT_ADMIN, TopicName, path_topic)
WATCH_TOPIC: Right[Mapping[str, str]] = Right(Action.LOOKUP, TopicName, topic_at)
"""The right to watch a channel about a topic."""
KINDS: dict[Kind, str] = {
    WholeCluster: "cluster",
    TenantName: "tenant",
    NamespaceName: "namespace",
    TopicName: "topic",
    SubscriptionName: "subscription",
}
"""Kinds of places, with their names in answers."""


def parts_of(place: Resource) -> dict[str, str]:
    """Return the parts of a place's name; those that it does not have are empty."""
    topic = place.topic if isinstance(place, SubscriptionName) else place
    namespace = namespace_of(place)
    return {
        "kind": KINDS[type(place)],
        "tenant": tenant_of(place) or "",
        "namespace": "" if namespace is None else namespace.below_tenant,
        "topic": topic.full if isinstance(topic, TopicName) else "",
        "subscription": place.name if isinstance(place, SubscriptionName) else "",
    }
