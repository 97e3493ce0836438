"""The times of one traced entry, from its publish to its acknowledgements, and their spans. Pure.

A span is ``{"id", "parent", "name", "startUs", "endUs", "attributes"}``: ids are 16 hexadecimal digits as W3C Trace
Context has them, times are microseconds since the broker received the entry, and ``endUs`` is None while the end is not
known.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.base.ids import Position

TRACEPARENT = "traceparent"
"""Property of a message with the context of its publisher, as W3C Trace Context writes it."""
DELIVERIES_MAX = 50
"""Deliveries that are kept of one entry; later ones are counted."""
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The trace to which a message belongs, and the span that published it."""

    trace_id: str
    span_id: str
    sampled: bool


def trace_context(properties: Mapping[str, str]) -> TraceContext | None:
    """Return the context in a message's properties; None without one and for one that is malformed."""
    match = _FORM.match(properties.get(TRACEPARENT, ""))
    if match is None or not int(match[1], 16) or not int(match[2], 16):
        return None
    return TraceContext(match[1], match[2], bool(int(match[3], 16) & 1))


@dataclass(slots=True)
class Delivery:
    """One delivery of the entry to a consumer. Times are those of the broker's monotonic clock."""

    subscription: str
    consumer: str
    consumer_id: int
    sent_s: float
    redeliveries: int
    acked_s: float | None = None


@dataclass(slots=True)
class EntryTrace:
    """The times of one entry. Times in seconds are monotonic; ``received_ms`` is since 1970."""

    trace_id: str
    span_id: str
    parent: TraceContext | None
    producer: str
    messages: int
    size: int
    received_ms: int
    received_s: float
    admitted_s: float
    position: Position | None = None
    """Position in the topic; None until the entry is stored."""
    stored_s: float | None = None
    failed_s: float | None = None
    """Time at which the append failed, or its outcome became unknown."""
    bookies: dict[str, float] = field(default_factory=dict)
    """Times at which bookies answered that the entry is on their disk."""
    deliveries: list[Delivery] = field(default_factory=list)
    more_deliveries: int = 0
    acknowledged: dict[str, float] = field(default_factory=dict)
    """Times at which subscriptions had acknowledged the entry as a whole."""

    def delivered(self, delivery: Delivery) -> None:
        """Add a delivery, or count it when there are many already."""
        if len(self.deliveries) < DELIVERIES_MAX:
            self.deliveries.append(delivery)
        else:
            self.more_deliveries += 1

    def document(self) -> dict[str, Any]:
        """Return the trace with its spans, as the admin API returns it."""
        return {
            "traceId": self.trace_id,
            "parentSpanId": self.parent.span_id if self.parent else None,
            "producer": self.producer,
            "position": list(self.position) if self.position else None,
            "messages": self.messages,
            "bytes": self.size,
            "receivedMs": self.received_ms,
            "state": self.state,
            "moreDeliveries": self.more_deliveries,
            "spans": list(self._spans()),
        }

    @property
    def state(self) -> str:
        """``failed``, ``storing`` or ``stored``."""
        if self.failed_s is not None:
            return "failed"
        return "storing" if self.stored_s is None else "stored"

    def _spans(self) -> Iterator[dict[str, Any]]:
        number = int(self.span_id, 16)
        used = 0

        def span(
            name: str, start_s: float, end_s: float | None, parent: str | None, **attributes: Any
        ) -> dict[str, Any]:
            nonlocal used
            # Derived from the first one, so that a trace that is read again has the same ids.
            span_id = f"{(number + used) % (1 << 64) or 1:016x}"
            used += 1
            return {
                "id": span_id,
                "parent": parent,
                "name": name,
                "startUs": self._us(start_s),
                "endUs": None if end_s is None else self._us(end_s),
                "attributes": attributes,
            }

        settled_s = self.stored_s if self.failed_s is None else self.failed_s
        publish = span(
            "publish",
            self.received_s,
            settled_s,
            self.parent.span_id if self.parent else None,
            producer=self.producer,
            failed=self.failed_s is not None,
        )
        yield publish
        if self._us(self.admitted_s):
            yield span("admit", self.received_s, self.admitted_s, publish["id"])
        append = span("append", self.admitted_s, settled_s, publish["id"])
        yield append
        for bookie, answered_s in sorted(self.bookies.items(), key=lambda item: item[1]):
            yield span("bookie", self.admitted_s, answered_s, append["id"], bookie=bookie)
        for delivery in self.deliveries:
            dispatch = span(
                "dispatch",
                self.received_s if self.stored_s is None else self.stored_s,
                delivery.sent_s,
                publish["id"],
                subscription=delivery.subscription,
                redeliveries=delivery.redeliveries,
            )
            yield dispatch
            yield span(
                "process",
                delivery.sent_s,
                delivery.acked_s,
                dispatch["id"],
                subscription=delivery.subscription,
                consumer=delivery.consumer,
            )

    def _us(self, time_s: float) -> int:
        return round((time_s - self.received_s) * 1_000_000)
