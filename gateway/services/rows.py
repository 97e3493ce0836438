"""Rows of topics: aggregation of partitions, sums, filter, sort and window. Pure.

A row is a dictionary with the fields of the contract's TopicRow. Brokers send rows of the topics they have loaded;
topics that no broker has loaded come from the metadata with zero rates.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from engine.base.names import TopicName

Row = dict[str, Any]

SUMMED = (
    "producers", "consumers", "msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out", "backlog",
    "storage_bytes",
)  # fmt: skip
FIELDS = (
    "name", "domain", "tenant", "namespace", "topic", "partitions", "producers", "consumers", "subscriptions",
    "msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out", "backlog", "storage_bytes", "at",
)  # fmt: skip


def idle_row(name: TopicName, partitions: int, at: int) -> Row:
    """The row of a topic that no broker has loaded."""
    row: Row = dict.fromkeys(FIELDS, 0)
    row.update(
        name=str(name),
        domain=name.domain,
        tenant=name.tenant,
        namespace=name.namespace.local,
        topic=name.local,
        partitions=partitions,
        msg_rate_in=0.0,
        msg_rate_out=0.0,
        bytes_rate_in=0.0,
        bytes_rate_out=0.0,
        at=at,
    )
    return row


def merge(
    loaded: Iterable[Row], known: Mapping[str, int], at: int, idle: dict[str, Row]
) -> list[Row]:
    """One row per topic, sorted by name; partitions are folded into their parent.

    ``loaded``: rows of brokers, each with its ``at``. ``known``: every topic of the metadata by name with its number
    of partitions (0: plain), parents and plain topics only. ``idle`` caches parsed names between calls.
    """
    found: dict[str, Row] = {}
    for row in loaded:
        row["namespace"] = row["namespace"].rpartition("/")[2]
        row.setdefault("partitions", 0)
        name: str = row["name"]
        base, mark, index = name.rpartition("-partition-")
        if mark and index.isdecimal() and known.get(base, 0) > 0:
            parent = found.get(base)
            if parent is None:
                parent = found[base] = idle_row(TopicName.parse(base), known[base], row["at"])
            _fold(parent, row)
        else:
            found[name] = row
    for name, partitions in known.items():
        if name not in found:
            cached = idle.get(name)
            if cached is None or cached["partitions"] != partitions:
                cached = idle[name] = idle_row(TopicName.parse(name), partitions, at)
            cached["at"] = at
            found[name] = cached
    return sorted(found.values(), key=_name)


def _name(row: Row) -> str:
    name: str = row["name"]
    return name


def _fold(parent: Row, partition: Row) -> None:
    for field in SUMMED:
        parent[field] += partition[field]
    parent["subscriptions"] = max(parent["subscriptions"], partition["subscriptions"])
    parent["at"] = min(parent["at"], partition["at"])


def totals(rows: list[Row]) -> dict[str, float]:
    """Sums over all rows, in the contract's order of fields."""
    sums: dict[str, float] = {"topics": len(rows)}
    for field in ("subscriptions", "producers", "consumers", "backlog", "storage_bytes"):
        sums[field] = sum(row[field] for row in rows)
    for field in ("msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out"):
        sums[field] = round(sum(row[field] for row in rows), 3)
    return sums


def select(
    rows: list[Row],
    *,
    q: str = "",
    tenant: str = "",
    namespace: str = "",
    domain: str = "",
    sort: str = "name",
) -> list[Row]:
    """Rows that pass the filters, sorted; ``rows`` must be sorted by name, which also orders equals.

    ``q`` is a part of the full name in any case; ``namespace`` is ``ns`` or ``tenant/ns``; ``sort`` a field, ``-``
    before it for descending. The caller has checked that the field exists.
    """
    if namespace and "/" in namespace:
        tenant, _, namespace = namespace.partition("/")
    needle = q.lower()
    chosen = [
        row
        for row in rows
        if (not needle or needle in row["name"].lower())
        and (not tenant or row["tenant"] == tenant)
        and (not namespace or row["namespace"] == namespace)
        and (not domain or row["domain"] == domain)
    ]
    field = sort.removeprefix("-")
    if sort != "name":
        chosen.sort(key=lambda row: row[field], reverse=sort.startswith("-"))
    return chosen
