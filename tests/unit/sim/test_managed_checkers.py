"""A correct history of managed ledgers has no findings; each violation is reported under the rule that it breaks."""

from collections.abc import Callable

import pytest

from engine.base.ids import Position
from tests.sim.managed import history as m
from tests.sim.managed.checkers import CHECKS

T, NEVER = "t", float("inf")
P = [Position(3, 0), Position(3, 1), Position(5, 0)]


def good() -> m.ManagedHistory:
    """Return a history in which owner a writes two entries and c1 acknowledges the first. Owner b acquires the topic,
    writes one entry and resets c1; all is read and acknowledged; ledger 3 is trimmed last."""
    none, first = frozenset[Position](), frozenset(P[:1])
    events: list[m.Event] = [
        m.Listed(0, T, (3,), ()),
        m.CursorOpened(0, 0, "a", T, "c1", Position(3, -1), none, none),
        m.Append(1, "a", T, ("a", 0)),
        m.Append(1, "a", T, ("a", 1)),
        m.Stored(2, "a", T, ("a", 0), P[0]),
        m.Stored(2, "a", T, ("a", 1), P[1]),
        m.Delivered(2, "a", T, "c1", P[0], ("a", 0)),
        m.AckAsked(3, "a", T, "c1", (P[0],)),
        m.AckStored(3, 4, "a", T, "c1"),
        m.Listed(5, T, (3, 5), (3,)),
        m.CursorOpened(5, 6, "b", T, "c1", P[0], first, frozenset(P[1:2])),
        m.Append(6, "b", T, ("b", 0)),
        m.Stored(7, "b", T, ("b", 0), P[2]),
        m.Reset(7, NEVER, "b", T, "c1", P[0]),
        m.Reset(7, 8, "b", T, "c1", P[0]),
        m.Delivered(8, "b", T, "c1", P[0], ("a", 0)),
        m.CursorOpened(9, 9, "c", T, "c1", Position(3, -1), none, frozenset(P)),
        m.AckAsked(10, "c", T, "c1", (), P[1]),
        m.Listed(11, T, (5,), ()),
        m.Kept(T, ((P[2], ("b", 0)),)),
    ]
    return m.ManagedHistory(("c1",), events)


def findings(history: m.ManagedHistory) -> list[str]:
    return [text for check in CHECKS.values() for text in check(history)]


def test_a_correct_history_has_no_findings() -> None:
    assert findings(good()) == []


def _at(history: m.ManagedHistory, kind: type[m.Event], number: int) -> int:
    return [i for i, event in enumerate(history.events) if isinstance(event, kind)][number]


def _change(history: m.ManagedHistory, kind: type[m.Event], number: int, **fields: object) -> None:
    at = _at(history, kind, number)
    history.events[at] = history.events[at]._replace(**fields)  # type: ignore[arg-type]


def _drop(history: m.ManagedHistory, kind: type[m.Event], number: int) -> None:
    history.events.pop(_at(history, kind, number))


def _add(history: m.ManagedHistory, kind: type[m.Event], number: int, event: m.Event) -> None:
    history.events.insert(_at(history, kind, number) + 1, event)


BAD: dict[str, tuple[str, Callable[[m.ManagedHistory], None]]] = {
    "confirmed before it was listed": ("M1", lambda x: _drop(x, m.Listed, 0)),
    "two open ledgers": ("M2", lambda x: _change(x, m.Listed, 1, closed=())),
    "a ledger id again": ("M3", lambda x: x.events.append(m.Listed(12, T, (4, 5), (4, 5)))),
    "a position given twice": ("M3", lambda x: _change(x, m.Stored, 1, position=P[0])),
    "out of order": (
        "M3",
        lambda x: (
            _change(x, m.Stored, 0, position=P[1]),
            _change(x, m.Stored, 1, position=P[0]),
        )[0],
    ),
    "before what was confirmed": (
        "M3",
        lambda x: _change(x, m.Stored, 2, position=Position(3, -1)),
    ),
    "confirmed and never appended": ("M3", lambda x: _drop(x, m.Append, 1)),
    "lost": ("M12", lambda x: _change(x, m.Kept, 0, entries=())),
    "another in its place": ("M12", lambda x: _change(x, m.Kept, 0, entries=((P[2], ("a", 1)),))),
    "stored twice": (
        "M12",
        lambda x: _change(x, m.Kept, 0, entries=((P[2], ("b", 0)), (Position(5, 1), ("b", 0)))),
    ),
    "read as another": ("M12", lambda x: _change(x, m.Delivered, 0, entry=("a", 1))),
    "a confirmed acknowledgement forgotten": (
        "M5",
        lambda x: _change(x, m.CursorOpened, 1, acked=frozenset(), unacked=frozenset(P[:2])),
    ),
    "given once acknowledged": (
        "M5",
        lambda x: _add(x, m.AckAsked, 0, m.Delivered(3, "a", T, "c1", P[0], ("a", 0))),
    ),
    "ahead of all acknowledgements": (
        "M10",
        lambda x: _change(x, m.CursorOpened, 1, acked=frozenset(P[:2]), unacked=frozenset()),
    ),
    "a reset undone": (
        "M9",
        lambda x: _change(x, m.CursorOpened, 2, acked=frozenset(P[:1]), unacked=frozenset(P[1:])),
    ),
    "trimmed too early": ("M8", lambda x: _change(x, m.AckAsked, 1, to=P[0])),
}


@pytest.mark.parametrize(("rule", "spoil"), BAD.values(), ids=BAD.keys())
def test_a_violation_names_the_broken_rule(
    rule: str, spoil: Callable[[m.ManagedHistory], None]
) -> None:
    history = good()
    spoil(history)
    assert rule in {text.split()[0] for text in findings(history)}
