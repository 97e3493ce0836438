"""Events that clients saw, in simulated time. The only evidence that the checkers use besides the disks."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.base.ids import EARLIEST, Position


class Sent(NamedTuple):
    """A producer's attempt; ``number`` counts per producer from 0 and is unique in the payload."""

    at: float
    producer: str
    number: int


class Receipt(NamedTuple):
    at: float
    producer: str
    number: int
    position: Position
    broker: str = ""
    """Incarnation that sent it."""


class Delivery(NamedTuple):
    at: float
    subscription: str
    consumer: str
    producer: str
    number: int
    position: Position
    sent_at: float = float("inf")
    """Time at which the broker wrote it to the connection."""
    broker: str = ""
    attached_at: float = float("inf")
    """Time at which the broker confirmed the consumer's SUBSCRIBE."""
    left: int | None = None
    """Bits of the batch's messages that are to be consumed; None for all of them."""


class AckConfirmed(NamedTuple):
    """A broker's confirmation of an acknowledgement (ack receipt)."""

    at: float
    subscription: str
    producer: str
    number: int
    position: Position
    broker: str = ""
    attached_at: float = 0.0
    """Time at which the broker confirmed the SUBSCRIBE of the consumer that acknowledged."""


class PartConfirmed(NamedTuple):
    """A broker's confirmation of an acknowledgement of the messages ``bits`` of a batch."""

    at: float
    subscription: str
    position: Position
    bits: int
    broker: str
    attached_at: float


class Sought(NamedTuple):
    """A move of a subscription to ``position``, or its deletion and creation (EARLIEST); ``done_at`` is infinite
    without a confirmation."""

    sent_at: float
    done_at: float
    subscription: str
    position: Position
    first: Position | None = None
    """The first entry that the topic still had when it was done; None when that is unknown."""
    bits: int | None = None
    """Bits of the messages that are due of the batch at ``position``; None for all."""


class Cleared(NamedTuple):
    """An acknowledgement of everything up to ``to`` by an administrator or a move of the subscription; ``done_at`` is
    infinite without a confirmation."""

    sent_at: float
    done_at: float
    subscription: str
    to: Position


@dataclass
class History:
    """Events of one run, each list in the order of time."""

    sent: list[Sent] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    acks: list[AckConfirmed] = field(default_factory=list)
    parts: list[PartConfirmed] = field(default_factory=list)
    seeks: list[Sought] = field(default_factory=list)
    cleared: list[Cleared] = field(default_factory=list)
    subscriptions: dict[str, str] = field(default_factory=dict)
    """Name to kind (``exclusive``, ``failover``, ``shared`` or ``key_shared``); all start at the earliest message."""
    topics: dict[str, str] = field(default_factory=dict)
    """Topic of each producer and of each subscription; names not in here share one topic."""
    chunks: dict[tuple[str, int], tuple[str, int, int]] = field(default_factory=dict)
    """Chunks by producer and number: the message's id, the chunk's index, and the number of chunks."""
    keys: dict[tuple[str, int], str] = field(default_factory=dict)
    """Keys by producer and number, of messages that have one."""
    delayed: set[tuple[str, int]] = field(default_factory=set)
    """Producers' numbers that have a delivery time. Never iterated."""
    acks_sent: set[tuple[str, Position]] = field(default_factory=set)
    """Positions by subscription that a consumer acknowledged, confirmed or not. Never iterated."""
    given_up: dict[str, int] = field(default_factory=dict)
    """Subscriptions that a consumer is deleting and that are not known to exist again, with their index in
    ``seeks``."""
    acked_to: dict[str, Position] = field(default_factory=dict)
    """Highest position by subscription that was acknowledged with all before it."""
    confirmed: dict[str, list[Position]] = field(default_factory=dict)
    """Positions with a receipt by topic, ascending."""

    def confirmed_between(self, topic: str, after: Position, before: Position) -> list[Position]:
        """Return the positions of messages with receipts in that range, ends excluded."""
        known = self.confirmed.get(topic, [])
        return known[bisect_right(known, after) : bisect_left(known, before)]

    def move(
        self, subscription: str, position: Position, now: float, bits: int | None = None
    ) -> Callable[[float, Position | None], None]:
        """Note that a subscription is being moved to ``position``: what is before it counts as cleared. Return a
        function to be called when the move is confirmed, with the time and the first entry that the topic has then."""
        begun = Sought(now, float("inf"), subscription, position, None, bits)
        behind = Position(position.ledger_id, position.entry_id - 1)
        cleared = Cleared(now, float("inf"), subscription, behind)
        seek_at, clear_at = len(self.seeks), len(self.cleared)
        self.seeks.append(begun)
        self.cleared.append(cleared)

        def confirmed(at: float, first: Position | None) -> None:
            self.seeks[seek_at] = begun._replace(done_at=at, first=first)
            self.cleared[clear_at] = cleared._replace(done_at=at)

        return confirmed

    def is_moving(self, subscription: str, since: float) -> int:
        """Return how many moves of the subscription, seeks and clearings, may have happened at ``since`` or later."""
        moves: list[Sought | Cleared] = [*self.seeks, *self.cleared]
        return sum(move.subscription == subscription and move.done_at >= since for move in moves)

    def cleared_to(self, subscription: str, since: float = 0.0) -> Position:
        """Return the position up to which an administrator may have acknowledged, at ``since`` or later."""
        clearings = (c for c in self.cleared if c.subscription == subscription)
        return max((c.to for c in clearings if c.sent_at >= since), default=EARLIEST)

    calm_at: float = float("inf")
    """Time from which on no fault strikes; everything published before was delivered."""
    anomalies: list[str] = field(default_factory=list)
    """Violations that a client or an observer saw, in words."""
