"""Links between this cluster and others, from the collector's figures, the history and the clusters' records."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from admin_ui.params import Params, sort_of, window
from engine.auth.viewer import Viewer
from engine.base.errors import MagnetarError, NotFound, NotReady
from engine.base.names import split_topic
from engine.metadata import paths
from engine.metadata.records import decode_json
from engine.tenancy.nodes import children
from gateway.clusters.cluster import Cluster
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.geo.link_figures import LinkFigures
from gateway.services.geo.link_index import Sent, TopicLink
from gateway.services.history.readings import LATE_MS, TREND_MINUTES
from gateway.services.history.slots import COLUMNS, SLOT_MS, Point, link_name
from gateway.services.index.rows import KNOWN, NO

Body = dict[str, Any]
DEFAULT_SORT = "-delay"
READ_TIMEOUT_S = 0.4
"""Longest wait for the clusters' records; those that were read before are shown after it."""
RECORDS_MS = 5_000
"""Age from which records are read again."""
_TREND = {"sent": "msg_rate_out", "received": "msg_rate_in", "backlog": "backlog"}


def _delay(sent: Sent) -> tuple[bool, int]:
    """Return a key that grows with the delay. An unknown one is above all, that of no backlog below."""
    if not sent.backlog:
        return False, -(1 << 63)
    return sent.oldest is None, -(sent.oldest or 0)


_KEYS: dict[str, Callable[[TopicLink], Any]] = {
    "topic": lambda link: link.topic,
    "delay": lambda link: _delay(link.sent),
    "backlog": lambda link: link.sent.backlog,
    "msg_rate": lambda link: link.sent.messages,
    "cause": lambda link: link.sent.cause or "",
}
SORTS = tuple(_KEYS)


class KnownCluster(NamedTuple):
    """A cluster that has a record here. ``url``: address of its brokers; empty without one."""

    name: str
    url: str


class Records:
    """The records of other clusters as they were read last: one of the cluster's parts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read_ms = 0
        self.rows: list[KnownCluster] | None = None
        """The records; None before they are read."""

    async def read(self) -> list[KnownCluster] | None:
        """Return the records, read again when they are old and the store answers in time."""
        if now_ms() - self._read_ms > RECORDS_MS:
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    self.rows = await self._cluster.link.arun(_records)
                    self._read_ms = now_ms()
            except (TimeoutError, MagnetarError, OSError):
                pass  # the console's health reports the store
        return self.rows


async def _records(engine: Engine) -> list[KnownCluster]:
    names = await children(engine.store, "/admin/clusters")
    records = []
    for name in names:
        if name not in ("global", engine.cluster):
            value, _ = await engine.store.get(paths.cluster(name))
            record = decode_json(value, paths.cluster(name))
            url = record.get("brokerServiceUrl") or record.get("brokerServiceUrlTls") or ""
            records.append(KnownCluster(name, str(url)))
    return records


class Trends:
    """The last minutes of links, read once for each slot: one of the cluster's parts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read: tuple[int, tuple[str, ...]] = (0, ())
        self._trends: dict[str, Body] = {}

    async def of(self, remotes: list[str]) -> dict[str, Body]:
        """Return the trend of each link, in the shape ``LinkTrend``; none while the history cannot be read."""
        wanted = (now_ms() - LATE_MS) // SLOT_MS, tuple(remotes)
        if wanted != self._read:
            try:
                names = [link_name(remote) for remote in remotes]
                end, points = await self._cluster.history.recent(names, TREND_MINUTES)
            except NotReady:
                return {}
            self._trends = {
                remote: {"end": end, "step_ms": SLOT_MS, **_trend(series)}
                for remote, series in zip(remotes, points, strict=True)
            }
            self._read = wanted
        return self._trends


def _trend(points: list[Point]) -> Body:
    trend: Body = {}
    for name, column in _TREND.items():
        values = [point[COLUMNS.index(column)] for point in points]
        divisor = 1 if name == "backlog" else 1000
        trend[name] = [None if value is None else value / divisor for value in values]
    return trend


async def geo(viewer: Viewer, cluster: Cluster, params: Params) -> Body:
    """Return this cluster's ends of its links. Raises Forbidden for a viewer who does not see everything."""
    viewer.require_everything("The figures of links between clusters")
    snapshot = await cluster.collector.snapshot()
    records = await cluster.part(Records).read()
    figures = {link.remote: link for link in cluster.collector.link_figures()}
    remotes = sorted({record.name for record in records or ()} | figures.keys())
    trends = await cluster.part(Trends).of(remotes)
    return {
        "at": snapshot.at,
        "cluster": cluster.name,
        "records": None if records is None else [record._asdict() for record in records],
        "links": [
            _row(figures.get(remote) or cluster.collector.link_to(remote), trends.get(remote))
            for remote in remotes
        ],
    }


async def ends(viewer: Viewer, cluster: Cluster) -> Body:
    """Return a cluster's ends of its links, or why they are not shown, for an answer about several clusters."""
    try:
        body = await cluster.link.on_loop(lambda: geo(viewer, cluster, {}))
    except MagnetarError as error:
        return {"cluster": cluster.name, "ends": None, "why": str(error)}
    return {"cluster": cluster.name, "ends": body, "why": ""}


def _row(link: LinkFigures, trend: Body | None) -> Body:
    """Return a link as it is shown. What only brokers that have not reported would know is not known."""
    is_unknown = link.known == NO and not link.topics and not link.received_topics
    figures: Body = {
        "topics": link.topics,
        "stopped": link.stopped,
        "backlog": link.backlog,
        "oldest_at": link.oldest,
        "msg_rate": link.messages / 1000,
        "bytes_rate": link.bytes / 1000,
        "received_topics": link.received_topics,
        "received_msg_rate": link.received_messages / 1000,
        "received_bytes_rate": link.received_bytes / 1000,
    }
    return {
        "remote": link.remote,
        "known": KNOWN[link.known],
        "at": link.at,
        "silent": link.silent,
        **(dict.fromkeys(figures) if is_unknown else figures),
        "causes": [{**cause._asdict(), "since": cause.since or None} for cause in link.causes],
        "trend": trend,
    }


async def link(viewer: Viewer, cluster: Cluster, params: Params) -> Body:
    """Return one link and a window of its topics that are seen. Raises NotFound for a cluster without a record and
    without topics, InvalidField."""
    remote, sort = params["remote"], sort_of(params, SORTS, DEFAULT_SORT)
    offset, limit = window(params)
    snapshot = await cluster.collector.snapshot()
    records = await cluster.part(Records).read()
    index = cluster.collector.links
    if records is not None and remote not in index.remotes():
        known = [record.name for record in records]
        if remote not in known:
            raise NotFound(
                f"{cluster.name} knows {', '.join(known) or 'no other cluster'}, not {remote}"
            )
    links = [
        item
        for item in index.topics(remote, all_topics=params.get("all") == "1")
        if viewer.sees_topic(item.topic)
    ]
    causes = Counter(item.sent.cause for item in links if item.sent.cause is not None)
    rows = _chosen(links, params)
    rows.sort(key=lambda item: item.topic)
    rows.sort(key=_KEYS[sort.removeprefix("-")], reverse=sort.startswith("-"))
    return {
        "at": snapshot.at,
        "cluster": cluster.name,
        "remote": remote,
        "link": _row(cluster.collector.link_to(remote), None) if viewer.everything else None,
        "causes": [{"cause": name, "topics": count} for name, count in causes.most_common()],
        "total": len(rows),
        "offset": offset,
        "limit": limit,
        "rows": [
            _topic(item, snapshot.topics.listed_as(item.topic))
            for item in rows[offset : offset + limit]
        ],
    }


def _chosen(links: list[TopicLink], params: Params) -> list[TopicLink]:
    words, cause = params.get("q", "").lower().split(), params.get("cause", "")
    return [
        item
        for item in links
        if (not cause or item.sent.cause == cause)
        and all(word in item.topic.lower() for word in words)
    ]


def _topic(item: TopicLink, listed: str) -> Body:
    sent, name = item.sent, split_topic(listed)
    return {
        "name": item.topic,
        "tenant": name.tenant,
        "namespace": name.namespace,
        "topic": name.topic,
        "domain": name.domain,
        "broker": item.broker,
        "backlog": sent.backlog,
        "oldest_at": sent.oldest,
        "msg_rate": sent.messages / 1000,
        "bytes_rate": sent.bytes / 1000,
        "cause": sent.cause,
        "why": sent.why,
        "since": sent.since or None,
    }
