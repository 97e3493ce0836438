"""One topic served here: its producers, its subscriptions, and the way of a run of entries into its managed ledger."""

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
"""How often the end of a log is noted within the age at which its messages go: how exactly their arrival is known."""
RESERVED_CURSORS = ("pulsar.repl", "pulsar.dedup")
"""Cursors with these prefixes are the broker's own."""

PROPERTIES = ""
"""Stands for the topic's properties where subscriptions that are being changed have their names."""
RETURN_GRACE_S = 60.0
"""How long a non-durable subscription without consumers is kept after a seek."""
CONFIRM_GRACE_S = 3.0
"""How long a closing topic waits for what its producers sent, before it sends them away."""


class Topic:
    """Made by the registry around an open log. Methods raise BrokerError where they refuse."""

    __slots__ = (
        "_coming",
        "_delay_limit",
        "_gone_out",
        "_last_message",
        "_leaving",
        "_locks",
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
        """``rates``: of all topics together. ``reload`` is called once when the log can no longer be written: it closes
        the topic. The topic puts itself among ``touched`` when what statistics show of it has changed, or may have."""
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
        """Of the published ones: those that came again and are stored once."""
        self.fetched = Traffic()
        """Entries, not messages, that were read from storage because they were not in memory."""
        self.written: Written | None = None
        """Since the first entry was stored; nothing is stored of topics that are not persistent."""
        self._gone_out = (0, 0)
        """Messages and bytes that went out of subscriptions that are gone."""
        self.publishers = Publishers(self)
        self.recovered = RecoveredEntries(self)
        self.deduplication = Deduplication(self)
        self.compaction = TopicCompaction(self)
        self._delay_limit = DelayLimit(self)
        self.quotas = BacklogQuotas(self, context.clock)
        self.rates = TopicRates(self, rates)
        self.rates.apply()
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        """By name of a subscription (or PROPERTIES), while it is being changed, and how many hold it or wait for it."""
        self._leaving: dict[str, asyncio.Task[None]] = {}
        """Cursors being deleted, by name: who subscribes under the name must not get the old one."""
        self._coming = 0
        """Subscriptions being made."""
        self._last_message = (EARLIEST, -1)
        self._touched = touched
        for cursor_name in sorted(log.cursors):
            if not cursor_name.startswith(RESERVED_CURSORS):
                self._add_subscription(log.cursors[cursor_name])
        log.on_cursor_read(self._came_back)
        log.on_trimmed(self.touched)
        self._stop_listening = log.on_appended(self._wake)
        log.on_fenced(lambda: reload(self))
        self._delay_limit.apply()
        self.deduplication.apply()

    def touched(self) -> None:
        """What statistics show has changed, or may have. Often called."""
        self._touched[self] = True

    @property
    def producers(self) -> dict[str, Producer]:
        """Those who may publish, by name."""
        return self.publishers.attached

    @property
    def users(self) -> int:
        """Producers, also those in line, and consumers."""
        consumers = sum(len(each.consumers) for each in self.subscriptions.values())
        return len(self.producers) + len(self.publishers.waiting) + consumers

    @property
    def in_use(self) -> bool:
        return bool(self.producers or self.subscription_names)

    def is_unused(self, *, caught_up: bool) -> bool:
        """Nobody publishes, nothing is under way, nobody comes, and no subscription is there; with ``caught_up`` none
        that has a consumer or a backlog, as far as is known."""
        if self.closing or self.publishers.busy or self._coming:
            return False
        present = self.subscriptions.values()
        if not caught_up and (present or self.unread):
            return False
        if self.unread or any(one.consumers or one.cursor.backlog_entries() for one in present):
            return False
        return not self._locks and not self.log.stats().pending_entries

    def close_unused(self, *, caught_up: bool) -> bool:
        """From this moment on nobody can come, if nobody is here; to be unloaded next."""
        if self.is_unused(caught_up=caught_up):
            self.closing = True
            return True
        return False

    @property
    def untouched(self) -> bool:
        """Nothing is stored, nobody publishes, and nobody reads but as whatever comes: a schema may still be chosen."""
        readers = (one for each in self.subscriptions.values() for one in each.consumers)
        typed = any(not one.reads_any_schema for one in readers)
        return not (self.producers or typed or self.log.bytes_behind(EARLIEST))

    @property
    def use(self) -> str:
        """What keeps the topic from being deleted, for messages."""
        return f"{len(self.producers)} producers and {len(self.subscription_names)} subscriptions"

    @property
    def unread(self) -> dict[str, str]:
        """Subscriptions that are or may be stored and cannot be used now, and why. They come back by themselves."""
        found = self.log.unread_cursors
        return {
            name: found[name] for name in sorted(found) if not name.startswith(RESERVED_CURSORS)
        }

    @property
    def subscription_names(self) -> list[str]:
        """All subscriptions, sorted, whether they can be used now or not."""
        return sorted({**self.subscriptions, **self.unread})

    @property
    def terminated(self) -> bool:
        return self.log.terminated is not None

    @property
    def total_out(self) -> tuple[int, int]:
        """Messages and bytes that went out since it was loaded, also of subscriptions that are gone."""
        messages, size = self._gone_out
        for each in self.subscriptions.values():
            more, larger = each.total_out
            messages, size = messages + more, size + larger
        return messages, size

    @property
    def backlog_bytes(self) -> int:
        """Of the largest backlog, or all that is stored where there is no durable subscription."""
        durable = [each.mark_delete for each in self.log.cursors.values() if each.durable]
        return max(map(self.log.bytes_behind, durable or (EARLIEST,)))

    # --- publishing -----------------------------------------------------------------------------

    def publish(self, publish: Publish) -> None:
        """Let it pass the stages, then append it; its fate goes to ``publish``, maybe within this call."""
        publish.since_s = self.context.clock.monotonic_s()
        if not self.stages or all(stage.admit(publish) for stage in self.stages):
            self.log.append(publish.run, publish)

    def admitted(self, publish: Publish, by: Stage) -> None:
        """From a stage that kept ``publish``: it goes on behind that stage."""
        place = by.place
        if all(stage.admit(publish) for stage in self.stages if stage.place > place):
            self.log.append(publish.run, publish)

    def arrange_stages(self) -> None:
        """A part of the topic that may be stages of it wants others from now on (D16)."""
        parts = (self._delay_limit, self.rates, self.deduplication)
        self.stages = in_order(stage for part in parts for stage in part.wanted)

    def stored(self, publish: Publish, start: int, stop: int, messages: int, size: int) -> None:
        """Count what became durable, ``messages`` and ``size`` bytes of it, and tell the stages."""
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

    def take_recovered(self, entries: list[tuple[Slice, int]]) -> None:
        """Count entries that the recovery of a ledger brought in: they are published as any other. How long it took to
        store them, nobody knows."""
        for run, i in entries:
            self.published.messages.total += run.messages_of(i, i + 1)
            self.published.bytes.total += run.size_of(i, i + 1)
            self.deduplication.take_recovered(run, i)
        self.touched()

    def repeated(self, messages: int, size: int) -> None:
        """Count what came again and was stored before: it was published, too."""
        self.published.messages.total += messages
        self.repeated_messages += messages
        self.published.bytes.total += size
        self.touched()

    def failed(self, publish: Publish, start: int) -> None:
        """Tell the stages what did not become durable."""
        for stage in self.stages:
            stage.failed(publish, start)

    def _wake(self) -> None:
        """Entries were appended (D2)."""
        self._touched[self] = True
        for subscription in self.subscriptions.values():
            subscription.wake()

    def last_sequence(self, name: str) -> int:
        """The highest sequence id that is known to be stored of producer ``name``; -1: none."""
        return self.deduplication.last_sequence(name)

    def remove_producer(self, producer: Producer) -> None:
        """It left. Safe to call twice."""
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
        """Attach ``consumer`` to the subscription ``name``, made if missing. ``initial`` counts only then, or
        ``rolls_back`` to it, a position, one that is there. ``replicated``: from now on.

        Raises ConsumerBusy, NotAllowed (durable onto non-durable or reverse, too many), SubscriptionNotFound (may not
        be made), ServiceNotReady. Cancel-safe: the subscription may remain, without the consumer.
        """
        durable = durable and self.name.persistent
        self.check_type(consumer.kind)
        self.rates.check_subscribe(consumer)
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
                    self.abandoned(subscription)  # made for this consumer, which did not come

    def check_type(self, kind: SubscriptionType) -> None:
        """Whether subscriptions may be of this type. Raises NotAllowed."""
        if kind.title not in self.policies.subscription_types:
            raise NotAllowed(f"Topic[{{{self.name}}}] doesn't support {kind.title} sub type!")

    def check_room(self, subscription: Subscription | None = None) -> None:
        """Whether one more consumer may come, to ``subscription`` or a new one. Raises ConsumerBusy."""
        policies, attached = self.policies, self.subscriptions.values()
        if reached(policies.max_consumers, sum(len(each.consumers) for each in attached)):
            raise ConsumerBusy("Topic reached max consumers limit")
        own = 0 if subscription is None else len(subscription.consumers)
        if reached(policies.max_consumers_per_subscription, own):
            raise ConsumerBusy("Subscription reached max consumers limit")

    @asynccontextmanager
    async def _changing(self, name: str) -> AsyncIterator[None]:
        """Held while a subscription of this name is made or deleted: another's storage may be silent for long."""
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
        if subscription is not None and not subscription.closed:
            return subscription
        while True:  # whoever comes during a deletion waits for its end
            leaving = self._leaving.get(name)
            if leaving is not None:
                await asyncio.wait([leaving])
            async with self._changing(name):
                self.check_open()
                subscription = self.subscriptions.get(name)
                if subscription is not None:
                    return subscription
                if name in self._leaving:
                    continue
                if durable and not self.policies.auto_subscription:
                    raise SubscriptionNotFound("Subscription does not exist")
                self.check_room()
                return await self._make_subscription(name, durable, initial, properties)

    async def create_subscription(
        self, name: str, initial: Position | InitialPosition, properties: dict[str, str]
    ) -> Subscription | None:
        """A new durable subscription for an administrator; None when it exists.

        Raises NotAllowed at the limit and for a name that is reserved, ServiceNotReady when it is not known whether it
        exists now; try again.
        """
        if name.startswith(RESERVED_CURSORS):
            raise NotAllowed(f"Subscription name {name} is reserved for the broker")
        self.check_open()
        async with self._changing(name):
            self.check_open()
            if name in self.subscriptions:
                return None
            cursor = await self._open_cursor(name, True, initial, properties)
            return None if name in self.subscriptions else self._add_subscription(cursor)

    async def set_subscription_properties(self, name: str, properties: dict[str, str]) -> None:
        """Replace them; durable, if the subscription is, before it returns. Raises SubscriptionNotFound, and
        ServiceNotReady when they may or may not be stored."""
        # A write to the node of a subscription that was deleted meanwhile would look like another owner.
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
        """A new one; or one that could not be read until now, its subscription with it (``_came_back``).

        That of the compaction begins with the first entry, whoever makes it: what is before it counts as compacted.
        """
        if name == COMPACTION and self.name.persistent:
            if not durable:
                raise NotAllowed(f"Subscription {name} is the compaction's, which is durable")
            initial = InitialPosition.EARLIEST
        present = len(self.subscription_names) + self._coming
        if name not in self.unread and reached(self.policies.max_subscriptions, present):
            raise NotAllowed(
                f"Exceed the maximum number of subscriptions of the topic: {self.name}"
            )
        self._coming += 1
        try:
            return await self.log.open_cursor(
                name, initial, durable=durable, cursor_properties=properties
            )
        except InvalidPropertyError as error:
            raise NotAllowed(f"Subscription {name}: {error}") from error
        except (WorldError, ManagedLedgerError) as error:
            raise ServiceNotReady(f"Subscription {name} cannot be used now: {error}") from error
        finally:
            self._coming -= 1
            self.touched()

    def compaction_made(self, cursor: CompactionCursor) -> None:
        """The first compaction begins: its cursor is a subscription from now on."""
        if cursor.name not in self.subscriptions:
            self._add_subscription(self.log.cursors[cursor.name])
            self.touched()

    def _came_back(self, cursor: SubscriptionCursor) -> None:
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
        """Raises SubscriptionNotFound, ConsumerBusy (consumers connected and not ``force``), ServiceNotReady.

        ``check`` is called at the moment it goes; when it raises a Refusal, that is raised and nothing is deleted.
        After ServiceNotReady it is gone or comes back whole, its consumers with it; delete again to be sure.
        Cancel-safe: the deletion goes on.
        """
        task = self.scope.spawn(f"delete {name}", self._delete_named(name, force, check))
        try:
            refusal = await asyncio.shield(task)
        except asyncio.CancelledError:
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
        """Whoever reads the cursor just now is waited for: then it is found to be gone, or its subscription is back."""
        try:
            await self.log.delete_cursor(name)
        except CursorNotFoundError:
            logger.debug("cursor was gone topic=%s cursor=%s", self.name, name)
        finally:
            back = self.subscriptions.pop(name, None)
            if back is not None:
                await back.close(force=True)

    async def _delete(self, subscription: Subscription) -> None:
        try:
            await self.log.delete_cursor(subscription.name)
        except CursorNotFoundError:
            logger.debug("cursor was gone topic=%s cursor=%s", self.name, subscription.name)
        finally:
            if self.subscriptions.get(subscription.name) is subscription:
                self._forget(subscription)
            self.touched()

    def _forget(self, subscription: Subscription) -> None:
        del self.subscriptions[subscription.name]
        messages, size = subscription.total_out
        self._gone_out = self._gone_out[0] + messages, self._gone_out[1] + size

    def abandoned(self, subscription: Subscription) -> None:
        """The last consumer left: a non-durable subscription goes with it, at once for whoever subscribes next."""
        present = self.subscriptions.get(subscription.name) is subscription
        if subscription.durable or self.closing or not present:
            return
        self._forget(subscription)
        subscription.end()
        self.touched()
        name = subscription.name
        self._leaving[name] = self.scope.spawn(f"delete {name}", self._drop(subscription))

    async def _drop(self, subscription: Subscription) -> None:
        try:
            async with self._changing(subscription.name):
                await self._delete(subscription)
        except (ManagedLedgerFencedError, ManagedLedgerClosedError) as error:
            # Cursors that are not durable end with their owner's log.
            logger.debug("cursor ended with its log topic=%s: %s", self.name, error)
        finally:
            del self._leaving[subscription.name]

    def abandoned_later(self, subscription: Subscription) -> None:
        """Its consumers were sent away by a seek and should come back; if they do not, it goes."""
        if not self.closing:
            self.scope.spawn(f"wait for {subscription.name}", self._drop_unused(subscription))

    async def _drop_unused(self, subscription: Subscription) -> None:
        await asyncio.sleep(RETURN_GRACE_S)
        if not subscription.consumers:
            self.abandoned(subscription)

    async def first_since(self, publish_ms: int) -> Position:
        """The first entry published at ``publish_ms`` or later. Raises LedgerError when it cannot be found out."""
        return self.log.next_position(await self.log.find_by_time(publish_ms))

    async def last_message(self, *, compacted: bool = False) -> tuple[Position, int]:
        """Position of the last entry and the index of its last message (-1: no batch); -1:-1 when none is kept.
        ``compacted``: for who reads the compacted topic.

        Cancel-safe. Raises LedgerError when it cannot be read.
        """
        found = self.last_message_at_hand(compacted=compacted)
        if found is not None:
            return found
        if compacted and self.compaction.holds_all and (await self.compaction.ledger()) is not None:
            return await self.last_message(compacted=True)
        last = self.log.last_confirmed
        try:
            entry = await self.log.read_entry(last)
        except InvalidPositionError:
            return EARLIEST, -1  # trimmed
        self._last_message = (last, last_batch_index(entry.entry(0)))
        return self._last_message

    def last_message_at_hand(self, *, compacted: bool = False) -> tuple[Position, int] | None:
        """As ``last_message``; None when an entry has to be read for it, or there never is one."""
        if not self.name.persistent:
            return None
        if compacted and self.compaction.holds_all:
            ledger = self.compaction.at_hand
            return None if ledger is None else ledger.last
        last = self.log.last_confirmed
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
        """These policies are in force now, the log's part of them is ``config``. Raises the log's errors."""
        policies = binding(self.name, policies)
        if policies == self.policies:
            self.log.trim_soon()
        else:
            self.policies = policies
            self._delay_limit.apply()
            self.deduplication.apply()
            self.publishers.apply()
            self.settings_changed()
            await self.log.update_config(config)

    def settings_changed(self) -> None:
        """Limits of the topic or of the broker may be others: they act at once."""
        self.rates.apply()
        for subscription in self.subscriptions.values():
            subscription.apply()

    async def expire(self, before_ms: int) -> None:
        """What was published before ``before_ms`` counts as acknowledged by every durable subscription (D11).

        Raises the first of the log's errors, with the other subscriptions done. Cancel-safe.
        """
        failed: MagnetarError | None = None
        for subscription in list(self.subscriptions.values()):
            try:
                if subscription.durable and subscription.name != COMPACTION:
                    await subscription.expire(before_ms)
            except MagnetarError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    # --- life -----------------------------------------------------------------------------------

    def _note_time(self) -> None:
        """Messages go by age here: know by our own clock since when they can have been in the log."""
        limits_s = [self.policies.message_ttl_s or 0, self.policies.age_quota.limit]
        if shortest_s := min((each for each in limits_s if each > 0), default=0):
            self.log.note_time(shortest_s * 1000 // NOTES_OF_AN_AGE)

    def check_open(self) -> None:
        """Raises ServiceNotReady."""
        if self.closing:
            raise ServiceNotReady(f"Topic {self.name} is being unloaded")

    async def close(self) -> None:
        """Send every client away (they look the topic up again), persist cursors, close the ledger.

        Producers go last: what they sent before is confirmed first, so that they do not send it twice.
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
        """Another broker may serve it: nothing more is confirmed, its clients are sent away."""
        self.log.fenced(ManagedLedgerFencedError("its bundle was lost"))

    async def terminate(self) -> Position:
        """Seal the topic: producers are disconnected and cannot come back; the last entry's position."""
        position = await self.log.terminate()
        self.publishers.refuse_waiting(TopicTerminated("Topic was already terminated"))
        for producer in list(self.producers.values()):
            producer.disconnect()
        for subscription in self.subscriptions.values():
            subscription.tell_end()
        return position

    async def change_properties(
        self,
        changes: dict[str, str | None],
        check: Callable[[Mapping[str, str]], None] = lambda present: None,
    ) -> None:
        """Set properties, or remove those given None; durable before it returns. ``check`` is asked of those that they
        are added to and raises when they must not be. Raises ServiceNotReady when they may or may not be stored."""
        async with self._changing(PROPERTIES):
            check(self.log.properties)
            try:
                await self.log.update_properties(changes)
            except (WorldError, ManagedLedgerError) as error:
                raise ServiceNotReady(
                    f"Properties of {self.name} may not be stored: {error}"
                ) from error

    def tick(self, elapsed_s: float) -> bool:
        """Once a second, rates from counters. False when all are zero and nothing else changes by itself: then it is
        needed again only after the topic was touched."""
        self._note_time()
        moves = self.published.tick(elapsed_s)
        self.fetched.messages.total, self.fetched.bytes.total = self.log.fetched
        moves = self.fetched.tick(elapsed_s) or moves
        for producer in self.producers.values():
            moves = producer.tick(elapsed_s) or moves
        for subscription in self.subscriptions.values():
            moves = subscription.tick(elapsed_s) or moves
        return moves or bool(self.log.unread_cursors)
