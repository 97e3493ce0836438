"""What happened to ledgers in a run, in simulated time: calls of the ledger client, versions of metadata, copies
found at the end. The only evidence of ``ledger_checkers``."""

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.ledger.ledger_metadata import LedgerMetadata


class Created(NamedTuple):
    """``create`` returned: ``who`` (a process' incarnation) is the ledger's one writer."""

    at: float
    who: str
    ledger: int


class Appended(NamedTuple):
    """A run went out; ``sums`` are checksums of its entries."""

    at: float
    who: str
    ledger: int
    first: int
    sums: tuple[int, ...]


class Confirmed(NamedTuple):
    """The writer was told that all below ``below`` is on its ack quorum."""

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
    """The writer ended by itself."""

    at: float
    who: str
    ledger: int
    error: str


class Closed(NamedTuple):
    """The writer's ``close`` returned."""

    at: float
    who: str
    ledger: int
    last: int


class Opened(NamedTuple):
    """``open`` was called at ``since`` and returned at ``at``; ``closed``: ``last`` is the ledger's end."""

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
    """Entries ``first`` and on came with these checksums."""

    since: float
    at: float
    handle: str
    ledger: int
    first: int
    sums: tuple[int, ...]


class Missing(NamedTuple):
    """Every replica denied ``entry``, which the handle believed confirmed."""

    since: float
    at: float
    handle: str
    ledger: int
    entry: int


class Deleted(NamedTuple):
    """``delete`` was called at ``since``; ``at`` is infinite while its outcome is unknown."""

    since: float
    at: float
    ledger: int


class Version(NamedTuple):
    """Metadata was stored (None: removed); ``conditional`` unless it was written without looking at the version."""

    at: float
    ledger: int
    metadata: LedgerMetadata | None
    conditional: bool


class Fence(NamedTuple):
    """A bookie knew a ledger: with a durable fence or without."""

    at: float
    bookie: str
    ledger: int
    fenced: bool


class Copy(NamedTuple):
    """A replica of an entry at the end; ``checksum`` None when the bookie has none that is whole. ``lac`` and
    ``length`` stand in its header."""

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
    events: list[Event] = field(default_factory=list)
    audited: bool = False
    """Every replica of every closed ledger was asked for at the end, and stands in a Copy."""
    anomalies: list[str] = field(default_factory=list)
    """What a client saw on the spot and could not have been right."""
