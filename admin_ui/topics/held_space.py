"""The reasons that keep the stored bytes of a topic, summed over its partitions."""

from typing import Any

from engine.base.names import TopicName
from gateway.services.admin import statistics
from gateway.services.engine_link import Engine

Body = dict[str, Any]
LISTED_MAX = 200
"""Subscriptions, and ledgers, in an answer: the largest."""


async def held_space(engine: Engine, name: TopicName) -> Body:
    """Return what holds the ledgers of a topic, the most bytes first. Raises NotFound, Unsupported for a non-persistent
    topic, NotReady while a broker does not answer."""
    parts = await statistics.held_space(engine, name)
    answers = list(parts.values())
    holders: dict[str, Body] = {}
    for answer in answers:
        for held in answer["held"]:
            total = holders.setdefault(held["holder"], {**held, "ledgers": 0, "bytes": 0})
            total["ledgers"] += held["ledgers"]
            total["bytes"] += held["bytes"]
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
        "held": _largest(holders.values()),
        "subscriptions": _largest(subscriptions.values()),
        "largest": _largest(ledgers),
    }


def _largest(rows: Any) -> list[Body]:
    return sorted(rows, key=lambda row: -row["bytes"])[:LISTED_MAX]
