"""Entries out at consumers, entries to send again."""

from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.base.slices import Slice, View
from engine.broker.dispatch.redelivery import PendingAcks, RedeliveryCounts, ReplayQueue


def _view(first: int, count: int, counts: list[int] | None = None, ledger_id: int = 3) -> View:
    spans = [edge for i in range(count) for edge in (i, i + 1)]
    return View(Slice(bytes(count), spans, count, counts, ledger_id, first), 0, count)


def test_pending_counts_messages_not_entries() -> None:
    pending = PendingAcks()
    pending.add(_view(0, 3, [10, 1, 5]))
    assert (len(pending), pending.messages) == (3, 16)
    assert pending.discard(3, 0) == 10
    assert pending.messages == 6


def test_an_entry_is_removed_from_the_pending_ones_once() -> None:
    pending = PendingAcks()
    pending.add(_view(0, 2))
    assert [pending.discard(3, 1), pending.discard(3, 1), pending.discard(9, 9)] == [1, 0, 0]


def test_a_partly_acknowledged_batch_counts_its_other_messages() -> None:
    pending = PendingAcks()
    pending.add(_view(0, 1, [10]))
    assert pending.lower(3, 0, 4) == 6
    assert pending.lower(3, 0, 7) == 0
    assert pending.messages == 4


def test_taking_all_gives_positions_in_order_and_leaves_nothing() -> None:
    pending = PendingAcks()
    pending.add(_view(5, 2, ledger_id=7))
    pending.add(_view(1, 2, ledger_id=3))
    assert list(pending.take_all()) == [(3, 1), (3, 2), (7, 5), (7, 6)]
    assert (len(pending), pending.messages) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=60), st.integers(1, 7))
def test_replay_gives_each_position_once_smallest_first(
    added: list[tuple[int, int]], step: int
) -> None:
    queue = ReplayQueue()
    positions = [Position(*pair) for pair in added]
    queue.add(positions[: len(positions) // 2])
    queue.add(positions[len(positions) // 2 :])
    out: list[Position] = []
    while queue:
        out += queue.take(step)
    assert out == sorted(set(positions))


def test_entries_acknowledged_in_between_are_not_replayed() -> None:
    queue = ReplayQueue()
    queue.add([Position(1, 1), Position(1, 2)])
    queue.discard(Position(1, 1))
    assert queue.take(10) == [Position(1, 2)]
    queue.add([Position(1, 1)])
    assert queue.take(10) == [Position(1, 1)]


def test_redelivery_counts_are_none_until_one_is_raised() -> None:
    counts = RedeliveryCounts()
    assert counts.of(_view(0, 3)) is None
    counts.increment([Position(3, 1)])
    counts.increment([Position(3, 1)])
    assert counts.of(_view(0, 3)) == [0, 2, 0]
    assert counts.of(_view(2, 3)) is None
    counts.forget_up_to(Position(3, 1))
    assert counts.of(_view(0, 3)) is None


def test_pending_positions_are_found_without_a_check_of_each_other_one() -> None:
    class Counted(set[int]):
        looks = 0

        def __contains__(self, entry_id: object) -> bool:
            self.looks += 1
            return super().__contains__(entry_id)

    pending = PendingAcks()
    run = Slice(b"", [0] * 20, 0, None, 7, 0)
    pending.add(View(run, 2, 5))
    many = Counted(range(3, 100_000))
    wanted: dict[int, set[int]] = {ledger_id: set() for ledger_id in range(100)} | {7: many}
    assert sorted(pending.among(wanted)) == [Position(7, 3), Position(7, 4)]
    assert many.looks <= len(pending)
