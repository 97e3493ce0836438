"""Snapshots that a replicated subscription did not pass yet."""

from engine.base.ids import Position
from engine.broker.topics.geo.replicated_position import ReplicatedPosition
from engine.wire.geo.markers import ClusterSnapshot


def made(room: int = 4) -> ReplicatedPosition:
    return ReplicatedPosition(room, lambda first, stop: stop.entry_id - first.entry_id)


def at(entry: int) -> ClusterSnapshot:
    return ClusterSnapshot(str(entry), Position(1, entry), {})


def kept(state: ReplicatedPosition) -> list[int]:
    return [snapshot.here.entry_id for snapshot in state.snapshots]


def test_the_newest_snapshot_that_is_passed_counts() -> None:
    state = made()
    for entry in (10, 20, 30):
        state.add(at(entry), 5)
    assert state.passed(Position(1, 9)) is None
    assert state.passed(Position(1, 20)) == at(20)
    assert kept(state) == [30]
    assert state.passed(Position(1, 29)) is None
    assert state.snapshot_ms == 5


def test_without_room_the_first_and_the_last_are_kept_and_others_at_even_distances() -> None:
    state = made()
    for entry in range(0, 1000, 10):
        state.add(at(entry), 1)
    first, *between, last = kept(state)
    assert (first, last) == (0, 990)
    assert len(between) == 2
    assert max(b - a for a, b in zip(kept(state), kept(state)[1:], strict=False)) <= 700


def test_a_snapshot_that_is_read_again_is_not_added_again() -> None:
    state = made()
    for entry in (20, 10, 20, 10):
        state.add(at(entry), 1)
    assert kept(state) == [10, 20]


def test_with_room_for_one_the_newest_is_kept() -> None:
    state = made(1)
    for entry in (10, 20):
        state.add(at(entry), 1)
    assert kept(state) == [20]
