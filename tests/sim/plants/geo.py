"""Mistakes of replication between clusters."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.base.backoff import Backoff
from engine.base.names import TopicName
from engine.base.slices import Slice, View
from engine.broker.context import Context
from engine.broker.control.geo.remote_clusters import StoredClusters
from engine.broker.dispatch.facts import EntryFacts
from engine.broker.dispatch.source import EntrySource
from engine.broker.topics.deduplication import Deduplication
from engine.broker.topics.geo import replicator
from engine.broker.topics.geo.replicator import CURSOR_PREFIX, ReplicationBlocked, Replicator
from engine.broker.topics.geo.topic_replication import TopicReplication
from engine.broker.topics.publish import Producer, Publish
from engine.client.client import PulsarClient
from engine.client.raw_producer import RawProducer
from engine.client.replicating_producer import ReplicatingProducer
from engine.wire.errors import RefusedError
from engine.wire.events import Receipt
from tests.sim.plants.planting import Patches


def passed_when_sent() -> Patches:
    """Pass entries once they are sent to the other cluster, not once it stored them."""
    send = Replicator._send

    async def sending(self: Replicator, producer: ReplicatingProducer, view: View) -> None:
        await send(self, producer, view)
        for i in view.indexes:
            self._pass_over(view.run.ledger_id, view.run.first + i, 1)

    return [(Replicator, "_send", sending)]


def replicator_continues_behind_what_it_sent() -> Patches:
    """Let a new connection continue where the lost one was, instead of at the first entry without a receipt."""
    rewind = EntrySource.rewind

    def rewinding(self: EntrySource) -> None:
        if not self.cursor.name.startswith(CURSOR_PREFIX):
            rewind(self)

    return [(EntrySource, "rewind", rewinding)]


def replicator_rewinds_while_it_reads() -> Patches:
    """Set the cursor of a replicator back at once, while a read is under way whose entries come later."""
    rewind, settle = EntrySource.rewind, EntrySource.settle

    def rewinding(self: EntrySource) -> None:
        if self.cursor.name.startswith(CURSOR_PREFIX):
            self._drop()
            self.cursor.rewind()
        else:
            rewind(self)

    async def settling(self: EntrySource) -> None:
        if not self.cursor.name.startswith(CURSOR_PREFIX):
            await settle(self)

    return [(EntrySource, "rewind", rewinding), (EntrySource, "settle", settling)]


def entries_of_other_clusters_are_stored_again() -> Patches:
    """Forget which entries of another cluster are stored when the topic is loaded."""
    remember = Deduplication._remember_entry

    def remembering(self: Deduplication, entry: bytes) -> None:
        if b"__MSG_PROP_REPL_SOURCE_POSITION" not in entry:
            remember(self, entry)

    return [(Deduplication, "_remember_entry", remembering)]


def what_follows_a_refused_entry_is_stored() -> Patches:
    """Leave a replicator attached when its entry is refused: what is stored behind makes it a repetition."""
    refuse = Publish.refuse

    def refusing(self: Publish, error: Any) -> None:
        disconnect = Producer.disconnect
        Producer.disconnect = lambda producer: None  # type: ignore[method-assign]
        try:
            refuse(self, error)
        finally:
            Producer.disconnect = disconnect  # type: ignore[method-assign]

    return [(Publish, "refuse", refusing)]


def refused_entry_counts_as_stored() -> Patches:
    """Take the refusal of an entry for its receipt, and ignore that the producer was closed."""
    real = RawProducer._refused

    def refused(self: RawProducer, sequence_id: int, error: RefusedError) -> None:
        if isinstance(self, ReplicatingProducer) and self._sent:
            self._pass(1)
        else:
            real(self, sequence_id, error)

    return [(RawProducer, "_refused", refused)]


def one_receipt_is_for_all_that_was_sent() -> Patches:
    """Take the receipt of an entry for one of all entries that were sent."""
    real = ReplicatingProducer.receipts

    def receipts(self: ReplicatingProducer, batch: Sequence[Receipt]) -> None:
        real(self, batch)
        while batch and self._sent:
            self._pass(len(self._sent[0].sizes) - self._sent[0].done)

    return [(ReplicatingProducer, "receipts", receipts)]


def lost_entries_keep_their_room() -> Patches:
    """Count entries whose connection was lost as sent and unanswered for ever."""
    real = Replicator._replicate
    leaked: dict[Replicator, int] = {}

    async def replicate(self: Replicator, backoff: Backoff) -> None:
        self._bytes += leaked.get(self, 0)
        try:
            await real(self, backoff)
        finally:
            leaked[self] = self._bytes

    return [(Replicator, "_replicate", replicate)]


def stuck_producer_is_kept() -> Patches:
    """Wait for receipts without a bound, while the connection lives."""
    real = Replicator._send_all

    async def send_all(self: Replicator, producer: ReplicatingProducer, backoff: Backoff) -> None:
        while True:
            try:
                await real(self, producer, backoff)
            except ReplicationBlocked as blocked:
                if "No receipt" in str(blocked):
                    continue
                raise

    return [(Replicator, "_send_all", send_all)]


def producer_outlives_a_failure_at_its_start() -> Patches:
    """Leave the producer attached when something fails between its attachment and its first entry."""
    real = Replicator._expire

    async def expire(self: Replicator) -> None:
        producer = self._producer
        try:
            await real(self)
        except BaseException:
            assert producer is not None
            producer.close = _nothing  # type: ignore[method-assign]
            raise

    return [(Replicator, "_expire", expire)]


async def _nothing() -> None:
    return


def origin_is_not_named() -> Patches:
    """Send entries without their cluster: the other one sends them back as its own."""
    return [(replicator, "origin_field", lambda cluster: b"")]


def entries_of_others_are_sent_on() -> Patches:
    """Send entries that came from a third cluster."""
    real = Replicator._is_for

    def is_for(self: Replicator, facts: EntryFacts) -> bool:
        if facts.replicated_from in ("", self.remote):
            return real(self, facts)
        return real(self, facts._replace(replicated_from=""))

    return [(Replicator, "_is_for", is_for)]


def chosen_clusters_do_not_count() -> Patches:
    """Send an entry to all clusters, whichever its publisher names."""
    real = Replicator._is_for

    def is_for(self: Replicator, facts: EntryFacts) -> bool:
        return real(self, facts._replace(replicate_to=()))

    return [(Replicator, "_is_for", is_for)]


def schemas_are_not_registered_there() -> Patches:
    """Leave the version of an entry's schema as it is here."""

    async def versions_of(
        self: Replicator, producer: ReplicatingProducer, run: Slice, due: Sequence[range]
    ) -> Mapping[int, bytes]:
        return {}

    return [(Replicator, "_versions_of", versions_of)]


def position_is_deleted_with_its_owner() -> Patches:
    """Delete the positions of other clusters when a broker gives the topic up."""
    real = TopicReplication.close

    async def close(self: TopicReplication) -> None:
        await real(self)
        for remote in list(self.replicators):
            try:
                await self._host.log.delete_cursor(CURSOR_PREFIX + remote)
            except Exception:
                return  # the broker has lost the topic

    return [(TopicReplication, "close", close)]


def clusters_are_those_of_the_load() -> Patches:
    """Ignore clusters that are added or removed while a topic is loaded."""
    real = TopicReplication.apply

    def apply(self: TopicReplication, clusters: Iterable[str]) -> None:
        if not self._clusters:
            real(self, clusters)

    return [(TopicReplication, "apply", apply)]


def producers_come_before_positions() -> Patches:
    """Attach producers while positions of other clusters are not stored: what they send first is not replicated."""

    async def ready(self: TopicReplication) -> None:
        await asyncio.sleep(0)

    return [(TopicReplication, "ready", ready)]


def unsent_counts_as_expired() -> Patches:
    """Pass all that waits when a connection begins, instead of what is older than the TTL."""

    async def expire(self: Replicator) -> None:
        if self._host.policies.backlog.message_ttl_s:
            await self.moves.expire(self._host.context.clock.wall_ms() + 400 * 86_400_000)

    return [(Replicator, "_expire", expire)]


def backlog_is_hidden_while_disconnected() -> Patches:
    """Report the backlog of connected replicators alone."""

    def backlog(self: Replicator) -> int:
        return self.cursor.backlog_entries() if self.connected else 0

    return [(Replicator, "backlog", property(backlog))]


def reason_is_forgotten() -> Patches:
    """Log the reason why nothing is sent, and show none."""
    real = Replicator._note

    def note(self: Replicator, *reason: Any) -> None:
        real(self, *reason)
        self.error = ""

    return [(Replicator, "_note", note)]


def one_blocked_topic_blocks_its_cluster() -> Patches:
    """Keep the failure of one topic as one of its cluster, for all topics."""
    real, real_note = Replicator._replicate, Replicator._note
    blocked: dict[tuple[Context, str], str] = {}

    async def replicate(self: Replicator, backoff: Backoff) -> None:
        if (reason := blocked.get((self._host.context, self.remote))) is not None:
            raise ReplicationBlocked(reason)
        await real(self, backoff)

    def note(self: Replicator, error: str, *cause: Any) -> None:
        if "partitions" in error:
            blocked[self._host.context, self.remote] = error
        real_note(self, error, *cause)

    return [(Replicator, "_replicate", replicate), (Replicator, "_note", note)]


def rest_of_a_reading_is_left_out() -> Patches:
    """Forget the entries of a reading for which a rate of replication has no room."""
    real = EntrySource.give_back

    def give_back(self: EntrySource, view: View) -> None:
        if not self.cursor.name.startswith(CURSOR_PREFIX):
            real(self, view)

    return [(EntrySource, "give_back", give_back)]


def partitions_are_not_compared() -> Patches:
    """Send a partition to a topic with another number of partitions."""

    async def check_shape(
        self: StoredClusters, client: PulsarClient, cluster: str, topic: TopicName
    ) -> None:
        return

    return [(StoredClusters, "check_shape", check_shape)]
