"""The order of a search, the place where it stopped, and the work of one task.

Each topic is scanned in its own order, so that one position per topic says what was searched. Ranges grow from small
ones on: the first hits appear soon, and a search that finds enough reads little.
"""

import heapq
import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from engine.wire.texts import readable
from spark_jobs.jobs.find.matching import Filters, matching
from spark_jobs.jobs.kit.messages import TRIMMED, rows_of_range
from spark_jobs.pulsar_source.options import OptionError, Options
from spark_jobs.pulsar_source.partitions import LedgerRange

SHOWN_CHARS = 1000
"""Characters of a value or of all properties in a result."""
FIRST_ENTRIES = 500
"""Entries of a topic that are searched first; the next part has twice as many."""
TASKS_AT_ONCE_MAX = 64
COLUMNS = (
    *("topic", "partition", "ledger_id", "entry_id", "batch_index", "batch_size", "chunk_id"),
    *("encrypted", "publish_ms", "event_time", "key", "producer_name", "properties", "value"),
    *("value_bytes", "entry_bytes", "unread", "unread_entries"),
)
FOUND_SQL = "task bigint, found string"
"""One row per task: its number among those at once, and what it found as JSON."""
Hit = dict[str, Any]
Found = tuple[list[Hit], Mapping[str, int]]
"""The hits of a range in scan order, and the Counts of what was scanned for them."""


class HitPosition(NamedTuple):
    """The place of a message; without an index in a batch that of its whole entry."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1

    @classmethod
    def parse(cls, text: str) -> "HitPosition":
        """Parse ``ledger:entry[:index]``. Raises ValueError."""
        return cls(*map(int, text.split(":")))

    def is_behind(self, other: "HitPosition", newest: bool) -> bool:
        """Return whether a scan that ended with ``other`` comes to this position later."""
        if self[:2] != other[:2]:
            return (self[:2] < other[:2]) == newest
        if other.batch_index < 0:
            return False
        return self.batch_index != other.batch_index and (
            (self.batch_index < other.batch_index) == newest
        )

    def __str__(self) -> str:
        parts = self if self.batch_index >= 0 else self[:2]
        return ":".join(map(str, parts))


@dataclass(slots=True)
class ScanCounts:
    """Amounts that were scanned. ``closed``: entries whose values cannot be searched, encrypted or in chunks."""

    messages: int = 0
    entries: int = 0
    stored_bytes: int = 0
    closed: int = 0
    unreadable: int = 0
    trimmed: int = 0

    def add(self, other: Mapping[str, int]) -> None:
        for name, value in other.items():
            setattr(self, name, getattr(self, name) + value)


def scan(
    options: Options,
    ledger_range: LedgerRange,
    filters: Filters,
    limit: int,
    newest: bool,
    after: HitPosition | None = None,
) -> Found:
    """Return the first ``limit`` hits of a range in scan order, behind ``after``, and what was scanned.

    In the oldest-first order it stops at the last of them; in the other it reads the whole range.
    """
    hits: deque[Hit] = deque(maxlen=limit)
    counts = ScanCounts()
    entries = 0
    for rows in rows_of_range(options, ledger_range, (*COLUMNS, *filters.columns)):
        unread = rows.filter(rows["unread"].is_valid())
        for row in unread.to_pylist():
            trimmed = row["unread"] == TRIMMED
            name = "trimmed" if trimmed else "unreadable"
            counts.add({name: row["unread_entries"]})
            entries += 0 if trimmed else row["unread_entries"]
        rows = rows.filter(rows["unread"].is_null())
        firsts = _firsts(rows)
        counts.add(
            {
                "messages": _messages(rows),
                "stored_bytes": sum(firsts["entry_bytes"].to_pylist()),
                "closed": sum(
                    bool(encrypted or chunk is not None)
                    for encrypted, chunk in zip(
                        firsts["encrypted"].to_pylist(), firsts["chunk_id"].to_pylist(), strict=True
                    )
                ),
            }
        )
        entries += firsts.num_rows
        results = matching(rows, filters)
        for index in range(results.num_rows):
            position = HitPosition(
                *(results[name][index].as_py() for name in ("ledger_id", "entry_id", "batch_index"))
            )
            if after is None or position.is_behind(after, newest):
                hits.append(hit_of(results.slice(index, 1)))
                if not newest and len(hits) == limit:
                    break
        if not newest and len(hits) == limit:
            break
    counts.entries = entries
    ordered = list(reversed(hits)) if newest else list(hits)
    return ordered, {name: getattr(counts, name) for name in counts.__slots__}


def _firsts(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the first row of each entry."""
    ids = rows["entry_id"].to_pylist()
    return rows.take(
        pa.array([i for i, entry in enumerate(ids) if i == 0 or ids[i - 1] != entry], pa.int32())
    )


def _messages(rows: pa.RecordBatch) -> int:
    """Return the number of messages: an encrypted batch has several, of a message in chunks the first chunk counts."""
    columns = (rows[name].to_pylist() for name in ("encrypted", "batch_size", "chunk_id"))
    return sum(
        size if encrypted else int(chunk in (None, 0))
        for encrypted, size, chunk in zip(*columns, strict=True)
    )


def hit_of(row: pa.RecordBatch) -> Hit:
    """Return the one row as a hit: plain values that JSON has."""
    [values] = row.to_pylist()
    event = values["event_time"]
    value = values["decoded"] if values.get("decoded") is not None else values["value"]
    properties = json.dumps(dict(values["properties"] or ()), ensure_ascii=False)
    return {
        "topic": values["topic"],
        "position": [values["ledger_id"], values["entry_id"], values["batch_index"]],
        "publish_time": values["publish_ms"],
        "event_time": None if event is None else int(event.timestamp() * 1000),
        "key": values["key"],
        "producer": values["producer_name"],
        "properties": properties[:SHOWN_CHARS],
        "value": _shown(value, values["encrypted"], values["chunk_id"]),
        "value_bytes": values["value_bytes"],
    }


def _shown(value: str | bytes | None, encrypted: bool, chunk_id: int | None) -> str | None:
    if value is None:
        return None
    if encrypted:
        return "(encrypted)"
    if chunk_id is not None:
        return "(in chunks)"
    if isinstance(value, bytes):
        value = readable(value[: 4 * SHOWN_CHARS])
    return value[:SHOWN_CHARS]


# The order of a search


class SearchedTopic:
    """One topic of a search: the ranges that are left, in scan order, and where it stopped."""

    def __init__(
        self, name: str, ranges: Sequence[LedgerRange], newest: bool, after: HitPosition | None
    ) -> None:
        self.name = name
        self.newest = newest
        self.after = after
        ordered = [_cut(ledger_range, after, newest) for ledger_range in ranges]
        left = [ledger_range for ledger_range in ordered if ledger_range is not None]
        self._left = deque(reversed(left) if newest else left)
        self._step = FIRST_ENTRIES

    @property
    def finished(self) -> bool:
        return not self._left

    @property
    def entries_left(self) -> int:
        return sum(ledger_range.entries for ledger_range in self._left)

    def take(self, count: int) -> list[LedgerRange]:
        """Return the next ``count`` ranges in scan order, small ones first."""
        taken: list[LedgerRange] = []
        while self._left and len(taken) < count:
            ledger_range = self._left.popleft()
            if ledger_range.entries > self._step:
                ledger_range, rest = _split(ledger_range, self._step, self.newest)
                self._left.appendleft(rest)
                self._step *= 4
            taken.append(ledger_range)
        return taken

    def give_back(self, ranges: Iterable[LedgerRange]) -> None:
        """Take back ranges that count as not scanned."""
        self._left.extendleft(reversed(list(ranges)))

    def stopped_at(self, ledger_range: LedgerRange) -> None:
        """Note that a range was scanned to its end."""
        entry = ledger_range.first if self.newest else ledger_range.last
        self.after = HitPosition(ledger_range.ledger_id, entry)


def _cut(ledger_range: LedgerRange, after: HitPosition | None, newest: bool) -> LedgerRange | None:
    """Return what of a range lies behind the position; None when nothing does."""
    if after is None:
        return ledger_range
    ledger_id, entry_id = ledger_range.ledger_id, after.entry_id
    whole = int(after.batch_index < 0)  # nothing of that entry is left
    if ledger_id != after.ledger_id:
        return ledger_range if (ledger_id < after.ledger_id) == newest else None
    if newest:
        cut = replace(ledger_range, last=min(ledger_range.last, entry_id - whole))
    else:
        cut = replace(ledger_range, first=max(ledger_range.first, entry_id + whole))
    return cut if cut.entries > 0 else None


def _split(
    ledger_range: LedgerRange, entries: int, newest: bool
) -> tuple[LedgerRange, LedgerRange]:
    if newest:
        at = ledger_range.last - entries + 1
        return replace(ledger_range, first=at), replace(ledger_range, last=at - 1)
    at = ledger_range.first + entries
    return replace(ledger_range, last=at - 1), replace(ledger_range, first=at)


@dataclass
class MessageSearch:
    """A search over topics, part after part.

    ``hits``: those found so far, by publish time as far as each topic's own order allows.
    """

    topics: list[SearchedTopic]
    limit: int
    newest: bool
    hits: list[Hit] = field(default_factory=list)
    counts: ScanCounts = field(default_factory=ScanCounts)
    _at_once: int = 1

    @classmethod
    def begin(
        cls,
        planned: Sequence[LedgerRange],
        limit: int,
        newest: bool,
        after: Mapping[str, HitPosition],
    ) -> "MessageSearch":
        by_topic: dict[str, list[LedgerRange]] = {}
        for ledger_range in planned:
            by_topic.setdefault(ledger_range.topic, []).append(ledger_range)
        topics = [
            SearchedTopic(name, ranges, newest, after.get(name))
            for name, ranges in by_topic.items()
        ]
        return cls(topics, limit, newest)

    @property
    def finished(self) -> bool:
        return all(topic.finished for topic in self.topics)

    @property
    def entries_left(self) -> int:
        """Entries that were not scanned yet."""
        return sum(topic.entries_left for topic in self.topics)

    @property
    def full(self) -> bool:
        return len(self.hits) >= self.limit

    def next_part(self) -> list[tuple[SearchedTopic, LedgerRange]]:
        """Return the next ranges to scan at once, with their topics. All topics advance together."""
        per_topic = max(1, self._at_once // max(len(self.topics), 1))
        self._at_once = min(2 * self._at_once, TASKS_AT_ONCE_MAX)
        return [(topic, taken) for topic in self.topics for taken in topic.take(per_topic)]

    def scanned(
        self,
        part: Sequence[tuple[SearchedTopic, LedgerRange]],
        results: Sequence[Found],
    ) -> None:
        """Take the hits of a part's ranges, at most those that are missing; each topic's position follows."""
        for _, counts in results:
            self.counts.add(counts)
        sign = -1 if self.newest else 1
        of_topic: dict[str, list[tuple[int, Hit]]] = {}
        for number, (hits, _) in enumerate(results):
            of_topic.setdefault(part[number][0].name, []).extend((number, hit) for hit in hits)
        last: dict[str, HitPosition] = {}
        merged = heapq.merge(
            *of_topic.values(), key=lambda item: sign * (item[1]["publish_time"] or 0)
        )
        taken: dict[str, list[int]] = {}
        for number, hit in merged:
            if self.full:
                break
            self.hits.append(hit)
            taken.setdefault(hit["topic"], []).append(number)
            last[hit["topic"]] = HitPosition(*hit["position"])
        for topic in self.topics:
            mine = [number for number, (owner, _) in enumerate(part) if owner is topic]
            for place, number in enumerate(mine):
                count = len(results[number][0])
                # With as many hits as were asked for, a task may have left out others.
                if count == self.limit or taken.get(topic.name, []).count(number) < count:
                    topic.after = last.get(topic.name, topic.after)
                    topic.give_back(part[i][1] for i in mine[place:])
                    break
                topic.stopped_at(part[number][1])

    def after(self) -> str:
        """Return where the search stopped, as ``positions_of`` reads it; empty when it did not begin."""
        reached = [(topic.name, topic.after) for topic in self.topics if topic.after is not None]
        if len(self.topics) == 1:
            return "".join(str(position) for _, position in reached)
        return " ".join(f"{name}={position}" for name, position in reached)


def positions_of(text: str, topics: Iterable[str]) -> dict[str, HitPosition]:
    """Return the positions at which an earlier search stopped, by topic. Raises OptionError."""
    names = list(dict.fromkeys(topics))
    positions: dict[str, HitPosition] = {}
    try:
        for part in text.split():
            name, mark, position = part.rpartition("=")
            if not mark and len(names) != 1:
                raise ValueError("it names no topic")
            positions[name if mark else names[0]] = HitPosition.parse(position)
    except (ValueError, TypeError) as error:
        raise OptionError(
            f"parameter after must be what an earlier result names, ledger:entry or topic=ledger:entry, not {text!r}"
        ) from error
    return positions
