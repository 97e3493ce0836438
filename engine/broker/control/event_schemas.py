"""Schemas of a change log's payloads, from the schema registry."""

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from engine.base.names import TopicName
from engine.metadata.records import Document
from engine.schema.kinds import Schema, SchemaKind, version_bytes
from engine.schema.schema_registry import SchemaRegistry
from engine.schema.stored_versions import LostVersionError
from engine.tenancy.avro import AvroError, AvroSchema
from engine.tenancy.change_events import SCHEMA_TEXT
from engine.tenancy.strategy import Strategy
from engine.wire.batches import read_metadata
from engine.wire.events import Delivered

_PROPERTIES = {"__jsr310ConversionEnabled": "false", "__alwaysAllowNull": "true"}
_VERSION_BYTES = 8


class OwnSchema(NamedTuple):
    """The schema by which brokers write a log, as it is registered, and its types."""

    registered: Schema
    types: AvroSchema

    @classmethod
    def of(cls, text: str) -> "OwnSchema":
        """Return the schema that Apache's brokers register with the definition ``text``."""
        schema = Schema(SchemaKind.AVRO, text.encode(), _PROPERTIES)
        return cls(schema, AvroSchema(json.loads(text)))


OURS = OwnSchema.of(SCHEMA_TEXT)
OUR_HASH = sha256(OURS.registered.data).digest()


class EventSchemas:
    """Schemas of one log, loaded when its entries name them. Version 0 of a topic without a schema is ``own``."""

    def __init__(self, topic: TopicName, registry: SchemaRegistry, own: OwnSchema = OURS) -> None:
        self._topic = topic
        self._registry = registry
        self._own = own
        self._hash = sha256(own.registered.data).digest()
        self._known: dict[int, AvroSchema | AvroError] = {0: own.types}
        self._newest = 0

    def decode(self, version: bytes, payload: bytes) -> Document:
        """Decode an event. Raises AvroError, also for an unknown version."""
        event = self._readable(_number(version)).decode(payload)
        if not isinstance(event, dict):
            raise AvroError("not a record")
        return event

    def encode(self, event: Document) -> tuple[bytes, bytes]:
        """Encode an event by the newest schema, which has all fields that others wrote; return version and payload.

        Raises AvroError.
        """
        return version_bytes(self._newest), self._readable(self._newest).encode(event)

    def _readable(self, version: int) -> AvroSchema:
        schema = self._known.get(version)
        if isinstance(schema, AvroSchema):
            return schema
        raise AvroError(f"schema version {version} is not known" if schema is None else str(schema))

    async def learn(self, entries: Iterable[Delivered]) -> None:
        """Load the versions that these entries name, where they are registered. Raises as ``load`` does."""
        entries_metadata = (read_metadata(entry.entry) for entry in entries)
        versions = (_number(m.schema_version) for m in entries_metadata if m is not None)
        if any(version not in self._known for version in versions):
            await self.load()

    async def load(self) -> bool:
        """Load all versions; return False when none is registered.

        Raises UnreadableError for a registry that cannot be read, the store's errors.
        """
        index = await self._registry.index(self._topic)
        if not index:
            self._known, self._newest = {0: self._own.types}, 0
            return False
        known: dict[int, AvroSchema | AvroError] = {}
        for row in index:
            # All are loaded again: the versions of a topic that was deleted and created again start at 0.
            ours = row.hash == self._hash
            known[row.version] = self._own.types if ours else await self._read(row.version)
        self._known, self._newest = known, index[-1].version
        return True

    async def _read(self, number: int) -> AvroSchema | AvroError:
        """Read one version; return the reason when it cannot be used."""
        try:
            stored = await self._registry.get(self._topic, number)
            if stored is None:
                return AvroError(f"schema version {number} was deleted")
            return AvroSchema(json.loads(stored.registered.schema.data))
        except (AvroError, LostVersionError, ValueError) as error:
            return AvroError(f"schema version {number} cannot be read: {error}")

    async def ensure(self) -> None:
        """Register ``own`` when no schema is registered. Raises as ``load`` does, LedgerError.

        After an error or a cancellation a ledger may remain that no record names.
        """
        if not await self.load():
            await self._registry.register(
                self._topic, self._own.registered, Strategy.ALWAYS_COMPATIBLE
            )
            await self.load()


def _number(version: bytes) -> int:
    """Decode a message's ``schema_version``; 0 for none, -1 for one of an unknown length."""
    if not version:
        return 0
    return int.from_bytes(version, signed=True) if len(version) == _VERSION_BYTES else -1
