"""The cluster of the measurement: a broker's managed ledgers in this process, metadata server and bookie in their own
or in this one; and a store with a bucket's bandwidth and latency."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.measures.byte_rate import ByteRate
from engine.ledger.client import LedgerClient
from engine.managed.factory import ManagedLedgerFactory
from engine.net.network import LoopNetwork
from engine.offload.bucket import Bucket
from engine.offload.object_store import BucketObject, ObjectStore, StoredObject
from engine.offload.stores.obstore_stores import ConfiguredStores
from engine.offload.tiered_storage import TieredStorage
from engine.programs import cluster_backups
from engine.programs.program import connect
from gateway.standalone.storage import storage
from magnetar.operate.place import OperatedPlace
from tests.support.managed_cluster import LAZY, Brokers

LATENCY_S = 0.02
MakeBroker = Callable[[TieredStorage], ManagedLedgerFactory]


class PacedStore:
    """A store that answers after LATENCY_S and passes ``per_s`` bytes per second in each direction."""

    def __init__(self, store: ObjectStore, per_s: int) -> None:
        self._store = store
        self._up, self._down = ByteRate(per_s), ByteRate(per_s)
        self.keeps_attributes = store.keeps_attributes

    async def put(
        self, key: str, pieces: AsyncIterator[bytes], attributes: Mapping[str, str]
    ) -> None:
        async def paced() -> AsyncIterator[bytes]:
            async for piece in pieces:
                await self._up.take(len(piece))
                yield piece

        await asyncio.sleep(LATENCY_S)
        await self._store.put(key, paced(), attributes)

    async def get(self, key: str) -> StoredObject:
        await asyncio.sleep(LATENCY_S)
        return await self._store.get(key)

    async def get_ranges(self, key: str, bounds: Sequence[int]) -> list[bytes]:
        await asyncio.sleep(LATENCY_S)
        await self._down.take(bounds[-1] - bounds[0])
        return await self._store.get_ranges(key, bounds)

    async def attributes(self, key: str) -> Mapping[str, str]:
        return await self._store.attributes(key)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._store.delete(keys)

    def listed(self, prefix: str = "") -> AsyncIterator[BucketObject]:
        return self._store.listed(prefix)


class PacedStores:
    """The configured stores, each with ``per_s`` bytes per second; 0: as they are."""

    def __init__(self, per_s: int) -> None:
        self._stores = ConfiguredStores(None)
        self._per_s = per_s
        self._opened: dict[Bucket, ObjectStore] = {}

    def open(self, bucket: Bucket) -> ObjectStore:
        if not self._per_s:
            return self._stores.open(bucket)
        if bucket not in self._opened:
            self._opened[bucket] = PacedStore(self._stores.open(bucket), self._per_s)
        return self._opened[bucket]


@asynccontextmanager
async def together(directory: Path) -> AsyncIterator[MakeBroker]:
    """Yield brokers of this process, which has bookie and metadata, too."""
    brokers = Brokers(directory / "bookie")
    await brokers.start()
    try:
        yield lambda tiered: brokers.broker(LAZY, tiered=tiered)
    finally:
        await brokers.close()


@asynccontextmanager
async def apart(variables: Mapping[str, str], directory: Path) -> AsyncIterator[MakeBroker]:
    """Yield brokers of this process, of a cluster whose clients have these ``variables``."""
    settings = cluster_backups.load({**os.environ, **variables}, directory)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(connect(settings.metadata, 60.0))
        ledgers = LedgerClient(
            store=store,
            network=LoopNetwork(),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            settings=settings.ledger,
        )
        stack.push_async_callback(ledgers.close)
        made: list[ManagedLedgerFactory] = []

        def broker(tiered: TieredStorage) -> ManagedLedgerFactory:
            made.append(
                ManagedLedgerFactory(
                    store=store,
                    ledgers=ledgers,
                    clock=SystemClock(),
                    entropy=RandomEntropy(),
                    settings=LAZY,
                    tiered=tiered,
                )
            )
            return made[-1]

        yield broker
        for factory in made:
            Brokers.crash(factory)
            await factory.close()


def storage_servers(stack: ExitStack, directory: Path) -> Mapping[str, str]:
    """Start a metadata server and a bookie in ``directory``; return the variables of their clients."""
    directory.mkdir(parents=True)
    place = OperatedPlace.load(os.environ, directory, directory)
    return stack.enter_context(storage(place.options(1)))
