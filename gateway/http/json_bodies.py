"""The decoder of all JSON that clients send: its values are unambiguous, bounded and can be encoded again.

Beyond the grammar it refuses values that a store, the audit log or an answer could not hold: numbers beyond the range
of a double (``1e400``), half of a surrogate pair, a member given twice, and deep nesting. Pure.
"""

import json
from collections.abc import Callable
from math import isfinite
from typing import Any

from engine.base.errors import InvalidField, refuse_constant

NESTING_MAX = 100
"""Levels of arrays and objects, on which recursive code that handles decoded values relies."""


class _NotFiniteError(ValueError):
    pass


def decode_body(body: bytes) -> Any:
    """Return the JSON value of ``body``. Raises InvalidField, which names the wrong member if it is known."""
    try:
        # Decoded strictly, while ``json.loads`` itself accepts surrogates.
        text = body.decode(json.detect_encoding(body))
        value = _DECODER.decode(text)
    except RecursionError:
        raise _too_deep() from None
    except _NotFiniteError:
        raise InvalidField(_place_of_infinity(text), "not a finite number") from None
    except ValueError as error:
        raise InvalidField("body", f"not valid JSON: {error}") from None
    if text.count("[") + text.count("{") > NESTING_MAX and is_deeper(value, NESTING_MAX):
        raise _too_deep()
    if "\\u" in text and not _can_be_encoded(value):
        place = _place_of(value, lambda leaf: isinstance(leaf, str) and not _can_be_encoded(leaf))
        raise InvalidField(place, "has half of a character (a lone surrogate)")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise _NotFiniteError
    return number


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) < len(members):
        raise InvalidField(_repeated(members)[:100], "given more than once")
    return value


def _repeated(members: list[tuple[str, Any]]) -> str:
    """Return the first name that repeats an earlier one, in one pass: an object may have a hundred thousand members."""
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            return name
        seen.add(name)
    raise ValueError("no name is repeated")


_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_constant=refuse_constant, object_pairs_hook=_object
)


def _too_deep() -> InvalidField:
    return InvalidField("body", f"JSON nested deeper than {NESTING_MAX} levels")


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether arrays and objects are nested in more than ``levels`` levels."""
    level = [value]
    for _ in range(levels + 1):
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            return False
        level = [
            item
            for container in containers
            for item in (container.values() if isinstance(container, dict) else container)
        ]
    return True


def _place_of_infinity(text: str) -> str:
    """Return the place of the first number that is not finite; ``body`` when the text behind it is not JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "body"
    return _place_of(value, lambda leaf: isinstance(leaf, float) and not isfinite(leaf))


def _can_be_encoded(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _place_of(value: Any, is_wrong: Callable[[Any], bool]) -> str:
    """Return the place of the first wrong leaf or member name, as ``adminRoles[0]`` or ``a.b``.

    It is ``body`` for the value itself. A wrong member name is reported by the object that holds the member.
    """
    pending: list[tuple[str, Any]] = [("", value)]
    while pending:
        place, item = pending.pop()
        if isinstance(item, dict):
            if any(is_wrong(name) for name in item):
                return place or "body"
            inner = [(f"{place}.{name}" if place else name, item[name]) for name in item]
            pending += reversed(inner)
        elif isinstance(item, list):
            inner = [(f"{place or 'body'}[{index}]", leaf) for index, leaf in enumerate(item)]
            pending += reversed(inner)
        elif is_wrong(item):
            return place or "body"
    return "body"
