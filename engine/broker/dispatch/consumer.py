"""One attached consumer: what it may receive (D1), what it holds (D3), what it received."""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from engine.base.ids import LATEST, Position
from engine.base.slices import View
from engine.broker.control.counters import Rate, Traffic
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.redelivery import PendingAcks
from engine.broker.outlet import Outlet
from engine.broker.settings import DataPathSettings
from engine.wire import commands
from engine.wire.kernels import bare, build_messages

UNLIMITED = 1 << 62
"""More messages than there are."""
_TOLD_THE_END = ("Pulsar-Java", "Magnetar")


class SubscriptionType(IntEnum):
    """Wire numbers of ``SubType``."""

    EXCLUSIVE = 0
    SHARED = 1
    FAILOVER = 2
    KEY_SHARED = 3

    @property
    def title(self) -> str:
        """As Pulsar prints it."""
        return _TYPES[self].title

    @property
    def ordered(self) -> bool:
        """One consumer at a time gets everything in storage order, and may acknowledge cumulatively."""
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
    """Permits, unacknowledged entries and counters of one consumer. ``attached``: to its subscription.

    ``pending`` holds the entries out here. Ordered types need no set: what they hold lies between the cursor's
    mark-delete and its read position.
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
        """``keys``: of a Key_Shared consumer. ``acknowledges``: what it received counts as out until acknowledged.
        ``read_compacted``: instead of what was compacted it gets what was kept of it, from ``start`` on.
        ``subscribing``: its client has yet to be answered, see ``answered``.
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
        """Of the topic's schema, when it came with one."""
        self.attached = False
        self.permits = 0
        self.keys = keys
        self.pending = PendingAcks() if acknowledges and not kind.ordered else None
        self.blocked = False
        self.bare = not (
            settings.exposing_broker_entry_metadata_to_client_enabled
            and outlet.takes_broker_metadata
        )
        """It gets entries without what brokers put before them."""
        self._told_end = False
        self._early: list[bytes] | None = [] if subscribing else None
        """Notifications held back until the client has its answer; None from then on."""
        self._unacked_max = 0
        self.out = Traffic()
        self.acked = Rate()
        self.redelivered = Rate()
        self.chunks = Rate()
        self.entries_out = 0
        self.flow_ms = 0
        self.consumed_ms = 0
        self.acked_ms = 0
        self._touched: Callable[[], None] = lambda: None

    @property
    def unacked(self) -> int:
        """Messages out here, as Pulsar counts them: 0 for types that acknowledge in order."""
        return self.pending.messages if self.pending is not None else 0

    @property
    def can_receive(self) -> bool:
        return self.permits > 0 and not self.blocked and self.outlet.can_send

    @property
    def paused_for(self) -> str | None:
        """Why nothing is sent and what ends it: None, or "permits" (FLOW), "acks" (ACK), "socket" (the peer reads)."""
        if self.permits <= 0:
            return "permits"
        if self.blocked:
            return "acks"
        return None if self.outlet.can_send else "socket"

    def take(self, view: View, entries_max: int, messages_max: int) -> int:
        """How many entries of ``view`` may go out now, at most ``entries_max`` and for ``messages_max`` messages.

        An entry goes out whole while any permit is left, so a batch may overdraw them, and the other bounds alike.
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
        """Send all entries of ``view``; permits and counters follow."""
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
        """Send the one entry of ``view``, a batch of which only the indexes set in ``ack_set`` are still due."""
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
        if redelivery_counts is not None:
            self.redelivered.total += sum(1 for count in redelivery_counts if count)
        if (
            self.pending is not None
            and self._unacked_max
            and self.pending.messages >= self._unacked_max
        ):
            self.blocked = True

    def attach(self, touched: Callable[[], None]) -> None:
        """A subscription took it; ``touched`` is to be told when something is sent."""
        self.attached = True
        self._touched = touched

    def limit(self, unacked_max: int) -> None:
        """No more than about so many messages may be out here; 0: no limit."""
        self._unacked_max = unacked_max
        self.blocked = self.pending is not None and 0 < unacked_max <= self.pending.messages

    def detach(self) -> None:
        """It left, or was sent away."""
        self.attached = False

    def began(self, epoch: int) -> None:
        """The client tells apart what it is sent from now on, where everything comes again in order."""
        if self.kind.ordered and (self.epoch is None or epoch > self.epoch):
            self.epoch = epoch

    def notify(self, command: bytes) -> None:
        """Send a command about this consumer, behind the answer to its SUBSCRIBE: clients that register a consumer
        when they have that answer, as Go's, ignore what comes before."""
        if self._early is None:
            self.outlet.send(command)
        else:
            self._early.append(command)

    def answered(self) -> bytes:
        """Notifications to be sent right behind the answer; later ones are sent at once."""
        early, self._early = self._early or (), None
        return b"".join(early)

    def tell_end(self) -> None:
        """REACHED_END_OF_TOPIC, once. Only to those known to take it: others close the connection on this command."""
        if not self._told_end and self.outlet.client_version.startswith(_TOLD_THE_END):
            self._told_end = True
            self.notify(commands.reached_end_of_topic(self.consumer_id))

    def granted(self, permits: int, now_ms: int) -> None:
        """The client takes ``permits`` more messages."""
        self.permits += permits
        self.flow_ms = now_ms

    def acknowledged(self, messages: int, now_ms: int) -> None:
        """Count ``messages`` acknowledged through this consumer."""
        self.acked.total += messages
        self.acked_ms = now_ms

    def unblock(self) -> bool:
        """Whether ``pending`` has just become small enough to receive again."""
        if self.blocked and self.unacked <= self._unacked_max // 2:
            self.blocked = False
            return True
        return False

    def tick(self, elapsed_s: float) -> bool:
        """As of a Rate."""
        moves = self.out.tick(elapsed_s)
        moves = self.acked.tick(elapsed_s) or moves
        moves = self.chunks.tick(elapsed_s) or moves
        return self.redelivered.tick(elapsed_s) or moves


def pending_of(consumer: Consumer) -> PendingAcks:
    """What is out at a consumer that shares its subscription."""
    assert consumer.pending is not None, "an ordered consumer is on a shared subscription"
    return consumer.pending


def count_bits(words: list[int]) -> int:
    """Set bits of a little-endian set of signed 64-bit words."""
    return sum((word & 0xFFFFFFFFFFFFFFFF).bit_count() for word in words)
