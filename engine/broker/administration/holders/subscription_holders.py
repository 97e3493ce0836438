"""Holders of one subscription's messages: unacknowledged entries by consumer, draining keys and delayed entries."""

import asyncio
from collections.abc import Iterable, Mapping
from heapq import merge
from typing import NamedTuple

from engine.admin.api.arguments import JsonObject
from engine.admin.api.subscriptions import Holders
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.broker.dispatch.choose.sticky import KeyStats
from engine.broker.dispatch.consumer import Consumer
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic

READ_S_MAX = 2.0
"""Time limit for reading when entries were published. Times that are not known by then are null."""


class Unacked(NamedTuple):
    """A delivered, unacknowledged entry. ``messages`` and ``slot`` None: not counted, no slot."""

    position: Position
    messages: int | None
    consumer: Consumer
    slot: int | None


async def of(topic: Topic, subscription: Subscription, args: Holders) -> JsonObject:
    """Return the answer of ``HOLDERS``."""
    # All of it is of one moment: only the publish times are read behind it.
    dispatch, dispatcher = subscription.dispatch, subscription.dispatch.dispatcher
    keys = dispatch.key_stats
    counts = {
        consumer: held_entries(topic, subscription, consumer) for consumer in subscription.consumers
    }
    consumers = sorted(counts, key=lambda consumer: -(counts[consumer] or 0))
    place = {consumer: number for number, consumer in enumerate(consumers)}
    unacked = _first(topic, subscription, args.rows)
    oldest = {
        consumer: first[0].position
        for consumer in consumers
        if (first := first_of(topic, subscription, consumer, 1))
    }
    key = args.key_bytes()
    key_place = None if key is None or dispatcher is None else dispatcher.key_place(key)
    entries = list(counts.values())
    answer: JsonObject = {
        "type": "" if dispatch.kind is None else dispatch.kind.title,
        "durable": subscription.durable,
        "entries": None if None in entries else sum(count for count in entries if count),
        "draining": None if dispatch.keys is None else _draining(keys, place, args.rows),
        "delayed": _delayed(subscription, args.rows),
        "key": key_place
        and {
            "slot": key_place.slot,
            "consumer": None if key_place.owner is None else place[key_place.owner],
            "range": key_place.range,
            "waits_for": None if key_place.draining is None else place[key_place.draining.holder],
        },
        "consumers": [
            {
                "name": consumer.name,
                "address": consumer.outlet.address,
                "connected_ms": consumer.connected_ms,
                "entries": counts[consumer],
                "messages": None if consumer.kind.ordered else consumer.unacked,
                "redelivered": consumer.redelivered.total,
                "oldest": oldest.get(consumer),
                "oldest_ms": None,
                "ranges": keys[consumer].ranges if consumer in keys else [],
            }
            for consumer in consumers
        ],
    }
    rows = [
        (*row.position, row.messages, place[row.consumer], dispatch.redeliveries(row.position))
        for row in unacked
    ]
    wanted = {row.position for row in unacked}
    wanted.update(oldest[consumer] for consumer in consumers[: args.rows] if consumer in oldest)
    published = await _published(topic, sorted(wanted))
    for consumer, shown in zip(consumers, answer["consumers"], strict=True):
        if consumer in oldest:
            shown["oldest_ms"] = published.get(oldest[consumer])
    return answer | {
        "unacked": [
            [*row, published.get(entry.position), entry.slot]
            for row, entry in zip(rows, unacked, strict=True)
        ]
    }


def held_entries(topic: Topic, subscription: Subscription, consumer: Consumer) -> int | None:
    """Return the number of entries that a consumer was sent and has not acknowledged; None where it is not known."""
    if consumer.pending is not None:
        return len(consumer.pending)
    if not consumer.kind.ordered:
        return 0  # it does not acknowledge
    if consumer is not subscription.dispatch.state.active:
        return 0
    behind = undelivered(subscription)
    if behind is None:
        return None
    log = topic.log
    later = log.entries_between(behind, log.next_position(log.last_confirmed))
    return max(subscription.cursor.backlog_entries() - later, 0)


def undelivered(subscription: Subscription) -> Position | None:
    """Return the first entry that was not sent to the active consumer of a type that delivers in order; None when that
    reads the compacted topic."""
    dispatch = subscription.dispatch
    if dispatch.compacted is not None:
        return None
    return dispatch.first_held or subscription.cursor.read_position


def first_of(
    topic: Topic, subscription: Subscription, consumer: Consumer, count: int
) -> list[Unacked]:
    """Return the first entries that a consumer was sent and has not acknowledged."""
    if consumer.pending is not None:
        has_slots = consumer.pending.slots_of is not None
        return [
            Unacked(position, messages, consumer, slot if has_slots else None)
            for position, messages, slot in consumer.pending.first(count)
        ]
    if consumer is not subscription.dispatch.state.active:
        return []
    behind = undelivered(subscription)
    if behind is None:
        return []
    cursor, log = subscription.cursor, topic.log
    start = log.next_position(cursor.mark_delete)
    positions = cursor.unacknowledged(start, log.last_confirmed, count)
    return [Unacked(position, None, consumer, None) for position in positions if position < behind]


def _first(topic: Topic, subscription: Subscription, count: int) -> list[Unacked]:
    of_each = [
        first_of(topic, subscription, consumer, count) for consumer in subscription.consumers
    ]
    return list(merge(*of_each, key=lambda row: row.position))[:count]


async def _published(topic: Topic, positions: Iterable[Position]) -> dict[Position, int]:
    """Return when the entries were published, as far as that could be read in time."""
    published: dict[Position, int] = {}
    try:
        async with asyncio.timeout(READ_S_MAX):
            for position in positions:
                try:
                    published[position] = (await topic.log.entry_summary(position)).publish_ms
                except MagnetarError:
                    continue  # the entry is listed without its age
    except TimeoutError:
        pass
    return published


def _draining(
    keys: Mapping[Consumer, KeyStats], place: Mapping[Consumer, int], count: int
) -> JsonObject:
    rows = sorted(
        (slot, place[consumer], state.entries, state.refused)
        for consumer, stats in keys.items()
        for slot, state in stats.draining.items()
    )
    return {"total": len(rows), "rows": rows[:count]}


def _delayed(subscription: Subscription, count: int) -> JsonObject | None:
    dispatcher = subscription.dispatch.dispatcher
    if dispatcher is None or not subscription.consumers or dispatcher.delays is None:
        return None
    delays = dispatcher.delays
    last = delays.last_ms
    return {
        "entries": dispatcher.state.delayed,
        "rows": [
            [at_ms, *position]
            for at_ms, position in delays.first(count, subscription.cursor.is_acknowledged)
        ],
        "known_ms": delays.known_ms,
        "last_ms": None if last is None else last[0],
        "last_exact": last is not None and last[1],
    }
