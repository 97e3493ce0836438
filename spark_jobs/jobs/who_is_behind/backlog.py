"""Facts in the metadata about the backlog of a subscription. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.managed.ack_state import AckState
from engine.managed.positions import LedgerLine


@dataclass(frozen=True, slots=True)
class Hole:
    """Entries that are not acknowledged although entries behind them are. ``acknowledged``: how many follow at once."""

    first: str
    last: str
    entries: int
    acknowledged: int


@dataclass(frozen=True, slots=True)
class StoredBacklog:
    """The stored facts of a subscription's backlog. ``entries``, ``stored_bytes``: not acknowledged; bytes as if the
    entries of a ledger were equally large. None where the state cannot be read, for the reason ``problem``.

    ``holes``: gaps before acknowledged entries. ``acknowledged``: entries acknowledged behind the first gap.
    ``partial``: batches acknowledged in part.
    """

    topic: str
    subscription: str
    entries: int | None
    stored_bytes: int | None
    mark: str
    first: str
    holes: int
    acknowledged: int
    partial: int
    last_active_ms: int
    largest: tuple[Hole, ...] = ()
    problem: str = ""


def backlog_of(
    topic: str, name: str, line: LedgerLine, acks: AckState, active_ms: int, limit: int
) -> StoredBacklog:
    """Return the backlog by a subscription's acknowledgements; of its holes the first ``limit``."""
    end = line.durable_to
    pending = list(acks.pending(line.base, end))
    inner = pending[:-1] if pending and pending[-1][1] == end else pending
    starts = [start for start, _ in pending[1:]] + [end]
    holes = [
        Hole(
            str(line.position(start)), str(line.position(stop - 1)), stop - start, following - stop
        )
        for (start, stop), following in zip(inner[:limit], starts, strict=False)
    ]
    size = sum(_bytes_of(line, start, stop) for start, stop in pending)
    return StoredBacklog(
        topic,
        name,
        acks.backlog(end),
        round(size),
        str(line.position(acks.mark - 1)) if acks.mark > line.base else "",
        str(line.position(pending[0][0])) if pending else "",
        len(inner),
        acks.holes.total,
        len(acks.batches),
        active_ms,
        tuple(holes),
    )


def _bytes_of(line: LedgerLine, start: int, stop: int) -> float:
    size = 0.0
    for ledger_id, first, last in in_ledgers(line, start, stop):
        _, entries = line.extent(ledger_id)
        ledger, _ = line.find(line.exact(ledger_id, first))
        size += ledger.size * (last - first + 1) / entries
    return size


def in_ledgers(line: LedgerLine, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield ledger, first and last entry of the parts of ordinals ``start <= x < stop``."""
    while start < stop:
        ledger, base = line.find(start)
        end = min(stop, base + ledger.entries)
        if end <= start:  # an empty ledger
            break
        yield ledger.ledger_id, start - base, end - 1 - base
        start = end
