"""Parts of tiered storage that the topics of a process share."""

import asyncio
from collections.abc import Mapping

from engine.offload.object_store import ObjectStores


class TieredStorage:
    """The object stores, the attributes of objects written here, and a bound on how many ledgers are moved at once."""

    def __init__(
        self, stores: ObjectStores, attributes: Mapping[str, str], moves_max: int = 2
    ) -> None:
        self.stores = stores
        self.attributes = attributes
        self.moving = asyncio.Semaphore(moves_max)
