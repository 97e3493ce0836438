"""The schemas that a change log's payloads were written by, as the registry keeps them."""

import json
from collections.abc import Iterable
from hashlib import sha256

from engine.base.names import TopicName
from engine.metadata.records import Document
from engine.schema.kinds import Schema, SchemaKind, version_bytes
from engine.schema.schema_registry import SchemaRegistry
from engine.schema.stored_versions import LostVersionError
from engine.tenancy.avro import AvroError, AvroSchema
from engine.tenancy.change_events import SCHEMA, SCHEMA_TEXT
from engine.tenancy.strategy import Strategy
from engine.wire.batches import read_metadata
from engine.wire.events import Delivered

OURS = Schema(
    SchemaKind.AVRO,
    SCHEMA_TEXT.encode(),
    {"__jsr310ConversionEnabled": "false", "__alwaysAllowNull": "true"},
)
OUR_HASH = sha256(OURS.data).digest()
_VERSION_BYTES = 8


class EventSchemas:
    """Of one log, known once they were met. The version of a topic without a registered schema is ours."""

    def __init__(self, topic: TopicName, registry: SchemaRegistry) -> None:
        self._topic = topic
        self._registry = registry
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
        return version_bytes(self._newest), self._readable(self._newest).encode(event)

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
        """Know all versions; False when none is registered. Raises UnreadableError for a registry that cannot be read,
        the store's errors."""
        index = await self._registry.index(self._topic)
        if not index:
            self._known, self._newest = {0: SCHEMA}, 0
            return False
        known: dict[int, AvroSchema | AvroError] = {}
        for one in index:
            # A topic that was made anew counts from 0 again.
            known[one.version] = SCHEMA if one.hash == OUR_HASH else await self._met(one.version)
        self._known, self._newest = known, index[-1].version
        return True

    async def _met(self, number: int) -> AvroSchema | AvroError:
        try:
            found = await self._registry.get(self._topic, number)
            if found is None:
                return AvroError(f"schema version {number} was deleted")
            return AvroSchema(json.loads(found.registered.schema.data))
        except (AvroError, LostVersionError, ValueError) as error:
            return AvroError(f"schema version {number} cannot be read: {error}")

    async def ensure(self) -> None:
        """Have a schema registered, ours when there is none. Raises as ``load``, LedgerError; then, and when cancelled,
        a ledger may be left that nobody names."""
        if not await self.load():
            await self._registry.register(self._topic, OURS, Strategy.ALWAYS_COMPATIBLE)
            await self.load()


def _number(version: bytes) -> int:
    """Of a message's ``schema_version``; 0 for none, -1 for one of another length."""
    if not version:
        return 0
    return int.from_bytes(version, signed=True) if len(version) == _VERSION_BYTES else -1
