"""Checks of a history of managed ledgers against rules M1 to M12 (docs/formats/managed-ledger.md). Pure.

Each check returns its violations, in words, beginning with the rule's name.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from engine.base.ids import EARLIEST, Position
from tests.sim.managed import history as m

T = TypeVar("T")


def _of(history: m.ManagedHistory, kind: type[T]) -> Iterable[T]:
    return (event for event in history.events if isinstance(event, kind))


def listed_before_confirmed(history: m.ManagedHistory) -> list[str]:
    """Check that a ledger is in the topic's stored list before an entry in it is confirmed (M1)."""
    listed: dict[str, set[int]] = {}
    violations = []
    for event in history.events:
        if isinstance(event, m.Listed):
            listed.setdefault(event.topic, set()).update(event.ledgers)
        elif isinstance(event, m.Stored):
            known = event.position.ledger_id in listed.get(event.topic, set())
            if not known:
                violations.append(
                    f"M1 {event.topic}: {event.position} was confirmed, its ledger unknown"
                )
    return violations


def one_open_ledger(history: m.ManagedHistory) -> list[str]:
    """Check that a ledger enters the list once, when all before it are closed, with an id above theirs (M2, M3)."""
    violations = []
    lists: dict[str, tuple[int, ...]] = {}
    highest: dict[str, int] = {}
    for event in _of(history, m.Listed):
        before = lists.get(event.topic, ())
        new = [ledger for ledger in event.ledgers if ledger not in before]
        for ledger in new:
            if ledger <= highest.get(event.topic, -1):
                violations.append(f"M3 {event.topic}: ledger {ledger} after {highest[event.topic]}")
            highest[event.topic] = max(highest.get(event.topic, -1), ledger)
        if new:
            still = [n for n in event.ledgers if n not in new and n not in event.closed]
            if still or len(new) > 1:
                violations.append(f"M2 {event.topic}: {new} opened while {still} is not closed")
        if list(event.ledgers) != sorted(event.ledgers):
            violations.append(f"M3 {event.topic}: ledgers in order {event.ledgers}")
        lists[event.topic] = event.ledgers
    return violations


def positions_rise(history: m.ManagedHistory) -> list[str]:
    """Check that a position holds one entry, and that an entry appended after a confirmation is stored behind it,
    whichever object appended it (M3)."""
    violations = []
    holder: dict[tuple[str, Position], m.Entry] = {}
    highest: dict[str, Position] = {}
    floor: dict[tuple[str, m.Entry], Position] = {}
    last: dict[str, Position] = {}
    for event in history.events:
        if isinstance(event, m.Append):
            floor[event.topic, event.entry] = highest.get(event.topic, EARLIEST)
        elif isinstance(event, m.Stored):
            first = holder.setdefault((event.topic, event.position), event.entry)
            if first != event.entry:
                violations.append(
                    f"M3 {event.topic}: {event.position} holds {first} and {event.entry}"
                )
            before = floor.get((event.topic, event.entry))
            if before is None:
                violations.append(f"M3 {event.topic}: {event.entry} was confirmed, never appended")
            elif event.position <= before:
                violations.append(
                    f"M3 {event.topic}: {event.entry} is at {event.position},"
                    f" appended after {before} was confirmed"
                )
            if event.position <= last.get(event.owner, EARLIEST):
                violations.append(f"M3 {event.owner}: {event.position} after {last[event.owner]}")
            last[event.owner] = event.position
            highest[event.topic] = max(highest.get(event.topic, EARLIEST), event.position)
    return violations


def everything_is_kept(history: m.ManagedHistory) -> list[str]:
    """Check that every confirmed entry is in the topic at the end, at its position and unchanged, or in a trimmed
    ledger (C3, M8, M12)."""
    violations = []
    stored = list(_of(history, m.Stored))
    appended = {(event.topic, event.entry) for event in _of(history, m.Append)}
    lists = {event.topic: event.ledgers for event in _of(history, m.Listed)}
    last = {kept.topic: kept for kept in _of(history, m.Kept)}
    for kept in last.values():
        there = dict(kept.entries)
        violations += [
            f"M12 {kept.topic}: {event.entry} at {event.position} is lost, or became {there.get(event.position)}"
            for event in stored
            if event.topic == kept.topic
            and event.position.ledger_id in lists.get(kept.topic, ())
            and there.get(event.position) != event.entry
        ]
        seen: dict[m.Entry, Position] = {}
        for position, entry in kept.entries:
            if (kept.topic, entry) not in appended:
                violations.append(
                    f"M12 {kept.topic}: {position} holds {entry}, which was never appended"
                )
            elif entry in seen:
                violations.append(f"M12 {kept.topic}: {entry} at {seen[entry]} and at {position}")
            seen[entry] = position
    return violations


def read_as_written(history: m.ManagedHistory) -> list[str]:
    """Check that a cursor reads at a position the entry that was confirmed there (M12)."""
    holder = {(event.topic, event.position): event.entry for event in _of(history, m.Stored)}
    return [
        f"M12 {e.topic}/{e.cursor}: {e.position} gave {e.entry} instead of {holder[e.topic, e.position]}"
        for e in _of(history, m.Delivered)
        if holder.get((e.topic, e.position), e.entry) != e.entry
    ]


class _Acks:
    """Acknowledgements and resets of one cursor, filled in the order of events."""

    def __init__(self) -> None:
        self.asked: dict[Position, float] = {}
        """Time of the latest request by position."""
        self.first_asked: dict[tuple[str, Position], float] = {}
        """Time of the first request by owner and position, since the owner's latest reset."""
        self.stored: dict[Position, tuple[float, float]] = {}
        """Time of the request that is known to be durable, and time since which it is known, by position."""
        self.resets: list[m.Reset] = []

    def ask(self, event: m.AckAsked, known: list[Position]) -> None:
        positions = list(event.positions)
        if event.to is not None:
            positions += [p for p in known if p <= event.to]
        for position in positions:
            self.asked[position] = event.at
            self.first_asked.setdefault((event.owner, position), event.at)

    def store(self, event: m.AckStored) -> None:
        for (owner, position), at in self.first_asked.items():
            if owner == event.owner and at <= event.since:
                before = self.stored.get(position)
                if before is None or before[0] < at:
                    self.stored[position] = (at, event.at)

    def reset(self, event: m.Reset, known: list[Position]) -> None:
        """Forget acknowledgements at ``to`` or behind it, and acknowledge all positions before it."""
        begun = (event.owner, event.since)
        self.resets = [r for r in self.resets if (r.owner, r.since) != begun]
        self.resets.append(event)
        for key in [k for k in self.first_asked if k[0] == event.owner and k[1] >= event.to]:
            del self.first_asked[key]
        for position in known:
            if position < event.to:
                self.asked[position] = max(self.asked.get(position, event.since), event.since)
                self.first_asked.setdefault((event.owner, position), event.since)

    def surely_acked(self, position: Position, since: float) -> bool:
        """Return whether an object opened from ``since`` on must have ``position`` as acknowledged."""
        asked, known = self.stored.get(position, (0.0, float("inf")))
        return known <= since and not any(r.at >= asked and position >= r.to for r in self.resets)

    def broken_by(self, position: Position, since: float) -> str:
        """Return the rule that an object opened from ``since`` on breaks if it has ``position`` as acknowledged; ""
        when it breaks none."""
        asked = self.asked.get(position)
        if asked is None:
            return "M10"
        undone = any(r.at <= since and r.since > asked and position >= r.to for r in self.resets)
        return "M9" if undone else ""


def acknowledgements_hold(history: m.ManagedHistory) -> list[str]:
    """Check that a new owner's cursors have all confirmed acknowledgements and no others, and that a cursor reads no
    entry that was acknowledged on it (M4, M5, M9, M10)."""
    violations = []
    acks: dict[tuple[str, str], _Acks] = {}
    known: dict[str, list[Position]] = {}
    for event in history.events:
        if isinstance(event, m.Stored):
            known.setdefault(event.topic, []).append(event.position)
        if not isinstance(event, m.AckAsked | m.AckStored | m.Reset | m.CursorOpened | m.Delivered):
            continue
        of = acks.setdefault((event.topic, event.cursor), _Acks())
        name = f"{event.topic}/{event.cursor}"
        match event:
            case m.AckAsked():
                of.ask(event, known.get(event.topic, []))
            case m.AckStored():
                of.store(event)
            case m.Reset():
                of.reset(event, known.get(event.topic, []))
            case m.Delivered():
                if (event.owner, event.position) in of.first_asked:
                    violations.append(
                        f"M5 {name}: {event.owner} gave {event.position} once acknowledged"
                    )
            case m.CursorOpened():
                violations += [
                    f"M5 {name}: {p} was acknowledged for good, {event.owner} does not know it"
                    for p in sorted(event.unacked)
                    if of.surely_acked(p, event.since)
                ]
                violations += [
                    f"{rule} {name}: {event.owner} has {p} as acknowledged, which was never requested or was undone"
                    for p in sorted(event.acked)
                    if (rule := of.broken_by(p, event.since))
                ]
    return violations


def trimmed_when_consumed(history: m.ManagedHistory) -> list[str]:
    """Check that every cursor had acknowledged all confirmed entries of a ledger when it leaves the list (M8)."""
    violations = []
    lists: dict[str, tuple[int, ...]] = {}
    asked: dict[tuple[str, str], set[Position]] = {}
    known: dict[str, list[Position]] = {}
    for event in history.events:
        match event:
            case m.Stored():
                known.setdefault(event.topic, []).append(event.position)
            case m.AckAsked():
                of = asked.setdefault((event.topic, event.cursor), set())
                of.update(event.positions)
                if event.to is not None:
                    of.update(p for p in known.get(event.topic, []) if p <= event.to)
            case m.Reset():
                of = asked.setdefault((event.topic, event.cursor), set())
                of.update(p for p in known.get(event.topic, []) if p < event.to)
            case m.Listed():
                gone = set(lists.get(event.topic, ())) - set(event.ledgers)
                lists[event.topic] = event.ledgers
                for cursor in history.cursors if gone else ():
                    of = asked.get((event.topic, cursor), set())
                    violations += [
                        f"M8 {event.topic}: {p} was trimmed, {cursor} had not acknowledged it"
                        for p in known.get(event.topic, [])
                        if p.ledger_id in gone and p not in of
                    ]
    return violations


def nothing_anomalous(history: m.ManagedHistory) -> list[str]:
    """Return what clients and observers noted at the time."""
    return list(history.anomalies)


CHECKS: dict[str, Callable[[m.ManagedHistory], list[str]]] = {
    check.__name__: check
    for check in (
        *(listed_before_confirmed, one_open_ledger, positions_rise, everything_is_kept),
        *(read_as_written, acknowledgements_hold, trimmed_when_consumed, nothing_anomalous),
    )
}
