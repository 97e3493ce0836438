"""The checker of what clients of a migrated topic receive: what it accepts, and the violation that it reports."""

from types import SimpleNamespace
from typing import Any

from tests.sim.migrating.travellers import missed, out_of_order


def test_messages_that_come_again_are_in_order() -> None:
    assert out_of_order("r", [("a", 0), ("b", 0), ("a", 1), ("b", 4), ("a", 2)]) == []


def test_a_message_that_comes_late_is_reported() -> None:
    wrong = ["G5: r received a 1 after 2"]
    assert out_of_order("r", [("a", 0), ("a", 2), ("a", 1), ("b", 0)]) == wrong


def test_confirmed_messages_that_are_not_received_are_missed() -> None:
    reader: Any = SimpleNamespace(seen={("a", 0): None, ("b", 1): None})
    writers: Any = [
        SimpleNamespace(name="a", confirmed=1),
        SimpleNamespace(name="b", confirmed=3),
        SimpleNamespace(name="c", confirmed=0),
    ]
    assert missed(reader, writers) == [("b", 0), ("b", 2)]
