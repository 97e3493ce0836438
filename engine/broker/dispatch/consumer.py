"""One attached consumer: its permits (D1), unacknowledged entries (D3) and counters."""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from engine.base.ids import LATEST, Position
from engine.base.slices import View
from engine.broker.control.counters import Rate, Traffic
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.ports import DeliveryObserver
from engine.broker.dispatch.redelivery import PendingAcks
from engine.broker.outlet import MIGRATION_VERSION, Moved, Outlet
from engine.broker.settings import DataPathSettings
from engine.ownership.owner import OwnerRecord
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import bare, build_messages

UNLIMITED = 1 << 62
"""Number of messages above any limit."""
_KNOW_END_OF_TOPIC = ("Pulsar-Java", "Magnetar")
"""Prefixes of the versions of clients that accept REACHED_END_OF_TOPIC."""


class SubscriptionType(IntEnum):
    """Wire numbers of ``SubType``."""

    EXCLUSIVE = 0
    SHARED = 1
    FAILOVER = 2
    KEY_SHARED = 3

    @property
    def title(self) -> str:
        """Name as Pulsar prints it."""
        return _TYPES[self].title

    @property
    def ordered(self) -> bool:
        """True when one consumer at a time receives everything in storage order, and may acknowledge cumulatively."""
        return _TYPES[self].ordered


class _Type(NamedTuple):
    title: str
    ordered: bool


_TYPES = {
    SubscriptionType.EXCLUSIVE: _Type("Exclusive", ordered=True),
    SubscriptionType.SHARED: _Type("Shared", ordered=False),
    SubscriptionType.FAILOVER: _Type("Failover", ordered=True),
    SubscriptionType.KEY_SHARED: _Type("Key_Shared", ordered=False),
}


class Consumer:
    """Permits, unacknowledged entries and counters of one consumer. ``attached``: whether it is on its subscription.

    ``pending`` holds the unacknowledged entries. Ordered types need no set: theirs are between the cursor's mark-delete
    and its read position.
    """

    def __init__(
        self,
        outlet: Outlet,
        consumer_id: int,
        name: str,
        kind: SubscriptionType,
        *,
        settings: DataPathSettings,
        partition: int,
        now_ms: int,
        priority: int = 0,
        epoch: int | None = None,
        metadata: dict[str, str] | None = None,
        keys: KeyPolicy | None = None,
        acknowledges: bool = True,
        reads_any_schema: bool = False,
        read_compacted: bool = False,
        start: Position = LATEST,
        subscribing: bool = False,
    ) -> None:
        """Create a consumer that is not attached.

        ``keys``: key policy of a Key_Shared consumer. ``acknowledges``: whether entries stay pending until they are
        acknowledged. ``read_compacted``: whether it reads the compacted ledger in place of the compacted entries, from
        ``start`` on. ``subscribing``: whether its SUBSCRIBE is still to be answered, see ``answered``.
        """
        self.outlet = outlet
        self.consumer_id = consumer_id
        self.name = name
        self.kind = kind
        self.partition = partition
        self.priority = priority
        self.epoch = epoch if kind.ordered else None
        self.metadata = metadata or {}
        self.connected_ms = now_ms
        self.reads_any_schema = reads_any_schema
        self.read_compacted = read_compacted
        self.start = start
        self.schema_version: int | None = None
        """Version of the topic's schema, when the consumer subscribed with one."""
        self.attached = False
        self.permits = 0
        self.keys = keys
        self.pending = PendingAcks() if acknowledges and not kind.ordered else None
        self.blocked = False
        self.bare = not (
            settings.exposing_broker_entry_metadata_to_client_enabled
            and outlet.takes_broker_metadata
        )
        """True when entries are sent without the broker's metadata in front."""
        self._end_sent = False
        self._early: list[bytes] | None = [] if subscribing else None
        """Notifications held back until SUBSCRIBE is answered; None afterwards."""
        self._unacked_max = 0
        self.out = Traffic()
        self.acked = Rate()
        self.redelivered = Rate()
        self.chunks = Rate()
        self.entries_out = 0
        self.flow_ms = 0
        self.consumed_ms = 0
        self.acked_ms = 0
        self.observer: DeliveryObserver | None = None
        """Observer of deliveries and acknowledgements; None while no entry of the topic is traced."""
        self._touched: Callable[[], None] = lambda: None

    @property
    def unacked(self) -> int:
        """Unacknowledged messages as Pulsar counts them: 0 for types that acknowledge in order."""
        return self.pending.messages if self.pending is not None else 0

    @property
    def can_receive(self) -> bool:
        return self.permits > 0 and not self.blocked and self.outlet.can_send

    @property
    def paused_for(self) -> str | None:
        """Event that nothing is sent before: "permits" (FLOW), "acks" (ACK), "socket" (the peer reads), or None."""
        if self.permits <= 0:
            return "permits"
        if self.blocked:
            return "acks"
        return None if self.outlet.can_send else "socket"

    def take(self, view: View, entries_max: int, messages_max: int) -> int:
        """Return how many entries of ``view`` may be sent now, at most ``entries_max`` and ``messages_max`` messages.

        An entry is sent as a whole while any permit remains, so a batch may overdraw the permits; the bounds of
        messages likewise (D1).
        """
        room = min(self.permits, messages_max)
        if self.pending is not None and self._unacked_max:
            room = min(room, self._unacked_max - self.pending.messages)
        count = min(view.count, entries_max)
        counts = view.run.counts
        if counts is None:
            return max(0, min(count, room))
        taken = 0
        for i in view.indexes[:count]:
            if room <= 0:
                break
            room -= counts[i]
            taken += 1
        return taken

    def deliver(self, view: View, redelivery_counts: list[int] | None, now_ms: int) -> None:
        """Send all entries of ``view`` and update permits and counters."""
        self.outlet.send_parts(
            build_messages(
                self.consumer_id,
                view.run,
                view.indexes,
                redelivery_counts,
                self.epoch,
                self.partition,
                bare=self.bare,
            )
        )
        messages = view.messages
        if self.pending is not None:
            self.pending.add(view)
        self._sent(view, messages, redelivery_counts, now_ms)

    def deliver_partly(
        self, view: View, ack_set: list[int], redelivery_count: int, now_ms: int
    ) -> None:
        """Send the one entry of ``view``, a batch of which only the indexes set in ``ack_set`` are unacknowledged."""
        position = Position(view.ledger_id, view.first)
        messages = min(count_bits(ack_set), view.messages)
        entry = view.run.entry(view.start)
        self.outlet.send(
            commands.message(
                self.consumer_id,
                position,
                bare(entry) if self.bare else entry,
                partition=self.partition,
                redelivery_count=redelivery_count,
                ack_set=ack_set,
                consumer_epoch=self.epoch,
            )
        )
        if self.pending is not None:
            self.pending.add_part(view, messages)
        counts = [redelivery_count] if redelivery_count else None
        self._sent(view, messages, counts, now_ms)

    def _sent(
        self, view: View, messages: int, redelivery_counts: list[int] | None, now_ms: int
    ) -> None:
        self.permits -= messages
        self.out.messages.total += messages
        self.out.bytes.total += view.size
        self.entries_out += view.count
        self.consumed_ms = now_ms
        self._touched()
        if self.observer is not None:
            self.observer.delivered(self.consumer_id, self.name, view, redelivery_counts)
        if redelivery_counts is not None:
            self.redelivered.total += sum(1 for count in redelivery_counts if count)
        if (
            self.pending is not None
            and self._unacked_max
            and self.pending.messages >= self._unacked_max
        ):
            self.blocked = True

    def attach(self, touched: Callable[[], None]) -> None:
        """Mark the consumer as attached to its subscription; ``touched`` is called when something is sent."""
        self.attached = True
        self._touched = touched

    def limit(self, unacked_max: int) -> None:
        """Set the limit of unacknowledged messages, which a batch may exceed; 0: no limit."""
        self._unacked_max = unacked_max
        self.blocked = self.pending is not None and 0 < unacked_max <= self.pending.messages

    def detach(self) -> None:
        """Mark the consumer as detached, after it left or was disconnected."""
        self.attached = False

    def moved(self, next_owner: OwnerRecord | None) -> None:
        """Send the close of a consumer that was detached when its topic was closed."""
        self.outlet.drop_consumer(self.consumer_id, Moved(self, next_owner))

    def began(self, epoch: int) -> None:
        """Mark entries sent from now on with ``epoch``, by which the client of an ordered type ignores earlier ones."""
        if self.kind.ordered and (self.epoch is None or epoch > self.epoch):
            self.epoch = epoch

    def notify(self, command: bytes) -> None:
        """Send a command about this consumer, not before the answer to its SUBSCRIBE.

        Clients that register a consumer when they receive that answer, such as Go's, ignore earlier commands (D8).
        """
        if self._early is None:
            self.outlet.send(command)
        else:
            self._early.append(command)

    def answered(self) -> bytes:
        """Return the notifications to send right behind the answer; later ones are sent at once."""
        early, self._early = self._early or (), None
        return b"".join(early)

    def tell_end(self) -> None:
        """Send REACHED_END_OF_TOPIC once, to clients known to accept it: others close the connection on it."""
        if not self._end_sent and self.outlet.client_version.startswith(_KNOW_END_OF_TOPIC):
            self._end_sent = True
            self.notify(commands.reached_end_of_topic(self.consumer_id))

    def send_on(self, url: str, url_tls: str) -> None:
        """Send TOPIC_MIGRATED, before the client is disconnected, to clients that know it."""
        if self.outlet.protocol_version >= MIGRATION_VERSION:
            kind = pb.CommandTopicMigrated.Consumer
            self.notify(commands.topic_migrated(kind, self.consumer_id, url, url_tls))

    def granted(self, permits: int, now_ms: int) -> None:
        """Add ``permits`` of a FLOW."""
        self.permits += permits
        self.flow_ms = now_ms

    def acknowledged(self, messages: int, now_ms: int) -> None:
        """Count ``messages`` acknowledged through this consumer."""
        self.acked.total += messages
        self.acked_ms = now_ms

    def unblock(self) -> bool:
        """Let a blocked consumer receive again at half of its limit (D3); return whether it was blocked until now."""
        if self.blocked and self.unacked <= self._unacked_max // 2:
            self.blocked = False
            return True
        return False

    def tick(self, elapsed_s: float) -> bool:
        """Update the rates as ``Rate.tick`` does; return whether any is above 0."""
        is_active = self.out.tick(elapsed_s)
        is_active = self.acked.tick(elapsed_s) or is_active
        is_active = self.chunks.tick(elapsed_s) or is_active
        return self.redelivered.tick(elapsed_s) or is_active


def pending_of(consumer: Consumer) -> PendingAcks:
    """Return the unacknowledged entries of a consumer that shares its subscription."""
    assert consumer.pending is not None, "an ordered consumer is on a shared subscription"
    return consumer.pending


def count_bits(words: list[int]) -> int:
    """Return the number of bits set in signed 64-bit words."""
    return sum((word & 0xFFFFFFFFFFFFFFFF).bit_count() for word in words)
