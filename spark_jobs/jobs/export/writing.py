"""Parquet files of one range, written by a task."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.jobs.export.folder import WrittenFiles
from spark_jobs.jobs.export.iceberg import with_field_ids
from spark_jobs.jobs.kit.messages import TRIMMED, arrow_schema, rows_of_range
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange

TABLE_COLUMNS = (
    *("key", "value", "properties", "publish_time", "event_time", "ledger_id", "entry_id"),
    *("batch_index", "partition", "topic", "producer_name", "sequence_id", "value_bytes"),
    *("encrypted", "chunk_id"),
)
DECODED_COLUMNS = ("decoded", "decode_error")
UNKNOWN_DAY = "unknown"


def write_range(
    options: Options, ledger_range: LedgerRange, columns: tuple[str, ...], staged: Path
) -> WrittenFiles:
    """Write the messages of a range below ``staged``, one file for each day of publishing, and return what was
    written."""
    schema = with_field_ids(arrow_schema(columns))
    writers: dict[str, pq.ParquetWriter] = {}
    files: dict[str, str] = {}
    rows, unreadable, trimmed = 0, 0, 0
    name = f"{max(ledger_range.partition, 0)}-{ledger_range.ledger_id}-{ledger_range.first}-{ledger_range.last}.parquet"
    try:
        for batch in rows_of_range(options, ledger_range, (*columns, "unread", "unread_entries")):
            for row in batch.filter(batch["unread"].is_valid()).to_pylist():
                trimmed += row["unread_entries"] if row["unread"] == TRIMMED else 0
                unreadable += row["unread_entries"] if row["unread"] != TRIMMED else 0
            messages = batch.filter(batch["unread"].is_null()).select(list(columns))
            rows += messages.num_rows
            for day, part in by_day(messages):
                if day not in writers:
                    files[day] = f"day={day}/{name}"
                    path = staged / files[day]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    writers[day] = pq.ParquetWriter(path, schema, compression="zstd")
                writers[day].write_batch(part)
    finally:
        for writer in writers.values():
            writer.close()
    size = sum((staged / file).stat().st_size for file in files.values())
    return WrittenFiles(sorted(files.values()), rows, unreadable, trimmed, size)


def by_day(messages: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    """Return the messages by their day of publishing in UTC."""
    days = pc.strftime(messages["publish_time"], format="%Y-%m-%d").fill_null(UNKNOWN_DAY)
    return [(day, messages.filter(pc.equal(days, day))) for day in pc.unique(days).to_pylist()]
