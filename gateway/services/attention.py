"""What somebody should look at, most harmful first. Pure."""

from typing import Any, TypedDict
from urllib.parse import quote

from gateway.services.collector import Snapshot
from gateway.services.selection import Chosen

ITEMS_MAX = 5
KNOWN_MS_MAX = 2_000
"""Numbers older than this say nothing about now."""


class Item(TypedDict):
    """As of the contract."""

    key: str
    severity: str
    cause: str
    title: str
    detail: str
    advice: str
    link: str
    topic: str
    subscription: str
    count: int
    score: float
    since: int | None


class Found(TypedDict):
    """``known``: every registered broker and the store answered, so that nothing found means that all is well."""

    known: bool
    items: list[Item]
    more: int


def found(snapshot: Snapshot, cluster: str, now_ms: int) -> Found:
    """Hops first, then topics whose backlog nobody takes from."""
    items = _hops(snapshot)
    standing = Chosen(standing=True, sort="-backlog")
    room = max(ITEMS_MAX - len(items), 0)
    total, rows = snapshot.rows(standing, 0, room)
    items += [_standing(row, cluster) for row in rows]
    up = all(broker["state"] == "up" for broker in snapshot.brokers)
    heard = snapshot.heard()
    fresh = heard is not None and now_ms - heard <= KNOWN_MS_MAX
    return {
        "known": bool(snapshot.brokers) and up and fresh,
        "items": items[:ITEMS_MAX],
        "more": max(len(items) - ITEMS_MAX, 0) + total - len(rows),
    }


def _hops(snapshot: Snapshot) -> list[Item]:
    items: list[Item] = []

    def add(cause: str, which: str, severity: str, title: str, detail: str, advice: str) -> None:
        items.append(
            {
                "key": f"{cause} {which}",
                "severity": severity,
                "cause": cause,
                "title": title,
                "detail": detail,
                "advice": advice,
                "link": "/",
                "topic": "",
                "subscription": "",
                "count": 1,
                "score": 1e9,
                "since": None,
            }
        )

    if not snapshot.brokers:
        add(
            "broker-down",
            "",
            "error",
            "No broker is registered",
            "Clients cannot connect",
            "Start a broker",
        )
    for broker in snapshot.brokers:
        if broker["state"] != "up":
            add(
                "broker-down",
                broker["id"],
                "error",
                f"Broker {broker['id']} does not answer",
                "Its topics' numbers are those last known",
                "Look at its log; start it again when it is gone",
            )
    if not any(bookie["state"] == "writable" for bookie in snapshot.bookies):
        add(
            "bookie-down",
            "",
            "error",
            "No bookie is writable",
            "Publishing to persistent topics fails",
            "Start a bookie",
        )
    for bookie in snapshot.bookies:
        if bookie["state"] == "down":
            add(
                "bookie-down",
                bookie["id"],
                "error",
                f"Bookie {bookie['id']} is down",
                "It registered before and is gone now",
                "Start it again; what it stores is still on its disk",
            )
        elif bookie["state"] == "read-only":
            add(
                "bookie-read-only",
                bookie["id"],
                "warning",
                f"Bookie {bookie['id']} is read-only",
                "Its disk may be full",
                "Make room on its disk",
            )
    return items


def _standing(row: dict[str, Any], cluster: str) -> Item:
    alone = not row["consumers"]
    topic = quote(row["topic"], safe="")
    return {
        "key": row["name"],
        "severity": "warning",
        "cause": "no-consumer" if alone else "slow",
        "title": f"{row['name']} {'has no consumer' if alone else 'stands still'}",
        "detail": f"{row['backlog']} messages wait",
        "advice": "Start its consumer" if alone else "Look at its consumers",
        "link": f"/c/{cluster}/t/{row['tenant']}/{row['namespace']}/{topic}/subscriptions",
        "topic": row["name"],
        "subscription": "",
        "count": 1,
        "score": float(row["backlog"]),
        "since": None,
    }
