"""Messages by key as cells: those of some entries, and what Spark keeps of all. Pure."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.jobs.hot_keys.balance import Selector, slot_of_key
from spark_jobs.jobs.kit import cells as kit
from spark_jobs.jobs.kit.cells import CELLS, Gathered, added, cells, of_kind, top, without_kinds
from spark_jobs.jobs.kit.entries import messages_of_entries, messages_of_rows
from spark_jobs.jobs.kit.series import powers_of_two
from spark_jobs.pulsar_source.columns import EntryKind, Opened

COLUMNS = ("key", "key_bytes", "ordering_key", "value_bytes")


class Cell(StrEnum):
    """Kinds of cells: the meaning of ``name`` and ``at``, and what is counted."""

    ENTRIES = "entries"  # at: columns.EntryKind; entries, stored bytes
    MESSAGES = "messages"  # messages
    KEY = "key"  # name: the key, at: TEXT or BASE64; messages, value bytes
    UNKEYED = "unkeyed"  # messages without a key
    BATCHES = "batches"  # at: 1 when its messages have several keys; batches, messages
    SLOT = "slot"  # at: the key's slot; messages, keys
    KEYS = "keys"  # at: lower power of two of a key's messages; keys, their messages
    TRIMMED = kit.TRIMMED


TEXT, BASE64 = 0, 1
"""Forms of a key's name: keys that are not UTF-8 are shown in base64."""


def cells_of(opened: Opened) -> pa.Table:
    """Return the cells of some entries and their messages."""
    entries, messages = opened.entries, opened.messages
    per_row = messages_of_rows(opened)
    keys = pc.coalesce(messages["ordering_key"], messages["key_bytes"])
    codes = keys.dictionary_encode()
    names, forms = _named(codes.dictionary.to_pylist())
    of_key = codes.indices
    keyed = keys.is_valid()
    counted = pa.array(per_row)
    return added(
        [
            cells(Cell.ENTRIES, at=entries["kind"], size=entries["entry_bytes"]),
            cells(Cell.MESSAGES, count=messages_of_entries(entries)),
            cells(
                Cell.KEY,
                name=pa.array(names, pa.string()).take(of_key),
                at=pa.array(forms, pa.int64()).take(of_key).fill_null(0),
                count=counted,
                size=messages["value_bytes"].fill_null(0),
            ),
            cells(
                Cell.UNKEYED,
                count=counted.filter(pc.invert(keyed)),
                size=messages["value_bytes"].fill_null(0).filter(pc.invert(keyed)),
            ),
            _batches(opened, of_key.fill_null(-1).to_numpy(zero_copy_only=False)),
        ]
    )


def _named(keys: Iterable[bytes]) -> tuple[list[str], list[int]]:
    names, forms = [], []
    for key in keys:
        try:
            names.append(key.decode())
            forms.append(TEXT)
        except UnicodeDecodeError:
            names.append(b64encode(key).decode())
            forms.append(BASE64)
    return names, forms


def key_of(name: str, form: int) -> bytes:
    """Return the key of a cell."""
    return b64decode(name) if form == BASE64 else name.encode()


def _batches(opened: Opened, codes: Any) -> pa.Table:
    """Return the cells of the batches with several messages, by whether these have several keys."""
    entries = opened.entries
    rows = entries["rows"].to_numpy()
    batch = (rows > 1) & (entries["kind"].to_numpy() == EntryKind.MESSAGES)
    if not batch.any():
        return CELLS.empty_table()
    starts = np.cumsum(rows) - rows
    starts, sizes = starts[batch], rows[batch]
    # Any two neighbours that differ make a batch of several keys.
    differs = np.concatenate([codes[1:] != codes[:-1], [False]]).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(differs)])
    several = (before[starts + sizes - 1] - before[starts]) > 0
    return cells(Cell.BATCHES, at=several.astype(np.int64), size=sizes)


def ranked(table: pa.Table, limit: int, selector: Selector) -> pa.Table:
    """Return the cells; of keys only the ``limit`` with most messages. All of them are counted by their slot (SLOT) and
    by their number of messages (KEYS). Each key must have one cell."""
    keys = of_kind(table, Cell.KEY)
    counts = keys["count"].to_numpy()
    slots = [
        slot_of_key(selector, key_of(name, form))
        for name, form in zip(keys["name"].to_pylist(), keys["at"].to_pylist(), strict=True)
    ]
    known = counts > 0
    return added(
        [
            without_kinds(table, [Cell.KEY]),
            top(keys, limit),
            cells(Cell.SLOT, at=np.array(slots, np.int64), count=counts, size=1),
            cells(Cell.KEYS, at=powers_of_two(counts[known]), size=counts[known]),
        ]
    )


def ranked_batches(
    batches: Iterable[pa.RecordBatch], limit: int, selector: Selector
) -> Iterator[pa.RecordBatch]:
    """Yield the cells of one shuffle partition, which has each cell once, with only the first keys."""
    gathered = Gathered()
    for batch in batches:
        gathered.add(ranked(pa.Table.from_batches([batch]).cast(CELLS), limit, selector))
    yield from gathered.take().to_batches()
