"""The registry's records, to the byte as Apache Pulsar's: protobuf by hand, see ``docs/formats/schemas.md``. Pure.

``/schemas/<tenant>/<ns>/<topic>`` names the ledger entry of each version.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from engine.metadata.protobuf.protobinary import put_bytes, put_int, take_fields
from engine.metadata.records import RecordFormatError
from engine.schema.kinds import BY_STORED, STORED, Schema, SchemaKind

NOWHERE = -1
"""Ledger and entry in the copy of its own index entry that a first version's entry carries."""


INDEX_MAX = 100
"""Versions before it that an entry names. Nobody reads them but to find a version that the node does not name."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version, and where its entry is. ``hash``: SHA-256 of the definition; empty for a deletion."""

    version: int
    ledger_id: int
    entry_id: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Registered:
    """A version's entry. ``deleted``: all versions up to this one are gone. ``at_ms``: when it was registered."""

    schema: Schema
    at_ms: int
    deleted: bool = False


def digest_of(schema: Schema) -> bytes:
    return sha256(schema.data).digest()


def _index(one: SchemaVersion) -> bytes:
    place, out = bytearray(), bytearray()
    put_int(place, 1, one.ledger_id)
    put_int(place, 2, one.entry_id)
    put_int(out, 1, one.version)
    put_bytes(out, 2, bytes(place))
    put_bytes(out, 3, one.hash)
    return bytes(out)


def locator(versions: Sequence[SchemaVersion]) -> bytes:
    """The node: 1 index entry of the newest, 2 index entries of all, oldest first."""
    out = bytearray()
    put_bytes(out, 1, _index(versions[-1]))
    for one in versions:
        put_bytes(out, 2, _index(one))
    return bytes(out)


def parse_locator(value: bytes) -> tuple[int, list[SchemaVersion]]:
    """The newest version, and all, oldest first. Raises RecordFormatError."""
    try:
        fields = _texts(value)
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


def entry(schema_id: str, one: Registered, before: Sequence[SchemaVersion] = ()) -> bytes:
    """A version's ledger entry: 2 the schema (1 id, 2 user, 3 kind, 4 definition, 5 when, 6 deleted, 7 properties), 5
    the index entries of the versions ``before`` it; the first carries its own, which is nowhere yet."""
    schema, out = bytearray(), bytearray()
    put_bytes(schema, 1, schema_id.encode())
    put_bytes(schema, 2, b"")
    put_int(schema, 3, STORED[one.schema.kind])
    put_bytes(schema, 4, one.schema.data)
    put_int(schema, 5, one.at_ms)
    put_int(schema, 6, one.deleted)
    for key, value in one.schema.properties.items():
        pair = bytearray()
        put_bytes(pair, 1, key.encode())
        put_bytes(pair, 2, value.encode())
        put_bytes(schema, 7, bytes(pair))
    put_bytes(out, 2, bytes(schema))
    own = SchemaVersion(0, NOWHERE, NOWHERE, b"" if one.deleted else digest_of(one.schema))
    for each in before[-INDEX_MAX:] or (own,):
        put_bytes(out, 5, _index(each))
    return bytes(out)


def parse_entry(data: bytes) -> Registered:
    """Raises RecordFormatError."""
    try:
        schema = dict(_texts(data))[2]
        fields = dict(take_fields(schema))
        definition = fields.get(4, b"")
        kind = BY_STORED.get(int(fields[3]))
        if kind is None or not isinstance(definition, bytes):
            raise ValueError(f"no such kind: {fields[3]!r}")
        pairs = [dict(_texts(pair)) for number, pair in _texts(schema) if number == 7]
        properties = {pair[1].decode(): pair.get(2, b"").decode() for pair in pairs}
        found = Schema(kind, definition, properties)
        return Registered(found, int(fields.get(5, 0)), bool(int(fields.get(6, 0))))
    except (ValueError, IndexError, KeyError) as error:
        raise RecordFormatError(f"schema entry: {error!r}") from error


def _texts(data: bytes) -> list[tuple[int, bytes]]:
    return [(number, value) for number, value in take_fields(data) if isinstance(value, bytes)]


DELETED = Schema(SchemaKind.NONE, b"", {})
"""What a deletion's entry holds."""
