"""Drift of fields from counted shapes: what changed, when, and which message began it. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from spark_jobs.jobs.field_drift.shapes import NO_DOCUMENT, SHAPES, First, fields_of
from spark_jobs.jobs.kit.series import point_step_ms

SETTLED = 0.02
"""Share of a topic's entries that must be read before a new or missing field is drift: fields that come and go from the
beginning are optional."""
Place = Callable[[First], float]
"""Returns how far in its topic a message is, 0 to 1."""


class FieldChange(NamedTuple):
    """A change of a field. ``first``: the first message with it. ``messages``: all with it."""

    field: str
    change: str
    first: First
    messages: int


class Shape(NamedTuple):
    types: Mapping[str, frozenset[str]]
    messages: int
    first: First


class Drift:
    """Shapes of a topic. ``documents``: messages that could be read as documents."""

    def __init__(self, shapes: pa.Table, place: Place) -> None:
        rows = shapes.to_pylist()
        by_text: dict[str, list[tuple[int, First]]] = {}
        self.versions: dict[int, tuple[int, First]] = {}
        for row in rows:
            first = First(*(row[name] for name in SHAPES.names[5:]))
            by_text.setdefault(row["shape"], []).append((row["messages"], first))
            count, earliest = self.versions.get(row["version"], (0, first))
            self.versions[row["version"]] = count + row["messages"], min(earliest, first)
        self.problems = {
            text.removeprefix(NO_DOCUMENT): _sum(parts)
            for text, parts in by_text.items()
            if text.startswith(NO_DOCUMENT)
        }
        self.shapes = [
            Shape(_types(text), *_sum(parts))
            for text, parts in by_text.items()
            if not text.startswith(NO_DOCUMENT)
        ]
        self.shapes.sort(key=lambda shape: shape.first)
        self.documents = sum(shape.messages for shape in self.shapes)
        self.paths = sorted({path for shape in self.shapes for path in shape.types if path})
        self._rows = rows
        self._place = place

    def with_field(self, path: str) -> int:
        """Return the number of messages that have a field."""
        return sum(shape.messages for shape in self.shapes if path in shape.types)

    def types(self, path: str) -> Counter[str]:
        """Return the messages by the types of a field; of one with items of several types, once for each."""
        counts: Counter[str] = Counter()
        for shape in self.shapes:
            for kind in shape.types.get(path, ()):
                counts[kind] += shape.messages
        return counts

    def changes(self) -> list[FieldChange]:
        """Return what changed, in the order of the first messages with it."""
        changes = [change for path in self.paths for change in self._changes_of(path)]
        if self.shapes:
            changes += [
                FieldChange("", "is not JSON", first, count)
                for problem, (count, first) in self.problems.items()
                if problem == "not JSON"
            ]
        return sorted(changes, key=lambda change: (change.first, change.field))

    def _changes_of(self, path: str) -> list[FieldChange]:
        having = [shape for shape in self.shapes if path in shape.types]
        parent = path.rpartition(".")[0] if "." in path else ""
        outer = [shape for shape in self.shapes if "object" in shape.types.get(parent, ())]
        lacking = [shape for shape in outer if path not in shape.types]
        changes = []
        if lacking and not path.endswith("[]") and having[0].first != outer[0].first:
            if self._place(having[0].first) >= SETTLED and self._place(outer[0].first) < SETTLED:
                count = sum(shape.messages for shape in having)
                changes.append(FieldChange(path, "appeared", having[0].first, count))
        elif lacking and not path.endswith("[]") and self._place(lacking[0].first) >= SETTLED:
            count = sum(shape.messages for shape in lacking)
            changes.append(FieldChange(path, "is missing", lacking[0].first, count))
        usual = next((kind for shape in having for kind in _known(shape.types[path])), None)
        other = [shape for shape in having if _known(shape.types[path]) - {usual}]
        if usual is not None and other:
            kind = min(_known(other[0].types[path]) - {usual})
            count = sum(shape.messages for shape in other)
            changes.append(
                FieldChange(path, f"is {_a(kind)} instead of {_a(usual)}", other[0].first, count)
            )
        return changes

    def presence(self, path: str) -> list[list[float]]:
        """Return the share of the documents of each point of time that have a field, percent."""
        times = [row["at"] for row in self._rows]
        least = max(row["step"] for row in self._rows)
        step = point_step_ms(min(times), max(times), least)
        counts: dict[int, list[int]] = {}
        for row in self._rows:
            if not row["shape"].startswith(NO_DOCUMENT):
                point = counts.setdefault(row["at"] - row["at"] % step, [0, 0])
                point[0] += row["messages"]
                if any(own == path for own, _ in fields_of(row["shape"])):
                    point[1] += row["messages"]
        return [[at, 100 * having / all_] for at, (all_, having) in sorted(counts.items())]


def _sum(parts: list[tuple[int, First]]) -> tuple[int, First]:
    return sum(count for count, _ in parts), min(first for _, first in parts)


def _types(text: str) -> dict[str, frozenset[str]]:
    types: dict[str, set[str]] = {}
    for path, kind in fields_of(text):
        types.setdefault(path, set()).add(kind)
    return {path: frozenset(kinds) for path, kinds in types.items()}


def _known(types: frozenset[str]) -> set[str]:
    """Return the types without null, which any field may be, and with integers as the numbers that they are."""
    return {"number" if kind == "integer" else kind for kind in types} - {"null"}


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'ao' else 'a'} {kind}"


def places(
    entries: Mapping[tuple[str, int], tuple[int, int]], all_entries: Mapping[str, int]
) -> Place:
    """Return the place of messages. ``entries``: by topic and ledger, the first entry that was read and how many were
    read before it; ``all_entries``: how many were read of a topic."""

    def place(first: First) -> float:
        start, before = entries[first.topic, first.ledger_id]
        of_batch = max(first.batch_index, 0) / max(first.batch_size, 1)
        return (before + first.entry_id - start + of_batch) / all_entries[first.topic]

    return place


def types_in_words(counts: Counter[str]) -> str:
    """Return the types with their shares, the most frequent first."""
    total: Any = sum(counts.values())
    return ", ".join(f"{kind} {100 * count / total:.3g} %" for kind, count in counts.most_common())
