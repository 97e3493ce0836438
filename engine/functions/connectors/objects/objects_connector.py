"""Objects of S3 and servers of its protocol, as source and sink."""

import asyncio
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from engine.functions.connectors.built_in import BuiltIn, ConnectorEnd
from engine.functions.connectors.connector_settings import Schema, fields, number, text, url, whole
from engine.functions.connectors.files.chunk_log import ChunkLog, SourceChunk
from engine.functions.connectors.objects.bundle_formats import LINES, READERS
from engine.functions.connectors.objects.bundling_sink import BundlingSink, bundle_fields
from engine.functions.connectors.spi import ConnectorContext, ConnectorError, Record, Source
from engine.functions.connectors.tls_settings import TRUST, PemFiles, trust_field
from engine.offload.errors import MissingObjectError
from engine.offload.object_store import BucketObject, ObjectStore
from engine.offload.stores.obstore_stores import ANSWER_S, CONNECT_S, ObstoreStore

CHUNK_RECORDS = 1000
END = 1 << 62
"""The end of an object's last chunk, which offsets count in records."""
KEEP, DELETE = "keep", "delete"
TRUST_VARIABLE = "SSL_CERT_FILE"


def bucket_fields() -> dict[str, Schema]:
    """Return the settings of a bucket."""
    return {
        "bucket": text("Bucket", "Name of the bucket"),
        "prefix": text("Prefix", "Folder of the objects in the bucket", pattern="^[^/].*$"),
        "endpoint": url(
            "Endpoint", "URL of a server of the S3 protocol; empty: Amazon's", "^https?://[^/@?#]"
        ),
        "region": text("Region", "Region of the bucket", "us-east-1"),
        "accessKeyId": text("Access key", "Id of the access key", secret=True),
        "secretAccessKey": text("Secret key", "Secret of the access key", secret=True),
        "sessionToken": text("Session token", "Token of temporary keys", secret=True),
        **trust_field(),
    }


SINK_SETTINGS = fields(("bucket",), **bucket_fields(), **bundle_fields())
SOURCE_SETTINGS = fields(
    ("bucket",),
    **bucket_fields(),
    format=text(
        "Format",
        "lines: a record of each line, as of JSON lines; parquet: a JSON object of each row; whole: one of each object",
        LINES,
        choices=tuple(READERS),
    ),
    afterwards=text(
        "Afterwards",
        "What becomes of an object whose records are all stored",
        KEEP,
        choices=(KEEP, DELETE),
    ),
    maxObjectBytes=whole(
        "Bytes", "Bytes of an object at most; larger ones are reported", 256 << 20, 1, 1 << 32
    ),
    pollSeconds=number("Poll", "Seconds between listings of the bucket", 10.0, 0.05, 86_400),
)


def open_bucket(settings: Mapping[str, Any]) -> ObjectStore:
    """Open the bucket of the settings. Raises ConnectorError."""
    try:
        import obstore
        from obstore.store import S3Store
    except ImportError as error:
        raise ConnectorError(
            "the package obstore is not installed: pip install 'magnetar[connectors]'"
        ) from error
    endpoint = settings.get("endpoint", "")
    options = {
        "endpoint": endpoint or None,
        "access_key_id": settings.get("accessKeyId"),
        "secret_access_key": settings.get("secretAccessKey"),
        "session_token": settings.get("sessionToken"),
        "prefix": settings.get("prefix"),
    }
    try:
        with _trusted(settings):
            store = S3Store(
                settings["bucket"],
                region=settings["region"],
                virtual_hosted_style_request=not endpoint,
                client_options={
                    "timeout": f"{ANSWER_S}s",
                    "connect_timeout": f"{CONNECT_S}s",
                    "allow_http": endpoint.startswith("http://"),
                },
                **{name: value for name, value in options.items() if value},
            )
    except (ValueError, obstore.exceptions.BaseError) as error:
        raise ConnectorError(f"configs.bucket: {str(error).splitlines()[0]}") from error
    return ObstoreStore(obstore, store)


@contextmanager
def _trusted(settings: Mapping[str, Any]) -> Iterator[None]:
    """Have the library trust the authorities of the settings: it reads them when a store is made, from the file that
    this variable names, and has no option for them. Raises ConnectorError."""
    with PemFiles(settings) as files:
        path = files.paths.get(TRUST)
        if path is None:
            yield
            return
        files.client_context()  # names the setting that is wrong, which the library does not
        before = os.environ.get(TRUST_VARIABLE)
        os.environ[TRUST_VARIABLE] = path
        try:
            yield
        finally:
            if before is None:
                del os.environ[TRUST_VARIABLE]
            else:
                os.environ[TRUST_VARIABLE] = before


class ObjectsSink(BundlingSink):
    """A sink of objects."""

    async def store(self, settings: Mapping[str, Any]) -> ObjectStore:
        """See ``BundlingSink``."""
        return open_bucket(settings)


class ObjectsSource(Source):
    """A source of objects in the order of their keys. An object does not change once it exists."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Source``."""
        self._settings, self._context = settings, context
        self._store = open_bucket(settings)
        self._deletes = settings["afterwards"] == DELETE
        self._split = READERS[settings["format"]]
        self._chunks = ChunkLog("objects", context)
        self._again = await self._chunks.load()
        self._values: dict[str, list[bytes]] = {}
        self._stuck: set[str] = set()
        """Objects that cannot be read, which were reported."""
        self._deletable: dict[str, list[SourceChunk]] = {}

    async def read(self) -> Sequence[Record]:
        """See ``Source``."""
        while self._again:
            chunk = self._again.pop(0)
            values = await self._values_of(chunk.name)
            if values is not None:
                return self._records(chunk, values)
            self._context.trouble(f"{chunk.name}: it went before its records were stored")
            chunk.unacked = 0
        while True:
            if not self._chunks.full:
                for key in list(self._values):  # without a listing for each chunk
                    records = await self._next_of(key)
                    if records:
                        return records
                async for listed in self._store.listed():
                    if self._is_stuck(listed):
                        continue
                    records = await self._next_of(listed.key)
                    if records:
                        return records
            await asyncio.sleep(self._settings["pollSeconds"])

    def _is_stuck(self, listed: BucketObject) -> bool:
        """Return whether an object cannot be read; one that is too large is reported once."""
        most = self._settings["maxObjectBytes"]
        if listed.size > most and listed.key not in self._stuck:
            self._stuck.add(listed.key)
            text = f"{listed.size} bytes exceed configs.maxObjectBytes, {most}"
            self._context.trouble(f"{listed.key}: {text}")
        return listed.key in self._stuck

    async def _remove(self, key: str) -> None:
        await self._store.delete([key])
        # A new object may have the same key.
        self._values.pop(key, None)
        await self._chunks.forget(key)

    async def _next_of(self, key: str) -> list[Record]:
        """Return the next records of an object, none when it has been read."""
        if zlib.crc32(key.encode()) % self._context.instances != self._context.instance:
            return []
        start = await self._chunks.offset(key)
        if start == END:
            if self._deletes and key not in self._deletable:  # the instance ended before it could
                await self._remove(key)
            return []
        try:
            values = await self._values_of(key)
        except ConnectorError as error:  # it has another format than it should
            self._stuck.add(key)
            self._context.trouble(f"{key}: {error}")
            return []
        if values is None:
            return []
        stop = start + CHUNK_RECORDS
        records = len(values[start:stop])
        end = END if stop >= len(values) else stop
        return self._records(await self._chunks.begin(key, start, end, records), values)

    async def _values_of(self, key: str) -> list[bytes] | None:
        """Return the records of an object, None when it is gone."""
        values = self._values.get(key)
        if values is None:
            try:
                data = (await self._store.get(key)).data
            except MissingObjectError:
                return None
            values = await asyncio.to_thread(self._split, data)
            self._values = {key: values}
        return values

    def _records(self, chunk: SourceChunk, values: list[bytes]) -> list[Record]:
        if self._deletes:
            self._deletable.setdefault(chunk.name, []).append(chunk)
        return self._chunks.records(chunk, values[chunk.start : chunk.stop])

    async def commit(self) -> None:
        """See ``Source``."""
        await self._chunks.commit()
        for key, chunks in list(self._deletable.items()):
            if chunks[-1].stop == END and not any(chunk.unacked for chunk in chunks):
                await self._remove(key)
                del self._deletable[key]


OBJECTS = BuiltIn(
    "s3",
    "Reads and writes objects of S3 and servers of its protocol: JSON lines, Parquet",
    source=ConnectorEnd(
        ObjectsSource,
        SOURCE_SETTINGS,
        "effectively once",
        "Each record of an object is published once, where the output topic deduplicates (EFFECTIVELY_ONCE). "
        "Objects do not change once they exist.",
    ),
    sink=ConnectorEnd(
        ObjectsSink,
        SINK_SETTINGS,
        "effectively once",
        "Each message is in one object with EFFECTIVELY_ONCE; else a message may be in two after a failure.",
    ),
    needs="connectors",
)
