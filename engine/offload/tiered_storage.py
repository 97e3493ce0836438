"""Parts of tiered storage that the topics of a process share."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.measures.byte_rate import ByteRate
from engine.offload.meters import Meters
from engine.offload.object_store import ObjectStores
from engine.offload.reading.block_cache import BlockCache
from engine.offload.stores.metered_stores import MeteredStores


@dataclass(frozen=True, slots=True)
class TierLimits:
    """Bounds of a process. ``moves_max``: ledgers moved at once. Rates are bytes per second, 0 for none."""

    moves_max: int = 2
    moved_per_s: int = 0
    read_per_s: int = 0
    cache_bytes: int = 64 << 20
    ahead_bytes: int = 16 << 20


class TieredStorage:
    """The object stores, the attributes of objects written here, bounds, and the blocks and counters of all topics."""

    def __init__(
        self,
        stores: ObjectStores,
        attributes: Mapping[str, str],
        limits: TierLimits = TierLimits(),
    ) -> None:
        self.stores = stores
        self.attributes = attributes
        self.moving = asyncio.Semaphore(limits.moves_max)
        self.moved = ByteRate(limits.moved_per_s)
        self.blocks = BlockCache(limits.cache_bytes, limits.ahead_bytes)
        self.meters: dict[str, Meters] = {}
        """Counters by the name of the managed ledger, of those that used tiered storage."""
        self._read = ByteRate(limits.read_per_s)

    def meters_of(self, log: str) -> Meters:
        """Return the counters of a managed ledger."""
        return self.meters.setdefault(log, Meters())

    def stores_of(self, log: str) -> MeteredStores:
        """Return the stores as the managed ledger ``log`` reads them."""
        return MeteredStores(self.stores, lambda: self.meters_of(log), self._read)

    async def close(self) -> None:
        """End the reads that are under way."""
        await self.blocks.close()
