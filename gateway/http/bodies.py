"""Bodies of requests and answers in the forms that Pulsar's clients send and expect."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from rest_framework import exceptions

from engine.base.errors import InvalidField
from gateway.http import container
from gateway.http.json_bodies import decode_body

ITEMS_PER_TURN = 2_000
"""Items of a long list encoded before other requests run: well below a millisecond."""
KEPT_MAX = 16_384
"""Maximum of texts that are kept in one place; about 10 MB of rows."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class JsonText(NamedTuple):
    """An object that is encoded as JSON already."""

    at: int
    """The time of its content."""
    text: str
    seen: object
    """A value that stays equal while nothing but times in the object changes."""


def text_of(value: Any) -> str:
    """Return ``value`` as JSON text."""
    return _ENCODER.encode(value)


class KeptTexts:
    """Texts of values by a name, each used until it would be another, for one event loop. The texts that were made the
    longest ago are removed first."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[object, str]] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def text(self, name: str, made_of: object, make: Callable[[], str]) -> str:
        """Return the text that ``make`` returned for this name when it was last made of something else; the same object
        until then. ``made_of``: plain tuples, which the garbage collector does not visit again."""
        kept = self._texts.get(name)
        if kept is not None and kept[0] == made_of:
            return kept[1]
        text = make()
        self._texts.pop(name, None)
        if len(self._texts) >= KEPT_MAX:
            del self._texts[next(iter(self._texts))]
        self._texts[name] = made_of, text
        return text


def json_answer(value: Any, status: int = 200) -> HttpResponse:
    """Return an answer with ``value`` as JSON; a ``JsonText`` is not encoded again."""
    return HttpResponse(_encoded(value), status=status, content_type="application/json")


async def json_list(items: Sequence[Any]) -> HttpResponse:
    """Return an answer with a list of any length as JSON; other requests run while a long one is encoded."""
    if len(items) <= ITEMS_PER_TURN:
        return json_answer(items)
    parts = []
    for start in range(0, len(items), ITEMS_PER_TURN):
        parts.append(_encoded(items[start : start + ITEMS_PER_TURN])[1:-1])
        await asyncio.sleep(0)
    return HttpResponse(b"[%b]" % b",".join(parts), content_type="application/json")


def _encoded(value: Any) -> bytes:
    text = value.text if isinstance(value, JsonText) else text_of(value)
    if "\u2028" in text or "\u2029" in text:
        # They are valid in JSON, but not in a script that embeds it.
        text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    # Stored texts may hold half of a surrogate pair, which has no UTF-8 form: its JSON escape is sent.
    return text.encode(errors="backslashreplace")


def no_content(status: int = 204) -> HttpResponse:
    """Return a successful answer without a body."""
    return container.empty(status)


def plain_text(text: str) -> HttpResponse:
    """Return an unquoted string under the JSON content type, as Pulsar sends ``ok`` and versions."""
    return HttpResponse(text, content_type="application/json")


def json_body(request: HttpRequest, *, also: tuple[str, ...] = ()) -> Any:
    """Return the request's JSON value; None when there is no body or it is ``null``.

    A missing Content-Type counts as JSON. A form, which is the default of ``curl -d``, is refused with 415, as Pulsar
    does. ``also`` names further accepted types. Raises InvalidField, UnsupportedMediaType.
    """
    body = request.body
    if not body.strip():
        return None
    content_type = request.META.get("CONTENT_TYPE", "").split(";", 1)[0].strip().lower()
    is_json = content_type in ("", "application/json") or content_type.endswith("+json")
    if not is_json and content_type not in also:
        raise exceptions.UnsupportedMediaType(content_type)
    return decode_body(body)


def object_body(request: HttpRequest) -> dict[str, Any] | None:
    """Return the request's JSON object; None when there is none. Raises InvalidField."""
    body = json_body(request)
    if body is not None and not isinstance(body, dict):
        raise InvalidField("body", f"expected a JSON object, got {kind_of(body)}")
    return body


def kind_of(value: object) -> str:
    """Return the type of a JSON value in JSON's terms."""
    kinds = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return "null" if value is None else kinds[type(value)]


def string_list(body: dict[str, Any], field: str) -> list[str]:
    """Return the list of strings under ``field``; empty when absent or null. Raises InvalidField."""
    value = body.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidField(field, f"expected an array of strings, got {kind_of(value)}")
    return value


def string_map(value: Any, field: str) -> dict[str, str]:
    """Return ``value``, which must be an object of strings; empty for None. Raises InvalidField."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise InvalidField(field, f"expected an object of strings, got {kind_of(value)}")
    return value


def whole_number(value: Any, field: str) -> int:
    """Return ``value`` as a whole number. Some clients send it quoted or with a fraction, which is cut off.

    Raises InvalidField.
    """
    try:
        if isinstance(value, str):
            return int(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidField(field, f"expected a whole number, got {kind_of(value)}")


def flag(request: HttpRequest, name: str, *, default: bool = False) -> bool:
    """Return a boolean query parameter: ``true`` in any case is true, everything else false."""
    value = request.GET.get(name)
    return default if value is None else value.lower() == "true"
