"""What a confirmed change does to a cursor: exactly what was previewed, whatever was acknowledged meanwhile. Pure.

A change is two states, ``base`` as the preview saw it and ``target``. It is not "become target": entries that base has
acknowledged and target has not are due again, those of which the reverse is true are acknowledged, and of all others
what holds now stays. So what came after the preview is not touched, and undoing is the same change the other way round.
"""

from dataclasses import dataclass

from engine.base.ranges import RangeSet
from engine.managed.ack_state import AckState


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change makes of the state ``now``, over ordinals; nothing is changed yet.

    ``taken``, ``released``: the entries that it is to acknowledge and to give back. ``lost``: those acknowledged by it
    that nobody acknowledged. ``again``: those due again. ``partly``: batches of which only some messages are either.
    ``meanwhile``: entries of ``taken`` that others acknowledged since ``base``. ``returned``: entries (of batches: or
    parts) that ``base`` had acknowledged and that are not acknowledged now: the cursor was moved by somebody else.
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
        """Whether the state stays as it is."""
        return not (self.lost or self.again or self.partly)

    @property
    def narrowed(self) -> list[int]:
        """Batches of ``taken`` of which others acknowledged more since ``base``, and not all."""
        now, base = self.now.batches, self.base
        return sorted(o for o in now if o in self.taken and now[o] != base.bits(o))

    @property
    def first(self) -> int | None:
        """Ordinal of the first entry affected; None when nothing is."""
        parts = [*self.partly, *(one[0] for one in [*self.lost, *self.again])]
        return min(parts, default=None)

    @property
    def last(self) -> int | None:
        """Ordinal of the last entry affected."""
        tops = [one.top for one in (self.lost, self.again) if one]
        return max([*(top - 1 for top in tops), *self.partly], default=None)


def effect_of(now: AckState, base: AckState, target: AckState, low: int) -> Effect:
    """The change from ``base`` to ``target`` on ``now``; all states know no entry below ``low``.

    A batch that the change gives back, and of which more was acknowledged since, comes whole.
    """
    had, has, will = (_acknowledged(one, low) for one in (base, now, target))
    released, taken = _minus(had, will), _minus(will, had)
    entries = RangeSet([*_minus(has, released), *taken])
    partial = sorted(base.batches.keys() | now.batches.keys() | target.batches.keys())
    batches: dict[int, int] = {}
    partly, torn, due, done = [], RangeSet(), RangeSet(), RangeSet()
    for ordinal in partial:
        was, is_, to_be = (one.bits(ordinal) for one in (base, now, target))
        if is_ & ~was:
            torn.add(ordinal, ordinal + 1)
        bits = (is_ | (to_be & ~was)) & ~(was & ~to_be)
        if bits > 0:
            batches[ordinal] = bits
        (due if bits else done).add(ordinal, ordinal + 1)
        if is_ and bits and bits != is_:
            partly.append(ordinal)
    entries = RangeSet([*_minus(entries, due), *done])
    returned = RangeSet([*_minus(had, has), *torn])
    return Effect(
        base=base,
        now=now,
        after=AckState(low, entries, batches),
        taken=taken,
        released=released,
        lost=_minus(entries, has),
        again=_minus(has, entries),
        partly=partly,
        meanwhile=_minus(taken, _minus(taken, has)),
        returned=returned,
    )


def copied(acks: AckState) -> AckState:
    return AckState(acks.mark, acks.holes, acks.batches)


def passed(now: AckState, stop: int) -> AckState:
    """All below ``stop`` acknowledged, the rest as it is."""
    after = copied(now)
    after.acknowledge(now.mark, stop)
    return after


def _acknowledged(acks: AckState, low: int) -> RangeSet:
    return RangeSet([(low, acks.mark), *acks.holes])


def _minus(one: RangeSet, other: RangeSet) -> RangeSet:
    return RangeSet([gap for start, stop in one for gap in other.gaps(start, stop)])
