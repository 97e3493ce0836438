"""Object stores by the library obstore, which comes with the extra ``offload``: S3, Google Cloud Storage, Azure.

Credentials are those of the process's environment, or the role of the machine: see ``providers``.
"""

import asyncio
import datetime
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.offload.bucket import FILES, S3, Bucket, driver_of
from engine.offload.errors import (
    DamagedObjectError,
    MissingObjectError,
    ObjectStoreError,
    OffloadError,
    StoreTrouble,
)
from engine.offload.object_store import BucketObject, ObjectStore, StoredObject
from engine.offload.stores.ending import EndablePieces, unbroken
from engine.offload.stores.folder_store import FolderStore
from engine.offload.stores.providers import NO_CREDENTIALS, credentials_text, provider_store

PART_BYTES = 8 << 20
"""Bytes of one part of an upload, of which at most two are held. Smaller objects are put by one request."""
RETRIES = 2
RETRY_S = 10
ANSWER_S = 30
CONNECT_S = 5
ERROR_CHARS = 300
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
"""Parts of errors when the bucket itself is missing: of S3, of Azure."""


class ConfiguredStores:
    """The stores of a process, each opened once. ``default`` is the bucket of its settings, None without one."""

    def __init__(self, default: Bucket | None) -> None:
        self._default = default
        self._stores: dict[Bucket, ObjectStore] = {}

    def open(self, bucket: Bucket) -> ObjectStore:
        """Return the store of ``bucket``; see ``ObjectStores``."""
        if not bucket.name and self._default is not None and self._default.driver == bucket.driver:
            bucket = self._default
        store = self._stores.get(bucket)
        if store is None:
            store = self._stores[bucket] = _opened(bucket)
        return store


def _opened(bucket: Bucket) -> ObjectStore:
    if not bucket.name:
        raise OffloadError(f"{bucket.driver or 'tiered storage'}: no bucket is configured")
    if driver_of(bucket.driver) == FILES:
        return FolderStore(Path(bucket.name))
    try:
        import obstore
        import obstore.exceptions
        from obstore import store as kinds
    except ImportError as error:
        raise OffloadError(
            f"{bucket}: the package obstore is not installed: pip install 'magnetar[offload]'"
        ) from error
    options: dict[str, Any] = {
        "client_options": {
            "timeout": f"{ANSWER_S}s",
            "connect_timeout": f"{CONNECT_S}s",
            "allow_http": bucket.endpoint.startswith("http://"),
        },
        "retry_config": {
            "max_retries": RETRIES,
            "retry_timeout": datetime.timedelta(seconds=RETRY_S),
        },
    }
    provider = provider_store(bucket._replace(driver=driver_of(bucket.driver)), os.environ)
    try:
        store: Any = getattr(kinds, provider.kind)(bucket.name, **provider.arguments, **options)
    except (ValueError, OSError, obstore.exceptions.BaseError) as error:
        raise OffloadError(f"{bucket}: {_reason(error, bucket.driver)}") from error
    return ObstoreStore(obstore, store, bucket.driver)


class ObstoreStore:
    """One bucket of a provider."""

    keeps_attributes = True

    def __init__(self, library: Any, store: Any, driver: str = S3) -> None:
        self._obstore = library
        self._store = store
        self.driver = driver
        self._uploads: dict[str, asyncio.Future[Any]] = {}
        """Uploads that have not ended, by key; some without a caller, who was cancelled."""

    async def put(
        self, key: str, pieces: AsyncIterator[bytes], attributes: Mapping[str, str]
    ) -> None:
        """See ``ObjectStore``. An object of at most one part is put by one request, which leaves nothing behind. The
        parts of a larger one are aborted when ``pieces`` fails or the caller is cancelled; those of a process that is
        killed stay in the bucket."""
        with self._errors(key):
            head, is_whole = await _first_part(pieces)
            feed = EndablePieces(head, pieces)
            upload = self._obstore.put_async(
                self._store,
                key,
                b"".join(head) if is_whole else feed,
                attributes=dict(attributes),
                use_multipart=not is_whole,
                chunk_size=PART_BYTES,
                max_concurrency=2,
            )
            self._uploads[key] = upload
            upload.add_done_callback(partial(self._ended, key))
            await unbroken(upload, feed.end)

    def _ended(self, key: str, upload: asyncio.Future[Any]) -> None:
        if self._uploads.get(key) is upload:
            del self._uploads[key]

    async def get(self, key: str) -> StoredObject:
        """See ``ObjectStore``."""
        with self._errors(key):
            answer = await self._obstore.get_async(self._store, key)
            attributes = {str(name): str(value) for name, value in answer.attributes.items()}
            return StoredObject(bytes(await answer.bytes_async()), attributes)

    async def get_ranges(self, key: str, bounds: Sequence[int]) -> list[bytes]:
        """See ``ObjectStore``."""
        start = bounds[0]
        with self._errors(key):
            data = await self._obstore.get_range_async(
                self._store, key, start=start, end=bounds[-1]
            )
        view = memoryview(data)
        ranges: list[bytes] = []
        for low, high in pairwise(bounds):
            ranges.append(bytes(view[low - start : high - start]))
            # A turn of the event loop copies one range, because clients wait for its end.
            await asyncio.sleep(0)
        return ranges

    async def attributes(self, key: str) -> Mapping[str, str]:
        """See ``ObjectStore``."""
        with self._errors(key):
            answer = await self._obstore.get_async(self._store, key, options={"head": True})
            return {str(name): str(value) for name, value in answer.attributes.items()}

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``ObjectStore``. Raises ObjectStoreError for an object that an upload may still write."""
        for key in keys:
            if key in self._uploads:
                raise ObjectStoreError(f"object {key}: its upload has not ended", StoreTrouble.SLOW)
            try:
                with self._errors(key):
                    await self._obstore.delete_async(self._store, key)
            except MissingObjectError:
                pass

    async def listed(self, prefix: str = "") -> AsyncIterator[BucketObject]:
        """See ``ObjectStore``."""
        with self._errors(prefix):
            async for rows in self._obstore.list(self._store):
                for row in rows:
                    if row["path"].startswith(prefix):
                        modified_ms = round(row["last_modified"].timestamp() * 1000)
                        yield BucketObject(row["path"], row["size"], modified_ms)

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if any(part in str(error) for part in NO_BUCKET):
                raise ObjectStoreError(
                    f"object {key}: no such bucket", StoreTrouble.MISSING
                ) from error
            raise MissingObjectError(f"object {key} does not exist") from error
        except (self._obstore.exceptions.BaseError, OSError) as error:
            if "UnexpectedRange" in str(error):
                raise DamagedObjectError(f"object {key}: {_short(error)}") from error
            reason = _reason(error, self.driver)
            raise ObjectStoreError(f"object {key}: {reason}", _trouble(error)) from error


async def _first_part(pieces: AsyncIterator[bytes]) -> tuple[list[bytes], bool]:
    """Return pieces up to PART_BYTES, or the first one behind it, and whether they are all."""
    head: list[bytes] = []
    size = 0
    async for piece in pieces:
        head.append(piece)
        size += len(piece)
        if size > PART_BYTES:
            return head, False
    return head, True


_TEXTS = (
    (StoreTrouble.FORBIDDEN, (" 403", " 401", "AccessDenied", "Forbidden", "credentials")),
    (StoreTrouble.FULL, (" 507", "QuotaExceeded", "XMinioStorageFull", "Insufficient Storage")),
    (StoreTrouble.SLOW, ("timed out", "TimedOut", " 503", " 429", "SlowDown")),
    (StoreTrouble.AWAY, ("Connect", "connect", "dns error", "HTTP error", "error sending request")),
)
"""Parts of the texts of errors, which the library has no types for, by trouble; the first that is found counts.
A status has a space before it, which the port in an address has not."""


def _trouble(error: BaseException) -> StoreTrouble:
    if isinstance(error, PermissionError) or type(error).__name__ in (
        "PermissionDeniedError",
        "UnauthenticatedError",
    ):
        return StoreTrouble.FORBIDDEN
    text = str(error)
    if any(part in text for part in NO_CREDENTIALS):
        return StoreTrouble.FORBIDDEN
    for trouble, parts in _TEXTS:
        if any(part in text for part in parts):
            return trouble
    return StoreTrouble.FAILED


def _reason(error: BaseException, driver: str) -> str:
    """Return why a request failed: what the process lacks, where the library only says where it looked for that."""
    if any(part in str(error) for part in NO_CREDENTIALS):
        return credentials_text(driver_of(driver))
    return _short(error)


def _short(error: BaseException) -> str:
    """Return the first line of an error's text, in which the library puts the reason."""
    return str(error).partition("\n")[0][:ERROR_CHARS]
