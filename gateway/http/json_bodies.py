"""The one decoder of JSON that callers send: what it returns means one thing, is bounded, and can be written again.

Beyond the grammar it refuses what a store, the audit log or an answer could not hold afterwards: numbers beyond the
range of a double (``1e400``), half of a surrogate pair, a member given twice, and deep nesting. Pure.
"""

import json
from collections.abc import Callable
from math import isfinite
from typing import Any

from engine.base.errors import InvalidField

NESTING_MAX = 100
"""Levels of arrays and objects; recursive code behind the decoder can rely on it."""


class _NotFiniteError(ValueError):
    pass


def decode_body(body: bytes) -> Any:
    """The JSON value of ``body``. Raises InvalidField, which names the member where one is to blame."""
    try:
        text = body.decode(json.detect_encoding(body))  # strict: loads itself lets surrogates pass
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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        names = [name for name, _ in members]
        twice = next(name for name in found if names.count(name) > 1)
        raise InvalidField(twice[:100], "given more than once")
    return found


_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_constant=_refuse_constant, object_pairs_hook=_object
)


def _too_deep() -> InvalidField:
    return InvalidField("body", f"JSON nested deeper than {NESTING_MAX} levels")


def is_deeper(value: Any, levels: int) -> bool:
    """Whether arrays and objects are nested in more than ``levels``."""
    level = [value]
    for _ in range(levels + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
        level = [
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return True


def _place_of_infinity(text: str) -> str:
    """What lies behind the number may be no JSON at all."""
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
    """Where in ``value`` the first wrong leaf or name of a member is, as ``adminRoles[0]`` or ``a.b``; ``body`` for the
    value itself. A member whose name is wrong is named by what it is a member of."""
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        place, one = todo.pop()
        if isinstance(one, dict):
            if any(is_wrong(name) for name in one):
                return place or "body"
            inner = [(f"{place}.{name}" if place else name, one[name]) for name in one]
            todo += reversed(inner)
        elif isinstance(one, list):
            inner = [(f"{place or 'body'}[{index}]", each) for index, each in enumerate(one)]
            todo += reversed(inner)
        elif is_wrong(one):
            return place or "body"
    return "body"
