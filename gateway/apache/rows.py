"""Rows of the console's feeds from the statistics that an Apache Pulsar broker keeps of all its topics. Pure.

``GET /admin/v2/broker-stats/topics`` answers ``{namespace: {bundle: {domain: {topic: stats}}}}``, which the broker
renews every ``statsUpdateFrequencyInSecs``. It counts a backlog in entries, and does not say how old it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS, SubscriptionCell, age_target_s
from engine.admin.lag import Lag, LagCause, LagSeverity
from engine.admin.link_causes import LinkCause
from engine.base.names import split_topic

Stats = Mapping[str, Any]
SYSTEM = "__"
"""Begin of the names of system topics and of their subscriptions."""


class Seen(NamedTuple):
    """An earlier state of a subscription or link: its backlog, when that was counted (ms), its cause of lag, and
    since when it has that."""

    backlog: int
    at: int
    cause: str
    since: int


class BrokerRows(NamedTuple):
    """The rows of a broker by topic, and what is remembered for the next ones."""

    topics: dict[str, list[Any]]
    subscriptions: dict[str, list[Any]]
    links: dict[str, list[Any]]
    seen: dict[tuple[str, str], Seen]


def rows_of(answer: Stats, at: int, seen: Mapping[tuple[str, str], Seen]) -> BrokerRows:
    """Return the rows of an answer to ``broker-stats/topics`` that was counted about ``at``, ms."""
    rows = BrokerRows({}, {}, {}, {})
    for name, stats in _topics(answer):
        subscriptions = stats.get("subscriptions") or {}
        cells = [
            _cell(name, title, sub, at, seen, rows.seen) for title, sub in subscriptions.items()
        ]
        rows.topics[name] = [name, *_values(stats, cells)]
        rows.subscriptions[name] = [name, *map(list, cells)]
        links = [
            _link(name, cluster, link, at, seen, rows.seen)
            for cluster, link in sorted((stats.get("replication") or {}).items())
        ]
        if links:
            rows.links[name] = [name, *links]
    return rows


def _topics(answer: Stats) -> Iterator[tuple[str, Stats]]:
    """Yield the topics that users have, by full name."""
    for bundles in answer.values():
        for domains in bundles.values():
            for topics in domains.values():
                for name, stats in topics.items():
                    parts = split_topic(name)
                    # Brokers check their health by topics in namespaces that are called like addresses.
                    if not parts.topic.startswith(SYSTEM) and ":" not in parts.namespace:
                        yield name, stats


def _values(stats: Stats, cells: list[SubscriptionCell]) -> list[int | None]:
    backlog = sum(cell.backlog or 0 for cell in cells)
    consumers = sum(cell.consumers for cell in cells)
    by_column = {
        "producers": int(stats.get("producerCount", len(stats.get("publishers") or ()))),
        "consumers": consumers,
        "subscriptions": len(cells),
        "msg_rate_in": _thousandths(stats, "msgRateIn"),
        "msg_rate_out": _thousandths(stats, "msgRateOut"),
        "bytes_rate_in": _thousandths(stats, "msgThroughputIn"),
        "bytes_rate_out": _thousandths(stats, "msgThroughputOut"),
        "backlog": backlog,
        "storage_bytes": int(stats.get("storageSize", 0)),
        "backlog_messages": backlog,
        "backlog_estimated": 0,
        "backlog_unmeasured": backlog,
        "oldest_at": OLDEST_UNKNOWN if backlog else 0,
    }
    return [by_column[column] for column in ROW_COLUMNS]


def _cell(
    topic: str,
    title: str,
    stats: Stats,
    at: int,
    seen: Mapping[tuple[str, str], Seen],
    now_seen: dict[tuple[str, str], Seen],
) -> SubscriptionCell:
    backlog = int(stats.get("msgBacklog", 0))
    consumers = stats.get("consumers") or []
    before = seen.get((topic, title))
    passed_ms = at - before.at if before is not None else 0
    grown = backlog - before.backlog if before is not None else 0
    growth = grown * 1_000_000 // passed_ms if passed_ms > 0 else 0
    cause = None if title.startswith(SYSTEM) or not backlog else _cause(stats, consumers, growth)
    since = at if cause is None or before is None or before.cause != cause else before.since
    # The same count, read again, says nothing of growth.
    now_seen[topic, title] = Seen(backlog, at, cause or "", since)
    lag = cause and Lag(cause, _severity(cause, growth), since, growth, _evidence(stats, consumers))
    kind = str(stats.get("type") or "")
    return SubscriptionCell(
        name=title,
        backlog=backlog,
        rate_out=_thousandths(stats, "msgRateOut"),
        lag=lag and list(lag),
        oldest_at=OLDEST_UNKNOWN if backlog else 0,
        messages=backlog,
        estimated=0,
        unmeasured=backlog,
        consumers=len(consumers),
        unacked=sum(int(item.get("unackedMessages", 0)) for item in consumers),
        kind="" if kind == "None" else kind,
        target_s=age_target_s(stats.get("subscriptionProperties") or {}),
    )


def _cause(stats: Stats, consumers: list[Stats], growth: int) -> LagCause | None:
    """Return why a backlog is not drained, as far as the statistics show it; None where they do not."""
    if not consumers:
        return LagCause.NO_CONSUMER
    blocked = [item.get("blockedConsumerOnUnackedMsgs") for item in consumers]
    if stats.get("blockedSubscriptionOnUnackedMsgs") or all(blocked):
        return LagCause.UNACKED_LIMIT
    rate = float(stats.get("msgRateOut", 0.0))
    if not rate and all(int(item.get("availablePermits", 1)) <= 0 for item in consumers):
        return LagCause.NO_PERMITS
    return LagCause.SLOW if growth > 0 else None


def _severity(cause: LagCause, growth: int) -> LagSeverity:
    if cause is LagCause.SLOW or growth <= 0:
        return LagSeverity.WARNING
    return LagSeverity.ERROR


def _evidence(stats: Stats, consumers: list[Stats]) -> dict[str, Any]:
    unacked = sum(int(item.get("unackedMessages", 0)) for item in consumers)
    rate_out = round(float(stats.get("msgRateOut", 0.0)), 3)
    return {"consumers": len(consumers), "unacked": unacked, "rate_out": rate_out}


def _link(
    topic: str,
    cluster: str,
    stats: Stats,
    at: int,
    seen: Mapping[tuple[str, str], Seen],
    now_seen: dict[tuple[str, str], Seen],
) -> list[Any]:
    """Return ``[cluster, sent, received]`` of a row of ``LINK_ROWS``."""
    backlog = int(stats.get("replicationBacklog", 0))
    cause = None if stats.get("connected") else LinkCause.CONNECTING
    key = (topic, f"\n{cluster}")
    before = seen.get(key)
    since = at if before is None or before.cause != (cause or "") else before.since
    now_seen[key] = Seen(backlog, at, cause or "", since)
    delay_s = int(stats.get("replicationDelayInSeconds", 0))
    oldest = at - delay_s * 1000 if delay_s else None
    why = "" if cause is None else "the broker's replicator is not connected"
    sent = [
        *(backlog, oldest if backlog else 0),
        *(_thousandths(stats, "msgRateOut"), _thousandths(stats, "msgThroughputOut")),
        *(cause, why, since),
    ]
    receives = stats.get("inboundConnection") or stats.get("inboundConnectedSince")
    received = [_thousandths(stats, "msgRateIn"), _thousandths(stats, "msgThroughputIn")]
    return [cluster, sent, received if receives else None]


def _thousandths(stats: Stats, name: str) -> int:
    return round(float(stats.get(name, 0.0)) * 1000)
