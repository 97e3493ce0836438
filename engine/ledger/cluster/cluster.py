"""The cluster's bookies from the view of one process."""

from engine.base.entropy import Entropy
from engine.ledger.cluster.choice import BookieChoice
from engine.ledger.cluster.links import BookieLinks
from engine.ledger.cluster.placement import Placement
from engine.ledger.cluster.registrations import Registrations
from engine.ledger.settings import LedgerSettings
from engine.metadata.store import MetadataStore
from engine.net.network import Network


class BookieCluster:
    """Registrations, choice and connections of the bookies for one ledger client. Call ``start`` before use."""

    def __init__(
        self,
        store: MetadataStore,
        network: Network,
        entropy: Entropy,
        settings: LedgerSettings,
        placement: Placement | None = None,
    ) -> None:
        self.registrations = Registrations(store)
        self.choice = BookieChoice(self.registrations, entropy, settings, placement)
        self.links = BookieLinks(network, self.registrations, self.choice, entropy, settings)

    def start(self) -> None:
        """Start watching the registrations; idempotent."""
        self.registrations.start()

    async def close(self) -> None:
        await self.registrations.close()
        await self.links.close()
