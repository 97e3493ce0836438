"""The object stores as one topic uses them: its reads are counted and stay within the bound of the process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from engine.base.measures.byte_rate import ByteRate
from engine.base.measures.durations import Durations
from engine.offload.bucket import Bucket
from engine.offload.errors import OffloadError
from engine.offload.meters import Meters
from engine.offload.object_names import INDEX_ENDING
from engine.offload.object_store import BucketObject, ObjectStore, ObjectStores, StoredObject


class MeteredStores:
    """The stores of ``stores``, which count in the result of ``meters`` once they are used."""

    def __init__(self, stores: ObjectStores, meters: Callable[[], Meters], rate: ByteRate) -> None:
        self._stores = stores
        self._meters = meters
        self._rate = rate

    def open(self, bucket: Bucket) -> ObjectStore:
        """Return the store of ``bucket``; see ``ObjectStores``."""
        return MeteredStore(self._stores.open(bucket), self._meters(), self._rate)


class MeteredStore:
    """One bucket; see ``ObjectStore``."""

    def __init__(self, store: ObjectStore, meters: Meters, rate: ByteRate) -> None:
        self._store = store
        self._meters = meters
        self._rate = rate

    @property
    def keeps_attributes(self) -> bool:
        return self._store.keeps_attributes

    async def put(
        self, key: str, pieces: AsyncIterator[bytes], attributes: Mapping[str, str]
    ) -> None:
        """See ``ObjectStore``; not counted here."""
        await self._store.put(key, pieces, attributes)

    async def get(self, key: str) -> StoredObject:
        """See ``ObjectStore``. Counted as the reading of an index."""
        with self._counted(self._meters.index_reads):
            return await self._store.get(key)

    async def get_ranges(self, key: str, bounds: Sequence[int]) -> list[bytes]:
        """See ``ObjectStore``; waits until the bytes are within the bound."""
        await self._rate.take(bounds[-1] - bounds[0])
        with self._counted(self._meters.data_reads):
            ranges = await self._store.get_ranges(key, bounds)
        self._meters.read_bytes += sum(map(len, ranges))
        return ranges

    async def attributes(self, key: str) -> Mapping[str, str]:
        """See ``ObjectStore``."""
        return await self._store.attributes(key)

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``ObjectStore``. A ledger counts as deleted with its data, which is deleted after its index."""
        try:
            await self._store.delete(keys)
        except OffloadError:
            self._meters.not_deleted += 1
            raise
        self._meters.deleted += sum(not key.endswith(INDEX_ENDING) for key in keys)

    def listed(self, prefix: str = "") -> AsyncIterator[BucketObject]:
        """See ``ObjectStore``."""
        return self._store.listed(prefix)

    @contextmanager
    def _counted(self, reads: Durations) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        except OffloadError as error:
            self._meters.read_errors += 1
            self._meters.read_error = f"{error.trouble}: {error}"
            raise
        self._meters.read_error = ""
        reads.add(loop.time() - began)
