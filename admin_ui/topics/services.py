"""Changes of a topic as a whole: the preview of each, and the change that its token confirms."""

from collections.abc import Sequence
from typing import Any, Literal

from admin_ui import confirming
from admin_ui.confirming import Json
from engine.admin.api.arguments import OnTopic
from engine.admin.api.topics import HOLDINGS, TERMINATE, ChangeProperties
from engine.admin.fan_out import on_each
from engine.base.errors import Conflict, Unprocessable, Unsupported
from engine.base.names import TopicName
from gateway.services.admin import existence, partitioned_topics, policies, topics
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

TopicChange = Literal["delete", "terminate", "unload", "partitions"]
KIND = "topic-change"


async def make(
    engine: Engine, name: TopicName, *, partitions: int, properties: dict[str, str]
) -> None:
    """Create a topic, a plain one with 0 partitions. Raises Refusal."""
    if partitions:
        await partitioned_topics.create(engine, name, partitions, properties)
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
    """Return what the change would do, with the token that confirms exactly that. Raises Refusal."""
    content, shown = await plan(engine, name, change, user, partitions=partitions)
    return {"token": content and confirming.sign(engine.served, KIND, content), **shown}


async def plan(
    engine: Engine,
    name: TopicName,
    change: TopicChange,
    user: str,
    *,
    partitions: int | None = None,
) -> tuple[Json | None, Json]:
    """Return what ``make_planned`` needs to make exactly this change (None where nothing is left to do), and what it
    would do. Raises Refusal."""
    count = await existence.partitions_of(engine, name)
    _check(name, change, count)
    if change == "partitions":
        _check_growth(count, partitions)
    parts = await existence.members(engine, name)
    holdings = await on_each(parts, lambda part: engine.call(HOLDINGS, OnTopic(part)))
    content = _about(name, change, user) | {
        "count": count,
        "partitions": partitions,
        "seen": {str(part): holding["seen"] for part, holding in zip(parts, holdings, strict=True)},
    }
    policies_in_force = await policies.in_force_on_namespace(engine, name.namespace)
    terminated = all(holding["terminated"] for holding in holdings) if holdings else False
    is_done = change == "terminate" and terminated
    return None if is_done else content, {
        "at": now_ms(),
        "partitions": count,
        "partitions_after": partitions,
        "bytes": sum(holding["bytes"] for holding in holdings),
        "entries": sum(holding["entries"] for holding in holdings),
        "terminated": terminated,
        "producers": _once(client for holding in holdings for client in holding["producers"]),
        "subscriptions": _subscriptions(holdings),
        "unread": sorted({title for holding in holdings for title in holding["unread"]}),
        "remakes": policies_in_force["autoTopicCreation"]["value"]["allowAutoTopicCreation"],
    }


async def apply(
    engine: Engine, name: TopicName, change: TopicChange, user: str, token: str
) -> Json:
    """Make the previewed change. Raises Conflict when the topic is not that of the preview any more; nothing is changed
    then."""
    content = confirming.read(engine.served, KIND, token, _about(name, change, user))
    return await make_planned(engine, name, change, content)


async def make_planned(engine: Engine, name: TopicName, change: TopicChange, content: Json) -> Json:
    """Make a planned change. Raises as ``apply``."""
    if await existence.partitions_of(engine, name) != content["count"]:
        raise Conflict("The number of partitions was changed since the preview")
    last: list[str] = []
    match change:
        case "delete" if content["count"]:
            await partitioned_topics.delete(engine, name, force=True, seen=content["seen"])
        case "delete":
            await topics.delete(engine, name, force=True, seen=content["seen"][str(name)])
        case "terminate":
            last = await _terminate(engine, name, content["seen"])
        case "unload":
            await topics.unload(engine, name)
        case "partitions":
            await partitioned_topics.grow(engine, name, content["partitions"])
    return {"change": change, "at": now_ms(), "last": last}


async def _terminate(engine: Engine, name: TopicName, seen: Json) -> list[str]:
    """Terminate every part, and return the position of the last message of each part that has one."""
    parts = await existence.members(engine, name)

    async def check(part: TopicName) -> None:
        holding = await engine.call(HOLDINGS, OnTopic(part))
        before = seen.get(str(part), {"users": []})["users"]
        for user in holding["seen"]["users"]:
            if user.startswith("producer ") and user not in before:
                raise Conflict(f"A client connected since the preview: {user}")

    await on_each(parts, check)
    answers = await on_each(parts, lambda part: engine.call(TERMINATE, OnTopic(part)))
    positions = [answer["last"] for answer in answers]
    return [
        f"{position['ledgerId']}:{position['entryId']}"
        for position in positions
        if position["entryId"] >= 0
    ]


def _about(name: TopicName, change: TopicChange, user: str) -> Json:
    return {"topic": str(name), "change": change, "user": user}


def _check(name: TopicName, change: TopicChange, count: int) -> None:
    if change == "terminate" and not name.persistent:
        raise Unsupported("Termination on a non-persistent topic is not allowed")
    if change == "terminate" and count:
        raise Unsupported("Termination of a partitioned topic is not allowed")


def _check_growth(present: int, requested: int | None) -> None:
    if not present:
        raise Conflict("The topic is not partitioned: its number of partitions cannot be raised")
    if requested is not None and requested <= present:
        raise Unprocessable(
            f"partitions: must be more than the {present} that there are, not {requested}"
        )


def _once(clients: Any) -> list[Json]:
    """Return each client once, however many partitions it uses."""
    return list({(client["name"], client["address"]): client for client in clients}.values())


def _subscriptions(holdings: Sequence[Json]) -> list[Json]:
    """Return the subscriptions by name, summed over the parts."""
    named: dict[str, list[Json]] = {}
    for holding in holdings:
        for subscription in holding["subscriptions"]:
            named.setdefault(subscription["name"], []).append(subscription)
    return [
        {
            "name": name,
            "durable": any(part["durable"] for part in parts),
            "entries": sum(part["entries"] for part in parts),
            "messages": _sum([part["messages"] for part in parts]),
            "exact": all(part["exact"] for part in parts),
            "consumers": _once(client for part in parts for client in part["consumers"]),
        }
        for name, parts in sorted(named.items())
    ]


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


async def set_properties(
    engine: Engine, name: TopicName, value: dict[str, str], expected: dict[str, str]
) -> dict[str, str]:
    """Set the properties of the topic to ``value`` if they are ``expected``, and return those that it then has. Raises
    Conflict."""
    changed = {key: text for key, text in value.items() if expected.get(key) != text}
    removed = [key for key in expected if key not in value]
    args = ChangeProperties(name, changed, removed, expected)
    await topics.change_properties(engine, args)
    return await topics.properties(engine, name)
