"""The registry's records, byte for byte Apache Pulsar's: protobuf by hand, see ``docs/formats/schemas.md``. Pure.

``/schemas/<tenant>/<ns>/<topic>`` names the ledger entry of each version.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from engine.metadata.protobuf.protobinary import put_bytes, put_int, take_fields
from engine.metadata.records import RecordFormatError
from engine.schema.kinds import BY_STORED, STORED, Schema, SchemaKind

NOWHERE = -1
"""Ledger and entry in the index entry of itself that a first version's entry contains."""


INDEX_MAX = 100
"""Preceding versions that an entry names. They are read only to find a version that the node does not name."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version and the place of its entry. ``hash``: SHA-256 of the definition; empty for a deletion."""

    version: int
    ledger_id: int
    entry_id: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Registered:
    """A version's entry. ``deleted``: all versions up to this one are deleted. ``at_ms``: time of registration."""

    schema: Schema
    at_ms: int
    deleted: bool = False


def digest_of(schema: Schema) -> bytes:
    return sha256(schema.data).digest()


def _index(version: SchemaVersion) -> bytes:
    place, encoded = bytearray(), bytearray()
    put_int(place, 1, version.ledger_id)
    put_int(place, 2, version.entry_id)
    put_int(encoded, 1, version.version)
    put_bytes(encoded, 2, bytes(place))
    put_bytes(encoded, 3, version.hash)
    return bytes(encoded)


def locator(versions: Sequence[SchemaVersion]) -> bytes:
    """Return the node's value: 1 index entry of the newest, 2 index entries of all, oldest first."""
    encoded = bytearray()
    put_bytes(encoded, 1, _index(versions[-1]))
    for version in versions:
        put_bytes(encoded, 2, _index(version))
    return bytes(encoded)


def parse_locator(value: bytes) -> tuple[int, list[SchemaVersion]]:
    """Return the newest version, and all of them, oldest first. Raises RecordFormatError."""
    try:
        fields = _texts(value)
        versions = {
            version.version: version for version in (_parse_index(data) for _, data in fields)
        }
        newest = next(_parse_index(data).version for number, data in fields if number == 1)
    except (ValueError, IndexError, KeyError, StopIteration) as error:
        raise RecordFormatError(f"schema locator: {error!r}") from error
    return newest, [versions[number] for number in sorted(versions)]


def _parse_index(data: bytes) -> SchemaVersion:
    fields = dict(take_fields(data))
    place, digest = fields[2], fields.get(3, b"")
    if not isinstance(place, bytes) or not isinstance(digest, bytes):
        raise ValueError("no position")
    position = dict(take_fields(place))
    return SchemaVersion(int(fields[1]), int(position[1]), int(position[2]), digest)


def entry(schema_id: str, registered: Registered, before: Sequence[SchemaVersion] = ()) -> bytes:
    """Return a version's ledger entry: 2 the schema, 5 the index entries of the versions ``before`` it.

    Fields of the schema: 1 id, 2 user, 3 kind, 4 definition, 5 time, 6 deleted, 7 properties. The first version
    contains its own index entry, whose place is not known yet.
    """
    schema, encoded = bytearray(), bytearray()
    put_bytes(schema, 1, schema_id.encode())
    put_bytes(schema, 2, b"")
    put_int(schema, 3, STORED[registered.schema.kind])
    put_bytes(schema, 4, registered.schema.data)
    put_int(schema, 5, registered.at_ms)
    put_int(schema, 6, registered.deleted)
    for key, value in registered.schema.properties.items():
        pair = bytearray()
        put_bytes(pair, 1, key.encode())
        put_bytes(pair, 2, value.encode())
        put_bytes(schema, 7, bytes(pair))
    put_bytes(encoded, 2, bytes(schema))
    own = SchemaVersion(
        0, NOWHERE, NOWHERE, b"" if registered.deleted else digest_of(registered.schema)
    )
    for version in before[-INDEX_MAX:] or (own,):
        put_bytes(encoded, 5, _index(version))
    return bytes(encoded)


def parse_entry(data: bytes) -> Registered:
    """Parse a version's ledger entry. Raises RecordFormatError."""
    try:
        schema = dict(_texts(data))[2]
        fields = dict(take_fields(schema))
        definition = fields.get(4, b"")
        kind = BY_STORED.get(int(fields[3]))
        if kind is None or not isinstance(definition, bytes):
            raise ValueError(f"no such kind: {fields[3]!r}")
        pairs = [dict(_texts(pair)) for number, pair in _texts(schema) if number == 7]
        properties = {pair[1].decode(): pair.get(2, b"").decode() for pair in pairs}
        parsed = Schema(kind, definition, properties)
        return Registered(parsed, int(fields.get(5, 0)), bool(int(fields.get(6, 0))))
    except (ValueError, IndexError, KeyError) as error:
        raise RecordFormatError(f"schema entry: {error!r}") from error


def _texts(data: bytes) -> list[tuple[int, bytes]]:
    return [(number, value) for number, value in take_fields(data) if isinstance(value, bytes)]


DELETED = Schema(SchemaKind.NONE, b"", {})
"""Content of a deletion's entry."""
