"""The values of messages as documents: decoded by the topic's schemas, or parsed as JSON, and walked within bounds."""

import json
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

from spark_jobs.pulsar_source.columns import EntryKind, Opened
from spark_jobs.pulsar_source.decoded import TopicSchemas

NODES_MAX = 5000
"""Parts of one document that are looked at."""
DEPTH_MAX = 12
NAMES_MAX = 200
"""Names in one object; of one with more, which is a map rather than a record, all are one: ``*``."""
NAME_CHARS_MAX = 100

ENCRYPTED, CHUNKED, NO_VALUE, NOT_JSON = "encrypted", "chunked", "no value", "not JSON"
"""Problems: why a message is no document."""
_OF_KIND = {EntryKind.ENCRYPTED: ENCRYPTED, EntryKind.CHUNK: CHUNKED}


class Document(NamedTuple):
    """The value of one message. ``row``: index of the message. ``problem``: why there is none, else empty."""

    row: int
    value: Any
    problem: str
    raw: bytes | None


class DocumentPart(NamedTuple):
    """A part of a document.

    ``path``: names with dots between, ``[]`` for the items of an array, empty for the whole.
    """

    path: str
    type: str
    value: Any


def documents(opened: Opened, schemas: TopicSchemas) -> Iterator[Document]:
    """Yield all messages. ``schemas`` must be loaded with the versions of ``opened``, which has the columns that they
    want.

    A value that its schema cannot decode is tried as JSON.
    """
    kinds = opened.entries["kind"].to_numpy()[opened.entry_of_message()].tolist()
    values = opened.messages["value"]
    for start, decoded in schemas.decoded(opened):
        for row, text in enumerate(decoded.values, start):
            problem = _OF_KIND.get(kinds[row], "")
            raw = None if problem else values[row].as_py()
            if problem or raw is None:
                yield Document(row, None, problem or NO_VALUE, None)
                continue
            try:
                yield Document(row, json.loads(raw if text is None else text), "", raw)
            except (ValueError, RecursionError):
                yield Document(row, None, NOT_JSON, raw)


def shown_name(name: str) -> str:
    """Return a name that can be stored and shown: without lone surrogates and control characters, and not too long."""
    if not name.isprintable():
        name = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return name[:NAME_CHARS_MAX]


def walk(document: Any, named: Callable[[str], str] = shown_name) -> Iterator[DocumentPart]:
    """Yield the parts of a document, NODES_MAX of them at most, each before those in it.

    ``named`` returns the form in which a name is part of paths.
    """
    ahead: list[tuple[str, int, Any]] = [("", 0, document)]
    for _ in range(NODES_MAX):
        if not ahead:
            return
        path, depth, value = ahead.pop()
        yield DocumentPart(path, type_of(value), value)
        if depth == DEPTH_MAX:
            continue
        if isinstance(value, dict):
            names = map(named, value) if len(value) <= NAMES_MAX else repeat("*")
            inner = zip(names, value.values(), strict=False)
            ahead += [(f"{path}.{name}" if path else name, depth + 1, v) for name, v in inner]
        elif isinstance(value, list):
            ahead += [(f"{path}[]", depth + 1, item) for item in value[:NODES_MAX]]


def type_of(value: Any) -> str:
    """Return JSON's name of a value's type, with integers apart."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"
