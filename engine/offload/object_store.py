"""The port of an object store: what tiered storage needs of S3, Google Cloud Storage, Azure or a file system.

It is a seam: the simulator has a store of its own behind it, which loses, delays, tears and repeats requests.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from engine.offload.bucket import Bucket


class StoredObject(NamedTuple):
    """A whole object with the attributes that it was put with; their names may have changed to lower case."""

    data: bytes
    attributes: Mapping[str, str]


class BucketObject(NamedTuple):
    """An object as a bucket lists it. ``modified_ms``: wall time of the store."""

    key: str
    size: int
    modified_ms: int


class ObjectStore(Protocol):
    """One bucket. Keys are flat names. All methods raise ObjectStoreError when the store fails, and are cancel-safe
    but for ``put``, which may leave the object written or not."""

    @property
    def keeps_attributes(self) -> bool:
        """False for a store that cannot keep attributes, which then are not put."""
        ...

    async def put(
        self, key: str, pieces: AsyncIterator[bytes], attributes: Mapping[str, str]
    ) -> None:
        """Write an object from consecutive ``pieces``, in place of one of the same key. It exists whole or not at all;
        an error of ``pieces`` is raised and leaves none."""
        ...

    async def get(self, key: str) -> StoredObject:
        """Return a whole object. Raises MissingObjectError."""
        ...

    async def get_ranges(self, key: str, bounds: Sequence[int]) -> list[bytes]:
        """Return the bytes from each of ``bounds``, which rise, up to the next, by one request. Each range has a
        buffer of its own; it has fewer bytes when the object ends before. Raises MissingObjectError."""
        ...

    async def attributes(self, key: str) -> Mapping[str, str]:
        """Return the attributes of an object; none of a store that keeps none. Raises MissingObjectError."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects. Those that do not exist count as deleted."""
        ...

    def listed(self, prefix: str = "") -> AsyncIterator[BucketObject]:
        """Return the objects whose keys begin with ``prefix``."""
        ...


class ObjectStores(Protocol):
    """The object stores that a process can use, by bucket."""

    def open(self, bucket: Bucket) -> ObjectStore:
        """Return the store of ``bucket``; one without a name is that of the settings. Raises OffloadError with the
        reason why there is none."""
        ...
