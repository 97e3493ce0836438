"""Counters and times of one subscription since its topic was loaded."""

from collections.abc import Sequence

from engine.broker.control.counters import Rate, Traffic
from engine.broker.dispatch.consumer import Consumer


class SubscriptionCounters:
    """Counters and times of one subscription. Times are in milliseconds since the epoch, 0 before the first event.

    The data path adds to the attributes itself, so that counting calls no function.
    """

    __slots__ = (
        "_consumers",
        "acked_ms",
        "advanced_ms",
        "consumed_ms",
        "dropped",
        "entries_out",
        "expired",
        "expired_ms",
        "flow_ms",
        "given_back",
        "joined",
        "left_ms",
        "out",
        "refused",
    )

    def __init__(self, consumers: Sequence[Consumer]) -> None:
        """``consumers`` are those attached, each with counters of its own."""
        self._consumers = consumers
        self.dropped = Rate()
        """Messages for which no consumer had a permit, of topics that store none."""
        self.expired = Rate()
        """Entries that became too old before they were acknowledged."""
        self.expired_ms = 0
        """Time of the last expiry."""
        self.out = Traffic()
        """Traffic of consumers that left; with the attached consumers' it is the subscription's total."""
        self.entries_out = 0
        """Entries sent to consumers that left, as ``out`` counts their messages."""
        self.flow_ms = 0
        self.consumed_ms = 0
        """Time of the last delivery to a consumer that left."""
        self.acked_ms = 0
        self.advanced_ms = 0
        """Time at which an acknowledgement last moved the cursor's mark."""
        self.left_ms = 0
        """Time at which the last consumer left."""
        self.joined = 0
        """Number of consumers attached so far."""
        self.refused = 0
        """Number of consumers refused because another one is attached."""
        self.given_back = 0
        """Number of requests for redelivery."""

    @property
    def total_out(self) -> tuple[int, int]:
        """Messages and bytes sent."""
        messages, size = self.out.messages.total, self.out.bytes.total
        for consumer in self._consumers:
            messages += consumer.out.messages.total
            size += consumer.out.bytes.total
        return messages, size

    def add_detached(self, consumer: Consumer) -> None:
        """Keep the traffic of a consumer that left."""
        self.out.messages.total += consumer.out.messages.total
        self.out.bytes.total += consumer.out.bytes.total
        self.entries_out += consumer.entries_out
        self.consumed_ms = max(self.consumed_ms, consumer.consumed_ms)

    def tick(self, elapsed_s: float) -> bool:
        """Compute the rates of the subscription and its consumers, as ``Rate.tick`` does."""
        changes = self.dropped.tick(elapsed_s)
        changes = self.expired.tick(elapsed_s) or changes
        for consumer in self._consumers:
            changes = consumer.tick(elapsed_s) or changes
        return changes
