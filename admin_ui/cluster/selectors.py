"""Brokers, bundles and bookies: the numbers of the collector beside what is stored."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from admin_ui.lists.record_order import sorted_rows
from admin_ui.params import Params, sort_of, window
from engine.admin.api.rows import ROW_COLUMNS
from engine.auth.viewer import Viewer
from engine.base.names import HASH_TOP, BundleName
from engine.tenancy.resources.racks import get_racks
from gateway.clusters.cluster import Cluster
from gateway.services import bundles
from gateway.services.addresses import AddressChecks
from gateway.services.admin import brokers as admin_brokers
from gateway.services.attention.quorums import Needs
from gateway.services.bundles import BundleMap, Owned
from gateway.services.collection.snapshot import Snapshot
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
_MOVE = {
    "kind": "kind",
    "bundle": "bundle",
    "from_broker": "source",
    "to_broker": "destination",
    "reason": "reason",
    "result": "result",
    "at": "atMs",
}
"""Fields of a move, with their names in the leader's record."""
_DRAIN = {name: name for name in ("broker", "by", "left", "moved", "unloaded", "refused")} | {
    "since": "at_ms"
}
"""Fields of a drain, with their names in the brokers' answers."""
_LOAD = {name: name for name in ("broker", "load", "why", "bundles", "gains", "losses")} | {
    "at": "updated_ms"
}
"""Fields of a broker's load, with their names in its answer."""
_COLUMNS = [ROW_COLUMNS.index(name) for name in NUMBERS]


def bundle_map(cluster: Cluster) -> BundleMap:
    """Return the bundles with the topics of the cluster's index, which are one of its parts."""
    return BundleMap(cluster.collector.topics)


async def addresses(cluster: Cluster, engine: Engine) -> Body:
    """Return the addresses that brokers advertise to all clients."""
    rows = await cluster.part(address_checks).advertised(engine)
    return {"rows": [row._asdict() for row in rows]}


def address_checks(cluster: Cluster) -> AddressChecks:
    """Return the checks of the brokers' addresses, which are one of the cluster's parts."""
    return AddressChecks()


async def brokers(viewer: Viewer, cluster: Cluster, engine: Engine) -> Body:
    """Return every broker that is registered, or was until a moment ago. Raises Forbidden for a viewer who does not see
    everything."""
    viewer.require_everything("The numbers of brokers")
    snapshot = await cluster.collector.snapshot()
    owned = await cluster.part(bundle_map).owned(engine.store)
    counts = Counter(url for namespace in owned for url in namespace.owners.values())
    total = sum(len(namespace.bundles) for namespace in owned)
    return {
        "at": snapshot.at,
        "unowned": total - counts.total(),
        "rows": [{**line, "bundles": counts[line["url"]]} for line in snapshot.brokers],
    }


async def load_balance(viewer: Viewer, engine: Engine) -> Body:
    """Return the last plan of the leader, the present loads, and why bundles were moved or not. Raises Forbidden for a
    viewer who does not see everything, NotReady when no broker answers."""
    viewer.require_everything("The balance of load")
    balance = await admin_brokers.load_balance(engine)
    return {
        "leader": balance["leader"],
        "reason": balance["reason"],
        "at": balance["planned_ms"],
        "spread": balance["spread"],
        "spread_max": balance["spread_max"],
        "loads": [
            {shown: report[name] for shown, name in _LOAD.items()} for report in balance["reports"]
        ],
        "not_moved": balance["skips"],
        "not_split": balance["splits"],
        "silent": balance["silent"],
        "moves": [
            {shown: move[name] for shown, name in _MOVE.items()} for move in balance["moves"]
        ],
        "drains": [drain_row(drain) for drain in balance["drains"]],
    }


def drain_row(drain: Mapping[str, Any]) -> Body:
    """Return a drained broker with its progress, as it is shown."""
    return {shown: drain[name] for shown, name in _DRAIN.items()}


async def bookies(viewer: Viewer, cluster: Cluster, engine: Engine) -> Body:
    """Return every bookie that ever registered and was not decommissioned. Raises Forbidden for a viewer who does not
    see everything."""
    viewer.require_everything("The numbers of bookies")
    racks = await get_racks(engine.store)
    snapshot = await cluster.collector.snapshot()
    placements = {
        bookie: {"rack": str(facts.get("rack") or ""), "group": group}
        for group, members in racks.items()
        for bookie, facts in members.items()
    }
    unset = {"rack": "", "group": ""}
    rows = [{**row, **placements.get(row["id"], unset)} for row in snapshot.bookies]
    return {"at": snapshot.at, "rows": rows, "placement": _placement(snapshot.attention.needs)}


def _placement(needs: Needs) -> Body | None:
    """Return what the brokers' placement needs of the bookies; None until brokers have reported it."""
    regions, quorums = needs.regions, needs.all
    if regions is None or not quorums:
        return None
    least, names = regions
    return {
        "regions_min": least,
        "regions": sorted({name.strip() for name in names.split(";")} - {""}),
        "ensemble": max(need.ensemble for need in quorums),
        "ack_quorum": max(need.ack_quorum for need in quorums),
    }


async def listed(viewer: Viewer, cluster: Cluster, engine: Engine, params: Params) -> Body:
    """Return a window of the selected bundles of namespaces that are seen, in order. Raises InvalidField."""
    offset, limit = window(params)
    sort = sort_of(params, SORTS, DEFAULT_SORT)
    snapshot = await cluster.collector.snapshot()
    owned = await cluster.part(bundle_map).owned(engine.store)
    folds = await cluster.part(bundle_map).sums(owned)
    seen = [space for space in owned if viewer.sees(str(space.bundles.namespace))]
    rows = _ordered(_chosen(_rows(seen, folds, snapshot), params), sort)
    shown = rows[offset : offset + limit]
    total = len(rows)
    return {"at": snapshot.at, "total": total, "offset": offset, "limit": limit, "rows": shown}


def _rows(owned: Iterable[Owned], folds: dict[BundleName, Fold], snapshot: Snapshot) -> list[Body]:
    lines = {line["url"]: line for line in snapshot.brokers}
    return [
        row_of(bundle, namespace.owners.get(bundle.range, ""), folds.get(bundle), lines, snapshot)
        for namespace in owned
        for bundle in namespace.bundles
    ]


def row_of(
    bundle: BundleName, owner: str, fold: Fold | None, lines: dict[str, Body], snapshot: Snapshot
) -> Body:
    """Return the row of a bundle. ``owner``: address of its owner, empty for none; ``lines``: brokers by address."""
    line = lines.get(owner)
    values, known = (fold or Fold()).figures
    if fold is None:  # no topic is stored in it, by metadata that was read just now
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
    if known == NO and fold is None:  # a broker that did not answer may have topics in it
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
    """Return the rows in the order of ``sort``, by name where the field is equal; unknown values are last."""
    return sorted_rows(sorted(rows, key=_place), sort, _compared)


def _place(row: Body) -> tuple[str, str, str]:
    return row["tenant"], row["namespace"], row["bundle"]


def _compared(row: Body, field: str) -> Any:
    if field == "bundle":
        return _place(row)
    # The page shows backlogs in messages.
    return row["backlog_messages" if field == "backlog" else field]


async def with_parts(
    cluster: Cluster, bundle: BundleName, owner: str, cuts: Sequence[int]
) -> tuple[Body, list[Body]]:
    """Return the row of a bundle that ``owner`` owns, and the parts that ``cuts`` divide it into; no parts without
    cuts."""
    snapshot = await cluster.collector.snapshot()
    edges = (bundle.lower, *cuts, bundle.upper)
    hashes = tuple(sorted({0, *edges, HASH_TOP}))
    folds = await bundles.sums(snapshot.topics, {str(bundle.namespace): hashes})
    total = Fold()
    parts = []
    for low, high in pairwise(edges):
        part = BundleName(bundle.namespace, low, high)
        topic_parts = folds.get(part, Fold()).parts
        total.parts |= topic_parts
        for topic_part in topic_parts.values():
            total.replace(None, topic_part.figures)
        topics = len(topic_parts) if snapshot.topics.complete else None
        parts.append({"bundle": part.range, "topics": topics})
    lines = {line["url"]: line for line in snapshot.brokers}
    row = row_of(bundle, owner, total if total.parts else None, lines, snapshot)
    return row, parts if cuts else []


async def combined(cluster: Cluster, owned: list[Owned], owners: Mapping[BundleName, str]) -> Body:
    """Return the brokers that own these bundles, and the sums of their numbers. ``owned``: the namespaces of the
    bundles."""
    snapshot = await cluster.collector.snapshot()
    edges = {str(namespace.bundles.namespace): namespace.bundles.edges for namespace in owned}
    folds = await bundles.sums(snapshot.topics, edges)
    lines = {line["url"]: line for line in snapshot.brokers}
    rows = [
        row_of(bundle, url, folds.get(bundle), lines, snapshot) for bundle, url in owners.items()
    ]
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
    """Return the sum; None when one of the values is not known."""
    items = list(values)
    known = [value for value in items if value is not None]
    return sum(known) if len(known) == len(items) else None


async def broker_names(cluster: Cluster) -> dict[str, str]:
    """Return the ids of brokers by their addresses."""
    snapshot = await cluster.collector.snapshot()
    return {line["url"]: str(line["id"]) for line in snapshot.brokers}


async def broker_of(cluster: Cluster, url: str) -> str:
    """Id of the broker of this address; the address itself when there is none of it."""
    return (await broker_names(cluster)).get(url, url)


async def address_of(cluster: Cluster, broker: str) -> str:
    """Return the address of the broker with this id; the id itself when there is none."""
    names = await broker_names(cluster)
    return next((url for url, name in names.items() if name == broker), broker)


async def state_of(cluster: Cluster, broker: str) -> str:
    """Return the state of the broker with this id: up, slow or down; empty when the collector does not know it."""
    snapshot = await cluster.collector.snapshot()
    return next((str(line["state"]) for line in snapshot.brokers if line["id"] == broker), "")


async def answering_brokers(cluster: Cluster) -> int:
    """Return the number of brokers that answer now."""
    snapshot = await cluster.collector.snapshot()
    return sum(line["state"] == "up" for line in snapshot.brokers)
