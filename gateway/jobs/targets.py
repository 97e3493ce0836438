"""The topic of an analysis, completed and checked before a run is queued."""

import asyncio
from typing import Any

from engine.admin.api.arguments import OnTopic
from engine.admin.api.statistics import INTERNAL_INFO, INTERNAL_STATS, InternalStats
from engine.base.errors import Failed, InvalidField, InvalidNameError, NotFound, NotReady
from engine.base.names import TopicName
from gateway.services import topics
from gateway.services.engine_link import Engine

FIELD = "parameters.topic"
CHECK_S = 3.0
"""Time within which brokers must report whether a topic holds messages; without an answer the run is queued."""


async def completed(engine: Engine, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters with the full name of their topic, if they have one.

    The topic must be persistent, exist and hold messages, in any of its partitions. Raises InvalidField.
    """
    if "topic" not in parameters:
        return parameters
    try:
        name = TopicName.parse(str(parameters["topic"]))
    except InvalidNameError as error:
        raise InvalidField(FIELD, str(error)) from error
    if not name.persistent:
        raise InvalidField(FIELD, f"{name} is not persistent: it keeps nothing that could be read")
    try:
        members = await topics.members(engine, name)
        async with asyncio.timeout(CHECK_S):
            empty = await _empty(engine, members)
    except NotFound as error:
        raise InvalidField(FIELD, f"there is no topic {name}: {error.reason}") from error
    except (TimeoutError, NotReady, Failed):
        empty = False  # Unknown: no broker answers now, and unknown is not empty.
    if empty:
        raise InvalidField(FIELD, f"{name} holds no messages")
    return {**parameters, "topic": str(name)}


async def _empty(engine: Engine, members: list[TopicName]) -> bool:
    """Return whether no partition holds an entry.

    Closed ledgers in the metadata are read first, since no broker has to load the topic for them; then the owners are
    asked for their open ledgers.
    """
    for name in members:
        info = await engine.call(INTERNAL_INFO, OnTopic(name))
        if any(int(ledger.get("entries") or 0) for ledger in info["ledgers"]):
            return False
    for name in members:
        stats = await engine.call(INTERNAL_STATS, InternalStats(name))
        if stats["numberOfEntries"]:
            return False
    return True
