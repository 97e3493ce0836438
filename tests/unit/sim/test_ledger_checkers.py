"""A correct history of ledgers has no findings; each violation is reported under the rule that it breaks."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment
from tests.sim.ledgers import history as h
from tests.sim.ledgers.checkers import CHECKS

BOOKIES = ("b1", "b2", "b3")
OPEN = LedgerMetadata(3, 3, 2, (Segment(0, BOOKIES),))
MOVED = OPEN.with_ensemble(2, ("b1", "b2", "b4"))
SUMS = (10, 11, 12, 13)


def good() -> h.LedgerHistory:
    """Return a history of two entries on b1 to b3 and two more with b4 instead of b3; recovered, read, and audited."""
    closed = MOVED.recovering().closed(3, 40)
    events: list[h.Event] = [
        h.Version(0, 7, OPEN, True),
        h.Created(0, "w", 7),
        h.Appended(1, "w", 7, 0, SUMS[:3]),
        h.Confirmed(2, "w", 7, 2),
        h.Durable(2, 7, 1, 2),
        h.Version(3, 7, MOVED, True),
        h.Appended(3, "w", 7, 3, SUMS[3:]),
        h.Opened(3, 3, "r", 7, False, False, 1),
        h.Confirmed(4, "w", 7, 4),
        h.LastSeen(4, 4, "r", 7, False, 3),
        h.Read(4, 4, "r", 7, 0, SUMS),
        h.Version(5, 7, MOVED.recovering(), True),
        h.Fence(5, "b1", 7, True),
        h.Failed(5, "w", 7, "fenced"),
        h.Version(6, 7, closed, True),
        h.Opened(5, 6, "q", 7, True, True, 3),
    ]
    for entry in range(4):
        ensemble = closed.bookies(entry)
        events += [h.Copy(b, 7, entry, SUMS[entry], entry - 1, 10) for b in ensemble[:2]]
        events.append(h.Copy(ensemble[2], 7, entry, None))
    return h.LedgerHistory((3, 3, 2), events=events, audited=True)


def findings(history: h.LedgerHistory) -> list[str]:
    return [text for check in CHECKS.values() for text in check(history)]


def test_a_correct_history_has_no_findings() -> None:
    assert findings(good()) == []


def test_a_lost_copy_is_no_finding_when_a_bookie_lost_its_disk() -> None:
    history = good()
    history.events = [e for e in history.events if not (isinstance(e, h.Copy) and e.bookie == "b1")]
    assert findings(history) != []
    history.lost = 1
    assert findings(history) == []


def test_a_deleted_ledger_may_be_denied_and_need_not_be_kept() -> None:
    history = good()
    history.events = [e for e in history.events if not isinstance(e, h.Copy)]
    history.events += [h.Deleted(7, 8, 7), h.Version(8, 7, None, True), h.Missing(8, 8, "q", 7, 2)]
    assert findings(history) == []


def _at(history: h.LedgerHistory, kind: type[h.Event], number: int = 0) -> int:
    return [i for i, event in enumerate(history.events) if isinstance(event, kind)][number]


def _change(history: h.LedgerHistory, kind: type[h.Event], number: int, **fields: object) -> None:
    at = _at(history, kind, number)
    history.events[at] = history.events[at]._replace(**fields)  # type: ignore[arg-type]


def _version(history: h.LedgerHistory, number: int, metadata: LedgerMetadata | None) -> None:
    _change(history, h.Version, number, metadata=metadata)


def _insert(history: h.LedgerHistory, kind: type[h.Event], number: int, event: h.Event) -> None:
    history.events.insert(_at(history, kind, number) + 1, event)


CLOSED = MOVED.recovering().closed(3, 40)
BAD: dict[str, tuple[str, Callable[[h.LedgerHistory], None]]] = {
    "confirmed twice": (
        "C1",
        lambda x: _insert(x, h.Confirmed, 0, h.Confirmed(2, "w", 7, 2)),
    ),
    "confirmed and never appended": ("C1", lambda x: _change(x, h.Confirmed, 1, below=9)),
    "confirmed with too few copies": ("C1", lambda x: _change(x, h.Durable, 0, copies=1)),
    "confirmed after the failure": (
        "C6",
        lambda x: x.events.append(x.events.pop(_at(x, h.Confirmed, 1))),
    ),
    "confirmed to somebody else": ("C8", lambda x: _change(x, h.Confirmed, 0, who="v")),
    "a ledger id given twice": ("C6", lambda x: x.events.insert(2, h.Created(1, "v", 7))),
    "a handle goes back": (
        "C2",
        lambda x: _insert(x, h.LastSeen, 0, h.LastSeen(5, 5, "r", 7, False, 2)),
    ),
    "closed before a confirmed entry": (
        "C3",
        lambda x: _version(x, 3, MOVED.recovering().closed(2, 30)),
    ),
    "closed before what a reader saw": (
        "C3",
        lambda x: _change(x, h.LastSeen, 0, last=4),
    ),
    "an old segment changed": (
        "C5",
        lambda x: _version(
            x, 3, replace(CLOSED, segments=(Segment(0, ("b1", "b2", "b9")), CLOSED.segments[1]))
        ),
    ),
    "a segment gone": ("C5", lambda x: _version(x, 3, replace(CLOSED, segments=OPEN.segments))),
    "a change from the wrong entry": (
        "C7",
        lambda x: _version(x, 1, OPEN.with_ensemble(1, ("b1", "b2", "b4"))),
    ),
    "a bookie twice": (
        "C7",
        lambda x: _version(
            x, 1, replace(MOVED, segments=(OPEN.segments[0], Segment(2, ("b1", "b1", "b4"))))
        ),
    ),
    "segments out of order": (
        "C7",
        lambda x: _version(
            x, 1, replace(MOVED, segments=(OPEN.segments[0], Segment(0, ("b1", "b2", "b4"))))
        ),
    ),
    "not by compare-and-set": ("C6", lambda x: _change(x, h.Version, 2, conditional=False)),
    "opened again": (
        "C6",
        lambda x: _insert(x, h.Version, 2, h.Version(5.5, 7, MOVED, True)),
    ),
    "back from deletion": (
        "C6",
        lambda x: _insert(x, h.Version, 2, h.Version(5.5, 7, None, True)),
    ),
    "closed twice": (
        "C8",
        lambda x: x.events.append(
            h.Version(7, 7, replace(CLOSED, last_entry=4, state=LedgerState.CLOSED), True)
        ),
    ),
    "two ends": ("C8", lambda x: x.events.append(h.Closed(6, "w", 7, 2))),
    "a confirmed entry denied": ("C9", lambda x: x.events.append(h.Missing(6, 6, "q", 7, 1))),
    "another's bytes": ("M12", lambda x: _change(x, h.Read, 0, sums=(10, 12, 11, 13))),
    "a replica with other bytes": ("M12", lambda x: _change(x, h.Copy, 4, checksum=99)),
    "a fence gone": ("B5", lambda x: x.events.append(h.Fence(6, "b1", 7, False))),
    "too few replicas": ("C4", lambda x: _change(x, h.Copy, 9, checksum=None)),
    "replicas elsewhere": ("C4", lambda x: _change(x, h.Copy, 9, bookie="b3")),
    "more confirmed in a copy than ever was": ("B12", lambda x: _change(x, h.Copy, 9, lac=4)),
}


@pytest.mark.parametrize(("rule", "spoil"), BAD.values(), ids=BAD.keys())
def test_a_violation_names_the_broken_rule(
    rule: str, spoil: Callable[[h.LedgerHistory], None]
) -> None:
    history = good()
    spoil(history)
    assert rule in {text.split()[0] for text in findings(history)}
