"""The schemas that a change log's payloads were written by, as Apache Pulsar's registry keeps them.

``/schemas/<tenant>/<ns>/<topic>`` names the ledger entry of each version: protobuf by hand, see ``docs/formats``.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct

from engine.base.clock import Clock
from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.managed.cursors.cursor_ledger import CursorLedger
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.metadata.protobinary import put_bytes, put_int, take_fields
from engine.metadata.records import Document, RecordFormatError
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from engine.tenancy.avro import AvroError, AvroSchema
from engine.tenancy.change_events import SCHEMA, SCHEMA_TEXT
from engine.wire.batches import read_metadata
from engine.wire.events import Delivered

AVRO = 5
"""The registry's number for the kind of schema."""
PROPERTIES = {"__jsr310ConversionEnabled": "false", "__alwaysAllowNull": "true"}
NOWHERE = -1
"""Ledger and entry in the copy of its own index entry that an entry carries."""
ENTRY_BYTES_MAX = 1 << 20
OUR_HASH = sha256(SCHEMA_TEXT.encode()).digest()
_VERSION = Struct(">q")


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version, and where its entry is. ``hash``: SHA-256 of the definition."""

    version: int
    ledger_id: int
    entry_id: int
    hash: bytes


class EventSchemas:
    """Of one log, known once they were met. The version of a topic without a registered schema is ours."""

    def __init__(
        self,
        topic: TopicName,
        *,
        store: MetadataStore,
        ledgers: LedgerClient,
        config: LedgerConfig,
        clock: Clock,
    ) -> None:
        """``config``: how a ledger for our schema is replicated."""
        self._id = f"{topic.namespace}/{topic.encoded_local}"
        self._store = store
        self._ledgers = ledgers
        self._config = config
        self._clock = clock
        self._known: dict[int, AvroSchema | AvroError] = {0: SCHEMA}
        self._newest = 0

    def decode(self, version: bytes, payload: bytes) -> Document:
        """The event. Raises AvroError, also for a version that is not known."""
        event = self._readable(_number(version)).decode(payload)
        if not isinstance(event, dict):
            raise AvroError("not a record")
        return event

    def encode(self, event: Document) -> tuple[bytes, bytes]:
        """Version and payload, by the newest schema: it has a place for whatever others wrote. Raises AvroError."""
        return _VERSION.pack(self._newest), self._readable(self._newest).encode(event)

    def _readable(self, version: int) -> AvroSchema:
        found = self._known.get(version)
        if isinstance(found, AvroSchema):
            return found
        raise AvroError(f"schema version {version} is not known" if found is None else str(found))

    async def learn(self, entries: Iterable[Delivered]) -> None:
        """Know the versions that these entries name, where they are registered. Raises as ``load``."""
        found = (read_metadata(one.entry) for one in entries)
        if any(one is not None and _number(one.schema_version) not in self._known for one in found):
            await self.load()

    async def load(self) -> bool:
        """Know all versions; False when none is registered. Raises LedgerError, the store's errors."""
        try:
            value, _ = await self._store.get(paths.schema(self._id))
        except NoNodeError:
            self._known, self._newest = {0: SCHEMA}, 0
            return False
        newest, versions = parse_locator(value)
        known: dict[int, AvroSchema | AvroError] = {}
        for one in versions:
            # A topic that was made anew counts from 0 again.
            known[one.version] = SCHEMA if one.hash == OUR_HASH else await self._fetched(one)
        self._known, self._newest = known, newest
        return True

    async def _fetched(self, one: SchemaVersion) -> AvroSchema | AvroError:
        reader = await self._ledgers.open(one.ledger_id, recover=False)
        (run,) = await reader.read(one.entry_id, one.entry_id, ENTRY_BYTES_MAX)
        try:
            return AvroSchema(json.loads(parse_entry(run.entry(0))))
        except (AvroError, RecordFormatError, ValueError) as error:
            return AvroError(f"schema version {one.version} cannot be read: {error}")

    async def ensure(self) -> None:
        """Have a schema registered, ours when there is none. Raises as ``load``; then, and when cancelled, a ledger
        may be left that nobody names."""
        if await self.load():
            return
        custom = {"application": b"pulsar", "component": b"schema"}
        custom["pulsar/schemaId"] = self._id.encode()
        ledger = await CursorLedger.create(self._ledgers, self._config, custom)
        entry_id = await ledger.append(entry(self._id, SCHEMA_TEXT, self._clock.wall_ms()))
        await ledger.close()
        ours = SchemaVersion(0, ledger.ledger_id, entry_id, OUR_HASH)
        try:
            await self._store.create(paths.schema(self._id), locator([ours]), make_parents=True)
        except NodeExistsError:
            await self._ledgers.delete(ledger.ledger_id)
            await self.load()


def _number(version: bytes) -> int:
    """Of a message's ``schema_version``; 0 for none, -1 for one of another length."""
    if not version:
        return 0
    return int(_VERSION.unpack(version)[0]) if len(version) == _VERSION.size else -1


# --- records -------------------------------------------------------------------------------------


def _index(one: SchemaVersion) -> bytes:
    place, out = bytearray(), bytearray()
    put_int(place, 1, one.ledger_id)
    put_int(place, 2, one.entry_id)
    put_int(out, 1, one.version)
    put_bytes(out, 2, bytes(place))
    put_bytes(out, 3, one.hash)
    return bytes(out)


def locator(versions: list[SchemaVersion]) -> bytes:
    """The node: 1 index entry of the newest, 2 index entries of all, oldest first."""
    out = bytearray()
    put_bytes(out, 1, _index(versions[-1]))
    for one in versions:
        put_bytes(out, 2, _index(one))
    return bytes(out)


def parse_locator(value: bytes) -> tuple[int, list[SchemaVersion]]:
    """The newest version, and all, oldest first. Raises RecordFormatError."""
    try:
        fields = [(number, bytes(found)) for number, found in _texts(value)]
        versions = {one.version: one for one in (_parse_index(found) for _, found in fields)}
        newest = next(_parse_index(found).version for number, found in fields if number == 1)
    except (ValueError, IndexError, KeyError, StopIteration) as error:
        raise RecordFormatError(f"schema locator: {error!r}") from error
    return newest, [versions[number] for number in sorted(versions)]


def _parse_index(data: bytes) -> SchemaVersion:
    fields = dict(take_fields(data))
    place, digest = fields[2], fields.get(3, b"")
    if not isinstance(place, bytes) or not isinstance(digest, bytes):
        raise ValueError("no position")
    at = dict(take_fields(place))
    return SchemaVersion(int(fields[1]), int(at[1]), int(at[2]), digest)


def entry(schema_id: str, definition: str, now_ms: int) -> bytes:
    """The first version's ledger entry: 2 the schema (1 id, 2 user, 3 kind, 4 definition, 5 when, 6 deleted,
    7 properties), 5 its index entry."""
    schema, out = bytearray(), bytearray()
    put_bytes(schema, 1, schema_id.encode())
    put_bytes(schema, 2, b"")
    put_int(schema, 3, AVRO)
    put_bytes(schema, 4, definition.encode())
    put_int(schema, 5, now_ms)
    put_int(schema, 6, 0)
    for key, value in PROPERTIES.items():
        pair = bytearray()
        put_bytes(pair, 1, key.encode())
        put_bytes(pair, 2, value.encode())
        put_bytes(schema, 7, bytes(pair))
    put_bytes(out, 2, bytes(schema))
    digest = sha256(definition.encode()).digest()
    put_bytes(out, 5, _index(SchemaVersion(0, NOWHERE, NOWHERE, digest)))
    return bytes(out)


def parse_entry(data: bytes) -> str:
    """The definition. Raises RecordFormatError."""
    try:
        schema = dict(_texts(data))[2]
        return dict(_texts(schema))[4].decode()
    except (ValueError, IndexError, KeyError) as error:
        raise RecordFormatError(f"schema entry: {error!r}") from error


def _texts(data: bytes) -> list[tuple[int, bytes]]:
    return [(number, value) for number, value in take_fields(data) if isinstance(value, bytes)]
