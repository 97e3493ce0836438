"""Namespaces and topics for a broker: policies from a cache, topics from the metadata store.

Implements ``engine.broker.ports.Namespaces``. The store's watches drop cached policies and report the namespace, so
that a change takes effect as soon as the store notifies of it.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.base.errors import AlreadyExists, Conflict, NotFound, PreconditionFailed, Refusal
from engine.base.names import SYSTEM_PREFIX, NamespaceName, TopicName
from engine.broker.control.effective_policies import (
    NamespacePolicies,
    namespace_policies,
    topic_policies,
)
from engine.broker.control.geo.stored_migrations import StoredMigrations
from engine.broker.control.topic_room import TopicRoom
from engine.broker.errors import (
    BrokerError,
    MetadataError,
    ServiceNotReady,
    TopicIsPartitioned,
    TopicNotFound,
)
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.ports import LookupResult, MigrationTarget, TopicMode
from engine.metadata import paths
from engine.metadata.apart.routed import unavailable
from engine.metadata.records import Document, Stored
from engine.metadata.store import Found, MetadataStore, SessionExpiredError, StoreUnavailableError
from engine.tenancy import topics
from engine.tenancy.geo.homes import holds, peer_holding
from engine.tenancy.namespaces import get_policies
from engine.tenancy.policies.in_force import InForce, in_force, of_cluster, of_subscriptions
from engine.tenancy.policies.table import SUBSCRIPTION_RATE
from engine.tenancy.resources.resource_groups import KEY as GROUP
from engine.tenancy.settings import PolicySettings

NAMESPACES_KNOWN_MAX = 10_000
NO_NAMESPACE = "Namespace not found"


class OwnPolicies(Protocol):
    """Policies of single topics; a partition has those of its partitioned topic.

    The methods raise ServiceNotReady when the policies are not known now.
    """

    async def get(self, topic: TopicName, *, everywhere: bool = False) -> Document:
        """Return the policies that are set, by the keys of Pulsar's TopicPolicies.

        ``everywhere``: those for all clusters.
        """
        ...

    async def every(
        self, namespace: NamespaceName, *, everywhere: bool = False
    ) -> dict[TopicName, Document]:
        """Return the policies of all topics of a namespace that have any."""
        ...

    async def change(
        self, topic: TopicName, change: Callable[[Document], None], *, everywhere: bool = False
    ) -> None:
        """Edit a topic's policies in place; when it returns, the change is durable and ``get`` returns it."""
        ...

    async def forget(self, topic: TopicName) -> None:
        """Delete the policies of a topic that is being deleted; do nothing for a partition."""
        ...


class _CachedPolicies:
    """A namespace's policies: stored, in force, and in force for its topics without own policies, which share them.

    ``stale``: the store reported a change.
    """

    stored: Stored
    policies: NamespacePolicies
    of_topics: TopicPolicies
    stop: Callable[[], None]
    stale = False


class Catalog:
    """Namespaces and topics for one broker. Created inside a running loop.

    ``on_change`` is called with each namespace whose policies changed. ``is_loaded`` returns whether a topic is served
    here; a non-persistent topic exists only then.
    """

    def __init__(
        self,
        store: MetadataStore,
        settings: PolicySettings,
        own: OwnPolicies,
        cluster: str,
        *,
        on_change: Callable[[NamespaceName], None] = lambda name: None,
        is_loaded: Callable[[TopicName], bool] = lambda topic: False,
    ) -> None:
        self.own = own
        self._cluster = cluster
        self._store = store
        self._topic_room = TopicRoom(store)
        self._migrations = StoredMigrations(store, cluster)
        self._settings = settings
        self._on_change = on_change
        self._is_loaded = is_loaded
        self._known: OrderedDict[NamespaceName, _CachedPolicies] = OrderedDict()

    def use(self, settings: PolicySettings) -> None:
        """Use other defaults of the broker from now on."""
        if settings != self._settings:
            self._settings = settings
            for name, entry in list(self._known.items()):
                self._forget(name, entry)

    async def namespace(self, name: NamespaceName) -> NamespacePolicies:
        """Return the policies in force.

        Raises TopicNotFound without the namespace, ServiceNotReady when the store fails.
        """
        return (await self._known_of(name)).policies

    async def in_force(
        self, namespace: NamespaceName, topic: TopicName | None = None
    ) -> dict[str, InForce]:
        """Return every policy of the namespace, or of a topic in it, by name. Raises as ``namespace`` does."""
        stored = await self.stored(namespace)
        if topic is None:
            return in_force(self._settings, stored, {})
        return in_force(self._settings, stored, *await self._own_of(topic))

    async def inherited(self, topic: TopicName) -> dict[str, InForce]:
        """Return every policy as it would be without the topic's own in this cluster. Raises as ``namespace`` does."""
        stored = await self.stored(topic.namespace)
        return in_force(self._settings, stored, {}, await self.own.get(topic, everywhere=True))

    async def _own_of(self, topic: TopicName) -> tuple[Document, Document]:
        """Return the topic's own policies in this cluster, and those in all clusters."""
        return await self.own.get(topic), await self.own.get(topic, everywhere=True)

    async def rates_of_subscriptions(self, topic: TopicName) -> Document:
        """Return the dispatch rates of single subscriptions that have their own, by name. Raises ServiceNotReady."""
        return _rates(*await self._own_of(topic))

    def defaults(self) -> dict[str, InForce]:
        """Return every policy for a namespace and topic that set none."""
        return in_force(self._settings, {}, {})

    async def stored(self, namespace: NamespaceName) -> Stored:
        """Return the namespace's policies stored for this cluster (``of_cluster``), which must not be modified.

        Raises as ``namespace`` does.
        """
        return (await self._known_of(namespace)).stored

    async def _known_of(self, name: NamespaceName) -> _CachedPolicies:
        """Return the cached policies of a namespace, read when they are not cached. Raises as ``namespace`` does."""
        cached = self._known.get(name)
        if cached is not None:
            self._known.move_to_end(name)
            return cached
        entry = _CachedPolicies()
        # Watched before the read, so that a change during it is noticed.
        path = paths.namespace_policies(str(name))
        entry.stop = self._store.watch(path, lambda _: self._forget(name, entry))
        try:
            entry.stored = of_cluster(await get_policies(self._store, name), self._cluster)
            policies = in_force(self._settings, entry.stored, {})
            entry.policies = namespace_policies(policies)
            entry.of_topics = topic_policies(policies, {}, entry.stored.get(GROUP) or "")
        except (Refusal, StoreUnavailableError, SessionExpiredError) as error:
            entry.stop()
            raise _refusal(error) from error
        except BaseException:
            entry.stop()
            raise
        # Changed during the read, or another caller was faster.
        if entry.stale or name in self._known:
            entry.stop()
            return entry
        self._known[name] = entry
        if len(self._known) > NAMESPACES_KNOWN_MAX:
            self._known.popitem(last=False)[1].stop()
        return entry

    def _forget(self, name: NamespaceName, entry: _CachedPolicies) -> None:
        entry.stale = True
        entry.stop()
        if self._known.get(name) is entry:
            del self._known[name]
        self._on_change(name)

    @property
    def cluster(self) -> str:
        """Name of this cluster."""
        return self._cluster

    async def policies(self, topic: TopicName) -> TopicPolicies:
        cached = await self._known_of(topic.namespace)
        own, everywhere = await self._own_of(topic)
        if not own and not everywhere:
            return cached.of_topics
        policies = in_force(self._settings, cached.stored, own, everywhere)
        group = cached.stored.get(GROUP) or ""
        return topic_policies(policies, _rates(own, everywhere), group)

    async def peer_of(self, topic: TopicName) -> LookupResult | None:
        stored = await self.stored(topic.namespace)
        # Logs of policies are each cluster's own.
        if holds(stored, self._cluster) or topic.local.startswith(SYSTEM_PREFIX):
            return None
        try:
            peer = await peer_holding(self._store, topic.namespace, stored, self._cluster)
        except PreconditionFailed as error:
            raise MetadataError(error.reason) from error
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error
        assert peer is not None
        url, url_tls = peer.get("brokerServiceUrl") or "", peer.get("brokerServiceUrlTls") or ""
        if not url and not url_tls:
            raise MetadataError("Redirected cluster's brokerService url is not configured")
        return LookupResult(url, url_tls, redirect=True)

    async def migrated_to(self, namespace: NamespaceName) -> MigrationTarget | None:
        try:
            return await self._migrations.target(namespace)
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error

    async def partitions(self, topic: TopicName, *, allow_create: bool) -> int:
        at_peer = await self.peer_of(topic) is not None
        policies = await self.namespace(topic.namespace)
        try:
            record, exists = await topics.look_up(self._store, topic)
            if record is not None:
                return int(record["partitions"])
            # The client's look-up leads to the peer, which decides whether a missing topic is created.
            if at_peer or exists or await topics.topic_exists(self._store, topic):
                return 0
            if not await self._may_be(topic) or not (allow_create and policies.auto_topic):
                raise TopicNotFound("")
            if not topic.persistent and self._is_loaded(topic):
                return 0
            if policies.new_partitions and topics.is_partitionable(topic):
                return await self._create_partitioned(topic, policies)
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error
        return 0

    async def _may_be(self, topic: TopicName) -> bool:
        """Return whether a topic may exist: False for a partition beyond its partitioned topic's count."""
        if topic.partition < 0:
            return True
        parent = await topics.find_partitions(self._store, topic.partitioned)
        return parent is None or topic.partition < int(parent["partitions"])

    async def _create_partitioned(self, topic: TopicName, policies: NamespacePolicies) -> int:
        async def is_loaded() -> bool:
            return not topic.persistent and self._is_loaded(topic)

        count = policies.new_partitions
        try:
            topics.check_count(count)  # a stored policy may be another program's
        except Refusal as error:
            raise MetadataError(error.reason) from error
        parts = [topic.partition_at(index).full for index in range(count)]
        stop_counting = await self._admitted(topic, parts, policies)
        try:
            await topics.create_partitioned(self._store, topic, count, is_loaded=is_loaded)
        except AlreadyExists as error:  # another client created it meanwhile, or is creating it
            record, exists = await topics.look_up(self._store, topic)
            if record is None and not exists and not self._is_loaded(topic):
                # Not created yet: the client repeats its lookup.
                raise ServiceNotReady(f"Topic {topic} is being made") from error
            return int(record["partitions"]) if record is not None else 0
        except Refusal as error:
            raise MetadataError(error.reason) from error
        finally:
            stop_counting()
        return count

    async def admit(self, topic: TopicName) -> Callable[[], None]:
        policies = await self.namespace(topic.namespace)
        try:
            if policies.max_topics and not await self._is_counted(topic):
                return await self._admitted(topic, [topic.full], policies)
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error
        return _nothing

    async def _is_counted(self, topic: TopicName) -> bool:
        """Return whether the topic exists, or is a partition of a partitioned topic that exists."""
        if await topics.topic_exists(self._store, topic):
            return True
        record = await topics.find_partitions(self._store, topic.partitioned)
        return record is not None and 0 <= topic.partition < int(record["partitions"])

    async def _admitted(
        self, topic: TopicName, names: list[str], policies: NamespacePolicies
    ) -> Callable[[], None]:
        """Count ``names``, those of ``topic`` or of its partitions, as ``admit`` does. Raises the store's errors."""
        if not policies.max_topics or topic.local.startswith(SYSTEM_PREFIX):
            return _nothing
        return await self._topic_room.admit(topic.namespace, names, policies.max_topics)

    async def topics_of_namespace(self, namespace: NamespaceName, mode: TopicMode) -> list[str]:
        if mode is TopicMode.NON_PERSISTENT:
            return []
        try:
            return list(await topics.list_topics(self._store, namespace))
        except NotFound:
            return []
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error

    def watch_topics(
        self, namespace: NamespaceName, callback: Callable[[], None]
    ) -> Callable[[], None]:
        return self._store.watch(paths.managed_ledgers(str(namespace)), lambda _: callback())

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
                return  # a partition within the count may always be opened, also one that was never created
            if record is not None or not (create and policies.auto_topic):
                raise TopicNotFound(f"Topic {topic} does not exist")
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error

    def confirmation_paths(self, topic: TopicName) -> Sequence[str]:
        return topics.confirmation_paths(self._store, topic)

    async def confirm_plain(self, topic: TopicName, seen: Sequence[Found] = ()) -> None:
        try:
            await topics.confirm_plain(self._store, topic, seen)
        except AlreadyExists as error:
            raise TopicIsPartitioned(f"Topic {topic} is partitioned") from error
        except Conflict as error:
            raise ServiceNotReady(str(error)) from error
        except (Refusal, StoreUnavailableError, SessionExpiredError) as error:
            raise _refusal(error) from error

    def close(self) -> None:
        """Stop watching."""
        for entry in self._known.values():
            entry.stop()
        self._known.clear()


def _nothing() -> None:
    """Do nothing: no name was counted."""


def _rates(own: Document, everywhere: Document) -> Document:
    """Return rates of single subscriptions; those of this cluster override those of all clusters."""
    return {
        **of_subscriptions(everywhere, SUBSCRIPTION_RATE),
        **of_subscriptions(own, SUBSCRIPTION_RATE),
    }


def _refusal(error: Refusal | StoreUnavailableError | SessionExpiredError) -> BrokerError:
    """Return the broker's refusal for an error of the store or a check."""
    if isinstance(error, Refusal):
        return TopicNotFound(NO_NAMESPACE)
    return ServiceNotReady(unavailable(error))
