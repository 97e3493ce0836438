"""Changes of a subscription's position: what they would do, done exactly as was said, and taken back."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from admin_ui.confirming import Json
from admin_ui.subscriptions.tokens import Confirmed, sign
from engine.admin import api
from engine.admin.api import CursorChange
from engine.admin.fan_out import on_each
from engine.base.errors import Conflict, MagnetarError, NotFound, Refusal, Unsupported
from engine.base.names import TopicName
from gateway.services import catalog
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

UNKNOWN = "It is not known whether the change was made: look at the subscription's last change"
WHOLE = -1
_MOVED = ("base", "target", "lost", "again", "lost_messages", "again_messages", "exact")


class ChangeResult(NamedTuple):
    """Answer of an application: 200 when all of it was done, 409 or 503 with what was, by partition."""

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
    """What the change would do, with the token that confirms exactly that. Raises Refusal."""
    args = api.PreviewChange(topic, subscription, change, count, timestamp, undo=undo)
    said, confirmed = await _preview(engine, args, user)
    return said | {"id": confirmed.id, "token": sign(confirmed)}


async def undo(
    engine: Engine, topic: TopicName, subscription: str, user: str, change: str
) -> ChangeResult:
    """Take ``change`` back at once if the cursor can be again what it was; else 409 with what a preview of the undo
    says, for somebody to confirm."""
    args = api.PreviewChange(topic, subscription, "undo", undo=change)
    said, confirmed = await _preview(engine, args, user)
    if said["gone"]:
        reason = f"{said['gone']} of the entries were deleted since and cannot come back"
    elif said["moved"]:
        reason = (
            f"Somebody else moved the subscription since: {said['moved']} entries were set back"
        )
    else:
        return await apply(engine, topic, confirmed)
    return ChangeResult(409, {"done": False, "reason": reason, "parts": said["parts"]})


async def _preview(engine: Engine, args: api.PreviewChange, user: str) -> tuple[Json, Confirmed]:
    members = await _members(engine, args.topic, args.change)
    if args.undo is not None:
        members = await _changed_by(engine, members, args.subscription, args.undo)

    async def one(member: TopicName) -> Json | None:
        try:
            return await engine.call(api.PREVIEW_CHANGE, replace(args, topic=member))
        except NotFound:
            if len(members) == 1:
                raise
            return None  # the subscription was made when the topic had fewer partitions

    answers = await on_each(list(members.values()), one)
    found = {i: said for i, said in zip(members, answers, strict=True) if said is not None}
    if not found:
        raise NotFound("Subscription not found")
    confirmed = Confirmed(
        topic=str(args.topic),
        subscription=args.subscription,
        change=args.change,
        user=user,
        parts={str(i): {name: said[name] for name in _MOVED} for i, said in found.items()},
        undoes=args.undo or "",
    )
    return _sums(found) | {"parts": _parts(found)}, confirmed


def _parts(found: dict[int, Json]) -> list[Json]:
    kept = ("from", "to", "holes", "delayed", "first", "last", "gone", "moved")
    return [_amounts(said) | {name: said[name] for name in kept} | {
        "partition": None if index == WHOLE else index
    } for index, said in found.items()]  # fmt: skip


def _amounts(said: Json) -> Json:
    """Messages under the plain names, null when storage does not tell; entries beside."""
    lost, again = said["lost_messages"], said["again_messages"]
    return {
        "affected": None if lost is None or again is None else lost + again,
        "lost": lost,
        "again": again,
        "entries": said["lost"] + said["again"],
        "lost_entries": said["lost"],
        "again_entries": said["again"],
        "exact": said["exact"],
    }


def _sums(found: dict[int, Json]) -> Json:
    parts = [_amounts(said) for said in found.values()]
    sums: Json = {name: _sum(part[name] for part in parts) for name in parts[0] if name != "exact"}
    sums["exact"] = all(part["exact"] for part in parts)
    direction = "forward" if sums["lost_entries"] else "back" if sums["again_entries"] else "none"
    said = list(found.values())
    firsts = [one["first"]["publish_time"] for one in said if one["first"]]
    lasts = [one["last"]["publish_time"] for one in said if one["last"]]
    known = all(firsts) and all(lasts) and firsts and lasts
    return sums | {
        "direction": direction,
        "holes": sum(one["holes"] for one in said),
        "delayed": _sum(one["delayed"] for one in said),
        "gone": sum(one["gone"] for one in said),
        "moved": sum(one["moved"] for one in said),
        "span": {"from": min(firsts), "to": max(lasts)} if known else None,
        "consumers": _consumers(found),
        "undoable": all(one["undoable"] for one in said),
        "kept_ms": min(one["kept_ms"] for one in said),
    }


def _sum(values: Any) -> int | None:
    given = list(values)
    return None if None in given else sum(given)


def _consumers(found: dict[int, Json]) -> list[Json]:
    """Each once, however many partitions it reads."""
    return list(
        {
            (one["name"], one["address"]): one
            for said in found.values()
            for one in said["consumers"]
        }.values()
    )


async def apply(engine: Engine, topic: TopicName, confirmed: Confirmed) -> ChangeResult:
    """Make the previewed change, on every partition. Nothing is changed when it is known before that one would
    refuse."""
    parts = {
        topic if index == str(WHOLE) else topic.partition_at(int(index)): part
        for index, part in confirmed.parts.items()
    }

    async def one(member: TopicName, *, dry: bool) -> Json:
        args = api.MoveCursor(
            member,
            confirmed.subscription,
            id=confirmed.id,
            change=confirmed.change,
            by=confirmed.user,
            undoes=confirmed.undoes,
            **parts[member],
        )
        try:
            return await engine.call(api.MOVE_CURSOR, replace(args, dry=dry))
        except (MagnetarError, TimeoutError) as error:
            retriable = not isinstance(error, Refusal) or error.retriable
            why = "unknown" if retriable and not dry else "refused"
            return {"done": False, "why": why, "reason": str(error)}

    async def on_all(work: Callable[[TopicName], Awaitable[Json]]) -> list[Json]:
        return await on_each(list(parts), work)

    indexes = [int(index) for index in confirmed.parts]
    if len(parts) > 1:
        found = await on_all(lambda member: one(member, dry=True))
        if not all(each["done"] for each in found):
            return _outcome(confirmed, indexes, found, changed=False)
    found = await on_all(lambda member: one(member, dry=False))
    return _outcome(confirmed, indexes, found, changed=True)


def _outcome(
    confirmed: Confirmed, indexes: Sequence[int], found: Sequence[Json], *, changed: bool
) -> ChangeResult:
    parts = []
    for index, each in zip(indexes, found, strict=True):
        part: Json = {
            "partition": None if index == WHOLE else index,
            "done": each["done"] and changed,
        }
        if part["done"]:
            kept = ("from", "to", "mark_delete", "meanwhile")
            part |= _amounts(each) | {name: each[name] for name in kept}
        elif not each["done"]:
            part |= {
                name: each[name]
                for name in ("why", "reason", "entries", "mark_delete")
                if name in each
            }
        parts.append(part)
    done = [each for each in found if each["done"]] if changed else []
    moved = [each for each in done if each["changed"]]
    undoable = bool(moved) and all(each["undoable"] for each in moved)
    body: Json = {
        "id": confirmed.id,
        "change": confirmed.change,
        "at": now_ms(),
        "done": len(done) == len(parts),
        "parts": parts,
        "undo": confirmed.id if undoable else None,
        "undo_until": min(each["kept_until"] for each in moved) if undoable else None,
    }
    if done:
        sums = [_amounts(each) for each in done]
        body |= {name: _sum(one[name] for one in sums) for name in sums[0] if name != "exact"}
        body["exact"] = all(one["exact"] for one in sums)
        body["meanwhile"] = sum(each["meanwhile"] for each in done)
    if body["done"]:
        return ChangeResult(200, body)
    bad = [part for part in parts if "why" in part]
    unknown = any(part["why"] == "unknown" for part in bad)
    told = f" ({len(done)} of {len(parts)} partitions were changed)" if len(parts) > 1 else ""
    body["reason"] = (f"{UNKNOWN}: {bad[0]['reason']}" if unknown else bad[0]["reason"]) + told
    return ChangeResult(503 if unknown else 409, body)


async def changes(engine: Engine, topic: TopicName) -> Json:
    """The last change of each subscription that was changed here, newest first; ``unknown``: partitions that did not
    answer. A change is one, however many partitions it was made on."""
    members = await _members(engine, topic, "undo")

    async def one(member: TopicName) -> list[Json] | None:
        try:
            return await engine.call(api.LAST_CHANGES, api.OnTopic(member))
        except (MagnetarError, TimeoutError):
            if len(members) == 1:
                raise
            return None

    answers = await on_each(list(members.values()), one)
    together: dict[tuple[str, str], list[tuple[int, Json]]] = {}
    for index, found in zip(members, answers, strict=True):
        for change in found or ():
            key = change["subscription"], change["id"]
            together.setdefault(key, []).append((index, change))
    rows = [_one_change(made) for made in together.values()]
    newest: dict[str, Json] = {}
    for row in sorted(rows, key=lambda row: int(row["at"])):
        newest[row["subscription"]] = row
    unknown = [index for index, found in zip(members, answers, strict=True) if found is None]
    return {"changes": list(newest.values())[::-1], "partitions": len(members), "unknown": unknown}


def _one_change(made: list[tuple[int, Json]]) -> Json:
    first = made[0][1]
    sums = [_amounts(change) for _, change in made]
    amounts = {name: _sum(one[name] for one in sums) for name in sums[0] if name != "exact"}
    return {
        **{name: first[name] for name in ("subscription", "id", "by", "change", "undoes")},
        **amounts,
        "exact": all(one["exact"] for one in sums),
        "at": max(change["at"] for _, change in made),
        "undo": first["id"] if all(change["undoable"] for _, change in made) else None,
        "undo_until": min(change["kept_until"] for _, change in made),
        "parts": [index for index, _ in made if index != WHOLE],
    }


async def _changed_by(
    engine: Engine, members: dict[int, TopicName], subscription: str, wanted: str
) -> dict[int, TopicName]:
    """Those whose last change is this one. Raises Conflict when it is of none."""

    async def one(member: TopicName) -> bool:
        found = await engine.call(api.LAST_CHANGES, api.OnTopic(member))
        return any(each["subscription"] == subscription and each["id"] == wanted for each in found)

    made = await on_each(list(members.values()), one)
    if not any(made):
        raise Conflict(
            "Another change of the subscription came after this one: only the last can be undone"
        )
    return {i: member for (i, member), has in zip(members.items(), made, strict=True) if has}


async def _members(engine: Engine, topic: TopicName, change: CursorChange) -> dict[int, TopicName]:
    found = await members(engine, topic)
    if change == "skip" and WHOLE not in found:
        # As Pulsar: which messages "the next n" are is only defined within one partition.
        raise Unsupported("Skip messages on a partitioned topic is not allowed")
    return found


async def members(engine: Engine, topic: TopicName) -> dict[int, TopicName]:
    """By number of the partition; ``WHOLE`` for a topic without."""
    partitions = await catalog.partition_count(engine.store, topic)
    if partitions == 0:
        return {WHOLE: topic}
    return {index: topic.partition_at(index) for index in range(partitions)}
