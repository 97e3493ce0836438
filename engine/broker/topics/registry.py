"""The topics that this broker serves: each is loaded once for all concurrent requests, unloaded and counted."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from engine.base.errors import MagnetarError
from engine.base.measures.durations import Durations
from engine.base.names import SYSTEM_PREFIX, NamespaceName, TopicName, is_transaction_log
from engine.base.tasks import TaskScope, UnderWay
from engine.broker.context import Context, SnapshotCounters
from engine.broker.errors import (
    BrokerError,
    NotAllowed,
    PersistenceError,
    ServiceNotReady,
    TopicMigrated,
    TopicNotFound,
)
from engine.broker.outlet import WithheldCloses
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.ports import Namespaces, Ownership
from engine.broker.topic_table import TopicTable
from engine.broker.topics.ephemeral import EphemeralLog
from engine.broker.topics.lifecycle.topic_counters import TopicCounters
from engine.broker.topics.lifecycle.topic_deletions import ForgetTopic, TopicDeletions
from engine.broker.topics.lifecycle.topic_migration import is_migrated
from engine.broker.topics.limits import is_system
from engine.broker.topics.ports import Log
from engine.broker.topics.rates import BrokerRates, Groups
from engine.broker.topics.topic import Topic
from engine.ledger.errors import NotEnoughBookiesError
from engine.managed.errors import ManagedLedgerNotFoundError
from engine.managed.factory import CreationCheck, ManagedLedgerFactory
from engine.managed.ledger import ManagedLedger
from engine.managed.reading.entry_cache import EntryCache
from engine.managed.settings import LedgerConfig
from engine.metadata.store import NoNodeError
from engine.tenancy.geo.shadow_topics import source_of

log = logging.getLogger(__name__)

UNLOAD_PARALLEL = 32
BOOKIES_RETRY_S = 0.25


class TopicRegistry:
    """The loaded topics of one broker, by name.

    Every method raises BrokerError when it refuses. ``ledger_config`` returns a managed ledger's settings for a topic's
    policies. ``forget``: see ``TopicDeletions``.
    """

    def __init__(
        self,
        *,
        factory: ManagedLedgerFactory,
        ownership: Ownership,
        namespaces: Namespaces,
        context: Context,
        ledger_config: Callable[[TopicPolicies], LedgerConfig],
        forget: ForgetTopic,
        loaded: TopicTable[Topic],
    ) -> None:
        """Create a registry without topics, which keeps those that it loads in ``loaded``."""
        self._factory = factory
        self._ownership = ownership
        self._namespaces = namespaces
        self._context = context
        self._ledger_config = ledger_config
        self._scope = TaskScope("topics", self._task_failed)
        self._loaded = loaded
        self._loading = UnderWay[str, Topic](self._scope)
        self._unloads: dict[str, asyncio.Task[None]] = {}
        """Tasks by topic name that unload a topic."""
        self.deletions = TopicDeletions(
            self,
            factory,
            ownership,
            forget,
            context.pending_ack_logs,
            context.transaction_snapshots,
        )
        self.counters = TopicCounters(loaded)
        self._rates = BrokerRates(context)
        self._producer_names = 0
        self.load_times = Durations()
        """Durations of topic loads. Refused loads count as failed."""

    @property
    def loading(self) -> int:
        """Number of topics that are being loaded."""
        return len(self._loading.tasks)

    @property
    def snapshots(self) -> SnapshotCounters:
        """Snapshots for replicated subscriptions."""
        return self._context.snapshots

    @property
    def cache(self) -> EntryCache:
        """Cache of the newest entries of all topics."""
        return self._factory.cache

    @property
    def cache_bytes_max(self) -> int:
        """Upper bound of the bytes in the cache."""
        return self._factory.cache.bytes_max

    async def close(self, deadline_s: float = 15.0) -> None:
        """Unload every topic, then stop; unloads that are not done by the deadline are cancelled."""
        try:
            async with asyncio.timeout(deadline_s):
                await self.unload_where(lambda _: True)
        except TimeoutError:
            log.warning("topics not unloaded at the deadline count=%d", len(self._loaded))
        await self._scope.close()

    def _task_failed(self, name: str, error: BaseException) -> None:
        # The callers of a load receive a BrokerError as their answer; any other error is a fault of the broker.
        if not isinstance(error, BrokerError):
            log.error("task failed name=%s", name, exc_info=error)

    def loaded(self, name: TopicName) -> Topic | None:
        """Return the topic when it is loaded, else None."""
        return self._loaded.get(name.full)

    def serves(self, topic: Topic) -> bool:
        """Return whether this topic is loaded and neither being unloaded nor deleted."""
        full = topic.name.full
        leaving = full in self._unloads or full in self.deletions
        return self._loaded.get(full) is topic and not leaving

    def is_loaded_or_loading(self, name: TopicName) -> bool:
        """Return whether the topic is loaded or being loaded."""
        return self._loaded.holds(name) or self._loading.of(name.full) is not None

    def topics(self, namespace: NamespaceName | None = None) -> list[Topic]:
        """Return the loaded topics sorted by name, of one namespace or of all."""
        return self._loaded.sorted(namespace)

    def __iter__(self) -> Iterator[Topic]:
        """Iterate over the topics that are loaded at this moment, unordered."""
        return iter(self._loaded)

    @property
    def groups(self) -> Groups:
        """Resource groups of the topics served."""
        return self._rates.groups

    def settings_changed(self) -> None:
        """Apply changed settings of the broker to all topics."""
        self._rates.apply()
        for topic in self:
            topic.settings_changed()

    def producer_name(self) -> str:
        """Return a name that is unique in the cluster, made of the cluster, the broker's instance and a counter."""
        self._producer_names += 1
        return f"{self._context.identity.cluster}-{self._context.identity.instance}-{self._producer_names}"

    async def get(self, name: TopicName, *, create: bool, asked: bool = True) -> Topic:
        """Return the topic, which is loaded when it is not.

        ``create``: the client permits its creation, which policies must permit as well. ``asked`` is False when an
        administrator creates it regardless of policies. Cancel-safe: the load continues for other callers. Raises
        ServiceNotReady (not owned, being unloaded, or not loaded in time), TopicNotFound, NotAllowed, PersistenceError.
        """
        topic = self._loaded.get(name.full)
        if topic is not None:
            return topic
        await self._ownership.resume(name)
        self._ownership.check_owned(name)
        self.check_staying(name)
        # Most topics exist, and loading reads their record anyway: no separate read to see whether they do.
        if asked and name.persistent:
            try:
                return await self._wait_loaded(name, make=False)
            except TopicNotFound:
                log.debug("topic is not there yet topic=%s", name)
        # Each caller checks for itself, because whether a topic may be created depends on the caller's ``create``.
        if asked and self._loading.of(name.full) is None:
            await self._namespaces.ensure_topic(name, create=create)
        return await self._wait_loaded(name, make=True)

    async def _wait_loaded(self, name: TopicName, *, make: bool) -> Topic:
        """Load the topic, or await its load in progress.

        Raises TopicNotFound when the topic does not exist and ``make`` is False.
        """
        while True:
            topic = self._loaded.get(name.full)
            if topic is not None:
                return topic
            task = self._loading.of(name.full)
            own = task is None
            if task is None:
                self.check_staying(name)
                task = self._loading.begin(name.full, f"load {name}", self._load(name, make))
            try:
                return await asyncio.shield(task)
            except TopicNotFound:
                if own or not make:
                    raise
                # The load was begun by a caller that must not create the topic, and this one may: load it again.
            except asyncio.CancelledError:
                if task.cancelled():
                    raise ServiceNotReady(f"Topic {name} is being unloaded") from None
                raise

    def check_staying(self, name: TopicName) -> None:
        """Raise ServiceNotReady when the topic is being unloaded or deleted, or the broker shuts down."""
        if self._scope.closed:
            raise ServiceNotReady("The broker is shutting down")
        if name.full in self._unloads:
            raise ServiceNotReady(f"Topic {name} is being unloaded")
        if name.full in self.deletions:
            raise ServiceNotReady(f"Topic {name} is being deleted")

    async def source_of(self, name: TopicName) -> TopicName | None:
        """Return the source of a shadow topic, also of a partitioned one, that need not be served here; else None.

        Raises ServiceNotReady when it is not known now.
        """
        if not name.persistent:
            return None
        whole = name.partition < 0
        for part in (name, name.partition_at(0)) if whole else (name,):
            try:
                source = source_of(await self._factory.properties(part.managed_ledger_name))
            except NoNodeError:
                continue
            except MagnetarError as error:
                raise ServiceNotReady(f"Topic {name} cannot be read: {error}") from error
            return source if source is None or part is name else source.partitioned
        return None

    def _check_name(self, name: TopicName) -> None:
        """Raise NotAllowed for a log of transactions, which a client would take from its owner.

        The same where settings exclude topics of this domain. Every broker serves system topics.
        """
        if is_transaction_log(name):
            raise NotAllowed(f"Can not create transaction system topic {name}")
        settings = self._context.settings
        served = (
            settings.enable_persistent_topics
            if name.persistent
            else settings.enable_non_persistent_topics
        )
        if not served and not name.local.startswith(SYSTEM_PREFIX):
            raise NotAllowed(f"Broker is unable to load {name.domain} topic")

    async def _load(self, name: TopicName, make: bool) -> Topic:
        self._check_name(name)
        self._ownership.check_owned(name)
        if await self._namespaces.peer_of(name) is not None:
            raise ServiceNotReady(f"Another cluster holds namespace {name.namespace}")
        began_s = self._context.clock.monotonic_s()
        try:
            async with asyncio.timeout(self._context.settings.topic_load_timeout_seconds):
                topic = await (self._make(name) if make else self._open(name, make=False))
        except ManagedLedgerNotFoundError as error:
            raise TopicNotFound(f"Topic {name} does not exist") from error
        except TimeoutError as error:
            self.load_times.failed += 1
            raise ServiceNotReady(
                f"Topic {name} was not loaded within {self._context.settings.topic_load_timeout_seconds} s"
            ) from error
        except BrokerError:
            self.load_times.failed += 1
            raise
        except MagnetarError as error:
            self.load_times.failed += 1
            log.warning("topic not loaded topic=%s: %s", name, error)
            raise PersistenceError(f"Topic {name} could not be loaded: {error}") from error
        self.load_times.add(self._context.clock.monotonic_s() - began_s)
        self._loaded.add(topic)
        topic.touched()
        if is_migrated(topic.log.properties):
            topic.migration.resume(await self._namespaces.migrated_to(name.namespace))
        if not name.persistent and name.partition < 0:
            await self._confirm_loaded(topic)
        await self._refresh_policies(topic)
        return topic

    async def _confirm_loaded(self, topic: Topic) -> None:
        """Check that no partitioned topic has the name of a non-persistent topic that was just loaded.

        The check is made after the load, because being loaded is the only trace of such a topic: a partitioned topic
        of the name that is created at the same time either is seen here or sees it.
        """
        try:
            await self._namespaces.confirm_plain(topic.name)
        except BaseException:
            self._begin_unload(topic)
            raise

    async def _refresh_policies(self, topic: Topic) -> None:
        """Apply policies that changed while the ledger was being opened, of which the topic was not notified."""
        try:
            policies = await self._namespaces.policies(topic.name)
            if policies != topic.policies:
                await topic.apply(policies, self._config(topic.name, policies))
        except MagnetarError as error:
            log.debug("policies not read again topic=%s: %s", topic.name, error)

    async def _make(self, name: TopicName) -> Topic:
        """Open a topic, creating it if its namespace's limit of topics permits. Raises TopicMigrated where new topics
        are made in another cluster."""
        target = await self._namespaces.migrated_to(name.namespace)
        if target is not None and not name.local.startswith(SYSTEM_PREFIX):
            raise TopicMigrated(name, target.url, target.url_tls)
        stop_counting = await self._namespaces.admit(name)
        try:
            return await self._open(name, make=True)
        finally:
            stop_counting()

    async def _open(self, name: TopicName, *, make: bool) -> Topic:
        policies = await self._namespaces.policies(name)
        if not name.persistent:
            self._ownership.check_owned(name)
            return self._topic(name, EphemeralLog(name.full), policies)
        ledger = await self._open_ledger(name, self._config(name, policies), make)
        try:
            # Ownership may have moved while the ledger was being opened.
            self._ownership.check_owned(name)
        except BrokerError:
            await ledger.close()
            raise
        may_have = await self._may_have_transactions(name, ledger)
        if ledger.ended:  # fenced by another broker before the topic could register its callback
            raise ServiceNotReady(f"Topic {name} was opened by another broker")
        topic = self._topic(name, ledger, policies)
        if may_have:
            topic.take_transactions().restore()
        return topic

    async def _may_have_transactions(self, name: TopicName, ledger: ManagedLedger) -> bool:
        """Return whether transactions of the topic may be stored. Raises the store's errors.

        Called once no other broker can begin one: the log was opened here.
        """
        snapshots = self._context.transaction_snapshots
        if (
            snapshots is None
            or name.local.startswith(SYSTEM_PREFIX)
            or source_of(ledger.properties)
        ):
            return False
        try:
            return await snapshots.exist(name.namespace)
        except BaseException:
            await ledger.close()
            raise

    def _config(self, name: TopicName, policies: TopicPolicies) -> LedgerConfig:
        """Return the configuration of a topic's managed ledger. Ledgers of system topics are not moved to tiered
        storage, which has to be read before it can be configured."""
        config = self._ledger_config(policies)
        return replace(config, offload=None) if is_system(name) else config

    def _topic(self, name: TopicName, log: Log, policies: TopicPolicies) -> Topic:
        return Topic(
            name, log, policies, self._context, self._rates, self.reload, self.counters.touched
        )

    async def _open_ledger(
        self, name: TopicName, config: LedgerConfig, make: bool
    ) -> ManagedLedger:
        """Open the managed ledger, waiting for a bookie that is restarting.

        An immediate refusal would take longer in effect: clients try again after growing pauses.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._context.settings.topic_load_timeout_seconds / 2
        plain = name.partition < 0 and not name.local.startswith(SYSTEM_PREFIX)
        admit: CreationCheck | None = None
        if plain:
            nodes = self._namespaces.confirmation_paths(name)
            admit = CreationCheck(nodes, partial(self._namespaces.confirm_plain, name))
        while True:
            try:
                return await self._factory.open(
                    name.managed_ledger_name,
                    config,
                    make=make,
                    admit=admit,
                    forget=self.deletions.forget_of(name),
                )
            except NotEnoughBookiesError:
                if loop.time() >= until:
                    raise
                await asyncio.sleep(BOOKIES_RETRY_S)

    async def unload(self, name: TopicName, withheld: WithheldCloses | None = None) -> bool:
        """Close the topic gracefully; its clients look it up again. Return False when it was not loaded.

        With ``withheld`` the clients are notified when that is sent.
        """
        # A load in progress would otherwise list the topic after this call.
        loading = self._loading.of(name.full)
        if loading is not None:
            await asyncio.wait([loading])
        topic = self._loaded.get(name.full)
        if topic is None:
            return False
        await asyncio.shield(self._begin_unload(topic, withheld))
        return True

    def reload(self, topic: Topic) -> None:
        """Close a topic whose ledger can no longer be written; the next request loads it again."""
        if self._loaded.get(topic.name.full) is topic and not self._scope.closed:
            self._begin_unload(topic)

    def _begin_unload(
        self, topic: Topic, withheld: WithheldCloses | None = None
    ) -> "asyncio.Task[None]":
        full = topic.name.full
        task = self._unloads.get(full)
        if task is None:
            task = self._scope.spawn(f"unload {full}", self._unload(topic, withheld))
            self._unloads[full] = task
        return task

    async def _unload(self, topic: Topic, withheld: WithheldCloses | None) -> None:
        full = topic.name.full
        # First, so that no client is attached while the topic is closed: requests are refused until it is.
        self._loaded.remove(topic)
        self.counters.begin_unload(topic)
        topic.touched()
        try:
            await topic.close(withheld)
        finally:
            self.counters.end_unload(topic)
            self._unloads.pop(full, None)

    async def unload_where(
        self, chosen: Callable[[TopicName], bool], withheld: WithheldCloses | None = None
    ) -> int:
        """Unload the topics that ``chosen`` accepts, UNLOAD_PARALLEL at a time, and return their number.

        With ``withheld`` their clients are notified when that is sent. Raises the first failure after all the others
        are unloaded.
        """
        loading = [
            task for name, task in self._loading.tasks.items() if chosen(TopicName.parse(name))
        ]
        if loading:
            await asyncio.wait(loading)
        names = [topic.name for topic in self.topics() if chosen(topic.name)]
        gate = asyncio.Semaphore(UNLOAD_PARALLEL)

        async def unload(name: TopicName) -> None:
            async with gate:
                await self.unload(name, withheld)

        errors = await asyncio.gather(*(unload(name) for name in names), return_exceptions=True)
        for error in errors:
            if error is not None:
                raise error
        return len(names)

    def abandon_where(self, chosen: Callable[[TopicName], bool]) -> None:
        """Confirm nothing more of the topics that ``chosen`` accepts and disconnect their clients.

        Called when another broker may serve these topics. Topics that are being loaded check the ownership themselves.
        """
        for topic in self.topics():
            if chosen(topic.name):
                topic.lost()
