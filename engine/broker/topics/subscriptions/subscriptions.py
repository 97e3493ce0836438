"""The subscriptions of a topic: found, created and deleted by name."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from engine.base.errors import MagnetarError, Refusal, WorldError
from engine.base.ids import Position
from engine.base.tasks import TaskScope
from engine.broker.compaction.ports import CompactionCursor
from engine.broker.compaction.topic_compaction import CURSOR as COMPACTION
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import (
    BrokerError,
    ConsumerBusy,
    NotAllowed,
    ServiceNotReady,
    SubscriptionNotFound,
)
from engine.broker.topics.counted_lock import CountedLock
from engine.broker.topics.ephemeral import EphemeralSubscription
from engine.broker.topics.limits import reached
from engine.broker.topics.ports import SubscribedLog, SubscriptionCursor
from engine.broker.topics.subscriptions.subscription import (
    REPLICATED,
    Subscription,
    SubscriptionHost,
)
from engine.broker.topics.subscriptions.unacked_subscription import CompactionSubscription
from engine.ledger.errors import LedgerError
from engine.managed.errors import (
    CursorNotFoundError,
    InvalidPropertyError,
    ManagedLedgerClosedError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
)
from engine.managed.ledger import InitialPosition

logger = logging.getLogger(__name__)

RESERVED_CURSORS = ("pulsar.repl", "pulsar.dedup")
"""Prefixes of the names of cursors that belong to the broker."""
RETURN_GRACE_S = 60.0
"""Seconds for which a non-durable subscription without consumers is kept after a seek."""


class SubscriptionsHost(SubscriptionHost, Protocol):
    """Parts of a topic that its subscriptions use."""

    scope: TaskScope

    @property
    def log(self) -> SubscribedLog: ...

    def check_open(self) -> None:
        """Raise ServiceNotReady when the topic is being closed."""
        ...


class Subscriptions(dict[str, Subscription]):
    """The subscriptions of one topic that can be used now, by name. Methods raise BrokerError when they refuse."""

    __slots__ = ("_deletions", "_host", "_locks", "_opening", "_out_before")

    def __init__(self, host: SubscriptionsHost) -> None:
        """Add a subscription for every cursor of the topic's log that can be used."""
        super().__init__()
        self._host = host
        self._out_before = (0, 0)
        """Messages and bytes sent by subscriptions that were deleted since."""
        self._locks: dict[str, CountedLock] = {}
        """Locks by subscription name, while a task holds or awaits them."""
        self._deletions: dict[str, asyncio.Task[None]] = {}
        """Deletions of abandoned cursors by name: a consumer of the same name must not receive the old cursor."""
        self._opening = 0
        """Number of cursors being opened or created."""
        for name in sorted(host.log.cursors):
            if not name.startswith(RESERVED_CURSORS):
                self._add(host.log.cursors[name])
        host.log.on_cursor_read(self._add_read_cursor)

    @property
    def unread(self) -> dict[str, str]:
        """Reasons by name of the subscriptions that may be stored but cannot be used now.

        The managed ledger reads their cursors again until it succeeds, then the subscriptions are added.
        """
        reasons = self._host.log.unread_cursors
        return {
            name: reasons[name] for name in sorted(reasons) if not name.startswith(RESERVED_CURSORS)
        }

    @property
    def names(self) -> list[str]:
        """Sorted names of all subscriptions, including those that cannot be used now."""
        return sorted({**self, **self.unread})

    @property
    def busy(self) -> bool:
        """True while a subscription is being created, changed or deleted."""
        return bool(self._opening or self._locks)

    @property
    def any_replicated(self) -> bool:
        """True when the state of one of them is copied to other clusters."""
        return any(subscription.replicated for subscription in self.values())

    @property
    def total_out(self) -> tuple[int, int]:
        """Messages and bytes sent since the topic was loaded, including those of deleted subscriptions."""
        messages, size = self._out_before
        for subscription in self.values():
            messages_out, bytes_out = subscription.counters.total_out
            messages, size = messages + messages_out, size + bytes_out
        return messages, size

    async def attach(
        self,
        consumer: Consumer,
        name: str,
        *,
        durable: bool,
        initial: Position | InitialPosition,
        properties: dict[str, str],
        replicated: bool = False,
        rolls_back: bool = False,
    ) -> Subscription:
        """Attach ``consumer`` to the subscription ``name``, which is created when it is missing.

        ``initial`` is where a new subscription begins. With ``rolls_back`` it is a position, to which a subscription
        that exists is reset as well. ``replicated`` marks the subscription as replicated from now on.

        Raises ConsumerBusy, NotAllowed (durability differs from the existing subscription's, too many subscriptions),
        SubscriptionNotFound (must not be created), ServiceNotReady. Cancel-safe: the subscription may remain, without
        the consumer.
        """
        durable = durable and self._host.name.persistent
        self.check_type(consumer.kind)
        self._host.rates.check_subscribe(consumer)
        # The subscription may be deleted before the consumer is attached: then it is created again.
        while True:
            present = self.get(name)
            subscription = await self._ensure(name, durable, initial, properties, replicated)
            if subscription.durable != durable:
                kind = "Durable" if subscription.durable else "NonDurable"
                raise NotAllowed(f"{kind} subscription with the same name already exists.")
            try:
                if rolls_back and subscription is present:
                    assert isinstance(initial, Position)
                    await subscription.moves.reset(initial)
                if await subscription.attach(consumer):
                    if replicated and durable:
                        subscription.replicate(True)
                    return subscription
            finally:
                if not subscription.consumers:
                    # It may have been created for this consumer, which then was not attached.
                    self.abandoned(subscription)

    def check_type(self, kind: SubscriptionType) -> None:
        """Raise NotAllowed unless the policies permit subscriptions of this type."""
        if kind.title not in self._host.policies.subscriptions.types:
            raise NotAllowed(f"Topic[{{{self._host.name}}}] doesn't support {kind.title} sub type!")

    def check_room(self, subscription: Subscription | None = None) -> None:
        """Raise ConsumerBusy when ``subscription``, or a new one when None, must not get one more consumer."""
        policies, subscriptions = self._host.policies, self.values()
        consumers = sum(len(present.consumers) for present in subscriptions)
        if reached(policies.subscriptions.max_consumers, consumers):
            raise ConsumerBusy("Topic reached max consumers limit")
        own = 0 if subscription is None else len(subscription.consumers)
        if reached(policies.subscriptions.max_consumers_per_subscription, own):
            raise ConsumerBusy("Subscription reached max consumers limit")

    @asynccontextmanager
    async def _changing(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of the subscription ``name`` while it is created, changed or deleted.

        There is one lock per name because storage may not answer for long, which must not delay other subscriptions.
        """
        lock = self._locks.setdefault(name, CountedLock())
        try:
            async with lock:
                yield
        finally:
            if not lock.users:
                self._locks.pop(name, None)

    async def _ensure(
        self,
        name: str,
        durable: bool,
        initial: Position | InitialPosition,
        properties: dict[str, str],
        replicated: bool,
    ) -> Subscription:
        self._host.check_open()
        subscription = self.get(name)
        # A closed one is still listed while its cursor is deleted: its lock is held until that has ended.
        if subscription is not None and not subscription.closed:
            return subscription
        while True:
            # A new subscription of the name must not be given the cursor that is being deleted.
            deletion = self._deletions.get(name)
            if deletion is not None:
                await asyncio.wait([deletion])
            async with self._changing(name):
                self._host.check_open()
                subscription = self.get(name)
                if subscription is not None:
                    return subscription
                if name in self._deletions:
                    continue  # abandoned again while this call waited for the lock
                if durable and not self._host.policies.subscriptions.auto_create:
                    raise SubscriptionNotFound("Subscription does not exist")
                self.check_room()
                cursor = await self._open_cursor(name, durable, initial, properties, replicated)
                return self.get(name) or self._add(cursor, fresh=True)

    async def create(
        self,
        name: str,
        initial: Position | InitialPosition,
        properties: dict[str, str],
        *,
        replicated: bool = False,
    ) -> Subscription | None:
        """Create a durable subscription for an administrator and return it; None when it exists.

        ``replicated``: its state is copied to other clusters.

        Raises NotAllowed at the limit and for a reserved name, ServiceNotReady when it is not known whether the
        subscription exists now: the caller tries again.
        """
        if name.startswith(RESERVED_CURSORS):
            raise NotAllowed(f"Subscription name {name} is reserved for the broker")
        self._host.check_open()
        async with self._changing(name):
            self._host.check_open()
            if name in self:
                return None
            cursor = await self._open_cursor(name, True, initial, properties, replicated)
            # A cursor that had been unreadable is added by _add_read_cursor before the call returns.
            return None if name in self else self._add(cursor, fresh=True)

    async def set_properties(self, name: str, properties: dict[str, str]) -> None:
        """Replace the properties of a subscription; those of a durable one are durable when the call returns.

        Raises SubscriptionNotFound, and ServiceNotReady when it is not known whether they are stored.
        """
        # A write to the node of a subscription that was deleted meanwhile would look like another owner's write.
        async with self._changing(name):
            self._host.check_open()
            subscription = self.get(name)
            if subscription is None:
                raise SubscriptionNotFound("Subscription not found")
            try:
                await subscription.cursor.update_cursor_properties(properties)
                self._host.touched()
            except (LedgerError, WorldError, ManagedLedgerError) as error:
                raise ServiceNotReady(f"Properties of {name} may not be stored: {error}") from error

    async def _open_cursor(
        self,
        name: str,
        durable: bool,
        initial: Position | InitialPosition,
        properties: dict[str, str],
        replicated: bool,
    ) -> SubscriptionCursor:
        """Create the cursor ``name``, or open one that could not be read until now.

        The subscription of the latter is added meanwhile, by ``_add_read_cursor``.
        """
        if name == COMPACTION and self._host.name.persistent:
            # Entries before this cursor count as compacted, so it must begin with the first entry (M11).
            if not durable:
                raise NotAllowed(f"Subscription {name} is the compaction's, which is durable")
            initial = InitialPosition.EARLIEST
        present = len(self.names) + self._opening
        if name not in self.unread and reached(
            self._host.policies.subscriptions.max_subscriptions, present
        ):
            raise NotAllowed(
                f"Exceed the maximum number of subscriptions of the topic: {self._host.name}"
            )
        self._opening += 1
        try:
            return await self._host.log.open_cursor(
                name,
                initial,
                {REPLICATED: 1} if replicated and durable else {},
                durable=durable,
                cursor_properties=properties,
            )
        except InvalidPropertyError as error:
            raise NotAllowed(f"Subscription {name}: {error}") from error
        except (WorldError, ManagedLedgerError) as error:
            raise ServiceNotReady(f"Subscription {name} cannot be used now: {error}") from error
        finally:
            self._opening -= 1
            self._host.touched()

    def add_compaction(self, cursor: CompactionCursor) -> None:
        """Add the subscription of the compaction's cursor, when the first compaction begins."""
        if cursor.name not in self:
            self._add(self._host.log.cursors[cursor.name])
            self._host.touched()

    def _add_read_cursor(self, cursor: SubscriptionCursor) -> None:
        if not cursor.name.startswith(RESERVED_CURSORS) and not self._host.closing:
            self._add(cursor)

    def _add(self, cursor: SubscriptionCursor, *, fresh: bool = False) -> Subscription:
        kind = Subscription if self._host.name.persistent else EphemeralSubscription
        if self._host.name.persistent and cursor.name == COMPACTION:
            kind = CompactionSubscription
        subscription = kind(self._host, self, cursor, fresh=fresh)
        self[cursor.name] = subscription
        if subscription.replicated:
            self._host.subscription_replicated()
        return subscription

    async def delete(
        self, name: str, *, force: bool = False, check: Callable[[], None] = lambda: None
    ) -> None:
        """Delete the subscription ``name`` and its cursor.

        ``check`` is called when nothing else can change the subscription any more; a Refusal that it raises is raised,
        and nothing is deleted. Raises SubscriptionNotFound, ConsumerBusy (consumers attached and not ``force``),
        ServiceNotReady. After ServiceNotReady the subscription is deleted or exists again with its whole state, and
        its consumers connect again; the caller deletes it again to be sure. Cancel-safe: the deletion continues.
        """
        task = self._host.scope.spawn(f"delete {name}", self._delete_named(name, force, check))
        try:
            refusal = await asyncio.shield(task)
        except asyncio.CancelledError:
            # The scope cancels the task when the topic is closed; otherwise the caller itself was cancelled.
            if task.cancelled():
                raise ServiceNotReady(f"Topic {self._host.name} is being unloaded") from None
            raise
        if refusal is not None:
            raise refusal

    async def _delete_named(
        self, name: str, force: bool, check: Callable[[], None]
    ) -> BrokerError | Refusal | None:
        async with self._changing(name):
            subscription = self.get(name)
            try:
                if subscription is not None:
                    await subscription.close(force=force, check=check)
                    await self._delete(subscription)
                elif name in self.unread:
                    check()
                    await self._delete_unread(name)
                else:
                    return SubscriptionNotFound("Subscription not found")
            except (BrokerError, Refusal) as error:
                return error
            except (WorldError, ManagedLedgerError) as error:
                return ServiceNotReady(f"Subscription {name} is not known to be deleted: {error}")
        return None

    async def _delete_unread(self, name: str) -> None:
        """Delete a cursor that cannot be read. A read of it in progress is awaited and may add its subscription."""
        try:
            await self._host.log.delete_cursor(name)
        except CursorNotFoundError:
            logger.debug("cursor was gone topic=%s cursor=%s", self._host.name, name)
        finally:
            subscription = self.pop(name, None)
            if subscription is not None:
                await subscription.close(force=True)
        await self._delete_pending_acks(name)

    async def _delete(self, subscription: Subscription) -> None:
        try:
            await self._host.log.delete_cursor(subscription.name)
        except CursorNotFoundError:
            logger.debug("cursor was gone topic=%s cursor=%s", self._host.name, subscription.name)
        finally:
            if self.get(subscription.name) is subscription:
                self._remove(subscription)
            self._host.touched()
        # Behind the cursor: without its log a subscription would deliver what a committed transaction acknowledged.
        if subscription.pending_acks is not None:
            await subscription.pending_acks.delete()

    async def _delete_pending_acks(self, name: str) -> None:
        """Delete the transactional acknowledgements of a subscription that is not loaded."""
        logs = self._host.context.pending_ack_logs
        if logs is not None:
            await logs.delete(self._host.name, name)

    async def close_pending_acks(self) -> None:
        """Close the logs of transactional acknowledgements, before the cursors are closed."""
        present = (subscription.pending_acks for subscription in self.values())
        handles = [handle for handle in present if handle is not None]
        if handles:
            closing = [self._host.scope.spawn("close", handle.close()) for handle in handles]
            await asyncio.wait(closing)

    def _remove(self, subscription: Subscription) -> None:
        del self[subscription.name]
        messages, size = subscription.counters.total_out
        self._out_before = self._out_before[0] + messages, self._out_before[1] + size

    def abandoned(self, subscription: Subscription) -> None:
        """Delete a non-durable subscription whose last consumer left.

        It is removed at once, so that the next consumer of the name gets a new one; its cursor is deleted in the
        background.
        """
        present = self.get(subscription.name) is subscription
        if subscription.durable or self._host.closing or not present:
            return
        self._remove(subscription)
        subscription.end()
        self._host.touched()
        name = subscription.name
        self._deletions[name] = self._host.scope.spawn(
            f"delete {name}", self._delete_abandoned(subscription)
        )

    async def _delete_abandoned(self, subscription: Subscription) -> None:
        try:
            async with self._changing(subscription.name):
                await self._delete(subscription)
        except (ManagedLedgerFencedError, ManagedLedgerClosedError) as error:
            # Cursors that are not durable end with their owner's log.
            logger.debug("cursor ended with its log topic=%s: %s", self._host.name, error)
        finally:
            del self._deletions[subscription.name]

    def abandoned_later(self, subscription: Subscription) -> None:
        """Delete a subscription whose consumers were disconnected by a seek, unless one attaches in RETURN_GRACE_S."""
        if not self._host.closing:
            self._host.scope.spawn(
                f"wait for {subscription.name}", self._delete_if_unused(subscription)
            )

    async def _delete_if_unused(self, subscription: Subscription) -> None:
        await asyncio.sleep(RETURN_GRACE_S)
        if not subscription.consumers:
            self.abandoned(subscription)

    async def expire(self, before_ms: int) -> None:
        """Acknowledge what was published before ``before_ms`` in every durable subscription (D11).

        Raises the first of the log's errors after the other subscriptions are done. Cancel-safe.
        """
        failed: MagnetarError | None = None
        for subscription in list(self.values()):
            try:
                # Entries that the compaction's cursor passed would count as compacted (M11).
                if subscription.durable and subscription.name != COMPACTION:
                    await subscription.moves.expire(before_ms)
            except MagnetarError as error:
                failed = failed or error
        if failed is not None:
            raise failed
