"""The topics that this broker serves now: loaded once however many ask, unloaded, counted."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

from engine.base.errors import MagnetarError
from engine.base.names import NamespaceName, TopicName
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.errors import BrokerError, NotAllowed, PersistenceError, ServiceNotReady
from engine.broker.ports import Namespaces, Ownership, TopicPolicies
from engine.broker.topics.ephemeral import EphemeralLog
from engine.broker.topics.ports import Log
from engine.broker.topics.topic import Topic
from engine.ledger.errors import NotEnoughBookiesError
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import ManagedLedger
from engine.managed.settings import LedgerConfig

log = logging.getLogger(__name__)

UNLOAD_PARALLEL = 32
BOOKIES_RETRY_S = 0.25


class TopicRegistry:
    """Loads, finds and unloads topics.

    Every method raises BrokerError where it refuses. ``ledger_config`` makes a managed ledger's settings from a topic's
    policies.
    """

    def __init__(
        self,
        *,
        factory: ManagedLedgerFactory,
        ownership: Ownership,
        namespaces: Namespaces,
        context: Context,
        ledger_config: Callable[[TopicPolicies], LedgerConfig],
        forget_schema: Callable[[TopicName], Awaitable[None]],
    ) -> None:
        self._factory = factory
        self._ownership = ownership
        self._namespaces = namespaces
        self._context = context
        self._ledger_config = ledger_config
        self._forget_schema = forget_schema
        self._scope = TaskScope("topics", self._task_failed)
        self._loaded: dict[str, Topic] = {}
        self._loading: dict[str, asyncio.Task[Topic]] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._deleting: dict[str, None] = {}
        self._touched: dict[Topic, None] = {}
        self._producer_names = 0
        self.load_failures = 0
        self.loads = 0

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
        self._touched.clear()
        for topic in touched:
            if topic.tick(elapsed_s) and self._loaded.get(topic.name.full) is topic:
                self._touched[topic] = None
        return touched

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
        # Asked anew by each caller: whether a topic may be created depends on who asks.
        if asked and name.full not in self._loading:
            await self._namespaces.ensure_topic(name, create=create)
        task = self._loading.get(name.full)
        if task is None:
            topic = self._loaded.get(name.full)
            if topic is not None:
                return topic
            self._check_staying(name)
            task = self._scope.spawn(f"load {name}", self._load(name))
            self._loading[name.full] = task
            task.add_done_callback(lambda _: self._loading.pop(name.full, None))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise ServiceNotReady(f"Topic {name} is being unloaded") from None
            raise

    def _check_staying(self, name: TopicName) -> None:
        if name.full in self._leaving:
            raise ServiceNotReady(f"Topic {name} is being unloaded")
        if name.full in self._deleting:
            raise ServiceNotReady(f"Topic {name} is being deleted")

    async def _load(self, name: TopicName) -> Topic:
        self._ownership.check_owned(name)
        try:
            async with asyncio.timeout(self._context.settings.topic_load_timeout_seconds):
                topic = await self._open(name)
        except TimeoutError as error:
            self.load_failures += 1
            raise ServiceNotReady(
                f"Topic {name} was not loaded within {self._context.settings.topic_load_timeout_seconds} s"
            ) from error
        except BrokerError:
            self.load_failures += 1
            raise
        except MagnetarError as error:
            self.load_failures += 1
            log.warning("topic not loaded topic=%s: %s", name, error)
            raise PersistenceError(f"Topic {name} could not be loaded: {error}") from error
        self.loads += 1
        self._loaded[name.full] = topic
        topic.touched()
        await self._look_again(topic)
        return topic

    async def _look_again(self, topic: Topic) -> None:
        """Policies may have changed while its ledger was being opened, when nobody could tell it."""
        try:
            policies = await self._namespaces.policies(topic.name)
            if policies != topic.policies:
                await topic.apply(policies, self._ledger_config(policies))
        except MagnetarError as error:
            log.debug("policies not looked at again topic=%s: %s", topic.name, error)

    async def _open(self, name: TopicName) -> Topic:
        policies = await self._namespaces.policies(name)
        if not name.persistent:
            self._ownership.check_owned(name)
            return self._topic(name, EphemeralLog(name.full), policies)
        ledger = await self._open_ledger(name, self._ledger_config(policies))
        try:
            self._ownership.check_owned(name)  # it may have gone while the ledger was being opened
        except BrokerError:
            await ledger.close()
            raise
        if ledger.ended:  # taken over while it was being handed to us
            raise ServiceNotReady(f"Topic {name} was opened by another broker")
        return self._topic(name, ledger, policies)

    def _topic(self, name: TopicName, log: Log, policies: TopicPolicies) -> Topic:
        return Topic(name, log, policies, self._context, self.reload, self._touched)

    async def _open_ledger(self, name: TopicName, config: LedgerConfig) -> ManagedLedger:
        """Open it, waiting for a bookie that is just starting again.

        Refusing at once would be worse: clients come again after longer and longer pauses.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._context.settings.topic_load_timeout_seconds / 2
        while True:
            try:
                return await self._factory.open(name.managed_ledger_name, config)
            except NotEnoughBookiesError:
                if loop.time() >= until:
                    raise
                await asyncio.sleep(BOOKIES_RETRY_S)

    async def unload(self, name: TopicName) -> bool:
        """Close the topic gracefully: clients are told to look it up again. False when it was not loaded."""
        loading = self._loading.get(name.full)
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
        topic.touched()
        try:
            await topic.close()
        finally:
            self._leaving.pop(full, None)

    async def unload_where(self, chosen: Callable[[TopicName], bool]) -> int:
        """Unload the topics that ``chosen`` accepts, some at a time; how many there were."""
        loading = [task for name, task in self._loading.items() if chosen(TopicName.parse(name))]
        if loading:
            await asyncio.wait(loading)
        names = [topic.name for topic in self.topics() if chosen(topic.name)]
        gate = asyncio.Semaphore(UNLOAD_PARALLEL)

        async def one(name: TopicName) -> None:
            async with gate:
                await self.unload(name)

        await asyncio.gather(*(one(name) for name in names))
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
        if not force and topic.in_use:
            raise NotAllowed(f"Topic {name} has {topic.use}")
        self._check_staying(name)
        self._deleting[name.full] = None  # nobody makes it anew before all of it is gone
        try:
            await self.unload(name)
            await self._forget_schema(name)
            if name.persistent:
                await self._factory.delete(name.managed_ledger_name)
        finally:
            del self._deleting[name.full]
