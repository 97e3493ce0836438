"""Rights of Pulsar's REST calls on what their paths name."""

from typing import Any, Protocol

from engine.auth.actions import Action
from engine.auth.resource_names import SubscriptionName
from engine.auth.rights import Right
from engine.base.names import TopicName
from gateway.services.admin.names import topic_name


class TopicPathView(Protocol):
    """A view whose path names a topic of a domain."""

    @property
    def domain(self) -> str: ...
    @property
    def kwargs(self) -> dict[str, Any]: ...


def path_topic(view: TopicPathView) -> TopicName:
    """Return the topic that the path names. Raises PreconditionFailed."""
    path = view.kwargs
    return topic_name(view.domain, path["tenant"], path["namespace"], path["topic"])


def path_subscription(view: TopicPathView) -> SubscriptionName:
    """Return the subscription that the path names. Raises PreconditionFailed."""
    return SubscriptionName(path_topic(view), view.kwargs["subName"])


LOOKUP: Right[TopicPathView] = Right(Action.LOOKUP, TopicName, path_topic)
PRODUCE: Right[TopicPathView] = Right(Action.PRODUCE, TopicName, path_topic)
CONSUME: Right[TopicPathView] = Right(Action.CONSUME, TopicName, path_topic)
CONSUME_SUBSCRIPTION: Right[TopicPathView] = Right(
    Action.CONSUME, SubscriptionName, path_subscription
)
ADMIN: Right[TopicPathView] = Right(Action.TENANT_ADMIN, TopicName, path_topic)
