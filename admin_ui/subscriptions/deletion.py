"""Deletion of a subscription: the preview of what is lost, and the deletion on each partition.

Messages that are published after the preview are lost, too, and are counted. If anything else changed since the
preview, the deletion is refused.
"""

from typing import Any

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.subscriptions.services import (
    WHOLE,
    ChangeResult,
    members,
    partition_of,
    where_present,
)
from engine.admin.api.arguments import OnSubscription
from engine.admin.api.subscriptions import (
    DELETE_SUBSCRIPTION,
    SUBSCRIPTION_HOLDINGS,
    DeleteSubscription,
)
from engine.admin.fan_out import on_each
from engine.base.errors import Conflict, MagnetarError, NotFound, Refusal
from engine.base.names import TopicName
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

KIND = "subscription-deletion"
UNKNOWN = "It is not known whether the subscription was deleted: look at the topic's subscriptions"


async def preview(
    engine: Engine, topic: TopicName, subscription: str, user: str, *, force: bool
) -> Json:
    """Return what would be lost, with the token that confirms it. ``force``: consumers are disconnected. Raises
    NotFound when no partition has the subscription."""
    content, shown = await plan(engine, topic, subscription, user, force=force)
    return {"token": confirming.sign(engine.served, KIND, content), **shown}


async def plan(
    engine: Engine, topic: TopicName, subscription: str, user: str, *, force: bool
) -> tuple[Json, Json]:
    """Return what ``make_planned`` needs to make exactly this deletion, and what would be lost. Raises as
    ``preview``."""
    parts = await members(engine, topic)
    held = await holdings(engine, parts, subscription)
    content = about(topic, subscription, user) | {
        "force": force,
        "count": len(parts),
        "seen": {str(index): holding["seen"] for index, holding in held.items()},
    }
    return content, {
        "at": now_ms(),
        "force": force,
        "partitions": 0 if WHOLE in parts else len(held),
        "durable": any(holding["durable"] for holding in held.values()),
        "type": next((holding["type"] for holding in held.values() if holding["type"]), ""),
        "entries": _sum(holding["entries"] for holding in held.values()),
        "messages": _sum(holding["messages"] for holding in held.values()),
        "exact": all(holding["exact"] for holding in held.values()),
        "consumers": [
            consumer for index, holding in held.items() for consumer in consumers_of(index, holding)
        ],
        "unread": [
            {"partition": partition_of(index), "reason": holding["unread"]}
            for index, holding in held.items()
            if holding["unread"]
        ],
    }


async def apply(
    engine: Engine, topic: TopicName, subscription: str, user: str, token: str
) -> ChangeResult:
    """Delete the subscription on every partition as previewed.

    Every partition is checked before the first deletion. Returns 409 when a partition refuses, 503 when one gave no
    answer, with the result of each partition. Raises Conflict when partitions were added since, NotFound when the
    subscription is deleted everywhere.
    """
    content = confirming.read(engine.served, KIND, token, about(topic, subscription, user))
    return await make_planned(engine, topic, subscription, content)


async def make_planned(
    engine: Engine, topic: TopicName, subscription: str, content: Json
) -> ChangeResult:
    """Make a planned deletion. As ``apply``."""
    parts = await members(engine, topic)
    if len(parts) != content["count"]:
        raise Conflict(
            "The number of partitions was changed since the preview; nothing was deleted"
        )
    seen = {int(index): state for index, state in content["seen"].items()}
    await _check_missing(engine, subscription, parts, set(seen))
    indexes = {parts[index]: index for index in seen}

    async def delete(part: TopicName, *, dry: bool) -> Json:
        args = DeleteSubscription(
            part, subscription, force=content["force"], seen=seen[indexes[part]], dry=dry
        )
        try:
            answer = await engine.call(DELETE_SUBSCRIPTION, args)
        except NotFound:  # another client deleted it, or the partition
            return {"done": True, "entries": 0, "later": 0, "gone": True}
        except (MagnetarError, TimeoutError) as error:
            retriable = not isinstance(error, Refusal) or error.retriable
            # A dry call changes nothing: without its answer nothing is left unknown.
            why = "unknown" if retriable and not dry else "refused"
            return {"done": False, "why": why, "reason": str(error)}
        before = answer.get("before", {})
        return {"done": True, "entries": before.get("entries"), "later": answer.get("later")}

    results = await on_each(list(indexes), lambda part: delete(part, dry=True))
    if all(result.get("gone") for result in results):
        raise NotFound("Subscription not found")
    if all(result["done"] for result in results):
        results = await on_each(list(indexes), lambda part: delete(part, dry=False))
    else:  # none was deleted
        results = [{"done": False} if result["done"] else result for result in results]
    return _result(list(seen), results)


def _result(indexes: list[int], results: list[Json]) -> ChangeResult:
    parts = [
        {"partition": partition_of(index)}
        | {name: value for name, value in result.items() if name != "gone"}
        for index, result in zip(indexes, results, strict=True)
    ]
    done = [result for result in results if result["done"]]
    body: Json = {
        "at": now_ms(),
        "done": len(done) == len(parts),
        "entries": _sum(result["entries"] for result in done),
        "later": _sum(result["later"] for result in done),
        "parts": parts,
    }
    if body["done"]:
        return ChangeResult(200, body)
    failed = [result for result in results if "why" in result]
    unknown = any(result["why"] == "unknown" for result in failed)
    where = f" (deleted on {len(done)} of {len(parts)} partitions)" if len(parts) > 1 else ""
    reason = f"{UNKNOWN}: {failed[0]['reason']}" if unknown else failed[0]["reason"]
    return ChangeResult(503 if unknown else 409, body | {"reason": reason + where})


async def holdings(
    engine: Engine, parts: dict[int, TopicName], subscription: str
) -> dict[int, Json]:
    """Return the answers of the partitions that have the subscription, by number. Raises NotFound when none has it."""
    return await where_present(
        parts,
        lambda part: engine.call(SUBSCRIPTION_HOLDINGS, OnSubscription(part, subscription)),
    )


def consumers_of(index: int, holding: Json) -> list[Json]:
    """Return the consumers of a partition, as in the console API."""
    return [
        {
            "name": consumer["name"],
            "address": consumer["address"].removeprefix("/"),
            "partition": partition_of(index),
            "connected": consumer["connected_ms"],
            "unacked": consumer["unacked"],
        }
        for consumer in holding["consumers"]
    ]


async def _check_missing(
    engine: Engine, subscription: str, parts: dict[int, TopicName], seen: set[int]
) -> None:
    """Raise Conflict when the subscription was created since on a partition that did not have it."""
    missing = {index: part for index, part in parts.items() if index not in seen}
    if not missing:
        return
    try:
        created = await holdings(engine, missing, subscription)
    except NotFound:
        return
    raise Conflict(
        f"The subscription was made on partition {min(created)} since the preview; nothing was deleted"
    )


def about(topic: TopicName, subscription: str, user: str) -> Json:
    """Return the members that bind a token to a user and a subscription."""
    return {"topic": str(topic), "subscription": subscription, "user": user}


def _sum(values: Any) -> int | None:
    items = list(values)
    return None if None in items else sum(items)
