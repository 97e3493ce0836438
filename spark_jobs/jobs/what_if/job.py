"""Sampling of messages, what ledgers occupy, and the result."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.jobs.kit.cells import CELLS, CELLS_SQL, TRIMMED, added, cells, of_kind
from spark_jobs.jobs.kit.messages import planned_of
from spark_jobs.jobs.kit.progress import Progress, counted
from spark_jobs.jobs.kit.results import counted as sums_of
from spark_jobs.jobs.kit.results import result, unread_figures, written
from spark_jobs.jobs.kit.selection import options_of
from spark_jobs.jobs.kit.stored import StoredTopic, stored_topics
from spark_jobs.jobs.kit.tables import ratio, short, table
from spark_jobs.jobs.what_if import WHAT_IF
from spark_jobs.jobs.what_if.packing import COLUMNS, SAMPLE_ENTRIES, Cell, cells_of, spread
from spark_jobs.pulsar_source.batch import TrimmedError, open_range
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange

RETENTION_DAYS = (7, 30, 90)
DAY_MS = 86_400_000
YOUNG_MS = 3_600_000
"""Age of the oldest data below which a rate by day is a guess."""
GB = 1_000_000_000


class Growth(NamedTuple):
    """Amounts stored and added. ``stored``: bytes of one copy; ``copies``: of all copies on bookies. ``daily``: bytes
    of one copy that are added in a day; ``span_ms``: age of the oldest message that was sampled."""

    stored: int
    copies: int
    daily: float
    span_ms: int

    @property
    def factor(self) -> float:
        """Copies of an entry, in the mean."""
        return self.copies / self.stored if self.stored else 1.0


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the result; its Parquet files are left in ``output_dir``. Raises OptionError, and Spark's errors."""
    options = options_of(WHAT_IF, parameters, context)
    topics = stored_topics(options, progress, placement=True)
    planned = chosen(planned_of(options, progress), int(parameters["samples"]))

    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from _sampled(options, planned[number]).to_batches()

    with counted(spark, progress, len(planned)):
        tasks = spark.range(0, len(planned), 1, len(planned))
        sampled = tasks.mapInArrow(of_tasks, CELLS_SQL).toArrow().cast(CELLS)
    now_ms = time.time_ns() // 1_000_000
    growth = growth_of(topics, sampled, now_ms)
    return written(result_of(sampled, growth, parameters, planned, now_ms), output_dir)


def chosen(planned: Sequence[LedgerRange], count: int) -> list[LedgerRange]:
    """Return ranges spread over all messages, and the first ones of as many topics, which show since when they grow."""
    firsts: dict[str, LedgerRange] = {}
    for ledger_range in planned:
        firsts.setdefault(ledger_range.topic, ledger_range)
    both = [*spread(list(firsts.values()), count), *spread(planned, count)]
    return list(dict.fromkeys(both))


def _sampled(options: Options, ledger_range: LedgerRange) -> pa.Table:
    last = min(ledger_range.last, ledger_range.first + SAMPLE_ENTRIES - 1)
    opened = open_range(options, replace(ledger_range, last=last), COLUMNS)
    try:
        return cells_of(opened, ledger_range.topic)
    except TrimmedError as error:
        return cells(TRIMMED, at=np.array([0]), count=error.entries)


def growth_of(topics: Sequence[StoredTopic], sampled: pa.Table, now_ms: int) -> Growth:
    """Return what topics store, and what they add in a day: what a topic has, divided by the time since its first
    message was published. Topics of which that is not sampled grow as the others."""
    sizes = {topic.name: sum(ledger.size for ledger in topic.ledgers) for topic in topics}
    stored = sum(sizes.values())
    copies = sum(ledger.stored_bytes for topic in topics for ledger in topic.ledgers)
    firsts: dict[str, int] = {}
    for row in of_kind(sampled, Cell.FIRST).to_pylist():
        firsts[row["name"]] = min(row["at"], firsts.get(row["name"], row["at"]))
    ages = {name: max(now_ms - at, 1) for name, at in firsts.items() if sizes.get(name)}
    known = sum(sizes[name] for name in ages)
    daily = sum(sizes[name] * DAY_MS / age for name, age in ages.items())
    return Growth(
        stored, copies, daily * stored / known if known else 0.0, max(ages.values(), default=0)
    )


def result_of(
    sampled: pa.Table,
    growth: Growth,
    parameters: Mapping[str, Any],
    planned: Sequence[LedgerRange],
    now_ms: int,
) -> dict[str, Any]:
    """Return the result. ``sampled``: the cells of all samples."""
    sampled = added([sampled])
    messages, now = sums_of(sampled, Cell.NOW)
    packed = {
        (row["name"], row["at"]): row["bytes"] / row["count"]
        for row in of_kind(sampled, Cell.PACKED).to_pylist()
    }
    speeds = {
        row["name"]: row["bytes"] / max(row["count"], 1)
        for row in of_kind(sampled, Cell.TIME).to_pylist()
    }
    per_message = ratio(now, messages)
    free = int(parameters["disk_free_gb"]) * GB
    full_ms = _full_ms(growth, free, now_ms)
    return result(
        WHAT_IF,
        parameters,
        planned,
        messages=messages,
        size=sums_of(sampled, Cell.ENTRIES)[1],
        conclusions=_conclusions(packed, per_message, growth, free, full_ms, now_ms),
        figures=[
            ("samples", "Messages packed again", messages, ""),
            ("stored_per_message", "Stored per message now", per_message, "bytes"),
            ("stored", "Stored, one copy", growth.stored, "bytes"),
            ("copies", "Stored, all copies", growth.copies, "bytes"),
            (
                "daily",
                "Added in a day, one copy",
                growth.daily if growth.span_ms else None,
                "bytes",
            ),
            ("full", "Disk full, if nothing is deleted", full_ms, "ms"),
            *unread_figures(sampled, Cell.ENTRIES),
        ],
        series=[],
        tables=[
            _packing_table(packed, speeds, per_message, growth),
            _retention_table(packed, per_message, growth, free),
        ],
    )


def _full_ms(growth: Growth, free: int, now_ms: int) -> int | None:
    """Return when ``free`` bytes of disk are used; None when that is not known, or in more than 100 years."""
    added_daily = growth.daily * growth.factor
    if not free or not added_daily or free / added_daily > 36_500:
        return None
    return round(now_ms + free / added_daily * DAY_MS)


def _best(packed: Mapping[tuple[str, int], float]) -> tuple[str, int]:
    return min(packed, key=lambda key: (packed[key], key))


def _conclusions(
    packed: Mapping[tuple[str, int], float],
    per_message: float | None,
    growth: Growth,
    free: int,
    full_ms: int | None,
    now_ms: int,
) -> list[str]:
    texts = []
    if packed and per_message:
        codec, batch = _best(packed)
        texts.append(
            f"{_words(codec, batch)} would store {short(100 * packed[codec, batch] / per_message)} % of what is"
            f" stored now: {short(packed[codec, batch])} instead of {short(per_message)} bytes per message."
        )
        single = min((key for key in packed if key[1] == batch), key=lambda key: (packed[key], key))
        lz4 = packed["LZ4", batch]
        if single[0] != "LZ4":
            texts.append(
                f"LZ4, which costs least CPU, would store {short(100 * lz4 / per_message)} %"
                f" with the same batches."
            )
    else:
        texts.append(
            "No message could be packed again: all that were sampled are encrypted or in chunks."
        )
    if growth.span_ms:
        days = [f"{_gb(growth.daily * growth.factor * n)} for {n}" for n in RETENTION_DAYS]
        texts.append(f"Retention needs, with all copies, {', '.join(days)} days.")
    if full_ms is not None:
        left = (full_ms - now_ms) / DAY_MS
        texts.append(
            f"The free {_gb(free)} are used in {short(left)} days, if nothing is deleted and nothing else is written."
        )
    elif not free:
        texts.append("The day on which the disk is full is unknown: set disk_free_gb.")
    texts.append(
        "Assumed: messages go on as since the oldest stored one, the samples are like all others, and"
        f" an entry has {short(growth.factor)} {'copy' if growth.factor == 1 else 'copies'}."
    )
    if growth.span_ms < YOUNG_MS:
        texts.append(
            f"The oldest message is only {short(growth.span_ms / 60_000)} minutes old, so that amounts by day are a"
            " guess."
        )
    return texts


def _words(codec: str, batch: int) -> str:
    batches = f"batches of up to {batch:,}" if batch > 1 else "messages one by one"
    return f"{'No compression' if codec == 'NONE' else codec} with {batches}"


def _gb(size: float) -> str:
    if size >= GB:
        return f"{short(size / GB)} GB"
    return f"{short(size / 1_000_000)} MB" if size >= 1_000_000 else f"{short(size / 1000)} kB"


def _packing_table(
    packed: Mapping[tuple[str, int], float],
    speeds: Mapping[str, float],
    per_message: float | None,
    growth: Growth,
) -> dict[str, Any]:
    columns = [
        ("codec", "Codec", "string"),
        ("batch", "Messages per batch, at most", "integer"),
        ("per_message", "Bytes per message", "number"),
        ("share", "Of now", "percent"),
        ("stored", "Stored, one copy", "bytes"),
        ("speed", "MB of values packed per second, one core", "number"),
    ]
    rows = []
    for (codec, batch), size in sorted(packed.items(), key=lambda item: (item[1], item[0])):
        share = ratio(size, per_message)
        rows.append(
            (
                codec,
                batch,
                size,
                None if share is None else 100 * share,
                None if share is None else round(growth.stored * share),
                speeds[codec],
            )
        )
    return table("packing", "Codecs and batches", columns, rows)


def _retention_table(
    packed: Mapping[tuple[str, int], float],
    per_message: float | None,
    growth: Growth,
    free: int,
) -> dict[str, Any]:
    columns = [
        ("days", "Days kept", "integer"),
        ("stored", "Stored, all copies", "bytes"),
        ("packed", "With the best codec and batches", "bytes"),
        ("fits", "Fits on the disk", "string"),
    ]
    share = packed[_best(packed)] / per_message if packed and per_message else None
    rows = []
    for days in RETENTION_DAYS if growth.span_ms else ():
        size = growth.daily * growth.factor * days
        fits = ("yes" if size <= free + growth.copies else "no") if free else "unknown"
        rows.append((days, round(size), None if share is None else round(size * share), fits))
    return table("retention", "Retention", columns, rows)
