"""Checks of a history against the promises of the design. Each returns its violations, in words.

Safety checks hold for any history; ``liveness`` only for one that ended after all faults had healed.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from engine.base.ids import EARLIEST, Position
from tests.sim.topics.history import (
    AckConfirmed,
    Cleared,
    Delivery,
    History,
    PartConfirmed,
    Sought,
)
from tests.sim.topics.move_checkers import (
    chunks_stay_together,
    everything_comes_again,
    nothing_before_a_place_in_a_batch,
)

Key = tuple[str, int]


def no_phantoms(history: History) -> list[str]:
    """Check that only messages that were sent are delivered or confirmed."""
    sent = {(s.producer, s.number) for s in history.sent}
    seen = [(d.producer, d.number) for d in history.deliveries]
    seen += [(r.producer, r.number) for r in history.receipts]
    return [
        f"{name} {number} was never sent"
        for name, number in dict.fromkeys(seen)
        if (name, number) not in sent
    ]


def receipts_in_order(history: History) -> list[str]:
    """Check that each producer's first receipts arrive in send order at growing positions (promise 3)."""
    violations = []
    last: dict[str, tuple[int, Position]] = {}
    for receipt in history.receipts:
        before = last.get(receipt.producer)
        if before is not None:
            number, position = before
            if receipt.number <= number or receipt.position <= position:
                violations.append(
                    f"{receipt.producer}: receipt {receipt.number} at {receipt.position}"
                    f" after {number} at {position}"
                )
        last[receipt.producer] = (receipt.number, receipt.position)
    return violations


def one_message_per_position(history: History) -> list[str]:
    """Check that a position has one message only, whichever brokers served the topic (promise 4)."""
    owner: dict[Position, Key] = {}
    violations = []
    events = [(r.position, (r.producer, r.number)) for r in history.receipts]
    events += [(d.position, (d.producer, d.number)) for d in history.deliveries]
    for position, key in events:
        first = owner.setdefault(position, key)
        if first != key:
            violations.append(f"position {position} holds {first} and {key}")
    return violations


def first_deliveries_in_order(history: History) -> list[str]:
    """Check that an exclusive subscription first delivers in storage order; redeliveries may go back (promise 3)."""
    late = _late(history, "exclusive", lambda d: d.subscription, lambda d: d.position)
    return [
        f"{d.subscription}: {d.position} first delivered after {over.position}" for d, over in late
    ]


def producers_in_order(history: History) -> list[str]:
    """Check that an exclusive subscription first delivers a producer's messages in the order they were sent (promise
    3)."""
    late = _late(history, "exclusive", lambda d: (d.subscription, d.producer), lambda d: d.number)
    return [
        f"{d.subscription}: {d.producer} {d.number} at {d.position} first delivered after {over.number}"
        for d, over in late
        if not _is_resend_of_skipped(history, d, over)
    ]


def _is_resend_of_skipped(history: History, d: Delivery, over: Delivery) -> bool:
    """Return whether ``d``, stored behind ``over``, may be a second copy whose first one was skipped undelivered: a
    producer that lost its connection sends everything without a receipt again."""
    return d.position > over.position and any(
        c.subscription == d.subscription and c.to < over.position and c.sent_at <= over.at
        for c in history.cleared
    )


def keys_in_order(history: History) -> list[str]:
    """Check that a key_shared subscription first delivers the messages of a key in storage order, to any of its
    consumers (D10). Delayed messages and chunks are left out: those follow their delivery time, these their message."""

    def key_of(d: Delivery) -> Hashable:
        message = d.producer, d.number
        if message in history.delayed or message in history.chunks:
            return None
        return d.subscription, history.keys.get(message)

    late = _late(history, "key_shared", key_of, lambda d: d.position)
    return [
        f"{d.subscription}: {d.position} of {history.keys.get((d.producer, d.number))} first delivered at {d.at:.3f}"
        f" after {over.position}"
        for d, over in late
    ]


def _late(
    history: History,
    kind: str,
    stream: Callable[[Delivery], Hashable],
    rank: Callable[[Delivery], Any],
) -> Iterator[tuple[Delivery, Delivery]]:
    """Yield first deliveries of subscriptions of ``kind`` behind a delivery of higher rank in their stream, each with
    that delivery.

    What an administrator cleared before it was delivered may be passed over. A seek may bring it back, and so may a
    broker's end while the clearing is not confirmed. Then it is delivered late, and from there on in order again.
    """
    seen: set[tuple[Hashable, Any]] = set()
    highest: dict[Hashable, Delivery] = {}
    for d in history.deliveries:
        key, seen_key = stream(d), (stream(d), rank(d))
        if history.subscriptions.get(d.subscription) != kind or seen_key in seen or key is None:
            continue
        seen.add(seen_key)
        over = highest.setdefault(key, d)
        if rank(d) < rank(over) and (seek := _brought_back(history, d, over)) is not None:
            key = (key, seek)
            over = highest.setdefault(key, d)
        if rank(d) < rank(over):
            yield d, over
        else:
            highest[key] = d


def _brought_back(history: History, d: Delivery, over: Delivery) -> Sought | Cleared | None:
    """Return the last seek that may have given back what was cleared before ``over`` was delivered, or the clearing
    that may not have been stored; None without one."""
    cause: Sought | Cleared | None = None
    for c in history.cleared:
        if c.subscription == d.subscription and c.to >= d.position and c.sent_at <= over.at:
            cause = c if c.done_at > d.at else cause
    for seek in history.seeks:
        if seek.subscription != d.subscription or seek.position > d.position or seek.sent_at > d.at:
            continue
        if any(
            c.subscription == d.subscription
            and c.to >= d.position
            and c.sent_at <= min(seek.done_at, over.at)
            for c in history.cleared
        ):
            cause = seek
    return cause


def one_writer_per_ledger(history: History) -> list[str]:
    """Check that all receipts of one ledger are from one broker process (promise 4)."""
    writers: dict[int, str] = {}
    violations = []
    for receipt in history.receipts:
        writer = writers.setdefault(receipt.position.ledger_id, receipt.broker)
        if writer != receipt.broker:
            violations.append(f"ledger {receipt.position.ledger_id}: {writer} and {receipt.broker}")
    return violations


def confirmed_acks_hold(history: History) -> list[str]:
    """Check that a message is not delivered again after its acknowledgement was confirmed (promise 2).

    A broker that was replaced may still send from memory to consumers that attached before those of its successor:
    bytes that were sent cannot be stopped. Therefore the check applies to the broker that confirmed, and for every
    attachment made later than that of the consumer whose acknowledgement was confirmed. A message that was sent again
    and stored twice has two positions, each to be acknowledged. A seek takes back what was acknowledged from its
    position on.
    """
    confirmed: dict[tuple[str, Position], list[AckConfirmed]] = {}
    for ack in history.acks:
        confirmed.setdefault((ack.subscription, ack.position), []).append(ack)
    return [
        f"{d.subscription}: {d.producer} {d.number} at {d.position} delivered at {d.at:.3f} by {d.broker},"
        f" its ack was confirmed at {ack.at:.3f} by {ack.broker}"
        for d in history.deliveries
        for ack in confirmed.get((d.subscription, d.position), ())
        if min(d.at, d.sent_at) > ack.at
        if d.broker == ack.broker or d.attached_at > ack.attached_at
        if not any(_voids(seek, ack, d) for seek in history.seeks)
    ]


def confirmed_parts_hold(history: History) -> list[str]:
    """Check that messages of a batch are not delivered again after their acknowledgement was confirmed (M7). See
    ``confirmed_acks_hold``."""
    confirmed: dict[tuple[str, Position], list[PartConfirmed]] = {}
    for part in history.parts:
        confirmed.setdefault((part.subscription, part.position), []).append(part)
    return [
        f"{d.subscription}: of the batch at {d.position} the messages {part.bits:b} delivered at {d.at:.3f} by"
        f" {d.broker}, their ack was confirmed at {part.at:.3f} by {part.broker}"
        for d in history.deliveries
        for part in confirmed.get((d.subscription, d.position), ())
        if min(d.at, d.sent_at) > part.at
        if d.broker == part.broker or d.attached_at > part.attached_at
        if d.left is None or d.left & part.bits
        if not any(_voids(seek, part, d) for seek in history.seeks)
    ]


def _voids(seek: Sought, ack: AckConfirmed | PartConfirmed, delivery: Delivery) -> bool:
    """Return whether a seek may have taken back what was acknowledged before it. The confirmation may arrive after that
    of the seek, but only where the acknowledging consumer attached before: a seek disconnects all consumers."""
    return (
        seek.subscription == ack.subscription
        and seek.position <= ack.position
        and seek.sent_at <= delivery.at
        and ack.attached_at <= seek.done_at
    )


def cleared_stays_cleared(history: History) -> list[str]:
    """Check that what was cleared is not delivered to consumers that attach afterwards, unless the subscription was set
    back (M9)."""
    return [
        f"{d.subscription}: {d.position} delivered at {d.at:.3f}, all up to {c.to} was cleared at {c.done_at:.3f}"
        for c in history.cleared
        if c.done_at < float("inf")
        for d in history.deliveries
        if d.subscription == c.subscription and d.position <= c.to and d.attached_at > c.done_at
        if not any(
            s.subscription == c.subscription and s.done_at >= c.sent_at and s.position <= d.position
            for s in history.seeks
        )
    ]


def everything_confirmed_is_delivered(history: History) -> list[str]:
    """Check that every message with a receipt reaches every subscription of its topic, once the faults are over
    (promise 1)."""
    violations = []
    topics = history.topics
    for name in history.subscriptions:
        got = {(d.producer, d.number) for d in history.deliveries if d.subscription == name}
        lost = [
            r
            for r in history.receipts
            if topics.get(r.producer) == topics.get(name) and (r.producer, r.number) not in got
            if r.position > history.cleared_to(name)
        ]
        violations += [
            f"{name}: {r.producer} {r.number} at {r.position} was lost" for r in lost[:5]
        ]
    return violations


def delivered_until_acknowledged(history: History) -> list[str]:
    """Check, with every backlog at zero, that a consumer acknowledged every message with a receipt (promise 1)."""
    violations = []
    topics = history.topics
    for name in history.subscriptions:
        acked_to = max(history.acked_to.get(name, EARLIEST), history.cleared_to(name))
        forgotten = [
            r
            for r in history.receipts
            if topics.get(r.producer) == topics.get(name)
            and r.position > acked_to
            and (name, r.position) not in history.acks_sent
        ]
        violations += [
            f"{name}: {r.producer} {r.number} at {r.position} was forgotten" for r in forgotten[:5]
        ]
    return violations


def last_acknowledgements_are_confirmed(history: History) -> list[str]:
    """Check that every acknowledgement of what was published after the last fault is confirmed (M5)."""
    acked = {(ack.subscription, ack.producer, ack.number) for ack in history.acks}
    return [
        f"{name}: the acknowledgement of {r.producer} {r.number} at {r.position} was never confirmed"
        for name in history.subscriptions
        for r in history.receipts
        if r.at > history.calm_at and history.topics.get(r.producer) == history.topics.get(name)
        if (name, r.producer, r.number) not in acked
    ]


def nothing_anomalous(history: History) -> list[str]:
    """Return the violations that clients and observers noted at the time."""
    return list(history.anomalies)


SAFETY: dict[str, Callable[[History], list[str]]] = {
    check.__name__: check
    for check in (
        *(no_phantoms, receipts_in_order, one_message_per_position),
        *(first_deliveries_in_order, producers_in_order, keys_in_order),
        *(confirmed_acks_hold, confirmed_parts_hold),
        *(one_writer_per_ledger, cleared_stays_cleared, nothing_anomalous),
        *(nothing_before_a_place_in_a_batch, chunks_stay_together),
    )
}
LIVENESS: dict[str, Callable[[History], list[str]]] = {
    check.__name__: check
    for check in (
        *(everything_confirmed_is_delivered, delivered_until_acknowledged),
        *(everything_comes_again, last_acknowledgements_are_confirmed),
    )
}
