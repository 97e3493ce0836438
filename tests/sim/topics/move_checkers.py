"""Checks of deliveries after a subscription was moved by a seek, a reset, or by its new creation; and of chunks.
Pure."""

from collections import defaultdict

from engine.base.ids import EARLIEST, Position
from tests.sim.topics.history import Delivery, History, Receipt, Sought

FOUND_MAX = 5


def everything_comes_again(history: History) -> list[str]:
    """Check that after a confirmed move all entries from there on are delivered to consumers that attach after it
    (M9)."""
    given: dict[tuple[str, Position], list[Delivery]] = defaultdict(list)
    for d in history.deliveries:
        given[d.subscription, d.position].append(d)
    violations = []
    for seek in history.seeks:
        if seek.done_at == float("inf") or seek.first is None:
            continue
        start = max(seek.position, seek.first)
        voided, void_batch = _moved_on(history, seek)
        for r in _receipts(history, seek.subscription):
            if r.position < start or r.position <= voided:
                continue
            again = [
                d for d in given[seek.subscription, r.position] if d.attached_at > seek.sent_at
            ]
            due = seek.bits if r.position == seek.position else None
            if not again or (r.position != void_batch and not _covers(again, due)):
                violations.append(
                    f"{seek.subscription}: {r.producer} {r.number} at {r.position} did not come again after the move to"
                    f" {seek.position} confirmed at {seek.done_at:.3f}"
                )
    return violations


def _receipts(history: History, subscription: str) -> list[Receipt]:
    topic = history.topics.get(subscription)
    return [r for r in history.receipts if history.topics.get(r.producer) == topic]


def _moved_on(history: History, seek: Sought) -> tuple[Position, Position]:
    """Return the position up to which a later move may have passed over what ``seek`` gave back, and the position of a
    batch that a later move may have gone into."""
    ends = [
        Position(s.position.ledger_id, s.position.entry_id - 1)
        for s in history.seeks
        if s is not seek and s.subscription == seek.subscription and s.done_at >= seek.sent_at
    ]
    ends += [
        c.to
        for c in history.cleared
        if c.subscription == seek.subscription and c.done_at >= seek.sent_at
    ]
    voided = max(ends, default=EARLIEST)
    return voided, Position(voided.ledger_id, voided.entry_id + 1)


def _covers(again: list[Delivery], bits: int | None) -> bool:
    """Return whether every message that is due was in one of the deliveries; ``bits`` None: all of the entry's."""
    if bits is None or any(d.left is None for d in again):
        return any(d.left is None for d in again)
    seen = 0
    for d in again:
        seen |= d.left or 0
    return seen & bits == bits


def nothing_before_a_place_in_a_batch(history: History) -> list[str]:
    """Check that after a confirmed move into a batch its messages before that place are not delivered to consumers that
    attach afterwards."""
    return [
        f"{d.subscription}: of the batch at {d.position} the messages {d.left if d.left is not None else -1:b} came"
        f" after the move to {seek.bits:b} confirmed at {seek.done_at:.3f}"
        for seek in history.seeks
        if seek.bits is not None and seek.done_at < float("inf")
        for d in history.deliveries
        if d.subscription == seek.subscription and d.position == seek.position
        if d.attached_at > seek.done_at and (d.left is None or d.left & ~seek.bits)
        if not any(
            s is not seek and s.subscription == seek.subscription and s.done_at >= seek.sent_at
            for s in history.seeks
            if s.position <= seek.position and s.sent_at <= d.at
        )
    ]


def chunks_stay_together(history: History) -> list[str]:
    """Check that a Shared subscription delivers all chunks of a message to one consumer, in order, while it stays
    attached.

    The consumer of the first chunk stayed when the same broker sent it more through the same attachment later on. A
    message that was delivered twice (given back, or stored twice) may go elsewhere.
    """
    messages: dict[tuple[str, str], list[tuple[int, Delivery]]] = defaultdict(list)
    last: dict[tuple[str, float, str], float] = {}
    for d in history.deliveries:
        last[d.consumer, d.attached_at, d.broker] = d.sent_at
        chunk = history.chunks.get((d.producer, d.number))
        if chunk is not None and history.subscriptions.get(d.subscription) == "shared":
            messages[d.subscription, chunk[0]].append((chunk[1], d))
    violations = []
    for (subscription, uuid), parts in messages.items():
        numbers = [index for index, _ in parts]
        first = next((d for index, d in parts if index == 0), None)
        if first is None or len(set(numbers)) < len(numbers):
            continue
        stayed = last[first.consumer, first.attached_at, first.broker]
        for index, d in parts:
            apart = (d.consumer, d.attached_at) != (first.consumer, first.attached_at)
            if d.broker == first.broker and apart and first.sent_at <= d.sent_at < stayed:
                violations.append(
                    f"{subscription}: chunk {index} of {uuid} went to {d.consumer}, the first to {first.consumer}"
                )
    return violations
