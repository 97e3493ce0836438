"""One topic served by this broker: its producers, its subscriptions, and the path of entries to its managed ledger."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from engine.base.errors import MagnetarError, WorldError
from engine.base.ids import EARLIEST, Position
from engine.base.names import SYSTEM_PREFIX, TopicName
from engine.base.slices import Slice
from engine.base.tasks import TaskScope, contained
from engine.broker.compaction.ports import CompactionCursor
from engine.broker.compaction.topic_compaction import TopicCompaction
from engine.broker.context import Context
from engine.broker.control.counters import Traffic
from engine.broker.control.written import Written
from engine.broker.dispatch.facts import MARKER, facts_of
from engine.broker.dispatch.ports import DeliveryObserver
from engine.broker.errors import (
    NotAllowed,
    ServiceNotReady,
    TopicTerminated,
)
from engine.broker.outlet import WithheldCloses
from engine.broker.policies import TopicPolicies
from engine.broker.topics.counted_lock import CountedLock
from engine.broker.topics.deduplication import Deduplication
from engine.broker.topics.geo.origin_claims import OriginClaims
from engine.broker.topics.geo.shadow_link import ShadowLinks
from engine.broker.topics.geo.topic_replication import TopicReplication
from engine.broker.topics.lifecycle.topic_migration import TopicMigration
from engine.broker.topics.limits import DelayLimit, binding
from engine.broker.topics.ports import Log
from engine.broker.topics.publish import Producer, Publish, Stage, in_order
from engine.broker.topics.publishers import Publishers
from engine.broker.topics.quotas import BacklogQuotas
from engine.broker.topics.rates import BrokerRates, TopicRates
from engine.broker.topics.recovered import RecoveredEntries
from engine.broker.topics.subscriptions.last_message import LastMessage
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.subscriptions.subscriptions import Subscriptions
from engine.broker.topics.tracing.topic_tracing import TopicTracing
from engine.broker.topics.transactional.transaction_stage import TransactionStage
from engine.broker.transactions.buffer.topic_buffer import TopicBuffer
from engine.ledger.writing.writer import AckObserver
from engine.managed.errors import (
    ManagedLedgerError,
    ManagedLedgerFencedError,
)
from engine.managed.ledger import ManagedLedger
from engine.managed.settings import LedgerConfig
from engine.managed.shadow_ledger import ShadowLedger
from engine.tenancy.geo.shadow_topics import source_of
from engine.wire.geo.markers import ClusterSnapshot
from engine.wire.geo.source_positions import origin_of

logger = logging.getLogger(__name__)

NOTES_OF_AN_AGE = 16
"""Notes of the log's end within the shortest age at which messages are removed: the precision of their arrival time."""
SEARCHED_RUN_MIN = 16
"""Entries of a run from which markers are searched for when it is published, not when it is read."""
CONFIRM_GRACE_S = 3.0
"""Seconds for which a closing topic waits for pending entries before it disconnects its producers."""


class Topic:
    """A loaded topic, created by the registry around an open log. Methods raise BrokerError when they refuse."""

    __slots__ = (
        "_delay_limit",
        "_origin_claims",
        "_properties_lock",
        "_stop_listening",
        "_touched",
        "_transaction_stage",
        "closing",
        "compaction",
        "context",
        "deduplication",
        "fetched",
        "last_message",
        "loaded_ms",
        "log",
        "migration",
        "name",
        "policies",
        "published",
        "publishers",
        "quotas",
        "rates",
        "recovered",
        "repeated_messages",
        "replication",
        "scope",
        "shadow_source",
        "shadows",
        "stages",
        "subscriptions",
        "tracing",
        "transactions",
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
        self.shadow_source = source_of(log.properties)
        """The topic whose entries these are; None for a topic that is no shadow."""
        self.policies = binding(name, policies, shadow=self.shadow_source is not None)
        self.context = context
        self.scope = TaskScope(name.full)
        self.transactions: TopicBuffer | None = None
        """Transactions that publish here; None for a topic that never had one."""
        self._transaction_stage: TransactionStage | None = None
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
        self.publishers = Publishers(self)
        self.recovered = RecoveredEntries(self)
        self.deduplication = Deduplication(self)
        self.tracing = TopicTracing(self)
        self._origin_claims = OriginClaims(self)
        self.replication = TopicReplication(self)
        self.shadows = ShadowLinks(self)
        self.compaction = TopicCompaction(self)
        self._delay_limit = DelayLimit(self)
        self.quotas = BacklogQuotas(self, context.clock)
        self.rates = TopicRates(self, rates)
        self.rates.apply(self.policies.rates, self.policies.publish)
        self.last_message = LastMessage(self, persistent=name.persistent)
        self._properties_lock = CountedLock()
        self._touched = touched
        self.migration = TopicMigration(self)
        self.subscriptions = Subscriptions(self)
        log.on_trimmed(self.touched)
        self._stop_listening = log.on_readable(self._wake)
        log.on_fenced(lambda: reload(self))
        self._apply_policies()

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
        return bool(self.producers or self.subscriptions.names)

    def is_unused(self, *, caught_up: bool) -> bool:
        """Return whether the topic has no producer, no pending change or entry, and no subscription.

        With ``caught_up``, subscriptions without a consumer and without a backlog are permitted.
        """
        return not self.publishers.busy and self.is_left_to_links(caught_up=caught_up)

    def is_left_to_links(self, *, caught_up: bool) -> bool:
        """Return whether the topic is unused but for producers that are other clusters' replicators."""
        if self.closing or self.publishers.has_clients or self.subscriptions.busy:
            return False
        if not caught_up and self.subscriptions.names:
            return False
        if self.replication.backlog:
            return False
        # The backlog of a cursor that cannot be read is unknown, so the topic counts as used.
        if self.subscriptions.unread or any(
            subscription.consumers or subscription.cursor.backlog_entries()
            for subscription in self.subscriptions.values()
        ):
            return False
        return not self._properties_lock.users and not self.log.stats().pending_entries

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
        return f"{len(self.producers)} producers and {len(self.subscriptions.names)} subscriptions"

    @property
    def terminated(self) -> bool:
        return self.log.terminated is not None

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the largest backlog, or of all stored entries when there is no durable subscription."""
        durable = [cursor.mark_delete for cursor in self.log.cursors.values() if cursor.durable]
        return max(map(self.log.bytes_behind, durable or (EARLIEST,)))

    # --- publishing -----------------------------------------------------------------------------

    def publish(self, publish: Publish) -> None:
        """Pass ``publish`` through the stages and append it; its outcome may be reported to it within this call."""
        publish.since_s = self.context.clock.monotonic_s()
        # The checksums were just verified, so the bytes are in the processor's cache, unlike when they are read later.
        # A short run is left to its readers: its search costs more than the cache saves.
        if publish.run.count >= SEARCHED_RUN_MIN:
            facts_of(publish.run, MARKER)
        if not self.stages or all(stage.admit(publish) for stage in self.stages):
            self.log.append(publish.run, publish)

    def source_reached(self, position: Position, size: int) -> None:
        """Note that the source's broker states the end of a shadow topic's entries, as ``ShadowLedger.reached``."""
        assert isinstance(self.log, ShadowLedger)
        self.log.reached(position, size)

    @property
    def schema_topic(self) -> TopicName:
        """The topic whose schemas its entries have."""
        return self.shadow_source or self.name

    def admitted(self, publish: Publish, by: Stage) -> None:
        """Pass ``publish``, which the stage ``by`` had kept, through the stages behind that one and append it."""
        place = by.place
        if all(stage.admit(publish) for stage in self.stages if stage.place > place):
            self.log.append(publish.run, publish)

    def arrange_stages(self) -> None:
        """Order the stages again, after a part of the topic changed those it needs (D16)."""
        parts = (
            self._origin_claims,
            self.replication,
            self._delay_limit,
            self.rates,
            self.deduplication,
            self.tracing,
        )
        wanted = [stage for part in parts for stage in part.wanted]
        if self._transaction_stage is not None:
            wanted.append(self._transaction_stage)
        self.stages = in_order(wanted)

    def stored(self, publish: Publish, start: int, stop: int, messages: int, size: int) -> None:
        """Count ``messages`` and ``size`` bytes that became durable, and notify the stages."""
        if publish.marker:
            self.replication.markers_stored(stop - start)
        else:
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
            subscription.dispatch.wake()
        if self.replication.replicators:
            self.replication.wake()
        if self.shadows.links:
            self.shadows.wake()
        if self.shadow_source is not None and self.terminated:
            for subscription in self.subscriptions.values():
                subscription.notify_end()

    def last_sequence(self, name: str) -> int:
        """Return the highest sequence id that is known to be stored of producer ``name``; -1 when there is none, as a
        replicator has none."""
        return -1 if origin_of(name) else self.deduplication.last_sequence(name)

    def remove_producer(self, producer: Producer) -> None:
        """Remove a producer that left. Safe to call twice."""
        self.publishers.remove(producer)

    # --- transactions ---------------------------------------------------------------------------

    @property
    def aborted(self) -> Collection[tuple[int, int]]:
        """Aborted transactions, whose messages no reader is given."""
        return () if self.transactions is None else self.transactions.aborted

    def check_transactional(self) -> None:
        """Raise NotAllowed when the topic takes no transactional messages."""
        offered = self.context.transaction_snapshots is not None
        if not offered or not isinstance(self.log, ManagedLedger) or self.shadow_source is not None:
            raise NotAllowed("Transactions are not enabled.")
        if self.name.local.startswith(SYSTEM_PREFIX):
            raise NotAllowed("A system topic takes no messages of transactions")
        if self.shadows.links:
            raise NotAllowed("A topic with shadow topics takes no messages of transactions")

    def take_transactions(self) -> TopicBuffer:
        """Return the topic's transactions, which begin with the first call. Raises as ``check_transactional``."""
        if self.transactions is None:
            self.check_transactional()
            assert isinstance(self.log, ManagedLedger)
            self.transactions = TopicBuffer(self, self.log)
            self._transaction_stage = TransactionStage(self, self.transactions)
            self.arrange_stages()
        return self.transactions

    def transactions_ready(self, error: MagnetarError | None) -> None:
        """Pass on the transactional messages that waited, or refuse them with ``error``."""
        if self._transaction_stage is not None:
            self._transaction_stage.release(error)

    def without_transactions(self) -> None:
        """Forget the transactions, since none is stored, unless messages of one wait."""
        stage = self._transaction_stage
        if stage is not None and not stage.keeps:
            self.transactions = self._transaction_stage = None
            self.arrange_stages()

    # --- tracing --------------------------------------------------------------------------------

    def watch_acks(self, observer: AckObserver | None) -> None:
        """Observe the bookies' answers to appends; None ends that."""
        self.log.watch_acks(observer)

    def traced_subscriptions(self) -> Iterable[Subscription]:
        """Return the subscriptions whose deliveries are observed while entries are traced."""
        return self.subscriptions.values()

    def delivery_observer(self, subscription: Subscription) -> DeliveryObserver | None:
        """Return the observer for a new consumer of ``subscription``; None while no entry is traced."""
        return self.tracing.observer_of(subscription)

    # --- subscriptions --------------------------------------------------------------------------

    def compaction_made(self, cursor: CompactionCursor) -> None:
        """Add the subscription of the compaction's cursor, when the first compaction begins."""
        self.subscriptions.add_compaction(cursor)

    def subscription_replicated(self) -> None:
        """Note that the state of one more subscription is to be copied to other clusters."""
        self.replication.wake_snapshots()

    def snapshot_passed(self, subscription: str, snapshot: ClusterSnapshot) -> None:
        """Notify the other clusters that a subscription passed ``snapshot``."""
        self.replication.update(subscription, snapshot)

    async def first_since(self, publish_ms: int) -> Position:
        """Return the position of the first entry published at ``publish_ms`` or later.

        Raises LedgerError when the entries that decide it cannot be read.
        """
        return self.log.next_position(await self.log.find_by_time(publish_ms))

    # --- upkeep ---------------------------------------------------------------------------------

    async def expire(self) -> None:
        """Pass the entries that are older than the TTL, if there is one, for all readers. Raises the log's errors."""
        if ttl_s := self.policies.backlog.message_ttl_s:
            before_ms = self.context.clock.wall_ms() - ttl_s * 1000
            await self.subscriptions.expire(before_ms)
            await self.replication.expire(before_ms)

    async def apply(self, policies: TopicPolicies, config: LedgerConfig) -> None:
        """Put ``policies`` into force; ``config`` has the log's part of them. Raises the log's errors."""
        policies = binding(self.name, policies, shadow=self.shadow_source is not None)
        if policies == self.policies:
            self.log.trim_soon()  # the retention of a ledger may have passed since the last call
        else:
            self.policies = policies
            self._apply_policies()
            self.settings_changed()
            await self.log.update_config(config)

    def _apply_policies(self) -> None:
        """Give the topic's parts their policies."""
        self._delay_limit.apply(self.policies.publish)
        self.deduplication.apply(self.policies.deduplication)
        self.publishers.apply(self.policies.publish)
        self.quotas.apply(self.policies.backlog)
        self.replication.apply(self.policies.clusters)
        self.shadows.apply(self.policies.shadows, self.scope)

    def settings_changed(self) -> None:
        """Apply limits of the topic or of the broker that may have changed."""
        self.rates.apply(self.policies.rates, self.policies.publish)
        for subscription in self.subscriptions.values():
            subscription.dispatch.apply()
        self.replication.apply_rates()

    # --- life -----------------------------------------------------------------------------------

    def _note_time(self) -> None:
        """Note the log's end with the time of the broker's clock, when policies remove messages by age.

        Publish times are set by clients; from these notes it is known since when an entry can have been in the log.
        """
        limits_s = [self.policies.backlog.message_ttl_s or 0, self.policies.backlog.age_quota.limit]
        if shortest_s := min((limit_s for limit_s in limits_s if limit_s > 0), default=0):
            self.log.note_time(shortest_s * 1000 // NOTES_OF_AN_AGE)

    def check_open(self) -> None:
        """Raise ServiceNotReady when the topic is being closed."""
        if self.closing:
            raise ServiceNotReady(f"Topic {self.name} is being unloaded")

    async def close(self, withheld: WithheldCloses | None = None) -> None:
        """Disconnect every client (they look the topic up again), persist cursors, close the ledger.

        Producers are disconnected last: pending entries are confirmed before that, so that they are not sent twice.
        With ``withheld`` the clients are notified when that is sent.
        """
        self.closing = True
        self._stop_listening()
        self.publishers.refuse_waiting(ServiceNotReady(f"Topic {self.name} is being unloaded"))
        for subscription in list(self.subscriptions.values()):
            with contained(f"end of {subscription.name} of {self.name}"):
                subscription.disconnect(withheld=withheld)
                subscription.dispatch.stop()
        for stop in (
            self.compaction.stop,
            *(() if self.transactions is None else (self.transactions.close,)),
            self.deduplication.take_snapshot,
            self.rates.end,
            self.tracing.close,
        ):
            with contained(f"end of {self.name}"):
                stop()
        await self.replication.close()
        await self.shadows.close()
        closing = self.scope.spawn("close ledger", self._close_log())
        await asyncio.wait([closing], timeout=CONFIRM_GRACE_S)
        for producer in list(self.producers.values()):
            producer.disconnect(withheld)
        try:
            await closing
        finally:
            self.deduplication.end()
            if self._transaction_stage is not None:
                self._transaction_stage.end()
            await self.scope.close()

    async def _close_log(self) -> None:
        await self.subscriptions.close_pending_acks()
        await self.log.close()

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
        async with self._properties_lock:
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
        changes = self.replication.tick(elapsed_s) or changes
        for producer in self.producers.values():
            changes = producer.tick(elapsed_s) or changes
        for subscription in self.subscriptions.values():
            changes = subscription.counters.tick(elapsed_s) or changes
        return changes or bool(self.log.unread_cursors)
