"""What is true of a managed ledger now: one value, read by every part, each field written by its owner alone.

``line``: its ledgers by ``LedgerList``, which adds the next one and drops trimmed and empty ones. Its ``end`` is the
limit of all reading: ``Appender`` moves it as entries become durable, ``LedgerList`` where closing a ledger finds more.
``tail``: by ``Appender``. ``status``: by ``Appender``, at the end by ``Tenure``. ``error``, ``ended``: by ``Tenure``.
``terminated``, ``properties``: by ``LedgerList``. ``config``: by ``ManagedLedger.update_config``. ``last_index``: by
``Stamps``.
"""

from dataclasses import dataclass
from enum import Enum

from engine.base.ids import Position
from engine.managed.errors import ManagedLedgerError
from engine.managed.positions import LedgerLine
from engine.managed.reading.entry_cache import TailCache
from engine.managed.settings import LedgerConfig


class LogStatus(Enum):
    """In Pulsar's words, as its statistics show them.

    CLOSED_LEDGER → OPENED by the first ledger or a roll, OPENED → CREATING by a roll, CREATING → OPENED or
    CLOSED_LEDGER by its end, any → TERMINATED, FENCED, CLOSED.
    """

    OPENED = "LedgerOpened"
    CREATING = "CreatingLedger"
    CLOSED_LEDGER = "ClosedLedger"
    TERMINATED = "Terminated"
    FENCED = "Fenced"
    CLOSED = "Closed"


@dataclass(slots=True)
class LogState:
    """``terminated``: last entry of a sealed log. ``error``: why nothing more is begun; ``ended``: nor confirmed."""

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
    """The highest index that an entry may have been given; -1 none yet, None while entries get none."""

    @property
    def last_confirmed(self) -> Position:
        """Last durable entry; ``(ledger, -1)`` of the first ledger while there is none."""
        return self.line.before(self.line.end)

    def check(self) -> None:
        """Raises what forbids anything new."""
        if self.error is not None:
            raise self.error
