"""Cells: figures that can be added up in any order. Pure.

A cell is ``(kind, name, at, count, bytes)``; an analysis declares its kinds and the meaning of the other columns. Two
cells that agree in the first three become one with the sums. A task returns the cells of its entries, any number of
which can be combined anywhere. The outcome is that of one pass over all entries.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
TRIMMED = "trimmed"
"""Kind of the cell that counts entries that were planned, and trimmed before they were read."""
CELLS_HELD_MAX = 100_000


def cells(kind: str, *, name: Any = "", at: Any = 0, count: Any = 1, size: Any = 0) -> pa.Table:
    """Return cells from columns and constants, of which at least one is a column; those without a name are left
    out."""
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


def of_kind(table: pa.Table, kind: str) -> pa.Table:
    return table.filter(pc.equal(table["kind"], str(kind)))


def without_kinds(table: pa.Table, kinds: Iterable[str]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["kind"], pa.array(map(str, kinds)))))


def outermost(table: pa.Table, kind: str, extreme: str) -> pa.Table:
    """Return the cell of a kind with the smallest ``at`` ("min") or the largest ("max"); no cell if there is none."""
    at = pc.min_max(of_kind(table, kind)["at"])[extreme].as_py()
    return CELLS.empty_table() if at is None else cells(kind, at=np.array([at]))


def top(named: pa.Table, limit: int) -> pa.Table:
    """Return the ``limit`` cells with the largest counts.

    Equal counts are ordered by name, shorter ones first (2 before 10), so that a repeated run returns the same.
    """
    order = [("count", "descending"), ("length", "ascending"), ("name", "ascending")]
    counted = named.filter(pc.greater(named["count"], 0))
    counted = counted.append_column("length", pc.utf8_length(counted["name"]))
    return counted.sort_by(order).slice(0, limit).drop_columns(["length"])


class Gathered:
    """Cells that are added piece by piece and combined on the way; ``combine`` returns fewer or the same cells."""

    def __init__(self, combine: Callable[[Iterable[pa.Table]], pa.Table] = added) -> None:
        self._combine = combine
        self._tables: list[pa.Table] = []
        self._held = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._held += table.num_rows
        if self._held > CELLS_HELD_MAX:
            combined = self._combine(self._tables)
            self._tables, self._held = [combined], combined.num_rows // 2

    def take(self) -> pa.Table:
        return self._combine(self._tables or [CELLS.empty_table()])
