"""Entries that consumers of one shared subscription were sent and have not acknowledged (D4)."""

from collections.abc import Sequence

from engine.base.ids import Position
from engine.broker.dispatch.choose.chooser import Chooser
from engine.broker.dispatch.choose.keys import NO_SLOT
from engine.broker.dispatch.consumer import Consumer, pending_of
from engine.broker.dispatch.redelivery import RedeliveryCounts


class UnackedEntries:
    """Unacknowledged entries by the consumer at which each is outstanding, and how often each was given back."""

    __slots__ = ("_chooser", "_consumers", "counts")

    def __init__(
        self, consumers: Sequence[Consumer], chooser: Chooser, counts: RedeliveryCounts
    ) -> None:
        """``consumers`` are those attached. ``chooser`` is notified of each entry that is acknowledged."""
        self._consumers = consumers
        self._chooser = chooser
        self.counts = counts

    def acknowledge(
        self, consumer: Consumer, positions: list[Position], *, drains: bool
    ) -> tuple[int, list[Position]]:
        """Remove entries that ``consumer`` acknowledged.

        Return the messages they counted for, and the positions that were not pending at ``consumer``. ``drains``: the
        chooser has to be notified.
        """
        if self.counts:
            for position in positions:
                self.counts.forget(position)
        pending = pending_of(consumer)
        if pending.passed:
            # A passed entry keeps its key at the consumer until its client acknowledges it (D10).
            for position in positions:
                self._chooser.released(consumer, pending.pop_passed(position))
        if not drains:
            return pending.discard_all(positions)
        # One by one: each release is reported with the slot of its entry.
        messages, missing = 0, []
        for position in positions:
            discarded = self._discard(consumer, position)
            messages += discarded
            if not discarded:
                missing.append(position)
        return messages, missing

    def acknowledge_elsewhere(
        self, consumer: Consumer, positions: list[Position]
    ) -> tuple[int, list[Position]]:
        """Remove entries that ``consumer`` acknowledged and other consumers hold.

        Return the messages they counted for, and the positions that are pending nowhere. Linear in the pending and
        acknowledged entries: there may be many of both, and of consumers.
        """
        wanted: dict[int, set[int]] = {}
        for ledger_id, entry_id in positions:
            wanted.setdefault(ledger_id, set()).add(entry_id)
        messages = 0
        for other in self._consumers:
            if other is not consumer:
                for position in pending_of(other).among(wanted):
                    messages += self._discard(other, position)
                    wanted[position.ledger_id].discard(position.entry_id)
        return messages, [p for p in positions if p.entry_id in wanted[p.ledger_id]]

    def _discard(self, holder: Consumer, position: Position) -> int:
        """Remove an entry from those pending at ``holder``; return the messages it counted for, 0 when not pending."""
        pending = pending_of(holder)
        slot = pending.slot(*position)
        messages = pending.discard(*position)
        if messages:
            self._chooser.released(holder, slot)
        return messages

    def acknowledge_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        """Lower the unacknowledged messages of an entry to ``left``, at ``consumer`` or else at its holder."""
        holder: Consumer | None = consumer
        if position not in pending_of(consumer):
            holder = next((c for c in self._consumers if position in pending_of(c)), None)
        if holder is not None:
            pending_of(holder).lower(*position, left)

    def pass_up_to(self, position: Position) -> None:
        """Remove the entries up to and including ``position``, which were acknowledged, but not by clients."""
        for holder in self._consumers:
            pending_of(holder).pass_up_to(position)
        self.counts.forget_up_to(position)

    def take_back(self, positions: Sequence[Position]) -> dict[Position, int]:
        """Remove and count entries that are to be sent again; return their slots, NO_SLOT for those that no consumer
        holds."""
        self.counts.increment(positions)
        back = dict.fromkeys(positions, NO_SLOT)
        wanted: dict[int, set[int]] = {}
        for ledger_id, entry_id in positions:
            wanted.setdefault(ledger_id, set()).add(entry_id)
        for holder in self._consumers:
            pending = pending_of(holder)
            for position in pending.among(wanted):
                back[position] = pending.slot(*position)
                self._discard(holder, position)
        return back

    def give_back(
        self, consumer: Consumer, positions: list[Position] | None
    ) -> tuple[dict[Position, int], list[int]]:
        """Remove and count entries that ``consumer`` gave back; None: all its entries.

        Return the slots by position of those that were pending at it, and the slots of those that were passed.
        """
        pending = pending_of(consumer)
        if positions is None:
            passed = list(pending.passed.values())
            back = pending.take_all()
        else:
            passed = [pending.pop_passed(p) for p in positions] if pending.passed else []
            slots = [pending.slot(*p) for p in positions]
            back = {p: s for p, s in zip(positions, slots, strict=True) if pending.discard(*p)}
        self.counts.increment(back)
        return back, passed
