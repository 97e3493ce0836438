"""Holders of messages: unacknowledged messages by consumer, the consumer of a key, and delayed messages by due time."""

from typing import Any

from admin_ui.confirming import Json
from admin_ui.params import message_position
from admin_ui.subscriptions.services import members, partition_of
from engine.admin.api.arguments import MessagePosition
from engine.admin.api.subscriptions import HOLDERS, MESSAGE_HOLDERS, Holders, MessageHolders
from engine.admin.fan_out import on_each
from engine.base.errors import InvalidField, MagnetarError, NotFound, Refusal
from engine.base.names import TopicName
from gateway.services import catalog
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

ROWS_DEFAULT = 100
PARTITIONS_WHOLE = 16
"""Number of partitions up to which each is asked for all rows; of more, each gives its share of as many."""
ROWS_EACH_MIN = 10
CONSUMERS_MAX = 1_000


async def of_subscription(
    engine: Engine,
    topic: TopicName,
    subscription: str,
    *,
    rows: int,
    key: str | None,
    key_base64: bool,
) -> Json:
    """Return who holds what of a subscription, over all partitions. Raises NotFound when none has it, Unsupported for a
    non-persistent topic."""
    parts = await members(engine, topic)
    rows_each = rows
    if len(parts) > PARTITIONS_WHOLE:
        rows_each = min(rows, max(rows * PARTITIONS_WHOLE // len(parts), ROWS_EACH_MIN))

    async def ask(part: TopicName) -> Json | str | None:
        """Return the partition's answer, the reason why it has none, or None without the subscription."""
        try:
            args = Holders(part, subscription, rows_each, key, key_base64)
            answer: Json = await engine.call(HOLDERS, args)
        except (MagnetarError, TimeoutError) as error:
            refused = isinstance(error, Refusal) and not error.retriable
            # Another partition may have the subscription: it was created when the topic had fewer of them.
            if len(parts) == 1 or (refused and not isinstance(error, NotFound)):
                raise
            return None if isinstance(error, NotFound) else str(error) or "no answer in time"
        return answer

    answers = dict(zip(parts, await on_each(list(parts.values()), ask), strict=True))
    present = {index: part for index, part in answers.items() if isinstance(part, dict)}
    missing = [
        {"partition": index, "reason": part}
        for index, part in answers.items()
        if isinstance(part, str)
    ]
    if not present and not missing:
        raise NotFound("Subscription not found")
    consumers = sorted(
        (_consumer(index, shown) for index, part in present.items() for shown in part["consumers"]),
        key=lambda shown: -(shown["entries"] or 0),
    )
    unacked = sorted(
        (_unacked(index, part, row) for index, part in present.items() for row in part["unacked"]),
        key=lambda row: (row["published"] is None, row["published"], row["partition"] or 0),
    )
    draining = [
        _draining(index, part, row)
        for index, part in present.items()
        for row in (part["draining"] or {"rows": []})["rows"]
    ]
    return {
        "at": now_ms(),
        "type": next((part["type"] for part in present.values() if part["type"]), ""),
        "entries": None if missing else _sum(part["entries"] for part in present.values()),
        "missing": missing,
        "rows_each": rows_each,
        "consumers": consumers[:CONSUMERS_MAX],
        "consumers_total": len(consumers),
        "unacked": unacked[:rows],
        "keyed": any(part["draining"] is not None for part in present.values()),
        "draining": draining[:rows],
        "draining_total": sum(
            (part["draining"] or {"total": 0})["total"] for part in present.values()
        ),
        "delayed": _delayed(present, rows, is_complete=not missing),
        "keys": [_key(index, part) for index, part in present.items() if part["key"] is not None],
    }


async def of_message(engine: Engine, topic: TopicName, message: str) -> Json:
    """Return who holds a message, at every subscription of its topic or partition. Raises InvalidField, NotFound,
    Unsupported."""
    position = message_position(message, "message")
    if await catalog.partition_count(engine.store, topic):
        raise InvalidField("topic", "a position is one of a partition: name it")
    answer: Json = await engine.call(MESSAGE_HOLDERS, MessageHolders(topic, position))
    return {
        "at": now_ms(),
        "deliver_at": answer["delivers_ms"] or None,
        "total": answer["total"],
        "unread": answer["unread"],
        "subscriptions": [
            {
                **shown,
                "consumer": shown["consumer"] and _named(shown["consumer"]),
                "waits_for": shown["waits_for"] and _named(shown["waits_for"]),
                "range": shown["range"] and list(shown["range"]),
            }
            for shown in answer["subscriptions"]
        ],
    }


def text_of(position: MessagePosition) -> str:
    """Return a position as the console writes it."""
    text = f"{position.ledger_id}:{position.entry_id}"
    return text if position.batch_index < 0 else f"{text}:{position.batch_index}"


def _named(consumer: Json) -> Json:
    return {"name": consumer["name"], "address": consumer["address"].removeprefix("/")}


def _consumer(index: int, shown: Json) -> Json:
    return {
        **_named(shown),
        "partition": partition_of(index),
        "connected": shown["connected_ms"],
        "entries": shown["entries"],
        "messages": shown["messages"],
        "redelivered": shown["redelivered"],
        "oldest": shown["oldest"] and _position(*shown["oldest"]),
        "oldest_at": shown["oldest_ms"],
        "ranges": [list(ends) for ends in shown["ranges"]],
    }


def _unacked(index: int, part: Json, row: list[Any]) -> Json:
    ledger, entry, messages, consumer, redeliveries, published, slot = row
    return {
        "partition": partition_of(index),
        "id": _position(ledger, entry),
        "messages": messages,
        "consumer": _named(part["consumers"][consumer]),
        "redeliveries": redeliveries,
        "published": published,
        "slot": slot,
    }


def _draining(index: int, part: Json, row: list[int]) -> Json:
    slot, consumer, entries, refused = row
    return {
        "partition": partition_of(index),
        "slot": slot,
        "consumer": _named(part["consumers"][consumer]),
        "entries": entries,
        "refused": refused,
    }


def _delayed(present: dict[int, Json], rows: int, *, is_complete: bool) -> Json | None:
    """Return the delayed messages over all partitions; None where no broker keeps delivery times."""
    parts = {
        index: part["delayed"] for index, part in present.items() if part["delayed"] is not None
    }
    if not parts:
        return None
    known = [part["known_ms"] for part in parts.values() if part["known_ms"] is not None]
    # Where a partition does not list all of its entries, later ones of others are not the next ones.
    known += [
        part["rows"][-1][0] + 1
        for part in parts.values()
        if len(part["rows"]) < part["entries"] and part["rows"]
    ]
    until = min(known, default=None)
    listed = sorted(
        (due, index, ledger, entry)
        for index, part in parts.items()
        for due, ledger, entry in part["rows"]
        if until is None or due < until
    )
    lasts = [(part["last_ms"], part["last_exact"]) for part in parts.values() if part["last_ms"]]
    last, is_exact = max(lasts, default=(None, False))
    return {
        "entries": sum(part["entries"] for part in parts.values()) if is_complete else None,
        "rows": [
            {"due": due, "partition": partition_of(index), "id": _position(ledger, entry)}
            for due, index, ledger, entry in listed[:rows]
        ],
        "last": last,
        "last_is_exact": is_exact,
    }


def _key(index: int, part: Json) -> Json:
    key, consumers = part["key"], part["consumers"]
    owner, former = key["consumer"], key["waits_for"]
    return {
        "partition": partition_of(index),
        "slot": key["slot"],
        "consumer": None if owner is None else _named(consumers[owner]),
        "range": key["range"] and list(key["range"]),
        "waits_for": None if former is None else _named(consumers[former]),
    }


def _position(ledger: int, entry: int) -> str:
    return f"{ledger}:{entry}"


def _sum(values: Any) -> int | None:
    items = list(values)
    return None if None in items else sum(items)
