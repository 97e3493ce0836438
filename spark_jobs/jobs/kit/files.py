"""Parquet files of a result."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_files(result: Mapping[str, Any], output_dir: Path) -> None:
    """Write every series and table to its own Parquet file."""
    for series in result["series"]:
        points = series["points"]
        table = pa.table({"x": [p[0] for p in points], "y": [float(p[1]) for p in points]})
        pq.write_table(table, output_dir / f"{series['key']}.parquet")
    for item in result["tables"]:
        names = [column["key"] for column in item["columns"]]
        columns = {name: [row[i] for row in item["rows"]] for i, name in enumerate(names)}
        pq.write_table(pa.table(columns), output_dir / f"{item['key']}.parquet")
