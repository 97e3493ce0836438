"""Series and tables of a result in Parquet files named by their keys."""

from pathlib import Path

import pyarrow.parquet as pq

from spark_jobs.jobs.kit.files import write_files
from spark_jobs.jobs.kit.series import histogram
from spark_jobs.jobs.kit.tables import table


def test_series_and_tables_are_files(tmp_path: Path) -> None:
    series = [histogram("sizes", "Sizes", [(1, 2), (4, 3)], x=("Bytes", ""), y=("N", ""))]
    columns = [("name", "Name", "string"), ("n", "N", "integer")]
    write_files({"series": series, "tables": [table("t", "T", columns, [("a", 1)])]}, tmp_path)
    assert pq.read_table(tmp_path / "sizes.parquet").to_pydict() == {"x": [1, 4], "y": [2.0, 3.0]}
    assert pq.read_table(tmp_path / "t.parquet").to_pydict() == {"name": ["a"], "n": [1]}
