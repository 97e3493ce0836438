"""Confirmed changes against a model that keeps each message of each entry on its own."""

import random

from engine.base.ranges import RangeSet
from engine.managed.ack_state import AckState
from engine.managed.cursors.moves import Effect, effect_of, passed

Due = dict[int, int]
"""Bits of the messages that are due, by entry; 0 for none."""


def state_of(due: Due, sizes: list[int], low: int) -> AckState:
    done = RangeSet((o, o + 1) for o, bits in due.items() if not bits)
    batches = {o: bits for o, bits in due.items() if bits and bits != full(sizes[o])}
    return AckState(low, done, batches)


def full(size: int) -> int:
    return (1 << size) - 1


def due_of(acks: AckState, sizes: list[int], low: int) -> Due:
    return {o: acks.bits(o) & full(sizes[o]) for o in range(low, len(sizes))}


def narrowed(rng: random.Random, due: Due, share: float) -> Due:
    """Return the messages that are due after some were acknowledged."""
    remaining = {}
    for o, bits in due.items():
        kind = rng.random()
        remaining[o] = (
            bits if kind > share else 0 if kind < share / 2 else bits & rng.getrandbits(8)
        )
    return remaining


def rolled(rng: random.Random) -> tuple[list[int], int, Due, Due, Due]:
    sizes = [rng.choice((1, 1, 2, 5)) for _ in range(rng.randrange(1, 30))]
    low = rng.randrange(len(sizes))
    whole = {o: full(sizes[o]) for o in range(low, len(sizes))}
    base = narrowed(rng, whole, 0.6)
    now = narrowed(rng, base, rng.choice((0.0, 0.4)))
    stop = rng.randrange(low, len(sizes) + 1)
    kind = rng.random()
    if kind < 0.4:  # skip
        target = {o: 0 if o < stop else bits for o, bits in base.items()}
    elif kind < 0.8:  # reset
        target = {o: 0 if o < stop else full(sizes[o]) for o in base}
    else:
        target = narrowed(rng, whole, 0.6)
    return sizes, low, base, now, target


def rebased(base: int, now: int, target: int, size: int) -> int:
    """Return an entry's due messages: the change is applied, and acknowledgements since its preview stay."""
    remaining = (now | (target & ~base)) & ~(base & ~target)
    given_back_whole = target == full(size) and base not in (0, target)
    return full(size) if given_back_whole else remaining


def test_a_change_acknowledges_and_restores_exactly_what_its_preview_showed() -> None:
    rng = random.Random(12)
    for _ in range(3000):
        sizes, low, base, now, target = rolled(rng)
        states = [state_of(due, sizes, low) for due in (now, base, target)]
        effect = effect_of(*states, low)
        assert not effect.returned
        after = due_of(effect.after, sizes, low)
        assert after == {o: rebased(base[o], now[o], target[o], sizes[o]) for o in base}
        assert effect.lost == RangeSet((o, o + 1) for o in base if now[o] and not after[o])
        assert effect.again == RangeSet((o, o + 1) for o in base if after[o] and not now[o])
        partly = [o for o in base if now[o] and after[o] and now[o] != after[o]]
        assert effect.partly == partly
        touched = [o for o in base if now[o] != after[o]]
        assert effect.first == min(touched, default=None)
        assert effect.last == max(touched, default=None)


def test_an_immediate_undo_restores_the_state_before_the_change() -> None:
    rng = random.Random(13)
    for _ in range(2000):
        sizes, low, base, now, target = rolled(rng)
        states = [state_of(due, sizes, low) for due in (now, base, target)]
        done = effect_of(*states, low)
        undone = effect_of(done.after, done.after, done.now, low)
        assert due_of(undone.after, sizes, low) == now
        assert not undone.returned


def whole(mark: int, *holes: tuple[int, int]) -> AckState:
    return AckState(mark, holes)


def test_entries_published_after_the_preview_are_not_touched() -> None:
    base = whole(2, (5, 7))
    now = whole(4, (5, 7), (11, 12))  # 2 and 3 acknowledged since, 10 to 12 published since
    effect = effect_of(now, base, passed(base, 10), 0)
    assert list(effect.lost) == [(4, 5), (7, 10)]
    assert list(effect.meanwhile) == [(2, 4)]
    assert (effect.after.mark, list(effect.after.holes)) == (10, [(11, 12)])


def test_a_rewind_does_not_bring_back_what_was_acknowledged_since() -> None:
    effect = effect_of(whole(6), whole(5), whole(2), 0)
    assert list(effect.again) == [(2, 5)]
    assert (effect.after.mark, list(effect.after.holes)) == (2, [(5, 6)])


def test_entries_that_another_move_restored_are_reported() -> None:
    effect: Effect = effect_of(whole(1), whole(5), passed(whole(5), 9), 0)
    assert list(effect.returned) == [(1, 5)]


def test_a_batch_with_restored_messages_is_reported() -> None:
    base, now = AckState(0, (), {3: 0b0011}), AckState(0, (), {3: 0b0111})
    assert list(effect_of(now, base, passed(base, 9), 0).returned) == [(3, 4)]
