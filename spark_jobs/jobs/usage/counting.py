"""Messages and bytes by topic and day as cells. Pure."""

from enum import StrEnum

import pyarrow as pa

from spark_jobs.jobs.kit import cells as kit
from spark_jobs.jobs.kit.cells import added, cells
from spark_jobs.jobs.kit.entries import messages_of_entries
from spark_jobs.pulsar_source.columns import Opened

DAY_MS = 86_400_000


class Cell(StrEnum):
    """Kinds of cells: the meaning of ``name`` and ``at``, and what is counted."""

    DAY = "day"  # name: topic or partition, at: start of the day of publishing, UTC, ms; messages, stored bytes
    ENTRIES = "entries"  # at: columns.EntryKind; entries, stored bytes
    TRIMMED = kit.TRIMMED


def cells_of(opened: Opened, topic: str, from_ms: int = 0) -> pa.Table:
    """Return the cells of some entries of a topic, of those published from ``from_ms`` on."""
    entries = opened.entries
    times = entries["publish_ms"].fill_null(0).to_numpy()
    kept = (times >= from_ms) & entries["publish_ms"].is_valid().to_numpy(zero_copy_only=False)
    days = times[kept] - times[kept] % DAY_MS
    return added(
        [
            cells(Cell.ENTRIES, at=entries["kind"], size=entries["entry_bytes"]),
            cells(
                Cell.DAY,
                name=topic,
                at=days,
                count=messages_of_entries(entries)[kept],
                size=entries["entry_bytes"].to_numpy()[kept],
            ),
        ]
    )
