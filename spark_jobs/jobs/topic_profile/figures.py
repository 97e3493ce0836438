"""The figures of a topic profile by name, and what they mean in sentences. Pure."""

from math import ceil
from typing import Any

import pyarrow as pa

from spark_jobs.jobs.kit.cells import of_kind
from spark_jobs.jobs.kit.tables import ratio, short, summary
from spark_jobs.jobs.topic_profile.counting import Cell, size_ceiling
from spark_jobs.pulsar_source.columns import EntryKind

EVEN_SKEW_MAX = 1.5
"""Ratio of the busiest key to the average below which keys are called even."""
BATCHED_MIN = 1.05
"""Messages per entry from which a topic is called batched."""


class Figures:
    """The values of compacted cells, by name."""

    def __init__(self, cells: pa.Table) -> None:
        self.cells = cells
        entries = self.rows(Cell.ENTRIES)
        messages = self.rows(Cell.MESSAGES)
        self.entries = sum(row["count"] for row in entries)
        self.entries_of = {row["at"]: row["count"] for row in entries}
        self.stored_bytes = sum(row["bytes"] for row in entries)
        self.messages = sum(row["count"] for row in messages)
        self.messages_of = {row["at"]: row["count"] for row in messages}
        self.value_bytes = sum(row["bytes"] for row in messages)
        self.first, self.last = self._at(Cell.FIRST), self._at(Cell.LAST)
        self.size_max = self._at(Cell.LARGEST)
        self.sizes = self.rows(Cell.SIZE)
        self.sized = sum(row["count"] for row in self.sizes)
        keys = self.rows(Cell.KEYS)
        self.keys, self._keyed = sum(r["count"] for r in keys), sum(r["bytes"] for r in keys)
        self.busiest_key = max((row["count"] for row in self.rows(Cell.KEY)), default=None)
        self.trimmed = sum(row["count"] for row in self.rows(Cell.TRIMMED))
        self.before = self._packed(Cell.UNPACKED)
        self.after = self._packed(Cell.PACKED)

    def rows(self, kind: Cell) -> list[dict[str, Any]]:
        """Return the cells of a kind by ``at``, then by name."""
        rows: list[dict[str, Any]] = of_kind(self.cells, kind).to_pylist()
        return sorted(rows, key=lambda row: (row["at"], row["name"]))

    @property
    def key_skew(self) -> float | None:
        """Messages of the busiest key divided by those of the average key: 1 when all have as many."""
        return None if self.busiest_key is None else self.busiest_key * self.keys / self._keyed

    def _at(self, kind: Cell) -> int | None:
        rows = self.rows(kind)
        return rows[0]["at"] if rows else None

    def _packed(self, kind: Cell) -> int | None:
        """Return the bytes of compressed entries; None when there are none."""
        sizes = [row["bytes"] for row in self.rows(kind) if row["name"] != "NONE"]
        return sum(sizes) if sizes else None

    def size_at(self, share: float) -> int | None:
        """Return the size that ``share`` of the messages do not exceed: exact below 1,024 bytes, at most 0.2 %
        above."""
        size = percentile(self.sizes, share)
        return None if size is None else min(size, self.size_max or 0)

    def delay_at(self, kind: Cell, share: float) -> int | None:
        """Return the delay in ms that ``share`` of the messages with one do not exceed, as exactly as sizes."""
        return percentile(self.rows(kind), share)

    def early(self, kind: Cell) -> int:
        """Return the messages whose delay is negative, as the clocks differ."""
        return sum(row["count"] for row in self.rows(Cell.EARLY) if row["name"] == kind)

    @property
    def keys_of_half(self) -> int | None:
        """Fewest keys that have half of the keyed messages; up to twice as many when they are in one bucket."""
        remaining = self._keyed / 2
        keys = 0.0
        for row in reversed(self.rows(Cell.KEYS)):
            if row["bytes"] >= remaining:
                fewest: int = ceil(keys + remaining * row["count"] / row["bytes"])
                return fewest
            remaining -= row["bytes"]
            keys += row["count"]
        return None


def percentile(rows: list[dict[str, Any]], share: float) -> int | None:
    """Return the number that ``share`` of those counted by ``size_floor`` do not exceed; None when there are none."""
    remaining = ceil(share * sum(row["count"] for row in rows))
    for row in rows:
        remaining -= row["count"]
        if remaining <= 0:
            return size_ceiling(int(row["at"]))
    return None


def summary_of(figures: Figures) -> list[dict[str, Any]]:
    messages, entries = figures.messages, figures.entries
    span_s = 0.0
    if figures.first is not None and figures.last is not None:
        span_s = (figures.last - figures.first) / 1000
    producers = figures.rows(Cell.PRODUCERS)
    share = ratio(figures.busiest_key, messages)
    rows: list[tuple[str, str, Any, str]] = [
        ("messages", "Messages", messages, ""),
        ("entries", "Entries", entries, ""),
        ("stored_bytes", "Stored", figures.stored_bytes, "bytes"),
        ("value_bytes", "Values", figures.value_bytes, "bytes"),
        ("first_publish", "First published", figures.first, "ms"),
        ("last_publish", "Last published", figures.last, "ms"),
        ("rate_mean", "Mean rate", ratio(messages, span_s), "messages/s"),
        ("size_mean", "Mean size", ratio(figures.value_bytes, figures.sized), "bytes"),
        ("size_p50", "Median size", figures.size_at(0.5), "bytes"),
        ("size_p99", "99th percentile of size", figures.size_at(0.99), "bytes"),
        ("size_max", "Largest", figures.size_max, "bytes"),
        ("keys", "Different keys", figures.keys, ""),
        ("key_share", "Busiest key's share", None if share is None else 100 * share, "percent"),
        ("key_skew", "Busiest key vs average", figures.key_skew, "ratio"),
        ("keys_of_half", "Keys that have half of the keyed messages", figures.keys_of_half, ""),
        ("producers", "Producers", sum(row["count"] for row in producers), ""),
        ("batch_mean", "Messages per entry", ratio(messages, entries), ""),
        ("compression_ratio", "Compression", ratio(figures.before, figures.after), "ratio"),
        (
            "stored_per_message",
            "Stored per message",
            ratio(figures.stored_bytes, messages),
            "bytes",
        ),
    ]
    for kind, name in (
        (Cell.BEFORE, "event to publishing"),
        (Cell.ARRIVAL, "publishing to broker"),
    ):
        if figures.rows(kind) or figures.early(kind):
            rows += [
                (f"{kind}_p50", f"Median of {name}", figures.delay_at(kind, 0.5), "ms"),
                (f"{kind}_p99", f"99th percentile of {name}", figures.delay_at(kind, 0.99), "ms"),
                (f"{kind}_early", f"Negative times of {name}", figures.early(kind), ""),
            ]
    special = [
        ("encrypted", "Encrypted messages", figures.messages_of.get(EntryKind.ENCRYPTED), ""),
        ("chunked", "Messages in chunks", figures.messages_of.get(EntryKind.CHUNK), ""),
        ("markers", "Markers", figures.entries_of.get(EntryKind.MARKER), ""),
        (
            "unreadable",
            "Entries that cannot be read",
            figures.entries_of.get(EntryKind.UNREADABLE),
            "",
        ),
        ("trimmed", "Entries trimmed while reading", figures.trimmed, ""),
    ]
    rows += [row for row in special if row[2]]
    return summary(rows)


def conclusions_of(figures: Figures) -> list[str]:
    """Return a sentence each on keys, batching and compression; none without a message."""
    if not figures.messages or not figures.entries:
        return []
    texts = [_on_keys(figures), _on_batches(figures), _on_compression(figures)]
    return [*texts, *_on_delays(figures)]


def _on_keys(figures: Figures) -> str:
    skew, busiest = figures.key_skew, figures.busiest_key
    if skew is None or busiest is None:
        return "No message has a key."
    if figures.keys == 1:
        return "All keyed messages have the same key."
    share = f"{short(100 * busiest / figures.messages)} % of the messages"
    if skew < EVEN_SKEW_MAX:
        return f"Keys are even: the busiest of {figures.keys:,} has {share}."
    return f"Keys are uneven: the busiest of {figures.keys:,} has {share}, {short(skew)} times the average."


def _on_delays(figures: Figures) -> list[str]:
    texts = []
    for kind, name in (
        (Cell.BEFORE, "Half of the events are published within"),
        (Cell.ARRIVAL, "Half of the messages reach their broker within"),
    ):
        half, most = figures.delay_at(kind, 0.5), figures.delay_at(kind, 0.99)
        if half is not None and most is not None:
            early = figures.early(kind)
            clocks = f" {early:,} have negative times: clocks differ." if early else ""
            texts.append(f"{name} {half:,} ms, 99 % within {most:,} ms.{clocks}")
    return texts


def _on_batches(figures: Figures) -> str:
    per_entry = figures.messages / figures.entries
    batching = (
        f"Batched: {short(per_entry)} messages per entry"
        if per_entry >= BATCHED_MIN
        else "Not batched: 1 message per entry"
    )
    overhead = (figures.stored_bytes - figures.value_bytes) / figures.messages
    if figures.after is not None or overhead <= 0 or figures.sized < figures.messages:
        return f"{batching}."
    stored = figures.stored_bytes / figures.messages
    return (
        f"{batching}; {short(overhead)} of {short(stored)} stored bytes per message are overhead."
    )


def _on_compression(figures: Figures) -> str:
    before = ratio(figures.before, figures.after)
    if before is None:
        return "Not compressed."
    return f"Compressed: {short(before)} bytes become 1."
