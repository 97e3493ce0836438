"""Topics of dead letters, and groups of their messages."""

import asyncio
import time
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from admin_ui.lists.record_order import sorted_rows
from engine.admin.api.messages import NEXT_ENTRIES, NextEntries
from engine.auth.viewer import Viewer
from engine.base.names import TopicName
from engine.schema.values.letter_properties import kind_of, reason_of
from gateway.clusters.cluster import Cluster
from gateway.services import catalog
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.opening import BrowsedMessage, Kind, open_entry
from gateway.services.browsing.scan import ScanStart, scan
from gateway.services.browsing.values import TopicValues
from gateway.services.clock import now_ms
from gateway.services.copying.conditions import Conditions, Letter, letter_of
from gateway.services.copying.plan import planned_sources
from gateway.services.engine_link import Engine
from gateway.services.index.rows import Row
from gateway.services.index.selection import Chosen

Json = dict[str, Any]
LOOK_S = 2.0
"""Time within which a topic must answer what its oldest message is."""
SCAN_S = 5.0
PAGE_MESSAGES = 1_000
MESSAGES_MAX = 10_000
"""Messages of which one call makes groups."""
GROUPS_MAX = 500


SORTS = ("name", "backlog", "msg_rate_in", "storage_bytes")
"""Fields that topics of dead letters can be sorted by. The others are read of the shown ones alone."""


async def topics(viewer: Viewer, cluster: Cluster, q: str, sort: str) -> list[Row]:
    """Return rows of the topics whose names are those of dead letters or retries, in an order; equals by name."""
    snapshot = await cluster.collector.snapshot()
    names: set[str] = set()
    for suffix in ("-dlq", "-retry"):
        chosen = Chosen(q=f"{q} {suffix}", domain="persistent", sort="name")
        names |= {name for name in snapshot.select(viewer, chosen).names() if kind_of(name)}
    rows = snapshot.rows_of(viewer, sorted(names))
    return sorted_rows(
        rows, sort, lambda row, field: row["backlog_messages" if field == "backlog" else field]
    )


def topic_row(row: Row) -> Json:
    """Return what is known of a topic without its messages."""
    return {
        "name": row["name"],
        "kind": kind_of(row["name"]),
        "known": row["known"],
        "origin": None,
        "subscription": None,
        "entries": None,
        "oldest_at": None,
        "backlog": row["backlog_messages"],
        "msg_rate_in": row["msg_rate_in"],
        "storage_bytes": row["storage_bytes"],
        "problem": None,
    }


async def oldest(engine: Engine, name: TopicName) -> Json:
    """Return how many entries a topic has, and the origin and time of its oldest message."""
    parts = await planned_sources(engine, name, Conditions())
    first = await catalog.each(
        [part for part in parts if part.entries],
        lambda part: engine.call(NEXT_ENTRIES, NextEntries(TopicName.parse(part.topic), 1, 1)),
    )
    opened = [
        next(open_entry(ledger, entry, b64decode(text)))
        for answer in first
        for ledger, entry, text in answer["entries"][:1]
    ]
    messages = sorted(
        (message for message in opened if message.message is not None),
        key=lambda message: message.publish_ms,
    )
    seen: Json = {"entries": sum(part.entries for part in parts)}
    if messages:
        letter = letter_of(str(name), messages[0])
        seen |= {
            "oldest_at": messages[0].publish_ms,
            "origin": letter.origin or None,
            "subscription": letter.subscription or None,
        }
    return seen


async def groups(engine: Engine, name: TopicName, after: str) -> Json:
    """Return groups of a bounded part of a topic's messages, the largest first, and where the next part begins.

    Raises InvalidField, Unsupported, NotFound.
    """
    parts = await planned_sources(engine, name, Conditions())
    values, messages = TopicValues(name), list[tuple[int, BrowsedMessage]]()
    scanned = entries = 0
    until_s = time.monotonic() + SCAN_S
    while True:
        result = await scan(
            engine,
            name,
            direction="forward",
            start=ScanStart(),
            after=after,
            wanted=MessageFilter(),
            limit=PAGE_MESSAGES,
            values=values,
        )
        messages += result.messages
        after, scanned, entries = (
            result.after,
            scanned + result.scanned,
            entries + result.entries,
        )
        enough = len(messages) >= MESSAGES_MAX or time.monotonic() > until_s
        if result.stopped != "limit" or result.missing or enough:
            break
    return {
        "at": now_ms(),
        "groups": await asyncio.to_thread(_grouped, name, messages),
        "scanned": scanned,
        "scanned_entries": entries,
        "entries": sum(part.entries for part in parts),
        "stopped": result.stopped,
        "missing": result.missing,
        "after": after,
    }


def _grouped(name: TopicName, messages: Sequence[tuple[int, BrowsedMessage]]) -> list[Json]:
    topic, by_letter = str(name.partitioned), dict[Letter, Json]()
    for partition, browsed in messages:
        message = browsed.message
        if message is None or (browsed.kind is Kind.CHUNK and browsed.metadata.chunk_id):
            continue
        letter = letter_of(topic, browsed)
        if letter not in by_letter and len(by_letter) >= GROUPS_MAX:
            letter = Letter("", "", "(too many different reasons)", "")
        group = by_letter.get(letter)
        at = browsed.publish_ms
        if group is None:
            member = name.partition_at(partition) if partition >= 0 else name
            group = by_letter[letter] = {
                "origin": letter.origin,
                "subscription": letter.subscription,
                "reason": letter.reason,
                "shape": letter.shape,
                "messages": 0,
                "bytes": 0,
                "first_published": at,
                "last_published": at,
                "sample": {
                    "id": browsed.id,
                    "topic": str(member),
                    "published": at,
                    "key": message.key,
                    "origin_id": message.properties.get("ORIGIN_MESSAGE_ID"),
                    "reason": reason_of(message.properties),
                },
            }
        group["messages"] += 1
        group["bytes"] += len(message.value or b"")
        group["first_published"] = min(group["first_published"], at)
        group["last_published"] = max(group["last_published"], at)
    return sorted(by_letter.values(), key=lambda group: -group["messages"])
