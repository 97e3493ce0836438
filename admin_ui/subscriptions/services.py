"""Changes of a subscription's position: their preview, exactly that change made, and its undoing."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from admin_ui.confirming import Json
from admin_ui.subscriptions.tokens import Confirmed, sign
from engine.admin.api.arguments import OnTopic
from engine.admin.api.cursors import (
    LAST_CHANGES,
    MOVE_CURSOR,
    PREVIEW_CHANGE,
    CursorChange,
    MoveCursor,
    PreviewChange,
)
from engine.admin.fan_out import on_each
from engine.base.errors import Conflict, MagnetarError, NotFound, Refusal, Unsupported
from engine.base.names import TopicName
from gateway.services import catalog
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

UNKNOWN = "It is not known whether the change was made: look at the subscription's last change"
WHOLE = -1
"""Index of a topic without partitions."""
_MOVED = ("base", "target", "lost", "again", "lost_messages", "again_messages", "exact")
"""Members of a preview that are arguments of the confirmed change (``MoveCursor``)."""


class ChangeResult(NamedTuple):
    """Answer to an application: 200 when all of it is done, else 409 or 503 with the result of each partition."""

    status: int
    body: Json


async def preview(
    engine: Engine,
    topic: TopicName,
    subscription: str,
    change: CursorChange,
    user: str,
    *,
    count: int | None = None,
    timestamp: int | None = None,
    undo: str | None = None,
) -> Json:
    """Return what the change would do, with the token that confirms exactly that. Raises Refusal."""
    args = PreviewChange(topic, subscription, change, count, timestamp, undo=undo)
    totals, confirmed = await plan(engine, args, user)
    return totals | {"id": confirmed.id, "token": sign(engine.served, confirmed)}


async def undo(
    engine: Engine, topic: TopicName, subscription: str, user: str, change: str
) -> ChangeResult:
    """Undo ``change`` at once if the cursor can be restored completely. Otherwise answer 409 with the parts of a
    preview of the undo, which the user may confirm."""
    args = PreviewChange(topic, subscription, "undo", undo=change)
    totals, confirmed = await plan(engine, args, user)
    if totals["gone"]:
        reason = f"{totals['gone']} of the entries were deleted since then and cannot be restored"
    elif totals["moved"]:
        reason = f"Another user moved the subscription since that change: {totals['moved']} entries were set back"
    else:
        return await apply(engine, topic, confirmed)
    return ChangeResult(409, {"done": False, "reason": reason, "parts": totals["parts"]})


async def plan(engine: Engine, args: PreviewChange, user: str) -> tuple[Json, Confirmed]:
    """Return what a change would do, and what ``apply`` needs to make exactly that. Raises Refusal."""
    members = await _members(engine, args.topic, args.change)
    if args.undo is not None:
        members = await _changed_by(engine, members, args.subscription, args.undo)

    previews = await where_present(
        members,
        lambda member: engine.call(PREVIEW_CHANGE, replace(args, topic=member)),
    )
    confirmed = Confirmed(
        topic=str(args.topic),
        subscription=args.subscription,
        change=args.change,
        user=user,
        parts={
            str(index): {name: part[name] for name in _MOVED} for index, part in previews.items()
        },
        undoes=args.undo or "",
    )
    return _sums(previews) | {"parts": _parts(previews)}, confirmed


def _parts(previews: dict[int, Json]) -> list[Json]:
    names = ("from", "to", "holes", "delayed", "first", "last", "gone", "moved")
    return [
        _amounts(part) | {name: part[name] for name in names} | {"partition": partition_of(index)}
        for index, part in previews.items()
    ]


def _amounts(part: Json) -> Json:
    """Return messages under the plain names, null when storage does not have their number, and entries beside them."""
    lost, again = part["lost_messages"], part["again_messages"]
    return {
        "affected": None if lost is None or again is None else lost + again,
        "lost": lost,
        "again": again,
        "entries": part["lost"] + part["again"],
        "lost_entries": part["lost"],
        "again_entries": part["again"],
        "exact": part["exact"],
    }


def _sums(previews: dict[int, Json]) -> Json:
    parts = [_amounts(part) for part in previews.values()]
    sums: Json = {name: _sum(part[name] for part in parts) for name in parts[0] if name != "exact"}
    sums["exact"] = all(part["exact"] for part in parts)
    direction = "forward" if sums["lost_entries"] else "back" if sums["again_entries"] else "none"
    answers = list(previews.values())
    firsts = [part["first"]["publish_time"] for part in answers if part["first"]]
    lasts = [part["last"]["publish_time"] for part in answers if part["last"]]
    has_times = all(firsts) and all(lasts) and firsts and lasts
    return sums | {
        "direction": direction,
        "holes": sum(part["holes"] for part in answers),
        "delayed": _sum(part["delayed"] for part in answers),
        "gone": sum(part["gone"] for part in answers),
        "moved": sum(part["moved"] for part in answers),
        "span": {"from": min(firsts), "to": max(lasts)} if has_times else None,
        "consumers": _consumers(previews),
        "undoable": all(part["undoable"] for part in answers),
        "kept_ms": min(part["kept_ms"] for part in answers),
    }


def _sum(values: Any) -> int | None:
    items = list(values)
    return None if None in items else sum(items)


def _consumers(previews: dict[int, Json]) -> list[Json]:
    """Return each consumer once, however many partitions it reads."""
    return list(
        {
            (consumer["name"], consumer["address"]): consumer
            for part in previews.values()
            for consumer in part["consumers"]
        }.values()
    )


async def apply(engine: Engine, topic: TopicName, confirmed: Confirmed) -> ChangeResult:
    """Make the previewed change on every partition. Nothing is changed when a first round finds a partition that would
    refuse."""
    parts = {
        topic if index == str(WHOLE) else topic.partition_at(int(index)): part
        for index, part in confirmed.parts.items()
    }

    async def move(member: TopicName, *, dry: bool) -> Json:
        args = MoveCursor(
            member,
            confirmed.subscription,
            id=confirmed.id,
            change=confirmed.change,
            by=confirmed.user,
            undoes=confirmed.undoes,
            **parts[member],
        )
        try:
            return await engine.call(MOVE_CURSOR, replace(args, dry=dry))
        except (MagnetarError, TimeoutError) as error:
            retriable = not isinstance(error, Refusal) or error.retriable
            # A dry call changes nothing: without its answer nothing is left unknown.
            why = "unknown" if retriable and not dry else "refused"
            return {"done": False, "why": why, "reason": str(error)}

    async def on_all_parts(work: Callable[[TopicName], Awaitable[Json]]) -> list[Json]:
        return await on_each(list(parts), work)

    indexes = [int(index) for index in confirmed.parts]
    if len(parts) > 1:
        results = await on_all_parts(lambda member: move(member, dry=True))
        if not all(result["done"] for result in results):
            return _result(confirmed, indexes, results, changed=False)
    results = await on_all_parts(lambda member: move(member, dry=False))
    return _result(confirmed, indexes, results, changed=True)


def _result(
    confirmed: Confirmed, indexes: Sequence[int], results: Sequence[Json], *, changed: bool
) -> ChangeResult:
    parts = []
    for index, result in zip(indexes, results, strict=True):
        part: Json = {
            "partition": partition_of(index),
            "done": result["done"] and changed,
        }
        if part["done"]:
            names = ("from", "to", "mark_delete", "meanwhile")
            part |= _amounts(result) | {name: result[name] for name in names}
        elif not result["done"]:
            part |= {
                name: result[name]
                for name in ("why", "reason", "entries", "mark_delete")
                if name in result
            }
        parts.append(part)
    done = [result for result in results if result["done"]] if changed else []
    moved = [result for result in done if result["changed"]]
    undoable = bool(moved) and all(result["undoable"] for result in moved)
    body: Json = {
        "id": confirmed.id,
        "change": confirmed.change,
        "at": now_ms(),
        "done": len(done) == len(parts),
        "parts": parts,
        "undo": confirmed.id if undoable else None,
        "undo_until": min(result["kept_until"] for result in moved) if undoable else None,
    }
    if done:
        amounts_done = [_amounts(result) for result in done]
        body |= {
            name: _sum(amounts[name] for amounts in amounts_done)
            for name in amounts_done[0]
            if name != "exact"
        }
        body["exact"] = all(amounts["exact"] for amounts in amounts_done)
        body["meanwhile"] = sum(result["meanwhile"] for result in done)
    if body["done"]:
        return ChangeResult(200, body)
    failed = [part for part in parts if "why" in part]
    unknown = any(part["why"] == "unknown" for part in failed)
    extent = f" ({len(done)} of {len(parts)} partitions were changed)" if len(parts) > 1 else ""
    body["reason"] = (
        f"{UNKNOWN}: {failed[0]['reason']}" if unknown else failed[0]["reason"]
    ) + extent
    return ChangeResult(503 if unknown else 409, body)


async def changes(engine: Engine, topic: TopicName) -> Json:
    """Return the last change of each subscription that was changed here, newest first. ``unknown``: partitions that did
    not answer. A change on several partitions is one row."""
    members = await _members(engine, topic, "undo")

    async def last_changes_of(member: TopicName) -> list[Json] | None:
        try:
            return await engine.call(LAST_CHANGES, OnTopic(member))
        except (MagnetarError, TimeoutError):
            if len(members) == 1:
                raise
            return None

    answers = await on_each(list(members.values()), last_changes_of)
    by_change: dict[tuple[str, str], list[tuple[int, Json]]] = {}
    for index, part_changes in zip(members, answers, strict=True):
        for change in part_changes or ():
            key = change["subscription"], change["id"]
            by_change.setdefault(key, []).append((index, change))
    rows = [_change_row(occurrences) for occurrences in by_change.values()]
    newest: dict[str, Json] = {}
    for row in sorted(rows, key=lambda row: int(row["at"])):
        newest[row["subscription"]] = row
    unknown = [
        index for index, part_changes in zip(members, answers, strict=True) if part_changes is None
    ]
    return {"changes": list(newest.values())[::-1], "partitions": len(members), "unknown": unknown}


def _change_row(occurrences: list[tuple[int, Json]]) -> Json:
    first = occurrences[0][1]
    per_part = [_amounts(change) for _, change in occurrences]
    amounts = {
        name: _sum(part[name] for part in per_part) for name in per_part[0] if name != "exact"
    }
    return {
        **{name: first[name] for name in ("subscription", "id", "by", "change", "undoes")},
        **amounts,
        "exact": all(part["exact"] for part in per_part),
        "at": max(change["at"] for _, change in occurrences),
        "undo": first["id"] if all(change["undoable"] for _, change in occurrences) else None,
        "undo_until": min(change["kept_until"] for _, change in occurrences),
        "parts": [index for index, _ in occurrences if index != WHOLE],
    }


async def _changed_by(
    engine: Engine, members: dict[int, TopicName], subscription: str, change: str
) -> dict[int, TopicName]:
    """Return the members whose last change is ``change``. Raises Conflict when there is none."""

    async def is_changed(member: TopicName) -> bool:
        last_changes = await engine.call(LAST_CHANGES, OnTopic(member))
        return any(
            last_change["subscription"] == subscription and last_change["id"] == change
            for last_change in last_changes
        )

    changed = await on_each(list(members.values()), is_changed)
    if not any(changed):
        raise Conflict(
            "The subscription was changed again after that change: only the last can be undone"
        )
    return {
        index: member
        for (index, member), is_member in zip(members.items(), changed, strict=True)
        if is_member
    }


async def _members(engine: Engine, topic: TopicName, change: CursorChange) -> dict[int, TopicName]:
    by_index = await members(engine, topic)
    if change == "skip" and WHOLE not in by_index:
        # As Pulsar: which messages "the next n" are is only defined within one partition.
        raise Unsupported("Skip messages on a partitioned topic is not allowed")
    return by_index


async def members(engine: Engine, topic: TopicName) -> dict[int, TopicName]:
    """Return the partitions by number; ``WHOLE`` for a topic without partitions."""
    partitions = await catalog.partition_count(engine.store, topic)
    if partitions == 0:
        return {WHOLE: topic}
    return {index: topic.partition_at(index) for index in range(partitions)}


async def where_present(
    parts: dict[int, TopicName], request: Callable[[TopicName], Awaitable[Json]]
) -> dict[int, Json]:
    """Return the answers of the partitions that have the subscription, by number. Raises NotFound when none has it."""

    async def answer_of(part: TopicName) -> Json | None:
        try:
            return await request(part)
        except NotFound:
            if len(parts) == 1:
                raise
            return None  # the subscription was created when the topic had fewer partitions

    answers = await on_each(list(parts.values()), answer_of)
    present = {index: part for index, part in zip(parts, answers, strict=True) if part is not None}
    if not present:
        raise NotFound("Subscription not found")
    return present


def partition_of(index: int) -> int | None:
    """Return the number of a partition, as in the console API."""
    return None if index == WHOLE else index
