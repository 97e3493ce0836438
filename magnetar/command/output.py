"""Output of commands: text for people, or JSON for programs with ``--json``."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that move the cursor, change the terminal's state, end a line or reverse text; not the tab."""
_NAMED = {"\n": "\\n", "\r": "\\r"}

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: one document, or one line for each item of a stream.",
)
"""The option that every command with results has, as the parameter ``as_json``."""


def safe(text: str) -> str:
    """Return ``text`` in one line that a terminal shows as it is (P3)."""
    return UNSAFE.sub(_escape, text)


def _escape(match: "re.Match[str]") -> str:
    character = match[0]
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def emit(value: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Print ``value`` as JSON, or the text that ``text`` returns."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str) if as_json else text())


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return ``rows`` as columns of text under their names; an unknown value (None) is ``?``."""
    lines = [list(columns)]
    lines += [["?" if row[c] is None else str(row[c]) for c in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
