"""The topics that this broker serves now: loaded once however many ask, unloaded, counted."""

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
from engine.broker.ports import Namespaces, Ownership, TopicPolicies
from engine.broker.topics.ephemeral import EphemeralLog
from engine.broker.topics.limits import is_system
from engine.broker.topics.ports import Log
from engine.broker.topics.rates import BrokerRates, Groups
from engine.broker.topics.topic import Topic
from engine.ledger.errors import NotEnoughBookiesError
from engine.managed.errors import ManagedLedgerNotFoundError
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import ManagedLedger
from engine.managed.reading.entry_cache import EntryCache
from engine.managed.settings import LedgerConfig
from engine.tenancy.topics import SYSTEM_PREFIX

log = logging.getLogger(__name__)

Forget = Callable[[TopicName], Awaitable[None]]
"""Deletes what is stored of a topic elsewhere: schemas, policies, permissions."""

UNLOAD_PARALLEL = 32
BOOKIES_RETRY_S = 0.25


class Totals(NamedTuple):
    """Bytes that came in and that went out, apart for topics of the system's own; how often a backlog quota evicted."""

    bytes_in: int = 0
    bytes_out: int = 0
    system_in: int = 0
    system_out: int = 0
    evicted_for_size: int = 0
    evicted_for_age: int = 0

    def plus(self, topic: Topic) -> "Totals":
        """With those of ``topic`` since it was loaded."""
        came, went = topic.published.bytes.total, topic.total_out[1]
        quotas = topic.quotas
        more = (
            *((0, 0, came, went) if is_system(topic.name) else (came, went, 0, 0)),
            *(quotas.evicted_for_size, quotas.evicted_for_age),
        )
        return Totals(*map(add, self, more))


class TopicRegistry:
    """Loads, finds and unloads topics.

    Every method raises BrokerError where it refuses. ``ledger_config`` makes a managed ledger's settings from a topic's
    policies. ``forget`` is called for topics that are deleted; what is stored of a partition is its partitioned topic's
    and stays.
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
    ) -> None:
        self._factory = factory
        self._ownership = ownership
        self._namespaces = namespaces
        self._context = context
        self._ledger_config = ledger_config
        self._forget = forget
        self._scope = TaskScope("topics", self._task_failed)
        self._loaded: dict[str, Topic] = {}
        self._loading = UnderWay[str, Topic](self._scope)
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._deleting: dict[str, None] = {}
        self._touched: dict[Topic, bool] = {}
        """Topics to be counted next; False: nothing happened, but their rates are not zero yet."""
        self.used: list[Topic] = []
        """Topics that something happened to in the last second counted."""
        self._rates = BrokerRates(context)
        self._producer_names = 0
        self.load_times = Durations()
        """Of topics loaded here. Refused ones are among those that failed."""
        self._ending: dict[Topic, None] = {}
        """Topics that are being unloaded."""
        self._gone = Totals()
        """Of topics that are served no more."""

    @property
    def loading(self) -> int:
        """Topics that are being loaded."""
        return len(self._loading.tasks)

    @property
    def cache(self) -> EntryCache:
        """The newest entries of all topics."""
        return self._factory.cache

    def counted(self) -> tuple[list[Topic], Totals]:
        """Topics that are served now, by name, with those that are being unloaded; and the sums of all that were
        before: together they never fall."""
        return [*self.topics(), *self._ending], self._gone

    @property
    def cache_bytes_max(self) -> int:
        """So many there may be."""
        return self._factory.cache.bytes_max

    async def close(self, deadline_s: float = 15.0) -> None:
        """Unload every topic, then stop; what is not done by the deadline is cut off."""
        try:
            async with asyncio.timeout(deadline_s):
                await self.unload_where(lambda _: True)
        except TimeoutError:
            log.warning("topics left at the deadline count=%d", len(self._loaded))
        await self._scope.close()

    def _task_failed(self, name: str, error: BaseException) -> None:
        # A refused load is the answer to whoever asked; anything else is our fault.
        if not isinstance(error, BrokerError):
            log.error("task failed name=%s", name, exc_info=error)

    def loaded(self, name: TopicName) -> Topic | None:
        """The topic when it is served now."""
        return self._loaded.get(name.full)

    def topics(self, namespace: NamespaceName | None = None) -> list[Topic]:
        """Topics served now, by name."""
        return [
            self._loaded[name]
            for name in sorted(self._loaded)
            if namespace is None or self._loaded[name].name.namespace == namespace
        ]

    def __iter__(self) -> Iterator[Topic]:
        """Topics served at this moment, in no order."""
        return iter(list(self._loaded.values()))

    def tick(self, elapsed_s: float) -> list[Topic]:
        """Once a second: rates from counters. Looks only at topics of which anything can have changed since; they are
        returned, with those that are not served any more."""
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
        """Settings of the broker are others, which act at once on what is served."""
        self._rates.apply()
        for topic in self:
            topic.settings_changed()

    def is_touched(self, topic: Topic) -> bool:
        """Whether anything may have happened to it since the last second's count."""
        return self._touched.get(topic, False)

    def producer_name(self) -> str:
        """A name no other producer of the cluster has: cluster, this broker process, a counter."""
        self._producer_names += 1
        return f"{self._context.identity.cluster}-{self._context.identity.instance}-{self._producer_names}"

    async def get(self, name: TopicName, *, create: bool, asked: bool = True) -> Topic:
        """The topic, loaded when it is not; ``create``: the client allows its creation (policy decides with it).
        ``asked`` False: an administrator makes it, whatever policy says.

        Cancel-safe: the load goes on for others. Raises ServiceNotReady (not owned, leaving, or not loaded in time),
        TopicNotFound, NotAllowed, PersistenceError.
        """
        topic = self._loaded.get(name.full)
        if topic is not None:
            return topic
        await self._ownership.resume(name)
        self._ownership.check_owned(name)
        self._check_staying(name)
        if asked and name.persistent:  # most are there: loading reads it anyway
            try:
                return await self._wait_loaded(name, make=False)
            except TopicNotFound:
                log.debug("topic is not there yet topic=%s", name)
        # Asked anew by each caller: whether a topic may be created depends on who asks.
        if asked and self._loading.of(name.full) is None:
            await self._namespaces.ensure_topic(name, create=create)
        return await self._wait_loaded(name, make=True)

    async def _wait_loaded(self, name: TopicName, *, make: bool) -> Topic:
        """Load it, or wait for the load under way. Raises TopicNotFound when it is not there and not to be made."""
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
                # who began to load it was not to make it
            except asyncio.CancelledError:
                if task.cancelled():
                    raise ServiceNotReady(f"Topic {name} is being unloaded") from None
                raise

    def _check_staying(self, name: TopicName) -> None:
        if self._scope.closed:
            raise ServiceNotReady("The broker is shutting down")
        if name.full in self._leaving:
            raise ServiceNotReady(f"Topic {name} is being unloaded")
        if name.full in self._deleting:
            raise ServiceNotReady(f"Topic {name} is being deleted")

    def _check_kind(self, name: TopicName) -> None:
        """Raises NotAllowed. What the system keeps for itself is of every broker."""
        settings = self._context.settings
        served = (
            settings.enable_persistent_topics
            if name.persistent
            else settings.enable_non_persistent_topics
        )
        if not served and not name.local.startswith(SYSTEM_PREFIX):
            raise NotAllowed(f"Broker is unable to load {name.domain} topic")

    async def _load(self, name: TopicName, make: bool) -> Topic:
        self._check_kind(name)
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
        self._loaded[name.full] = topic
        topic.touched()
        if not name.persistent and name.partition < 0:
            await self._confirm_loaded(topic)
        await self._look_again(topic)
        return topic

    async def _confirm_loaded(self, topic: Topic) -> None:
        """A non-persistent topic is there by being loaded alone: whoever makes a partitioned one of its name looks for
        that, so it is settled once it can be seen."""
        try:
            await self._namespaces.confirm_plain(topic.name)
        except BaseException:
            self._leave(topic)
            raise

    async def _look_again(self, topic: Topic) -> None:
        """Policies may have changed while its ledger was being opened, when nobody could tell it."""
        try:
            policies = await self._namespaces.policies(topic.name)
            if policies != topic.policies:
                await topic.apply(policies, self._ledger_config(policies))
        except MagnetarError as error:
            log.debug("policies not looked at again topic=%s: %s", topic.name, error)

    async def _make(self, name: TopicName) -> Topic:
        """Open a topic that may not be there yet, if its namespace has room for it."""
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
            self._ownership.check_owned(name)  # it may have gone while the ledger was being opened
        except BrokerError:
            await ledger.close()
            raise
        if ledger.ended:  # taken over while it was being handed to us
            raise ServiceNotReady(f"Topic {name} was opened by another broker")
        return self._topic(name, ledger, policies)

    def _topic(self, name: TopicName, log: Log, policies: TopicPolicies) -> Topic:
        return Topic(name, log, policies, self._context, self._rates, self.reload, self._touched)

    async def _open_ledger(
        self, name: TopicName, config: LedgerConfig, make: bool
    ) -> ManagedLedger:
        """Open it, waiting for a bookie that is just starting again.

        Refusing at once would be worse: clients come again after longer and longer pauses.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._context.settings.topic_load_timeout_seconds / 2
        plain = name.partition < 0 and not name.local.startswith(SYSTEM_PREFIX)
        admit = partial(self._namespaces.confirm_plain, name) if plain else None
        while True:
            try:
                return await self._factory.open(
                    name.managed_ledger_name,
                    config,
                    make=make,
                    admit=admit,
                    forget=partial(self._forget_whole, name),
                )
            except NotEnoughBookiesError:
                if loop.time() >= until:
                    raise
                await asyncio.sleep(BOOKIES_RETRY_S)

    async def unload(self, name: TopicName) -> bool:
        """Close the topic gracefully: clients are told to look it up again. False when it was not loaded."""
        loading = self._loading.of(name.full)
        if loading is not None:
            await asyncio.wait([loading])
        topic = self._loaded.get(name.full)
        if topic is None:
            return False
        await asyncio.shield(self._leave(topic))
        return True

    def reload(self, topic: Topic) -> None:
        """Its ledger can no longer be written: close it; the next client that comes loads it anew."""
        if self._loaded.get(topic.name.full) is topic and not self._scope.closed:
            self._leave(topic)

    def _leave(self, topic: Topic) -> "asyncio.Task[None]":
        full = topic.name.full
        task = self._leaving.get(full)
        if task is None:
            task = self._scope.spawn(f"unload {full}", self._unload(topic))
            self._leaving[full] = task
        return task

    async def _unload(self, topic: Topic) -> None:
        full = topic.name.full
        self._loaded.pop(full, None)
        self._ending[topic] = None
        topic.touched()
        try:
            await topic.close()
        finally:
            del self._ending[topic]
            self._gone = self._gone.plus(topic)
            self._leaving.pop(full, None)

    async def unload_where(self, chosen: Callable[[TopicName], bool]) -> int:
        """Unload the topics that ``chosen`` accepts, some at a time; how many there were. Raises the first failure once
        all the others are unloaded."""
        loading = [
            task for name, task in self._loading.tasks.items() if chosen(TopicName.parse(name))
        ]
        if loading:
            await asyncio.wait(loading)
        names = [topic.name for topic in self.topics() if chosen(topic.name)]
        gate = asyncio.Semaphore(UNLOAD_PARALLEL)

        async def one(name: TopicName) -> None:
            async with gate:
                await self.unload(name)

        ends = await asyncio.gather(*(one(name) for name in names), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end
        return len(names)

    def abandon_where(self, chosen: Callable[[TopicName], bool]) -> None:
        """Another broker may serve the topics that ``chosen`` accepts: confirm nothing more, send their clients away.

        What is being loaded is refused by its own check of the ownership.
        """
        for topic in self.topics():
            if chosen(topic.name):
                topic.lost()

    async def delete(self, name: TopicName, *, force: bool) -> None:
        """Delete the topic and its data. Refused with producers, consumers or subscriptions unless ``force``."""
        topic = await self.get(name, create=False)

        def check() -> None:
            if not force and topic.in_use:
                raise NotAllowed(f"Topic {name} has {topic.use}")

        await self.delete_checked(topic, check)

    async def delete_checked(self, topic: Topic, check: Callable[[], None]) -> None:
        """Delete the topic and its data, if ``check`` does not raise: from that moment on nobody publishes or
        subscribes. What it raises is raised; after other errors the topic is there whole, or goes with its next use."""
        full = topic.name.full
        if self._loaded.get(full) is not topic or full in self._leaving or full in self._deleting:
            raise ServiceNotReady(f"Topic {full} is being unloaded")
        self._check_staying(topic.name)
        check()
        topic.closing = True
        await self._remove(topic.name)

    async def delete_unused(self, topic: Topic, *, caught_up: bool) -> bool:
        """Delete a topic that ``Topic.is_unused`` at this moment; False when it is used, or not served any more."""
        full = topic.name.full
        if self._loaded.get(full) is not topic or full in self._leaving or full in self._deleting:
            return False
        if not topic.close_unused(caught_up=caught_up):
            return False
        await self._remove(topic.name)
        return True

    async def _forget_whole(self, name: TopicName) -> None:
        if name.partition < 0:
            await self._forget(name)

    async def _remove(self, name: TopicName) -> None:
        self._deleting[name.full] = None  # nobody makes it anew before all of it is gone
        try:
            await self.unload(name)
            forget = partial(self._forget_whole, name)
            if name.persistent:
                await self._factory.delete(name.managed_ledger_name, forget)
            else:
                await forget()
        finally:
            del self._deleting[name.full]
