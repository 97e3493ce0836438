"""What a topic holds and who uses it: told before it is deleted, and checked again at the moment it goes."""

import asyncio
from collections.abc import Mapping
from typing import Any

from engine.admin.api import JsonObject
from engine.base.errors import Conflict, InvalidField
from engine.base.ids import Position
from engine.broker.administration.previews import cursor_changes
from engine.broker.topics.ephemeral import COMPACTION
from engine.broker.topics.subscription import Subscription
from engine.broker.topics.topic import Topic

AGAIN = "; nothing was deleted"


async def of(topic: Topic, now_ms: int) -> JsonObject:
    """See ``HOLDINGS``. ``seen`` is taken first: what comes while messages are counted, nobody has seen."""
    seen = _seen(topic)
    stats = topic.log.stats()
    readers = [one for one in topic.subscriptions.values() if one.name != COMPACTION]
    lost = await asyncio.gather(*(_lost(topic, one, now_ms) for one in readers))
    return {
        "bytes": stats.size,
        "entries": stats.entries,
        "terminated": topic.log.terminated is not None,
        "last": str(stats.last_confirmed) if stats.last_confirmed.entry_id >= 0 else "",
        "producers": [
            {"name": one.name, "address": one.outlet.address} for one in topic.producers.values()
        ],
        "subscriptions": [
            {
                "name": one.name,
                "durable": one.durable,
                "consumers": [
                    {"name": each.name, "address": each.outlet.address} for each in one.consumers
                ],
                **found,
            }
            for one, found in zip(readers, lost, strict=True)
        ],
        "unread": sorted(topic.unread),
        "seen": seen,
    }


def before_deletion(topic: Topic) -> JsonObject:
    """What goes with it, for the audit log: quick, and not exact to the message."""
    stats = topic.log.stats()
    return {
        "bytes": stats.size,
        "entries": stats.entries,
        "properties": dict(topic.log.properties),
        "subscriptions": _seen(topic)["unread"],
    }


async def _lost(topic: Topic, subscription: Subscription, now_ms: int) -> JsonObject:
    if not topic.name.persistent:
        return {"entries": 0, "messages": 0, "exact": True}
    return await cursor_changes.passed(subscription, None, now_ms)


def check(topic: Topic, seen: Any) -> None:
    """Raises Conflict when more would be lost than in ``seen``, or clients are there that are not in it, InvalidField
    for what is no ``seen``. What was read meanwhile, and who went, is no hindrance."""
    try:
        last, users = Position(*map(int, seen["last"])), set(seen["users"])
        limits = {str(name): int(count) for name, count in dict(seen["unread"]).items()}
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidField("seen", "must be as the preview answered it") from error
    now = _seen(topic)
    newest = Position(*now["last"])
    if topic.log.stats().pending_entries or (newest.entry_id >= 0 and newest > last):
        raise Conflict(f"Messages were published since the preview{AGAIN}")
    for name, count in now["unread"].items():
        if name not in limits:
            raise Conflict(f"Subscription {name} was made since the preview{AGAIN}")
        if count > limits[name]:
            raise Conflict(f"Subscription {name} was moved back since the preview{AGAIN}")
    for user in now["users"]:
        if user not in users:
            raise Conflict(f"A client connected since the preview: {user}{AGAIN}")


def _seen(topic: Topic) -> Mapping[str, Any]:
    unread = {
        one.name: one.cursor.backlog_entries() if topic.name.persistent else 0
        for one in topic.subscriptions.values()
        if one.name != COMPACTION
    }
    consumers = [
        f"consumer {each.name} of {one.name}"
        for one in topic.subscriptions.values()
        for each in one.consumers
    ]
    return {
        "last": list(topic.log.stats().last_confirmed),
        "unread": unread | dict.fromkeys(topic.unread, 0),
        "users": sorted([*(f"producer {name}" for name in topic.producers), *consumers]),
    }
