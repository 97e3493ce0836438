"""Versions of a topic's schema, and questions about a candidate. Nothing is changed, and no subscription is made."""

import asyncio
import json
from typing import Any

from admin_ui.params import Params, number
from engine.admin.api import SCHEMA_PAGE_MAX, GivenSchema
from engine.base.errors import NotFound
from engine.base.names import TopicName
from engine.schema.rest_form import definition_text, given
from gateway.services import schemas
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine
from gateway.services.rehearsal.rehearse import rehearse

LIMIT = 50
VERSION_MAX = (1 << 63) - 1

Body = dict[str, Any]


async def versions(engine: Engine, name: TopicName, params: Params) -> Body:
    """The last ``limit`` versions, of those before version ``before``, without their definitions. Raises
    InvalidField."""
    limit = number(params, "limit", LIMIT, 1, SCHEMA_PAGE_MAX)
    before = number(params, "before", VERSION_MAX, 0, VERSION_MAX)
    page, strategy = await asyncio.gather(
        schemas.page(engine, name.partitioned, limit, before),
        schemas.strategy(engine, name),
    )
    return {
        "at": now_ms(),
        "total": page["total"],
        "newest": page["newest"],
        "strategy": strategy._asdict(),
        "versions": [
            {
                "version": one["version"],
                "type": one.get("type"),
                "registered": one.get("timestamp"),
                "size": one.get("size"),
                "reason": one.get("reason"),
            }
            for one in page["versions"]
        ],
    }


async def version(engine: Engine, name: TopicName, text: str) -> Body:
    """One version with its definition, also from before a deletion. Raises InvalidField, NotFound."""
    wanted = number({"version": text}, "version", -1, 0, VERSION_MAX)
    found = (await schemas.stored(engine, name.partitioned, [wanted]))[wanted]
    if isinstance(found, str):
        raise NotFound(found[0].upper() + found[1:])
    schema = found.schema
    return {
        "version": wanted,
        "type": schema.kind.value,
        "registered": found.at_ms,
        "size": len(schema.data),
        "definition": await asyncio.to_thread(pretty, definition_text(schema)),
        "properties": dict(schema.properties),
    }


def pretty(definition: str) -> str:
    """A definition that is JSON, by lines; others as they are."""
    try:
        return json.dumps(json.loads(definition), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return definition


async def verdict(engine: Engine, candidate: GivenSchema) -> Body:
    """Raises InvalidField, Unprocessable, NotFound."""
    found = await schemas.verdict(engine, candidate)
    return {**found._asdict(), "strategy": found.strategy._asdict()}


async def rehearsal(engine: Engine, candidate: GivenSchema, count: int) -> Body:
    """Raises InvalidField, Unprocessable, Unsupported, NotFound."""
    schema = await asyncio.to_thread(
        given, candidate.kind, candidate.definition, candidate.properties
    )
    return {"at": now_ms(), **await rehearse(engine, candidate.topic, schema, count)}
