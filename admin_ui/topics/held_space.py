"""The reasons that keep the stored bytes of a topic, summed over its partitions, and those of a namespace."""

import asyncio
from collections.abc import Iterable
from typing import Any

from engine.auth.viewer import Viewer
from engine.base.errors import MagnetarError
from engine.base.names import PERSISTENT, NamespaceName, TopicName
from gateway.clusters.cluster import Cluster
from gateway.services import catalog
from gateway.services.admin import statistics
from gateway.services.engine_link import Engine
from gateway.services.index.selection import Chosen

Body = dict[str, Any]
LISTED_MAX = 200
"""Subscriptions, and ledgers, in an answer: the largest."""
TOPICS_MAX = 100
"""Topics of a namespace that are read, those with the most stored bytes: each is loaded for it."""
AT_ONCE = 8
TOPIC_TIMEOUT_S = 10.0


async def held_space(engine: Engine, name: TopicName) -> Body:
    """Return what holds the ledgers of a topic, the most bytes first. Raises NotFound, Unsupported for a non-persistent
    topic, NotReady while a broker does not answer."""
    parts = await statistics.held_space(engine, name)
    answers = list(parts.values())
    subscriptions: dict[str, Body] = {}
    for answer in answers:
        for held in answer["subscriptions"]:
            nothing = {"ledgers": 0, "bytes": 0, "alone_bytes": 0}
            total = subscriptions.setdefault(held["name"], {"name": held["name"], **nothing})
            for number in nothing:
                total[number] += held[number]
    ledgers = [
        {"topic": part, **ledger} for part, answer in parts.items() for ledger in answer["largest"]
    ]
    return {
        "at": min(answer["at"] for answer in answers),
        "copies": max(answer["copies"] for answer in answers),
        "retention_s": answers[0]["retention_s"],
        "retention_bytes": answers[0]["retention_bytes"],
        "ledgers": sum(answer["ledgers"] for answer in answers),
        "held": _holders_of(answers),
        "subscriptions": _largest(subscriptions.values()),
        "largest": _largest(ledgers),
    }


async def held_space_of_namespace(
    engine: Engine, cluster: Cluster, viewer: Viewer, namespace: NamespaceName
) -> Body:
    """Return what holds the ledgers of the largest topics of a namespace, the most bytes first. Topics that could not
    be read are named with the reason."""
    snapshot = await cluster.collector.snapshot()
    tenant, local = namespace.tenant, namespace.below_tenant
    chosen = Chosen(tenant=tenant, namespace=local, domain=PERSISTENT, sort="-storage_bytes")
    total, rows = snapshot.rows(viewer, chosen, 0, TOPICS_MAX)
    unread: list[Body] = []

    async def read(name: str) -> Body | None:
        try:
            async with asyncio.timeout(TOPIC_TIMEOUT_S):
                return {"topic": name, **await held_space(engine, TopicName.parse(name))}
        except (MagnetarError, TimeoutError) as error:
            unread.append({"topic": name, "reason": str(error) or "no answer in time"})
            return None

    read_topics = await catalog.each((row["name"] for row in rows), read, AT_ONCE)
    answers = [answer for answer in read_topics if answer is not None]
    subscriptions = [
        {"topic": answer["topic"], **held} for answer in answers for held in answer["subscriptions"]
    ]
    return {
        "at": min((answer["at"] for answer in answers), default=snapshot.at),
        "copies": max((answer["copies"] for answer in answers), default=0),
        "topics": total,
        "read": len(answers),
        "unread": sorted(unread, key=lambda row: str(row["topic"])),
        "ledgers": sum(answer["ledgers"] for answer in answers),
        "held": _holders_of(answers),
        "subscriptions": _largest(subscriptions),
        "by_topic": _largest(
            {
                "topic": answer["topic"],
                "ledgers": answer["ledgers"],
                "bytes": sum(held["bytes"] for held in answer["held"]),
                "holder": answer["held"][0]["holder"] if answer["held"] else "",
            }
            for answer in answers
        ),
    }


def _holders_of(answers: Iterable[Body]) -> list[Body]:
    """Return the sums by holder of several answers, most bytes first."""
    holders: dict[str, Body] = {}
    for answer in answers:
        for held in answer["held"]:
            total = holders.setdefault(held["holder"], {**held, "ledgers": 0, "bytes": 0})
            total["ledgers"] += held["ledgers"]
            total["bytes"] += held["bytes"]
    return _largest(holders.values())


def _largest(rows: Any) -> list[Body]:
    return sorted(rows, key=lambda row: -row["bytes"])[:LISTED_MAX]
