"""Administrative operations that delete a subscription or disconnect one of its consumers: the handlers of those in
``engine.admin.api``."""

from collections.abc import Awaitable, Callable

from engine.admin.api.arguments import JsonObject, OnSubscription
from engine.admin.api.subscriptions import (
    DELETE_SUBSCRIPTION,
    DISCONNECT_CONSUMER,
    SUBSCRIPTION_HOLDINGS,
    DeleteSubscription,
    DisconnectConsumer,
)
from engine.admin.operation import Handlers, bind
from engine.base.clock import Clock
from engine.base.errors import Conflict, NotFound, NotReady
from engine.base.names import TopicName
from engine.broker.administration.previews import subscription_holdings
from engine.broker.topics.subscription import Subscription
from engine.broker.topics.topic import Topic


def subscription_of(topic: Topic, name: str) -> Subscription:
    """Return the subscription. Raises NotReady for one that cannot be read now, NotFound without it."""
    subscription = topic.subscriptions.get(name)
    if subscription is None and name in topic.unread:
        raise NotReady(f"Subscription {name} cannot be used now: {topic.unread[name]}")
    if subscription is None:
        raise NotFound(f"Subscription {name} not found for topic {topic.name}")
    return subscription


class SubscriptionOperations:
    """Handlers of the operations, which ``engine.admin.api`` describes. ``load`` returns the loaded topic, and raises
    NotFound without it."""

    def __init__(self, load: Callable[[TopicName], Awaitable[Topic]], clock: Clock) -> None:
        self._load = load
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(SUBSCRIPTION_HOLDINGS, self.holdings),
                bind(DELETE_SUBSCRIPTION, self.delete_subscription),
                bind(DISCONNECT_CONSUMER, self.disconnect_consumer),
            ]
        )

    async def holdings(self, args: OnSubscription) -> JsonObject:
        topic = await self._load(args.topic)
        if args.subscription not in topic.unread:
            subscription_of(topic, args.subscription)
        return await subscription_holdings.of(topic, args.subscription, self._clock.wall_ms())

    async def delete_subscription(self, args: DeleteSubscription) -> JsonObject:
        topic, name = await self._load(args.topic), args.subscription
        if name not in topic.unread:
            subscription_of(topic, name)  # raises NotFound with Pulsar's text
        answer: JsonObject = {}

        def check() -> None:
            if args.seen is not None or args.dry:
                subscription_holdings.check(topic, name, args.seen, force=args.force)
            answer.update(subscription_holdings.at_deletion(topic, name, args.seen))

        if args.dry:
            check()
            return {}
        await topic.delete_subscription(name, force=args.force, check=check)
        return answer

    async def disconnect_consumer(self, args: DisconnectConsumer) -> JsonObject:
        topic = await self._load(args.topic)
        subscription = subscription_of(topic, args.subscription)
        for consumer in subscription.consumers:
            if (consumer.outlet.address, consumer.consumer_id) != (args.address, args.id):
                continue
            if (consumer.name, consumer.connected_ms) != (args.name, args.connected_ms):
                # Another consumer may reuse the id: only the one that was shown is disconnected.
                raise Conflict(f"Consumer {args.name} reconnected since the preview")
            # The audit log has the other fields from the arguments.
            before = {"unacked": consumer.unacked}
            subscription.disconnect_one(consumer)
            return {"before": before}
        raise NotFound(f"Consumer {args.name} is not connected to {args.subscription} any more")
