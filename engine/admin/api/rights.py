"""Rights that the operations need, on what their arguments name. Pure."""

from typing import Protocol

from engine.admin.api.arguments import OnBundle, OnSubscription, OnTopic
from engine.auth.actions import Action
from engine.auth.resource_names import SubscriptionName, TenantName
from engine.auth.rights import Right
from engine.base.names import NamespaceName, TopicName


def _topic(args: OnTopic) -> TopicName:
    return args.topic


def _subscription(args: OnSubscription) -> SubscriptionName:
    return SubscriptionName(args.topic, args.subscription)


class _OnTenant(Protocol):
    @property
    def tenant(self) -> str: ...


def _tenant(args: _OnTenant) -> TenantName:
    return TenantName(args.tenant)


def _namespace(args: OnBundle) -> NamespaceName:
    return args.namespace


LOOKUP_TOPIC: Right[OnTopic] = Right(Action.LOOKUP, TopicName, _topic)
PRODUCE: Right[OnTopic] = Right(Action.PRODUCE, TopicName, _topic)
CONSUME: Right[OnTopic] = Right(Action.CONSUME, TopicName, _topic)
CONSUME_SUBSCRIPTION: Right[OnSubscription] = Right(Action.CONSUME, SubscriptionName, _subscription)
ADMIN: Right[OnTopic] = Right(Action.TENANT_ADMIN, TopicName, _topic)
ADMIN_OF_NAMESPACE: Right[OnBundle] = Right(Action.TENANT_ADMIN, NamespaceName, _namespace)
ADMIN_OF_TENANT: Right[_OnTenant] = Right(Action.TENANT_ADMIN, TenantName, _tenant)
