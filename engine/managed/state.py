"""The present facts of a managed ledger: one value that every part reads, with one writer per field.

``line``: its ledgers, written by ``LedgerList``, which adds the next one and drops trimmed and empty ones.
``line.durable_to``: ``Appender`` moves it as entries become durable, ``LedgerList`` where closing a ledger finds more.
``line.readable_to``, the limit of readers: the line itself, which keeps it equal to ``durable_to``, or
``ManagedLedger.hold_reads`` (I40). ``tail``: ``Appender``. ``status``: ``Appender``, and ``Tenure`` at the end.
``error``, ``ended``: ``Tenure``. ``terminated``, ``properties``: ``LedgerList``. ``config``:
``ManagedLedger.update_config``. ``last_index``: ``Stamps``.
"""

from dataclasses import dataclass
from enum import Enum

from engine.base.ids import Position
from engine.managed.errors import ManagedLedgerError
from engine.managed.positions import LedgerLine
from engine.managed.reading.entry_cache import TailCache
from engine.managed.settings import LedgerConfig


class LogStatus(Enum):
    """The state, in the words of Pulsar's statistics.

    CLOSED_LEDGER → OPENED by the first ledger or a roll-over, OPENED → CREATING by a roll-over, CREATING → OPENED or
    CLOSED_LEDGER when that ends, any → TERMINATED, FENCED, CLOSED.
    """

    OPENED = "LedgerOpened"
    CREATING = "CreatingLedger"
    CLOSED_LEDGER = "ClosedLedger"
    TERMINATED = "Terminated"
    FENCED = "Fenced"
    CLOSED = "Closed"


@dataclass(slots=True)
class LogState:
    """The facts. ``terminated``: last entry of a terminated log. ``error``: why nothing more is started. ``ended``:
    nothing more is confirmed either."""

    name: str
    config: LedgerConfig
    line: LedgerLine
    tail: TailCache
    terminated: Position | None
    properties: dict[str, str]
    status: LogStatus = LogStatus.CLOSED_LEDGER
    error: ManagedLedgerError | None = None
    ended: bool = False
    last_index: int | None = None
    """The highest index that an entry may have been given; -1 for none yet, None while entries are given none."""

    @property
    def last_confirmed(self) -> Position:
        """Last durable entry; ``(ledger, -1)`` of the first ledger while there is none."""
        return self.line.before(self.line.durable_to)

    def check(self) -> None:
        """Raise the error that forbids anything new, if there is one."""
        if self.error is not None:
            raise self.error
