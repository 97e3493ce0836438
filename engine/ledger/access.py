"""What it takes to reach one ledger."""

from dataclasses import dataclass

from engine.ledger.cluster.cluster import BookieCluster
from engine.ledger.settings import LedgerSettings
from engine.metadata.store import MetadataStore


@dataclass(frozen=True, slots=True)
class LedgerAccess:
    """Its id and password, where it is described, and the bookies that may store it."""

    ledger_id: int
    password: bytes
    store: MetadataStore
    bookies: BookieCluster
    settings: LedgerSettings
