"""The figures of a topic profile as cells that can be added up in any order. Pure.

A cell is ``(kind, name, at, count, bytes)``. Two cells that agree in the first three become one with the sums; of
FIRST, LAST and LARGEST only the outermost ``at`` counts. A task returns the cells of its entries, any number of which
can be combined anywhere. The outcome is that of one pass over all entries.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.pulsar_source.columns import EntryKind, Opened

CELLS = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("at", pa.int64()),
        ("count", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
CELLS_SQL = "kind string, name string, at bigint, count bigint, bytes bigint"
COLUMNS = ("key", "value_bytes")
"""Columns of messages that the figures need."""
RATE_POINTS_MAX = 200
RATE_STEPS_MS = (
    *(100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000),
    *(21_600_000, 86_400_000, 604_800_000),
)
"""Widths of points. Each divides the next, so that narrow points can be added up to wide ones; beyond the last it
doubles."""
SIZE_BITS = 10
CELLS_HELD_MAX = 100_000


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
    TRIMMED = "trimmed"  # entries that were planned, and trimmed before they were read
    KEYS = "keys"  # at: lower power of two of a key's messages; keys, their messages
    PRODUCERS = "producers"  # as KEYS, of producers


_OUTERMOST = {Cell.FIRST: "min", Cell.LAST: "max", Cell.LARGEST: "max"}
_RANKED = {Cell.KEY: Cell.KEYS, Cell.PRODUCER: Cell.PRODUCERS}


def rate_step_ms(first_ms: int, last_ms: int, least_ms: int = RATE_STEPS_MS[0]) -> int:
    """Return the width of a point of the rate series: the least one with at most RATE_POINTS_MAX points."""
    steps = (step for step in RATE_STEPS_MS if step >= least_ms)
    step = next(steps, least_ms)
    while last_ms // step - first_ms // step >= RATE_POINTS_MAX:
        step = next(steps, 2 * step)
    return step


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
    weights = _messages_of(entries, kinds)
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
        _cells(Cell.ENTRIES, at=kinds, size=entries["entry_bytes"]),
        _cells(Cell.MESSAGES, at=kinds, count=weights, size=values),
        *_times(entries, weights, values),
        _cells(Cell.SIZE, at=size_floor(sized)),
        _cells(Cell.LARGEST, at=sized.max(initial=-1)[None] if len(sized) else sized),
        _cells(Cell.BATCH, at=_power(weights[weights > 0]), size=weights[weights > 0]),
        _cells(Cell.KEY, name=opened.messages["key"], count=per_message, size=sizes),
        _cells(Cell.PRODUCER, name=entries["producer_name"], count=weights, size=values),
        _cells(Cell.UNPACKED, name=entries["compression"], size=entries["payload_bytes"]),
        _cells(
            Cell.PACKED, name=entries["compression"], count=weights, size=entries["packed_bytes"]
        ),
    ]
    return added(parts)


def trimmed_cells(entries: int) -> pa.Table:
    """Return the cell of entries that were trimmed before they were read."""
    return _cells(Cell.TRIMMED, at=np.array([0]), count=np.array([entries]), size=0)


def _messages_of(entries: pa.RecordBatch, kinds: Any) -> Any:
    """Return the number of messages of each entry; a message in chunks counts at its first chunk."""
    rows = entries["rows"].to_numpy()
    if (kinds == EntryKind.MESSAGES).all():
        return rows
    chunk = entries["chunk_id"].fill_null(0).to_numpy(zero_copy_only=False)
    weights = np.where(kinds == EntryKind.ENCRYPTED, entries["batch_size"].to_numpy(), rows)
    return np.where((kinds == EntryKind.CHUNK) & (chunk != 0), 0, weights).astype(np.int64)


def _times(entries: pa.RecordBatch, weights: Any, values: Any) -> Iterator[pa.Table]:
    known = entries["publish_ms"].is_valid().to_numpy(zero_copy_only=False) & (weights > 0)
    times = entries["publish_ms"].fill_null(0).to_numpy()[known]
    if not len(times):
        return
    first, last = times.min(), times.max()
    step = rate_step_ms(int(first), int(last))
    yield _cells(Cell.FIRST, at=first[None])
    yield _cells(Cell.LAST, at=last[None])
    at = times - times % step
    yield _cells(Cell.RATE, name=str(step), at=at, count=weights[known], size=values[known])


def _power(numbers: Any) -> Any:
    """Return the powers of two at or below numbers of at least 1."""
    return np.int64(1) << (np.frexp(numbers)[1].astype(np.int64) - 1)


def _cells(kind: Cell, *, name: Any = "", at: Any = 0, count: Any = 1, size: Any = 0) -> pa.Table:
    """Return cells from columns and constants; those without a name are left out."""
    parts = {"kind": str(kind), "name": name, "at": at, "count": count, "bytes": size}
    lengths = [len(value) for value in parts.values() if not isinstance(value, str | int)]
    columns = [
        pa.repeat(pa.scalar(value, CELLS.field(column).type), lengths[0])
        if isinstance(value, str | int)
        else pa.array(value).cast(CELLS.field(column).type)
        for column, value in parts.items()
    ]
    table = pa.Table.from_arrays(columns, schema=CELLS)
    return added([table.filter(table["name"].is_valid())])


def added(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the tables' cells; those that agree are added up."""
    combined = pa.concat_tables(tables)
    sums = combined.group_by(["kind", "name", "at"], use_threads=False).aggregate(
        [("count", "sum"), ("bytes", "sum")]
    )
    return sums.rename_columns(CELLS.names).cast(CELLS)


def compact(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the tables' cells added up, with the outermost kept and points of the rate widened to their time span."""
    cells = added(tables)
    selected = [
        cells.filter(pc.invert(pc.is_in(cells["kind"], pa.array([*_OUTERMOST, Cell.RATE]))))
    ]
    for kind, extreme in _OUTERMOST.items():
        at = pc.min_max(of_kind(cells, kind)["at"])[extreme].as_py()
        if at is not None:
            selected.append(_cells(kind, at=np.array([at])))
    rate = of_kind(cells, Cell.RATE)
    if rate.num_rows:
        at = rate["at"].to_numpy()
        least = max(map(int, rate["name"].unique().to_pylist()))
        step = rate_step_ms(int(at.min()), int(at.max()), least)
        wide = at - at % step
        selected.append(
            _cells(Cell.RATE, name=str(step), at=wide, count=rate["count"], size=rate["bytes"])
        )
    return added(selected)


def of_kind(cells: pa.Table, kind: Cell) -> pa.Table:
    return cells.filter(pc.equal(cells["kind"], str(kind)))


class Gathered:
    """Cells that are added piece by piece and summed up on the way."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._held = 0

    def add(self, cells: pa.Table) -> None:
        self._tables.append(cells)
        self._held += cells.num_rows
        if self._held > CELLS_HELD_MAX:
            combined = compact(self._tables)
            self._tables, self._held = [combined], combined.num_rows // 2

    def take(self) -> pa.Table:
        return compact(self._tables or [CELLS.empty_table()])


def ranked(cells: pa.Table, limit: int) -> pa.Table:
    """Return the cells; of keys and of producers only the ``limit`` with most messages, in the order of ``top``.

    Each key and each producer must have one cell. All of them are counted by their number of messages (KEYS,
    PRODUCERS).
    """
    tables = [cells.filter(pc.invert(pc.is_in(cells["kind"], pa.array([*_RANKED]))))]
    for kind, spread in _RANKED.items():
        named = of_kind(cells, kind)
        tables.append(top(named, limit))
        counts = named["count"].to_numpy()
        counted = counts > 0
        tables.append(_cells(spread, at=_power(counts[counted]), size=counts[counted]))
    return added(tables)


def top(named: pa.Table, limit: int) -> pa.Table:
    """Return the ``limit`` cells with most messages.

    Equal counts are ordered by name, shorter ones first (2 before 10), so that a repeated run returns the same.
    """
    order = [("count", "descending"), ("length", "ascending"), ("name", "ascending")]
    cells = named.filter(pc.greater(named["count"], 0))
    cells = cells.append_column("length", pc.utf8_length(cells["name"]))
    return cells.sort_by(order).slice(0, limit).drop_columns(["length"])
