"""Lookup of subscriptions, one pass over what they have not acknowledged, and the result."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine.base.names import TopicName
from engine.managed.ack_state import AckState
from spark_jobs.analysis import AskHolders
from spark_jobs.jobs.kit.cells import CELLS, Gathered, cells
from spark_jobs.jobs.kit.progress import Progress
from spark_jobs.jobs.kit.reading import CELLS_AT_ONCE, added_by_spark
from spark_jobs.jobs.kit.results import written
from spark_jobs.jobs.kit.selection import input_of, options_of
from spark_jobs.jobs.kit.stored import StoredTopic, stored_topics
from spark_jobs.jobs.kit.tables import bytes_text, plural, summary, table
from spark_jobs.jobs.who_is_behind import WHO_IS_BEHIND
from spark_jobs.jobs.who_is_behind.backlog import StoredBacklog, backlog_of
from spark_jobs.jobs.who_is_behind.consumers import (
    ASKING,
    Held,
    asked,
    consumers_table,
    sentence_of,
)
from spark_jobs.jobs.who_is_behind.counting import (
    AGES_MS,
    COLUMNS,
    BacklogTask,
    Cell,
    cells_of,
    ranked_batches,
    rows_of,
    tasks_of,
)
from spark_jobs.pulsar_source.batch import TrimmedError, open_range

AGE_LABELS = ("< 1 min", "1-10 min", "10-60 min", "1-6 h", "6-24 h", "1-7 d", "7-30 d", "> 30 d")


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
    holders: AskHolders | None = None,
) -> dict[str, Any]:
    """Return who is behind. ``holders``: None where no broker can be asked. Raises OptionError."""
    top, only = int(parameters["top"]), parameters["subscription"]
    options = options_of(WHO_IS_BEHIND, parameters, context)
    now_ms = time.time_ns() // 1_000_000
    backlogs: list[StoredBacklog] = []
    tasks: list[BacklogTask] = []
    for topic in stored_topics(options, progress):
        states = _states(topic, only, backlogs, top)
        if states and parameters["read"]:
            partition = TopicName.parse(topic.name).partition
            limits = options.entries_per_partition, options.bytes_per_partition
            tasks += tasks_of(topic, partition, states, *limits)

    def read(task: BacklogTask) -> Iterator[pa.RecordBatch]:
        gathered = Gathered()
        try:
            for opened in open_range(options, task.ledger_range, COLUMNS):
                gathered.add(cells_of(opened, task.wanted, now_ms))
        except TrimmedError as error:
            gathered.add(cells(Cell.TRIMMED, at=np.array([0]), count=error.entries))
        yield from gathered.take().to_batches(CELLS_AT_ONCE)

    def rank(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return ranked_batches(batches, top)

    progress.partial(result_of(backlogs, Read(None), {}, parameters, now_ms))
    counted = added_by_spark(spark, progress, tasks, read, rank) if tasks else CELLS.empty_table()
    known = Read(counted if parameters["read"] else None)
    progress(ASKING, 0, 0)
    # Last, so that the figures of consumers, which change all the time, are of the end of the run.
    held = asked(holders, backlogs, behind_of(backlogs, known)[:top])
    return written(result_of(backlogs, known, held, parameters, now_ms), output_dir)


def _states(
    topic: StoredTopic, only: str, backlogs: list[StoredBacklog], top: int
) -> list[tuple[int, AckState]]:
    """Append the backlogs of a topic's subscriptions; return the acknowledgements of those that are behind, by the
    index of their backlog."""
    line = topic.line()
    states = []
    for subscription in topic.subscriptions:
        name, active_ms = subscription.name, subscription.last_active_ms
        if only not in ("", name):
            continue
        if subscription.state is None:
            problem = subscription.problem
            backlogs.append(
                StoredBacklog(topic.name, name, None, None, "", "", 0, 0, 0, active_ms, (), problem)
            )
            continue
        acks = subscription.state.acks(line)
        backlog = backlog_of(topic.name, name, line, acks, active_ms, top)
        if backlog.entries:
            states.append((len(backlogs), acks))
        backlogs.append(backlog)
    return states


class Read:
    """Results of the pass over the backlog, by the number of the subscription. ``known``: there was a pass."""

    def __init__(self, counted: pa.Table | None) -> None:
        self.known = counted is not None
        table = CELLS.empty_table() if counted is None else counted
        self.messages = {n: rows[0] for n, rows in rows_of(table, Cell.MESSAGES).items()}
        self.entries = {n: rows[0] for n, rows in rows_of(table, Cell.ENTRIES).items()}
        self.oldest = {
            n: min(row["at"] for row in rows) for n, rows in rows_of(table, Cell.OLDEST).items()
        }
        self.ages = {
            n: {row["at"]: row for row in rows} for n, rows in rows_of(table, Cell.AGE).items()
        }
        self.keys = rows_of(table, Cell.KEY)
        self.producers = rows_of(table, Cell.PRODUCER)
        self.unreadable = sum(
            row["count"] for rows in rows_of(table, Cell.UNREADABLE).values() for row in rows
        )
        self.trimmed = sum(row["count"] for row in table.to_pylist() if row["kind"] == Cell.TRIMMED)


def behind_of(backlogs: Sequence[StoredBacklog], read: Read) -> list[int]:
    """Return the numbers of the subscriptions that are behind: the oldest first, what is not known before what is."""
    behind = [n for n, backlog in enumerate(backlogs) if backlog.entries or backlog.entries is None]
    return sorted(behind, key=lambda n: (read.oldest.get(n, 0), -(backlogs[n].entries or 0), n))


def result_of(
    backlogs: Sequence[StoredBacklog],
    read: Read,
    held: Mapping[int, Held],
    parameters: Mapping[str, Any],
    now_ms: int,
) -> dict[str, Any]:
    """Return the result. ``held``: empty while brokers are not asked."""
    top = int(parameters["top"])
    behind = behind_of(backlogs, read)
    entries = sum(backlog.entries or 0 for backlog in backlogs)
    messages = sum(row["count"] for row in read.messages.values()) if read.known else None
    oldest = min(read.oldest.values(), default=None)
    figures = [
        ("subscriptions", "Subscriptions", len(backlogs), ""),
        ("behind", "Subscriptions behind", len(behind), ""),
        ("backlog_entries", "Entries not acknowledged", entries, ""),
        ("backlog_messages", "Messages not acknowledged", messages, "messages"),
        (
            "backlog_bytes",
            "Stored bytes of them",
            sum(backlog.stored_bytes or 0 for backlog in backlogs),
            "bytes",
        ),
        ("oldest_age", "Oldest message", None if oldest is None else now_ms - oldest, "ms"),
        ("holes", "Holes", sum(backlog.holes for backlog in backlogs), ""),
        *(
            row
            for row in (
                ("unreadable", "Entries that cannot be read", read.unreadable, ""),
                ("trimmed", "Entries trimmed while reading", read.trimmed, ""),
            )
            if row[2]
        ),
    ]
    return {
        "schema_version": 1,
        "analysis": WHO_IS_BEHIND.name,
        "input": {
            **input_of(WHO_IS_BEHIND, parameters),
            "entries": entries,
            **({} if messages is None else {"messages": messages}),
        },
        "conclusions": conclusions_of(backlogs, behind, read, held, now_ms),
        "summary": summary(figures),
        "series": [_ages(read)] if read.known else [],
        "tables": [
            _subscriptions(backlogs, behind[:top], read, now_ms),
            *consumers_table(backlogs, held),
            *_expiring(backlogs, behind[:top], read),
            _holes(backlogs, behind, top),
            *_named(
                "keys", "Keys not acknowledged", ("key", "Key"), backlogs, behind, read.keys, top
            ),
            *_named(
                "producers",
                "Producers of what is not acknowledged",
                ("producer_name", "Producer"),
                backlogs,
                behind,
                read.producers,
                top,
            ),
        ],
    }


def conclusions_of(
    backlogs: Sequence[StoredBacklog],
    behind: Sequence[int],
    read: Read,
    held: Mapping[int, Held],
    now_ms: int,
) -> list[str]:
    if not backlogs:
        return ["There are no subscriptions."]
    if not behind:
        return [f"No subscription of {len(backlogs):,} is behind."]
    sentences = []
    for number in [n for n in behind if backlogs[n].entries][:3]:
        backlog = backlogs[number]
        counts = read.messages.get(number)
        amount = (
            plural(backlog.entries or 0, "entry", "entries")
            if counts is None
            else plural(counts["count"], "message")
        )
        sentence = f"Subscription {backlog.subscription} of {backlog.topic} is behind by {amount}"
        if number in read.oldest:
            sentence += f", the oldest of them {duration(now_ms - read.oldest[number])} old"
        sentences.append(f"{sentence} ({bytes_text(backlog.stored_bytes or 0)}).")
        if number in held:
            sentences[-1] += f" {sentence_of(held[number])}"
    holding = max(behind, key=lambda n: backlogs[n].acknowledged)
    backlog = backlogs[holding]
    if backlog.largest:
        hole = backlog.largest[0]
        sentences.append(
            f"Subscription {backlog.subscription} of {backlog.topic} has {plural(backlog.holes, 'hole')},"
            f" the first of {plural(hole.entries, 'entry', 'entries')} from {hole.first} on: they keep"
            f" {backlog.acknowledged:,} acknowledged entries behind them from being freed."
        )
    for number in behind:
        if backlogs[number].entries is None:
            backlog = backlogs[number]
            sentences.append(
                f"The state of subscription {backlog.subscription} of {backlog.topic} cannot be read:"
                f" {backlog.problem}."
            )
    return sentences


def duration(ms: int) -> str:
    """Return a time span in its largest unit."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size:
            return f"{ms // size:,} {unit}"
    return f"{ms // 1000} s"


def _ages(read: Read) -> dict[str, Any]:
    counts = [
        sum(ages.get(bound, {"count": 0})["count"] for ages in read.ages.values())
        for bound in AGES_MS
    ]
    return {
        "key": "ages",
        "title": "Messages not acknowledged, by age",
        "kind": "bar",
        "x": {"label": "Age", "type": "category"},
        "y": {"label": "Messages", "unit": "messages"},
        "points": [list(point) for point in zip(AGE_LABELS, counts, strict=True)],
    }


def _subscriptions(
    backlogs: Sequence[StoredBacklog], behind: Sequence[int], read: Read, now_ms: int
) -> dict[str, Any]:
    columns = [
        ("topic", "Topic", "string"),
        ("subscription", "Subscription", "string"),
        ("oldest", "Oldest published", "time"),
        ("age_s", "Its age, s", "integer"),
        ("messages", "Messages", "integer"),
        ("entries", "Entries", "integer"),
        ("bytes", "Stored bytes", "bytes"),
        ("mark", "Acknowledged up to", "string"),
        ("first", "First not acknowledged", "string"),
        ("holes", "Holes", "integer"),
        ("acknowledged", "Acknowledged behind them", "integer"),
        ("partial", "Batches in part", "integer"),
        ("last_active", "Last active", "time"),
        ("problem", "Problem", "string"),
    ]
    rows = []
    for number in behind:
        backlog, oldest = backlogs[number], read.oldest.get(number)
        counts = read.messages.get(number)
        rows.append(
            [
                backlog.topic,
                backlog.subscription,
                oldest,
                None if oldest is None else (now_ms - oldest) // 1000,
                None if counts is None else counts["count"],
                backlog.entries,
                backlog.stored_bytes,
                backlog.mark or None,
                backlog.first or None,
                backlog.holes,
                backlog.acknowledged,
                backlog.partial,
                backlog.last_active_ms or None,
                backlog.problem or None,
            ]
        )
    return table("subscriptions", "Subscriptions behind, oldest first", columns, rows)


def _expiring(
    backlogs: Sequence[StoredBacklog], behind: Sequence[int], read: Read
) -> Iterator[dict[str, Any]]:
    """Yield a table of the messages by age: older ones than a limit are what expiring by it would take."""
    if not read.known:
        return
    columns = [
        ("topic", "Topic", "string"),
        ("subscription", "Subscription", "string"),
        *(
            (f"from_{bound // 1000}_s", label, "integer")
            for bound, label in zip(AGES_MS, AGE_LABELS, strict=True)
        ),
    ]
    rows = [
        [
            backlogs[n].topic,
            backlogs[n].subscription,
            *(read.ages.get(n, {}).get(bound, {"count": 0})["count"] for bound in AGES_MS),
        ]
        for n in behind
    ]
    yield table("ages", "Messages not acknowledged, by age", columns, rows)


def _holes(backlogs: Sequence[StoredBacklog], behind: Sequence[int], top: int) -> dict[str, Any]:
    columns = [
        ("topic", "Topic", "string"),
        ("subscription", "Subscription", "string"),
        ("first", "First entry", "string"),
        ("last", "Last entry", "string"),
        ("entries", "Entries not acknowledged", "integer"),
        ("acknowledged", "Acknowledged next to it", "integer"),
    ]
    rows = [
        [backlogs[n].topic, backlogs[n].subscription, h.first, h.last, h.entries, h.acknowledged]
        for n in behind
        for h in backlogs[n].largest
    ]
    return table("holes", "Holes, the first of each subscription", columns, rows[:top])


def _named(
    key: str,
    title: str,
    name: tuple[str, str],
    backlogs: Sequence[StoredBacklog],
    behind: Sequence[int],
    counts: Mapping[int, Sequence[Mapping[str, Any]]],
    top: int,
) -> Iterator[dict[str, Any]]:
    columns = [
        ("topic", "Topic", "string"),
        ("subscription", "Subscription", "string"),
        (*name, "string"),
        ("messages", "Messages", "integer"),
        ("bytes", "Value bytes", "bytes"),
    ]
    rows = [
        [backlogs[n].topic, backlogs[n].subscription, row["name"], row["count"], row["bytes"]]
        for n in behind
        for row in counts.get(n, ())
    ]
    rows.sort(key=lambda row: (-row[3], row[0], row[1], len(row[2]), row[2]))
    if rows:
        yield table(key, title, columns, rows[:top])
