"""Lookup of the ledgers of a selection, and the result. No message is read."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.managed.writing.ledger_holders import EXPLANATIONS, Holder
from spark_jobs.jobs.disk_not_freed import DISK_NOT_FREED
from spark_jobs.jobs.disk_not_freed.holding import (
    HeldLedger,
    Hold,
    held_ledgers,
    holds_of,
)
from spark_jobs.jobs.kit.progress import ADDING_UP, Progress
from spark_jobs.jobs.kit.results import written
from spark_jobs.jobs.kit.retention import retention_of
from spark_jobs.jobs.kit.selection import input_of, options_of
from spark_jobs.jobs.kit.stored import stored_topics
from spark_jobs.jobs.kit.tables import bytes_text, summary, table

Row = list[Any]


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return what holds the ledgers of the selection. Spark is not used. Raises OptionError."""
    options = options_of(DISK_NOT_FREED, parameters, context)
    topics = stored_topics(options, progress, placement=True)
    progress(ADDING_UP, len(topics), len(topics))
    retention = retention_of(options, [topic.name for topic in topics])
    now_ms = time.time_ns() // 1_000_000
    held = [item for topic in topics for item in held_ledgers(topic, retention[topic.name], now_ms)]
    result = result_of(held, parameters, int(parameters["top"]))
    return written(result, output_dir)


def result_of(
    held: Sequence[HeldLedger], parameters: Mapping[str, Any], top: int
) -> dict[str, Any]:
    """Return the result. Bytes are those of all copies on bookies."""
    holds = holds_of(held)
    by_holder = sums_by(held, lambda item: [(item.holder, item.ledger.stored_bytes)])
    total = sum(by_holder.values())
    reclaimable = sum(by_holder.get(holder, 0) for holder in (Holder.NOTHING, Holder.DELETED))
    figures = [
        ("stored_bytes", "On the bookies", total, "bytes"),
        ("reclaimable_bytes", "Held by nothing", reclaimable, "bytes"),
        (
            "subscription_bytes",
            "Held by subscriptions",
            by_holder.get(Holder.SUBSCRIPTION, 0) + by_holder.get(Holder.UNKNOWN, 0),
            "bytes",
        ),
        ("retention_bytes", "Held by retention", by_holder.get(Holder.RETENTION, 0), "bytes"),
        ("current_bytes", "In current ledgers", by_holder.get(Holder.CURRENT, 0), "bytes"),
        ("offloaded_bytes", "Also in tiered storage", by_holder.get(Holder.OFFLOADED, 0), "bytes"),
        ("ledgers", "Ledgers", len(held), ""),
        ("topics", "Topics", len({item.topic for item in held}), ""),
    ]
    lost = sum(1 for item in held if item.ledger.metadata is None)
    if lost:
        figures.append(("lost_ledgers", "Ledgers without metadata", lost, ""))
    return {
        "schema_version": 1,
        "analysis": DISK_NOT_FREED.name,
        "input": {
            **input_of(DISK_NOT_FREED, parameters),
            "ledgers": len(held),
            "entries": sum(item.ledger.entries for item in held),
            "bytes": total,
        },
        "conclusions": conclusions_of(held, by_holder, holds, total),
        "summary": summary(figures),
        "series": [
            {
                "key": "holders",
                "title": "Bytes by what holds them",
                "kind": "bar",
                "x": {"label": "Held by", "type": "category"},
                "y": {"label": "Bytes", "unit": "bytes"},
                "points": [[str(h), by_holder[h]] for h in Holder if by_holder.get(h)],
            }
        ],
        "tables": [
            _subscriptions(holds, top),
            _topics(held, top),
            _bookies(held, top),
            _ledgers(held, top),
        ],
    }


def sums_by(
    held: Sequence[HeldLedger], parts: Callable[[HeldLedger], Sequence[tuple[Any, int]]]
) -> dict[Any, int]:
    """Return the sums of the parts' bytes by their names."""
    sums: dict[Any, int] = {}
    for item in held:
        for name, size in parts(item):
            sums[name] = sums.get(name, 0) + size
    return sums


def conclusions_of(
    held: Sequence[HeldLedger], by_holder: Mapping[Any, int], holds: Sequence[Hold], total: int
) -> list[str]:
    """Return a sentence for each holder, the one with most bytes first, and what would free most."""
    if not held:
        return ["No ledger is stored."]
    sentences = []
    for holder, size in sorted(by_holder.items(), key=lambda item: -item[1]):
        if size:
            share = 100 * size / total
            sentences.append(
                f"{bytes_text(size)} ({share:.0f} %) are held by {holder}: {EXPLANATIONS[holder]}."
            )
    freeing = [hold for hold in holds if hold.alone_bytes]
    if freeing:
        most = max(freeing, key=lambda hold: hold.alone_bytes)
        sentences.insert(
            1,
            f"If subscription {most.subscription} of {most.topic} acknowledged all, or were deleted,"
            f" {bytes_text(most.alone_bytes)} would be held by no subscription.",
        )
    elif holds:
        sentences.insert(
            1,
            "No subscription alone holds a ledger: several would have to advance before one is deleted.",
        )
    return sentences or ["Nothing is on the bookies."]


def _subscriptions(holds: Sequence[Hold], top: int) -> dict[str, Any]:
    columns = [
        ("topic", "Topic", "string"),
        ("subscription", "Subscription", "string"),
        ("bytes", "Bytes held", "bytes"),
        ("alone", "Held by it alone", "bytes"),
        ("ledgers", "Ledgers held", "integer"),
        ("since", "Oldest closed", "time"),
    ]
    rows = [
        [h.topic, h.subscription, h.held_bytes, h.alone_bytes, h.ledgers, h.since_ms]
        for h in holds[:top]
    ]
    return table("subscriptions", "Held by subscriptions", columns, rows)


_SHARES = (
    ("reclaimable", "Held by nothing", (Holder.NOTHING, Holder.DELETED)),
    ("subscriptions", "By subscriptions", (Holder.SUBSCRIPTION, Holder.UNKNOWN)),
    ("retention", "By retention", (Holder.RETENTION,)),
    ("current", "Current ledger", (Holder.CURRENT,)),
    ("offloaded", "Also in tiered storage", (Holder.OFFLOADED,)),
)


def _shares(
    held: Sequence[HeldLedger], parts: Callable[[HeldLedger], Sequence[tuple[str, int]]], top: int
) -> list[Row]:
    """Return rows of a name, all its bytes, and those of each of _SHARES; the largest first."""
    sums = sums_by(held, lambda item: [((name, item.holder), size) for name, size in parts(item)])
    rows = []
    for name in {name for name, _ in sums}:
        shares = [sum(sums.get((name, h), 0) for h in holders) for _, _, holders in _SHARES]
        rows.append([name, sum(shares), *shares])
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:top]


def _topics(held: Sequence[HeldLedger], top: int) -> dict[str, Any]:
    rows = _shares(held, lambda item: [(item.topic, item.ledger.stored_bytes)], top)
    return _share_table("topics", "By topic", ("topic", "Topic"), rows)


def _bookies(held: Sequence[HeldLedger], top: int) -> dict[str, Any]:
    rows = _shares(held, lambda item: [*item.ledger.bytes_by_bookie().items()], top)
    return _share_table("bookies", "By bookie", ("bookie", "Bookie"), rows)


def _share_table(key: str, title: str, name: tuple[str, str], rows: list[Row]) -> dict[str, Any]:
    columns = [
        (*name, "string"),
        ("bytes", "Bytes", "bytes"),
        *((share, label, "bytes") for share, label, _ in _SHARES),
    ]
    return table(key, title, columns, rows)


def _ledgers(held: Sequence[HeldLedger], top: int) -> dict[str, Any]:
    columns = [
        ("topic", "Topic", "string"),
        ("ledger", "Ledger", "integer"),
        ("entries", "Entries", "integer"),
        ("bytes", "Bytes of all copies", "bytes"),
        ("closed", "Closed", "time"),
        ("held_by", "Held by", "string"),
        ("subscriptions", "Subscriptions behind", "string"),
        ("until", "Kept until", "time"),
        ("bookies", "Bookies", "string"),
    ]
    largest = sorted(held, key=lambda item: (-item.ledger.stored_bytes, item.ledger.ledger_id))[
        :top
    ]
    rows = [
        [
            item.topic,
            item.ledger.ledger_id,
            item.ledger.entries,
            item.ledger.stored_bytes,
            item.ledger.closed_ms or None,
            str(item.holder),
            ", ".join(item.subscriptions) or None,
            item.until_ms,
            ", ".join(sorted(item.ledger.bytes_by_bookie())) or None,
        ]
        for item in largest
    ]
    return table("ledgers", "Ledgers", columns, rows)
