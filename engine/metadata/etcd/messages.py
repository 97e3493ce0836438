"""Messages of etcd's JSON gateway: parts of requests, and keys and events of answers. Pure.

Keys and values are in Base64, 64-bit numbers are texts, and fields with default values are left out.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.metadata.store import Stat, StoreUnavailableError

JsonObject = dict[str, Any]


class MalformedError(StoreUnavailableError):
    """An answer that is not what etcd's gateway gives."""


class EtcdKey(NamedTuple):
    """A key with its value (empty when only keys were requested) and state; ``version`` counts from 1."""

    key: str
    value: bytes
    version: int
    create_revision: int
    mod_revision: int
    lease: int

    @property
    def stat(self) -> Stat:
        return Stat(self.version - 1, self.lease, 0, 0, self.create_revision, None)


class KeyChange(NamedTuple):
    """An event of a watch; ``listed`` when it created or deleted the key."""

    key: str
    revision: int
    listed: bool


def encoded(data: str | bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def below(key: str) -> tuple[str, str]:
    """Return the range of the keys below a key: its first key and the one behind its last."""
    return f"{key}/", f"{key}0"  # "0" follows "/"


def range_request(
    key: str, end: str = "", *, keys_only: bool = False, limit: int = 0, revision: int = 0
) -> JsonObject:
    request: JsonObject = {"key": encoded(key)}
    if end:
        request["range_end"] = encoded(end)
    if keys_only:
        request["keys_only"] = True
    if limit:
        request["limit"] = str(limit)
    if revision:
        request["revision"] = str(revision)
    return request


def compare(key: str, target: str, result: str, value: int, *, end: str = "") -> JsonObject:
    """Return a comparison of CREATE, VERSION or LEASE of a key, or with ``end`` of all keys of a range.

    A missing key has the number 0, and so has a range without keys.
    """
    field = {"CREATE": "create_revision", "VERSION": "version", "LEASE": "lease"}[target]
    comparison: JsonObject = {"key": encoded(key), "target": target, "result": result}
    if end:
        comparison["range_end"] = encoded(end)
    return {**comparison, field: str(value)}


def is_absent(key: str) -> JsonObject:
    return compare(key, "CREATE", "EQUAL", 0)


def is_present(key: str) -> JsonObject:
    return compare(key, "CREATE", "GREATER", 0)


def is_childless(key: str) -> JsonObject:
    first, end = below(key)
    return compare(first, "CREATE", "EQUAL", 0, end=end)


def has_children(key: str) -> JsonObject:
    first, end = below(key)
    return compare(first, "CREATE", "GREATER", 0, end=end)


def number(message: Mapping[str, Any], name: str) -> int:
    """Return a number of a message, 0 when it is left out. Raises MalformedError."""
    try:
        return int(message.get(name, 0))
    except (TypeError, ValueError) as error:
        raise MalformedError(f"{name} is not a number") from error


def parsed(data: bytes) -> JsonObject:
    """Parse a message. Raises MalformedError."""
    try:
        message = json.loads(data)
    except ValueError as error:
        raise MalformedError("not JSON") from error
    return _object(message, "the message")


def part(message: Mapping[str, Any], name: str) -> JsonObject:
    """Return an object within a message, empty when it is left out. Raises MalformedError."""
    return _object(message.get(name, {}), name)


def parts(message: Mapping[str, Any], name: str) -> list[JsonObject]:
    """Return the objects of a list within a message, none when it is left out. Raises MalformedError."""
    items = message.get(name, [])
    if not isinstance(items, list):
        raise MalformedError(f"{name} is not a list")
    return [_object(item, name) for item in items]


def _object(value: Any, name: str) -> JsonObject:
    if not isinstance(value, dict):
        raise MalformedError(f"{name} is not an object")
    return value


def revision_of(answer: JsonObject) -> int:
    """Return the store's revision at an answer. Raises MalformedError without one."""
    revision = number(part(answer, "header"), "revision")
    if revision <= 0:
        raise MalformedError("no revision")
    return revision


def ranges_of(answer: JsonObject) -> list[list[EtcdKey]]:
    """Return the keys of each range in a transaction's answer, in order; none for its other operations."""
    return [keys_of(part(response, "response_range")) for response in parts(answer, "responses")]


def keys_of(answer: JsonObject) -> list[EtcdKey]:
    """Return the keys of a range. Raises MalformedError."""
    return [_key_value(item) for item in parts(answer, "kvs")]


def changes_of(result: JsonObject) -> list[KeyChange]:
    """Return the events of a watch's message in order. Raises MalformedError."""
    changes: list[KeyChange] = []
    for event in parts(result, "events"):
        item = part(event, "kv")
        revision = number(item, "mod_revision")
        created = number(item, "create_revision") == revision
        deleted = event.get("type") == "DELETE"
        changes.append(KeyChange(_text(item, "key"), revision, created or deleted))
    return changes


def _key_value(item: JsonObject) -> EtcdKey:
    return EtcdKey(
        _text(item, "key"),
        _bytes(item, "value"),
        number(item, "version"),
        number(item, "create_revision"),
        number(item, "mod_revision"),
        number(item, "lease"),
    )


def _bytes(item: JsonObject, name: str) -> bytes:
    try:
        return base64.b64decode(item.get(name, ""), validate=True)
    except (TypeError, ValueError) as error:
        raise MalformedError(f"{name} is not Base64") from error


def _text(item: JsonObject, name: str) -> str:
    return _bytes(item, name).decode(errors="surrogateescape")
