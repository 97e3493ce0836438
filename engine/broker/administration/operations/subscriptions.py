"""Administrative operations on subscriptions: creation and deletion, consumers, properties, replication."""

from collections.abc import Mapping

from engine.admin.api.arguments import JsonObject, OnSubscription, OnTopic
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    DISCONNECT_CONSUMER,
    DURABLE_SUBSCRIPTIONS,
    HOLDERS,
    MESSAGE_HOLDERS,
    REPLICATE,
    REPLICATED,
    SET_SUBSCRIPTION_PROPERTIES,
    SUBSCRIPTION_HOLDINGS,
    SUBSCRIPTION_PROPERTIES,
    SUBSCRIPTIONS,
    CreateSubscription,
    DeleteSubscription,
    DisconnectConsumer,
    Holders,
    MessageHolders,
    Replicate,
    SubscriptionProperties,
)
from engine.base.clock import Clock
from engine.base.errors import AlreadyExists, Conflict, InvalidRequest, NotFound, NotReady
from engine.base.ids import Position
from engine.broker.administration.holders import message_holders, subscription_holders
from engine.broker.administration.operations.owned_topics import OwnedTopics, subscription_of
from engine.broker.administration.previews import subscription_holdings
from engine.broker.errors import NotAllowed
from engine.broker.topics.registry import TopicRegistry
from engine.managed.ledger import InitialPosition
from engine.managed.stored.records import INTERNAL_PREFIX
from engine.rpc.operation import Handlers, bind
from engine.tenancy.checks import check_new_properties


class SubscriptionOperations:
    """Handlers of the operations, which ``engine.admin.api.subscriptions`` describes."""

    def __init__(
        self,
        topics: OwnedTopics,
        registry: TopicRegistry,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._registry = registry
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(SUBSCRIPTIONS, self.subscriptions),
                bind(DURABLE_SUBSCRIPTIONS, self.durable_subscriptions),
                bind(CREATE_SUBSCRIPTION, self.create_subscription),
                bind(DELETE_SUBSCRIPTION, self.delete_subscription),
                bind(SUBSCRIPTION_HOLDINGS, self.subscription_holdings),
                bind(HOLDERS, self.holders),
                bind(MESSAGE_HOLDERS, self.message_holders),
                bind(DISCONNECT_CONSUMER, self.disconnect_consumer),
                bind(SUBSCRIPTION_PROPERTIES, self.subscription_properties),
                bind(SET_SUBSCRIPTION_PROPERTIES, self.set_subscription_properties),
                bind(REPLICATED, self.replicated),
                bind(REPLICATE, self.replicate),
            ]
        )

    async def subscriptions(self, args: OnTopic) -> list[str]:
        return (await self._topics.get(args.topic)).subscriptions.names

    async def durable_subscriptions(self, args: OnTopic) -> dict[str, dict[str, str]]:
        topic = await self._topics.get(args.topic)
        for name, why in topic.subscriptions.unread.items():
            raise NotReady(f"Subscription {name} of {args.topic} cannot be read: {why}")
        return {
            name: _users_properties(subscription.cursor.cursor_properties)
            for name, subscription in sorted(topic.subscriptions.items())
            if subscription.durable
        }

    async def create_subscription(self, args: CreateSubscription) -> None:
        name = args.topic
        if not name.persistent:
            raise InvalidRequest(
                "Create subscription on non-persistent topic can only be done through client"
            )
        await self._topics.check_owned(name)
        check_new_properties(args.properties, INTERNAL_PREFIX)
        topic = await self._registry.get(name, create=True)
        if args.subscription in topic.subscriptions:
            raise AlreadyExists("Subscription already exists for topic")
        initial: Position | InitialPosition = InitialPosition.LATEST
        if args.position is not None:
            initial = args.position.position
        try:
            created = await topic.subscriptions.create(
                args.subscription, initial, args.properties, replicated=args.replicated
            )
        except NotAllowed as error:
            raise Conflict(str(error)) from error
        if created is None:
            raise AlreadyExists("Subscription already exists for topic")

    async def delete_subscription(self, args: DeleteSubscription) -> JsonObject:
        topic, name = await self._topics.get(args.topic), args.subscription
        if name not in topic.subscriptions.unread:
            subscription_of(topic, name)  # raises NotFound with Pulsar's text
        answer: JsonObject = {}

        def check() -> None:
            if args.seen is not None or args.dry:
                subscription_holdings.check(topic, name, args.seen, force=args.force)
            answer.update(subscription_holdings.at_deletion(topic, name, args.seen))

        if args.dry:
            check()
            return {}
        await topic.subscriptions.delete(name, force=args.force, check=check)
        return answer

    async def subscription_holdings(self, args: OnSubscription) -> JsonObject:
        topic = await self._topics.get(args.topic)
        if args.subscription not in topic.subscriptions.unread:
            subscription_of(topic, args.subscription)
        return await subscription_holdings.of(topic, args.subscription, self._clock.wall_ms())

    async def holders(self, args: Holders) -> JsonObject:
        topic, subscription = await self._topics.subscription(args, "Unacknowledged messages")
        return await subscription_holders.of(topic, subscription, args)

    async def message_holders(self, args: MessageHolders) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "Holders of a message")
        return await message_holders.of(topic, args, self._clock.wall_ms())

    async def disconnect_consumer(self, args: DisconnectConsumer) -> JsonObject:
        topic = await self._topics.get(args.topic)
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

    async def subscription_properties(self, args: OnSubscription) -> dict[str, str]:
        subscription = subscription_of(await self._topics.get(args.topic), args.subscription)
        return subscription.cursor.cursor_properties

    async def set_subscription_properties(self, args: SubscriptionProperties) -> JsonObject:
        before = await self.subscription_properties(args)
        check_new_properties(args.properties, INTERNAL_PREFIX)
        topic = await self._topics.get(args.topic)
        subscription_of(topic, args.subscription)  # raises NotFound with Pulsar's text
        await topic.subscriptions.set_properties(args.subscription, args.properties)
        return {"before": before}

    async def replicated(self, args: OnSubscription) -> bool:
        _, subscription = await self._topics.subscription(args, "Replication of subscriptions")
        return subscription.replicated

    async def replicate(self, args: Replicate) -> JsonObject:
        before = await self.replicated(args)
        _, subscription = await self._topics.subscription(args, "Replication of subscriptions")
        subscription.replicate(args.replicated)
        await subscription.cursor.persisted()
        return {"before": before}


def _users_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those that the broker stores for this cursor alone, which other cursors must not
    receive."""
    return {key: text for key, text in properties.items() if not key.startswith(INTERNAL_PREFIX)}
