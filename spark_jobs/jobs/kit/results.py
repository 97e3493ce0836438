"""The parts of a result put together."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.analysis import Analysis
from spark_jobs.jobs.kit.cells import TRIMMED, of_kind
from spark_jobs.jobs.kit.files import write_files
from spark_jobs.jobs.kit.links import links_of
from spark_jobs.jobs.kit.selection import input_of
from spark_jobs.jobs.kit.tables import summary
from spark_jobs.pulsar_source.columns import EntryKind
from spark_jobs.pulsar_source.partitions import LedgerRange

SummaryRow = tuple[str, str, Any, str]
"""Key, label, value and unit."""


def result(
    analysis: Analysis,
    parameters: Mapping[str, Any],
    planned: Sequence[LedgerRange],
    *,
    messages: int,
    size: int | None,
    conclusions: Iterable[str],
    figures: Iterable[SummaryRow],
    series: Iterable[dict[str, Any]],
    tables: Iterable[dict[str, Any]],
) -> dict[str, Any]:
    """Return the result of docs/formats/analysis-result.md.

    ``size``: stored bytes of the entries that were read; None where they are not counted.
    """
    return {
        "schema_version": 1,
        "analysis": analysis.name,
        "input": {
            **input_of(analysis, parameters),
            "ledgers": len({ledger_range.ledger_id for ledger_range in planned}),
            "entries": sum(ledger_range.entries for ledger_range in planned),
            "messages": messages,
            **({} if size is None else {"bytes": size}),
        },
        "conclusions": list(conclusions),
        "summary": summary(figures),
        "series": list(series),
        "tables": list(tables),
    }


def written(complete: dict[str, Any], output_dir: Path) -> dict[str, Any]:
    """Write the result's Parquet files, and return it with links to what its tables name."""
    write_files(complete, output_dir)
    return {**complete, "links": links_of(complete)}


def counted(table: pa.Table, kind: str, at: int | None = None) -> tuple[int, int]:
    """Return the sums of count and bytes of the cells of a kind; of one ``at`` if it is given."""
    rows = of_kind(table, kind)
    if at is not None:
        rows = rows.filter(pc.equal(rows["at"], at))
    return pc.sum(rows["count"]).as_py() or 0, pc.sum(rows["bytes"]).as_py() or 0


def unread_figures(table: pa.Table, kind: str) -> list[SummaryRow]:
    """Return the figures of entries that were not read, only where there are any.

    ``kind``: cells whose ``at`` is an EntryKind and whose count, of unreadable entries, is entries.
    """
    rows: list[SummaryRow] = [
        (
            "unreadable",
            "Entries that cannot be read",
            counted(table, kind, EntryKind.UNREADABLE)[0],
            "",
        ),
        ("trimmed", "Entries trimmed while reading", counted(table, TRIMMED)[0], ""),
    ]
    return [row for row in rows if row[2]]
