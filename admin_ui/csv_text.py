"""Lines of CSV. Pure."""

import csv
import io
from collections.abc import Iterable

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of cells that some programs that read CSV evaluate."""


def csv_line(values: Iterable[object]) -> str:
    """Return a line. A text that a program would evaluate is quoted by an apostrophe; None is empty."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow([_cell(value) for value in values])
    return line.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
