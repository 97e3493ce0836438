"""The place that a question about rights names by its query."""

from typing import Any, Protocol

from admin_ui.calls import Parameter, query
from admin_ui.params import Params
from engine.auth.resource_names import (
    CLUSTER,
    Kind,
    Resource,
    SubscriptionName,
    TenantName,
    WholeCluster,
)
from engine.base.errors import InvalidField
from engine.base.names import NamespaceName, TopicName, check_subscription

PLACE = (
    Parameter("tenant"),
    Parameter("namespace", "without the tenant, which must be given"),
    Parameter("topic", "full name; without any of these the cluster"),
)
SUBSCRIPTION = Parameter("subscription", "of the topic")
KINDS: dict[Kind, str] = {
    WholeCluster: "cluster",
    TenantName: "tenant",
    NamespaceName: "namespace",
    TopicName: "topic",
    SubscriptionName: "subscription",
}
"""Kinds of places, with their names in answers."""


class Asking(Protocol):
    """A view whose query names a place."""

    @property
    def request(self) -> Any: ...


def place_of(params: Params) -> Resource:
    """Return the smallest place that the parameters name. Raises InvalidField, InvalidNameError."""
    topic, subscription = params.get("topic", ""), params.get("subscription", "")
    if topic:
        name = TopicName.parse(topic)
        if subscription:
            return SubscriptionName(name, check_subscription(subscription))
        return name
    if subscription:
        raise InvalidField("subscription", "needs topic")
    tenant, namespace = params.get("tenant", ""), params.get("namespace", "")
    if namespace:
        if not tenant:
            raise InvalidField("namespace", "needs tenant")
        return NamespaceName.parse(f"{tenant}/{namespace}")
    return TenantName.parse(tenant) if tenant else CLUSTER


def judged_place(view: Asking) -> Resource:
    """Return the place of the query that is judged: of a subscription its topic. Raises as ``place_of``."""
    place = place_of(query(view.request))
    return place.topic if isinstance(place, SubscriptionName) else place


def parts_of(place: Resource) -> dict[str, str]:
    """Return the parts of a place's name; those that it does not have are empty."""
    topic = place.topic if isinstance(place, SubscriptionName) else place
    name = topic.namespace if isinstance(topic, TopicName) else topic
    tenant = name.name if isinstance(name, TenantName) else ""
    return {
        "kind": KINDS[type(place)],
        "tenant": name.tenant if isinstance(name, NamespaceName) else tenant,
        "namespace": name.below_tenant if isinstance(name, NamespaceName) else "",
        "topic": topic.full if isinstance(topic, TopicName) else "",
        "subscription": place.name if isinstance(place, SubscriptionName) else "",
    }
