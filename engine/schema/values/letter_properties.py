"""Dead letters as client libraries publish them: names of their topics, and the properties that name origin and reason.
Pure.

A client names a topic of dead letters ``<topic>-<subscription>-DLQ``, one of retries ``<topic>-<subscription>-RETRY``.
"""

import json
import re
from collections.abc import Mapping

from engine.wire.texts import readable

REASON_CHARACTERS_MAX = 500
PARSED_BYTES_MAX = 1 << 20
OWN_PROPERTIES = frozenset(
    {
        *("REAL_TOPIC", "REAL_SUBSCRIPTION", "ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_IDY_TIME"),
        *("RECONSUMETIMES", "DELAY_TIME", "ORIGIN_TOPIC"),
    }
)
"""Properties that a client adds to a letter."""
_ORIGIN = ("REAL_TOPIC", "ORIGIN_TOPIC")
_SUBSCRIPTION = ("REAL_SUBSCRIPTION", "SUBSCRIPTION")
_SUFFIX = re.compile(r"-(DLQ|RETRY)(-partition-\d+)?\Z")
_REASON = re.compile(r"exception|error|reason|failure|cause", re.IGNORECASE)
_NOT_REASON = re.compile(r"stack|trace|class|fqcn|count|time", re.IGNORECASE)
_MESSAGE = re.compile(r"message|text|reason", re.IGNORECASE)
_VARYING = (
    (re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"), "#"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "'#'"),
    (re.compile(r"\b(?:0x)?[0-9a-fA-F]*\d[0-9a-fA-F]*"), "#"),
)


def kind_of(topic: str) -> str:
    """Return ``dead letters`` or ``retries`` for a topic that has such a name, else an empty text."""
    suffix = _SUFFIX.search(topic)
    return "" if suffix is None else {"DLQ": "dead letters", "RETRY": "retries"}[suffix[1]]


def origin_of(topic: str, properties: Mapping[str, str]) -> tuple[str, str]:
    """Return topic and subscription of a letter's origin: by its properties, else the subscription by the name of its
    topic. Empty texts are not known."""
    origin = next((properties[name] for name in _ORIGIN if properties.get(name)), "")
    subscription = next((properties[name] for name in _SUBSCRIPTION if properties.get(name)), "")
    base = _SUFFIX.sub("", topic)
    if not subscription and origin and base != topic and base.startswith(f"{origin}-"):
        subscription = base[len(origin) + 1 :]
    return origin, subscription


def reason_of(properties: Mapping[str, str]) -> str:
    """Return the first line of the property that says why the letter is dead; empty without one."""
    names = [name for name in properties if _REASON.search(name) and not _NOT_REASON.search(name)]
    names.sort(key=lambda name: (not _MESSAGE.search(name), len(name), name))
    text = next((properties[name] for name in names if properties[name].strip()), "")
    return text.strip().splitlines()[0][:REASON_CHARACTERS_MAX] if text else ""


def normal(reason: str) -> str:
    """Return a reason without what differs between its letters: quoted texts, numbers, ids."""
    for pattern, replacement in _VARYING:
        reason = pattern.sub(replacement, reason)
    return reason[:200]


def shape_of_value(value: bytes | None) -> str:
    """Return a short description of what a value is like."""
    if value is None:
        return "null"
    if not value:
        return "empty"
    if len(value) > PARSED_BYTES_MAX:
        return "larger than 1 MiB"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "binary"
    if text.lstrip()[:1] not in ("{", "["):
        return "text"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return "broken JSON"
    if isinstance(document, list):
        return "JSON array"
    fields = [
        f"{readable(name.encode('utf-8', 'replace'))}: {_kind(document[name])}"
        for name in sorted(document)[:30]
    ]
    return f"JSON {{{', '.join(fields)}}}"[:REASON_CHARACTERS_MAX]


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    return "array" if isinstance(value, list) else "object"
