"""Namespaces and topics as the broker sees them: policies from cache, topics from the metadata store.

Implements ``engine.broker.ports.Namespaces``. Cached policies are dropped by the store's watches, so a change is seen
as soon as the store tells of it, and told on.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from engine.base.errors import AlreadyExists, NotFound, PreconditionFailed, Refusal
from engine.base.names import NamespaceName, TopicName
from engine.broker.control.acted_upon import NamespacePolicies, namespace_policies, topic_policies
from engine.broker.errors import BrokerError, MetadataError, ServiceNotReady, TopicNotFound
from engine.broker.ports import TopicMode, TopicPolicies
from engine.metadata import paths
from engine.metadata.records import Document, Stored
from engine.metadata.store import MetadataStore, SessionExpiredError, StoreUnavailableError
from engine.tenancy import topics
from engine.tenancy.namespaces import get_policies
from engine.tenancy.policies import InForce, in_force
from engine.tenancy.settings import PolicySettings

NAMESPACES_KNOWN_MAX = 10_000
NO_NAMESPACE = "Namespace not found"


class OwnPolicies(Protocol):
    """Policies that topics have of their own, of a partition those of its partitioned topic. Raises ServiceNotReady
    when they are not known now."""

    async def get(self, topic: TopicName) -> Document:
        """Those that are set, under the keys of Pulsar's TopicPolicies."""
        ...

    async def change(self, topic: TopicName, change: Callable[[Document], None]) -> None:
        """Edit them; durable, and seen by ``get``, when it returns."""
        ...

    async def forget(self, topic: TopicName) -> None:
        """Delete those of a topic that is being deleted; nothing for a partition."""
        ...


class _Known:
    """A namespace's policies as stored, and those in force; ``stale`` once the store told of a change."""

    stored: Stored
    policies: NamespacePolicies
    stop: Callable[[], None]
    stale = False


class Catalog:
    """Answers questions about namespaces and topics for one broker. Made inside a running loop.

    ``on_change`` is told of each namespace whose policies changed; set it before the first question.
    """

    def __init__(self, store: MetadataStore, settings: PolicySettings, own: OwnPolicies) -> None:
        self.own = own
        self._store = store
        self._settings = settings
        self.on_change: Callable[[NamespaceName], None] = lambda name: None
        self._known: OrderedDict[NamespaceName, _Known] = OrderedDict()

    async def namespace(self, name: NamespaceName) -> NamespacePolicies:
        """Policies in force. Raises TopicNotFound without the namespace, ServiceNotReady when the store fails."""
        return (await self._known_of(name)).policies

    async def in_force(
        self, namespace: NamespaceName, topic: TopicName | None = None
    ) -> dict[str, InForce]:
        """Every policy of the namespace, or of a topic in it, by name. Raises as ``namespace``."""
        stored = await self.stored(namespace)
        own = await self.own.get(topic) if topic is not None else {}
        return in_force(self._settings, stored, own)

    def defaults(self) -> dict[str, InForce]:
        """Every policy where neither topic nor namespace say otherwise."""
        return in_force(self._settings, {}, {})

    async def stored(self, namespace: NamespaceName) -> Stored:
        """The namespace's policies as stored, not to be changed. Raises as ``namespace``."""
        return (await self._known_of(namespace)).stored

    async def _known_of(self, name: NamespaceName) -> _Known:
        """Raises TopicNotFound without the namespace, ServiceNotReady when the store fails."""
        known = self._known.get(name)
        if known is not None:
            self._known.move_to_end(name)
            return known
        entry = _Known()  # watched before the read: a change meanwhile is then noticed
        path = paths.namespace_policies(str(name))
        entry.stop = self._store.watch(path, lambda _: self._forget(name, entry))
        try:
            entry.stored = await get_policies(self._store, name)
            entry.policies = namespace_policies(in_force(self._settings, entry.stored, {}))
        except (Refusal, StoreUnavailableError, SessionExpiredError) as error:
            entry.stop()
            raise _refusal(error) from error
        except BaseException:
            entry.stop()
            raise
        if entry.stale or name in self._known:
            entry.stop()
            return entry
        self._known[name] = entry
        if len(self._known) > NAMESPACES_KNOWN_MAX:
            self._known.popitem(last=False)[1].stop()
        return entry

    def _forget(self, name: NamespaceName, entry: _Known) -> None:
        entry.stale = True
        entry.stop()
        if self._known.get(name) is entry:
            del self._known[name]
        self.on_change(name)

    async def policies(self, topic: TopicName) -> TopicPolicies:
        return topic_policies(await self.in_force(topic.namespace, topic))

    async def partitions(self, topic: TopicName, *, allow_create: bool) -> int:
        policies = await self.namespace(topic.namespace)
        try:
            found = await topics.find_partitions(self._store, topic)
            if found is not None:
                return int(found["partitions"])
            if await topics.topic_exists(self._store, topic):
                return 0
            if not await self._may_be(topic) or not (allow_create and policies.auto_topic):
                raise TopicNotFound("")
            if policies.new_partitions and topic.partition < 0:
                return await self._create_partitioned(topic, policies)
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error
        return 0

    async def _may_be(self, topic: TopicName) -> bool:
        """False for a partition beyond its partitioned topic's count."""
        if topic.partition < 0:
            return True
        parent = await topics.find_partitions(self._store, topic.partitioned)
        return parent is None or topic.partition < int(parent["partitions"])

    async def _create_partitioned(self, topic: TopicName, policies: NamespacePolicies) -> int:
        await self._check_room(topic, policies)
        try:
            await topics.create_partitioned(self._store, topic, policies.new_partitions)
        except AlreadyExists:  # somebody was quicker
            found = await topics.find_partitions(self._store, topic)
            return int(found["partitions"]) if found is not None else 0
        except Refusal as error:
            raise MetadataError(error.reason) from error
        return policies.new_partitions

    async def check_room(self, topic: TopicName) -> None:
        """Raises PreconditionFailed when the namespace may hold no more topics."""
        try:
            await self._check_room(topic, await self.namespace(topic.namespace))
        except MetadataError as error:
            raise PreconditionFailed(str(error)) from error

    async def _check_room(self, topic: TopicName, policies: NamespacePolicies) -> None:
        if policies.max_topics:
            count = await topics.count_topics(self._store, topic.namespace)
            if count >= policies.max_topics:
                raise MetadataError("Exceed maximum number of topics in namespace.")

    async def topics_of_namespace(self, namespace: NamespaceName, mode: TopicMode) -> list[str]:
        if mode is TopicMode.NON_PERSISTENT:
            return []
        try:
            return list(await topics.list_topics(self._store, namespace))
        except NotFound:
            return []
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error

    async def ensure_topic(self, topic: TopicName, *, create: bool) -> None:
        policies = await self.namespace(topic.namespace)
        try:
            if await topics.topic_exists(self._store, topic):
                return
            parent = topic.partitioned
            record = await topics.find_partitions(self._store, parent)
            if record is not None and record.get("deleted"):
                raise ServiceNotReady(f"Topic {parent} is being deleted")
            if record is not None and 0 <= topic.partition < int(record["partitions"]):
                return  # a partition may always be opened, even if it was never made
            if record is not None or not (create and policies.auto_topic):
                raise TopicNotFound(f"Topic {topic} does not exist")
            await self._check_room(topic, policies)
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error

    def close(self) -> None:
        """Stop watching."""
        for entry in self._known.values():
            entry.stop()
        self._known.clear()


def _refusal(error: Refusal | StoreUnavailableError | SessionExpiredError) -> BrokerError:
    """The broker's refusal for what the store or a check raised."""
    if isinstance(error, Refusal):
        return TopicNotFound(NO_NAMESPACE)
    return ServiceNotReady(f"The metadata store does not answer: {error}")
