"""The texts that an audit entry keeps of a change: the given body, and each changed value before and after, without
secrets."""

import json
import re
from math import isfinite
from typing import Any
from urllib.parse import unquote_plus

from engine.metadata.account import Account
from gateway.http.json_bodies import NESTING_MAX, is_deeper

GIVEN_CHARS_MAX = 4096
CHANGES_CHARS_MAX = 16384
STORED_NESTING_MAX = NESTING_MAX + 10
"""Deepest nesting of a stored record: a body at its limit, inside the record that keeps it."""
_SECRET = re.compile(
    r"secret|password|passwd|credential|token|private.?key|authenticationparam", re.I
)
HIDDEN = "(hidden)"


def given_text(body: bytes) -> str:
    """Return a JSON body as it is kept; empty for none, and for a body that is not JSON."""
    if not body:
        return ""
    try:
        value = _shallow(body)
    except (ValueError, RecursionError):
        return ""
    return _cut(_json(hidden(value)), GIVEN_CHARS_MAX)


def given_query(query: str) -> str:
    """Return a query string as it is kept: values of secrets are hidden."""
    kept = []
    for part in query.split("&"):
        name, equals, _ = part.partition("=")
        is_secret = equals and _SECRET.search(unquote_plus(name))
        kept.append(f"{name}={HIDDEN}" if is_secret else part)
    return "&".join(kept)


def changes_text(account: Account) -> str:
    """Return a JSON list of ``{"where", "before", "after"}``, with only the differing members of documents; empty when
    nothing changed.

    Entries beyond ``CHANGES_CHARS_MAX`` are left out, the last first; the list ends with their number as ``more``.
    """
    entries: list[dict[str, Any]] = []
    chars_left, left_out = CHANGES_CHARS_MAX, account.more
    for where, old, new in account.changes:
        before, after = differing(shown(old), shown(new))
        if before == after and where.startswith("/"):
            continue  # a node that was written with the value that it had
        entry = {"where": where, "before": hidden(before), "after": hidden(after)}
        chars_left -= len(_json(entry))
        if chars_left < 0:
            left_out += 1
        else:
            entries.append(entry)
    if left_out:
        entries.append({"more": left_out})
    return _json(entries) if entries else ""


def read_changes(text: str) -> list[dict[str, Any]]:
    """Return the list that ``changes_text`` wrote, with values that an answer can hold."""
    changes: list[dict[str, Any]] = _parsed(text or "[]")
    return changes


def shown(value: Any) -> Any:
    """Return a stored value as JSON: a document as it is, empty bytes as an empty document, other bytes as their
    number."""
    if not isinstance(value, bytes):
        return value
    try:
        return _shallow(value) if value else {}
    except (ValueError, RecursionError):
        return f"{len(value)} bytes"


def _parsed(text: bytes | str) -> Any:
    """Return the JSON value of ``text``. A number that is not finite is returned as its text, since no answer can hold
    it. Raises ValueError and RecursionError."""
    return json.loads(text, parse_float=_number, parse_constant=str)


def _shallow(text: bytes | str) -> Any:
    """Return the JSON value as ``_parsed`` does. Raises ValueError for a value that is nested too deeply for recursive
    code."""
    value = _parsed(text)
    if is_deeper(value, STORED_NESTING_MAX):
        raise ValueError("nested too deeply")
    return value


def _number(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text


def differing(before: Any, after: Any) -> tuple[Any, Any]:
    """Return the members in which two documents differ; other values as they are."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return before, after
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return tuple(
        {name: document[name] for name in names if name in document} for document in (before, after)
    )  # type: ignore[return-value]


def hidden(value: Any) -> Any:
    """Return the value without the values of members whose names mark them as secret."""
    if isinstance(value, dict):
        return {
            name: HIDDEN if _SECRET.search(str(name)) and item not in (None, "") else hidden(item)
            for name, item in value.items()
        }
    return [hidden(item) for item in value] if isinstance(value, list) else value


def _json(value: Any) -> str:
    """Return JSON text. A lone surrogate, which JSON may hold and a database may not, is written as its escape."""
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
