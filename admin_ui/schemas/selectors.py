"""Versions of a topic's schema, and checks of a candidate. Nothing is changed, and no subscription is created."""

import asyncio
import json
from typing import Any

from admin_ui.params import Params, number
from engine.admin.api.schemas import SCHEMA_PAGE_MAX, GivenSchema
from engine.base.errors import NotFound
from engine.base.names import TopicName
from engine.schema.rest_form import definition_text, given
from gateway.services.admin import schemas
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.rehearsal.rehearse import rehearse

LIMIT = 50
VERSION_MAX = (1 << 63) - 1

Body = dict[str, Any]


async def versions(engine: Engine, name: TopicName, params: Params) -> Body:
    """Return the last ``limit`` versions before version ``before``, without their definitions. Raises InvalidField."""
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
                "version": entry["version"],
                "type": entry.get("type"),
                "registered": entry.get("timestamp"),
                "size": entry.get("size"),
                "reason": entry.get("reason"),
            }
            for entry in page["versions"]
        ],
    }


async def version(engine: Engine, name: TopicName, text: str) -> Body:
    """Return a version with its definition, also from before a deletion. Raises InvalidField, NotFound."""
    requested = number({"version": text}, "version", -1, 0, VERSION_MAX)
    stored = (await schemas.stored(engine, name.partitioned, [requested]))[requested]
    if isinstance(stored, str):
        raise NotFound(stored[0].upper() + stored[1:])
    schema = stored.schema
    return {
        "version": requested,
        "type": schema.kind.value,
        "registered": stored.at_ms,
        "size": len(schema.data),
        "definition": await asyncio.to_thread(pretty, definition_text(schema)),
        "properties": dict(schema.properties),
    }


def pretty(definition: str) -> str:
    """Return a definition that is JSON in indented lines, and any other unchanged."""
    try:
        return json.dumps(json.loads(definition), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return definition


async def verdict(engine: Engine, candidate: GivenSchema) -> Body:
    """Return whether ``candidate`` could be the next version. Raises InvalidField, Unprocessable, NotFound."""
    answer = await schemas.verdict(engine, candidate)
    return {**answer._asdict(), "strategy": answer.strategy._asdict()}


async def rehearsal(engine: Engine, candidate: GivenSchema, count: int) -> Body:
    """Return the last ``count`` messages as decoded with ``candidate``. Raises InvalidField, Unprocessable,
    Unsupported, NotFound."""
    schema = await asyncio.to_thread(
        given, candidate.kind, candidate.definition, candidate.properties
    )
    return {"at": now_ms(), **await rehearse(engine, candidate.topic, schema, count)}
