"""Deletion of topics with their data, while no client can use or create them."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from engine.base.errors import MagnetarError
from engine.base.names import TopicName, decode_name
from engine.broker.errors import NotAllowed, PersistenceError, ServiceNotReady
from engine.broker.ports import Ownership, PendingAckLogs, TransactionSnapshots
from engine.broker.settings import TransactionSettings
from engine.broker.topics.limits import is_system
from engine.broker.topics.topic import Topic
from engine.broker.transactions.buffer.topic_snapshots import TopicSnapshots
from engine.ledger.errors import LedgerError
from engine.managed.factory import Inspect, ManagedLedgerFactory
from engine.managed.stored.records import LogRecord
from engine.managed.stored.removal import Deletion, Forget

log = logging.getLogger(__name__)

ForgetTopic = Callable[[TopicName], Awaitable[None]]
"""Function that deletes what is stored of a topic outside its log: schemas, policies, permissions."""


class ServedTopics(Protocol):
    """The topics of a broker, as their deletion uses them."""

    async def get(self, name: TopicName, *, create: bool) -> Topic: ...

    def serves(self, topic: Topic) -> bool:
        """Return whether this topic is loaded and neither being unloaded nor deleted."""
        ...

    def loaded(self, name: TopicName) -> Topic | None: ...

    def is_loaded_or_loading(self, name: TopicName) -> bool: ...

    def check_staying(self, name: TopicName) -> None:
        """Raise ServiceNotReady when the topic is being unloaded or deleted, or the broker shuts down."""
        ...

    async def unload(self, name: TopicName) -> bool: ...


class TopicDeletions:
    """The deletions of one broker's topics. Methods raise BrokerError when they refuse.

    ``forget`` is called for deleted topics, but not for partitions: schemas, policies and permissions belong to the
    partitioned topic.
    """

    __slots__ = (
        "_factory",
        "_forget",
        "_names",
        "_ownership",
        "_pending_ack_logs",
        "_snapshots",
        "_topics",
    )

    def __init__(
        self,
        topics: ServedTopics,
        factory: ManagedLedgerFactory,
        ownership: Ownership,
        forget: ForgetTopic,
        pending_ack_logs: PendingAckLogs | None,
        snapshots: TransactionSnapshots | None,
    ) -> None:
        self._topics = topics
        self._factory = factory
        self._ownership = ownership
        self._forget = forget
        self._pending_ack_logs = pending_ack_logs
        self._snapshots = snapshots
        self._names: dict[str, None] = {}
        """Names of topics that are being deleted."""

    def __contains__(self, full: str) -> bool:
        """Return whether the topic of this full name is being deleted."""
        return full in self._names

    async def delete(self, name: TopicName, *, force: bool) -> None:
        """Delete the topic and its data. Raises NotAllowed with producers or subscriptions unless ``force``."""
        topic = await self._topics.get(name, create=False)

        def check() -> None:
            if not force and topic.in_use:
                raise NotAllowed(f"Topic {name} has {topic.use}")

        await self.delete_checked(topic, check)

    async def delete_checked(self, topic: Topic, check: Callable[[], None]) -> None:
        """Delete the topic and its data, unless ``check`` raises, which is raised.

        From the check on no client can publish or subscribe. After other errors the topic exists completely, or its
        deletion is finished at its next use.
        """
        if not self._topics.serves(topic):
            raise ServiceNotReady(f"Topic {topic.name} is being unloaded")
        self._topics.check_staying(topic.name)
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
        self._topics.check_staying(name)
        # No await between this check and the mark in ``_remove``, from which on the topic is not loaded.
        if self._topics.is_loaded_or_loading(name):
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
        if not self._topics.serves(topic):
            return False
        if not topic.close_unused(caught_up=caught_up):
            return False
        await self._remove(topic.name)
        return True

    def forget_of(self, name: TopicName) -> Forget | None:
        """Return the function that deletes what is stored of a topic outside its log; None for a partition."""
        return None if name.partition >= 0 else partial(self._forget, name)

    async def _forget_snapshot(self, snapshots: TransactionSnapshots, name: TopicName) -> None:
        """Delete what is stored of a topic's transactions. What remains after a failure has no effect on a later topic
        of the name: ids of ledgers and transactions do not repeat."""
        try:
            if not is_system(name) and await snapshots.exist(name.namespace):
                await TopicSnapshots(name, snapshots, TransactionSettings()).forget()
        except MagnetarError as error:
            log.info("snapshot of transactions not deleted topic=%s: %s", name, error)

    async def _remove(self, name: TopicName, inspect: Inspect | None = None) -> None:
        # The topic must not be created again before everything stored of it is deleted.
        self._names[name.full] = None
        deletion: Deletion | None = None
        topic = self._topics.loaded(name)
        subscriptions = [] if topic is None else topic.subscriptions.names

        async def noting(record: LogRecord, cursors: Sequence[str]) -> None:
            subscriptions.extend(map(decode_name, cursors))
            if inspect is not None:
                await inspect(record, cursors)

        try:
            forget = self.forget_of(name)
            try:
                if name.persistent:
                    # Before the unload, which would close a ledger and store cursors that are deleted next.
                    deletion = await self._factory.begin_deletion(
                        name.managed_ledger_name, forget, None if inspect is None else noting
                    )
            finally:
                await self._topics.unload(name)
            if deletion is not None:
                if self._pending_ack_logs is not None:
                    # Those that an interruption leaves are deleted when a subscription of the name is created.
                    for subscription in subscriptions:
                        await self._pending_ack_logs.delete(name, subscription)
                if self._snapshots is not None and (
                    topic is None or topic.transactions is not None
                ):
                    await self._forget_snapshot(self._snapshots, name)
                await deletion.finish()
            elif forget is not None:
                await forget()
        finally:
            del self._names[name.full]
