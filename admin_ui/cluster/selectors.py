"""Brokers, bundles and bookies: what the collector knows of them beside what is stored."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from admin_ui.params import Params, window
from engine.admin.api import ROW_COLUMNS
from engine.base.errors import InvalidField
from engine.base.names import HASH_TOP, BundleName
from engine.tenancy.resources.racks import get_racks
from gateway.services import bundles
from gateway.services.bundles import BundleMap, Owned
from gateway.services.collector import Collector, Snapshot, collector
from gateway.services.engine_link import Engine
from gateway.services.index.figures import Fold
from gateway.services.index.rows import KNOWN, LAST, LIVE, NO, RATES

Body = dict[str, Any]
SORTED_NUMBERS = (
    *("producers", "consumers", "msg_rate_in", "msg_rate_out"),
    *("bytes_rate_in", "bytes_rate_out", "backlog"),
)
NUMBERS = (*SORTED_NUMBERS, "backlog_messages", "backlog_estimated", "backlog_unmeasured")
SORTS = ("bundle", "owner", "topics", *SORTED_NUMBERS)
DEFAULT_SORT = "bundle"
_COLUMNS = [ROW_COLUMNS.index(name) for name in NUMBERS]

_kept: tuple[Collector, BundleMap] | None = None


def _map(snapshot: Snapshot) -> BundleMap:
    """Of this process's collector."""
    global _kept
    keeper = collector()
    if _kept is None or _kept[0] is not keeper:
        _kept = (keeper, BundleMap(snapshot.topics))
    return _kept[1]


def forget() -> None:
    """Bundles were changed: who asks next sees it."""
    if _kept is not None:
        _kept[1].forget()


async def brokers(engine: Engine) -> Body:
    """Every broker that is registered, or was until a moment ago."""
    snapshot = await collector().snapshot()
    owned = await _map(snapshot).owned(engine.store)
    counts = Counter(url for one in owned for url in one.owners.values())
    total = sum(len(one.bundles) for one in owned)
    return {
        "at": snapshot.at,
        "unowned": total - counts.total(),
        "rows": [{**line, "bundles": counts[line["url"]]} for line in snapshot.brokers],
    }


async def bookies(engine: Engine) -> Body:
    """Every bookie that ever registered and was not removed for good."""
    racks = await get_racks(engine.store)
    snapshot = await collector().snapshot()
    told = {
        bookie: {"rack": str(facts.get("rack") or ""), "group": group}
        for group, members in racks.items()
        for bookie, facts in members.items()
    }
    nothing = {"rack": "", "group": ""}
    rows = [{**row, **told.get(row["id"], nothing)} for row in snapshot.bookies]
    return {"at": snapshot.at, "rows": rows}


async def listed(engine: Engine, params: Params) -> Body:
    """A window of the bundles that are chosen, in order. Raises InvalidField."""
    offset, limit = window(params)
    sort = params.get("sort") or DEFAULT_SORT
    if sort.removeprefix("-") not in SORTS:
        raise InvalidField("sort", f"must be one of {', '.join(SORTS)}, with '-' for descending")
    snapshot = await collector().snapshot()
    owned = await _map(snapshot).owned(engine.store)
    folds = await _map(snapshot).sums(owned)
    rows = _ordered(_chosen(_rows(owned, folds, snapshot), params), sort)
    shown = rows[offset : offset + limit]
    total = len(rows)
    return {"at": snapshot.at, "total": total, "offset": offset, "limit": limit, "rows": shown}


def _rows(owned: Iterable[Owned], folds: dict[BundleName, Fold], snapshot: Snapshot) -> list[Body]:
    lines = {line["url"]: line for line in snapshot.brokers}
    return [
        row_of(bundle, one.owners.get(bundle.range, ""), folds.get(bundle), lines, snapshot)
        for one in owned
        for bundle in one.bundles
    ]


def row_of(
    bundle: BundleName, owner: str, fold: Fold | None, lines: dict[str, Body], snapshot: Snapshot
) -> Body:
    """``owner``: its address, empty for none; ``lines``: brokers by theirs."""
    line = lines.get(owner)
    values, known = (fold or Fold()).figures
    if fold is None:  # the metadata says so now
        known = LIVE
    if owner:
        state = line["state"] if line is not None else "down"
        known = max(known, LIVE if state == "up" else LAST)
    else:
        state = "none"
    if not snapshot.topics.complete:
        known = NO if fold is None else max(known, LAST)
    row: Body = {
        "tenant": bundle.namespace.tenant,
        "namespace": bundle.namespace.below_tenant,
        "bundle": bundle.range,
        "owner": line["id"] if line is not None else owner,
        "state": state,
        "known": KNOWN[known],
        "at": line["at"] if line is not None else snapshot.taken,
        "topics": len(fold.parts) if fold is not None else 0,
    }
    for name, column in zip(NUMBERS, _COLUMNS, strict=True):
        value = values[column]
        row[name] = value / 1000 if value is not None and name in RATES else value
    if known == NO and fold is None:  # who was not heard may have topics in it
        row |= dict.fromkeys(("topics", *NUMBERS))
    return row


def _chosen(rows: list[Body], params: Params) -> list[Body]:
    words = params.get("q", "").lower().split()
    broker = params.get("broker", "")
    return [
        row
        for row in rows
        if (not broker or row["owner"] == broker)
        and all(word in _name_of(row).lower() for word in words)
    ]


def _name_of(row: Body) -> str:
    return f"{row['tenant']}/{row['namespace']}/{row['bundle']}"


def _ordered(rows: list[Body], sort: str) -> list[Body]:
    """By name where the field is alike; what is not known comes last."""
    rows.sort(key=lambda row: (row["tenant"], row["namespace"], row["bundle"]))
    field, descending = sort.removeprefix("-"), sort.startswith("-")
    if field == "bundle":
        return rows[::-1] if descending else rows
    if field == "backlog":
        field = "backlog_messages"
    known = [row for row in rows if row[field] is not None]
    known.sort(key=lambda row: row[field], reverse=descending)
    return known + [row for row in rows if row[field] is None]


async def one(bundle: BundleName, owner: str, cuts: Sequence[int]) -> tuple[Body, list[Body]]:
    """The row of a bundle that ``owner`` owns, and its parts with these edges in it, none without any."""
    snapshot = await collector().snapshot()
    edges = (bundle.lower, *cuts, bundle.upper)
    around = tuple(sorted({0, *edges, HASH_TOP}))
    found = await bundles.sums(snapshot.topics, {str(bundle.namespace): around})
    whole = Fold()
    parts = []
    for low, high in pairwise(edges):
        part = BundleName(bundle.namespace, low, high)
        inside = found.get(part, Fold()).parts
        whole.parts |= inside
        for each in inside.values():
            whole.replace(None, each.figures)
        topics = len(inside) if snapshot.topics.complete else None
        parts.append({"bundle": part.range, "topics": topics})
    lines = {line["url"]: line for line in snapshot.brokers}
    row = row_of(bundle, owner, whole if whole.parts else None, lines, snapshot)
    return row, parts if cuts else []


async def together(owned: list[Owned], owners: Mapping[BundleName, str]) -> Body:
    """The brokers that own these bundles, and the figures of all of them as one; ``owned``: their namespaces."""
    snapshot = await collector().snapshot()
    edges = {str(one.bundles.namespace): one.bundles.edges for one in owned}
    folds = await bundles.sums(snapshot.topics, edges)
    lines = {line["url"]: line for line in snapshot.brokers}
    rows = [row_of(each, url, folds.get(each), lines, snapshot) for each, url in owners.items()]
    counts = Counter((row["owner"], row["state"]) for row in rows)
    return {
        "owners": [
            {"broker": broker, "state": state, "bundles": count}
            for (broker, state), count in counts.most_common()
        ],
        "figures": {
            "known": KNOWN[max((KNOWN.index(row["known"]) for row in rows), default=LIVE)],
            "at": min((row["at"] for row in rows), default=snapshot.taken),
            **{name: _sum(row[name] for row in rows) for name in ("topics", *NUMBERS)},
        },
    }


def _sum(values: Iterable[float | None]) -> float | None:
    """None when one of them is not known."""
    given = list(values)
    known = [value for value in given if value is not None]
    return sum(known) if len(known) == len(given) else None


async def broker_names() -> dict[str, str]:
    """Ids of brokers by their addresses."""
    snapshot = await collector().snapshot()
    return {line["url"]: str(line["id"]) for line in snapshot.brokers}


async def broker_of(url: str) -> str:
    """Id of the broker of this address; the address itself when there is none of it."""
    return (await broker_names()).get(url, url)


async def address_of(broker: str) -> str:
    """Address of the broker of this id; the id itself when there is none of it."""
    names = await broker_names()
    return next((url for url, name in names.items() if name == broker), broker)


async def answering() -> int:
    """How many brokers answer now."""
    snapshot = await collector().snapshot()
    return sum(line["state"] == "up" for line in snapshot.brokers)
