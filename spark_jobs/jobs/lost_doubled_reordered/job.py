"""Reading of sequence ids and of the messages to compare, and the result."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.analysis import OTHER
from spark_jobs.jobs.kit.messages import planned_of
from spark_jobs.jobs.kit.progress import Progress, counted
from spark_jobs.jobs.kit.results import result, written
from spark_jobs.jobs.kit.selection import options_of
from spark_jobs.jobs.kit.tables import plural, table
from spark_jobs.jobs.lost_doubled_reordered import LOST_DOUBLED_REORDERED
from spark_jobs.jobs.lost_doubled_reordered.comparing import PAIRS, MessageIdentity
from spark_jobs.jobs.lost_doubled_reordered.judging import (
    DOUBLED,
    LOST,
    REORDERED,
    Judged,
    SequenceFault,
    judge,
)
from spark_jobs.jobs.lost_doubled_reordered.runs import COLUMNS, RUNS_SQL, Sequences
from spark_jobs.jobs.lost_doubled_reordered.sides import ComparedSide, CopyComparison, compared
from spark_jobs.pulsar_source.batch import TrimmedError, open_range
from spark_jobs.pulsar_source.options import OptionError, Options, parse
from spark_jobs.pulsar_source.partitions import LedgerRange

PRODUCERS_MAX = 1000
"""Producers that the table lists, those with most faults first."""


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the result; its Parquet files are left in ``output_dir``. Raises OptionError, and Spark's errors."""
    options = options_of(LOST_DOUBLED_REORDERED, parameters, context)
    planned = planned_of(options, progress)
    window = int(parameters["from_ms"]), int(parameters["to_ms"])
    judged = judged_by_spark(spark, progress, options, planned, window)
    comparison = None
    other = _other(parameters, context)
    if other is not None:
        other_window = int(parameters["other_from_ms"]), int(parameters["other_to_ms"])
        comparison = compared(
            spark,
            progress,
            ComparedSide(options, planned, *window),
            ComparedSide(other, planned_of(other, progress), *other_window),
            MessageIdentity.CONTENT,
            int(parameters["samples"]),
        )
    return written(result_of(judged, comparison, parameters, planned), output_dir)


def other_options(context: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the other cluster; of the run's own one when no other is read."""
    others = {n.removeprefix(OTHER): v for n, v in context.items() if n.startswith(OTHER)}
    return others or dict(context)


def _other(parameters: Mapping[str, Any], context: Mapping[str, str]) -> Options | None:
    """Return the options of what to compare with; None for nothing."""
    topic, cluster = str(parameters["other_topic"]), str(parameters["other_cluster"])
    if cluster and not topic:
        raise OptionError("other_topic: name the topic of other_cluster to compare with")
    if not topic and not parameters["other_from_ms"] and not parameters["other_to_ms"]:
        return None
    last = {"lastEntries": str(parameters["last_entries"])}
    return parse({**other_options(context), "topic": topic or str(parameters["topic"]), **last})


def judged_by_spark(
    spark: Any,
    progress: Progress,
    options: Options,
    planned: Sequence[LedgerRange],
    window: tuple[int, int] = (0, 0),
) -> list[Judged]:
    """Return the sequences of all producers of the ranges."""

    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from _runs(options, planned[number], number, window).to_batches()

    with counted(spark, progress, len(planned)):
        tasks = spark.range(0, len(planned), 1, len(planned))
        runs = tasks.mapInArrow(of_tasks, RUNS_SQL).toArrow()
    return list(judge(runs.to_pylist()))


def _runs(
    options: Options, ledger_range: LedgerRange, task: int, window: tuple[int, int]
) -> pa.Table:
    sequences = Sequences(ledger_range.topic, ledger_range.ledger_id, task)
    try:
        for opened in open_range(options, ledger_range, COLUMNS):
            sequences.add(opened, *window)
    except TrimmedError as error:  # the ids of what was trimmed would look like lost
        raise OptionError(
            f"{ledger_range.topic} was trimmed while it was read; run the analysis again"
        ) from error
    return sequences.table()


def result_of(
    judged: Sequence[Judged],
    comparison: CopyComparison | None,
    parameters: Mapping[str, Any],
    planned: Sequence[LedgerRange],
) -> dict[str, Any]:
    samples = int(parameters["samples"])
    totals = [(kind, sum(j.count(kind) for j in judged)) for kind in (LOST, DOUBLED, REORDERED)]
    words = {LOST: "Lost", DOUBLED: "Doubled", REORDERED: "Reordered"}
    tables = [producer_table(judged), fault_table(judged, samples)]
    figures = [
        ("messages", "Messages", sum(j.messages for j in judged), ""),
        ("producers", "Producers", len({(j.source, j.producer) for j in judged}), ""),
        ("judged", "Messages with sequence ids", _judged_messages(judged), ""),
        *((kind, words[kind], count, "") for kind, count in totals),
    ]
    conclusions = sequence_conclusions(judged)
    if comparison is not None:
        totals_by_kind = {kind: sum(row[kind] for row in comparison.counts) for kind in PAIRS}
        name = str(parameters["other_topic"]) or "the other time"
        conclusions = [comparison_conclusion(comparison, name), *conclusions]
        figures += [
            (f"other_{kind}", f"{kind.capitalize()} in the copy", count, "")
            for kind, count in totals_by_kind.items()
        ]
        tables.append(sample_table(comparison))
    return result(
        LOST_DOUBLED_REORDERED,
        parameters,
        planned,
        messages=sum(j.messages for j in judged),
        size=None,
        conclusions=conclusions,
        figures=figures,
        series=[],
        tables=tables,
    )


def _judged_messages(judged: Iterable[Judged]) -> int:
    return sum(j.messages for j in judged if not j.unjudged)


def sequence_conclusions(judged: Sequence[Judged]) -> list[str]:
    """Return sentences on lost, doubled and reordered messages, and on those that cannot be judged."""
    known = [j for j in judged if not j.unjudged]
    texts = []
    for kind, text in (
        (
            LOST,
            "{count} {messages} missing from the sequence ids of {who}: lost, or given up by the producer.",
        ),
        (
            DOUBLED,
            "{count} {messages} stored more than once, of {who}: deduplication would refuse them.",
        ),
        (REORDERED, "{count} {messages} stored later than their sequence ids say, of {who}."),
    ):
        count = sum(j.count(kind) for j in known)
        if count:
            with_it = {j.producer for j in known if j.count(kind)}
            who = f"producer {min(with_it)}" if len(with_it) == 1 else f"{len(with_it)} producers"
            messages = "message is" if count == 1 else "messages are"
            texts.append(text.format(count=f"{count:,}", messages=messages, who=who))
    if known and not texts:
        texts.append(
            f"No message is lost, doubled or reordered among {_judged_messages(known):,} with consecutive sequence"
            " ids."
        )
    if unjudged := [j for j in judged if j.unjudged]:
        count = sum(j.messages for j in unjudged)
        producers = plural(len({j.producer for j in unjudged}), "producer")
        texts.append(
            f"Not judged: {plural(count, 'message')} of {producers}, because {unjudged[0].unjudged}."
        )
    return texts


def comparison_conclusion(comparison: CopyComparison, name: str) -> str:
    """Return how a copy differs, in a sentence."""
    messages = sum(row["first_messages"] for row in comparison.counts)
    parts = [
        f"{count:,} {kind}"
        for kind in PAIRS
        if (count := sum(row[kind] for row in comparison.counts))
    ]
    if not parts:
        return (
            f"{name} has all of {plural(messages, 'message')}, each as often and in the same order."
        )
    return f"Of {plural(messages, 'message')}, {name} has {', '.join(parts)}."


def producer_table(judged: Sequence[Judged]) -> dict[str, Any]:
    columns = [
        ("producer", "Producer", "string"),
        ("topic", "Topic", "string"),
        ("source", "Copied from", "string"),
        ("messages", "Messages", "integer"),
        ("sessions", "Sessions", "integer"),
        ("lost", "Lost", "integer"),
        ("doubled", "Doubled", "integer"),
        ("reordered", "Reordered", "integer"),
        ("unjudged", "Not judged because", "string"),
    ]
    worst = sorted(judged, key=lambda j: (-sum(f.messages for f in j.faults), j.producer, j.topic))
    rows = [
        (j.producer, j.topic, j.source, j.messages, j.sessions, *_counts(j), j.unjudged)
        for j in worst[:PRODUCERS_MAX]
    ]
    return table("producers", "Sequences of producers", columns, rows)


def _counts(judged: Judged) -> list[int | None]:
    if judged.unjudged:
        return [None] * 3
    return [judged.count(kind) for kind in (LOST, DOUBLED, REORDERED)]


def fault_table(judged: Sequence[Judged], samples: int) -> dict[str, Any]:
    columns = [
        ("kind", "Fault", "string"),
        ("producer", "Producer", "string"),
        ("first", "From sequence id", "integer"),
        ("last", "To sequence id", "integer"),
        ("position", "Seen at", "string"),
        ("time", "Published", "time"),
        ("topic", "Topic", "string"),
        ("source", "Copied from", "string"),
    ]
    rows: list[Sequence[Any]] = []
    for kind in (LOST, DOUBLED, REORDERED):
        faults = sorted((f for j in judged for f in j.faults if f.kind == kind), key=_order)
        rows += [
            (f.kind, f.producer, f.first, f.last, f.position, f.ms, f.topic, f.source)
            for f in faults[:samples]
        ]
    return table("faults", "Lost, doubled and reordered messages", columns, rows)


def _order(fault: SequenceFault) -> tuple[int, str, int]:
    return fault.ms, fault.producer, fault.first


def sample_table(comparison: CopyComparison) -> dict[str, Any]:
    columns = [
        ("kind", "Difference", "string"),
        ("time", "Published", "time"),
        ("topic", "Topic", "string"),
        ("position", "Position", "string"),
        ("other_topic", "Other topic", "string"),
        ("other_position", "Other position", "string"),
        ("count", "Times", "integer"),
        ("other_count", "Times in the other", "integer"),
    ]
    ordered = sorted(
        comparison.samples, key=lambda row: (PAIRS.index(row["kind"]), row["publish_ms"])
    )
    rows = [
        (
            row["kind"],
            row["publish_ms"],
            row["first_partition"],
            row["first_position"],
            row["second_partition"],
            row["second_position"],
            row["first_count"],
            row["second_count"],
        )
        for row in ordered
    ]
    return table("differences", "Differences of the copy", columns, rows)
