"""The entries of backlogs to read, and their figures as cells. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.base.ranges import RangeSet
from engine.managed.ack_state import AckState
from spark_jobs.jobs.kit import cells as kit
from spark_jobs.jobs.kit.cells import added, cells, of_kind, top, without_kinds
from spark_jobs.jobs.kit.entries import messages_of_entries, messages_of_rows
from spark_jobs.jobs.kit.stored import StoredTopic
from spark_jobs.jobs.who_is_behind.backlog import in_ledgers
from spark_jobs.pulsar_source.columns import EntryKind, Opened
from spark_jobs.pulsar_source.partitions import LedgerRange, plan

COLUMNS = ("key", "value_bytes", "batch_index")
AGES_MS = (0, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_592_000_000)
"""Lower bounds of the buckets of age."""
SMALL_GAP = 1000
"""Acknowledged entries that a task reads along, so that many holes do not become many tasks."""


class Cell(StrEnum):
    """Kinds of cells; each ``name`` begins with the number of the subscription and a space."""

    MESSAGES = "messages"  # unacknowledged messages, bytes of their values
    ENTRIES = "entries"  # entries with any of them, stored bytes
    AGE = "age"  # at: lower bound of the age, ms; messages, bytes of their values
    OLDEST = "oldest"  # at: an earliest publish time, ms
    KEY = "key"  # name: the key besides; messages, bytes of their values
    PRODUCER = "producer"  # name: the producer besides; messages, bytes of their values
    UNREADABLE = "unreadable"  # entries that cannot be decoded
    TRIMMED = kit.TRIMMED  # entries that were planned, and trimmed before they were read


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a range that a subscription has not acknowledged: intervals of entries; bits of partial batches."""

    number: int
    intervals: tuple[tuple[int, int], ...]
    batches: dict[int, int]


@dataclass(frozen=True, slots=True)
class BacklogTask:
    """A range to read for the subscriptions that want some of it."""

    ledger_range: LedgerRange
    wanted: tuple[Wanted, ...]


def tasks_of(
    topic: StoredTopic,
    partition: int,
    states: Sequence[tuple[int, AckState]],
    entries_max: int,
    bytes_max: int,
) -> list[BacklogTask]:
    """Return the ranges that hold the backlog of any of ``states``, by their numbers; each entry is read once."""
    line = topic.line()
    union = RangeSet()
    for _, acks in states:
        for start, stop in acks.pending(line.base, line.durable_to):
            union.add(start, stop)
    parts: list[tuple[int, int, int]] = []
    for start, stop in union:
        for ledger_id, first, last in in_ledgers(line, start, stop):
            before = parts[-1] if parts else (-1, 0, 0)
            if before[0] == ledger_id and first - before[2] <= SMALL_GAP:
                parts[-1] = ledger_id, before[1], last
            else:
                parts.append((ledger_id, first, last))
    ledgers = {ledger.ledger_id: ledger for ledger in topic.ledgers}
    ranges = []
    for ledger_id, first, last in parts:
        ledger = ledgers[ledger_id]
        size = ledger.size * (last - first + 1) // ledger.entries
        ranges.append(
            LedgerRange(
                ledger_id, first, last, partition, topic.name, size=size, extra=ledger.extra
            )
        )
    tasks = []
    for ledger_range in plan(ranges, entries_max, bytes_max):
        base, _ = line.extent(ledger_range.ledger_id)
        span = base, ledger_range.first, ledger_range.last
        wanted = (_wanted(number, acks, *span) for number, acks in states)
        tasks.append(BacklogTask(ledger_range, tuple(part for part in wanted if part.intervals)))
    return tasks


def _wanted(number: int, acks: AckState, base: int, first: int, last: int) -> Wanted:
    start, stop = base + first, base + last + 1
    intervals = tuple((low - base, high - 1 - base) for low, high in acks.pending(start, stop))
    batches = {
        ordinal - base: bits for ordinal, bits in acks.batches.items() if start <= ordinal < stop
    }
    return Wanted(number, intervals, batches)


def cells_of(opened: Opened, wanted: Sequence[Wanted], now_ms: int) -> pa.Table:
    """Return the cells of what the subscriptions want of some entries."""
    entries = opened.entries
    ids = entries["entry_id"].to_numpy()
    kinds = entries["kind"].to_numpy()
    owners = opened.entry_of_message()
    weights = messages_of_rows(opened)
    of_entry = messages_of_entries(entries)
    parts = [kit.CELLS.empty_table()]
    for wanted_by in wanted:
        mine = np.zeros(len(ids), bool)
        for first, last in wanted_by.intervals:
            mine |= (ids >= first) & (ids <= last)
        if not mine.any():
            continue
        rows = mine[owners]
        if wanted_by.batches:
            rows &= ~_acknowledged(opened, ids[owners], wanted_by.batches)
        parts += _cells_of_one(
            wanted_by.number, opened, mine, rows, weights, of_entry, kinds, owners, now_ms
        )
    return added(parts)


def _acknowledged(opened: Opened, entry_ids: Any, batches: dict[int, int]) -> Any:
    """Return for each row whether its bit says that it is acknowledged."""
    indexes = opened.messages["batch_index"].to_numpy(zero_copy_only=False)
    done = np.zeros(len(entry_ids), bool)
    for entry, bits in batches.items():
        for row in np.flatnonzero(entry_ids == entry):
            index = int(indexes[row])
            done[row] = index >= 0 and not bits >> index & 1
    return done


def _cells_of_one(
    number: int,
    opened: Opened,
    mine: Any,
    rows: Any,
    weights: Any,
    of_entry: Any,
    kinds: Any,
    owners: Any,
    now_ms: int,
) -> list[pa.Table]:
    name = str(number)
    entries, messages = opened.entries, opened.messages
    counts = np.where(rows, weights, 0)
    counted = rows & (counts > 0)
    sizes = messages["value_bytes"].fill_null(0).to_numpy()
    times = entries["publish_ms"].fill_null(0).to_numpy()
    of_users = mine & (kinds != EntryKind.MARKER) & (kinds != EntryKind.UNREADABLE)
    unreadable = int((mine & (kinds == EntryKind.UNREADABLE)).sum())
    parts = [
        _cell(
            Cell.ENTRIES,
            name,
            int(of_users.sum()),
            int(entries["entry_bytes"].to_numpy()[of_users].sum()),
        ),
        _cell(Cell.MESSAGES, name, int(counts.sum()), int(sizes[counted].sum())),
    ]
    if unreadable:
        parts.append(_cell(Cell.UNREADABLE, name, unreadable, 0))
    known = counted & (times[owners] > 0)
    if known.any():
        published = times[owners][known]
        ages = np.maximum(now_ms - published, 0)
        bounds = np.array(AGES_MS)[np.searchsorted(AGES_MS, ages, side="right") - 1]
        parts.append(
            kit.cells(
                Cell.AGE,
                name=_all(name, len(ages)),
                at=bounds,
                count=counts[known],
                size=sizes[known],
            )
        )
        parts.append(kit.cells(Cell.OLDEST, name=[name], at=published.min()[None]))
    prefix = f"{name} "
    positions = pa.array(np.flatnonzero(counted))
    keys = pc.binary_join_element_wise(pa.scalar(prefix), messages["key"].take(positions), "")
    producers = entries["producer_name"].take(pa.array(owners)).take(positions)
    named = pc.binary_join_element_wise(pa.scalar(prefix), producers, "")
    for kind, names in ((Cell.KEY, keys), (Cell.PRODUCER, named)):
        if len(names):
            parts.append(cells(kind, name=names, count=counts[counted], size=sizes[counted]))
    return parts


def _all(name: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(name), count)


def _cell(kind: Cell, name: str, count: int, size: int) -> pa.Table:
    return cells(kind, name=[name], count=count, size=size)


def ranked_batches(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the cells of one shuffle partition; of keys and producers those of each subscription with most messages."""
    gathered = kit.Gathered()
    for batch in batches:
        gathered.add(ranked(pa.Table.from_batches([batch]).cast(kit.CELLS), limit))
    yield from gathered.take().to_batches()


def ranked(table: pa.Table, limit: int) -> pa.Table:
    tables = [without_kinds(table, (Cell.KEY, Cell.PRODUCER))]
    for kind in (Cell.KEY, Cell.PRODUCER):
        named = of_kind(table, kind)
        owners = pc.list_element(pc.split_pattern(named["name"], " ", max_splits=1), 0)
        for owner in pc.unique(owners).to_pylist():
            tables += [top(named.filter(pc.equal(owners, owner)), limit)]
    return added(tables)


def rows_of(table: pa.Table, kind: Cell) -> dict[int, list[dict[str, Any]]]:
    """Return the cells of a kind by the number of their subscription, ``name`` without it."""
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in of_kind(table, kind).to_pylist():
        number, _, rest = row["name"].partition(" ")
        by_number.setdefault(int(number), []).append(row | {"name": rest})
    return by_number
