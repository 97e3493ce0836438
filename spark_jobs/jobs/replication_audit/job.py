"""Comparison of a topic with its copy in another cluster, and the result."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from spark_jobs.analysis import OTHER
from spark_jobs.jobs.kit.messages import planned_of
from spark_jobs.jobs.kit.progress import Progress
from spark_jobs.jobs.kit.results import result, written
from spark_jobs.jobs.kit.selection import options_of
from spark_jobs.jobs.kit.tables import plural, table
from spark_jobs.jobs.lost_doubled_reordered.comparing import PAIRS, MessageIdentity
from spark_jobs.jobs.lost_doubled_reordered.job import (
    fault_table,
    judged_by_spark,
    other_options,
    producer_table,
    sample_table,
    sequence_conclusions,
)
from spark_jobs.jobs.lost_doubled_reordered.judging import Judged
from spark_jobs.jobs.lost_doubled_reordered.sides import ComparedSide, CopyComparison, compared
from spark_jobs.jobs.replication_audit import REPLICATION_AUDIT
from spark_jobs.pulsar_source.batch import open_range
from spark_jobs.pulsar_source.options import Options, parse
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.planning import plan_topics

FAULTS = tuple(kind for kind in PAIRS if kind != "extra")
"""Differences of a copy; there is nothing extra, since every message was published somewhere."""


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the result; its Parquet files are left in ``output_dir``. Raises OptionError, and Spark's errors."""
    options = options_of(REPLICATION_AUDIT, parameters, context)
    planned = planned_of(options, progress)
    judged = [j for j in judged_by_spark(spark, progress, options, planned) if j.source]
    if not any(name.startswith(OTHER) for name in context):
        return written(result_of(judged, None, 0, parameters, planned), output_dir)
    last = {"lastEntries": str(parameters["last_entries"])}
    other = parse({**other_options(context), "topic": str(parameters["topic"]), **last})
    other_planned = plan_topics(other)
    from_ms = max(first_ms(options, planned), first_ms(other, other_planned))
    to_ms = time.time_ns() // 1_000_000 - int(parameters["settle_ms"])
    comparison = compared(
        spark,
        progress,
        ComparedSide(options, planned, from_ms, to_ms),
        ComparedSide(other, other_planned, from_ms, to_ms),
        MessageIdentity.ORIGIN,
        int(parameters["samples"]),
    )
    return written(result_of(judged, comparison, from_ms, parameters, planned), output_dir)


def first_ms(options: Options, planned: Sequence[LedgerRange]) -> int:
    """Return the publish time from which on all partitions still have their messages; 0 without a message.

    What a cluster trimmed is not missing in it.
    """
    firsts: dict[str, LedgerRange] = {}
    for ledger_range in planned:
        firsts.setdefault(ledger_range.topic, ledger_range)
    return max((_first_ms(options, first) for first in firsts.values()), default=0)


def _first_ms(options: Options, ledger_range: LedgerRange) -> int:
    first = replace(ledger_range, last=ledger_range.first)
    times = (pc.min(opened.entries["publish_ms"]) for opened in open_range(options, first, ()))
    return min((at.as_py() for at in times if at.is_valid), default=0)


def result_of(
    judged: Sequence[Judged],
    comparison: CopyComparison | None,
    from_ms: int,
    parameters: Mapping[str, Any],
    planned: Sequence[LedgerRange],
) -> dict[str, Any]:
    """Return the result. ``judged``: sequences of messages that arrived here from other clusters."""
    other = str(parameters["other_cluster"])
    samples = int(parameters["samples"])
    arrived = sum(j.messages for j in judged)
    figures: list[tuple[str, str, Any, str]] = [
        ("arrived", "Messages from other clusters", arrived, "")
    ]
    tables = [producer_table(judged), fault_table(judged, samples)]
    conclusions = sequence_conclusions(judged)
    if not judged:
        conclusions.append("No message here came from another cluster.")
    if comparison is None:
        conclusions.append(
            "Nothing was compared: name other_cluster to find what is missing or late there."
        )
    else:
        counts = sorted(comparison.counts, key=lambda row: str(row["home"]))
        figures += [
            ("compared", "Messages compared", sum(row["first_messages"] for row in counts), ""),
            ("from", "Published from", from_ms or None, "ms"),
            *((kind, kind.capitalize(), sum(row[kind] for row in counts), "") for kind in FAULTS),
        ]
        conclusions = [*_conclusions(counts, other), *conclusions]
        tables = [_source_table(counts, other), sample_table(comparison), *tables]
    return result(
        REPLICATION_AUDIT,
        parameters,
        planned,
        messages=arrived,
        size=None,
        conclusions=conclusions,
        figures=figures,
        series=[],
        tables=tables,
    )


def _conclusions(counts: Sequence[Mapping[str, Any]], other: str) -> list[str]:
    texts = []
    for row in counts:
        name = _name(row["home"], other)
        parts = [f"{row[kind]:,} {kind}" for kind in FAULTS if row[kind]]
        verdict = (
            f"has {', '.join(parts)}" if parts else "is complete, without doubles and in order"
        )
        texts.append(
            f"The copy of {plural(row['first_messages'], 'message')} published in {name} {verdict}."
        )
        if row["delays"] and row["timed"]:
            texts.append(
                f"Half of the messages published in {name} arrived within {row['delays'][0]:,} ms, 99 % within"
                f" {row['delays'][2]:,} ms, by the clocks of producers and brokers."
            )
    if counts and not any(row["timed"] for row in counts):
        texts.append(
            "Delays are unknown: brokers store the time of arrival only with AppendBrokerTimestampMetadataInterceptor"
            " in brokerEntryMetadataInterceptors."
        )
    return texts


def _name(home: str, other: str) -> str:
    return {"here": "this cluster", "there": other}.get(home, home)


def _source_table(counts: Sequence[Mapping[str, Any]], other: str) -> dict[str, Any]:
    columns = [
        ("source", "Published in", "string"),
        ("messages", "Messages", "integer"),
        ("copied", "In the copy", "integer"),
        *((kind, kind.capitalize(), "integer") for kind in FAULTS),
        ("delay_p50", "Half arrived within ms", "integer"),
        ("delay_p90", "90 % within ms", "integer"),
        ("delay_p99", "99 % within ms", "integer"),
        ("delay_max", "All within ms", "integer"),
    ]
    rows = [
        (
            _name(row["home"], other),
            row["first_messages"],
            row["second_messages"],
            *(row[kind] for kind in FAULTS),
            *(row["delays"] or [None] * 4),
        )
        for row in counts
    ]
    return table("sources", "Copies by the cluster that published", columns, rows)
