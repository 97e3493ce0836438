"""Services and budgets that all managed ledgers of a broker share."""

from dataclasses import dataclass

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.ledger.client import LedgerClient
from engine.managed.reading.backlog import BacklogCache
from engine.managed.reading.entry_cache import EntryCache
from engine.managed.settings import ManagedSettings
from engine.managed.stored.node import StoredNode
from engine.metadata.store import MetadataStore
from engine.offload.reading.block_cache import BlockCache
from engine.offload.stores.metered_stores import MeteredStores
from engine.offload.tiered_storage import TieredStorage


@dataclass(frozen=True, slots=True)
class Shared:
    """The broker's metadata store and ledger client, and its byte budgets for the tails and for the backlog reads of
    all topics."""

    store: MetadataStore
    ledgers: LedgerClient
    clock: Clock
    entropy: Entropy
    settings: ManagedSettings
    cache: EntryCache
    backlog_cache: BacklogCache
    tiered: TieredStorage | None = None
    """Tiered storage; None where the process cannot use any."""

    def objects(self, log: str) -> MeteredStores | None:
        """Return the object stores of tiered storage as the managed ledger ``log`` uses them."""
        return None if self.tiered is None else self.tiered.stores_of(log)

    @property
    def blocks(self) -> BlockCache | None:
        """The blocks of tiered storage in memory."""
        return None if self.tiered is None else self.tiered.blocks

    def node(self, path: str) -> StoredNode:
        return StoredNode(self.store, path, self.entropy, self.settings)
