"""Changes of a topic as a whole: what each would do, and exactly that done."""

from collections.abc import Sequence
from typing import Any, Literal

from admin_ui import confirming
from admin_ui.confirming import Json
from engine.admin import api
from engine.admin.fan_out import on_each
from engine.base.errors import Conflict, Unprocessable, Unsupported
from engine.base.names import TopicName
from gateway.services import policies, topics
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

TopicChange = Literal["delete", "terminate", "unload", "partitions"]
KIND = "topic-change"


async def make(
    engine: Engine, name: TopicName, *, partitions: int, properties: dict[str, str]
) -> None:
    """A topic, plain with 0 partitions. Raises Refusal."""
    if partitions:
        await topics.create_partitioned(engine, name, partitions, properties)
    else:
        await topics.create(engine, name, properties)


async def preview(
    engine: Engine,
    name: TopicName,
    change: TopicChange,
    user: str,
    *,
    partitions: int | None = None,
) -> Json:
    """What the change would do, with the token that confirms exactly that. Raises Refusal."""
    count = await topics.partitions_of(engine, name)
    _check(name, change, count)
    if change == "partitions":
        _check_growth(count, partitions)
    parts = await topics.members(engine, name)
    found = await on_each(parts, lambda part: engine.call(api.HOLDINGS, api.OnTopic(part)))
    said = _about(name, change, user) | {
        "count": count,
        "partitions": partitions,
        "seen": {str(part): one["seen"] for part, one in zip(parts, found, strict=True)},
    }
    made = await policies.in_force_on_namespace(engine, name.namespace)
    terminated = all(one["terminated"] for one in found) if found else False
    nothing = change == "terminate" and terminated
    return {
        "token": None if nothing else confirming.sign(KIND, said),
        "at": now_ms(),
        "partitions": count,
        "partitions_after": partitions,
        "bytes": sum(one["bytes"] for one in found),
        "entries": sum(one["entries"] for one in found),
        "terminated": terminated,
        "producers": _once(one for each in found for one in each["producers"]),
        "subscriptions": _subscriptions(found),
        "unread": sorted({title for one in found for title in one["unread"]}),
        "remakes": made["autoTopicCreation"]["value"]["allowAutoTopicCreation"],
    }


async def apply(
    engine: Engine, name: TopicName, change: TopicChange, user: str, token: str
) -> Json:
    """Make the previewed change. Raises Conflict when it would be another by now: nothing is changed then."""
    said = confirming.read(KIND, token, _about(name, change, user))
    if await topics.partitions_of(engine, name) != said["count"]:
        raise Conflict("The number of partitions was changed since the preview")
    last: list[str] = []
    match change:
        case "delete" if said["count"]:
            await topics.delete_partitioned(engine, name, force=True, seen=said["seen"])
        case "delete":
            await topics.delete(engine, name, force=True, seen=said["seen"][str(name)])
        case "terminate":
            last = await _terminate(engine, name, said["seen"])
        case "unload":
            await topics.unload(engine, name)
        case "partitions":
            await topics.grow(engine, name, said["partitions"])
    return {"change": change, "at": now_ms(), "last": last}


async def _terminate(engine: Engine, name: TopicName, seen: Json) -> list[str]:
    """The last message of each part that has one."""
    parts = await topics.members(engine, name)

    async def look(part: TopicName) -> None:
        now = await engine.call(api.HOLDINGS, api.OnTopic(part))
        before = seen.get(str(part), {"users": []})["users"]
        for user in now["seen"]["users"]:
            if user.startswith("producer ") and user not in before:
                raise Conflict(f"A client connected since the preview: {user}")

    await on_each(parts, look)
    found = [
        one["last"]
        for one in await on_each(parts, lambda part: engine.call(api.TERMINATE, api.OnTopic(part)))
    ]
    return [f"{one['ledgerId']}:{one['entryId']}" for one in found if one["entryId"] >= 0]


def _about(name: TopicName, change: TopicChange, user: str) -> Json:
    return {"topic": str(name), "change": change, "user": user}


def _check(name: TopicName, change: TopicChange, count: int) -> None:
    if change == "terminate" and not name.persistent:
        raise Unsupported("Termination on a non-persistent topic is not allowed")
    if change == "terminate" and count:
        raise Unsupported("Termination of a partitioned topic is not allowed")


def _check_growth(present: int, wanted: int | None) -> None:
    if not present:
        raise Conflict("The topic is not partitioned: its number of partitions cannot be raised")
    if wanted is not None and wanted <= present:
        raise Unprocessable(
            f"partitions: must be more than the {present} that there are, not {wanted}"
        )


def _once(clients: Any) -> list[Json]:
    """Each client once, however many partitions it uses."""
    return list({(one["name"], one["address"]): one for one in clients}.values())


def _subscriptions(found: Sequence[Json]) -> list[Json]:
    """By name, summed over the parts."""
    named: dict[str, list[Json]] = {}
    for one in found:
        for subscription in one["subscriptions"]:
            named.setdefault(subscription["name"], []).append(subscription)
    return [
        {
            "name": name,
            "durable": any(one["durable"] for one in parts),
            "entries": sum(one["entries"] for one in parts),
            "messages": _sum([one["messages"] for one in parts]),
            "exact": all(one["exact"] for one in parts),
            "consumers": _once(one for part in parts for one in part["consumers"]),
        }
        for name, parts in sorted(named.items())
    ]


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


async def set_properties(
    engine: Engine, name: TopicName, value: dict[str, str], expected: dict[str, str]
) -> dict[str, str]:
    """Have the topic the properties ``value``, as long as it has ``expected``; those that it has then. Raises
    Conflict."""
    changed = {key: text for key, text in value.items() if expected.get(key) != text}
    removed = [key for key in expected if key not in value]
    args = api.ChangeProperties(name, changed, removed, expected)
    await topics.change_properties(engine, args)
    return await topics.properties(engine, name)
