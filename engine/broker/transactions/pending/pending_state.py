"""Acknowledgements of open transactions of one subscription, and the rule which of them conflict (X4). Pure.

An acknowledgement of a part of a batch is ``kept``: the bits of the messages that it does *not* acknowledge, as on the
wire; 0 is the whole entry. Messages behind the highest bit in sight are not known to exist, unless the size of the
batch is known.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import NamedTuple, Protocol

from engine.base.ids import Position
from engine.base.ranges import bits_of, words_of
from engine.broker.errors import NotAllowed, TransactionConflict
from engine.broker.transactions.ports import LogPlace, StatedAck
from engine.broker.transactions.txn_id import TxnId


class PendingAck(NamedTuple):
    """One acknowledged entry. ``batch_size``: messages in it, 0 when the client did not state them."""

    position: Position
    kept: int = 0
    batch_size: int = 0

    @classmethod
    def of(cls, ack: StatedAck) -> "PendingAck":
        """Return an acknowledgement as a client or the log states it."""
        return cls(ack.position, bits_of(ack.ack_set) if any(ack.ack_set) else 0, ack.batch_size)

    @property
    def stated(self) -> StatedAck:
        """The acknowledgement as the log states it."""
        return StatedAck(self.position, words_of(self.kept), self.batch_size)


@dataclass(slots=True)
class TxnAcks:
    """Acknowledgements of one open transaction, by position, and where the log has them."""

    acks: dict[Position, PendingAck] = field(default_factory=dict)
    cumulative: PendingAck | None = None
    places: list[LogPlace] = field(default_factory=list)


class AckedCursor(Protocol):
    """Acknowledgements of a subscription that are not part of open transactions."""

    @property
    def mark_delete(self) -> Position: ...

    def is_acknowledged(self, position: Position, /) -> bool: ...

    def remains(self, position: Position, /) -> int | None: ...

    async def persisted(self) -> None: ...


class PendingState:
    """Acknowledgements of open transactions, by transaction. A position is hidden when all of it is acknowledged."""

    __slots__ = ("_cumulative", "_kept", "_least", "_sharers", "transactions")

    def __init__(self) -> None:
        self.transactions: dict[TxnId, TxnAcks] = {}
        """Transactions in the order of their first acknowledgement."""
        self._kept: dict[Position, int] = {}
        """Bits that no transaction acknowledges, by position with an individual acknowledgement."""
        self._sharers: dict[Position, list[TxnId]] = {}
        """Transactions of each position of which one acknowledges a part, or several anything."""
        self._least: dict[int, list[int]] = {}
        """Heaps of the transactions' least significant bits, by coordinator, also of some that were removed."""
        self._cumulative: TxnId | None = None
        """The transaction with the cumulative acknowledgement; at most one has it."""

    def __bool__(self) -> bool:
        return bool(self.transactions)

    @property
    def up_to(self) -> PendingAck | None:
        """The cumulative acknowledgement; None without one."""
        return None if self._cumulative is None else self.transactions[self._cumulative].cumulative

    def kept(self, position: Position) -> int | None:
        """Return the bits of the entry that no open transaction acknowledges; None when none acknowledges a part."""
        up_to = self.up_to
        kept = self._kept.get(position)
        if up_to is not None and position <= up_to.position:
            if position < up_to.position:
                return 0
            return up_to.kept if kept is None else up_to.kept & kept
        return kept

    @property
    def has_parts(self) -> bool:
        """True when any batch may be acknowledged in part."""
        up_to = self.up_to
        return any(self._kept.values()) or (up_to is not None and bool(up_to.kept))

    @property
    def positions(self) -> list[Position]:
        """Positions with an individual acknowledgement."""
        return [*self._kept]

    @property
    def count(self) -> int:
        """Number of these positions."""
        return len(self._kept)

    def batch_size(self, position: Position) -> int:
        """Return the number of messages in a batch, as its acknowledgements stated it; 0 when they did not."""
        acks = [held.acks[position] for held in self.transactions.values() if position in held.acks]
        up_to = self.up_to
        if up_to is not None and up_to.position == position:
            acks.append(up_to)
        return max((ack.batch_size for ack in acks), default=0)

    # --- acknowledging --------------------------------------------------------------------------

    def add(
        self, txn: TxnId, acks: Sequence[PendingAck], cursor: AckedCursor, topic: str, name: str
    ) -> None:
        """Add individual acknowledgements, all or none.

        Raises TransactionConflict for a message that is acknowledged, by an open transaction (also the same one) or for
        good, and NotAllowed for an entry that does not exist.
        """
        seen: dict[Position, int] = {}
        for ack in acks:
            position = ack.position
            left = cursor.remains(position)
            kept = self.kept(position)
            earlier = seen.get(position)
            if left == -1 and kept is None and earlier is None:
                seen[position] = ack.kept
                continue
            what = f"[{topic}][{name}] Transaction:{txn} try to ack"
            if left == 0:
                raise TransactionConflict(f"{what} message:{position} already acked before.")
            if left is None:
                raise NotAllowed(f"{what} message:{position}, which does not exist.")
            # A whole entry of which a part is acknowledged for good is accepted, as by Apache's brokers.
            if left != -1 and ack.kept and _overlap(ack, left):
                raise TransactionConflict(f"{what} batch message:{position} already acked before.")
            for pending in (kept, earlier):
                if pending is not None and _overlap(ack, pending):
                    kind = "batch message" if ack.kept else "message"
                    raise TransactionConflict(f"{what} {kind}:{position} in pending ack status.")
            seen[position] = (-1 if earlier is None else earlier) & ack.kept
        self.restore(txn, acks)

    def add_cumulative(
        self, txn: TxnId, ack: PendingAck, cursor: AckedCursor, topic: str, name: str
    ) -> PendingAck | None:
        """Acknowledge everything up to ``ack`` and return the transaction's cumulative acknowledgement before.

        Raises TransactionConflict when nothing of it is unacknowledged, or any of it is in another transaction.
        """
        position = ack.position
        what = f"[{topic}][{name}] Transaction:{txn} try to cumulative ack message:{position}"
        if position <= cursor.mark_delete:
            raise TransactionConflict(
                f"{what} within range of cursor's markDeletePosition: {cursor.mark_delete}"
            )
        own, up_to = self._cumulative == txn, self.up_to
        if up_to is not None and not (own and _extends(ack, up_to)):
            raise TransactionConflict(
                f"{what} within range of current currentPosition: {up_to.position}"
            )
        for other, held in self.transactions.items():
            if other != txn and any(pending <= position for pending in held.acks):
                raise TransactionConflict(f"{what}, of which {other} has messages.")
        self.restore(txn, (ack,), cumulative=True)
        return up_to

    def restore(
        self, txn: TxnId, acks: Iterable[PendingAck], *, cumulative: bool = False
    ) -> TxnAcks:
        """Add acknowledgements that were checked before, and return those of the transaction."""
        held = self.transactions.get(txn)
        if held is None:
            held = self._begin(txn)
        for ack in acks:
            if cumulative:
                self._cumulative, held.cumulative = txn, ack
                continue
            position = ack.position
            earlier = held.acks.get(position)
            if earlier is not None:
                ack = ack._replace(kept=ack.kept & earlier.kept)
            elif ack.kept or position in self._kept:
                self._share(txn, position)
            held.acks[position] = ack
            self._kept[position] = self._kept.get(position, -1) & ack.kept
        return held

    def _begin(self, txn: TxnId) -> TxnAcks:
        held = self.transactions[txn] = TxnAcks()
        least = self._least.setdefault(txn.most, [])
        heapq.heappush(least, txn.least)
        # Those of removed transactions stay while one before them is open.
        if len(least) > 1000 + 2 * len(self.transactions):
            least[:] = [bits for bits in least if TxnId(txn.most, bits) in self.transactions]
            heapq.heapify(least)
        return held

    def _share(self, txn: TxnId, position: Position) -> None:
        """Note that a transaction acknowledges a position, of which others may have parts."""
        sharers = self._sharers.get(position)
        if sharers is None:
            # One with the whole entry is not noted, and conflicts: only a log of Apache's brokers has both.
            known = position in self._kept
            sharers = (
                [other for other, held in self.transactions.items() if position in held.acks]
                if known
                else []
            )
            self._sharers[position] = sharers
        sharers.append(txn)

    def first_up_to(self, coordinator: int, least: int) -> TxnId | None:
        """Return the lowest transaction of a coordinator, unless its id is above ``least``."""
        heap = self._least.get(coordinator, [])
        while heap and heap[0] <= least:
            txn = TxnId(coordinator, heap[0])
            if txn in self.transactions:
                return txn
            heapq.heappop(heap)
        return None

    def remove(self, txn: TxnId) -> None:
        """Remove a transaction that ended."""
        held = self.transactions.pop(txn, None)
        if held is None:
            return
        if self._cumulative == txn:
            self._cumulative = None
        for position in held.acks:
            # Another transaction may have acknowledged other messages of the same batch.
            sharers = self._sharers.get(position, ())
            kept = [
                self.transactions[other].acks[position].kept for other in sharers if other != txn
            ]
            if kept:
                self._sharers[position] = [other for other in sharers if other != txn]
                self._kept[position] = reduce(and_, kept)
            else:
                del self._kept[position]
                self._sharers.pop(position, None)

    def take_over(self, other: "PendingState") -> None:
        """Become a copy of ``other``, which must not be used any more."""
        self.transactions, self._kept = other.transactions, other._kept
        self._sharers, self._least = other._sharers, other._least
        self._cumulative = other._cumulative

    def clear(self) -> None:
        """Forget all transactions."""
        self.take_over(PendingState())


def _overlap(ack: PendingAck, kept: int) -> bool:
    """Return whether ``ack`` acknowledges a message of an entry of which only ``kept`` are unacknowledged."""
    if not ack.kept or not kept:
        return True
    size = ack.batch_size or max(ack.kept.bit_length(), kept.bit_length())
    return bool(~ack.kept & ~kept & ((1 << size) - 1))


def _extends(ack: PendingAck, before: PendingAck) -> bool:
    """Return whether a cumulative acknowledgement covers more than the one before."""
    if ack.position != before.position:
        return ack.position > before.position
    return bool(before.kept) and bool(before.kept & ~ack.kept)
