"""Cells with equal keys are added up, and many cells are combined early."""

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.jobs.kit import cells as kit
from spark_jobs.jobs.kit.cells import CELLS, Gathered, added, cells, of_kind, outermost, top


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_cells_that_agree_become_one() -> None:
    table = cells("k", name=pa.array(["a", "b", None, "a"]), size=pa.array([1, 2, 3, 4]))
    assert rows(table) == [("k", "a", 0, 2, 5), ("k", "b", 0, 1, 2)]
    assert rows(added([table, table])) == [("k", "a", 0, 4, 10), ("k", "b", 0, 2, 4)]


def test_the_outermost_cell_of_a_kind() -> None:
    table = added([cells("t", at=np.array([5, 3, 9])), cells("u", at=np.array([1]))])
    assert rows(outermost(table, "t", "min")) == [("t", "", 3, 1, 0)]
    assert rows(outermost(table, "t", "max")) == [("t", "", 9, 1, 0)]
    assert outermost(table, "v", "max").num_rows == 0


def test_equal_counts_rank_by_name() -> None:
    table = pa.Table.from_pylist(
        [
            {"kind": "key", "name": n, "at": 0, "count": c, "bytes": 1}
            for n, c in (("b", 2), ("a", 2), ("c", 3), ("d", 0))
        ],
        schema=CELLS,
    )
    assert top(table, 2)["name"].to_pylist() == ["c", "a"]


def test_cells_beyond_a_limit_are_combined_while_they_are_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kit, "CELLS_HELD_MAX", 3)
    combined = []

    def combine(tables: list[pa.Table]) -> pa.Table:
        combined.append(len(tables))
        return added(tables)

    gathered = Gathered(combine)  # type: ignore[arg-type]
    for number in range(9):
        gathered.add(cells("k", at=np.array([number % 2])))
    assert max(combined) <= 4
    assert rows(of_kind(gathered.take(), "k")) == [("k", "", 0, 5, 0), ("k", "", 1, 4, 0)]
    assert Gathered().take().num_rows == 0
