"""Acknowledgements that transactions make on parts of batches and up to a message, and the checks of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.base.ids import Position
from engine.broker.transactions.txn_id import TxnId
from tests.sim.transfer.book import Outcome

ALL = -1
"""All bits: every message of an entry, however many it has."""
Place = tuple[str, str]
"""A topic and a subscription of it."""


@dataclass
class Claim:
    """One acknowledgement in a transaction: ``bits`` of an entry's messages, or with ``cumulative`` also all before."""

    place: Place
    position: Position
    bits: int
    cumulative: bool
    asked_at: float
    answered_at: float = float("inf")
    """Time of the answer that accepted it."""

    def covered(self, position: Position) -> int:
        """Return the bits of the entry that it acknowledges."""
        if position == self.position:
            return self.bits
        return ALL if self.cumulative and position < self.position else 0

    def overlaps(self, other: "Claim") -> bool:
        """Return whether both acknowledge one message."""
        if self.place != other.place:
            return False
        if self.cumulative and other.cumulative:
            return True
        single, wide = (other, self) if self.cumulative else (self, other)
        return bool(wide.covered(single.position) & single.bits)


@dataclass
class ClaimingTransaction:
    """A transaction that acknowledges, as its client knows it."""

    outcome: Outcome = Outcome.OPEN
    claims: list[Claim] = field(default_factory=list)
    end_asked_at: float = float("inf")
    """Time at which its commit was requested first."""
    known_at: float = float("inf")
    """Time at which its commit was known."""


class ClaimBook:
    """The entries of the topics, and the transactions that acknowledge them."""

    def __init__(self) -> None:
        self.sizes: dict[str, dict[Position, int]] = {}
        """Numbers of messages of the entries that are known to be stored, by topic."""
        self.transactions: dict[TxnId, ClaimingTransaction] = {}
        self.conflicts = 0

    def note(self, topic: str, position: Position, size: int) -> None:
        """Note an entry that is stored."""
        self.sizes.setdefault(topic, {})[position] = size

    def _committed(self, *outcomes: Outcome) -> Iterator[Claim]:
        for made in self.transactions.values():
            if made.outcome in outcomes:
                yield from made.claims

    def due(self, place: Place) -> tuple[dict[Position, int], dict[Position, int]]:
        """Return the messages by entry that must be delivered on a subscription when all transactions have ended, and
        those that may be, because it is not known whether their transaction is committed."""
        must: dict[Position, int] = {}
        may: dict[Position, int] = {}
        known = [claim for claim in self._committed(Outcome.COMMITTED) if claim.place == place]
        unknown = [claim for claim in self._committed(Outcome.UNKNOWN) if claim.place == place]
        for position, size in self.sizes.get(place[0], {}).items():
            left = (1 << size) - 1
            for claim in known:
                left &= ~claim.covered(position)
            unsure = 0
            for claim in unknown:
                unsure |= claim.covered(position)
            if left & ~unsure:
                must[position] = left & ~unsure
            if left:
                may[position] = left
        return must, may

    def check(self) -> list[str]:
        """Return the violations of X4 and X5 among the acknowledgements that were accepted."""
        wrong: list[str] = []
        committed = [
            (txn, made)
            for txn, made in self.transactions.items()
            if made.outcome is Outcome.COMMITTED
        ]
        for txn, first in committed:
            for other, second in self.transactions.items():
                if other == txn:
                    continue
                for a in first.claims:
                    wrong += [
                        f"{text}: {a} of {txn}, {b} of {other}"
                        for b in second.claims
                        if a.overlaps(b) and (text := _violation(first, a, second, b))
                    ]
        return [f"transfer: {text}" for text in wrong]


def _violation(first: ClaimingTransaction, a: Claim, second: ClaimingTransaction, b: Claim) -> str:
    """Return what is wrong with two acknowledgements of one message, the first one's transaction being committed; empty
    when nothing is."""
    if b.answered_at == float("inf"):
        return ""
    if a.answered_at <= b.asked_at and b.answered_at <= first.end_asked_at:
        return "X4 two open transactions acknowledge one message"
    if second.outcome is not Outcome.COMMITTED:
        return ""
    if not a.cumulative and not b.cumulative:
        # A whole entry of which a part is acknowledged for good is accepted, as by Apache's brokers.
        whole = (a.bits == ALL, b.bits == ALL)
        return "X5 two transactions acknowledged one message" if whole in _ALIKE else ""
    if not a.cumulative or first.known_at > b.asked_at or b.position > a.position:
        return ""
    # In the batch at its end a later one may begin again, unless all of that was acknowledged.
    if b.position == a.position and a.bits != ALL and (b.cumulative or b.bits == ALL):
        return ""
    return "X5 a message was acknowledged again behind a cumulative acknowledgement"


_ALIKE = ((True, True), (False, False))
