"""What an audit entry says of a change: the body that was given, each thing before and after; no secrets."""

import json
import re
from math import isfinite
from typing import Any

from engine.metadata.account import Account
from gateway.http.json_bodies import NESTING_MAX, is_deeper

GIVEN_CHARS_MAX = 4096
CHANGES_CHARS_MAX = 16384
STORED_NESTING_MAX = NESTING_MAX + 10
"""What a body may hold, inside the record that keeps it."""
_SECRET = re.compile(
    r"secret|password|passwd|credential|token|private.?key|authenticationparam", re.I
)
HIDDEN = "(hidden)"


def given_text(body: bytes) -> str:
    """A JSON body as it is kept; empty for none, and for what is no JSON."""
    if not body:
        return ""
    try:
        given = _shallow(body)
    except (ValueError, RecursionError):
        return ""
    return _cut(_json(hidden(given)), GIVEN_CHARS_MAX)


def changes_text(account: Account) -> str:
    """A JSON list of ``{"where", "before", "after"}``: of documents only what differs; empty when nothing changed.
    What is too long to be kept goes without its values, the last first, and is counted in ``more``."""
    found: list[dict[str, Any]] = []
    left, more = CHANGES_CHARS_MAX, account.more
    for where, old, new in account.changes:
        before, after = differing(shown(old), shown(new))
        if before == after and where.startswith("/"):
            continue  # written again as it was
        entry = {"where": where, "before": hidden(before), "after": hidden(after)}
        left -= len(_json(entry))
        if left < 0:
            more += 1
        else:
            found.append(entry)
    if more:
        found.append({"more": more})
    return _json(found) if found else ""


def read_changes(kept: str) -> list[dict[str, Any]]:
    """What ``changes_text`` kept, as an answer can hold it."""
    found: list[dict[str, Any]] = _parsed(kept or "[]")
    return found


def shown(value: Any) -> Any:
    """A stored value as JSON: a document as it is, other bytes by how many they are; empty ones are no value."""
    if not isinstance(value, bytes):
        return value
    try:
        return _shallow(value) if value else {}
    except (ValueError, RecursionError):
        return f"{len(value)} bytes"


def _parsed(text: bytes | str) -> Any:
    """The JSON value of ``text``; a number that is not finite, which no answer could hold, as its text. Raises
    ValueError and RecursionError."""
    return json.loads(text, parse_float=_number, parse_constant=str)


def _shallow(text: bytes | str) -> Any:
    """As ``_parsed``; raises ValueError for what is nested so deeply that recursive code could not take it."""
    value = _parsed(text)
    if is_deeper(value, STORED_NESTING_MAX):
        raise ValueError("nested too deeply")
    return value


def _number(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text


def differing(before: Any, after: Any) -> tuple[Any, Any]:
    """Of two documents the members that are not the same; other values whole."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return before, after
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return tuple({name: one[name] for name in names if name in one} for one in (before, after))  # type: ignore[return-value]


def hidden(value: Any) -> Any:
    """Without the values of members whose names say that they are secret."""
    if isinstance(value, dict):
        return {
            name: HIDDEN if _SECRET.search(str(name)) and one not in (None, "") else hidden(one)
            for name, one in value.items()
        }
    return [hidden(one) for one in value] if isinstance(value, list) else value


def _json(value: Any) -> str:
    """As it is read; a lone surrogate, which JSON may hold and a database does not, by its escape."""
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
