"""The backlog and consumers of a subscription: reported before it is deleted, and checked again when it is.

Entries published after the preview are lost with the subscription, too: an unused one on a busy topic could never be
deleted otherwise. They are counted, and reported as ``later``.
"""

from typing import Any

from engine.admin.api.arguments import JsonObject
from engine.base.errors import Conflict, InvalidField
from engine.base.ids import Position
from engine.broker.administration.previews import cursor_changes
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic

AGAIN = "; nothing was deleted"


async def of(topic: Topic, name: str, now_ms: int) -> JsonObject:
    """Return the preview of the deletion of a subscription that exists or cannot be read now, see
    ``SUBSCRIPTION_HOLDINGS``."""
    subscription = topic.subscriptions.get(name)
    if subscription is None:
        nothing = {"entries": None, "messages": None, "exact": False}
        about = {
            "durable": True,
            "type": "",
            "unread": topic.subscriptions.unread.get(name, ""),
            "consumers": [],
        }
        return about | nothing | {"seen": _seen(topic, None)}
    # Before the messages are counted: entries published meanwhile are not part of the preview.
    seen = _seen(topic, subscription)
    lost: JsonObject = {"entries": 0, "messages": 0, "exact": True}
    if topic.name.persistent:
        lost = await cursor_changes.passed(subscription, None, now_ms)
    return {
        "durable": subscription.durable,
        "type": "" if subscription.dispatch.kind is None else subscription.dispatch.kind.title,
        "unread": "",
        "consumers": [
            {
                "name": consumer.name,
                "address": consumer.outlet.address,
                "id": consumer.consumer_id,
                "connected_ms": consumer.connected_ms,
                "unacked": consumer.unacked,
            }
            for consumer in subscription.consumers
        ],
        **lost,
        "seen": seen,
    }


def check(topic: Topic, name: str, seen: Any, *, force: bool) -> None:
    """Raise Conflict when more of the entries that existed at the preview would be lost than ``seen`` reported, for a
    consumer that it does not have, and for any consumer unless ``force``; InvalidField when ``seen`` is malformed.
    Entries acknowledged and consumers disconnected since are no conflict."""
    try:
        last, limit = Position(*map(int, seen["last"])), seen["unread"]
        known = set(seen["consumers"])
        limit = None if limit is None else int(limit)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidField("seen", "must be as the preview answered it") from error
    subscription = topic.subscriptions.get(name)
    if subscription is None or limit is None:
        if subscription is not None:
            raise Conflict(f"Subscription {name} can be read again: look at what it holds{AGAIN}")
        if limit is not None:
            raise Conflict(f"Subscription {name} cannot be read now{AGAIN}")
        return
    for consumer in _consumers(subscription):
        if consumer not in known:
            raise Conflict(f"A consumer connected since the preview: {consumer}{AGAIN}")
    count = len(subscription.consumers)
    if count and not force:
        clients = "1 consumer is" if count == 1 else f"{count} consumers are"
        raise Conflict(f"{clients} connected to subscription {name}{AGAIN}")
    if _unread_up_to(topic, subscription, last) > limit:
        raise Conflict(f"Subscription {name} was moved back since the preview{AGAIN}")


def at_deletion(topic: Topic, name: str, seen: Any) -> JsonObject:
    """Return ``before``, for the audit log, and with ``seen`` the number of lost entries that were published
    ``later``. No message is counted."""
    subscription = topic.subscriptions.get(name)
    if subscription is None:
        return {"before": {"entries": None, "consumers": [], "properties": {}}, "later": None}
    entries = subscription.cursor.backlog_entries() if topic.name.persistent else 0
    before = {
        "entries": entries,
        "consumers": _consumers(subscription),
        "properties": dict(subscription.cursor.cursor_properties),
    }
    if seen is None:
        return {"before": before}
    until = _unread_up_to(topic, subscription, Position(*map(int, seen["last"])))
    return {"before": before, "later": max(entries - until, 0)}


def _seen(topic: Topic, subscription: Subscription | None) -> JsonObject:
    last = topic.log.stats().last_confirmed
    unread = None if subscription is None else _unread_up_to(topic, subscription, last)
    consumers = [] if subscription is None else _consumers(subscription)
    return {"last": list(last), "unread": unread, "consumers": consumers}


def _consumers(subscription: Subscription) -> list[str]:
    return [f"{consumer.name} at {consumer.outlet.address}" for consumer in subscription.consumers]


def _unread_up_to(topic: Topic, subscription: Subscription, last: Position) -> int:
    """Return the number of unacknowledged entries up to ``last``."""
    if not topic.name.persistent:
        return 0
    cursor = subscription.cursor
    return cursor.effect(cursor.state(), cursor.state_passed_to(last)).lost.total
