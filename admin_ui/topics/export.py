"""The whole list of topics as a file, with the filter and order of the list.

The names are read once. Rows are made a few hundred at a time as the reader takes them, with the numbers of that
moment, so that a list of any length needs little memory. A topic that is deleted meanwhile is left out.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import partial

from admin_ui.csv_text import csv_line
from admin_ui.params import Params
from admin_ui.topics.selectors import chosen_of
from engine.admin.api.rows import ROW_COLUMNS
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from gateway.clusters.cluster import Cluster
from gateway.services.engine_link import Engine
from gateway.services.index.rows import Row

ROWS_PER_PIECE = 500
COLUMNS = ("name", "partitions", *ROW_COLUMNS, "loaded", "known", "at")
"""Columns of CSV. The parts of the name are left out: they are in the name, and a topic may be called ``=1+1``, which
some programs that read CSV evaluate."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: ``head``, the rows of each piece, ``tail``."""

    media: str
    head: str
    write: Callable[[Iterable[Row], bool], str]
    """Writes the rows of a piece; the second argument is True for the first piece."""
    tail: str


def _csv(rows: Iterable[Row], first: bool) -> str:
    return "".join(csv_line(_cell(row.get(column)) for column in COLUMNS) for row in rows)


def _cell(value: object) -> object:
    """Return a value as it is written: whole numbers with all digits, nothing for an unknown value."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def _json(rows: Iterable[Row], first: bool) -> str:
    text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return text if first or not text else f",\n{text}"


FORMATS = {
    "csv": Format("text/csv; charset=utf-8", csv_line(COLUMNS), _csv, ""),
    "json": Format("application/json", "[\n", _json, "\n]\n"),
}


def format_of(params: Params) -> str:
    """Return the name of the requested format. Raises InvalidField."""
    name = params.get("format", "csv")
    if name not in FORMATS:
        raise InvalidField("format", f"must be {' or '.join(FORMATS)}")
    return name


async def names_of(viewer: Viewer, cluster: Cluster, params: Params) -> list[str]:
    """Return the names of all topics that are seen and pass the filter, in order. Raises InvalidField. Runs on the
    engine link's loop."""
    chosen = chosen_of(params)
    return (await cluster.collector.snapshot()).select(viewer, chosen).names()


async def pieces(
    viewer: Viewer, cluster: Cluster, names: list[str], file_format: Format
) -> AsyncIterator[bytes]:
    """Yield the file, as UTF-8."""
    yield file_format.head.encode()
    first = True
    for start in range(0, len(names), ROWS_PER_PIECE):
        rows = await cluster.link.arun(
            partial(_rows, viewer, cluster, names[start : start + ROWS_PER_PIECE])
        )
        text = file_format.write(rows, first)
        first = first and not rows
        yield text.encode()
    yield file_format.tail.encode()


async def _rows(viewer: Viewer, cluster: Cluster, names: list[str], engine: Engine) -> list[Row]:
    return list((await cluster.collector.snapshot()).rows_of(viewer, names))
