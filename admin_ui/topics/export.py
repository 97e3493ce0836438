"""The whole list of topics as a file, in the order and with the filter of the list.

The names are taken once; rows are made a few hundred at a time as the reader takes them, with the numbers of that
moment, so that a list of any length costs little memory. A topic that goes meanwhile is left out.
"""

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import partial

from admin_ui.params import Params
from admin_ui.topics.selectors import chosen_of
from engine.admin.api import ROW_COLUMNS
from engine.base.errors import InvalidField
from gateway.services.collector import collector
from gateway.services.engine_link import Engine, link
from gateway.services.index.rows import Row

ROWS_PER_PIECE = 500
COLUMNS = ("name", "partitions", *ROW_COLUMNS, "loaded", "known", "at")
"""Of CSV. The name's parts are left out: they are in it, and a topic may be called ``=1+1``, which some programs that
read CSV would work out."""


@dataclass(frozen=True, slots=True)
class Format:
    """How rows are written: ``head``, the rows of each piece, ``tail``."""

    media: str
    head: str
    write: Callable[[Iterable[Row], bool], str]
    """Of a piece; the second argument is whether it is the first."""
    tail: str


def _csv_line(values: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(values)
    return line.getvalue()


def _csv(found: Iterable[Row], first: bool) -> str:
    return "".join(_csv_line(_cell(row.get(column)) for column in COLUMNS) for row in found)


def _cell(value: object) -> object:
    """Whole numbers with all their digits, nothing for what is not known."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def _json(found: Iterable[Row], first: bool) -> str:
    text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in found)
    return text if first or not text else f",\n{text}"


FORMATS = {
    "csv": Format("text/csv; charset=utf-8", _csv_line(COLUMNS), _csv, ""),
    "json": Format("application/json", "[\n", _json, "\n]\n"),
}


def format_of(params: Params) -> str:
    """Raises InvalidField."""
    name = params.get("format", "csv")
    if name not in FORMATS:
        raise InvalidField("format", f"must be {' or '.join(FORMATS)}")
    return name


async def names_of(params: Params) -> list[str]:
    """All that the filter lets through, in order. Raises InvalidField. On the engine link's loop."""
    chosen = chosen_of(params)
    return (await collector().snapshot()).select(chosen).names()


async def pieces(names: list[str], form: Format) -> AsyncIterator[bytes]:
    """The file, as UTF-8."""
    yield form.head.encode()
    first = True
    for start in range(0, len(names), ROWS_PER_PIECE):
        found = await link().arun(partial(_rows, names[start : start + ROWS_PER_PIECE]))
        text = form.write(found, first)
        first = first and not found
        yield text.encode()
    yield form.tail.encode()


async def _rows(names: list[str], engine: Engine) -> list[Row]:
    return list((await collector().snapshot()).rows_of(names))
