"""Tiered storage of a topic, summed over its partitions, and scans of buckets."""

from typing import Any

from admin_ui.tiers.shapes import PLACES
from engine.admin.api.arguments import MessagePosition, OnTopic
from engine.admin.api.brokers import SCAN_OBJECTS, ScanObjects
from engine.admin.api.statistics import HELD_LEDGERS
from engine.admin.api.topics import OFFLOAD, TIERS, MoveLedgers, TierQuestion
from engine.base.errors import NotReady, Unsupported
from engine.base.names import TopicName
from gateway.services.admin import existence
from gateway.services.engine_link import Engine

Body = dict[str, Any]
LEDGERS_MAX = 500
"""Ledgers of one topic or partition in an answer."""
GB = 1_000_000_000


async def tiers(
    engine: Engine, name: TopicName, threshold_bytes: int | None, threshold_s: int | None
) -> Body:
    """Return where the ledgers of a topic are, and what would be moved by these thresholds, else by its own. Raises
    NotFound, Unsupported for a non-persistent topic, NotReady while a broker does not answer."""
    parts = await _parts(engine, name, threshold_bytes, threshold_s)
    held = await existence.on_each_member(engine, HELD_LEDGERS, OnTopic(name))
    copies = max((answer["copies"] for answer in held.values()), default=1)
    sums: dict[str, Body] = {}
    for answer in parts.values():
        for ledger in answer["ledgers"]:
            nothing = {"tier": ledger["tier"], "ledgers": 0, "bytes": 0}
            total = sums.setdefault(ledger["tier"], nothing)
            total["ledgers"] += 1
            total["bytes"] += ledger["bytes"]
    first = next(iter(parts.values()))
    moved_bytes = sum(answer["due_bytes"] for answer in parts.values())
    return {
        "at": min(answer["at"] for answer in parts.values()),
        "policy": first["policy"],
        "states": [{"topic": part, **answer["state"]} for part, answer in parts.items()],
        "sums": [sums[tier] for tier in PLACES if tier in sums],
        "preview": {
            "ledgers": sum(answer["due_ledgers"] for answer in parts.values()),
            "bytes": moved_bytes,
            "bookies_cost": _cost(first["bookies_price"], moved_bytes * copies),
            "store_cost": _cost(first["store_price"], moved_bytes),
        },
        "copies": copies,
        "count": sum(len(answer["ledgers"]) for answer in parts.values()),
        "ledgers": [
            {"topic": part, **ledger}
            for part, answer in parts.items()
            for ledger in answer["ledgers"][-LEDGERS_MAX:]
        ],
    }


def _cost(price: float | None, size: int) -> float | None:
    """Return what ``size`` bytes cost a month; None without a price."""
    return None if price is None else round(price * size / GB, 4)


async def offload(engine: Engine, name: TopicName, keep_bytes: int) -> Body:
    """Start to move the closed ledgers of a topic but the newest with ``keep_bytes``. Raises Conflict while ledgers are
    being moved, PreconditionFailed without tiered storage."""
    started = []
    for part, answer in (await _parts(engine, name, keep_bytes, None)).items():
        due = [ledger["ledger_id"] for ledger in answer["ledgers"] if ledger["due"]]
        if due or answer["policy"] is None:
            before = MessagePosition(max(due, default=0) + 1, 0)
            await engine.call(OFFLOAD, MoveLedgers(TopicName.parse(part), before))
            started.append(part)
    return {"started": started}


async def _parts(
    engine: Engine, name: TopicName, threshold_bytes: int | None, threshold_s: int | None
) -> dict[str, Body]:
    if not name.persistent:
        raise Unsupported("A non-persistent topic has no ledgers")
    question = TierQuestion(name, threshold_bytes, threshold_s)
    return await existence.on_each_member(engine, TIERS, question)


async def orphans(engine: Engine, *, remove: bool, age_s: int) -> Body:
    """Scan all buckets, by any broker; see SCAN_OBJECTS. Raises NotReady without a broker."""
    brokers = await engine.admin.brokers()
    if not brokers:
        raise NotReady("no broker is registered")
    answer = await engine.call_on(brokers[0], SCAN_OBJECTS, ScanObjects(remove, age_s))
    return {
        "buckets": [
            {
                "orphan_bytes" if name == "orphanBytes" else name: value
                for name, value in row.items()
            }
            for row in answer["buckets"]
        ]
    }
