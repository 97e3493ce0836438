"""The check of what is confirmed while a configuration store is away."""

from engine.base.ids import Position
from tests.sim.topics.away import RECEIPT_S, Window, late_receipts
from tests.sim.topics.history import History, Receipt, Sent

TOPIC = "persistent://public/default/t0"
WINDOWS = [Window(10.0, 20.0, frozenset({TOPIC}))]


def history(*receipts: tuple[int, float]) -> History:
    """Return a history of two messages sent in the window and one sent shortly before its end."""
    sent = [Sent(11.0, "p", 0), Sent(12.0, "p", 1), Sent(20.0 - RECEIPT_S / 2, "p", 2)]
    confirmed = [Receipt(at, "p", number, Position(1, number)) for number, at in receipts]
    return History(sent=sent, receipts=confirmed, topics={"p": TOPIC})


def test_messages_that_are_confirmed_at_once_are_no_violation() -> None:
    assert late_receipts(history((0, 11.1), (1, 12.1)), WINDOWS) == []


def test_a_message_without_a_receipt_in_time_is_a_violation() -> None:
    (text,) = late_receipts(history((0, 11.1), (1, 12.1 + RECEIPT_S)), WINDOWS)
    assert text.startswith("p 1 sent at 12.000")


def test_topics_that_were_not_served_before_are_no_violation() -> None:
    assert late_receipts(history(), [Window(10.0, 20.0, frozenset())]) == []
