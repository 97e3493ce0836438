"""Fields with personal data as cells. No value is kept that is not masked. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum

import numpy as np
import pyarrow as pa

from spark_jobs.jobs.kit import cells as kit
from spark_jobs.jobs.kit.cells import CELLS, added, cells
from spark_jobs.jobs.kit.documents import NOT_JSON, Document, documents, shown_name, walk
from spark_jobs.jobs.kit.entries import messages_of_entries
from spark_jobs.jobs.personal_data.detectors import BY_NAME_ONLY, found, hinted, masked
from spark_jobs.pulsar_source.columns import Opened
from spark_jobs.pulsar_source.decoded import TopicSchemas

COLUMNS = TopicSchemas.wanted | {"key", "properties", "value_bytes"}
SAMPLES_MAX = 3
FIELDS_MAX = 2000
"""Fields that one task keeps apart; what is beyond counts as one."""
OTHER_FIELDS = "(other fields)"
SEPARATOR = "\t"
"""Separator of the parts of a cell's name; names of fields have no control characters."""


class Cell(StrEnum):
    """Kinds of cells: the meaning of ``name`` and ``at``, and what is counted."""

    ENTRIES = "entries"  # at: columns.EntryKind; entries, stored bytes
    MESSAGES = "messages"  # messages
    PROBLEM = "problem"  # name: documents.Document.problem; messages
    FIELD = "field"  # name: the field; its values that are text or a number
    MATCH = "match"  # name: field, kind of data; values
    SAMPLE = "sample"  # name: field, kind of data, masked text; values, in part
    TRIMMED = kit.TRIMMED


def cells_of(opened: Opened, schemas: TopicSchemas) -> pa.Table:
    """Return the cells of some entries and their messages."""
    counting = _Counting()
    entries, messages = opened.entries, opened.messages
    for key in messages["key"].drop_null().to_pylist():
        counting.see("key", key)
    for pairs in messages["properties"].to_pylist():
        for name, value in pairs or ():
            counting.see(f"property {_name(name)}", value)
    for document in documents(opened, schemas):
        for field, value in _texts_of(document):
            counting.see(field, value)
        if document.problem:
            counting.problems[document.problem] += 1
    return added(
        [
            cells(Cell.ENTRIES, at=entries["kind"], size=entries["entry_bytes"]),
            cells(Cell.MESSAGES, count=messages_of_entries(entries)),
            _counted(Cell.PROBLEM, counting.problems),
            _counted(Cell.FIELD, counting.fields),
            _counted(Cell.MATCH, counting.matches),
            _counted(Cell.SAMPLE, counting.samples),
        ]
    )


class _Counting:
    def __init__(self) -> None:
        self.problems: Counter[str] = Counter()
        self.fields: Counter[str] = Counter()
        self.matches: Counter[str] = Counter()
        self.samples: Counter[str] = Counter()
        self._sampled: Counter[str] = Counter()

    def see(self, field: str, text: str) -> None:
        if field not in self.fields and len(self.fields) >= FIELDS_MAX:
            field = OTHER_FIELDS
        self.fields[field] += 1
        kinds = set()
        for data, match in found(text):
            kinds.add(data)
            self._match(field, data, match)
        hint = hinted(field)
        if hint in BY_NAME_ONLY and hint not in kinds and text:
            self._match(field, hint, text)

    def _match(self, field: str, data: str, text: str) -> None:
        name = f"{field}{SEPARATOR}{data}"
        self.matches[name] += 1
        if self._sampled[name] < SAMPLES_MAX:
            self._sampled[name] += 1
            self.samples[f"{name}{SEPARATOR}{masked(text)}"] += 1


def _texts_of(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the fields of a document that are text or a whole number; the text of a value that is no document."""
    if document.problem == NOT_JSON and document.raw:
        yield "value", document.raw[:8192].decode("utf-8", "replace")
    if document.problem:
        return
    for part in walk(document.value, _name):
        if part.type in ("string", "integer"):
            yield part.path or "value", str(part.value)[:8192]


def _name(name: str) -> str:
    """Return a name as it is shown; of one that is itself personal data, as in a map by e-mail address, the kind."""
    match = next(found(name), None)
    return shown_name(name) if match is None else f"{{{match.data}}}"


def _counted(kind: Cell, counts: Counter[str]) -> pa.Table:
    if not counts:
        return CELLS.empty_table()
    return cells(kind, name=pa.array(list(counts)), count=np.array(list(counts.values())))


def fewer_samples(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the tables' cells added up, with SAMPLES_MAX samples of a field and kind."""
    table = added(tables)
    kept: Counter[str] = Counter()
    keep = []
    for kind, name in zip(table["kind"].to_pylist(), table["name"].to_pylist(), strict=True):
        field = name.rpartition(SEPARATOR)[0]
        if kind == Cell.SAMPLE:
            kept[field] += 1
        keep.append(kind != Cell.SAMPLE or kept[field] <= SAMPLES_MAX)
    return table.filter(pa.array(keep, pa.bool_()))
