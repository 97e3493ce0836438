"""The list of topics, and one topic in full, in the shapes of the contract."""

import asyncio
from typing import Any

from admin_ui.params import LIMIT_MAX, Params, window
from engine.admin import api
from engine.base.errors import InvalidField, NotFound
from engine.base.names import DOMAINS, TopicName
from gateway.services import catalog, rows
from gateway.services.collector import collector, now_ms
from gateway.services.drain import Backlogs, forecast
from gateway.services.engine_link import Engine
from gateway.services.selection import Chosen
from gateway.services.topic_index import NOTHING

Body = dict[str, Any]


async def topics(params: Params, *, limit_max: int = LIMIT_MAX) -> Body:
    """A window of the topics list. ``params`` as in the contract. Raises InvalidField."""
    offset, limit = window(params, limit_max)
    sort = params.get("sort") or "-backlog"
    if sort.removeprefix("-") not in rows.FIELDS:
        raise InvalidField(
            "sort", f"must be one of {', '.join(rows.FIELDS)}, '-' in front to turn round"
        )
    domain = params.get("domain", "")
    if domain not in ("", *DOMAINS):
        raise InvalidField("domain", "must be persistent or non-persistent")
    snapshot = await collector().snapshot()
    chosen = Chosen(
        q=params.get("q", ""),
        tenant=params.get("tenant", ""),
        namespace=params.get("namespace", ""),
        domain=domain,
        sort=sort,
    )
    total, window_rows = snapshot.rows(chosen, offset, offset + limit)
    return {
        "at": snapshot.at,
        "total": total,
        "offset": offset,
        "limit": limit,
        "rows": window_rows,
    }


_backlogs = Backlogs()


async def topic(engine: Engine, name: TopicName) -> Body:
    """One topic with its producers, subscriptions and ledgers; partitions are summed. Raises NotFound."""
    partitions = await catalog.partition_count(engine.store, name)
    members = [name.partition_at(i) for i in range(partitions)] if partitions else [name]
    found = await catalog.each(members, lambda member: _member(engine, member, partitions > 0))
    parts = [(stats, internal) for stats, internal in found if stats is not None]
    at = now_ms()
    row = rows.row_of(str(name), partitions, NOTHING, bool(parts), at)
    producers: list[Body] = []
    merged: dict[str, Body] = {}
    ledgers: list[Body] = []
    owners: set[str] = set()
    for stats, internal in parts:
        _add_to_row(row, stats)
        owners.add(str(stats.get("ownerBroker") or ""))
        producers.extend(_producer(item) for item in stats.get("publishers", []))
        ledgers.extend(_ledgers(internal))
        cursors = internal.get("cursors", {})
        for title, sub in stats.get("subscriptions", {}).items():
            _add_subscription(merged, title, sub, cursors.get(title, {}))
    row["subscriptions"] = len(merged)
    for title, sub in merged.items():
        arriving = float(row["msg_rate_in"])
        sub["net_rate"] = round(
            _backlogs.net_rate(
                str(name), title, at, sub["backlog"], arriving - sub["msg_rate_out"]
            ),
            3,
        )
        sub["drain"] = forecast(sub["backlog"], sub["net_rate"])
    return {
        "at": at,
        "row": row,
        "owner": owners.pop() if len(owners) == 1 else "",
        "ledgers": ledgers,
        "producers": producers,
        "subscriptions": [merged[title] for title in sorted(merged)],
    }


async def _member(engine: Engine, name: TopicName, is_partition: bool) -> tuple[Body | None, Body]:
    """Stats and internal stats of a plain topic or partition; a partition nobody created yet is left out."""
    try:
        stats, internal = await asyncio.gather(
            engine.call(api.TOPIC_STATS, api.TopicStats(name, earliest_time_in_backlog=True)),
            engine.call(api.INTERNAL_STATS, api.InternalStats(name)),
        )
    except NotFound:
        if is_partition:
            return None, {}
        raise
    return stats, internal


def _add_to_row(row: Body, stats: Body) -> None:
    subscriptions = stats.get("subscriptions", {}).values()
    row["producers"] += len(stats.get("publishers", []))
    row["consumers"] += sum(len(sub.get("consumers", [])) for sub in subscriptions)
    row["backlog"] += sum(int(sub.get("msgBacklog", 0)) for sub in subscriptions)
    row["storage_bytes"] += int(stats.get("storageSize", 0))
    row["msg_rate_in"] += float(stats.get("msgRateIn", 0.0))
    row["msg_rate_out"] += float(stats.get("msgRateOut", 0.0))
    row["bytes_rate_in"] += float(stats.get("msgThroughputIn", 0.0))
    row["bytes_rate_out"] += float(stats.get("msgThroughputOut", 0.0))


def _producer(item: Body) -> Body:
    return {
        "id": str(item.get("producerId", "")),
        "name": item.get("producerName", ""),
        "address": item.get("address", ""),
        "msg_rate_in": float(item.get("msgRateIn", 0.0)),
        "bytes_rate_in": float(item.get("msgThroughputIn", 0.0)),
        "client_version": item.get("clientVersion") or "",
        "connected_since": item.get("connectedSince") or "",
    }


def _ledgers(internal: Body) -> list[Body]:
    """The last ledger of a topic that takes messages is its open one, whose own numbers are kept elsewhere."""
    found = internal.get("ledgers", [])
    is_open = internal.get("state") == "LedgerOpened"
    shown: list[Body] = []
    for place, item in enumerate(found):
        state = "offloaded" if item.get("offloaded") else "closed"
        entries, size = int(item.get("entries", 0)), int(item.get("size", 0))
        if is_open and place == len(found) - 1:
            state = "open"
            entries = int(internal.get("currentLedgerEntries", entries))
            size = int(internal.get("currentLedgerSize", size))
        shown.append(
            {"id": str(item["ledgerId"]), "entries": entries, "bytes": size, "state": state}
        )
    return shown


def _add_subscription(merged: dict[str, Body], title: str, sub: Body, cursor: Body) -> None:
    """Add one topic's or partition's subscription to the row of its name; positions make sense for one alone."""
    row = merged.get(title)
    is_first = row is None
    if row is None:
        row = merged[title] = {
            "name": title, "type": "", "durable": True, "backlog": 0, "msg_rate_out": 0.0, "msg_rate_redeliver": 0.0,
            "unacked": 0, "consumers": [], "mark_delete": "", "read_position": "",
        }  # fmt: skip
    row["type"] = row["type"] or sub.get("type") or ""
    row["durable"] = bool(sub.get("isDurable", sub.get("durable", True)))
    row["backlog"] += int(sub.get("msgBacklog", 0))
    row["msg_rate_out"] += float(sub.get("msgRateOut", 0.0))
    row["msg_rate_redeliver"] += float(sub.get("msgRateRedeliver", 0.0))
    row["unacked"] += int(sub.get("unackedMessages", 0))
    row["mark_delete"] = cursor.get("markDeletePosition", "") if is_first else ""
    row["read_position"] = cursor.get("readPosition", "") if is_first else ""
    oldest = int(sub.get("earliestMsgPublishTimeInBacklog", 0))
    if oldest > 0:
        row["oldest_unacked_ms"] = min(oldest, row.get("oldest_unacked_ms", oldest))
    row["consumers"].extend(
        {
            "name": item.get("consumerName", ""),
            "address": item.get("address", ""),
            "msg_rate_out": float(item.get("msgRateOut", 0.0)),
            "permits": int(item.get("availablePermits", 0)),
            "unacked": int(item.get("unackedMessages", 0)),
            "connected_since": item.get("connectedSince") or "",
        }
        for item in sub.get("consumers", [])
    )
