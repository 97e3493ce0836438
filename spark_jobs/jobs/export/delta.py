"""Delta tables of exported files: the log follows the state of the folder, each batch by one transaction of its own.

The files are written and moved as for Parquet (``folder``). Then the batch's files are added to the log together with
the batch's number, as the version of the application ``APP``. A run that is killed before leaves a state whose batch
the log does not have: the next one adds it, and never twice, since the log names the last number.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

APP = "magnetar-export"
DAY = "day"
"""The column by which the files are divided. It stands in their paths only."""


def add_files(folder: Path, schema: pa.Schema, files: Sequence[str], batch: int) -> None:
    """Add the files of a batch to the log, and make the table if there is none. A batch that the log has is left."""
    # Imported late: the package is an extra, which exports of Parquet do not need.
    from deltalake import CommitProperties, DeltaTable, Transaction

    columns = schema.append(pa.field(DAY, pa.string()))
    if DeltaTable.is_deltatable(str(folder)):
        table = DeltaTable(str(folder))
    else:
        table = DeltaTable.create(str(folder), columns, partition_by=[DAY])
    if not files or batch <= (table.transaction_version(APP) or 0):
        return
    table.create_write_transaction(
        list(_added(folder, files)),
        mode="append",
        schema=columns,
        partition_by=[DAY],
        commit_properties=CommitProperties(app_transactions=[Transaction(APP, batch)]),
    )


def _added(folder: Path, files: Sequence[str]) -> Iterator[Any]:
    from deltalake.transaction import AddAction

    for name in files:
        path = folder / name
        facts = path.stat()
        yield AddAction(
            path=name,
            size=facts.st_size,
            partition_values={DAY: path.parent.name.removeprefix(f"{DAY}=")},
            modification_time=int(facts.st_mtime * 1000),
            data_change=True,
            stats=json.dumps({"numRecords": pq.read_metadata(path).num_rows}),
        )
