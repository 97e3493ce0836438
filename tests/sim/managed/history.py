"""What happened to managed ledgers in a run, in simulated time. The only evidence of ``managed_checkers``."""

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.base.ids import Position

Entry = tuple[str, int]
"""Who appended and its how-manieth: unique in a run."""


class Append(NamedTuple):
    """An entry was handed to a managed ledger; ``owner`` names the object (process and its how-manieth opening)."""

    at: float
    owner: str
    topic: str
    entry: Entry


class Stored(NamedTuple):
    """The sink was told that the entry is durable."""

    at: float
    owner: str
    topic: str
    entry: Entry
    position: Position


class Listed(NamedTuple):
    """The topic's stored list of ledgers, whenever it changed; ``closed`` are those whose metadata said so then."""

    at: float
    topic: str
    ledgers: tuple[int, ...]
    closed: tuple[int, ...]


class CursorOpened(NamedTuple):
    """A cursor of an object whose opening began at ``since``. ``acked`` and ``unacked`` divide the entries that had
    been confirmed to anybody by then and still exist."""

    since: float
    at: float
    owner: str
    topic: str
    cursor: str
    mark_delete: Position
    acked: frozenset[Position]
    unacked: frozenset[Position]


class Delivered(NamedTuple):
    """A read of the cursor gave an entry."""

    at: float
    owner: str
    topic: str
    cursor: str
    position: Position
    entry: Entry


class AckAsked(NamedTuple):
    """Everything in ``positions`` was acknowledged; of ``to`` everything up to and with it (None: nothing)."""

    at: float
    owner: str
    topic: str
    cursor: str
    positions: tuple[Position, ...]
    to: Position | None = None


class AckStored(NamedTuple):
    """``persisted`` returned: what was asked of this cursor object up to ``since`` survives everything."""

    since: float
    at: float
    owner: str
    topic: str
    cursor: str


class Reset(NamedTuple):
    """The next entry read is that at ``to`` or behind. ``at`` is infinite while the outcome is unknown."""

    since: float
    at: float
    owner: str
    topic: str
    cursor: str
    to: Position


class Kept(NamedTuple):
    """What a reader of the whole topic found at the end, in storage order."""

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
