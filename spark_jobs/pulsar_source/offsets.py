"""Places in the ledgers of topics, the entries between two of them, and the extent of a micro-batch. Pure.

A place is the first entry that is not read yet, so starts are inclusive and ends exclusive. A stream's offset counts
what it has read, too: the number of entries between two offsets is known whatever happens to the ledgers, and a
lost entry is distinguished from one that never existed (Q1, Q2).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from engine.base.ids import Position
from spark_jobs.pulsar_source.options import position_of
from spark_jobs.pulsar_source.partitions import LedgerRange

ENTRY_BYTES = 1024
"""Assumed bytes of an entry in a ledger whose size is not known yet."""


class StoredLedger(NamedTuple):
    """A ledger of a topic: readable ``entries``, their ``size`` in bytes (0: unknown), ``extra`` as
    ``LedgerSpan.extra``, and when it was closed (0: open)."""

    ledger_id: int
    entries: int
    size: int = 0
    extra: bytes = b""
    closed_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicLedgers:
    """The ledgers that a topic had at one moment, in order.

    ``partition``: its index, -1 for a topic that is no partition. ``creation`` differs between topics of this name that
    exist one after the other. ``aborted``: aborted transactions, whose messages are not read.
    """

    topic: str
    partition: int
    creation: int
    ledgers: tuple[StoredLedger, ...]
    aborted: frozenset[tuple[int, int]] = frozenset()

    @property
    def start(self) -> Position:
        """The place of the first entry."""
        return Position(self.ledgers[0].ledger_id, 0) if self.ledgers else Position(-1, 0)

    @property
    def end(self) -> Position:
        """The place behind the last entry."""
        if not self.ledgers:
            return Position(-1, 0)
        return Position(self.ledgers[-1].ledger_id, self.ledgers[-1].entries)

    def lists(self, ledger_id: int) -> bool:
        """Return whether the topic still has the ledger."""
        return any(ledger.ledger_id == ledger_id for ledger in self.ledgers)

    def last_before(self, place: Position) -> Position | None:
        """Return the position of the last entry before a place; None when there is none."""
        ranges = self.between(Position(-1, 0), place)
        return Position(ranges[-1].ledger_id, ranges[-1].last) if ranges else None

    def closed_after(self, time_ms: int) -> "TopicLedgers":
        """Return the ledgers without those that were closed before a time."""
        kept = (ledger for ledger in self.ledgers if not 0 < ledger.closed_ms < time_ms)
        return replace(self, ledgers=tuple(kept))

    def before(self, stop: Position) -> "TopicLedgers":
        """Return the ledgers as if there were nothing from ``stop`` on."""
        kept = [ledger for ledger in self.ledgers if ledger.ledger_id <= stop[0]]
        if kept and kept[-1].ledger_id == stop[0] and stop[1] < kept[-1].entries:
            cut = kept[-1]
            size = cut.size * stop[1] // cut.entries
            kept[-1] = cut._replace(entries=stop[1], size=size, closed_ms=0)
        return replace(self, ledgers=tuple(kept))

    def between(self, start: Position, stop: Position | None = None) -> list[LedgerRange]:
        """Return the entries from ``start`` on and before ``stop`` (None: all), a range for each ledger."""
        ranges = []
        for ledger in self.ledgers:
            number = ledger.ledger_id
            first = 0 if number > start[0] else start[1] if number == start[0] else ledger.entries
            last = ledger.entries - 1
            if stop is not None and number >= stop[0]:
                last = min(last, stop[1] - 1) if number == stop[0] else -1
            if first <= last:
                size = ledger.size * (last + 1 - first) // ledger.entries
                name = self.topic
                ranges.append(
                    LedgerRange(
                        *(number, first, last, self.partition, name),
                        size=size,
                        extra=ledger.extra,
                        aborted=self.aborted,
                    )
                )
        return ranges


@dataclass(frozen=True, slots=True)
class TopicOffset:
    """The extent to which a stream has read a topic.

    - ``at``: the first entry that was not read
    - ``read``: entries read since the stream began
    - ``unread``: entries from ``at`` on that existed when the offset was made
    - ``creation``: of the topic, see TopicLedgers
    """

    at: Position
    read: int = 0
    unread: int = 0
    creation: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the form in a checkpoint; its ``at`` is ``ledger:entry``."""
        return {
            "at": f"{self.at[0]}:{self.at[1]}",
            "read": self.read,
            "unread": self.unread,
            "creation": self.creation,
        }

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> "TopicOffset":
        """Read the form in a checkpoint. Raises ValueError, KeyError."""
        numbers = (int(fields[name]) for name in ("read", "unread", "creation"))
        return cls(position_of(fields["at"]), *numbers)


Offsets = dict[str, TopicOffset]
"""Offsets of a stream by the full names of topics. A topic that is missing is read from its beginning."""


def to_json(offsets: Offsets) -> dict[str, Any]:
    """Return a stream's offset as Spark stores it."""
    return {topic: offset.to_json() for topic, offset in sorted(offsets.items())}


def of_json(stored: Mapping[str, Any]) -> Offsets:
    """Read a stream's offset. Raises ValueError, KeyError."""
    return {topic: TopicOffset.of_json(fields) for topic, fields in stored.items()}


class DataLossError(Exception):
    """Entries that a stream has not read are gone."""


class Ahead(NamedTuple):
    """Entries that a stream can read of a topic: those of ``ranges``, from ``offset`` on.

    ``lost``: why the entries before them were not read, empty when there were none.
    """

    offset: TopicOffset
    ranges: list[LedgerRange]
    lost: str = ""

    @property
    def entries(self) -> int:
        return sum(ledger_range.entries for ledger_range in self.ranges)

    @property
    def size(self) -> int:
        return sum(map(bytes_of, self.ranges))


def bytes_of(ledger_range: LedgerRange) -> int:
    """Return the bytes of a range's entries, estimated where they are not known."""
    return ledger_range.size or ledger_range.entries * ENTRY_BYTES


def ahead(offset: TopicOffset | None, known: TopicLedgers) -> Ahead:
    """Return what follows ``offset`` (None: the topic is new to the stream) in the ledgers of now.

    Entries are lost only when some that the stream knew are gone. No loss are: a ledger that was trimmed after all of
    it was read, an empty ledger that was deleted, a topic that was deleted and made again.
    """
    if offset is None:
        return Ahead(TopicOffset(known.start, creation=known.creation), known.between(known.start))
    lost = ""
    if not known.lists(offset.at[0]) and offset.creation == known.creation and offset.unread:
        following = [
            ledger.ledger_id for ledger in known.ledgers if ledger.ledger_id > offset.at[0]
        ]
        until = f"before ledger {following[0]}" if following else "up to the topic's end"
        lost = (
            f"entries from {offset.at[1]} of ledger {offset.at[0]} on, {until}, were trimmed before"
            f" they were read; {offset.unread} entries from there on were known"
        )
    elif known.lists(offset.at[0]):
        [entries] = [ledger.entries for ledger in known.ledgers if ledger[0] == offset.at[0]]
        closed = offset.at[0] != known.ledgers[-1].ledger_id or known.ledgers[-1].closed_ms
        if closed and offset.at[1] > entries:
            lost = (
                f"ledger {offset.at[0]} ends with entry {entries - 1}, but entries up to"
                f" {offset.at[1] - 1} of it were read"
            )
    recreated = offset.creation != known.creation and not known.lists(offset.at[0])
    start = known.start if recreated else offset.at
    ranges = known.between(start)
    at = Position(ranges[0].ledger_id, ranges[0].first) if ranges else start
    if not ranges and not lost:
        return Ahead(offset, [])  # unchanged: otherwise a batch without rows would run
    return Ahead(replace(offset, at=at, unread=0, creation=known.creation), ranges, lost)


def advanced(coming: Ahead, entries: int) -> TopicOffset:
    """Return the offset when ``entries`` of ``coming`` have been read."""
    if not coming.ranges:
        return coming.offset
    left, at = entries, coming.offset.at
    for ledger_range in coming.ranges:
        if left < ledger_range.entries:
            at = Position(ledger_range.ledger_id, ledger_range.first + left)
            break
        left -= ledger_range.entries
        at = Position(ledger_range.ledger_id, ledger_range.last + 1)
    offset = coming.offset
    return replace(offset, at=at, read=offset.read + entries, unread=coming.entries - entries)


def entries_within(ranges: Iterable[LedgerRange], bytes_max: float) -> int:
    """Return how many entries of ``ranges`` have at most ``bytes_max`` bytes, by the mean of each ledger."""
    count = 0
    for ledger_range in ranges:
        size = bytes_of(ledger_range)
        if size > bytes_max:
            return count + int(ledger_range.entries * bytes_max // size)
        count += ledger_range.entries
        bytes_max -= size
    return count


def shares(topics: Sequence[Ahead], entries_max: int | None, bytes_max: int | None) -> list[int]:
    """Return how many entries of each topic a micro-batch reads: within both limits, in proportion to what is ahead, at
    least one in all if there is any."""
    counts = [coming.entries for coming in topics]
    total = sum(counts)
    if entries_max is not None and total > entries_max:
        counts = [count * entries_max // total for count in counts]
    size = sum(coming.size for coming in topics)
    if bytes_max is not None and size > bytes_max:
        within = (
            entries_within(coming.ranges, coming.size * bytes_max / size) for coming in topics
        )
        counts = [min(pair) for pair in zip(counts, within, strict=True)]
    if total and not any(counts):
        largest = max(range(len(topics)), key=lambda i: topics[i].entries)
        counts[largest] = 1
    return counts


def batch_ranges(
    start: TopicOffset | None, end: TopicOffset, known: TopicLedgers | None
) -> tuple[list[LedgerRange], str]:
    """Return the entries between two offsets, and why some of them cannot be read, empty when all can.

    The same offsets give the same entries at any time. ``known`` is None for a topic that was deleted.
    """
    wanted = end.read - (start.read if start is not None else 0)
    if known is None or (known.creation != end.creation and not known.lists(end.at[0])):
        ranges = []
    else:
        again = start is None or (start.creation != end.creation and not known.lists(start.at[0]))
        begin = Position(-1, 0) if start is None or again else start.at
        ranges = known.between(begin, end.at)
    missing = wanted - sum(ledger_range.entries for ledger_range in ranges)
    if missing < 0:
        raise DataLossError(
            f"the offsets {start} and {end} have {wanted} entries between them, the ledgers {wanted - missing}: the"
            " checkpoint is not of this topic"
        )
    if not missing:
        return ranges, ""
    if known is None:
        return ranges, f"the topic was deleted before {missing} of its entries were read"
    gone = start.at if start is not None else Position(-1, 0)
    kept = ", ".join(f"{r.ledger_id}" for r in ranges) or "none"
    return ranges, (
        f"{missing} of the {wanted} entries from {gone[1]} of ledger {gone[0]} to before entry"
        f" {end.at[1]} of ledger {end.at[0]} were trimmed before they were read; of their ledgers the topic still has:"
        f" {kept}"
    )
