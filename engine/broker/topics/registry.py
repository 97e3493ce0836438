"""The topics that this broker serves: each is loaded once for all concurrent requests, unloaded and counted."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from operator import add
from typing import NamedTuple

from engine.base.errors import MagnetarError
from engine.base.names import NamespaceName, TopicName
from engine.base.tasks import TaskScope, UnderWay
from engine.broker.context import Context
from engine.broker.control.durations import Durations
from engine.broker.errors import (
    BrokerError,
    NotAllowed,
    PersistenceError,
    ServiceNotReady,
    TopicNotFound,
)
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.ports import Namespaces, Ownership
from engine.broker.topic_table import TopicTable
from engine.broker.topics.ephemeral import EphemeralLog
from engine.broker.topics.limits import is_system
from engine.broker.topics.ports import Log
from engine.broker.topics.rates import BrokerRates, Groups
from engine.broker.topics.topic import Topic
from engine.ledger.errors import LedgerError, NotEnoughBookiesError
from engine.managed.errors import ManagedLedgerNotFoundError
from engine.managed.factory import CreationCheck, Inspect, ManagedLedgerFactory
from engine.managed.ledger import ManagedLedger
from engine.managed.reading.entry_cache import EntryCache
from engine.managed.settings import LedgerConfig
from engine.managed.stored.removal import Deletion
from engine.tenancy.topics import SYSTEM_PREFIX

log = logging.getLogger(__name__)

Forget = Callable[[TopicName], Awaitable[None]]
"""Function that deletes what is stored of a topic outside its log: schemas, policies, permissions."""

UNLOAD_PARALLEL = 32
BOOKIES_RETRY_S = 0.25


class Totals(NamedTuple):
    """Bytes published and sent, separately for system topics, and the number of evictions by backlog quotas."""

    bytes_in: int = 0
    bytes_out: int = 0
    system_in: int = 0
    system_out: int = 0
    evicted_for_size: int = 0
    evicted_for_age: int = 0

    def plus(self, topic: Topic) -> "Totals":
        """Return these sums plus those of ``topic`` since it was loaded."""
        bytes_in, bytes_out = topic.published.bytes.total, topic.subscriptions.total_out[1]
        quotas = topic.quotas
        of_topic = (
            *(
                (0, 0, bytes_in, bytes_out)
                if is_system(topic.name)
                else (bytes_in, bytes_out, 0, 0)
            ),
            *(quotas.evicted_for_size, quotas.evicted_for_age),
        )
        return Totals(*map(add, self, of_topic))


class TopicRegistry:
    """The loaded topics of one broker, by name.

    Every method raises BrokerError when it refuses. ``ledger_config`` returns a managed ledger's settings for a topic's
    policies. ``forget`` is called for deleted topics, but not for partitions: schemas, policies and permissions belong
    to the partitioned topic.
    """

    def __init__(
        self,
        *,
        factory: ManagedLedgerFactory,
        ownership: Ownership,
        namespaces: Namespaces,
        context: Context,
        ledger_config: Callable[[TopicPolicies], LedgerConfig],
        forget: Forget,
        loaded: TopicTable[Topic],
    ) -> None:
        """Create a registry without topics, which keeps those that it loads in ``loaded``."""
        self._factory = factory
        self._ownership = ownership
        self._namespaces = namespaces
        self._context = context
        self._ledger_config = ledger_config
        self._forget = forget
        self._scope = TaskScope("topics", self._task_failed)
        self._loaded = loaded
        self._loading = UnderWay[str, Topic](self._scope)
        self._unloads: dict[str, asyncio.Task[None]] = {}
        """Tasks by topic name that unload a topic."""
        self._deleting: dict[str, None] = {}
        """Names of topics that are being deleted."""
        self._touched: dict[Topic, bool] = {}
        """Topics whose rates are computed next; False for those that are included only until their rates are zero."""
        self.used: list[Topic] = []
        """Topics with an event in the last second counted."""
        self._rates = BrokerRates(context)
        self._producer_names = 0
        self.load_times = Durations()
        """Durations of topic loads. Refused loads count as failed."""
        self._unloading: dict[Topic, None] = {}
        """Topics that are being unloaded."""
        self._totals_before = Totals()
        """Sums of topics that were unloaded."""

    @property
    def loading(self) -> int:
        """Number of topics that are being loaded."""
        return len(self._loading.tasks)

    @property
    def cache(self) -> EntryCache:
        """Cache of the newest entries of all topics."""
        return self._factory.cache

    def counted(self) -> tuple[list[Topic], Totals]:
        """Return the topics that are served or being unloaded, and the sums of those unloaded before.

        Together the sums never decrease.
        """
        return [*self.topics(), *self._unloading], self._totals_before

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

    def topics(self, namespace: NamespaceName | None = None) -> list[Topic]:
        """Return the loaded topics sorted by name, of one namespace or of all."""
        return self._loaded.sorted(namespace)

    def __iter__(self) -> Iterator[Topic]:
        """Iterate over the topics that are loaded at this moment, unordered."""
        return iter(self._loaded)

    def tick(self, elapsed_s: float) -> list[Topic]:
        """Compute rates from counters, once a second, of the topics that may have changed since the last call.

        Return those topics, including topics that are no longer served.
        """
        touched = list(self._touched)
        self.used = [topic for topic, happened in self._touched.items() if happened]
        self._touched.clear()
        for topic in touched:
            if topic.tick(elapsed_s) and self._loaded.get(topic.name.full) is topic:
                self._touched.setdefault(topic, False)
        return touched

    @property
    def groups(self) -> Groups:
        """Resource groups of the topics served."""
        return self._rates.groups

    def settings_changed(self) -> None:
        """Apply changed settings of the broker to all topics."""
        self._rates.apply()
        for topic in self:
            topic.settings_changed()

    def is_touched(self, topic: Topic) -> bool:
        """Return whether an event may have changed the topic since the last ``tick``."""
        return self._touched.get(topic, False)

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
        self._check_staying(name)
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
                self._check_staying(name)
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

    def _check_staying(self, name: TopicName) -> None:
        if self._scope.closed:
            raise ServiceNotReady("The broker is shutting down")
        if name.full in self._unloads:
            raise ServiceNotReady(f"Topic {name} is being unloaded")
        if name.full in self._deleting:
            raise ServiceNotReady(f"Topic {name} is being deleted")

    def _check_domain(self, name: TopicName) -> None:
        """Raise NotAllowed when settings exclude topics of this domain. Every broker serves system topics."""
        settings = self._context.settings
        served = (
            settings.enable_persistent_topics
            if name.persistent
            else settings.enable_non_persistent_topics
        )
        if not served and not name.local.startswith(SYSTEM_PREFIX):
            raise NotAllowed(f"Broker is unable to load {name.domain} topic")

    async def _load(self, name: TopicName, make: bool) -> Topic:
        self._check_domain(name)
        self._ownership.check_owned(name)
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
                await topic.apply(policies, self._ledger_config(policies))
        except MagnetarError as error:
            log.debug("policies not read again topic=%s: %s", topic.name, error)

    async def _make(self, name: TopicName) -> Topic:
        """Open a topic, creating it if its namespace's limit of topics permits."""
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
        ledger = await self._open_ledger(name, self._ledger_config(policies), make)
        try:
            # Ownership may have moved while the ledger was being opened.
            self._ownership.check_owned(name)
        except BrokerError:
            await ledger.close()
            raise
        if ledger.ended:  # fenced by another broker before the topic could register its callback
            raise ServiceNotReady(f"Topic {name} was opened by another broker")
        return self._topic(name, ledger, policies)

    def _topic(self, name: TopicName, log: Log, policies: TopicPolicies) -> Topic:
        return Topic(name, log, policies, self._context, self._rates, self.reload, self._touched)

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
                    forget=partial(self._forget_stored, name),
                )
            except NotEnoughBookiesError:
                if loop.time() >= until:
                    raise
                await asyncio.sleep(BOOKIES_RETRY_S)

    async def unload(self, name: TopicName) -> bool:
        """Close the topic gracefully; its clients look it up again. Return False when it was not loaded."""
        # A load in progress would otherwise list the topic after this call.
        loading = self._loading.of(name.full)
        if loading is not None:
            await asyncio.wait([loading])
        topic = self._loaded.get(name.full)
        if topic is None:
            return False
        await asyncio.shield(self._begin_unload(topic))
        return True

    def reload(self, topic: Topic) -> None:
        """Close a topic whose ledger can no longer be written; the next request loads it again."""
        if self._loaded.get(topic.name.full) is topic and not self._scope.closed:
            self._begin_unload(topic)

    def _begin_unload(self, topic: Topic) -> "asyncio.Task[None]":
        full = topic.name.full
        task = self._unloads.get(full)
        if task is None:
            task = self._scope.spawn(f"unload {full}", self._unload(topic))
            self._unloads[full] = task
        return task

    async def _unload(self, topic: Topic) -> None:
        full = topic.name.full
        # First, so that no client is attached while the topic is closed: requests are refused until it is.
        self._loaded.remove(topic)
        self._unloading[topic] = None
        topic.touched()
        try:
            await topic.close()
        finally:
            del self._unloading[topic]
            self._totals_before = self._totals_before.plus(topic)
            self._unloads.pop(full, None)

    async def unload_where(self, chosen: Callable[[TopicName], bool]) -> int:
        """Unload the topics that ``chosen`` accepts, UNLOAD_PARALLEL at a time, and return their number.

        Raises the first failure after all the others are unloaded.
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
                await self.unload(name)

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

    async def delete(self, name: TopicName, *, force: bool) -> None:
        """Delete the topic and its data. Raises NotAllowed with producers or subscriptions unless ``force``."""
        topic = await self.get(name, create=False)

        def check() -> None:
            if not force and topic.in_use:
                raise NotAllowed(f"Topic {name} has {topic.use}")

        await self.delete_checked(topic, check)

    async def delete_checked(self, topic: Topic, check: Callable[[], None]) -> None:
        """Delete the topic and its data, unless ``check`` raises, which is raised.

        From the check on no client can publish or subscribe. After other errors the topic exists completely, or its
        deletion is finished at its next use.
        """
        full = topic.name.full
        if self._loaded.get(full) is not topic or full in self._unloads or full in self._deleting:
            raise ServiceNotReady(f"Topic {full} is being unloaded")
        self._check_staying(topic.name)
        # No await between the check and the flag: a client is attached before the check or refused after it.
        check()
        topic.closing = True
        await self._remove(topic.name)

    async def delete_unloaded(self, name: TopicName, inspect: Inspect) -> bool:
        """Delete a persistent topic that is not loaded, without loading it; return False when it is loaded by now.

        ``inspect``: see ``ManagedLedgerFactory.begin_deletion``. Raises ManagedLedgerNotFoundError without the topic.
        After other errors the topic exists completely, or its deletion is finished at its next use.
        """
        await self._ownership.resume(name)
        self._ownership.check_owned(name)
        self._check_staying(name)
        # No await between this check and the mark in ``_remove``, from which on the topic is not loaded.
        if self._loaded.get(name.full) is not None or self._loading.of(name.full) is not None:
            return False
        try:
            await self._remove(name, inspect)
        except LedgerError as error:
            raise PersistenceError(f"Topic {name} could not be deleted: {error}") from error
        return True

    async def delete_unused(self, topic: Topic, *, caught_up: bool) -> bool:
        """Delete a topic if it is unused at this moment (``Topic.is_unused``).

        Return False when it is used or no longer served.
        """
        full = topic.name.full
        if self._loaded.get(full) is not topic or full in self._unloads or full in self._deleting:
            return False
        if not topic.close_unused(caught_up=caught_up):
            return False
        await self._remove(topic.name)
        return True

    async def _forget_stored(self, name: TopicName) -> None:
        if name.partition < 0:
            await self._forget(name)

    async def _remove(self, name: TopicName, inspect: Inspect | None = None) -> None:
        # The topic must not be created again before everything stored of it is deleted.
        self._deleting[name.full] = None
        deletion: Deletion | None = None
        try:
            forget = None if name.partition >= 0 else partial(self._forget, name)
            try:
                if name.persistent:
                    # Before the unload, which would close a ledger and store cursors that are deleted next.
                    deletion = await self._factory.begin_deletion(
                        name.managed_ledger_name, forget, inspect
                    )
            finally:
                await self.unload(name)
            if deletion is not None:
                await deletion.finish()
            elif forget is not None:
                await forget()
        finally:
            del self._deleting[name.full]
