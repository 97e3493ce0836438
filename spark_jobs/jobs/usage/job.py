"""Reading of messages by day and of what ledgers occupy, and the result."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.jobs.kit.cells import CELLS, Gathered, added, of_kind
from spark_jobs.jobs.kit.progress import Progress
from spark_jobs.jobs.kit.reading import added_by_spark, cells_of_range
from spark_jobs.jobs.kit.results import counted, result, unread_figures, written
from spark_jobs.jobs.kit.selection import options_of
from spark_jobs.jobs.kit.stored import stored_topics
from spark_jobs.jobs.kit.tables import plural, short, table
from spark_jobs.jobs.usage import USAGE
from spark_jobs.jobs.usage.counting import DAY_MS, Cell, cells_of
from spark_jobs.jobs.usage.shares import (
    Prices,
    UsedAmounts,
    namespace_of,
    tenant_of,
    usage_by,
    usage_by_day,
    whole_topic,
)
from spark_jobs.pulsar_source.columns import Opened
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.planning import plan_topics

ROWS_MAX = 10_000
"""Rows of a table, those with most stored first."""


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the result; its Parquet files are left in ``output_dir``. Raises OptionError, and Spark's errors."""
    options = options_of(USAGE, parameters, context)
    topics = stored_topics(options, progress, placement=True)
    stored = {topic.name: sum(item.stored_bytes for item in topic.ledgers) for topic in topics}
    planned = plan_topics(options)
    days = int(parameters["days"])
    from_ms = time.time_ns() // 1_000_000 - days * DAY_MS if days else 0

    def read(ledger_range: LedgerRange) -> Iterator[pa.RecordBatch]:
        def of_topic(opened: Opened) -> pa.Table:
            return cells_of(opened, ledger_range.topic, from_ms)

        return cells_of_range(options, ledger_range, (), of_topic)

    cells = added_by_spark(spark, progress, planned, read, _all) if planned else CELLS.empty_table()
    return written(result_of(cells, stored, parameters, planned), output_dir)


def _all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    gathered = Gathered()
    for batch in batches:
        gathered.add(pa.Table.from_batches([batch]).cast(CELLS))
    yield from gathered.take().to_batches()


def result_of(
    cells: pa.Table,
    stored: Mapping[str, int],
    parameters: Mapping[str, Any],
    planned: Sequence[LedgerRange],
) -> dict[str, Any]:
    """Return the result. ``stored``: bytes of all copies by topic or partition."""
    cells = added([cells])
    days = {
        (row["name"], row["at"]): UsedAmounts(row["count"], row["bytes"])
        for row in of_kind(cells, Cell.DAY).to_pylist()
    }
    prices = Prices(float(parameters["price_published"]), float(parameters["price_stored"]))
    by_tenant = usage_by(tenant_of, days, stored)
    by_namespace = usage_by(namespace_of, days, stored)
    by_topic = usage_by(whole_topic, days, stored)
    total = UsedAmounts()
    for _, usage in by_tenant:
        total = total.plus(usage)
    per_day = usage_by_day(days)
    cost = prices.cost(total)
    return result(
        USAGE,
        parameters,
        planned,
        messages=total.messages,
        size=counted(cells, Cell.ENTRIES)[1],
        conclusions=_conclusions(by_tenant, by_namespace, by_topic, per_day, total, cost),
        figures=[
            ("messages", "Messages", total.messages, ""),
            ("published", "Published, one copy", total.published, "bytes"),
            ("stored", "Stored on bookies, all copies", total.stored, "bytes"),
            ("topics", "Topics", len(by_topic), ""),
            ("days", "Days with messages", len(per_day), ""),
            ("cost", "Cost", cost, ""),
            *unread_figures(cells, Cell.ENTRIES),
        ],
        series=[
            {
                "key": "published",
                "title": "Published by day",
                "kind": "bar",
                "x": {"label": "Day (UTC)", "type": "time", "unit": "ms"},
                "y": {"label": "Bytes", "unit": "bytes"},
                "points": [[day, usage.published] for day, usage in per_day],
            }
        ],
        tables=[
            _table("tenants", "By tenant", "tenant", by_tenant, prices),
            _table("namespaces", "By namespace", "namespace", by_namespace, prices),
            _table("topics", "By topic", "topic", by_topic, prices),
            _day_table(days, prices),
        ],
    )


def _conclusions(
    by_tenant: Sequence[tuple[str, UsedAmounts]],
    by_namespace: Sequence[tuple[str, UsedAmounts]],
    by_topic: Sequence[tuple[str, UsedAmounts]],
    per_day: Sequence[tuple[int, UsedAmounts]],
    total: UsedAmounts,
    cost: float | None,
) -> list[str]:
    texts = []
    named = next((by for by in (by_tenant, by_namespace, by_topic) if len(by) > 1), by_topic)
    kind = {id(by_tenant): "Tenant", id(by_namespace): "Namespace"}.get(id(named), "Topic")
    if named and total.stored:
        name, usage = named[0]
        texts.append(
            f"{kind} {name} occupies {short(100 * usage.stored / total.stored)} % of the {_size(total.stored)} on the"
            " bookies, the most."
        )
    if per_day and total.published:
        texts.append(
            f"Published: {plural(total.messages, 'message')} of {_size(total.published)} on"
            f" {plural(len(per_day), 'day')}."
        )
    if cost is not None:
        texts.append(f"At these prices this costs {cost:,.2f}, storage for a month.")
    texts.append(
        "Only what is still stored counts: deleted messages are in no figure, and neither is consumption."
    )
    return texts


def _size(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{short(size / factor)} {unit}"
    return f"{size} bytes"


_AMOUNTS = (
    ("messages", "Messages", "integer"),
    ("published", "Published", "bytes"),
    ("stored", "Stored, all copies", "bytes"),
    ("cost", "Cost", "number"),
)


def _table(
    key: str,
    title: str,
    column: str,
    given: Sequence[tuple[str, UsedAmounts]],
    prices: Prices,
) -> dict[str, Any]:
    rows = [(name, *usage, prices.cost(usage)) for name, usage in given[:ROWS_MAX]]
    return table(key, title, [(column, column.capitalize(), "string"), *_AMOUNTS], rows)


def _day_table(days: Mapping[tuple[str, int], UsedAmounts], prices: Prices) -> dict[str, Any]:
    sums: dict[tuple[int, str], UsedAmounts] = {}
    for (topic, day), usage in days.items():
        key = day, whole_topic(topic)
        sums[key] = sums.get(key, UsedAmounts()).plus(usage)
    columns = [
        ("day", "Day (UTC)", "time"),
        ("tenant", "Tenant", "string"),
        ("namespace", "Namespace", "string"),
        ("topic", "Topic", "string"),
        ("messages", "Messages", "integer"),
        ("published", "Published", "bytes"),
        ("cost", "Cost of publishing", "number"),
    ]
    largest = sorted(sums.items(), key=lambda item: -item[1].published)[:ROWS_MAX]
    rows = [
        (
            day,
            tenant_of(topic),
            namespace_of(topic),
            topic,
            usage.messages,
            usage.published,
            prices.cost(usage),
        )
        for (day, topic), usage in sorted(largest)
    ]
    return table("days", "By topic and day", columns, rows)
