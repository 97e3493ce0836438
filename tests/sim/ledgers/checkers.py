"""Checks of a history of ledgers against rules C1 to C9 (docs/simulator.md), B5, B12 (docs/invariants.md) and M12.
Pure.

Each check returns its violations, in words, beginning with the rule's name. All hold for any history, whatever faults
struck, as long as not more than AQ - 1 bookies lost data; only ``copies_suffice`` needs the audit at the end.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.quorum import write_set
from tests.sim.ledgers import history as h

T = TypeVar("T")


def _of(history: h.LedgerHistory, kind: type[T]) -> Iterable[T]:
    return (event for event in history.events if isinstance(event, kind))


def _sums(history: h.LedgerHistory) -> dict[tuple[int, int], int]:
    return {
        (run.ledger, run.first + i): checksum
        for run in _of(history, h.Appended)
        for i, checksum in enumerate(run.sums)
    }


def _confirmed(history: h.LedgerHistory) -> dict[int, int]:
    """Return, by ledger, the first entry that was never confirmed."""
    below: dict[int, int] = {}
    for event in _of(history, h.Confirmed):
        below[event.ledger] = max(below.get(event.ledger, 0), event.below)
    return below


def _final(history: h.LedgerHistory) -> dict[int, LedgerMetadata | None]:
    return {event.ledger: event.metadata for event in _of(history, h.Version)}


def confirmed_in_order(history: h.LedgerHistory) -> list[str]:
    """Check that confirmations rise, cover appended entries only, reach the ledger's writer, and end with its failure
    (C1, C6)."""
    violations = []
    writer: dict[int, str] = {}
    appended: dict[int, int] = {}
    below: dict[int, int] = {}
    failed: dict[int, float] = {}
    for event in history.events:
        match event:
            case h.Created():
                first = writer.setdefault(event.ledger, event.who)
                if first != event.who:
                    violations.append(
                        f"C6 ledger {event.ledger} was created by {first} and {event.who}"
                    )
            case h.Appended():
                if event.first != appended.get(event.ledger, 0):
                    violations.append(f"C1 ledger {event.ledger}: a run begins at {event.first}")
                appended[event.ledger] = event.first + len(event.sums)
            case h.Failed():
                failed.setdefault(event.ledger, event.at)
            case h.Confirmed():
                text = f"ledger {event.ledger}: confirmed below {event.below}"
                if event.below <= below.get(event.ledger, 0):
                    violations.append(f"C1 {text} after {below[event.ledger]}")
                if event.below > appended.get(event.ledger, 0):
                    violations.append(f"C1 {text}, appended {appended.get(event.ledger, 0)}")
                if event.ledger in failed:
                    violations.append(f"C6 {text} after its writer had failed")
                if writer.get(event.ledger) != event.who:
                    violations.append(f"C8 {text} to {event.who}, who is not its writer")
                below[event.ledger] = max(below.get(event.ledger, 0), event.below)
    return violations


def confirmed_is_durable(history: h.LedgerHistory) -> list[str]:
    """Check that an ack quorum of disks holds each entry synced when it is confirmed (B1, C1)."""
    needed = history.quorum[2] - history.lost
    return [
        f"C1 ledger {e.ledger}: entry {e.entry} was confirmed with {e.copies} synced copies of {needed}"
        for e in _of(history, h.Durable)
        if e.copies < needed
    ]


def nothing_is_cut_off(history: h.LedgerHistory) -> list[str]:
    """Check that a closed ledger ends at or behind every entry that was confirmed, read, or seen as last confirmed
    (C3)."""
    highest: dict[int, tuple[int, str]] = {}

    def note(ledger: int, entry: int, how: str) -> None:
        if entry > highest.get(ledger, (-1, ""))[0]:
            highest[ledger] = (entry, how)

    for event in history.events:
        match event:
            case h.Confirmed():
                note(event.ledger, event.below - 1, "confirmed")
            case h.Closed() | h.Opened():
                note(event.ledger, event.last, "the end reported to an opener or its writer")
            case h.LastSeen():
                note(event.ledger, event.last, "seen as last confirmed by a reader")
            case h.Read():
                note(event.ledger, event.first + len(event.sums) - 1, "read")
    violations = []
    for ledger, metadata in _final(history).items():
        entry, how = highest.get(ledger, (-1, ""))
        closed = metadata is not None and metadata.state is LedgerState.CLOSED
        if metadata is not None and closed and metadata.last_entry < entry:
            violations.append(
                f"C3 ledger {ledger} ends at {metadata.last_entry}, but {entry} was {how}"
            )
    return violations


def handles_rise(history: h.LedgerHistory) -> list[str]:
    """Check that the last confirmed entry that a handle returns never falls (C2)."""
    violations = []
    last: dict[str, int] = {}
    for event in history.events:
        if isinstance(event, h.Opened | h.LastSeen):
            if event.last < last.get(event.handle, -1):
                violations.append(
                    f"C2 {event.handle}: last confirmed {event.last} after {last[event.handle]}"
                )
            last[event.handle] = max(last.get(event.handle, -1), event.last)
    return violations


def metadata_moves_forward(history: h.LedgerHistory) -> list[str]:
    """Check that each version of a ledger's metadata may follow the one before it (C5, C6, C7, C8)."""
    violations: list[str] = []
    stored: dict[int, LedgerMetadata | None] = {}
    below: dict[int, int] = {}  # of ledgers whose creation is in the history
    for event in history.events:
        if isinstance(event, h.Created):
            below[event.ledger] = 0
        if isinstance(event, h.Confirmed):
            below[event.ledger] = event.below
        if not isinstance(event, h.Version):
            continue
        new = event.metadata
        if event.ledger not in stored:
            stored[event.ledger] = new
            continue
        old = stored[event.ledger]
        stored[event.ledger] = new
        if new is None or old is None:
            if new is not None:
                violations.append(f"C6 ledger {event.ledger} came back after its deletion")
            continue
        name = f"ledger {event.ledger}"
        if not event.conditional:
            violations.append(f"C6 {name}: metadata was written without compare-and-set")
        if new.state < old.state:
            violations.append(f"C6 {name} went from {old.state.name} back to {new.state.name}")
        if history.repaired:
            old = _repaired(old, new)
        if old.state is LedgerState.CLOSED and new != old:
            violations.append(f"C8 {name} was changed after it was closed at {old.last_entry}")
        violations += _segments(name, old, new, below.get(event.ledger))
    return violations


def _repaired(old: LedgerMetadata, new: LedgerMetadata) -> LedgerMetadata:
    """Return ``old`` with the members that a repair gave its settled segments."""
    settled = len(old.segments) - (old.state is not LedgerState.CLOSED)
    now = {segment.first: segment for segment in new.segments}
    segments = [now.get(segment.first, segment) for segment in old.segments[:settled]]
    return replace(old, segments=(*segments, *old.segments[settled:]))


def _segments(name: str, old: LedgerMetadata, new: LedgerMetadata, below: int | None) -> list[str]:
    violations = []
    kept, last = old.segments[:-1], old.segments[-1]
    if new.segments[: len(kept)] != kept or len(new.segments) <= len(kept):
        return [f"C5 {name}: segments before the last were changed"]
    if new.segments[len(kept)].first != last.first:
        violations.append(f"C5 {name}: the segment at {last.first} begins elsewhere")
    firsts = [segment.first for segment in new.segments]
    if firsts != sorted(set(firsts)):
        violations.append(f"C7 {name}: segments begin at {firsts}")
    violations += [
        f"C7 {name}: ensemble {segment.bookies}"
        for segment in new.segments
        if len(set(segment.bookies)) != new.ensemble_size
    ]
    first = new.segments[-1].first
    moved = new.segments != old.segments and new.state is LedgerState.OPEN
    if moved and below is not None and first != below:
        violations.append(
            f"C7 {name}: its writer changed the ensemble from {first} on, confirmed below {below}"
        )
    return violations


def one_end(history: h.LedgerHistory) -> list[str]:
    """Check that metadata, openers and writers report the same end of a closed ledger (C8)."""
    violations = []
    ends: dict[int, tuple[int, str]] = {}

    def note_end(ledger: int, last: int, who: str) -> None:
        end, first = ends.setdefault(ledger, (last, who))
        if end != last:
            violations.append(f"C8 ledger {ledger} ends at {end} for {first}, at {last} for {who}")

    for event in history.events:
        match event:
            case h.Version() if event.metadata and event.metadata.state is LedgerState.CLOSED:
                note_end(event.ledger, event.metadata.last_entry, "metadata")
            case h.Opened() | h.LastSeen() if event.closed:
                note_end(event.ledger, event.last, event.handle)
            case h.Closed():
                note_end(event.ledger, event.last, event.who)
    return violations


def confirmed_is_readable(history: h.LedgerHistory) -> list[str]:
    """Check that no reader is denied an entry that it believed confirmed, unless the ledger was deleted (C9, B4)."""
    deleted = {event.ledger for event in _of(history, h.Deleted)}
    return [
        f"C9 ledger {e.ledger}: entry {e.entry} was denied to {e.handle} at {e.at:.3f}"
        for e in _of(history, h.Missing)
        if e.ledger not in deleted
    ]


def read_as_written(history: h.LedgerHistory) -> list[str]:
    """Check that an entry reads as it was appended, at every replica (M12, B3)."""
    sums = _sums(history)
    violations = []
    for event in history.events:
        read: list[tuple[int, int | None]] = []
        who = ""
        if isinstance(event, h.Read):
            read, who = list(enumerate(event.sums, event.first)), event.handle
        elif isinstance(event, h.Copy) and event.checksum is not None:
            read, who = [(event.entry, event.checksum)], event.bookie
        for entry, checksum in read:
            if sums.get((event.ledger, entry)) != checksum:
                violations.append(
                    f"M12 ledger {event.ledger}: entry {entry} is not what was written, for {who}"
                )
    return violations


def fences_stay(history: h.LedgerHistory) -> list[str]:
    """Check that a ledger once fenced durably at a bookie stays so while the bookie knows of it (B5)."""
    violations = []
    fenced: dict[tuple[str, int], float] = {}
    for event in _of(history, h.Fence):
        key = (event.bookie, event.ledger)
        if event.fenced:
            fenced.setdefault(key, event.at)
        elif key in fenced:
            violations.append(
                f"B5 {event.bookie} had fenced ledger {event.ledger} at {fenced[key]:.3f}, not so at {event.at:.3f}"
            )
            del fenced[key]
    return violations


def copies_suffice(history: h.LedgerHistory) -> list[str]:
    """Check that at the end each entry of a closed ledger lies on an ack quorum of the bookies that metadata names, but
    for what was lost (C1, C4, C7), and that no copy's header has a last confirmed entry that was not (B12)."""
    if not history.audited:
        return []
    violations = []
    copies: dict[tuple[int, int], dict[str, h.Copy]] = {}
    for copy in _of(history, h.Copy):
        if copy.checksum is not None:
            copies.setdefault((copy.ledger, copy.entry), {})[copy.bookie] = copy
    below = _confirmed(history)
    deleted = {event.ledger for event in _of(history, h.Deleted)}
    for ledger, metadata in _final(history).items():
        if metadata is None or metadata.state is not LedgerState.CLOSED or ledger in deleted:
            continue
        needed = metadata.write_quorum if history.repaired else metadata.ack_quorum - history.lost
        for entry in range(metadata.last_entry + 1):
            ensemble = metadata.bookies(entry)
            positions = write_set(entry, metadata.ensemble_size, metadata.write_quorum)
            there = copies.get((ledger, entry), {})
            held = [ensemble[p] for p in positions if ensemble[p] in there]
            if len(held) < needed:
                violations.append(
                    f"C4 ledger {ledger}: entry {entry} has {len(held)} copies of {needed}"
                )
        for (number, entry), there in copies.items():
            if number != ledger:
                continue
            violations += [
                f"B12 ledger {ledger}: entry {entry} at {copy.bookie} says that {copy.lac} was confirmed,"
                f" below {below.get(ledger, 0)} was"
                for copy in there.values()
                if copy.lac >= below.get(ledger, 0)
            ]
    return violations


def nothing_anomalous(history: h.LedgerHistory) -> list[str]:
    """Return what clients and observers noted at the time."""
    return list(history.anomalies)


CHECKS: dict[str, Callable[[h.LedgerHistory], list[str]]] = {
    check.__name__: check
    for check in (
        *(confirmed_in_order, confirmed_is_durable, nothing_is_cut_off, handles_rise),
        *(metadata_moves_forward, one_end, confirmed_is_readable, read_as_written, fences_stay),
        *(copies_suffice, nothing_anomalous),
    )
}
