"""Changes of a subscription's position."""

import shlex
from typing import Any, Literal
from urllib.parse import quote

from engine.admin import api
from engine.admin.fan_out import on_each
from engine.base.errors import Unsupported
from engine.base.names import TopicName
from gateway.services import catalog
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

Change = Literal["skip-all", "skip", "reset"]


async def preview(
    engine: Engine,
    topic: TopicName,
    subscription: str,
    change: Change,
    *,
    count: int | None = None,
    timestamp: int | None = None,
) -> dict[str, Any]:
    """``{affected, from, to}`` of a change that is not made; of a partitioned topic the sum, and no positions."""

    async def one(member: TopicName) -> dict[str, Any]:
        args = api.PreviewChange(member, subscription, change, count, timestamp)
        return await engine.call(api.PREVIEW_CHANGE, args)

    found = await on_each(await _members(engine, topic, change), one)
    if len(found) == 1:
        return {key: found[0].get(key) for key in ("affected", "from", "to")}
    return {"affected": sum(item["affected"] for item in found), "from": None, "to": None}


async def apply(
    engine: Engine,
    topic: TopicName,
    subscription: str,
    change: Change,
    *,
    count: int | None = None,
    timestamp: int | None = None,
) -> None:
    """Move the subscription's position, on every partition. Raises Refusal."""

    async def one(member: TopicName) -> None:
        if change == "skip-all":
            await engine.call(api.CLEAR_BACKLOG, api.OnSubscription(member, subscription))
        elif change == "skip":
            assert count is not None
            await engine.call(api.SKIP_MESSAGES, api.Skip(member, subscription, count))
        else:
            args = api.ResetCursor(member, subscription, timestamp)
            await engine.call(api.RESET_CURSOR, args)

    await on_each(await _members(engine, topic, change), one)


async def _members(engine: Engine, topic: TopicName, change: Change) -> list[TopicName]:
    partitions = await catalog.partition_count(engine.store, topic)
    if partitions == 0:
        return [topic]
    if change == "skip":
        # As Pulsar: which messages "the next n" are is only defined within one partition.
        raise Unsupported("Skip messages on a partitioned topic is not allowed")
    return [topic.partition_at(index) for index in range(partitions)]


def commands(
    http_url: str,
    topic: TopicName,
    subscription: str,
    change: Change,
    *,
    count: int | None = None,
    timestamp: int | None = None,
) -> dict[str, str]:
    """The same change as shell commands, ready to paste."""
    suffix = {"skip-all": "skip_all", "skip": f"skip/{count}", "reset": f"resetcursor/{timestamp}"}
    # Pulsar's server decodes a subscription's name twice, so a name holding '%' must be encoded twice.
    encoded = quote(quote(subscription, safe="") if "%" in subscription else subscription, safe="")
    url = (
        f"{http_url}/admin/v2/{topic.domain}/{topic.namespace}"
        f"/{quote(topic.local, safe='')}/subscription/{encoded}/{suffix[change]}"
    )
    command = {
        "skip-all": ["clear-backlog"],
        "skip": ["skip", "--count", str(count)],
        "reset": ["reset-cursor", "--messageId", "earliest"],
    }[change]
    if change == "reset":
        # pulsar-admin takes a span before now: the reset is by age in seconds, rounded up so as to lose nothing.
        age_s = max(0, -(-(now_ms() - (timestamp or 0)) // 1000))
        command = ["reset-cursor", "--time", f"{age_s}s"]
    words = ["pulsar-admin", "topics", command[0], "--subscription", subscription, *command[1:]]
    return {
        "curl": shlex.join(["curl", "-X", "POST", url]),
        "pulsar_admin": shlex.join([*words, str(topic)]),
    }
