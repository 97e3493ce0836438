"""The checks of moved subscriptions and of chunks see what is wrong and stay silent about what is right."""

import pytest

from engine.base.ids import Position
from tests.sim.topics import move_checkers
from tests.sim.topics.history import Cleared, Delivery, History, Receipt, Sought

FIRST = Position(7, 0)


def moved(to: int, again: tuple[int, ...], bits: int | None = None) -> History:
    """Four messages were given and acknowledged, then the subscription was moved to ``to``, and ``again`` came."""
    history = History(subscriptions={"s": "shared"}, topics={"p": "t", "s": "t"})
    for n in range(4):
        history.receipts.append(Receipt(n, "p", n, Position(7, n)))
        history.deliveries.append(Delivery(n, "s", "c", "p", n, Position(7, n), attached_at=0))
    history.seeks.append(Sought(10, 11, "s", Position(7, to), FIRST, bits))
    for n in again:
        left = bits if n == to else None
        history.deliveries.append(
            Delivery(12, "s", "c", "p", n, Position(7, n), attached_at=11.5, left=left)
        )
    return history


@pytest.mark.parametrize(("again", "missing"), [((1, 2, 3), 0), ((1, 3), 1), ((), 3)])
def test_everything_from_there_on_comes_again(again: tuple[int, ...], missing: int) -> None:
    assert len(move_checkers.everything_comes_again(moved(1, again))) == missing


def test_of_a_whole_batch_every_message_comes_again() -> None:
    history = moved(1, (1, 2, 3))
    history.deliveries[-3] = history.deliveries[-3]._replace(left=0b100)
    assert len(move_checkers.everything_comes_again(history)) == 1


def test_of_a_place_in_a_batch_what_is_behind_it() -> None:
    history = moved(1, (1, 2, 3), bits=0b110)
    assert move_checkers.everything_comes_again(history) == []
    history.deliveries[-3] = history.deliveries[-3]._replace(left=0b100)
    assert len(move_checkers.everything_comes_again(history)) == 1


def test_what_was_in_front_of_the_place_does_not_come() -> None:
    history = moved(1, (1, 2, 3), bits=0b110)
    assert move_checkers.nothing_before_a_place_in_a_batch(history) == []
    history.deliveries[-3] = history.deliveries[-3]._replace(left=None)
    assert len(move_checkers.nothing_before_a_place_in_a_batch(history)) == 1


def test_who_attached_before_the_move_does_not_count() -> None:
    history = moved(1, (1, 2, 3))
    history.deliveries[-1] = history.deliveries[-1]._replace(attached_at=9)
    assert len(move_checkers.everything_comes_again(history)) == 1


def test_what_a_later_move_passes_over_need_not_come() -> None:
    history = moved(1, (3,))
    history.seeks.append(Sought(11, float("inf"), "s", Position(7, 3), None))
    assert move_checkers.everything_comes_again(history) == []
    history = moved(1, ())
    history.cleared.append(Cleared(12, 13, "s", Position(7, 3)))
    assert move_checkers.everything_comes_again(history) == []


def test_what_the_topic_had_no_more_need_not_come() -> None:
    history = moved(0, (3,))
    history.seeks[0] = history.seeks[0]._replace(first=Position(7, 3))
    assert move_checkers.everything_comes_again(history) == []


def test_a_move_that_nobody_confirmed_promises_nothing() -> None:
    history = moved(1, ())
    history.seeks[0] = history.seeks[0]._replace(done_at=float("inf"))
    assert move_checkers.everything_comes_again(history) == []


def chunked(second: str, stays: bool = True) -> History:
    """Of a message of two chunks the first went to "c", the other to ``second``; then "c" got something more."""
    history = History(subscriptions={"s": "shared"})
    history.chunks = {("p", 0): ("u", 0, 2), ("p", 1): ("u", 1, 2)}
    order = [("c", 0), (second, 1), ("c" if stays else "d", 2)]
    for at, (consumer, n) in enumerate(order):
        history.deliveries.append(
            Delivery(at, "s", consumer, "p", n, Position(7, n), at, "b", attached_at=0)
        )
    return history


def test_chunks_of_a_message_go_to_one_consumer() -> None:
    assert move_checkers.chunks_stay_together(chunked("c")) == []
    assert len(move_checkers.chunks_stay_together(chunked("d"))) == 1


def test_chunks_may_part_when_their_consumer_left_or_one_was_given_back() -> None:
    assert move_checkers.chunks_stay_together(chunked("d", stays=False)) == []
    history = chunked("d")
    history.deliveries.append(history.deliveries[1])
    assert move_checkers.chunks_stay_together(history) == []
