"""Operations on the schemas of a topic and all its partitions. Pure.

The topic need not exist; the bundle's owner answers.
"""

from dataclasses import dataclass, field

from engine.admin.api.arguments import JsonObject, OnTopic, within
from engine.admin.api.rights import ADMIN, LOOKUP_TOPIC, PRODUCE
from engine.rpc.operation import Operation

SCHEMA_PAGE_MAX = 100
STORED_SCHEMAS_MAX = 8


@dataclass(frozen=True, slots=True)
class GivenSchema(OnTopic):
    """Schema in REST's form: ``kind`` by name, ``definition`` as text, for KEY_VALUE a JSON object of both parts."""

    kind: str
    definition: str = ""
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OneSchema(OnTopic):
    """Version of a schema by ``number``, None for the newest."""

    number: int | None = None


@dataclass(frozen=True, slots=True)
class RegisterSchema(GivenSchema):
    """Schema to be registered, only while the newest version has the number ``expected`` (-1 without any version)."""

    expected: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteSchema(OnTopic):
    """Deletion of a schema. ``force`` removes all versions with their ledgers.

    Without ``force``, messages with these versions remain readable, and with ``expected`` the schema is deleted only
    while the newest version has this number.
    """

    force: bool = False
    expected: int | None = None

    def __post_init__(self) -> None:
        if self.force and self.expected is not None:
            raise ValueError("expected: not with force")


@dataclass(frozen=True, slots=True)
class SchemaPage(OnTopic):
    """Page of the last ``limit`` (1 to ``SCHEMA_PAGE_MAX``) versions, or of those before number ``before``."""

    limit: int
    before: int | None = None

    def __post_init__(self) -> None:
        within("limit", self.limit, 1, SCHEMA_PAGE_MAX)


@dataclass(frozen=True, slots=True)
class StoredSchemas(OnTopic):
    """Numbers of versions, at most ``STORED_SCHEMAS_MAX``."""

    numbers: list[int]

    def __post_init__(self) -> None:
        within("length of numbers", len(self.numbers), 1, STORED_SCHEMAS_MAX)


SCHEMA = Operation("schema", OneSchema, JsonObject, LOOKUP_TOPIC, reads=True)
"""GetSchemaResponse of a version since the last deletion. Raises NotFound."""
SCHEMAS = Operation("schemas", OnTopic, list[JsonObject], LOOKUP_TOPIC, reads=True)
"""GetSchemaResponses of all versions since the last deletion, oldest first."""
SCHEMA_METADATA = Operation("schema_metadata", OnTopic, JsonObject, LOOKUP_TOPIC, reads=True)
"""SchemaMetadata with the position of each version; empty without a version."""
SCHEMA_PAGE = Operation("schema_page", SchemaPage, JsonObject, LOOKUP_TOPIC, reads=True)
"""Versions since the last deletion, newest first: ``{"total", "newest": number of the newest, -1 without any,
"versions": [{"version", "type", "timestamp", "size": bytes of the definition} or {"version", "reason": why it cannot be
read}]}``."""
STORED_SCHEMAS = Operation(
    "stored_schemas", StoredSchemas, list[JsonObject], LOOKUP_TOPIC, reads=True
)
"""Requested versions, also from before a deletion: ``{"version", "type", "timestamp", "data": the definition's bytes in
base64, "properties"}``, or ``{"version", "reason"}`` for one that is missing or cannot be read."""
REGISTER_SCHEMA = Operation("register_schema", RegisterSchema, JsonObject, PRODUCE)
"""``version`` is the number of the schema: an existing one, or a new one if it is compatible. Raises Conflict with the
incompatible field, Conflict when the newest version is not the expected one, Unprocessable for an invalid definition,
NotFound without the namespace."""
CHECK_SCHEMA = Operation("check_schema", GivenSchema, JsonObject, ADMIN, reads=True)
"""IsCompatibilityResponse (``compatibility``, ``schemaCompatibilityStrategy``), and ``reason`` if incompatible."""
FIND_SCHEMA = Operation("find_schema", GivenSchema, int, LOOKUP_TOPIC, reads=True)
"""Number of the version with this schema; -1 when it is not registered."""
DELETE_SCHEMA = Operation("delete_schema", DeleteSchema, JsonObject, ADMIN)
"""``version`` is the number of the version that records the deletion. Without a schema to delete it is that of the last
deletion, -1 without one. Raises Conflict when the newest version is not the expected one."""
