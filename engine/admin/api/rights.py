"""Rights that the operations need, on what their arguments name. Pure."""

from engine.admin.api.arguments import OnBundle, OnSubscription, OnTopic
from engine.auth.actions import Action
from engine.auth.resource_names import SubscriptionName
from engine.auth.rights import Right
from engine.base.names import NamespaceName, TopicName


def _topic(args: OnTopic) -> TopicName:
    return args.topic


def _subscription(args: OnSubscription) -> SubscriptionName:
    return SubscriptionName(args.topic, args.subscription)


def _namespace(args: OnBundle) -> NamespaceName:
    return args.namespace


LOOKUP_TOPIC: Right[OnTopic] = Right(Action.LOOKUP, TopicName, _topic)
PRODUCE: Right[OnTopic] = Right(Action.PRODUCE, TopicName, _topic)
CONSUME: Right[OnTopic] = Right(Action.CONSUME, TopicName, _topic)
CONSUME_SUBSCRIPTION: Right[OnSubscription] = Right(Action.CONSUME, SubscriptionName, _subscription)
ADMIN: Right[OnTopic] = Right(Action.TENANT_ADMIN, TopicName, _topic)
ADMIN_OF_NAMESPACE: Right[OnBundle] = Right(Action.TENANT_ADMIN, NamespaceName, _namespace)
