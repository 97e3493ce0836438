"""Schemas of topics, at the broker that owns the topic's bundle."""

from typing import Any

from engine.admin import api
from engine.base.names import TopicName
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


async def register(engine: Engine, schema: api.GivenSchema) -> int:
    """See REGISTER_SCHEMA."""
    return await engine.call(api.REGISTER_SCHEMA, schema)


async def check(engine: Engine, schema: api.GivenSchema) -> Json:
    """See CHECK_SCHEMA."""
    return await engine.call(api.CHECK_SCHEMA, schema)


async def find(engine: Engine, schema: api.GivenSchema) -> int:
    """See FIND_SCHEMA."""
    return await engine.call(api.FIND_SCHEMA, schema)


async def delete(engine: Engine, name: TopicName, *, force: bool) -> int:
    """See DELETE_SCHEMA."""
    return await engine.call(api.DELETE_SCHEMA, api.DeleteSchema(name, force))
