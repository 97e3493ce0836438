"""Events of managed ledgers in a run, in simulated time. The only evidence of ``checkers``."""

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.base.ids import Position

Entry = tuple[str, int]
"""The object that appended the entry, and its ordinal among those that the object appended: unique in a run."""


class Append(NamedTuple):
    """An entry that was handed to a managed ledger; ``owner`` names the object (the process and a count of its
    openings)."""

    at: float
    owner: str
    topic: str
    entry: Entry


class Stored(NamedTuple):
    """A confirmation to the sink that the entry is durable."""

    at: float
    owner: str
    topic: str
    entry: Entry
    position: Position


class Listed(NamedTuple):
    """The topic's stored list of ledgers, whenever it changed; ``closed`` are those that metadata had as closed
    then."""

    at: float
    topic: str
    ledgers: tuple[int, ...]
    closed: tuple[int, ...]


class CursorOpened(NamedTuple):
    """A cursor of an object whose opening began at ``since``. ``acked`` and ``unacked`` divide the entries that had
    been confirmed to any owner by then and still exist."""

    since: float
    at: float
    owner: str
    topic: str
    cursor: str
    mark_delete: Position
    acked: frozenset[Position]
    unacked: frozenset[Position]


class Delivered(NamedTuple):
    """An entry that a read of the cursor returned."""

    at: float
    owner: str
    topic: str
    cursor: str
    position: Position
    entry: Entry


class AckAsked(NamedTuple):
    """A request to acknowledge everything in ``positions``, and everything up to and with ``to`` (None: nothing)."""

    at: float
    owner: str
    topic: str
    cursor: str
    positions: tuple[Position, ...]
    to: Position | None = None


class AckStored(NamedTuple):
    """A return of ``persisted``: what was requested of this cursor object up to ``since`` survives every crash."""

    since: float
    at: float
    owner: str
    topic: str
    cursor: str


class Reset(NamedTuple):
    """A move of the cursor: the next entry read is at ``to`` or behind it. ``at`` is infinite while the outcome is
    unknown."""

    since: float
    at: float
    owner: str
    topic: str
    cursor: str
    to: Position


class Kept(NamedTuple):
    """Entries that a reader of the whole topic read at the end, in storage order."""

    topic: str
    entries: tuple[tuple[Position, Entry], ...]


Event = (
    Append | Stored | Listed | CursorOpened | Delivered | AckAsked | AckStored | Reset | Kept
)  # fmt: skip


@dataclass
class ManagedHistory:
    """``events`` in the order of time; all cursors are durable and were made before the first append."""

    cursors: tuple[str, ...] = ("c1", "c2")
    events: list[Event] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)
