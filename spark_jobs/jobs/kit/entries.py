"""Messages of opened entries: how many an entry counts as, whatever its kind. Pure."""

from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.pulsar_source.columns import EntryKind, Opened


def messages_of_entries(entries: pa.RecordBatch) -> Any:
    """Return the number of messages of each entry; a message in chunks counts at its first chunk."""
    rows, kinds = entries["rows"].to_numpy(), entries["kind"].to_numpy()
    if (kinds == EntryKind.MESSAGES).all():
        return rows
    chunk = entries["chunk_id"].fill_null(0).to_numpy(zero_copy_only=False)
    weights = np.where(kinds == EntryKind.ENCRYPTED, entries["batch_size"].to_numpy(), rows)
    return np.where((kinds == EntryKind.CHUNK) & (chunk != 0), 0, weights).astype(np.int64)


def messages_of_rows(opened: Opened) -> Any:
    """Return for each row how many messages it stands for: 1, the size of an encrypted batch, or 0 for a further chunk
    of a message."""
    kinds = opened.entries["kind"].to_numpy()
    weights = messages_of_entries(opened.entries)
    return np.where(kinds == EntryKind.MESSAGES, 1, weights)[opened.entry_of_message()]
