"""Promises of the design, checked against a history. Each returns the violations it found, in words.

Safety checks hold for any history; ``liveness`` only for one that ended after all faults had healed.
"""

from collections.abc import Callable

from engine.base.ids import Position
from tests.sim.history import History

Key = tuple[str, int]


def no_phantoms(history: History) -> list[str]:
    """Nothing is delivered, or confirmed, that nobody sent."""
    sent = {(s.producer, s.number) for s in history.sent}
    seen = [(d.producer, d.number) for d in history.deliveries]
    seen += [(r.producer, r.number) for r in history.receipts]
    return [
        f"{name} {number} was never sent"
        for name, number in dict.fromkeys(seen)
        if (name, number) not in sent
    ]


def receipts_in_order(history: History) -> list[str]:
    """Promise 3: per producer, first receipts come in send order at growing positions."""
    found = []
    last: dict[str, tuple[int, Position]] = {}
    for receipt in history.receipts:
        before = last.get(receipt.producer)
        if before is not None:
            number, position = before
            if receipt.number <= number or receipt.position <= position:
                found.append(
                    f"{receipt.producer}: receipt {receipt.number} at {receipt.position}"
                    f" after {number} at {position}"
                )
        last[receipt.producer] = (receipt.number, receipt.position)
    return found


def one_message_per_position(history: History) -> list[str]:
    """Promise 4: a position is given to one message only, whatever brokers came and went."""
    owner: dict[Position, Key] = {}
    found = []
    events = [(r.position, (r.producer, r.number)) for r in history.receipts]
    events += [(d.position, (d.producer, d.number)) for d in history.deliveries]
    for position, key in events:
        first = owner.setdefault(position, key)
        if first != key:
            found.append(f"position {position} holds {first} and {key}")
    return found


def first_deliveries_in_order(history: History) -> list[str]:
    """Promise 3: an exclusive subscription first delivers in storage order; redeliveries may go back."""
    found = []
    highest: dict[str, Position] = {}
    seen: dict[str, set[Position]] = {}
    for delivery in history.deliveries:
        name = delivery.subscription
        if history.subscriptions.get(name) != "exclusive":
            continue
        known = seen.setdefault(name, set())
        if delivery.position in known:
            continue
        known.add(delivery.position)
        if name in highest and delivery.position < highest[name]:
            found.append(f"{name}: {delivery.position} first delivered after {highest[name]}")
        highest[name] = max(highest.get(name, delivery.position), delivery.position)
    return found


def confirmed_acks_hold(history: History) -> list[str]:
    """Promise 2: after an acknowledgement was confirmed, its message is not delivered again."""
    confirmed: dict[tuple[str, str, int], float] = {}
    for ack in history.acks:
        confirmed.setdefault((ack.subscription, ack.producer, ack.number), ack.at)
    return [
        f"{d.subscription}: {d.producer} {d.number} delivered at {d.at:.3f}, its ack was confirmed at {at:.3f}"
        for d in history.deliveries
        if (at := confirmed.get((d.subscription, d.producer, d.number))) is not None and d.at > at
    ]


def everything_confirmed_is_delivered(history: History) -> list[str]:
    """Promise 1: what got a receipt reaches every subscription, once the faults are over."""
    found = []
    for name in history.subscriptions:
        got = {(d.producer, d.number) for d in history.deliveries if d.subscription == name}
        lost = [r for r in history.receipts if (r.producer, r.number) not in got]
        found += [f"{name}: {r.producer} {r.number} at {r.position} was lost" for r in lost[:5]]
    return found


SAFETY: dict[str, Callable[[History], list[str]]] = {
    check.__name__: check
    for check in (
        *(no_phantoms, receipts_in_order, one_message_per_position),
        *(first_deliveries_in_order, confirmed_acks_hold),
    )
}
LIVENESS: dict[str, Callable[[History], list[str]]] = {
    check.__name__: check for check in (everything_confirmed_is_delivered,)
}
