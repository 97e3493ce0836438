"""Deletion of a subscription: what is lost with it, and that done, on each partition.

What is published after the preview goes with it, too, and is counted; a preview stays true of all else, or the
deletion is refused.
"""

from typing import Any

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.subscriptions.services import WHOLE, ChangeResult, members
from engine.admin import api
from engine.admin.fan_out import on_each
from engine.base.errors import Conflict, MagnetarError, NotFound, Refusal
from engine.base.names import TopicName
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

KIND = "subscription-deletion"
UNKNOWN = "It is not known whether the subscription was deleted: look at the topic's subscriptions"


async def preview(
    engine: Engine, topic: TopicName, subscription: str, user: str, *, force: bool
) -> Json:
    """What would be lost, with the token that confirms it. ``force``: consumers are disconnected. Raises NotFound when
    no partition has the subscription."""
    parts = await members(engine, topic)
    found = await holdings(engine, parts, subscription)
    said = _about(topic, subscription, user) | {
        "force": force,
        "count": len(parts),
        "seen": {str(index): one["seen"] for index, one in found.items()},
    }
    return {
        "token": confirming.sign(KIND, said),
        "at": now_ms(),
        "force": force,
        "partitions": 0 if WHOLE in parts else len(found),
        "durable": any(one["durable"] for one in found.values()),
        "type": next((one["type"] for one in found.values() if one["type"]), ""),
        "entries": _sum(one["entries"] for one in found.values()),
        "messages": _sum(one["messages"] for one in found.values()),
        "exact": all(one["exact"] for one in found.values()),
        "consumers": [
            consumer for index, one in found.items() for consumer in consumers_of(index, one)
        ],
        "unread": [
            {"partition": partition_of(index), "reason": one["unread"]}
            for index, one in found.items()
            if one["unread"]
        ],
    }


async def apply(
    engine: Engine, topic: TopicName, subscription: str, user: str, token: str
) -> ChangeResult:
    """Delete it on every partition as previewed. 409 when a partition refuses, before which all are asked, or 503 when
    one gave no answer: with what was done where. Raises Conflict when partitions came since, NotFound when it is gone
    everywhere."""
    said = confirming.read(KIND, token, _about(topic, subscription, user))
    parts = await members(engine, topic)
    if len(parts) != said["count"]:
        raise Conflict(
            "The number of partitions was changed since the preview; nothing was deleted"
        )
    seen = {int(index): one for index, one in said["seen"].items()}
    await _check_missing(engine, subscription, parts, set(seen))
    indexes = {parts[index]: index for index in seen}

    async def one(part: TopicName, *, dry: bool) -> Json:
        args = api.DeleteSubscription(
            part, subscription, force=said["force"], seen=seen[indexes[part]], dry=dry
        )
        try:
            answer = await engine.call(api.DELETE_SUBSCRIPTION, args)
        except NotFound:  # somebody else deleted it, or the partition
            return {"done": True, "entries": 0, "later": 0, "gone": True}
        except (MagnetarError, TimeoutError) as error:
            retriable = not isinstance(error, Refusal) or error.retriable
            why = "unknown" if retriable and not dry else "refused"
            return {"done": False, "why": why, "reason": str(error)}
        before = answer.get("before", {})
        return {"done": True, "entries": before.get("entries"), "later": answer.get("later")}

    found = await on_each(list(indexes), lambda part: one(part, dry=True))
    if all(each.get("gone") for each in found):
        raise NotFound("Subscription not found")
    if all(each["done"] for each in found):
        found = await on_each(list(indexes), lambda part: one(part, dry=False))
    else:  # none was deleted
        found = [{"done": False} if each["done"] else each for each in found]
    return _outcome(list(seen), found)


def _outcome(indexes: list[int], found: list[Json]) -> ChangeResult:
    parts = [
        {"partition": partition_of(index)} | {k: v for k, v in one.items() if k != "gone"}
        for index, one in zip(indexes, found, strict=True)
    ]
    done = [one for one in found if one["done"]]
    body: Json = {
        "at": now_ms(),
        "done": len(done) == len(parts),
        "entries": _sum(one["entries"] for one in done),
        "later": _sum(one["later"] for one in done),
        "parts": parts,
    }
    if body["done"]:
        return ChangeResult(200, body)
    bad = [one for one in found if "why" in one]
    unknown = any(one["why"] == "unknown" for one in bad)
    where = f" (deleted on {len(done)} of {len(parts)} partitions)" if len(parts) > 1 else ""
    reason = f"{UNKNOWN}: {bad[0]['reason']}" if unknown else bad[0]["reason"]
    return ChangeResult(503 if unknown else 409, body | {"reason": reason + where})


async def holdings(
    engine: Engine, parts: dict[int, TopicName], subscription: str
) -> dict[int, Json]:
    """What the partitions that have the subscription answer. Raises NotFound when none has it."""

    async def one(part: TopicName) -> Json | None:
        try:
            args = api.OnSubscription(part, subscription)
            return await engine.call(api.SUBSCRIPTION_HOLDINGS, args)
        except NotFound:
            if WHOLE in parts:
                raise
            return None  # the subscription was made when the topic had fewer partitions

    answers = await on_each(list(parts.values()), one)
    found = {index: one for index, one in zip(parts, answers, strict=True) if one is not None}
    if not found:
        raise NotFound("Subscription not found")
    return found


def consumers_of(index: int, found: Json) -> list[Json]:
    """The consumers of a partition, as of the contract."""
    return [
        {
            "name": one["name"],
            "address": one["address"].removeprefix("/"),
            "partition": partition_of(index),
            "connected": one["connected_ms"],
            "unacked": one["unacked"],
        }
        for one in found["consumers"]
    ]


def partition_of(index: int) -> int | None:
    """The number as of the contract."""
    return None if index == WHOLE else index


async def _check_missing(
    engine: Engine, subscription: str, parts: dict[int, TopicName], seen: set[int]
) -> None:
    """Raise Conflict when the subscription was made since on a partition that had it not."""
    others = {index: part for index, part in parts.items() if index not in seen}
    if not others:
        return
    try:
        made = await holdings(engine, others, subscription)
    except NotFound:
        return
    raise Conflict(
        f"The subscription was made on partition {min(made)} since the preview; nothing was deleted"
    )


def _about(topic: TopicName, subscription: str, user: str) -> Json:
    return {"topic": str(topic), "subscription": subscription, "user": user}


def _sum(values: Any) -> int | None:
    given = list(values)
    return None if None in given else sum(given)
