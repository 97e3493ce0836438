"""Opens managed ledgers: one factory per broker."""

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.managed.ledger import ManagedLedger
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.managed.stats import ManagedLedgerInfo
from engine.metadata.store import MetadataStore


class ManagedLedgerFactory:
    """Owns the entry cache's byte budget. ``ledgers`` is the process's ``LedgerClient``."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        ledgers: object,
        clock: Clock,
        entropy: Entropy,
        settings: ManagedSettings,
    ) -> None:
        raise NotImplementedError

    async def open(
        self, name: str, config: LedgerConfig, properties: dict[str, str] | None = None
    ) -> ManagedLedger:
        """Open ``tenant/ns/persistent/encoded-topic`` (made if missing), fencing its previous owner.

        Opening twice in one process: the second waits for the first and gets the same object.
        Raises LedgerError, ManagedLedgerFencedError (another owner opened it at the same time), StoreUnavailableError.
        """
        raise NotImplementedError

    async def delete(self, name: str) -> None:
        """Delete a managed ledger with cursors and ledgers, closing it first. Raises ManagedLedgerNotFoundError."""
        raise NotImplementedError

    async def exists(self, name: str) -> bool:
        raise NotImplementedError

    async def info(self, name: str) -> ManagedLedgerInfo:
        """What is stored, without opening. Raises ManagedLedgerNotFoundError.

        The open ledger's ``entries`` and ``size`` are those its bookies report as confirmed; nobody is fenced.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Close all managed ledgers."""
        raise NotImplementedError
