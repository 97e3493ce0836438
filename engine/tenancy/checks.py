"""Checks of what callers give, one value at a time: each raises InvalidRequest naming the field. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from engine.base.errors import (
    Conflict,
    InvalidField,
    InvalidNameError,
    InvalidRequest,
    PreconditionFailed,
)
from engine.base.names import check_entity

ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")
"""What may be granted to a role."""
PROPERTIES_BYTES_MAX = 64 << 10
"""Of a topic's or a subscription's properties: they share a node of at most 1 MiB with what must not be lost."""

NAME_MAX = 255
"""Characters of a name for which Pulsar has no limit."""
_NOT_IN_NODES = re.compile(r"[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
"""What ZooKeeper allows in no path: its server looks at UTF-16, so nothing beyond the basic plane either."""
DOCUMENT_BYTES_MAX = 512 << 10
"""Of what all entries of a kind share: a node holds at most 1 MiB."""


def texts(key: str, value: Any) -> list[str]:
    """A list of texts without its repetitions."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidRequest(f"{key}: must be a list of texts")
    return list(dict.fromkeys(value))


def text_map(key: str, value: Any) -> dict[str, str]:
    """An object of texts."""
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise InvalidRequest(f"{key}: must be an object of texts")
    return value


def typed(key: str, value: Any, kind: type[Any], named: str) -> Any:
    """``value`` when it is of ``kind``, which callers know as ``named``; a boolean is no number."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidRequest(f"{key}: must be {named}")
    return value


def check_expected(present: Mapping[str, str], expected: Mapping[str, str] | None) -> None:
    """Raises Conflict when there are other properties than somebody saw; None: nobody looked."""
    if expected is not None and dict(present) != dict(expected):
        raise Conflict("The properties were changed meanwhile; look at them again")


def check_properties_size(properties: Mapping[str, str]) -> None:
    """Raises PreconditionFailed when names and values together take more than PROPERTIES_BYTES_MAX."""
    size = sum(len(key.encode()) + len(value.encode()) for key, value in properties.items())
    if size > PROPERTIES_BYTES_MAX:
        raise PreconditionFailed(
            f"properties: {size} bytes, at most {PROPERTIES_BYTES_MAX} are stored"
        )


def node_name(what: str, name: str) -> str:
    """``name`` when a node can be called so, else PreconditionFailed: Pulsar sets no rules for these names."""
    if not name or _NOT_IN_NODES.search(name) or name in (".", "..", "zookeeper"):
        raise PreconditionFailed(f"{what} name is not valid")
    if len(name) > NAME_MAX:
        raise PreconditionFailed(f"{what} name: {len(name)} characters, at most {NAME_MAX}")
    return name


def check_document_size(what: str, encoded: bytes) -> bytes:
    """``encoded`` when it fits a node, else PreconditionFailed."""
    if len(encoded) > DOCUMENT_BYTES_MAX:
        raise PreconditionFailed(
            f"{what}: {len(encoded)} bytes, at most {DOCUMENT_BYTES_MAX} are stored"
        )
    return encoded


def entity(what: str, name: str) -> str:
    """``name`` when a cluster or tenant may be called so, else PreconditionFailed."""
    try:
        return check_entity(what.lower(), name)
    except InvalidNameError as error:
        raise PreconditionFailed(f"{what} name is not valid") from error


def read_actions(given: Any) -> list[str]:
    """A caller's actions, each once, in the order of ``ACTIONS``. Raises InvalidRequest naming one that is none."""
    if given is None:
        raise InvalidRequest("Actions should not be null")
    if not isinstance(given, list):
        raise InvalidField("actions", "expected an array")
    for action in given:
        if action not in ACTIONS:
            raise InvalidField("actions", f"{action!r} is none of {', '.join(ACTIONS)}")
    return [action for action in ACTIONS if action in given]


def read_roles(given: Any) -> list[str]:
    """A caller's roles, each once, sorted. Raises InvalidRequest."""
    if given is None:
        raise InvalidRequest("Roles should not be null")
    return sorted(texts("roles", given))
