"""Schemas of topics, at the broker that owns the topic's bundle."""

import asyncio
from base64 import b64decode
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from engine.admin import api
from engine.base.names import TopicName
from engine.schema.kinds import Schema, SchemaKind
from gateway.services.engine_link import Engine

Json = dict[str, Any]


async def latest(engine: Engine, name: TopicName) -> Json:
    """The newest version. Raises NotFound."""
    return await engine.call(api.SCHEMA, api.OneSchema(name))


async def version(engine: Engine, name: TopicName, number: int) -> Json:
    """Raises NotFound."""
    return await engine.call(api.SCHEMA, api.OneSchema(name, number))


async def versions(engine: Engine, name: TopicName) -> list[Json]:
    """All versions since the last deletion, oldest first."""
    return await engine.call(api.SCHEMAS, api.OnTopic(name))


async def metadata(engine: Engine, name: TopicName) -> Json:
    """Where each version lies; empty when there is none."""
    return await engine.call(api.SCHEMA_METADATA, api.OnTopic(name))


class Strategy(NamedTuple):
    """``level``: who says so: topic, namespace or broker."""

    value: str
    level: str


async def strategy(engine: Engine, name: TopicName) -> Strategy:
    """What may follow the topic's schema. Raises NotFound without the namespace."""
    found = await engine.call(api.TOPIC_POLICIES, api.OnTopic(name.partitioned))
    said = found["schemaCompatibilityStrategy"]
    return Strategy(said["value"], said["level"])


async def page(engine: Engine, name: TopicName, limit: int, before: int | None = None) -> Json:
    """See SCHEMA_PAGE."""
    return await engine.call(api.SCHEMA_PAGE, api.SchemaPage(name, limit, before))


class Stored(NamedTuple):
    """A version, also from before a deletion."""

    at_ms: int
    schema: Schema


async def stored(
    engine: Engine, name: TopicName, numbers: Iterable[int]
) -> dict[int, Stored | str]:
    """By number; the reason for those that are not there or cannot be read."""
    wanted = sorted(set(numbers))
    found: dict[int, Stored | str] = {}
    for start in range(0, len(wanted), api.STORED_SCHEMAS_MAX):
        part = wanted[start : start + api.STORED_SCHEMAS_MAX]
        for one in await engine.call(api.STORED_SCHEMAS, api.StoredSchemas(name, part)):
            found[one["version"]] = _stored(one) if "data" in one else one["reason"]
    return found


def _stored(told: Json) -> Stored:
    schema = Schema(SchemaKind(told["type"]), b64decode(told["data"]), told["properties"])
    return Stored(told["timestamp"], schema)


class Verdict(NamedTuple):
    """On a candidate: ``version``, if it is one already, ``reason`` why it may not be the next one; ``newest`` when
    this was found, -1 without any."""

    newest: int
    version: int | None
    compatible: bool
    reason: str | None
    strategy: Strategy


async def verdict(engine: Engine, candidate: api.GivenSchema) -> Verdict:
    """Raises InvalidField, Unprocessable, NotFound."""
    # First of all, so that what comes meanwhile is a conflict for who registers by this verdict.
    newest = (await page(engine, candidate.topic, 1))["newest"]
    said, number, holds = await asyncio.gather(
        check(engine, candidate),
        find(engine, candidate),
        strategy(engine, candidate.topic),
    )
    return Verdict(
        newest,
        None if number < 0 else number,
        said["compatibility"] or number >= 0,
        said.get("reason") if number < 0 else None,
        holds._replace(value=said["schemaCompatibilityStrategy"]),
    )


async def register(engine: Engine, schema: api.GivenSchema, expected: int | None = None) -> int:
    """See REGISTER_SCHEMA; the version."""
    args = api.RegisterSchema(
        schema.topic, schema.kind, schema.definition, schema.properties, expected
    )
    answer = await engine.call(api.REGISTER_SCHEMA, args)
    return cast(int, answer["version"])


async def check(engine: Engine, schema: api.GivenSchema) -> Json:
    """See CHECK_SCHEMA."""
    return await engine.call(api.CHECK_SCHEMA, schema)


async def find(engine: Engine, schema: api.GivenSchema) -> int:
    """See FIND_SCHEMA."""
    return await engine.call(api.FIND_SCHEMA, schema)


async def delete(
    engine: Engine, name: TopicName, *, force: bool = False, expected: int | None = None
) -> int:
    """See DELETE_SCHEMA; the version."""
    answer = await engine.call(api.DELETE_SCHEMA, api.DeleteSchema(name, force, expected))
    return cast(int, answer["version"])
