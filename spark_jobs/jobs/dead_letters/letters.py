"""Groups of dead letters by origin, reason and shape, with their positions. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from engine.schema.values.letter_properties import normal, origin_of, reason_of, shape_of_value
from engine.wire.texts import readable

COLUMNS = (
    *("topic", "partition", "ledger_id", "entry_id", "batch_index", "batch_size", "chunk_id"),
    *(
        "encrypted",
        "publish_ms",
        "key",
        "properties",
        "value",
        "value_bytes",
        "unread",
        "unread_entries",
    ),
)
GROUPS_MAX = 1000
"""Groups of one task; letters beyond them are one group of MANY reasons."""
SAMPLES = 3
SHOWN_CHARS = 500
MANY = "(too many different reasons)"


class GroupKey(NamedTuple):
    """The common features of a group's letters; empty texts are not known."""

    topic: str
    origin: str
    subscription: str
    reason: str
    shape: str


@dataclass(slots=True)
class LetterGroup:
    """The letters of a group. ``positions``: ledger, first and last entry, and the indexes in a batch of one entry
    where other messages of that batch are in other groups."""

    count: int = 0
    size: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)
    positions: list[list[Any]] = field(default_factory=list)

    def add(self, other: "LetterGroup") -> None:
        """Add the letters of a later range."""
        self.count += other.count
        self.size += other.size
        self.first_ms = _outermost(min, self.first_ms, other.first_ms)
        self.last_ms = _outermost(max, self.last_ms, other.last_ms)
        self.samples = (self.samples + other.samples)[:SAMPLES]
        for position in other.positions:
            add_position(self.positions, position)

    def as_list(self) -> list[Any]:
        return [self.count, self.size, self.first_ms, self.last_ms, self.samples, self.positions]


def _outermost(choose: Any, first: int | None, second: int | None) -> int | None:
    known = [value for value in (first, second) if value is not None]
    return choose(known) if known else None


def add_position(positions: list[list[Any]], position: list[Any]) -> None:
    """Append a position, or extend the last one when it follows at once."""
    ledger_id, first, last, indexes = position
    if positions:
        before = positions[-1]
        if (
            before[0] == ledger_id
            and before[3] is None
            and indexes is None
            and before[2] + 1 == first
        ):
            before[2] = last
            return
    positions.append([ledger_id, first, last, indexes])


def groups_of(
    batches: Iterable[pa.RecordBatch],
) -> tuple[dict[GroupKey, LetterGroup], dict[str, int]]:
    """Return the groups of a range's messages in topic order, and how many entries could not be read by reason."""
    groups: dict[GroupKey, LetterGroup] = {}
    unread: dict[str, int] = {}
    entry: list[tuple[GroupKey, int]] = []
    place = (-1, -1)
    for rows in batches:
        for row in rows.to_pylist():
            if row["unread"]:
                unread[row["unread"]] = unread.get(row["unread"], 0) + row["unread_entries"]
                continue
            if (row["ledger_id"], row["entry_id"]) != place:
                _close_entry(groups, place, entry)
                place, entry = (row["ledger_id"], row["entry_id"]), []
            key = key_of(row)
            if key not in groups and len(groups) >= GROUPS_MAX:
                key = key._replace(reason=MANY, shape="")
            entry.append((key, row["batch_index"]))
            _add(groups.setdefault(key, LetterGroup()), row)
    _close_entry(groups, place, entry)
    return groups, unread


def _add(group: LetterGroup, row: Mapping[str, Any]) -> None:
    at_ms, chunk = row["publish_ms"], row["chunk_id"]
    if row["encrypted"]:
        group.count += row["batch_size"]
    else:
        group.count += int(chunk in (None, 0))
    group.size += row["value_bytes"] or 0
    group.first_ms = _outermost(min, group.first_ms, at_ms)
    group.last_ms = _outermost(max, group.last_ms, at_ms)
    if len(group.samples) < SAMPLES and chunk in (None, 0):
        group.samples.append(sample_of(row))


def _close_entry(
    groups: dict[GroupKey, LetterGroup],
    place: tuple[int, int],
    entry: Sequence[tuple[GroupKey, int]],
) -> None:
    """Note the position of an entry in the groups of its messages."""
    ledger_id, entry_id = place
    keys = dict.fromkeys(key for key, _ in entry)
    for key in keys:
        indexes = [index for owner, index in entry if owner == key] if len(keys) > 1 else None
        add_position(groups[key].positions, [ledger_id, entry_id, entry_id, indexes])


def key_of(row: Mapping[str, Any]) -> GroupKey:
    """Return the group of a letter."""
    properties = dict(row["properties"] or ())
    origin, subscription = origin_of(row["topic"], properties)
    return GroupKey(
        row["topic"], origin, subscription, normal(reason_of(properties)), shape_of(row)
    )


def shape_of(row: Mapping[str, Any]) -> str:
    """Return a short description of what a value is like."""
    value = row["value"]
    if row["encrypted"]:
        return "encrypted"
    if row["chunk_id"] is not None:
        return "in chunks"
    return shape_of_value(value)


def sample_of(row: Mapping[str, Any]) -> dict[str, Any]:
    properties = dict(row["properties"] or ())
    value = row["value"]
    index = f":{row['batch_index']}" if row["batch_index"] >= 0 else ""
    hidden = row["encrypted"] or row["chunk_id"] is not None
    return {
        "position": f"{row['ledger_id']}:{row['entry_id']}{index}",
        "publish_time": row["publish_ms"],
        "key": row["key"],
        "origin_id": properties.get("ORIGIN_MESSAGE_ID"),
        "reason": reason_of(properties),
        "value": None
        if value is None or hidden
        else readable(value[: 4 * SHOWN_CHARS])[:SHOWN_CHARS],
    }


# Transfer from tasks


def encoded(groups: Mapping[GroupKey, LetterGroup], unread: Mapping[str, int]) -> str:
    return json.dumps([[[list(key), group.as_list()] for key, group in groups.items()], unread])


def combined(texts: Iterable[str]) -> tuple[dict[GroupKey, LetterGroup], dict[str, int]]:
    """Return the groups of all tasks, whose texts are given in topic order."""
    groups: dict[GroupKey, LetterGroup] = {}
    unread: dict[str, int] = {}
    for text in texts:
        parts, missing = json.loads(text)
        for key, group in parts:
            groups.setdefault(GroupKey(*key), LetterGroup()).add(LetterGroup(*group))
        for reason, entries in missing.items():
            unread[reason] = unread.get(reason, 0) + entries
    return groups, unread


def ranked(groups: Mapping[GroupKey, LetterGroup]) -> list[tuple[GroupKey, LetterGroup]]:
    """Return the groups with most letters first."""
    return sorted(groups.items(), key=lambda item: (-item[1].count, item[0]))


def position_rows(groups: Sequence[tuple[GroupKey, LetterGroup]]) -> Iterator[list[Any]]:
    """Yield a row for each range of positions: number of the group, topic, ledger, first and last entry, indexes."""
    for number, (key, group) in enumerate(groups, start=1):
        for ledger_id, first, last, indexes in group.positions:
            text = None if indexes is None else ",".join(map(str, indexes))
            yield [number, key.topic, ledger_id, first, last, text]
