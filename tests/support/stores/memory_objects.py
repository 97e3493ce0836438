"""Object stores in memory that fail and damage objects on request."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import pairwise

from engine.offload.bucket import Bucket
from engine.offload.errors import MissingObjectError, ObjectStoreError
from engine.offload.object_store import BucketObject, StoredObject


class MemoryObjects:
    """One bucket. ``fail`` is asked before each request, by the name of its method and its key."""

    keeps_attributes = True

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.modified_ms = 0
        """Time at which all objects were written."""
        self.requests: list[tuple[str, str]] = []
        self.fail: Callable[[str, str], bool] = lambda _method, _key: False

    def _begin(self, method: str, key: str) -> None:
        self.requests.append((method, key))
        if self.fail(method, key):
            raise ObjectStoreError(f"{method} of {key} failed")

    async def put(
        self, key: str, pieces: AsyncIterator[bytes], attributes: Mapping[str, str]
    ) -> None:
        self._begin("put", key)
        self.objects[key] = StoredObject(b"".join([piece async for piece in pieces]), attributes)

    async def get(self, key: str) -> StoredObject:
        self._begin("get", key)
        if key not in self.objects:
            raise MissingObjectError(f"no object {key}")
        return self.objects[key]

    async def get_ranges(self, key: str, bounds: Sequence[int]) -> list[bytes]:
        self._begin("get_ranges", key)
        if key not in self.objects:
            raise MissingObjectError(f"no object {key}")
        data = self.objects[key].data
        return [data[start:stop] for start, stop in pairwise(bounds)]

    async def attributes(self, key: str) -> Mapping[str, str]:
        self._begin("attributes", key)
        if key not in self.objects:
            raise MissingObjectError(f"no object {key}")
        return self.objects[key].attributes

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._begin("delete", key)
            self.objects.pop(key, None)

    async def listed(self, prefix: str = "") -> AsyncIterator[BucketObject]:
        self._begin("listed", prefix)
        for key, stored in sorted(self.objects.items()):
            if key.startswith(prefix):
                yield BucketObject(key, len(stored.data), self.modified_ms)

    def damage(self, key: str, at: int, data: bytes) -> None:
        """Replace bytes of a stored object from ``at`` on."""
        stored = self.objects[key]
        changed = stored.data[:at] + data + stored.data[at + len(data) :]
        self.objects[key] = StoredObject(changed, stored.attributes)


class MemoryObjectStores:
    """Stores by bucket, each created when it is first opened."""

    def __init__(self) -> None:
        self.stores: dict[Bucket, MemoryObjects] = {}

    def open(self, bucket: Bucket) -> MemoryObjects:
        return self.stores.setdefault(bucket, MemoryObjects())
