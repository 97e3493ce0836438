"""The contents and clients of a topic: reported before it is deleted, and checked again when it is."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from engine.admin.api.arguments import JsonObject
from engine.base.errors import Conflict, InvalidField
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.administration.previews import cursor_changes
from engine.broker.topics.ephemeral import COMPACTION
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.managed.errors import StoredRecordError
from engine.managed.stored.records import LogRecord
from engine.managed.stored.resting import UNKNOWN, RestingLogs

AGAIN = "; nothing was deleted"


async def of(topic: Topic, now_ms: int) -> JsonObject:
    """Return the preview of a deletion, see ``HOLDINGS``."""
    # Before the messages are counted: entries published meanwhile are not part of the preview.
    seen = _seen(topic)
    stats = topic.log.stats()
    readers = _readers(topic)
    lost = await asyncio.gather(*(_lost(topic, reader, now_ms) for reader in readers))
    return {
        "bytes": stats.size,
        "entries": stats.entries,
        "terminated": topic.log.terminated is not None,
        "last": str(stats.last_confirmed) if stats.last_confirmed.entry_id >= 0 else "",
        "producers": [
            {"name": producer.name, "address": producer.outlet.address}
            for producer in topic.producers.values()
        ],
        "subscriptions": [
            {
                "name": reader.name,
                "durable": reader.durable,
                "consumers": [
                    {"name": consumer.name, "address": consumer.outlet.address}
                    for consumer in reader.consumers
                ],
                **messages,
            }
            for reader, messages in zip(readers, lost, strict=True)
        ],
        "unread": sorted(topic.subscriptions.unread),
        "seen": seen,
    }


def before_deletion(topic: Topic) -> JsonObject:
    """Return what is deleted with the topic, for the audit log, in entries: no message is counted."""
    stats = topic.log.stats()
    return {
        "bytes": stats.size,
        "entries": stats.entries,
        "properties": dict(topic.log.properties),
        "subscriptions": _seen(topic)["unread"],
    }


async def at_rest(
    logs: RestingLogs, name: TopicName, record: LogRecord, cursors: Sequence[str]
) -> JsonObject:
    """Return ``before_deletion`` of a topic that is not loaded; null is unknown. Raises the store's errors."""
    try:
        log = await logs.describe(name.managed_ledger_name, record, cursors)
    except StoredRecordError:  # a cursor that cannot be read does not prevent the deletion
        log = UNKNOWN
    unread = log.backlogs
    return {
        "bytes": log.storage_bytes,
        "entries": None if log.storage_bytes is None else sum(s.entries for s in record.ledgers),
        "properties": dict(record.properties),
        "subscriptions": unread and {n: count for n, count in unread.items() if n != COMPACTION},
    }


async def _lost(topic: Topic, subscription: Subscription, now_ms: int) -> JsonObject:
    if not topic.name.persistent:
        return {"entries": 0, "messages": 0, "exact": True}
    return await cursor_changes.passed(subscription, None, now_ms)


def check(topic: Topic, seen: Any) -> None:
    """Raise Conflict when more would be lost than ``seen`` reported, or clients are connected that it does not have;
    InvalidField when ``seen`` is malformed. Entries acknowledged and clients disconnected since are no conflict."""
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


def _readers(topic: Topic) -> list[Subscription]:
    """Return the subscriptions, without that of the compaction."""
    return [reader for reader in topic.subscriptions.values() if reader.name != COMPACTION]


def _seen(topic: Topic) -> Mapping[str, Any]:
    unread = {
        reader.name: reader.cursor.backlog_entries() if topic.name.persistent else 0
        for reader in _readers(topic)
    }
    consumers = [
        f"consumer {consumer.name} of {subscription.name}"
        for subscription in topic.subscriptions.values()
        for consumer in subscription.consumers
    ]
    return {
        "last": list(topic.log.stats().last_confirmed),
        "unread": unread | dict.fromkeys(topic.subscriptions.unread, 0),
        "users": sorted([*(f"producer {name}" for name in topic.producers), *consumers]),
    }
