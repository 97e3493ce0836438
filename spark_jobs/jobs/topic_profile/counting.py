"""The figures of a topic profile as cells: those of some entries, and what Spark keeps of all. Pure."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.jobs.kit import cells as kit
from spark_jobs.jobs.kit.cells import (
    CELLS,
    Gathered,
    added,
    cells,
    of_kind,
    top,
    without_kinds,
)
from spark_jobs.jobs.kit.entries import messages_of_entries
from spark_jobs.jobs.kit.series import cells_over_time, combined, powers_of_two
from spark_jobs.pulsar_source.columns import EntryKind, Opened

COLUMNS = ("key", "value_bytes", "event_ms")
"""Columns of messages that the figures need."""
SIZE_BITS = 10
DELAY_MS_MAX = 2**53 - 1


class Cell(StrEnum):
    """Kinds of cells: the meaning of ``name`` and ``at``, and what is counted."""

    ENTRIES = "entries"  # at: columns.EntryKind; entries, stored bytes
    MESSAGES = "messages"  # at: columns.EntryKind; messages, value bytes
    FIRST = "first"  # at: earliest publish time, ms
    LAST = "last"  # at: latest publish time, ms
    LARGEST = "largest"  # at: bytes of the largest value
    RATE = "rate"  # name: step in ms, at: start of the point, ms; messages, value bytes
    SIZE = "size"  # at: bytes of a value, rounded down by size_floor; messages
    BATCH = "batch"  # at: lower power of two of messages in an entry; entries, messages
    KEY = "key"  # name: the key; messages, value bytes
    PRODUCER = "producer"  # name: the producer; messages, value bytes
    UNPACKED = "unpacked"  # name: the codec; entries, payload bytes before compression
    PACKED = "packed"  # name: the codec; messages, payload bytes after compression
    TRIMMED = kit.TRIMMED  # entries that were planned, and trimmed before they were read
    BEFORE = "before"  # at: ms from event to publishing, rounded down by size_floor; messages
    ARRIVAL = "arrival"  # at: ms from publishing to the broker, likewise; messages
    EARLY = "early"  # name: BEFORE or ARRIVAL; messages whose time is negative, as clocks differ
    KEYS = "keys"  # at: lower power of two of a key's messages; keys, their messages
    PRODUCERS = "producers"  # as KEYS, of producers


_OUTERMOST: dict[str, str] = {Cell.FIRST: "min", Cell.LAST: "max", Cell.LARGEST: "max"}
_RANKED = {Cell.KEY: Cell.KEYS, Cell.PRODUCER: Cell.PRODUCERS}


def size_floor(sizes: Any) -> Any:
    """Return sizes of 0 to 2⁵³ with only their SIZE_BITS highest bits: exact below 1,024 bytes, above that at most
    0.2 % too small."""
    shift = np.maximum(np.frexp(sizes)[1] - SIZE_BITS, 0)
    return (sizes >> shift) << shift


def size_ceiling(floor: int) -> int:
    """Return the largest size that ``size_floor`` rounds down to ``floor``."""
    return floor + (1 << max(floor.bit_length() - SIZE_BITS, 0)) - 1


def cells_of(opened: Opened) -> pa.Table:
    """Return the cells of some entries and their messages."""
    entries, of_message = opened.entries, opened.entry_of_message()
    kinds = entries["kind"].to_numpy()
    weights = messages_of_entries(entries)
    values = entries["values_bytes"].to_numpy()
    sizes = opened.messages["value_bytes"]
    per_message: Any = 1
    if (kinds != EntryKind.MESSAGES).any():
        per_message = np.where(kinds == EntryKind.MESSAGES, 1, weights)[of_message]
    entries = entries.append_column("weight", pa.array(weights))
    sized = sizes.drop_null().to_numpy()
    if (kinds == EntryKind.CHUNK).any():  # only the first chunk counts as a message
        counted = pc.and_(sizes.is_valid(), pa.array(per_message > 0))
        sized = sizes.filter(counted).to_numpy()
    parts = [
        cells(Cell.ENTRIES, at=kinds, size=entries["entry_bytes"]),
        cells(Cell.MESSAGES, at=kinds, count=weights, size=values),
        *_times(entries, weights, values),
        *_delays(opened, weights, np.broadcast_to(per_message, len(of_message))),
        cells(Cell.SIZE, at=size_floor(sized)),
        cells(Cell.LARGEST, at=sized.max(initial=-1)[None] if len(sized) else sized),
        cells(Cell.BATCH, at=powers_of_two(weights[weights > 0]), size=weights[weights > 0]),
        cells(Cell.KEY, name=opened.messages["key"], count=per_message, size=sizes),
        cells(Cell.PRODUCER, name=entries["producer_name"], count=weights, size=values),
        cells(Cell.UNPACKED, name=entries["compression"], size=entries["payload_bytes"]),
        cells(
            Cell.PACKED, name=entries["compression"], count=weights, size=entries["packed_bytes"]
        ),
    ]
    return added(parts)


def _times(entries: pa.RecordBatch, weights: Any, values: Any) -> Iterator[pa.Table]:
    known = entries["publish_ms"].is_valid().to_numpy(zero_copy_only=False) & (weights > 0)
    times = entries["publish_ms"].fill_null(0).to_numpy()[known]
    if not len(times):
        return
    yield cells(Cell.FIRST, at=times.min()[None])
    yield cells(Cell.LAST, at=times.max()[None])
    yield cells_over_time(Cell.RATE, times, count=weights[known], size=values[known])


def _delays(opened: Opened, weights: Any, per_message: Any) -> Iterator[pa.Table]:
    """Yield the cells of the time from a message's event until it is published, and from then to its broker."""
    entries = opened.entries
    published = entries["publish_ms"].fill_null(0).to_numpy()
    known = entries["publish_ms"].is_valid().to_numpy(zero_copy_only=False)
    events = opened.messages["event_ms"]
    if events.null_count < len(events):
        of_message = opened.entry_of_message()
        timed = events.is_valid().to_numpy(zero_copy_only=False) & known[of_message]
        delays = published[of_message] - events.fill_null(0).to_numpy()
        yield from _delay_cells(Cell.BEFORE, delays[timed], per_message[timed])
    arrivals = entries["broker_ms"]
    if arrivals.null_count < len(arrivals):
        timed = arrivals.is_valid().to_numpy(zero_copy_only=False) & known
        delays = arrivals.fill_null(0).to_numpy() - published
        yield from _delay_cells(Cell.ARRIVAL, delays[timed], weights[timed])


def _delay_cells(kind: Cell, delays: Any, weights: Any) -> Iterator[pa.Table]:
    late = delays >= 0
    yield cells(kind, at=size_floor(np.minimum(delays[late], DELAY_MS_MAX)), count=weights[late])
    yield cells(Cell.EARLY, name=str(kind), at=0 * delays[~late], count=weights[~late])


def compact(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the tables' cells added up, with the outermost kept and points of the rate widened to their time span."""
    return combined(tables, _OUTERMOST, Cell.RATE)


def ranked(table: pa.Table, limit: int) -> pa.Table:
    """Return the cells; of keys and of producers only the ``limit`` with most messages, in the order of ``top``.

    Each key and each producer must have one cell. All of them are counted by their number of messages (KEYS,
    PRODUCERS).
    """
    tables = [without_kinds(table, _RANKED)]
    for kind, spread in _RANKED.items():
        named = of_kind(table, kind)
        tables.append(top(named, limit))
        counts = named["count"].to_numpy()
        counted = counts > 0
        tables.append(cells(spread, at=powers_of_two(counts[counted]), size=counts[counted]))
    return added(tables)


def ranked_batches(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the cells of one shuffle partition, which has each cell once, with only the first keys and producers."""
    gathered = Gathered(compact)
    for batch in batches:
        gathered.add(ranked(pa.Table.from_batches([batch]).cast(CELLS), limit))
    yield from gathered.take().to_batches()
