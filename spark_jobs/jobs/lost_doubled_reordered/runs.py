"""Runs of consecutive sequence ids, which a task returns of its messages. Pure.

A producer's messages in topic order are cut wherever a sequence id is not one above the last; a producer without faults
has one run, however many messages it sent.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.jobs.kit.entries import messages_of_rows
from spark_jobs.pulsar_source.columns import Opened

COLUMNS = ("sequence_id", "batch_index")
RUNS_MAX = 5000
"""Runs of one producer that a task keeps; with more its sequence ids are not consecutive, and cannot be judged."""

RUNS = pa.schema(
    [
        ("topic", pa.string()),
        ("source", pa.string()),
        ("producer", pa.string()),
        ("task", pa.int64()),
        ("number", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("first_ms", pa.int64()),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("batch_index", pa.int64()),
        ("messages", pa.int64()),
    ]
)
"""A run of the sequence ids ``first`` to ``last``, and its first message.

``source``: the cluster that it was copied from, empty for one published here. ``task`` and ``number``: order of the
runs. ``messages``: more than the ids of the run where the rest of a task is not kept apart.
"""
RUNS_SQL = (
    "topic string, source string, producer string, task bigint, number bigint, first bigint, last bigint,"
    " first_ms bigint, ledger_id bigint, entry_id bigint, batch_index bigint, messages bigint"
)
_LAST, _MESSAGES = 6, 11


class Sequences:
    """The runs of one task, whose messages are added in topic order."""

    def __init__(self, topic: str, ledger_id: int, task: int) -> None:
        self._topic, self._ledger_id, self._task = topic, ledger_id, task
        self._runs: dict[tuple[str, str], list[list[Any]]] = {}

    def add(self, opened: Opened, from_ms: int = 0, to_ms: int = 0) -> None:
        """Add messages published from ``from_ms`` until before ``to_ms``; 0 sets no bound."""
        entries, of_row = opened.entries, opened.entry_of_message()
        times = entries["publish_ms"].fill_null(0).to_numpy()
        counts = messages_of_rows(opened)
        kept = (counts > 0) & _between(times, from_ms, to_ms)[of_row]
        if not kept.any():
            return
        rows = np.flatnonzero(kept)
        names = _codes(entries)
        producers = names[of_row][rows]
        order = np.argsort(producers, kind="stable")
        rows, producers = rows[order], producers[order]
        ids = opened.messages["sequence_id"].to_numpy()[rows].astype(np.int64)
        counts = counts[rows]
        begins = np.ones(len(rows), bool)
        begins[1:] = (producers[1:] != producers[:-1]) | (ids[1:] != ids[:-1] + counts[:-1])
        starts = np.flatnonzero(begins)
        stops = np.append(starts[1:], len(rows)) - 1
        totals = np.add.reduceat(counts, starts)
        sources, producer_names = entries["replicated_from"], entries["producer_name"]
        entry_ids = entries["entry_id"].to_numpy()
        indexes = opened.messages["batch_index"].to_numpy()
        for start, stop, total in zip(
            starts.tolist(), stops.tolist(), totals.tolist(), strict=True
        ):
            row = rows[start]
            entry = int(of_row[row])
            self._append(
                (sources[entry].as_py() or "", producer_names[entry].as_py() or ""),
                int(ids[start]),
                int(ids[stop] + counts[stop] - 1),
                (int(times[entry]), self._ledger_id, int(entry_ids[entry]), int(indexes[row])),
                total,
            )

    def _append(
        self,
        name: tuple[str, str],
        first: int,
        last: int,
        place: tuple[int, int, int, int],
        messages: int,
    ) -> None:
        runs = self._runs.setdefault(name, [])
        if runs and (first == runs[-1][_LAST] + 1 or len(runs) >= RUNS_MAX):
            runs[-1][_LAST] = last
            runs[-1][_MESSAGES] += messages
            return
        number = len(runs)
        runs.append([self._topic, *name, self._task, number, first, last, *place, messages])

    def table(self) -> pa.Table:
        rows = [run for runs in self._runs.values() for run in runs]
        columns = zip(*rows, strict=True) if rows else [()] * len(RUNS)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, RUNS, strict=True)]
        return pa.Table.from_arrays(arrays, schema=RUNS)


def _between(times: Any, from_ms: int, to_ms: int) -> Any:
    return (times >= from_ms) & (times < (to_ms or 2**62))


def _codes(entries: pa.RecordBatch) -> Any:
    """Return a number for each entry that is the same for entries of one producer of one cluster."""
    producers = entries["producer_name"].fill_null("").dictionary_encode()
    sources = entries["replicated_from"].fill_null("").dictionary_encode()
    codes = producers.indices.to_numpy().astype(np.int64)
    return codes * len(sources.dictionary) + sources.indices.to_numpy()
