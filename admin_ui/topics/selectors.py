"""The list of topics, and the page of a topic, in the shapes of the console API."""

import asyncio
import logging
from typing import Any

from admin_ui.params import LIMIT_MAX, Params, list_choice, window
from admin_ui.topics import detail
from admin_ui.topics.row_texts import RowTexts
from engine.admin.api.statistics import INTERNAL_STATS, TOPIC_STATS, InternalStats, TopicStats
from engine.auth.viewer import Viewer
from engine.base.errors import MagnetarError, NotFound, NotReady, WorldError
from engine.base.names import TopicName
from engine.tenancy.listing import all_namespaces
from engine.tenancy.tenants import list_tenants
from gateway.clusters.cluster import Cluster
from gateway.http.bodies import JsonText
from gateway.services import catalog
from gateway.services.backlogs import Backlogs
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.history.readings import Trend
from gateway.services.index import rows
from gateway.services.index.selection import Chosen, has_words, words_of

log = logging.getLogger(__name__)

Body = dict[str, Any]


def chosen_of(params: Params) -> Chosen:
    """Return the filter and order of a list request. Raises InvalidField."""
    return list_choice(params, rows.FIELDS, "-backlog")


def _row_texts(cluster: Cluster) -> RowTexts:
    return RowTexts()


async def topics(
    viewer: Viewer,
    cluster: Cluster,
    params: Params,
    *,
    limit_max: int = LIMIT_MAX,
    is_pushed: bool = False,
) -> JsonText:
    """Return a window of the list of topics that are seen. ``params`` as in ``api.FILTERS``. ``is_pushed``: trends that
    were not read yet are left out, since the next message has them. Raises InvalidField."""
    offset, limit = window(params, limit_max)
    chosen = chosen_of(params)
    snapshot = await cluster.collector.snapshot()
    names = snapshot.select(viewer, chosen).names(offset, offset + limit)
    history = cluster.history
    trends_of = history.trends_at_once(names) if is_pushed else await _trends(cluster, names)
    at, attention = snapshot.at, snapshot.attention
    texts = cluster.part(_row_texts)
    rows = [
        texts.row(
            snapshot.topics, name, snapshot.taken, trends_of.get(name), attention.cause_of(name)
        )
        for name in names
        if name in snapshot.topics  # the topic may have been deleted while the trends were read
    ]
    head = (
        f'"total":{len(snapshot.select(viewer, chosen))},"offset":{offset},"limit":{limit},"rows":'
    )
    text = ",".join([row + end for row, end in rows])
    return JsonText(at, f'{{"at":{at},{head}[{text}]}}', (head, [row for row, _ in rows]))


async def scopes(viewer: Viewer, engine: Engine, params: Params) -> Body:
    """Return the tenants and namespaces that are seen and whose names have the words of ``q``, at most ``limit`` of
    each. Raises InvalidField."""
    _, limit = window(params)
    words, tenant = words_of(params.get("q", "")), params.get("tenant", "")
    tenants = [
        name
        for name in await list_tenants(engine.store)
        if has_words(name, words) and viewer.sees_tenant(name)
    ]
    namespaces = [
        name
        for name in await all_namespaces(engine.store)
        if has_words(name, words) and tenant in ("", name.partition("/")[0]) and viewer.sees(name)
    ]
    return {
        "tenants": {"total": len(tenants), "names": tenants[:limit]},
        "namespaces": {"total": len(namespaces), "names": namespaces[:limit]},
    }


async def _trends(cluster: Cluster, names: list[str]) -> dict[str, Trend]:
    """Return the trends of topics. A topic without one has no readable history: its row is shown without a trend."""
    try:
        return await cluster.history.trends(names)
    except NotReady as error:
        log.warning("rows are shown without trends error=%r", error)
        return {}


STORE_TIMEOUT_S = 0.3
PARTITION_TIMEOUT_S = 1.0
"""Longest wait for a partition's broker; then the partition is shown with its last known numbers."""


def _backlogs(cluster: Cluster) -> Backlogs:
    return Backlogs()


async def topic(cluster: Cluster, engine: Engine, name: TopicName) -> Body:
    """Return a topic with its producers, subscriptions, ledgers and partitions.

    A partition that does not answer in time has only its row (``missing``). When none answers, the error of the first
    is raised. Raises NotFound.
    """
    count = await _count(cluster, engine, name)
    if count:
        parts = await _partitions(cluster, engine, name, count)
    else:
        parts = [await _plain(cluster, engine, name)]
    at = now_ms()
    part_rows = [detail.part_row(part, at) for part in parts]
    merged = detail.subscriptions(parts)
    row = detail.summed(str(name), count, part_rows, len(merged), at)
    arriving = sum(float(part["msg_rate_in"] or 0.0) for part in part_rows)
    source, backlogs = cluster.collector, cluster.part(_backlogs)
    source.start()  # lags are shown as far as they are known, and not waited for
    lags = source.attention.lags(str(name), (part.name for part in parts), at)
    for title, sub in merged.items():
        sub["lag"] = lags.get(title)
        # Rates count messages, and the net rate of a backlog counts entries.
        per_entry = sub["backlog_messages"] / sub["backlog"] if sub["backlog"] else 1.0
        entry_rate = (arriving - sub["msg_rate_out"]) / per_entry
        net_rate = backlogs.net_rate(str(name), title, at, sub["backlog"], entry_rate)
        sub["net_rate"] = round(net_rate, 3)
    owners = {part.owner for part in parts if part.owner}
    return {
        "at": at,
        "row": row,
        "trouble": source.attention.trouble_of(str(name)),
        "owner": owners.pop() if len(owners) == 1 else "",
        "ledgers": [ledger for part in parts for ledger in detail.ledgers(part)],
        "producers": detail.producers(parts),
        "replication": detail.replication(parts),
        "subscriptions": list(merged.values()),
        "partitions": part_rows if count else [],
        "missing": [part.number for part in parts if part.stats is None and part.created],
    }


async def _count(cluster: Cluster, engine: Engine, name: TopicName) -> int:
    """Return the number of partitions; the last known one while the metadata store does not answer."""
    known = (await cluster.collector.snapshot()).topics.partitions(str(name))
    try:
        async with asyncio.timeout(None if known is None else STORE_TIMEOUT_S):
            return await catalog.partition_count(engine.store, name)
    except (WorldError, TimeoutError):
        if known is None:
            raise
        return known


async def _plain(cluster: Cluster, engine: Engine, name: TopicName) -> detail.TopicPart:
    stats, internal = await _stats(engine, name)
    return detail.TopicPart(str(name), None, stats, internal, True, None)


async def _partitions(
    cluster: Cluster, engine: Engine, name: TopicName, count: int
) -> list[detail.TopicPart]:
    snapshot = await cluster.collector.snapshot()
    failures: list[Exception] = []

    async def read_part(index: int) -> detail.TopicPart:
        member = name.partition_at(index)
        try:
            async with asyncio.timeout(PARTITION_TIMEOUT_S):
                stats, internal = await _stats(engine, member)
            return detail.TopicPart(str(member), index, stats, internal, True, None)
        except NotFound:
            return detail.TopicPart(str(member), index, None, {}, False, None)
        except (MagnetarError, TimeoutError, OSError) as error:
            failures.append(error)
            last = snapshot.topics.part_row(str(member), now_ms())
            return detail.TopicPart(str(member), index, None, {}, True, last)

    parts = await catalog.each(range(count), read_part)
    if len(failures) == count:
        raise failures[0]
    return parts


async def _stats(engine: Engine, name: TopicName) -> tuple[Body, Body]:
    return await asyncio.gather(
        engine.call(TOPIC_STATS, TopicStats(name, schema_versions=True)),
        engine.call(INTERNAL_STATS, InternalStats(name)),
    )
