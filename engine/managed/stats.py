"""Typed snapshots of managed ledgers and cursors, for statistics, internal statistics and Spark's planning. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from engine.base.ids import Position


class EntrySummary(NamedTuple):
    """The time and size of one entry. ``publish_ms``: when it was published, epoch milliseconds; where it is later, the
    time before which the entry was not in the log. ``messages``: their number; 1 unless it is a batch."""

    publish_ms: int
    messages: int


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """One ledger of a topic. ``entries`` and ``size`` (bytes) of the open one are those confirmed so far.

    ``timestamp_ms``: wall time of its close, 0 while open. ``extra``: the stored record's other fields, as of
    ``LedgerSpan``.
    """

    ledger_id: int
    entries: int
    size: int
    timestamp_ms: int
    closed: bool
    extra: bytes = b""


class OffloadPhase(StrEnum):
    """The phases of moving a topic's ledgers, in the words of Pulsar's REST interface."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class OffloadStatus:
    """The last or present moving of ledgers. ``first_unmoved``: the first entry of those asked for that was not moved,
    None while that is not known. ``trouble``: kind of the error (``StoreTrouble``). ``retry_ms``: wall time
    before which nothing is moved again without a request, -1 for none."""

    phase: OffloadPhase = OffloadPhase.NOT_RUN
    error: str = ""
    first_unmoved: Position | None = None
    trouble: str = ""
    retry_ms: int = -1


@dataclass(slots=True)
class MoveCounters:
    """Ledgers moved since the log was opened; ids and times are -1 for never."""

    last_ledger_id: int = -1
    last_success_ms: int = -1
    last_failure_ms: int = -1


@dataclass(slots=True)
class MoveProgress:
    """Progress of moving ledgers. ``ledger_id``: the one that is being moved, -1 without one; ``written_bytes`` of it
    are written."""

    ledgers: int = 0
    bytes: int = 0
    done_ledgers: int = 0
    done_bytes: int = 0
    ledger_id: int = -1
    written_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CursorInfo:
    """A cursor as stored; ``cursor_ledger_id`` is -1 when its state is in the metadata store."""

    name: str
    cursor_ledger_id: int
    mark_delete: Position
    last_active_ms: int
    cursor_properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManagedLedgerInfo:
    """The stored facts of a managed ledger, read without opening it. Ledgers in order of writing."""

    name: str
    ledgers: tuple[LedgerInfo, ...]
    cursors: tuple[CursorInfo, ...]
    properties: dict[str, str]
    terminated: Position | None


@dataclass(frozen=True, slots=True)
class CursorStats:
    """A cursor's present facts. The backlog counts entries, as Pulsar's does; a batch is one entry.

    ``acknowledged_ranges``: ``(first, last)`` positions, inclusive, behind the mark-delete position; at most 1,000 of
    the ``acknowledged_range_count`` ones. ``state``: Open, NoLedger or Closed. ``last_ledger_switch_ms``: None where
    nothing is stored.
    """

    name: str
    durable: bool
    mark_delete: Position
    read_position: Position
    persisted_mark_delete: Position
    backlog_entries: int
    acknowledged_range_count: int
    acknowledged_ranges: tuple[tuple[Position, Position], ...]
    cursor_ledger_id: int
    cursor_ledger_last_entry: int
    last_ledger_switch_ms: int | None
    last_active_ms: int
    state: str
    properties: dict[str, int]
    cursor_properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class ManagedLedgerStats:
    """A managed ledger's present facts. Sizes in bytes of what clients sent; ``state`` in Pulsar's words.

    ``entries_added`` and ``bytes_added`` count confirmed entries since this object was opened. ``state``: LedgerOpened,
    ClosedLedger, CreatingLedger, Terminated, Fenced or Closed.
    """

    name: str
    entries: int
    size: int
    entries_added: int
    bytes_added: int
    current_ledger_id: int
    current_ledger_entries: int
    current_ledger_size: int
    last_ledger_created_ms: int
    pending_entries: int
    cache_bytes: int
    last_confirmed: Position
    state: str
    ledgers: tuple[LedgerInfo, ...]
    cursors: tuple[CursorStats, ...]
    moved: MoveCounters = field(default_factory=MoveCounters)
    """Ledgers moved to tiered storage since this object was opened."""
    unread_cursors: dict[str, str] = field(default_factory=dict)
    """Stored cursors whose storage does not answer, and the reason."""
