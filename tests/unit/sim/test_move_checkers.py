"""The checks of moved subscriptions and of chunks report each violation, and nothing for a correct history."""

import pytest

from engine.base.ids import Position
from tests.sim.topics import move_checkers
from tests.sim.topics.history import Cleared, Delivery, History, Receipt, Sought

FIRST = Position(7, 0)


def moved(to: int, again: tuple[int, ...], bits: int | None = None) -> History:
    """Return a history in which four messages are delivered and acknowledged, the subscription is moved to ``to``, and
    the messages ``again`` are delivered."""
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
def test_all_messages_behind_the_target_are_delivered_again(
    again: tuple[int, ...], missing: int
) -> None:
    assert len(move_checkers.everything_comes_again(moved(1, again))) == missing


def test_every_message_of_a_whole_batch_is_delivered_again() -> None:
    history = moved(1, (1, 2, 3))
    history.deliveries[-3] = history.deliveries[-3]._replace(left=0b100)
    assert len(move_checkers.everything_comes_again(history)) == 1


def test_the_messages_behind_a_target_in_a_batch_are_delivered_again() -> None:
    history = moved(1, (1, 2, 3), bits=0b110)
    assert move_checkers.everything_comes_again(history) == []
    history.deliveries[-3] = history.deliveries[-3]._replace(left=0b100)
    assert len(move_checkers.everything_comes_again(history)) == 1


def test_the_messages_before_a_target_in_a_batch_are_not_delivered() -> None:
    history = moved(1, (1, 2, 3), bits=0b110)
    assert move_checkers.nothing_before_a_place_in_a_batch(history) == []
    history.deliveries[-3] = history.deliveries[-3]._replace(left=None)
    assert len(move_checkers.nothing_before_a_place_in_a_batch(history)) == 1


def test_deliveries_to_a_consumer_attached_before_the_move_do_not_count() -> None:
    history = moved(1, (1, 2, 3))
    history.deliveries[-1] = history.deliveries[-1]._replace(attached_at=9)
    assert len(move_checkers.everything_comes_again(history)) == 1


def test_messages_that_a_later_move_passes_over_need_no_delivery() -> None:
    history = moved(1, (3,))
    history.seeks.append(Sought(11, float("inf"), "s", Position(7, 3), None))
    assert move_checkers.everything_comes_again(history) == []
    history = moved(1, ())
    history.cleared.append(Cleared(12, 13, "s", Position(7, 3)))
    assert move_checkers.everything_comes_again(history) == []


def test_messages_that_the_topic_no_longer_had_need_no_delivery() -> None:
    history = moved(0, (3,))
    history.seeks[0] = history.seeks[0]._replace(first=Position(7, 3))
    assert move_checkers.everything_comes_again(history) == []


def test_an_unconfirmed_move_promises_nothing() -> None:
    history = moved(1, ())
    history.seeks[0] = history.seeks[0]._replace(done_at=float("inf"))
    assert move_checkers.everything_comes_again(history) == []


def chunked(second: str, stays: bool = True) -> History:
    """Return a history in which a message's first chunk is sent to "c" and the other to ``second``. Another message
    then goes to "c", or to "d" when "c" does not stay."""
    history = History(subscriptions={"s": "shared"})
    history.chunks = {("p", 0): ("u", 0, 2), ("p", 1): ("u", 1, 2)}
    order = [("c", 0), (second, 1), ("c" if stays else "d", 2)]
    for at, (consumer, n) in enumerate(order):
        history.deliveries.append(
            Delivery(at, "s", consumer, "p", n, Position(7, n), at, "b", attached_at=0)
        )
    return history


def test_chunks_of_a_message_are_sent_to_one_consumer() -> None:
    assert move_checkers.chunks_stay_together(chunked("c")) == []
    assert len(move_checkers.chunks_stay_together(chunked("d"))) == 1


def test_chunks_may_be_split_when_their_consumer_left_or_returned_one() -> None:
    assert move_checkers.chunks_stay_together(chunked("d", stays=False)) == []
    history = chunked("d")
    history.deliveries.append(history.deliveries[1])
    assert move_checkers.chunks_stay_together(history) == []
