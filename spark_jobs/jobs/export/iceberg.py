"""Iceberg tables of exported files: metadata in the folder itself, which needs no catalog.

The files are written and moved as for Parquet (``folder``). Then the batch's files are added by one snapshot, which
also sets the property ``BATCH`` to the batch's number. A run that is killed before leaves a state whose batch the table
does not have: the next one adds it, and never twice. Versions of the metadata are ``metadata/vN.metadata.json``, and
``version-hint.text`` has the newest number, as in Iceberg's tables of a file system.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

DAY = "day"
SOURCE = "publish_time"
"""The column whose day divides the files."""
BATCH = "magnetar-export.batch"
SNAPSHOTS_MAX, SNAPSHOTS_KEPT = 200, 100
"""An export of days has a snapshot each few seconds: the oldest are removed together when there are so many."""
_METADATA = "metadata"
_HINT = "version-hint.text"
_FIELD_ID = b"PARQUET:field_id"


def with_field_ids(schema: pa.Schema) -> pa.Schema:
    """Return the schema with Iceberg's number of each column, by which its readers find the columns of a file."""
    nested = len(schema)
    fields = []
    for number, field in enumerate(schema, 1):
        kind = field.type
        if pa.types.is_map(kind):
            kind = pa.map_(
                _with_id(kind.key_field, nested + 1), _with_id(kind.item_field, nested + 2)
            )
            nested += 2
        fields.append(_with_id(field.with_type(kind), number))
    return pa.schema(fields)


def _with_id(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({_FIELD_ID: str(number).encode()})


def add_files(folder: Path, schema: pa.Schema, files: Sequence[str], batch: int) -> None:
    """Add the files of a batch to the table, and make it if there is none. A batch that the table has is left."""
    table = _opened(folder, schema)
    if not files or batch <= int(table.properties.get(BATCH, "0")):
        return
    with table.transaction() as transaction:
        transaction.set_properties({BATCH: str(batch)})
        with transaction.update_snapshot().merge_append() as append:
            for name in files:
                append.append_data_file(_data_file(table, folder, name))
    if len(table.metadata.snapshots) > SNAPSHOTS_MAX:
        _expire(table)


def _data_file(table: "Table", folder: Path, name: str) -> Any:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    path = folder / name
    added = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=_address(path),
        file_format=FileFormat.PARQUET,
        partition=Record(_days(path.parent.name.removeprefix(f"{DAY}="))),
        record_count=pq.read_metadata(path).num_rows,
        file_size_in_bytes=path.stat().st_size,
    )
    added.spec_id = table.spec().spec_id
    return added


def _days(day: str) -> int | None:
    """Return the days since the epoch; None for messages whose time is unknown."""
    import numpy as np

    try:
        # Times of publishers may be in years that Python's dates do not have.
        return int(np.datetime64(day, "D").astype(int))
    except ValueError:
        return None


def _opened(folder: Path, schema: pa.Schema) -> "Table":
    """Return the table of the folder, made if there is none."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.update import update_table_metadata

    class FolderCatalog(NoopCatalog):
        """The one table of the folder. Another program may change it as well: a commit is tried again behind it."""

        def load_table(self, identifier: Any) -> Table:
            io = PyArrowFileIO()
            address = _address(_path(folder, _version(folder)))
            metadata = FromInputFile.table_metadata(io.new_input(address))
            return Table(identifier, metadata, address, io, self)

        def commit_table(self, table: Table, requirements: Any, updates: Any) -> Any:
            for requirement in requirements:
                requirement.validate(table.metadata)
            metadata = update_table_metadata(
                table.metadata, updates, metadata_location=table.metadata_location
            )
            version = int(table.metadata_location.rpartition("/v")[2].split(".")[0]) + 1
            try:
                path = _store(folder, version, metadata)
            except FileExistsError as error:
                raise CommitFailedException(f"another program changed {folder}") from error
            stored = {"metadata": metadata, "metadata-location": _address(path)}
            return CommitTableResponse.model_validate(stored)

    if not _version(folder):
        _store(folder, 1, _first(folder, schema))
    return FolderCatalog("export").load_table(("export",))


def _first(folder: Path, schema: pa.Schema) -> "TableMetadata":
    """Return the metadata of a table without rows."""
    from pyiceberg.io.pyarrow import pyarrow_to_schema
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.transforms import DayTransform

    columns = pyarrow_to_schema(with_field_ids(schema))
    by_day = PartitionField(columns.find_field(SOURCE).field_id, 1000, DayTransform(), DAY)
    properties = {
        "commit.manifest-merge.enabled": "true",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    return new_table_metadata(
        columns, PartitionSpec(by_day), UNSORTED_SORT_ORDER, _address(folder), properties
    )


def _version(folder: Path) -> int:
    """Return the newest version of the metadata, 0 without any. The hint is behind where a run was killed."""
    hint = folder / _METADATA / _HINT
    version = int(hint.read_text()) if hint.exists() else 0
    while _path(folder, version + 1).exists():
        version += 1
    return version


def _path(folder: Path, version: int) -> Path:
    return folder / _METADATA / f"v{version}.metadata.json"


def _address(path: Path) -> str:
    return f"file://{path}"


def _store(folder: Path, version: int, metadata: "TableMetadata") -> Path:
    """Store a version of the metadata, which readers see whole or not at all. Raises FileExistsError."""
    path = _path(folder, version)
    path.parent.mkdir(exist_ok=True)
    # A link, since a rename would replace what another program stored as this version.
    written = _written(path.with_suffix(".new"), metadata.model_dump_json())
    try:
        path.hardlink_to(written)
    finally:
        written.unlink()
    _written(path.with_name(f"{_HINT}.new"), str(version)).replace(path.with_name(_HINT))
    return path


def _written(path: Path, text: str) -> Path:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return path


def _expire(table: "Table") -> None:
    """Remove the oldest snapshots, and the files of metadata that only they have."""
    snapshots = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
    named = {reference.snapshot_id for reference in table.metadata.refs.values()}
    oldest = [s for s in snapshots[:-SNAPSHOTS_KEPT] if s.snapshot_id not in named]
    kept = [s for s in snapshots if s not in oldest]
    files = _files(table, oldest) - _files(table, kept)
    table.maintenance.expire_snapshots().by_ids([s.snapshot_id for s in oldest]).commit()
    for name in files:
        table.io.delete(name)


def _files(table: "Table", snapshots: "Sequence[Snapshot]") -> set[str]:
    """Return the manifests of snapshots and their lists."""
    lists = {snapshot.manifest_list for snapshot in snapshots}
    manifests = (m.manifest_path for s in snapshots for m in s.manifests(table.io))
    return {name for name in (*lists, *manifests) if name}
