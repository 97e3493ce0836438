"""The place that a call names by its query: the cluster, or a tenant, namespace, topic or subscription."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from admin_ui.calls import Parameter, query
from admin_ui.params import Params
from engine.auth.actions import Action
from engine.auth.resource_names import (
    CLUSTER,
    Resource,
    SubscriptionName,
    TenantName,
    WholeCluster,
)
from engine.auth.rights import Right
from engine.base.errors import InvalidField
from engine.base.names import NamespaceName, TopicName, check_subscription

PLACE = (
    Parameter("tenant"),
    Parameter("namespace", "without the tenant, which must be given"),
    Parameter("topic", "full name; without any of these the cluster"),
)
SUBSCRIPTION = Parameter("subscription", "of the topic")
K = TypeVar("K", TenantName, NamespaceName, TopicName, WholeCluster)


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


def _if(kind: type[K]) -> Callable[[Asking], tuple[K, ...]]:
    """Return a function that returns the place of the query if it is of this kind, of a subscription its topic."""

    def resources(view: Asking) -> tuple[K, ...]:
        place = place_of(query(view.request))
        judged = place.topic if isinstance(place, SubscriptionName) else place
        return (judged,) if isinstance(judged, kind) else ()

    return resources


ADMIN_OF_PLACE = (
    Right(Action.TENANT_ADMIN, TenantName, _if(TenantName)),
    Right(Action.TENANT_ADMIN, NamespaceName, _if(NamespaceName)),
    Right(Action.TENANT_ADMIN, TopicName, _if(TopicName)),
    Right(Action.SUPERUSER, WholeCluster, _if(WholeCluster)),
)
"""The right to administer the place that the query names."""
SEE_PLACE = (
    Right(Action.TENANT_ADMIN, TenantName, _if(TenantName)),
    Right(Action.LOOKUP, NamespaceName, _if(NamespaceName)),
    Right(Action.LOOKUP, TopicName, _if(TopicName)),
    Right(Action.SUPERUSER, WholeCluster, _if(WholeCluster)),
)
"""The right to see the place that the query names."""
