"""One topic served by this broker: its producers, its subscriptions, and the path of entries to its managed ledger."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from engine.base.errors import MagnetarError, Refusal, WorldError
from engine.base.ids import EARLIEST, Position
from engine.base.names import TopicName
from engine.base.slices import Slice
from engine.base.tasks import TaskScope, contained
from engine.broker.compaction.ports import CompactionCursor
from engine.broker.compaction.topic_compaction import CURSOR as COMPACTION
from engine.broker.compaction.topic_compaction import TopicCompaction
from engine.broker.context import Context
from engine.broker.control.counters import Traffic
from engine.broker.control.written import Written
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import (
    BrokerError,
    ConsumerBusy,
    NotAllowed,
    ServiceNotReady,
    SubscriptionNotFound,
    TopicTerminated,
)
from engine.broker.ports import TopicPolicies
from engine.broker.topics.deduplication import Deduplication
from engine.broker.topics.ephemeral import EphemeralSubscription
from engine.broker.topics.limits import DelayLimit, binding, reached
from engine.broker.topics.ports import Log, SubscriptionCursor
from engine.broker.topics.publish import Producer, Publish, Stage, in_order
from engine.broker.topics.publishers import Publishers
from engine.broker.topics.quotas import BacklogQuotas
from engine.broker.topics.rates import BrokerRates, TopicRates
from engine.broker.topics.recovered import RecoveredEntries
from engine.broker.topics.subscription import CompactionSubscription, Subscription
from engine.ledger.errors import LedgerError
from engine.managed.errors import (
    CursorNotFoundError,
    InvalidPositionError,
    InvalidPropertyError,
    ManagedLedgerClosedError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
)
from engine.managed.ledger import InitialPosition
from engine.managed.settings import LedgerConfig
from engine.wire.batches import last_batch_index

logger = logging.getLogger(__name__)

NOTES_OF_AN_AGE = 16
"""Notes of the log's end within the shortest age at which messages are removed: the precision of their arrival time."""
RESERVED_CURSORS = ("pulsar.repl", "pulsar.dedup")
"""Prefixes of the names of cursors that belong to the broker."""

PROPERTIES = ""
"""Key of the lock for the topic's properties, among the locks that are named by subscription."""
RETURN_GRACE_S = 60.0
"""Seconds for which a non-durable subscription without consumers is kept after a seek."""
CONFIRM_GRACE_S = 3.0
"""Seconds for which a closing topic waits for pending entries before it disconnects its producers."""


class Topic:
    """A loaded topic, created by the registry around an open log. Methods raise BrokerError when they refuse."""

    __slots__ = (
        "_delay_limit",
        "_deletions",
        "_last_message",
        "_locks",
        "_opening",
        "_out_before",
        "_stop_listening",
        "_touched",
        "closing",
        "compaction",
        "context",
        "deduplication",
        "fetched",
        "loaded_ms",
        "log",
        "name",
        "policies",
        "published",
        "publishers",
        "quotas",
        "rates",
        "recovered",
        "repeated_messages",
        "scope",
        "stages",
        "subscriptions",
        "written",
    )

    def __init__(
        self,
        name: TopicName,
        log: Log,
        policies: TopicPolicies,
        context: Context,
        rates: BrokerRates,
        reload: Callable[["Topic"], None],
        touched: dict["Topic", bool],
    ) -> None:
        """Add a subscription for every cursor of ``log`` that can be used.

        ``rates`` belong to all topics of the broker. ``reload`` closes the topic; it is called once, when the log can
        no longer be written. The topic adds itself to ``touched`` whenever its statistics may have changed.
        """
        self.name = name
        self.log = log
        self.policies = binding(name, policies)
        self.context = context
        self.scope = TaskScope(name.full)
        self.subscriptions: dict[str, Subscription] = {}
        self.stages: tuple[Stage, ...] = ()
        self.closing = False
        self.loaded_ms = context.clock.wall_ms()
        self.published = Traffic()
        self.repeated_messages = 0
        """Published messages that were sent again and are stored once."""
        self.fetched = Traffic()
        """Entries, not messages, that were read from storage because they were not in memory."""
        self.written: Written | None = None
        """Sizes and latencies of stored entries; None before the first one and for non-persistent topics."""
        self._out_before = (0, 0)
        """Messages and bytes sent by subscriptions that were deleted since."""
        self.publishers = Publishers(self)
        self.recovered = RecoveredEntries(self)
        self.deduplication = Deduplication(self)
        self.compaction = TopicCompaction(self)
        self._delay_limit = DelayLimit(self)
        self.quotas = BacklogQuotas(self, context.clock)
        self.rates = TopicRates(self, rates)
        self.rates.apply()
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        """Locks by subscription name (or PROPERTIES), with the number of tasks that hold or await each."""
        self._deletions: dict[str, asyncio.Task[None]] = {}
        """Deletions of abandoned cursors by name: a consumer of the same name must not receive the old cursor."""
        self._opening = 0
        """Number of cursors being opened or created."""
        self._last_message = (EARLIEST, -1)
        self._touched = touched
        for cursor_name in sorted(log.cursors):
            if not cursor_name.startswith(RESERVED_CURSORS):
                self._add_subscription(log.cursors[cursor_name])
        log.on_cursor_read(self._add_read_cursor)
        log.on_trimmed(self.touched)
        self._stop_listening = log.on_readable(self._wake)
        log.on_fenced(lambda: reload(self))
        self._delay_limit.apply()
        self.deduplication.apply()

    def touched(self) -> None:
        """Mark the statistics as possibly changed. Called often."""
        self._touched[self] = True

    @property
    def producers(self) -> dict[str, Producer]:
        """Attached producers, by name."""
        return self.publishers.attached

    @property
    def users(self) -> int:
        """Number of producers, including those that wait for the topic, and consumers."""
        consumers = sum(len(subscription.consumers) for subscription in self.subscriptions.values())
        return len(self.producers) + len(self.publishers.waiting) + consumers

    @property
    def in_use(self) -> bool:
        return bool(self.producers or self.subscription_names)

    def is_unused(self, *, caught_up: bool) -> bool:
        """Return whether the topic has no producer, no pending change or entry, and no subscription.

        With ``caught_up``, subscriptions without a consumer and without a backlog are permitted.
        """
        if self.closing or self.publishers.busy or self._opening:
            return False
        subscriptions = self.subscriptions.values()
        if not caught_up and (subscriptions or self.unread):
            return False
        # The backlog of a cursor that cannot be read is unknown, so the topic counts as used.
        if self.unread or any(
            subscription.consumers or subscription.cursor.backlog_entries()
            for subscription in subscriptions
        ):
            return False
        return not self._locks and not self.log.stats().pending_entries

    def close_unused(self, *, caught_up: bool) -> bool:
        """Close the topic to new clients if it is unused, and return whether it was; the caller unloads it next."""
        # The check and the flag are one step without an await: a client attaches before it or is refused after it.
        if self.is_unused(caught_up=caught_up):
            self.closing = True
            return True
        return False

    @property
    def accepts_first_schema(self) -> bool:
        """True while a schema may be chosen: nothing is stored, no producer is attached, no consumer has a schema."""
        readers = (
            consumer
            for subscription in self.subscriptions.values()
            for consumer in subscription.consumers
        )
        typed = any(not consumer.reads_any_schema for consumer in readers)
        return not (self.producers or typed or self.log.bytes_behind(EARLIEST))

    @property
    def use(self) -> str:
        """The number of producers and subscriptions, as text for the refusal of a deletion."""
        return f"{len(self.producers)} producers and {len(self.subscription_names)} subscriptions"

    @property
    def unread(self) -> dict[str, str]:
        """Reasons by name of the subscriptions that may be stored but cannot be used now.

        The managed ledger reads their cursors again until it succeeds, then the subscriptions are added.
        """
        reasons = self.log.unread_cursors
        return {
            name: reasons[name] for name in sorted(reasons) if not name.startswith(RESERVED_CURSORS)
        }

    @property
    def subscription_names(self) -> list[str]:
        """Sorted names of all subscriptions, including those that cannot be used now."""
        return sorted({**self.subscriptions, **self.unread})

    @property
    def terminated(self) -> bool:
        return self.log.terminated is not None

    @property
    def total_out(self) -> tuple[int, int]:
        """Messages and bytes sent since the topic was loaded, including those of deleted subscriptions."""
        messages, size = self._out_before
        for subscription in self.subscriptions.values():
            messages_out, bytes_out = subscription.total_out
            messages, size = messages + messages_out, size + bytes_out
        return messages, size

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the largest backlog, or of all stored entries when there is no durable subscription."""
        durable = [cursor.mark_delete for cursor in self.log.cursors.values() if cursor.durable]
        return max(map(self.log.bytes_behind, durable or (EARLIEST,)))

    # --- publishing -----------------------------------------------------------------------------

    def publish(self, publish: Publish) -> None:
        """Pass ``publish`` through the stages and append it; its outcome may be reported to it within this call."""
        publish.since_s = self.context.clock.monotonic_s()
        if not self.stages or all(stage.admit(publish) for stage in self.stages):
            self.log.append(publish.run, publish)

    def admitted(self, publish: Publish, by: Stage) -> None:
        """Pass ``publish``, which the stage ``by`` had kept, through the stages behind that one and append it."""
        place = by.place
        if all(stage.admit(publish) for stage in self.stages if stage.place > place):
            self.log.append(publish.run, publish)

    def arrange_stages(self) -> None:
        """Order the stages again, after a part of the topic changed those it needs (D16)."""
        parts = (self._delay_limit, self.rates, self.deduplication)
        self.stages = in_order(stage for part in parts for stage in part.wanted)

    def stored(self, publish: Publish, start: int, stop: int, messages: int, size: int) -> None:
        """Count ``messages`` and ``size`` bytes that became durable, and notify the stages."""
        self.published.messages.total += messages
        self.published.bytes.total += size
        written = self.written
        if written is None and self.name.persistent:
            written = self.written = Written(self.context.clock.monotonic_s())
        if written is not None:
            now_s = self.context.clock.monotonic_s()
            written.add(now_s, now_s - publish.since_s, publish.run, start, stop, size)
        for stage in self.stages:
            stage.stored(publish, start, stop)

    def add_recovered(self, entries: list[tuple[Slice, int]]) -> None:
        """Count entries that the recovery of a ledger added to the log as published; their latency is not known."""
        for run, i in entries:
            self.published.messages.total += run.messages_of(i, i + 1)
            self.published.bytes.total += run.size_of(i, i + 1)
            self.deduplication.add_recovered(run, i)
        self.touched()

    def repeated(self, messages: int, size: int) -> None:
        """Count messages that were sent again and are stored already; they count as published, too."""
        self.published.messages.total += messages
        self.repeated_messages += messages
        self.published.bytes.total += size
        self.touched()

    def failed(self, publish: Publish, start: int) -> None:
        """Notify the stages that the entries from ``start`` on did not become durable."""
        for stage in self.stages:
            stage.failed(publish, start)

    def _wake(self) -> None:
        """Wake the subscriptions after entries were appended (D2)."""
        self._touched[self] = True
        for subscription in self.subscriptions.values():
            subscription.wake()

    def last_sequence(self, name: str) -> int:
        """Return the highest sequence id that is known to be stored of producer ``name``; -1 when there is none."""
        return self.deduplication.last_sequence(name)

    def remove_producer(self, producer: Producer) -> None:
        """Remove a producer that left. Safe to call twice."""
        self.publishers.remove(producer)

    # --- subscriptions --------------------------------------------------------------------------

    async def subscribe(
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
        durable = durable and self.name.persistent
        self.check_type(consumer.kind)
        self.rates.check_subscribe(consumer)
        # The subscription may be deleted before the consumer is attached: then it is created again.
        while True:
            present = self.subscriptions.get(name)
            subscription = await self._ensure_subscription(name, durable, initial, properties)
            if subscription.durable != durable:
                kind = "Durable" if subscription.durable else "NonDurable"
                raise NotAllowed(f"{kind} subscription with the same name already exists.")
            try:
                if rolls_back and subscription is present:
                    assert isinstance(initial, Position)
                    await subscription.reset(initial)
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
        if kind.title not in self.policies.subscription_types:
            raise NotAllowed(f"Topic[{{{self.name}}}] doesn't support {kind.title} sub type!")

    def check_room(self, subscription: Subscription | None = None) -> None:
        """Raise ConsumerBusy when ``subscription``, or a new one when None, must not get one more consumer."""
        policies, subscriptions = self.policies, self.subscriptions.values()
        consumers = sum(len(present.consumers) for present in subscriptions)
        if reached(policies.max_consumers, consumers):
            raise ConsumerBusy("Topic reached max consumers limit")
        own = 0 if subscription is None else len(subscription.consumers)
        if reached(policies.max_consumers_per_subscription, own):
            raise ConsumerBusy("Subscription reached max consumers limit")

    @asynccontextmanager
    async def _changing(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of the subscription ``name`` (or of PROPERTIES) while it is created, changed or deleted.

        There is one lock per name because storage may not answer for long, which must not delay other subscriptions.
        """
        lock, users = self._locks.get(name) or (asyncio.Lock(), 0)
        self._locks[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(name)
            if users > 1:
                self._locks[name] = lock, users - 1

    async def _ensure_subscription(
        self,
        name: str,
        durable: bool,
        initial: Position | InitialPosition,
        properties: dict[str, str],
    ) -> Subscription:
        self.check_open()
        subscription = self.subscriptions.get(name)
        # A closed one is still listed while its cursor is deleted: its lock is held until that has ended.
        if subscription is not None and not subscription.closed:
            return subscription
        while True:
            # A new subscription of the name must not be given the cursor that is being deleted.
            deletion = self._deletions.get(name)
            if deletion is not None:
                await asyncio.wait([deletion])
            async with self._changing(name):
                self.check_open()
                subscription = self.subscriptions.get(name)
                if subscription is not None:
                    return subscription
                if name in self._deletions:
                    continue  # abandoned again while this call waited for the lock
                if durable and not self.policies.auto_subscription:
                    raise SubscriptionNotFound("Subscription does not exist")
                self.check_room()
                return await self._make_subscription(name, durable, initial, properties)

    async def create_subscription(
        self, name: str, initial: Position | InitialPosition, properties: dict[str, str]
    ) -> Subscription | None:
        """Create a durable subscription for an administrator and return it; None when it exists.

        Raises NotAllowed at the limit and for a reserved name, ServiceNotReady when it is not known whether the
        subscription exists now: the caller tries again.
        """
        if name.startswith(RESERVED_CURSORS):
            raise NotAllowed(f"Subscription name {name} is reserved for the broker")
        self.check_open()
        async with self._changing(name):
            self.check_open()
            if name in self.subscriptions:
                return None
            cursor = await self._open_cursor(name, True, initial, properties)
            # A cursor that had been unreadable is added by _add_read_cursor before the call returns.
            return None if name in self.subscriptions else self._add_subscription(cursor)

    async def set_subscription_properties(self, name: str, properties: dict[str, str]) -> None:
        """Replace the properties of a subscription; those of a durable one are durable when the call returns.

        Raises SubscriptionNotFound, and ServiceNotReady when it is not known whether they are stored.
        """
        # A write to the node of a subscription that was deleted meanwhile would look like another owner's write.
        async with self._changing(name):
            self.check_open()
            subscription = self.subscriptions.get(name)
            if subscription is None:
                raise SubscriptionNotFound("Subscription not found")
            try:
                await subscription.cursor.update_cursor_properties(properties)
            except (LedgerError, WorldError, ManagedLedgerError) as error:
                raise ServiceNotReady(f"Properties of {name} may not be stored: {error}") from error

    async def _make_subscription(
        self,
        name: str,
        durable: bool,
        initial: Position | InitialPosition,
        properties: dict[str, str],
    ) -> Subscription:
        cursor = await self._open_cursor(name, durable, initial, properties)
        return self.subscriptions.get(name) or self._add_subscription(cursor)

    async def _open_cursor(
        self,
        name: str,
        durable: bool,
        initial: Position | InitialPosition,
        properties: dict[str, str],
    ) -> SubscriptionCursor:
        """Create the cursor ``name``, or open one that could not be read until now.

        The subscription of the latter is added meanwhile, by ``_add_read_cursor``.
        """
        if name == COMPACTION and self.name.persistent:
            # Entries before this cursor count as compacted, so it must begin with the first entry (M11).
            if not durable:
                raise NotAllowed(f"Subscription {name} is the compaction's, which is durable")
            initial = InitialPosition.EARLIEST
        present = len(self.subscription_names) + self._opening
        if name not in self.unread and reached(self.policies.max_subscriptions, present):
            raise NotAllowed(
                f"Exceed the maximum number of subscriptions of the topic: {self.name}"
            )
        self._opening += 1
        try:
            return await self.log.open_cursor(
                name, initial, durable=durable, cursor_properties=properties
            )
        except InvalidPropertyError as error:
            raise NotAllowed(f"Subscription {name}: {error}") from error
        except (WorldError, ManagedLedgerError) as error:
            raise ServiceNotReady(f"Subscription {name} cannot be used now: {error}") from error
        finally:
            self._opening -= 1
            self.touched()

    def compaction_made(self, cursor: CompactionCursor) -> None:
        """Add the subscription of the compaction's cursor, when the first compaction begins."""
        if cursor.name not in self.subscriptions:
            self._add_subscription(self.log.cursors[cursor.name])
            self.touched()

    def _add_read_cursor(self, cursor: SubscriptionCursor) -> None:
        if not cursor.name.startswith(RESERVED_CURSORS) and not self.closing:
            self._add_subscription(cursor)

    def _add_subscription(self, cursor: SubscriptionCursor) -> Subscription:
        kind = Subscription if self.name.persistent else EphemeralSubscription
        if self.name.persistent and cursor.name == COMPACTION:
            kind = CompactionSubscription
        subscription = kind(self, cursor, self.context)
        self.subscriptions[cursor.name] = subscription
        return subscription

    async def delete_subscription(
        self, name: str, *, force: bool = False, check: Callable[[], None] = lambda: None
    ) -> None:
        """Delete the subscription ``name`` and its cursor.

        ``check`` is called when nothing else can change the subscription any more; a Refusal that it raises is raised,
        and nothing is deleted. Raises SubscriptionNotFound, ConsumerBusy (consumers attached and not ``force``),
        ServiceNotReady. After ServiceNotReady the subscription is deleted or exists again with its whole state, and
        its consumers connect again; the caller deletes it again to be sure. Cancel-safe: the deletion continues.
        """
        task = self.scope.spawn(f"delete {name}", self._delete_named(name, force, check))
        try:
            refusal = await asyncio.shield(task)
        except asyncio.CancelledError:
            # The scope cancels the task when the topic is closed; otherwise the caller itself was cancelled.
            if task.cancelled():
                raise ServiceNotReady(f"Topic {self.name} is being unloaded") from None
            raise
        if refusal is not None:
            raise refusal

    async def _delete_named(
        self, name: str, force: bool, check: Callable[[], None]
    ) -> BrokerError | Refusal | None:
        async with self._changing(name):
            subscription = self.subscriptions.get(name)
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
            await self.log.delete_cursor(name)
        except CursorNotFoundError:
            logger.debug("cursor was gone topic=%s cursor=%s", self.name, name)
        finally:
            subscription = self.subscriptions.pop(name, None)
            if subscription is not None:
                await subscription.close(force=True)

    async def _delete(self, subscription: Subscription) -> None:
        try:
            await self.log.delete_cursor(subscription.name)
        except CursorNotFoundError:
            logger.debug("cursor was gone topic=%s cursor=%s", self.name, subscription.name)
        finally:
            if self.subscriptions.get(subscription.name) is subscription:
                self._remove_subscription(subscription)
            self.touched()

    def _remove_subscription(self, subscription: Subscription) -> None:
        del self.subscriptions[subscription.name]
        messages, size = subscription.total_out
        self._out_before = self._out_before[0] + messages, self._out_before[1] + size

    def abandoned(self, subscription: Subscription) -> None:
        """Delete a non-durable subscription whose last consumer left.

        It is removed at once, so that the next consumer of the name gets a new one; its cursor is deleted in the
        background.
        """
        present = self.subscriptions.get(subscription.name) is subscription
        if subscription.durable or self.closing or not present:
            return
        self._remove_subscription(subscription)
        subscription.end()
        self.touched()
        name = subscription.name
        self._deletions[name] = self.scope.spawn(
            f"delete {name}", self._delete_abandoned(subscription)
        )

    async def _delete_abandoned(self, subscription: Subscription) -> None:
        try:
            async with self._changing(subscription.name):
                await self._delete(subscription)
        except (ManagedLedgerFencedError, ManagedLedgerClosedError) as error:
            # Cursors that are not durable end with their owner's log.
            logger.debug("cursor ended with its log topic=%s: %s", self.name, error)
        finally:
            del self._deletions[subscription.name]

    def abandoned_later(self, subscription: Subscription) -> None:
        """Delete a subscription whose consumers were disconnected by a seek, unless one attaches in RETURN_GRACE_S."""
        if not self.closing:
            self.scope.spawn(f"wait for {subscription.name}", self._delete_if_unused(subscription))

    async def _delete_if_unused(self, subscription: Subscription) -> None:
        await asyncio.sleep(RETURN_GRACE_S)
        if not subscription.consumers:
            self.abandoned(subscription)

    async def first_since(self, publish_ms: int) -> Position:
        """Return the position of the first entry published at ``publish_ms`` or later.

        Raises LedgerError when the entries that decide it cannot be read.
        """
        return self.log.next_position(await self.log.find_by_time(publish_ms))

    async def last_message(self, *, compacted: bool = False) -> tuple[Position, int]:
        """Return the position of the last entry and the index of its last message (-1: no batch).

        The position is -1:-1 when no entry is kept. ``compacted``: of the compacted topic. Cancel-safe. Raises
        LedgerError when the entry cannot be read.
        """
        last_message = self.last_message_at_hand(compacted=compacted)
        if last_message is not None:
            return last_message
        # The last entry of the topic may have been compacted away, so the compacted ledger is opened for its last one.
        if compacted and self.compaction.holds_all and (await self.compaction.ledger()) is not None:
            return await self.last_message(compacted=True)
        last = self.log.last_readable
        try:
            entry = await self.log.read_entry(last)
        except InvalidPositionError:
            return EARLIEST, -1  # trimmed
        self._last_message = (last, last_batch_index(entry.entry(0)))
        return self._last_message

    def last_message_at_hand(self, *, compacted: bool = False) -> tuple[Position, int] | None:
        """Return what ``last_message`` returns; None when an entry has to be read, and of a non-persistent topic."""
        if not self.name.persistent:
            return None
        if compacted and self.compaction.holds_all:
            ledger = self.compaction.at_hand
            return None if ledger is None else ledger.last
        last = self.log.last_readable
        if last.entry_id < 0:
            return EARLIEST, -1
        if last != self._last_message[0]:
            entry = self.log.entry_at_hand(last)
            if entry is None:
                return None
            self._last_message = (last, last_batch_index(entry.entry(0)))
        return self._last_message

    # --- upkeep ---------------------------------------------------------------------------------

    async def apply(self, policies: TopicPolicies, config: LedgerConfig) -> None:
        """Put ``policies`` into force; ``config`` has the log's part of them. Raises the log's errors."""
        policies = binding(self.name, policies)
        if policies == self.policies:
            self.log.trim_soon()  # the retention of a ledger may have passed since the last call
        else:
            self.policies = policies
            self._delay_limit.apply()
            self.deduplication.apply()
            self.publishers.apply()
            self.settings_changed()
            await self.log.update_config(config)

    def settings_changed(self) -> None:
        """Apply limits of the topic or of the broker that may have changed."""
        self.rates.apply()
        for subscription in self.subscriptions.values():
            subscription.apply()

    async def expire(self, before_ms: int) -> None:
        """Acknowledge what was published before ``before_ms`` in every durable subscription (D11).

        Raises the first of the log's errors after the other subscriptions are done. Cancel-safe.
        """
        failed: MagnetarError | None = None
        for subscription in list(self.subscriptions.values()):
            try:
                # Entries that the compaction's cursor passed would count as compacted (M11).
                if subscription.durable and subscription.name != COMPACTION:
                    await subscription.expire(before_ms)
            except MagnetarError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    # --- life -----------------------------------------------------------------------------------

    def _note_time(self) -> None:
        """Note the log's end with the time of the broker's clock, when policies remove messages by age.

        Publish times are set by clients; from these notes it is known since when an entry can have been in the log.
        """
        limits_s = [self.policies.message_ttl_s or 0, self.policies.age_quota.limit]
        if shortest_s := min((limit_s for limit_s in limits_s if limit_s > 0), default=0):
            self.log.note_time(shortest_s * 1000 // NOTES_OF_AN_AGE)

    def check_open(self) -> None:
        """Raise ServiceNotReady when the topic is being closed."""
        if self.closing:
            raise ServiceNotReady(f"Topic {self.name} is being unloaded")

    async def close(self) -> None:
        """Disconnect every client (they look the topic up again), persist cursors, close the ledger.

        Producers are disconnected last: pending entries are confirmed before that, so that they are not sent twice.
        """
        self.closing = True
        self._stop_listening()
        self.publishers.refuse_waiting(ServiceNotReady(f"Topic {self.name} is being unloaded"))
        for subscription in list(self.subscriptions.values()):
            with contained(f"end of {subscription.name} of {self.name}"):
                subscription.disconnect()
                subscription.stop()
        for stop in (self.compaction.stop, self.deduplication.take_snapshot, self.rates.end):
            with contained(f"end of {self.name}"):
                stop()
        closing = self.scope.spawn("close ledger", self.log.close())
        await asyncio.wait([closing], timeout=CONFIRM_GRACE_S)
        for producer in list(self.producers.values()):
            producer.disconnect()
        try:
            await closing
        finally:
            self.deduplication.end()
            await self.scope.close()

    def lost(self) -> None:
        """Confirm nothing more and disconnect the clients, because another broker may serve the topic."""
        self.log.fenced(ManagedLedgerFencedError("its bundle was lost"))

    async def terminate(self) -> Position:
        """Terminate the topic and return the last entry's position. Producers are disconnected and refused from now
        on."""
        position = await self.log.terminate()
        self.publishers.refuse_waiting(TopicTerminated("Topic was already terminated"))
        for producer in list(self.producers.values()):
            producer.disconnect()
        for subscription in self.subscriptions.values():
            subscription.notify_end()
        return position

    async def change_properties(
        self,
        changes: dict[str, str | None],
        check: Callable[[Mapping[str, str]], None] = lambda present: None,
    ) -> None:
        """Set properties, or remove those given as None; durable when the call returns.

        ``check`` receives the present properties and raises when the change must not be made. Raises ServiceNotReady
        when it is not known whether the change is stored.
        """
        async with self._changing(PROPERTIES):
            # Under the lock: of two concurrent changes the second one is checked against the first one's result.
            check(self.log.properties)
            try:
                await self.log.update_properties(changes)
            except (WorldError, ManagedLedgerError) as error:
                raise ServiceNotReady(
                    f"Properties of {self.name} may not be stored: {error}"
                ) from error

    def tick(self, elapsed_s: float) -> bool:
        """Compute rates from counters, once a second. Return whether the next second may differ without a touch.

        False when all rates are zero: the next call is needed only after the topic was touched.
        """
        self._note_time()
        changes = self.published.tick(elapsed_s)
        self.fetched.messages.total, self.fetched.bytes.total = self.log.fetched
        changes = self.fetched.tick(elapsed_s) or changes
        for producer in self.producers.values():
            changes = producer.tick(elapsed_s) or changes
        for subscription in self.subscriptions.values():
            changes = subscription.tick(elapsed_s) or changes
        return changes or bool(self.log.unread_cursors)
