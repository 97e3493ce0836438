"""Checkers report each kind of violation, and nothing for a correct history."""

import pytest

from engine.base.ids import Position
from tests.sim.topics import checkers
from tests.sim.topics.history import (
    AckConfirmed,
    Cleared,
    Delivery,
    History,
    PartConfirmed,
    Receipt,
    Sent,
    Sought,
)


def good() -> History:
    history = History(subscriptions={"e": "exclusive"})
    for n in range(3):
        history.sent.append(Sent(n, "p", n))
        history.receipts.append(Receipt(n + 0.1, "p", n, Position(7, n)))
        history.deliveries.append(Delivery(n + 0.2, "e", "c", "p", n, Position(7, n)))
        history.acks_sent.add(("e", Position(7, n)))
        history.acks.append(AckConfirmed(n + 0.3, "e", "p", n, Position(7, n)))
    return history


def findings(history: History) -> dict[str, list[str]]:
    checks = {**checkers.SAFETY, **checkers.LIVENESS}
    return {name: texts for name, check in checks.items() if (texts := check(history))}


def test_a_correct_history_has_no_findings() -> None:
    assert findings(good()) == {}


def lost(history: History) -> None:
    history.deliveries.pop()
    history.acks.pop()


def phantom(history: History) -> None:
    history.deliveries.append(Delivery(9, "e", "c", "p", 99, Position(7, 99)))


def swapped_receipts(history: History) -> None:
    history.receipts[1], history.receipts[2] = history.receipts[2], history.receipts[1]


def reused_position(history: History) -> None:
    history.sent.append(Sent(4, "q", 0))
    history.receipts.append(Receipt(4, "q", 0, Position(7, 1)))
    history.deliveries.append(Delivery(4.1, "e", "c", "q", 0, Position(7, 1)))


def out_of_order(history: History) -> None:
    history.deliveries[1], history.deliveries[2] = history.deliveries[2], history.deliveries[1]
    history.acks.clear()


def acknowledged_again(history: History) -> None:
    history.deliveries.append(Delivery(9, "e", "c", "p", 0, Position(7, 0)))


def forgotten(history: History) -> None:
    history.acks_sent.clear()


def two_writers(history: History) -> None:
    history.receipts[2] = history.receipts[2]._replace(broker="b2")


def backwards(history: History) -> None:
    history.sent.append(Sent(4, "p", 3))
    history.deliveries[2] = history.deliveries[2]._replace(number=3)
    history.deliveries.append(Delivery(4.1, "e", "c", "p", 2, Position(7, 4)))
    history.acks.clear()


def part_again(history: History) -> None:
    """Confirm the acknowledgement of the first of three batched messages, and deliver that message again."""
    history.parts.append(PartConfirmed(0.25, "e", Position(7, 0), 0b001, "b", 0))
    history.deliveries.append(
        Delivery(0.3, "e", "c", "p", 0, Position(7, 0), broker="b", attached_at=0, left=0b011)
    )
    history.acks.clear()


def cleared_again(history: History) -> None:
    history.cleared.append(Cleared(1, 1, "e", Position(7, 1)))
    history.deliveries[1] = history.deliveries[1]._replace(attached_at=1.05)


@pytest.mark.parametrize(
    ("spoil", "finder"),
    [
        (lost, "everything_confirmed_is_delivered"),
        (phantom, "no_phantoms"),
        (swapped_receipts, "receipts_in_order"),
        (reused_position, "one_message_per_position"),
        (out_of_order, "first_deliveries_in_order"),
        (acknowledged_again, "confirmed_acks_hold"),
        (forgotten, "delivered_until_acknowledged"),
        (two_writers, "one_writer_per_ledger"),
        (backwards, "producers_in_order"),
        (part_again, "confirmed_parts_hold"),
        (cleared_again, "cleared_stays_cleared"),
    ],
)
def test_each_fault_is_found_by_its_checker(spoil, finder: str) -> None:  # type: ignore[no-untyped-def]
    history = good()
    spoil(history)
    assert finder in findings(history)


def test_unacknowledged_messages_of_a_batch_may_be_delivered_again() -> None:
    history = good()
    part_again(history)
    history.deliveries[-1] = history.deliveries[-1]._replace(left=0b110)
    assert "confirmed_parts_hold" not in findings(history)


def brought_back(
    cleared_at: float = 0.5, sought_to: int = 0, order: tuple[int, int] = (1, 2)
) -> History:
    """Return a history in which two of five messages are cleared undelivered, the last is delivered, and a seek goes
    back to the cleared ones."""
    history = History(subscriptions={"e": "exclusive"})
    history.cleared.append(Cleared(cleared_at, cleared_at, "e", Position(7, 2)))
    history.seeks.append(Sought(2, 2.1, "e", Position(7, sought_to)))
    for at, n in ((0, 0), (1, 4), (3, order[0]), (3.1, order[1]), (3.2, 4)):
        history.deliveries.append(Delivery(at, "e", "c", "p", n, Position(7, n)))
    return history


def test_a_message_sent_again_behind_its_skipped_copy_may_arrive_late() -> None:
    history = History(subscriptions={"e": "exclusive"})
    history.cleared.append(Cleared(0.5, 0.6, "e", Position(7, 1)))  # with the first copy of 1
    for at, n, entry in ((1, 2, 2), (2, 1, 3), (3, 2, 4)):
        history.deliveries.append(Delivery(at, "e", "c", "p", n, Position(7, entry)))
    assert checkers.producers_in_order(history) == []
    history.cleared.clear()
    assert len(checkers.producers_in_order(history)) == 1


IN_ORDER = (checkers.first_deliveries_in_order, checkers.producers_in_order)


@pytest.mark.parametrize("check", IN_ORDER)
def test_messages_cleared_undelivered_may_arrive_late_after_a_seek(check) -> None:  # type: ignore[no-untyped-def]
    assert check(brought_back()) == []


@pytest.mark.parametrize("check", IN_ORDER)
@pytest.mark.parametrize(
    ("history", "late"),
    [
        (brought_back(cleared_at=1.5), 2),  # passed over before they were cleared
        (brought_back(sought_to=2), 1),  # the seek went back to the second only
        (brought_back(order=(2, 1)), 1),
        (brought_back(order=(3, 3)), 1),  # not cleared
    ],
)
def test_no_other_message_may_arrive_late(check, history: History, late: int) -> None:  # type: ignore[no-untyped-def]
    assert len(check(history)) == late


@pytest.mark.parametrize("check", IN_ORDER)
@pytest.mark.parametrize(("done_at", "late"), [(float("inf"), 0), (3.5, 0), (2.9, 2)])
def test_cleared_messages_may_arrive_late_until_the_clearing_is_confirmed(  # type: ignore[no-untyped-def]
    check, done_at: float, late: int
) -> None:
    history = brought_back()
    history.seeks.clear()
    history.cleared[0] = history.cleared[0]._replace(done_at=done_at)
    assert len(check(history)) == late
