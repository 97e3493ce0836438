"""Schemas of topics, read and changed by the broker that owns the topic's bundle."""

import asyncio
from base64 import b64decode
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from engine.admin.api.arguments import OnTopic
from engine.admin.api.policies import TOPIC_POLICIES
from engine.admin.api.schemas import (
    CHECK_SCHEMA,
    DELETE_SCHEMA,
    FIND_SCHEMA,
    REGISTER_SCHEMA,
    SCHEMA,
    SCHEMA_METADATA,
    SCHEMA_PAGE,
    SCHEMAS,
    STORED_SCHEMAS,
    STORED_SCHEMAS_MAX,
    DeleteSchema,
    GivenSchema,
    OneSchema,
    RegisterSchema,
    SchemaPage,
    StoredSchemas,
)
from engine.base.names import TopicName
from engine.schema.kinds import Schema, SchemaKind
from gateway.services.engine_link import Engine

Json = dict[str, Any]


async def latest(engine: Engine, name: TopicName) -> Json:
    """Return the newest version. Raises NotFound."""
    return await engine.call(SCHEMA, OneSchema(name))


async def version(engine: Engine, name: TopicName, number: int) -> Json:
    """Return one version. Raises NotFound."""
    return await engine.call(SCHEMA, OneSchema(name, number))


async def versions(engine: Engine, name: TopicName) -> list[Json]:
    """Return all versions since the last deletion, oldest first."""
    return await engine.call(SCHEMAS, OnTopic(name))


async def metadata(engine: Engine, name: TopicName) -> Json:
    """Return the positions at which the versions are stored; empty without any."""
    return await engine.call(SCHEMA_METADATA, OnTopic(name))


class StrategyInForce(NamedTuple):
    """A compatibility strategy, and the level that it is set at: topic, namespace or broker."""

    value: str
    level: str


async def strategy(engine: Engine, name: TopicName) -> StrategyInForce:
    """Return the compatibility strategy for the topic's schemas. Raises NotFound without the namespace."""
    policies = await engine.call(TOPIC_POLICIES, OnTopic(name.partitioned))
    policy = policies["schemaCompatibilityStrategy"]
    return StrategyInForce(policy["value"], policy["level"])


async def page(engine: Engine, name: TopicName, limit: int, before: int | None = None) -> Json:
    """Return a page of versions, see SCHEMA_PAGE."""
    return await engine.call(SCHEMA_PAGE, SchemaPage(name, limit, before))


class StoredSchema(NamedTuple):
    """A stored version, which may be from before a deletion."""

    at_ms: int
    schema: Schema


async def stored(
    engine: Engine, name: TopicName, numbers: Iterable[int]
) -> dict[int, StoredSchema | str]:
    """Return the versions by number; the reason in place of one that is missing or cannot be read."""
    wanted = sorted(set(numbers))
    schemas: dict[int, StoredSchema | str] = {}
    for start in range(0, len(wanted), STORED_SCHEMAS_MAX):
        part = wanted[start : start + STORED_SCHEMAS_MAX]
        for answer in await engine.call(STORED_SCHEMAS, StoredSchemas(name, part)):
            schema = _stored(answer) if "data" in answer else answer["reason"]
            schemas[answer["version"]] = schema
    return schemas


def _stored(answer: Json) -> StoredSchema:
    schema = Schema(SchemaKind(answer["type"]), b64decode(answer["data"]), answer["properties"])
    return StoredSchema(answer["timestamp"], schema)


class SchemaVerdict(NamedTuple):
    """The result of a check of a candidate schema.

    ``version`` is its number if it is stored already, ``reason`` why it may not become the next version. ``newest`` is
    the newest version at the time of the check, -1 without any.
    """

    newest: int
    version: int | None
    compatible: bool
    reason: str | None
    strategy: StrategyInForce


async def verdict(engine: Engine, candidate: GivenSchema) -> SchemaVerdict:
    """Check a candidate against the topic's schemas. Raises InvalidField, Unprocessable, NotFound."""
    # Read before the checks: a version registered meanwhile makes a registration by this verdict a conflict.
    newest = (await page(engine, candidate.topic, 1))["newest"]
    answer, number, in_force = await asyncio.gather(
        check(engine, candidate),
        find(engine, candidate),
        strategy(engine, candidate.topic),
    )
    return SchemaVerdict(
        newest,
        None if number < 0 else number,
        answer["compatibility"] or number >= 0,
        answer.get("reason") if number < 0 else None,
        in_force._replace(value=answer["schemaCompatibilityStrategy"]),
    )


async def register(engine: Engine, schema: GivenSchema, expected: int | None = None) -> int:
    """Register a schema and return its version, see REGISTER_SCHEMA."""
    args = RegisterSchema(schema.topic, schema.kind, schema.definition, schema.properties, expected)
    answer = await engine.call(REGISTER_SCHEMA, args)
    return cast(int, answer["version"])


async def check(engine: Engine, schema: GivenSchema) -> Json:
    """Return whether a schema is compatible, see CHECK_SCHEMA."""
    return await engine.call(CHECK_SCHEMA, schema)


async def find(engine: Engine, schema: GivenSchema) -> int:
    """Return the version of a schema, see FIND_SCHEMA."""
    return await engine.call(FIND_SCHEMA, schema)


async def delete(
    engine: Engine, name: TopicName, *, force: bool = False, expected: int | None = None
) -> int:
    """Delete the topic's schemas and return the version of the deletion, see DELETE_SCHEMA."""
    answer = await engine.call(DELETE_SCHEMA, DeleteSchema(name, force, expected))
    return cast(int, answer["version"])
