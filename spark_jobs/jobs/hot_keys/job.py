"""Reading of keys, and the result: hot keys, and the balance of a Key_Shared subscription."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.broker.dispatch.choose.keys import SLOTS
from spark_jobs.jobs.hot_keys import HOT_KEYS
from spark_jobs.jobs.hot_keys.balance import (
    KeyBalance,
    Selector,
    balances,
    recommended,
    slot_of_key,
)
from spark_jobs.jobs.hot_keys.counting import (
    BASE64,
    COLUMNS,
    Cell,
    cells_of,
    key_of,
    ranked_batches,
)
from spark_jobs.jobs.kit.cells import added, of_kind, top
from spark_jobs.jobs.kit.messages import planned_of
from spark_jobs.jobs.kit.progress import Progress
from spark_jobs.jobs.kit.reading import added_by_spark, cells_of_range
from spark_jobs.jobs.kit.results import counted, result, unread_figures, written
from spark_jobs.jobs.kit.selection import options_of
from spark_jobs.jobs.kit.series import histogram
from spark_jobs.jobs.kit.tables import ratio, short, table
from spark_jobs.pulsar_source.partitions import LedgerRange

EVEN_MIN = 0.8
"""Part of the ideal speed-up from which consumers are called evenly loaded."""


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the result; its Parquet files are left in ``output_dir``. Raises OptionError, and Spark's errors."""
    selector, limit = Selector(parameters["selector"]), int(parameters["top"])
    options = options_of(HOT_KEYS, parameters, context)
    planned = planned_of(options, progress)

    def read(ledger_range: LedgerRange) -> Iterator[pa.RecordBatch]:
        return cells_of_range(options, ledger_range, COLUMNS, cells_of)

    def rank(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return ranked_batches(batches, limit, selector)

    cells = added_by_spark(spark, progress, planned, read, rank)
    return written(result_of(cells, parameters, planned), output_dir)


def result_of(
    cells: pa.Table, parameters: Mapping[str, Any], planned: Sequence[LedgerRange]
) -> dict[str, Any]:
    """Return the result. ``cells`` are complete except for keys that no table shows."""
    cells = added([cells])
    selector = Selector(parameters["selector"])
    messages, _ = counted(cells, Cell.MESSAGES)
    unkeyed, _ = counted(cells, Cell.UNKEYED)
    slots = of_kind(cells, Cell.SLOT)
    counts = np.zeros(SLOTS, np.int64)
    counts[slots["at"].to_numpy()] = slots["count"].to_numpy()
    keys = pc.sum(slots["bytes"]).as_py() or 0
    busiest = top(of_kind(cells, Cell.KEY), int(parameters["top"]))
    given = (
        balances(counts, unkeyed, int(parameters["consumers_max"]), selector) if messages else []
    )
    use = recommended(given) if given else None
    hottest = busiest["count"][0].as_py() if busiest.num_rows else None
    share = ratio(hottest, messages)
    mixed, _ = counted(cells, Cell.BATCHES, 1)
    batches, _ = counted(cells, Cell.BATCHES)
    figures = [
        ("messages", "Messages", messages, ""),
        ("unkeyed", "Messages without a key", unkeyed, ""),
        ("keys", "Different keys", keys, ""),
        ("key_share", "Busiest key's share", None if share is None else 100 * share, "percent"),
        (
            "key_skew",
            "Busiest key vs average",
            None if hottest is None else ratio(hottest * keys, messages - unkeyed),
            "ratio",
        ),
        ("consumers", "Consumers to use", use and use.consumers, ""),
        ("speedup", "Speed-up with these", use and use.speedup, "ratio"),
        ("mixed_batches", "Batches with several keys", mixed, ""),
        *unread_figures(cells, Cell.ENTRIES),
    ]
    return result(
        HOT_KEYS,
        parameters,
        planned,
        messages=messages,
        size=counted(cells, Cell.ENTRIES)[1],
        conclusions=conclusions_of(given, busiest, keys, messages, unkeyed, mixed, batches),
        figures=figures,
        series=_series(cells, given),
        tables=[_key_table(busiest, messages, selector), _balance_table(given)],
    )


def conclusions_of(
    given: Sequence[KeyBalance],
    busiest: pa.Table,
    keys: int,
    messages: int,
    unkeyed: int,
    mixed: int,
    batches: int,
) -> list[str]:
    """Return a sentence each on the consumers to use, the hottest key, joining consumers and batches."""
    if not given:
        return []
    texts: list[str] = []
    use = recommended(list(given))
    most = given[-1]
    if keys == 0:
        texts.append("No message has a key, so Key_Shared spreads them evenly over any consumers.")
    elif most.speedup >= EVEN_MIN * most.consumers:
        texts.append(
            f"Keys are even: each consumer up to {most.consumers} adds work; {most.consumers} of them are"
            f" {short(most.speedup)} times as fast as one."
        )
    else:
        texts.append(
            f"Use {use.consumers} {_consumers(use.consumers)}: {short(use.speedup)} times as fast as one."
            f" With {most.consumers} it is {short(most.speedup)} times, since the busiest receives"
            f" {short(100 * most.busiest)} % of the messages."
        )
    if busiest.num_rows and keys > 1:
        count = busiest["count"][0].as_py()
        share = 100 * count / messages
        texts.append(
            f"The busiest of {keys:,} keys is {busiest['name'][0].as_py()!r} with {short(share)} % of the messages:"
            f" no number of consumers is more than {short(messages / count)} times as fast as one."
        )
    elif keys == 1:
        texts.append("All keyed messages have the same key, which one consumer receives.")
    if keys and use.consumers < most.consumers:
        joined = given[use.consumers]
        texts.append(
            f"When consumer {joined.consumers} joins, keys with {short(100 * joined.moved)} % of the messages move"
            " to another consumer, and wait until the former one has acknowledged them."
        )
    if unkeyed and keys:
        texts.append(
            f"{short(100 * unkeyed / messages)} % of the messages have no key and are spread evenly."
        )
    if mixed:
        texts.append(
            f"{short(100 * mixed / batches)} % of the batches hold several keys. A batch goes to one consumer as a"
            " whole, by the key in its own metadata: for order by key, producers should batch by key"
            " (BatcherBuilder.KEY_BASED) or not at all. The figures here assume that they do."
        )
    return texts


def _consumers(count: int) -> str:
    return "consumer" if count == 1 else "consumers"


def _series(cells: pa.Table, given: Sequence[KeyBalance]) -> list[dict[str, Any]]:
    spread = sorted(
        zip(*(of_kind(cells, Cell.KEYS)[name].to_pylist() for name in ("at", "count")), strict=True)
    )
    return [
        {
            "key": "speedup",
            "title": "Speed-up by number of consumers",
            "kind": "line",
            "x": {"label": "Consumers", "type": "number"},
            "y": {"label": "Times as fast as one", "unit": "ratio"},
            "points": [[balance.consumers, balance.speedup] for balance in given],
        },
        histogram(
            "key_spread", "Messages per key", spread, x=("Messages per key", ""), y=("Keys", "")
        ),
    ]


def _key_table(busiest: pa.Table, messages: int, selector: Selector) -> dict[str, Any]:
    columns = [
        ("key", "Key", "string"),
        ("messages", "Messages", "integer"),
        ("share", "Share of all messages", "percent"),
        ("bytes", "Value bytes", "bytes"),
        ("slot", "Hash", "integer"),
        ("form", "Form of the key", "string"),
    ]
    rows = [
        (
            row["name"],
            row["count"],
            100 * row["count"] / messages,
            row["bytes"],
            slot_of_key(selector, key_of(row["name"], row["at"])),
            "base64" if row["at"] == BASE64 else "text",
        )
        for row in busiest.to_pylist()
    ]
    return table("hot_keys", "Hot keys", columns, rows)


def _balance_table(given: Sequence[KeyBalance]) -> dict[str, Any]:
    columns = [
        ("consumers", "Consumers", "integer"),
        ("speedup", "Times as fast as one", "number"),
        ("busiest", "Busiest consumer's share", "percent"),
        ("even", "Even share", "percent"),
        ("idle", "Consumers without messages", "number"),
        ("moved", "Moved when the last joined", "percent"),
    ]
    rows = [
        (
            balance.consumers,
            balance.speedup,
            100 * balance.busiest,
            100 / balance.consumers,
            balance.idle,
            100 * balance.moved,
        )
        for balance in given
    ]
    return table("balance", "Balance of a Key_Shared subscription", columns, rows)
