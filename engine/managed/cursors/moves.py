"""The effect of a confirmed change on a cursor: exactly the previewed change, whatever was acknowledged meanwhile.
Pure.

A change is two states: ``base``, as the preview read it, and ``target``. It does not replace the present state by
``target``. Entries that base has acknowledged and target has not become due again, those of which the reverse is true
are acknowledged, and all others stay as they are now. So entries acknowledged after the preview are not affected, and
undoing is the same change with both states exchanged.
"""

from dataclasses import dataclass

from engine.base.ranges import RangeSet
from engine.managed.ack_state import AckState


@dataclass(frozen=True, slots=True)
class Effect:
    """The result of a change of the state ``now``, over ordinals; nothing is changed yet.

    ``taken``, ``released``: the entries that the change acknowledges, and those that it makes due again. ``lost``:
    entries acknowledged by it that no consumer acknowledged. ``again``: entries that become due again. ``partly``:
    batches of which only some messages are either. ``meanwhile``: entries of ``taken`` that consumers acknowledged
    since ``base``. ``returned``: entries (of batches: or parts) that ``base`` had acknowledged and that are not
    acknowledged now, because another change moved the cursor.
    """

    base: AckState
    now: AckState
    after: AckState
    taken: RangeSet
    released: RangeSet
    lost: RangeSet
    again: RangeSet
    partly: list[int]
    meanwhile: RangeSet
    returned: RangeSet

    @property
    def nothing(self) -> bool:
        """True when the state stays as it is."""
        return not (self.lost or self.again or self.partly)

    @property
    def narrowed(self) -> list[int]:
        """Batches of ``taken`` of which more messages, but not all, were acknowledged since ``base``."""
        now, base = self.now.batches, self.base
        return sorted(
            ordinal
            for ordinal in now
            if ordinal in self.taken and now[ordinal] != base.bits(ordinal)
        )

    @property
    def first(self) -> int | None:
        """Ordinal of the first affected entry; None when there is none."""
        parts = [*self.partly, *(start for start, _ in [*self.lost, *self.again])]
        return min(parts, default=None)

    @property
    def last(self) -> int | None:
        """Ordinal of the last affected entry; None when there is none."""
        tops = [ranges.top for ranges in (self.lost, self.again) if ranges]
        return max([*(top - 1 for top in tops), *self.partly], default=None)


def effect_of(now: AckState, base: AckState, target: AckState, low: int) -> Effect:
    """Return the effect of the change from ``base`` to ``target`` on ``now``. No state has entries below ``low``.

    When the change makes a batch due again of which more was acknowledged since, the entire batch is due.
    """
    base_acked, now_acked, target_acked = (
        _acknowledged(state, low) for state in (base, now, target)
    )
    released, taken = _minus(base_acked, target_acked), _minus(target_acked, base_acked)
    entries = RangeSet([*_minus(now_acked, released), *taken])
    ordinals = sorted(base.batches.keys() | now.batches.keys() | target.batches.keys())
    batches: dict[int, int] = {}
    partly, returned_batches, due_batches, done_batches = [], RangeSet(), RangeSet(), RangeSet()
    for ordinal in ordinals:
        base_bits, now_bits, target_bits = (state.bits(ordinal) for state in (base, now, target))
        if now_bits & ~base_bits:
            returned_batches.add(ordinal, ordinal + 1)
        # A set bit is an unacknowledged message: add those that the change makes due again, remove those that it
        # acknowledges.
        bits = (now_bits | (target_bits & ~base_bits)) & ~(base_bits & ~target_bits)
        if bits > 0:
            batches[ordinal] = bits
        (due_batches if bits else done_batches).add(ordinal, ordinal + 1)
        if now_bits and bits and bits != now_bits:
            partly.append(ordinal)
    entries = RangeSet([*_minus(entries, due_batches), *done_batches])
    returned = RangeSet([*_minus(base_acked, now_acked), *returned_batches])
    return Effect(
        base=base,
        now=now,
        after=AckState(low, entries, batches),
        taken=taken,
        released=released,
        lost=_minus(entries, now_acked),
        again=_minus(now_acked, entries),
        partly=partly,
        meanwhile=_minus(taken, _minus(taken, now_acked)),
        returned=returned,
    )


def copied(acks: AckState) -> AckState:
    return AckState(acks.mark, acks.holes, acks.batches)


def passed(now: AckState, stop: int) -> AckState:
    """Return ``now`` with everything below ``stop`` acknowledged."""
    after = copied(now)
    after.acknowledge(now.mark, stop)
    return after


def _acknowledged(acks: AckState, low: int) -> RangeSet:
    return RangeSet([(low, acks.mark), *acks.holes])


def _minus(ranges: RangeSet, other: RangeSet) -> RangeSet:
    return RangeSet([gap for start, stop in ranges for gap in other.gaps(start, stop)])
