"""The page of a topic, built from the answers of the brokers of its parts. Without side effects.

A part is the topic itself or one of its partitions. A part that did not answer has only its row from the collector's
index, with the last known numbers, or with none.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS, age_target_s
from gateway.services.index import rows
from gateway.services.index.rows import KNOWN, Row

Body = dict[str, Any]

PartProducer = tuple[int | None, str, Body]
"""A producer of a part: number of the partition, broker, and the broker's answer."""

_GENERATED = re.compile(r".+-\d+-\d+")
"""Form of a producer name that a broker generated."""


class TopicPart(NamedTuple):
    """The topic or one of its partitions. ``number``: of the partition, None for a plain topic. ``stats`` and
    ``internal``: the answers of the broker; without them the part did not answer, or is not created yet (``created`` is
    false). ``last``: its row in the index, if any."""

    name: str
    number: int | None
    stats: Body | None
    internal: Body
    created: bool
    last: Row | None

    @property
    def owner(self) -> str:
        if self.stats is not None:
            return str(self.stats.get("ownerBroker") or "")
        return str(self.last["owner"]) if self.last is not None else ""


def part_row(part: TopicPart, at: int) -> Row:
    """Return a TopicRow with ``known``, ``partition`` and ``owner``."""
    about = {"partition": part.number, "owner": part.owner}
    if part.stats is not None:
        return {**_row(part.name, _values(part.stats), True, at), "known": "live", **about}
    if not part.created:
        nothing = [0] * len(ROW_COLUMNS)
        return {**_row(part.name, nothing, False, at), "known": "at_rest", **about}
    if part.last is not None:
        known = "last" if part.last["known"] == "live" else part.last["known"]
        return {**part.last, "known": known, **about}
    unknown = [None] * len(ROW_COLUMNS)
    return {**_row(part.name, unknown, None, at), "known": "no", **about}


def summed(name: str, partitions: int, parts: Sequence[Row], subscriptions: int, at: int) -> Row:
    """Return the topic's row from the rows of its parts. A number is null when it is null for a part; ``known`` is that
    of the worst part."""
    values: list[Any] = []
    for column in ROW_COLUMNS:
        numbers = [row[column] for row in parts]
        if None in numbers:
            values.append(None)
        elif column == "oldest_at":
            values.append(min((at for at in numbers if at), default=0))
        else:
            values.append(sum(numbers))
    known = max((row["known"] for row in parts), key=KNOWN.index, default="at_rest")
    # A partition whose broker does not answer may be loaded or not.
    loaded = any(row["loaded"] for row in parts) or (None if known in ("last", "no") else False)
    row = _row(name, values, loaded, min((row["at"] for row in parts), default=at))
    if row["subscriptions"] is not None:
        row["subscriptions"] = max(
            [subscriptions, *(part["subscriptions"] for part in parts)], default=0
        )
    return {**row, "partitions": partitions, "known": known}


def _row(name: str, values: Sequence[Any], loaded: bool | None, at: int) -> Row:
    row: Row = {"name": name, **rows.parts_of(name), "partitions": 0, "loaded": loaded}
    return {**row, **dict(zip(ROW_COLUMNS, values, strict=True)), "at": at}


def _values(stats: Body) -> list[Any]:
    """Return the values in the order of ROW_COLUMNS, rates per second."""
    subscriptions = stats.get("subscriptions", {}).values()
    backlogs = [_backlog(sub) for sub in subscriptions]
    oldest = int(stats.get("oldestUnacknowledgedAt", OLDEST_UNKNOWN))
    by_column = {
        "producers": len(stats.get("publishers", [])),
        "consumers": sum(len(sub.get("consumers", [])) for sub in subscriptions),
        "subscriptions": len(subscriptions),
        **{name: sum(backlog[name] for backlog in backlogs) for name in _backlog({})},
        "oldest_at": None if oldest == OLDEST_UNKNOWN else oldest,
        "storage_bytes": int(stats.get("storageSize", 0)),
        "msg_rate_in": float(stats.get("msgRateIn", 0.0)),
        "msg_rate_out": float(stats.get("msgRateOut", 0.0)),
        "bytes_rate_in": float(stats.get("msgThroughputIn", 0.0)),
        "bytes_rate_out": float(stats.get("msgThroughputOut", 0.0)),
    }
    return [by_column[column] for column in ROW_COLUMNS]


def _backlog(sub: Body) -> dict[str, int]:
    """Return the backlog of a subscription's statistics. Entries are unmeasured when the broker does not report their
    number of messages."""
    entries = int(sub.get("msgBacklog", 0))
    return {
        "backlog": entries,
        "backlog_messages": int(sub.get("backlogMessages", entries)),
        "backlog_estimated": int(sub.get("backlogEstimated", 0)),
        "backlog_unmeasured": int(sub.get("backlogUnmeasured", entries)),
    }


# Producers


def producers(parts: Iterable[TopicPart]) -> list[Body]:
    """Return a row for each producer that a client opened, with the partitions that it is connected to.

    The client's producers of one partitioned topic have one name, or each a name that its broker generated. Generated
    names are matched by the client's producer ids, which follow each other in the order of the partitions. Equal
    producers of another client on the same host differ in their connection. Connections to several brokers are matched
    in the order in which they were opened.
    """
    named: dict[str, list[PartProducer]] = {}
    for part in parts:
        for item in (part.stats or {}).get("publishers", []):
            named.setdefault(str(item.get("producerName", "")), []).append(
                (part.number, part.owner, item)
            )
    groups = [group for group in named.values() if not _is_generated(group)]
    groups.extend(_matched([group[0] for group in named.values() if _is_generated(group)]))
    return [_producer(sorted(group, key=lambda member: member[0] or 0)) for group in groups]


def replication(parts: Iterable[TopicPart]) -> list[Body]:
    """Return a row for each other cluster that the topic is sent to or comes from, summed over its parts that answered.

    ``connected``: each part that is sent there is connected. ``blocked_by``: the reason of the first that is not.
    """
    links: dict[str, Body] = {}
    for part in parts:
        for cluster, stats in (part.stats or {}).get("replication", {}).items():
            link = links.setdefault(
                cluster,
                {
                    "cluster": cluster,
                    "sent": False,
                    "connected": True,
                    "backlog": 0,
                    "delay_s": 0,
                    "msg_rate_in": 0.0,
                    "msg_rate_out": 0.0,
                    "blocked_by": None,
                },
            )
            link["msg_rate_in"] += float(stats.get("msgRateIn", 0.0))
            link["msg_rate_out"] += float(stats.get("msgRateOut", 0.0))
            if "blockedBy" not in stats:
                continue  # a cluster that the part comes from and is not sent to
            link["sent"] = True
            link["connected"] = link["connected"] and bool(stats.get("connected"))
            link["backlog"] += int(stats.get("replicationBacklog", 0))
            link["delay_s"] = max(link["delay_s"], int(stats.get("replicationDelayInSeconds", 0)))
            link["blocked_by"] = link["blocked_by"] or stats["blockedBy"]
    for link in links.values():
        link["connected"] = link["sent"] and link["connected"]
    return [links[cluster] for cluster in sorted(links)]


def _is_generated(group: list[PartProducer]) -> bool:
    index, _, item = group[0]
    return (
        len(group) == 1
        and index is not None
        and _GENERATED.fullmatch(str(item.get("producerName", ""))) is not None
    )


def _matched(unmatched: list[PartProducer]) -> Iterable[list[PartProducer]]:
    connections: dict[tuple[str, str, str, int], dict[str, list[PartProducer]]] = {}
    for index, owner, item in unmatched:
        address = str(item.get("address", ""))
        first = int(item.get("producerId", 0)) - (index or 0)
        origin = (owner, address.rpartition(":")[0], str(item.get("clientVersion")), first)
        connections.setdefault(origin, {}).setdefault(address, []).append((index, owner, item))
    groups: dict[tuple[str, str, int, int], list[PartProducer]] = {}
    for (_, host, version, first), by_address in connections.items():
        oldest = sorted(
            by_address.values(), key=lambda group: str(group[0][2].get("connectedSince"))
        )
        for rank, group in enumerate(oldest):
            groups.setdefault((host, version, first, rank), []).extend(group)
    return groups.values()


def _producer(group: list[PartProducer]) -> Body:
    _, _, first = group[0]
    return {
        "id": str(first.get("producerId", "")),
        "name": first.get("producerName", ""),
        "address": _address(first),
        "msg_rate_in": sum(float(item.get("msgRateIn", 0.0)) for _, _, item in group),
        "bytes_rate_in": sum(float(item.get("msgThroughputIn", 0.0)) for _, _, item in group),
        "client_version": first.get("clientVersion") or "",
        "schema_version": first.get("schemaVersion"),
        "connected_since": min(str(item.get("connectedSince") or "") for _, _, item in group),
        "partitions": [index for index, _, _ in group if index is not None],
    }


# Ledgers


def ledgers(part: TopicPart) -> list[Body]:
    """Return the ledgers of a part. The last ledger of a part that accepts messages is open, and its numbers are kept
    apart."""
    infos = part.internal.get("ledgers", [])
    is_open = part.internal.get("state") == "LedgerOpened"
    rows: list[Body] = []
    for index, item in enumerate(infos):
        state = "offloaded" if item.get("offloaded") else "closed"
        entries, size = int(item.get("entries", 0)), int(item.get("size", 0))
        if is_open and index == len(infos) - 1:
            state = "open"
            entries = int(part.internal.get("currentLedgerEntries", entries))
            size = int(part.internal.get("currentLedgerSize", size))
        rows.append(
            {
                "id": str(item["ledgerId"]),
                "entries": entries,
                "bytes": size,
                "state": state,
                "partition": part.number,
            }
        )
    return rows


# Subscriptions


def subscriptions(parts: Iterable[TopicPart]) -> dict[str, Body]:
    """Return the subscriptions by name, in its order; summed over the parts that answered."""
    merged: dict[str, Body] = {}
    for part in parts:
        cursors = part.internal.get("cursors", {})
        for title, sub in (part.stats or {}).get("subscriptions", {}).items():
            _add_subscription(merged, part.number, title, sub, cursors.get(title, {}))
    return {title: merged[title] for title in sorted(merged)}


def _add_subscription(
    merged: dict[str, Body], index: int | None, title: str, sub: Body, cursor: Body
) -> None:
    row = merged.get(title)
    if row is None:
        row = merged[title] = {
            "name": title, "type": "", "durable": True, **_backlog({}), "oldest_at": 0, "age_target_s": None,
            "msg_rate_out": 0.0,
            "msg_rate_redeliver": 0.0, "unacked": 0, "consumers": [], "positions": [],
        }  # fmt: skip
    backlog = _backlog(sub)
    row["type"] = row["type"] or sub.get("type") or ""
    row["durable"] = bool(sub.get("isDurable", sub.get("durable", True)))
    for column, number in backlog.items():
        row[column] += number
    row["msg_rate_out"] += float(sub.get("msgRateOut", 0.0))
    row["msg_rate_redeliver"] += float(sub.get("msgRateRedeliver", 0.0))
    row["unacked"] += int(sub.get("unackedMessages", 0))
    row["positions"].append(
        {
            "partition": index,
            "mark_delete": cursor.get("markDeletePosition", ""),
            "read_position": cursor.get("readPosition", ""),
            "backlog": backlog["backlog"],
        }
    )
    target_s = age_target_s(sub.get("subscriptionProperties") or {})
    row["age_target_s"] = max(target_s, row["age_target_s"] or 0) or None
    oldest = int(sub.get("oldestUnacknowledgedAt", OLDEST_UNKNOWN))
    if backlog["backlog"] and row["oldest_at"] is not None:
        row["oldest_at"] = min(oldest, row["oldest_at"] or oldest) if oldest > 0 else None
    row["consumers"].extend(
        {
            "name": item.get("consumerName", ""),
            "address": _address(item),
            "msg_rate_out": float(item.get("msgRateOut", 0.0)),
            "permits": int(item.get("availablePermits", 0)),
            "unacked": int(item.get("unackedMessages", 0)),
            "connected_since": item.get("connectedSince") or "",
            "partition": index,
            "schema_version": item.get("schemaVersion"),
        }
        for item in sub.get("consumers", [])
    )


def _address(client: dict[str, Any]) -> str:
    """Return host and port, without the slash that Java puts before them."""
    return str(client.get("address", "")).removeprefix("/")
