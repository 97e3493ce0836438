"""Events of ledgers in a run, in simulated time: calls of the ledger client, versions of metadata, copies
found at the end. The only evidence of ``checkers``."""

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.ledger.ledger_metadata import LedgerMetadata


class Created(NamedTuple):
    """A return of ``create``: ``who`` (a process' incarnation) is the ledger's one writer."""

    at: float
    who: str
    ledger: int


class Appended(NamedTuple):
    """A run that was handed to the writer; ``sums`` are checksums of its entries."""

    at: float
    who: str
    ledger: int
    first: int
    sums: tuple[int, ...]


class Confirmed(NamedTuple):
    """A report to the writer's listener that all entries below ``below`` are on their ack quorum."""

    at: float
    who: str
    ledger: int
    below: int


class Durable(NamedTuple):
    """Bookies whose disk held ``entry`` synced at the moment it was confirmed."""

    at: float
    ledger: int
    entry: int
    copies: int


class Failed(NamedTuple):
    """A failure that ended the writer."""

    at: float
    who: str
    ledger: int
    error: str


class Closed(NamedTuple):
    """A return of the writer's ``close``."""

    at: float
    who: str
    ledger: int
    last: int


class Opened(NamedTuple):
    """A call of ``open`` at ``since`` that returned at ``at``; when ``closed``, ``last`` is the ledger's end."""

    since: float
    at: float
    handle: str
    ledger: int
    recovered: bool
    closed: bool
    last: int


class LastSeen(NamedTuple):
    """A handle's ``read_last_confirmed``."""

    since: float
    at: float
    handle: str
    ledger: int
    closed: bool
    last: int


class Read(NamedTuple):
    """A read of the entries from ``first`` on, with their checksums."""

    since: float
    at: float
    handle: str
    ledger: int
    first: int
    sums: tuple[int, ...]


class Missing(NamedTuple):
    """A read of ``entry`` that every replica denied, although the handle believed it confirmed."""

    since: float
    at: float
    handle: str
    ledger: int
    entry: int


class Deleted(NamedTuple):
    """A call of ``delete`` at ``since``; ``at`` is infinite while its outcome is unknown."""

    since: float
    at: float
    ledger: int


class Version(NamedTuple):
    """A stored version of a ledger's metadata (None: removed); ``conditional`` when it was written by
    compare-and-set."""

    at: float
    ledger: int
    metadata: LedgerMetadata | None
    conditional: bool


class Fence(NamedTuple):
    """A bookie's knowledge of a ledger: with a durable fence or without."""

    at: float
    bookie: str
    ledger: int
    fenced: bool


class Copy(NamedTuple):
    """A replica of an entry at the end; ``checksum`` None when the bookie has none that is whole. ``lac`` and
    ``length`` are in its header."""

    bookie: str
    ledger: int
    entry: int
    checksum: int | None
    lac: int = -1
    length: int = 0


Event = (
    Created | Appended | Confirmed | Durable | Failed | Closed | Opened | LastSeen | Read | Missing
    | Deleted | Version | Fence | Copy
)  # fmt: skip


@dataclass
class LedgerHistory:
    """``events`` in the order of time. ``lost`` counts bookies whose data may be gone or damaged, at most AQ - 1."""

    quorum: tuple[int, int, int] = (3, 3, 2)
    lost: int = 0
    repaired: bool = False
    """Set when lost copies are made again: the members of settled segments may change, and in the end every copy is
    there."""
    events: list[Event] = field(default_factory=list)
    audited: bool = False
    """Set when every replica of every closed ledger was read at the end and is in a Copy."""
    anomalies: list[str] = field(default_factory=list)
    """Violations that clients and observers noted at the time, in words."""
