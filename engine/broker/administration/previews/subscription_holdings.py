"""What a subscription holds and who uses it: reported before it is deleted, and checked again when it goes.

What is published after the preview is lost with the subscription, too: one that nobody reads on a busy topic could
never be deleted otherwise. It is counted, and reported as ``later``.
"""

from typing import Any

from engine.admin.api import JsonObject
from engine.base.errors import Conflict, InvalidField
from engine.base.ids import Position
from engine.broker.administration.previews import cursor_changes
from engine.broker.topics.subscription import Subscription
from engine.broker.topics.topic import Topic

AGAIN = "; nothing was deleted"


async def of(topic: Topic, name: str, now_ms: int) -> JsonObject:
    """See ``SUBSCRIPTION_HOLDINGS``; of a subscription that is there, or cannot be read now."""
    subscription = topic.subscriptions.get(name)
    if subscription is None:
        nothing = {"entries": None, "messages": None, "exact": False}
        about = {"durable": True, "type": "", "unread": topic.unread.get(name, ""), "consumers": []}
        return about | nothing | {"seen": _seen(topic, None)}
    seen = _seen(
        topic, subscription
    )  # first: what comes while messages are counted, nobody has seen
    lost: JsonObject = {"entries": 0, "messages": 0, "exact": True}
    if topic.name.persistent:
        lost = await cursor_changes.passed(subscription, None, now_ms)
    return {
        "durable": subscription.durable,
        "type": "" if subscription.kind is None else subscription.kind.title,
        "unread": "",
        "consumers": [
            {
                "name": one.name,
                "address": one.outlet.address,
                "id": one.consumer_id,
                "connected_ms": one.connected_ms,
                "unacked": one.unacked,
            }
            for one in subscription.consumers
        ],
        **lost,
        "seen": seen,
    }


def check(topic: Topic, name: str, seen: Any, *, force: bool) -> None:
    """Raise Conflict when more of what was there at the preview would be lost than in ``seen``, for a consumer that is
    not in it, and for any consumer unless ``force``; InvalidField for what is no ``seen``. What was acknowledged since,
    and who left, is no hindrance."""
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
    """Return ``before``, for the audit log, and with ``seen`` how much is lost that came ``later``, in entries. Quick,
    and not exact to the message."""
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
    return [f"{one.name} at {one.outlet.address}" for one in subscription.consumers]


def _unread_up_to(topic: Topic, subscription: Subscription, last: Position) -> int:
    """Entries up to ``last`` that are not acknowledged."""
    if not topic.name.persistent:
        return 0
    cursor = subscription.cursor
    return cursor.effect(cursor.state(), cursor.state_passed_to(last)).lost.total
