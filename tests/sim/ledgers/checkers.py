"""Rules C1 to C9 (docs/simulator.md), B5, B12 (docs/invariants.md) and M12, held against a history of ledgers. Pure.

Each check returns what it found, in words, beginning with the rule's name. All hold for any history, whatever faults
struck, as long as not more than AQ - 1 bookies lost data; only ``copies_suffice`` needs the audit at the end.
"""

from collections.abc import Callable, Iterable
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
    """First entry by ledger that was never confirmed."""
    below: dict[int, int] = {}
    for event in _of(history, h.Confirmed):
        below[event.ledger] = max(below.get(event.ledger, 0), event.below)
    return below


def _final(history: h.LedgerHistory) -> dict[int, LedgerMetadata | None]:
    return {event.ledger: event.metadata for event in _of(history, h.Version)}


def confirmed_in_order(history: h.LedgerHistory) -> list[str]:
    """C1, C6: what is confirmed rises, was appended, by the ledger's writer, and ends with its failure."""
    found = []
    writer: dict[int, str] = {}
    appended: dict[int, int] = {}
    below: dict[int, int] = {}
    failed: dict[int, float] = {}
    for event in history.events:
        match event:
            case h.Created():
                first = writer.setdefault(event.ledger, event.who)
                if first != event.who:
                    found.append(f"C6 ledger {event.ledger} was created by {first} and {event.who}")
            case h.Appended():
                if event.first != appended.get(event.ledger, 0):
                    found.append(f"C1 ledger {event.ledger}: a run begins at {event.first}")
                appended[event.ledger] = event.first + len(event.sums)
            case h.Failed():
                failed.setdefault(event.ledger, event.at)
            case h.Confirmed():
                text = f"ledger {event.ledger}: confirmed below {event.below}"
                if event.below <= below.get(event.ledger, 0):
                    found.append(f"C1 {text} after {below[event.ledger]}")
                if event.below > appended.get(event.ledger, 0):
                    found.append(f"C1 {text}, appended {appended.get(event.ledger, 0)}")
                if event.ledger in failed:
                    found.append(f"C6 {text} after its writer had failed")
                if writer.get(event.ledger) != event.who:
                    found.append(f"C8 {text} to {event.who}, who is not its writer")
                below[event.ledger] = max(below.get(event.ledger, 0), event.below)
    return found


def confirmed_is_durable(history: h.LedgerHistory) -> list[str]:
    """B1, C1: when an entry is confirmed, an ack quorum of disks holds it synced."""
    needed = history.quorum[2] - history.lost
    return [
        f"C1 ledger {e.ledger}: entry {e.entry} was confirmed with {e.copies} synced copies of {needed}"
        for e in _of(history, h.Durable)
        if e.copies < needed
    ]


def nothing_is_cut_off(history: h.LedgerHistory) -> list[str]:
    """C3: a closed ledger ends at or behind every entry that was confirmed, read, or seen as last confirmed."""
    highest: dict[int, tuple[int, str]] = {}

    def note(ledger: int, entry: int, how: str) -> None:
        if entry > highest.get(ledger, (-1, ""))[0]:
            highest[ledger] = (entry, how)

    for event in history.events:
        match event:
            case h.Confirmed():
                note(event.ledger, event.below - 1, "confirmed")
            case h.Closed() | h.Opened():
                note(event.ledger, event.last, "the end an opener or its writer was told of")
            case h.LastSeen():
                note(event.ledger, event.last, "seen as last confirmed by a reader")
            case h.Read():
                note(event.ledger, event.first + len(event.sums) - 1, "read")
    found = []
    for ledger, metadata in _final(history).items():
        entry, how = highest.get(ledger, (-1, ""))
        closed = metadata is not None and metadata.state is LedgerState.CLOSED
        if metadata is not None and closed and metadata.last_entry < entry:
            found.append(f"C3 ledger {ledger} ends at {metadata.last_entry}, but {entry} was {how}")
    return found


def handles_rise(history: h.LedgerHistory) -> list[str]:
    """C2: what a handle gives as last confirmed never falls."""
    found = []
    last: dict[str, int] = {}
    for event in history.events:
        if isinstance(event, h.Opened | h.LastSeen):
            if event.last < last.get(event.handle, -1):
                found.append(
                    f"C2 {event.handle}: last confirmed {event.last} after {last[event.handle]}"
                )
            last[event.handle] = max(last.get(event.handle, -1), event.last)
    return found


def metadata_moves_forward(history: h.LedgerHistory) -> list[str]:
    """C5, C6, C7, C8: how one version of a ledger's metadata may follow another."""
    found: list[str] = []
    stored: dict[int, LedgerMetadata | None] = {}
    below: dict[int, int] = {}  # of ledgers whose writer we hear
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
                found.append(f"C6 ledger {event.ledger} came back after its deletion")
            continue
        name = f"ledger {event.ledger}"
        if not event.conditional:
            found.append(f"C6 {name}: metadata was written without compare-and-set")
        if new.state < old.state:
            found.append(f"C6 {name} went from {old.state.name} back to {new.state.name}")
        if old.state is LedgerState.CLOSED and new != old:
            found.append(f"C8 {name} was changed after it was closed at {old.last_entry}")
        found += _segments(name, old, new, below.get(event.ledger))
    return found


def _segments(name: str, old: LedgerMetadata, new: LedgerMetadata, below: int | None) -> list[str]:
    found = []
    kept, last = old.segments[:-1], old.segments[-1]
    if new.segments[: len(kept)] != kept or len(new.segments) <= len(kept):
        return [f"C5 {name}: segments before the last were changed"]
    if new.segments[len(kept)].first != last.first:
        found.append(f"C5 {name}: the segment at {last.first} begins elsewhere")
    firsts = [segment.first for segment in new.segments]
    if firsts != sorted(set(firsts)):
        found.append(f"C7 {name}: segments begin at {firsts}")
    found += [
        f"C7 {name}: ensemble {segment.bookies}"
        for segment in new.segments
        if len(set(segment.bookies)) != new.ensemble_size
    ]
    first = new.segments[-1].first
    moved = new.segments != old.segments and new.state is LedgerState.OPEN
    if moved and below is not None and first != below:
        found.append(
            f"C7 {name}: its writer changed the ensemble from {first} on, confirmed below {below}"
        )
    return found


def one_end(history: h.LedgerHistory) -> list[str]:
    """C8: everybody who found a ledger closed was told the same end."""
    found = []
    ends: dict[int, tuple[int, str]] = {}

    def told(ledger: int, last: int, who: str) -> None:
        end, first = ends.setdefault(ledger, (last, who))
        if end != last:
            found.append(f"C8 ledger {ledger} ends at {end} for {first}, at {last} for {who}")

    for event in history.events:
        match event:
            case h.Version() if event.metadata and event.metadata.state is LedgerState.CLOSED:
                told(event.ledger, event.metadata.last_entry, "metadata")
            case h.Opened() | h.LastSeen() if event.closed:
                told(event.ledger, event.last, event.handle)
            case h.Closed():
                told(event.ledger, event.last, event.who)
    return found


def confirmed_is_readable(history: h.LedgerHistory) -> list[str]:
    """C9, B4: nobody is told that an entry confirmed before, or believed so, does not exist; unless it was deleted."""
    deleted = {event.ledger for event in _of(history, h.Deleted)}
    return [
        f"C9 ledger {e.ledger}: entry {e.entry} was denied to {e.handle} at {e.at:.3f}"
        for e in _of(history, h.Missing)
        if e.ledger not in deleted
    ]


def read_as_written(history: h.LedgerHistory) -> list[str]:
    """M12, B3: an entry reads as it was appended, at every replica."""
    sums = _sums(history)
    found = []
    for event in history.events:
        read: list[tuple[int, int | None]] = []
        who = ""
        if isinstance(event, h.Read):
            read, who = list(enumerate(event.sums, event.first)), event.handle
        elif isinstance(event, h.Copy) and event.checksum is not None:
            read, who = [(event.entry, event.checksum)], event.bookie
        for entry, checksum in read:
            if sums.get((event.ledger, entry)) != checksum:
                found.append(
                    f"M12 ledger {event.ledger}: entry {entry} is not what was written, for {who}"
                )
    return found


def fences_stay(history: h.LedgerHistory) -> list[str]:
    """B5: a ledger once fenced durably at a bookie stays so while the bookie knows of it."""
    found = []
    fenced: dict[tuple[str, int], float] = {}
    for event in _of(history, h.Fence):
        key = (event.bookie, event.ledger)
        if event.fenced:
            fenced.setdefault(key, event.at)
        elif key in fenced:
            found.append(
                f"B5 {event.bookie} had fenced ledger {event.ledger} at {fenced[key]:.3f}, not so at {event.at:.3f}"
            )
            del fenced[key]
    return found


def copies_suffice(history: h.LedgerHistory) -> list[str]:
    """C1, C4, C7: at the end each entry of a closed ledger lies on an ack quorum of the bookies that metadata names,
    but for what was lost. B12: no copy says that more was confirmed than was."""
    if not history.audited:
        return []
    found = []
    copies: dict[tuple[int, int], dict[str, h.Copy]] = {}
    for copy in _of(history, h.Copy):
        if copy.checksum is not None:
            copies.setdefault((copy.ledger, copy.entry), {})[copy.bookie] = copy
    below = _confirmed(history)
    deleted = {event.ledger for event in _of(history, h.Deleted)}
    for ledger, metadata in _final(history).items():
        if metadata is None or metadata.state is not LedgerState.CLOSED or ledger in deleted:
            continue
        needed = metadata.ack_quorum - history.lost
        for entry in range(metadata.last_entry + 1):
            ensemble = metadata.bookies(entry)
            positions = write_set(entry, metadata.ensemble_size, metadata.write_quorum)
            there = copies.get((ledger, entry), {})
            held = [ensemble[p] for p in positions if ensemble[p] in there]
            if len(held) < needed:
                found.append(
                    f"C4 ledger {ledger}: entry {entry} has {len(held)} copies of {needed}"
                )
        for (number, entry), there in copies.items():
            if number != ledger:
                continue
            found += [
                f"B12 ledger {ledger}: entry {entry} at {copy.bookie} says that {copy.lac} was confirmed,"
                f" below {below.get(ledger, 0)} was"
                for copy in there.values()
                if copy.lac >= below.get(ledger, 0)
            ]
    return found


def nothing_anomalous(history: h.LedgerHistory) -> list[str]:
    """What clients and observers saw on the spot."""
    return list(history.anomalies)


CHECKS: dict[str, Callable[[h.LedgerHistory], list[str]]] = {
    check.__name__: check
    for check in (
        *(confirmed_in_order, confirmed_is_durable, nothing_is_cut_off, handles_rise),
        *(metadata_moves_forward, one_end, confirmed_is_readable, read_as_written, fences_stay),
        *(copies_suffice, nothing_anomalous),
    )
}
