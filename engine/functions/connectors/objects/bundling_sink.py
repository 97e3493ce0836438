"""A sink that collects messages of a partition into objects, each of which is written whole or not at all."""

import asyncio
import hashlib
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from engine.base.tasks import TaskScope
from engine.functions.connectors.connector_settings import Schema, number, text, whole
from engine.functions.connectors.objects.bundle_formats import FORMS, JSON_LINES
from engine.functions.connectors.spi import (
    ConnectorContext,
    ConnectorError,
    LostEndError,
    Record,
    Sink,
)
from engine.offload.errors import ObjectStoreError
from engine.offload.object_store import ObjectStore

DIGITS = 32
"""Digits of a sequence in an object's name, so that names sort as sequences do."""
HELD_BYTES_MAX = 256 << 20
"""Bytes of values that wait for their objects at most, of all partitions."""
NAME_CHARS_MAX = 120
"""Characters of a partition in an object's name at most: a file's name has 255."""


def bundle_fields() -> dict[str, Schema]:
    """Return the settings of all sinks of this kind."""
    return {
        "format": text(
            "Format",
            "lines: values alone; json: a JSON object of each message; parquet: a row of each message, the "
            "value as bytes; parquet-columns: a column for each field of values that are JSON objects",
            JSON_LINES,
            choices=tuple(FORMS),
        ),
        "maxMessages": whole("Messages", "Messages of an object at most", 10_000, 1, 1_000_000),
        "maxBytes": whole("Bytes", "Bytes of values in an object at most", 64 << 20, 1, 1 << 30),
        "maxSeconds": number(
            "Age",
            "Seconds after its first message in which an object is written",
            60.0,
            0.05,
            86_400,
        ),
    }


class _Bundle:
    """Messages of one partition that wait for their object."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.rows: list[Any] = []
        self.bytes = 0
        self.timer: asyncio.TimerHandle | None = None


class BundlingSink(Sink):
    """See the module. ``store`` opens the store from the settings.

    With EFFECTIVELY_ONCE the messages come in order: an object is named by their first and last sequence, and those
    that the store's names cover are acknowledged without being written again. Else it is named by the time.
    """

    @abstractmethod
    async def store(self, settings: Mapping[str, Any]) -> ObjectStore:
        """Open the store. Raises ConnectorError that names the setting."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Sink``."""
        self._settings, self._context = settings, context
        self._form = FORMS[settings["format"]]
        self._store = await self.store(settings)
        self._bundles: dict[str, _Bundle] = {}
        self._written: dict[str, int] = {}
        self._ordered = context.guarantee == "EFFECTIVELY_ONCE"
        self._objects = self._held = 0
        self._tasks = TaskScope("bundles", self._on_error)
        self._writing = asyncio.Lock()
        self._error: BaseException | None = None

    async def write(self, records: Sequence[Record]) -> None:
        """See ``Sink``. Raises the error of an object that was to be written since the last call."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        try:
            for record in records:
                await self._take(record)
        except ObjectStoreError as error:
            raise LostEndError(str(error)) from error

    async def _take(self, record: Record) -> None:
        """Put a message into its bundle, and write that once it is full."""
        if self._ordered and _sequence(record) <= await self._written_up_to(record.partition):
            record.ack()
            return
        try:
            row = self._form.row(record)
        except ConnectorError as error:
            record.fail(error)
            return
        bundle = self._bundles.get(record.partition)
        if bundle is None:
            bundle = self._bundles[record.partition] = _Bundle()
            bundle.timer = asyncio.get_running_loop().call_later(
                self._settings["maxSeconds"], self._due, record.partition, bundle
            )
        size = len(record.payload)
        bundle.records.append(record)
        bundle.rows.append(row)
        bundle.bytes += size
        self._held += size
        full = len(bundle.rows) >= self._settings["maxMessages"]
        if full or bundle.bytes >= self._settings["maxBytes"]:
            await self._write(record.partition, bundle)
        elif self._held > HELD_BYTES_MAX:
            await self._write(*max(self._bundles.items(), key=lambda held: held[1].bytes))

    async def _written_up_to(self, partition: str) -> int:
        """Return the last sequence in the names of a partition's objects; -1 without any."""
        written = self._written.get(partition)
        if written is None:
            prefix = f"{_flat(partition)}-"
            written = -1
            async for listed in self._store.listed(prefix):
                last = listed.key.removeprefix(prefix).partition(".")[0].split("-")
                if len(last) == 2 and last[1].isdecimal():
                    written = max(written, int(last[1]))
            self._written[partition] = written
        return written

    def _due(self, partition: str, bundle: _Bundle) -> None:
        if not self._tasks.closed:
            self._tasks.spawn("write", self._write(partition, bundle))

    def _on_error(self, name: str, error: BaseException) -> None:
        self._error = error

    async def _write(self, partition: str, bundle: _Bundle) -> None:
        """Write a bundle and acknowledge its messages; they fail with the store."""
        async with self._writing:
            if self._bundles.get(partition) is not bundle:  # written meanwhile
                return
            del self._bundles[partition]
            if bundle.timer is not None:
                bundle.timer.cancel()
            self._held -= bundle.bytes
            await self._put(partition, bundle.records, bundle.rows)

    async def _put(self, partition: str, records: Sequence[Record], rows: Sequence[Any]) -> None:
        """Write messages as one object and acknowledge them; they fail with the store. Where no object can hold all,
        as with a column of two types, they are in several."""
        try:
            data = await asyncio.to_thread(self._form.bundle, rows)
        except ConnectorError as error:
            if len(rows) == 1:
                records[0].fail(error)
                return
            half = len(rows) // 2
            await self._put(partition, records[:half], rows[:half])
            await self._put(partition, records[half:], rows[half:])
            return
        try:
            await self._store.put(self._name(partition, records), _piece(data), {})
        except ObjectStoreError as error:
            lost = LostEndError(str(error))
            for record in records:
                record.fail(lost)
            raise lost from error
        for record in records:
            record.ack()
        self._context.record_metric("object_bytes", len(data))

    def _name(self, partition: str, records: Sequence[Record]) -> str:
        if self._ordered:
            first, last = _sequence(records[0]), _sequence(records[-1])
        else:
            # Messages that are delivered again may have other neighbours: their object replaces none.
            self._objects += 1
            first, last = self._context.clock.wall_ms(), self._objects
            partition = f"{partition}.{self._context.instance}"
        return f"{_flat(partition)}-{first:0{DIGITS}d}-{last:0{DIGITS}d}.{self._form.ending}"

    async def flush(self) -> None:
        """See ``Sink``."""
        for partition, bundle in list(self._bundles.items()):
            await self._write(partition, bundle)

    async def close(self) -> None:
        """See ``Sink``. Messages whose object is not written stay unacknowledged."""
        for bundle in self._bundles.values():
            if bundle.timer is not None:
                bundle.timer.cancel()
        await self._tasks.close()


def _sequence(record: Record) -> int:
    assert record.sequence is not None, "messages in order have sequences"
    return record.sequence


def _flat(partition: str) -> str:
    """Return a partition's name as a part of a file's name, different for each."""
    plain = partition.removeprefix("persistent://")
    # An underscore is quoted, since it stands for a hyphen, which ends the name.
    quoted = quote(plain, safe="").replace("_", "%5F").replace("-", "_")
    name = quoted.replace("%2F", "+").replace("%", "=")
    if len(name) <= NAME_CHARS_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[:NAME_CHARS_MAX]}~{digest}"


async def _piece(data: bytes) -> AsyncIterator[bytes]:
    yield data
