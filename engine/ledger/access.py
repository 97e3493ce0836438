"""Access to one ledger."""

from dataclasses import dataclass

from engine.ledger.cluster.cluster import BookieCluster
from engine.ledger.settings import LedgerSettings
from engine.metadata.store import MetadataStore


@dataclass(frozen=True, slots=True)
class LedgerAccess:
    """A ledger's id and password, the store of its metadata, and the bookies that may store its entries."""

    ledger_id: int
    password: bytes
    store: MetadataStore
    bookies: BookieCluster
    settings: LedgerSettings
