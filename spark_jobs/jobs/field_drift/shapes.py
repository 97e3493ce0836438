"""Shapes of documents: the fields of a message and their types, counted over time with the first message of each.
Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.jobs.kit.documents import documents, walk
from spark_jobs.jobs.kit.series import point_step_ms
from spark_jobs.pulsar_source.columns import Opened
from spark_jobs.pulsar_source.decoded import TopicSchemas

COLUMNS = TopicSchemas.wanted | {"batch_index", "value_bytes"}
SHAPES_MAX = 1000
"""Shapes that one task keeps apart; documents of further ones count by their outermost fields, then as one shape."""
OTHER = "!other"
"""Shape of the documents beyond."""
NO_DOCUMENT = "!"
"""Begins the shape of a message that is no document; its problem follows."""

SHAPES = pa.schema(
    [
        ("shape", pa.string()),
        ("version", pa.int64()),
        ("step", pa.int64()),
        ("at", pa.int64()),
        ("messages", pa.int64()),
        ("first_ms", pa.int64()),
        ("topic", pa.string()),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("batch_index", pa.int64()),
        ("batch_size", pa.int64()),
        ("producer", pa.string()),
    ]
)
"""Messages of a shape and schema version in a point of time, and the first of them.

``shape``: a line ``path TAB type`` for each field, sorted. ``version``: -1 without one. ``at``: start of the point of
``step`` ms.
"""
SHAPES_SQL = (
    "shape string, version bigint, step bigint, at bigint, messages bigint, first_ms bigint, topic string,"
    " ledger_id bigint, entry_id bigint, batch_index bigint, batch_size bigint, producer string"
)


class First(NamedTuple):
    """The first message of something, in the order of time and place."""

    ms: int
    topic: str
    ledger_id: int
    entry_id: int
    batch_index: int
    batch_size: int
    producer: str

    @property
    def position(self) -> str:
        batch = f":{self.batch_index}" if self.batch_index >= 0 else ""
        return f"{self.ledger_id}:{self.entry_id}{batch}"


class Counting:
    """Shapes of one task, whose messages are added in topic order."""

    def __init__(self, topic: str, ledger_id: int) -> None:
        self._topic = topic
        self._ledger_id = ledger_id
        self._counts: dict[tuple[str, int, int], list[Any]] = {}
        self._shapes: set[str] = set()

    def add(self, opened: Opened, schemas: TopicSchemas) -> None:
        entries = opened.entries
        of_row = opened.entry_of_message().tolist()
        times = entries["publish_ms"].fill_null(0).to_pylist()
        ids, producers = entries["entry_id"].to_pylist(), entries["producer_name"].to_pylist()
        sizes = entries["rows"].to_pylist()
        indexes = opened.messages["batch_index"].to_pylist()
        versions = opened.messages["schema_version"].to_pylist()
        for document in documents(opened, schemas):
            entry = of_row[document.row]
            problem = document.problem
            shape = NO_DOCUMENT + problem if problem else self._known(document.value)
            version = versions[document.row]
            key = shape, -1 if version is None else version, times[entry]
            known = self._counts.get(key)
            if known is not None:
                known[0] += 1
                continue
            first = First(
                times[entry],
                self._topic,
                self._ledger_id,
                ids[entry],
                indexes[document.row],
                sizes[entry],
                producers[entry] or "",
            )
            self._counts[key] = [1, first]

    def _known(self, document: Any) -> str:
        for whole in (True, False):
            shape = shape_of(document, whole)
            if shape in self._shapes:
                return shape
            if len(self._shapes) < SHAPES_MAX:
                self._shapes.add(shape)
                return shape
        return OTHER

    def table(self) -> pa.Table:
        """Return the rows of SHAPES, in points as wide as the task's time needs."""
        times = np.array([at for _, _, at in self._counts] or [0])
        step = point_step_ms(int(times.min()), int(times.max()))
        points: dict[tuple[str, int, int], list[Any]] = {}
        for (shape, version, at), (count, first) in self._counts.items():
            known = points.setdefault((shape, version, at - at % step), [0, first])
            known[0] += count
            known[1] = min(known[1], first)
        rows = [
            (shape, version, step, at, count, *first)
            for (shape, version, at), (count, first) in points.items()
        ]
        columns = zip(*rows, strict=True) if rows else [()] * len(SHAPES)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SHAPES, strict=True)]
        return pa.Table.from_arrays(arrays, schema=SHAPES)


def shape_of(document: Any, whole: bool = True) -> str:
    """Return the shape of a document; of its outermost fields only unless ``whole``."""
    fields = {
        f"{part.path}\t{part.type}"
        for part in walk(document)
        if whole or ("." not in part.path and "[" not in part.path)
    }
    return "\n".join(sorted(fields))


def fields_of(shape: str) -> Iterator[tuple[str, str]]:
    """Yield path and type of the fields of a shape."""
    if shape.startswith(NO_DOCUMENT):
        return
    for line in shape.split("\n"):
        path, _, kind = line.rpartition("\t")
        yield path, kind


def shapes_added(shapes: Any) -> Any:
    """Return a DataFrame of SHAPES with one row for each shape, version and point: its messages added up, and the first
    of them."""
    from pyspark.sql.functions import expr

    first = "min(struct(first_ms, topic, ledger_id, entry_id, batch_index, batch_size, producer))"
    points = shapes.groupBy("shape", "version", "step", "at")
    added = points.agg(expr("sum(messages) AS messages"), expr(f"{first} AS first"))
    return added.select("shape", "version", "step", "at", "messages", "first.*")
