"""Unanswered messages of a socket: known by id, counted by delivery, bounded in number."""

import pytest

from engine.base.ids import Position
from engine.client.consuming.incoming import Given
from gateway.ws import window
from gateway.ws.window import Window


def given(number: int) -> Given:
    return Given(None, Position(1, number), None, -1, None)


def test_an_answer_is_for_all_deliveries_of_its_message() -> None:
    made = Window()
    made.delivered("a", given(1))
    made.delivered("b", given(2))
    made.delivered("a", given(3))
    assert made.answered("a") == (given(3), 2)
    assert made.answered("a") is None
    assert made.answered("b") == (given(2), 1)


def test_the_oldest_deliveries_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "OUT_MAX", 2)
    made = Window()
    for number, name in enumerate("abc"):
        made.delivered(name, given(number))
    assert made.answered("a") is None
    assert made.answered("c") == (given(2), 1)
