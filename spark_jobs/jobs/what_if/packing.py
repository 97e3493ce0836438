"""Messages packed again with each codec and batch size, as cells. Pure, but for the time that it measures."""

import time
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from engine.wire.batches import Message, pack_entry
from engine.wire.compression import LZ4, NONE, SNAPPY, ZLIB, ZSTD, codec_name
from spark_jobs.jobs.kit import cells as kit
from spark_jobs.jobs.kit.cells import added, cells
from spark_jobs.pulsar_source.columns import EntryKind, Opened

COLUMNS = ("key", "value", "value_bytes", "properties", "event_ms", "sequence_id")
CODECS = (NONE, LZ4, ZLIB, ZSTD, SNAPPY)
BATCHES = (1, 10, 100, 1000)
BATCH_BYTES_MAX = 128 << 10
"""Bytes of values in one batch: the default of Pulsar's clients."""
SAMPLE_BYTES = 1 << 20
SAMPLE_MESSAGES = 2000
SAMPLE_ENTRIES = 2000


class Cell(StrEnum):
    """Kinds of cells: the meaning of ``name`` and ``at``, and what is counted."""

    ENTRIES = "entries"  # at: columns.EntryKind; entries that were sampled, stored bytes
    NOW = "now"  # sampled messages that were packed again, their part of the stored bytes
    PACKED = "packed"  # name: the codec, at: messages of a batch; messages, bytes as stored
    TIME = "time"  # name: the codec; microseconds of packing batches of 100, value bytes
    FIRST = "first"  # name: the topic or partition, at: time at which its first sampled entry was published, ms
    TRIMMED = kit.TRIMMED


def cells_of(sampled: Iterable[Opened], topic: str) -> pa.Table:
    """Return the cells of the first messages of ``sampled``, entries of a topic that need not be read to the end."""
    parts: list[pa.Table] = []
    messages: list[Message] = []
    stored, size = 0.0, 0
    for opened in sampled:
        entries = opened.entries
        parts.append(cells(Cell.ENTRIES, at=entries["kind"], size=entries["entry_bytes"]))
        times = entries["publish_ms"].drop_null()
        if len(parts) == 1 and len(times):
            parts.append(cells(Cell.FIRST, name=topic, at=times[:1]))
        for message, share in messages_of(opened):
            if len(messages) < SAMPLE_MESSAGES and size < SAMPLE_BYTES:
                messages.append(message)
                stored += share
                size += len(message.value or b"")
        if len(messages) == SAMPLE_MESSAGES or size >= SAMPLE_BYTES:
            break
    if messages:
        parts.append(cells(Cell.NOW, at=np.array([0]), count=len(messages), size=round(stored)))
        parts += packed(messages)
    return added(parts or [kit.CELLS.empty_table()])


def messages_of(opened: Opened) -> Iterator[tuple[Message, float]]:
    """Yield the messages that can be packed again, each with its part of its entry's stored bytes."""
    entries, columns = opened.entries, opened.messages
    of_row = opened.entry_of_message().tolist()
    kinds, rows = entries["kind"].to_pylist(), entries["rows"].to_pylist()
    sizes = entries["entry_bytes"].to_pylist()
    for row, entry in enumerate(of_row):
        if kinds[entry] == EntryKind.MESSAGES:
            message = Message(
                columns["value"][row].as_py(),
                key=columns["key"][row].as_py(),
                properties=dict(columns["properties"][row].as_py()),
                event_ms=columns["event_ms"][row].as_py() or 0,
                sequence_id=columns["sequence_id"][row].as_py(),
            )
            yield message, sizes[entry] / rows[entry]


def packed(messages: Sequence[Message]) -> Iterator[pa.Table]:
    """Yield the cells of messages that are packed with each codec and batch size."""
    for codec in CODECS:
        for batch in BATCHES:
            began = time.perf_counter()
            size = sum(
                len(
                    pack_entry(
                        part,
                        producer_name="cluster-1-100",
                        publish_ms=1_700_000_000_000,
                        batched=batch > 1,
                        compression=codec,
                    )
                )
                for part in batches_of(messages, batch)
            )
            took = time.perf_counter() - began
            name, at = codec_name(codec), np.array([batch])
            yield cells(Cell.PACKED, name=name, at=at, count=len(messages), size=size)
            if batch == 100:
                values = sum(len(message.value or b"") for message in messages)
                yield cells(
                    Cell.TIME, name=name, at=np.array([0]), count=round(took * 1e6), size=values
                )


def batches_of(messages: Sequence[Message], most: int) -> Iterator[list[Message]]:
    """Yield batches of at most ``most`` messages and about BATCH_BYTES_MAX."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        own = len(message.value or b"")
        if batch and (len(batch) == most or size + own > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += own
    if batch:
        yield batch


def spread(ranges: Sequence[Any], count: int) -> list[Any]:
    """Return at most ``count`` of the ranges, spread evenly, with the first and the last."""
    if len(ranges) <= count:
        return list(ranges)
    return [ranges[round(i * (len(ranges) - 1) / max(count - 1, 1))] for i in range(count)]
