"""Topics that this broker owns, as administrative operations find them. Texts of refusals are Apache Pulsar's."""

from engine.admin.api.arguments import OnSubscription
from engine.base.errors import NotFound, NotReady, Unsupported
from engine.base.names import TopicName
from engine.broker.control.assignment import BundleAssignment
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.metadata.store import MetadataStore
from engine.rpc.server import MovedError
from engine.tenancy import topics


class OwnedTopics:
    """Access to topics of bundles that this broker owns; MovedError names the owner of the others."""

    def __init__(
        self, registry: TopicRegistry, assignment: BundleAssignment, store: MetadataStore
    ) -> None:
        self._registry = registry
        self._assignment = assignment
        self._store = store

    async def check_owned(self, name: TopicName) -> None:
        """Raise MovedError unless this broker serves the topic's bundle; one without an owner is acquired now."""
        place = await self._assignment.place(name, authoritative=False)
        if not place.here:
            raise MovedError(place.owner.http_url, place.owner.http_url_tls)

    async def get(self, name: TopicName) -> Topic:
        """Return the topic, loaded. Raises NotFound when it does not exist, as a non-persistent one does not unless
        it is loaded."""
        await self.check_owned(name)
        loaded = self._registry.loaded(name)
        if loaded is not None:
            return loaded
        if not name.persistent or not await topics.topic_exists(self._store, name):
            parent = name.partitioned
            partition = name.persistent and parent != name
            if partition and await topics.find_partitions(self._store, parent):
                raise NotFound("Topic partitions were not yet created")
            raise NotFound(f"Topic {name} not found")
        return await self._registry.get(name, create=False)

    async def persistent(self, name: TopicName, what: str) -> Topic:
        """Return the topic. Raises Unsupported, which names ``what`` is attempted, for a non-persistent one."""
        if not name.persistent:
            raise Unsupported(f"{what} on a non-persistent topic is not allowed")
        return await self.get(name)

    async def subscription(self, args: OnSubscription, what: str) -> tuple[Topic, Subscription]:
        """Return a persistent topic and its subscription. Raises as ``persistent`` and ``subscription_of``."""
        topic = await self.persistent(args.topic, what)
        return topic, subscription_of(topic, args.subscription)


def subscription_of(topic: Topic, name: str) -> Subscription:
    """Return the subscription. Raises NotReady for one that cannot be read now, NotFound without it."""
    subscription = topic.subscriptions.get(name)
    if subscription is None and name in topic.subscriptions.unread:
        raise NotReady(
            f"Subscription {name} cannot be used now: {topic.subscriptions.unread[name]}"
        )
    if subscription is None:
        raise NotFound(f"Subscription {name} not found for topic {topic.name}")
    return subscription
