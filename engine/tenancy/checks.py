"""Checks of single values that callers give. A failed one raises InvalidRequest with the field's name. Pure."""

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
"""Actions that may be granted to a role."""
PROPERTIES_BYTES_MAX = 64 << 10
"""Limit of a topic's or a subscription's properties in bytes.

They share a node of at most 1 MiB with state that must not be lost: a topic's ledgers or acknowledged positions.
"""

NAME_MAX = 255
"""Maximum number of characters of a name for which Pulsar has no limit."""
_NOT_IN_NODES = re.compile(r"[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
"""Characters that no ZooKeeper path may contain. Its server checks UTF-16 units, which excludes all characters beyond
the basic plane."""
DOCUMENT_BYTES_MAX = 512 << 10
"""Limit in bytes of a document that all entries of a kind share; a node holds at most 1 MiB."""


def texts(key: str, value: Any) -> list[str]:
    """Return a list of texts without repetitions. Raises InvalidRequest for any other value."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidRequest(f"{key}: must be a list of texts")
    return list(dict.fromkeys(value))


def text_map(key: str, value: Any) -> dict[str, str]:
    """Return an object whose values are texts. Raises InvalidRequest for any other value."""
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise InvalidRequest(f"{key}: must be an object of texts")
    return value


def typed(key: str, value: Any, kind: type[Any], named: str) -> Any:
    """Return ``value`` if it is of ``kind``; a boolean is not a number.

    Raises InvalidRequest, in which ``named`` describes the kind.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidRequest(f"{key}: must be {named}")
    return value


def check_new_properties(properties: Mapping[str, str], reserved: str) -> None:
    """Raise PreconditionFailed for names that begin with ``reserved``, which only brokers use, and for properties too
    large for a node."""
    if any(key.startswith(reserved) for key in properties):
        raise PreconditionFailed(f"Property names with {reserved} are reserved")
    check_properties_size(properties)


def check_expected(present: Mapping[str, str], expected: Mapping[str, str] | None) -> None:
    """Raise Conflict when the properties differ from those that the client read; None skips the check."""
    if expected is not None and dict(present) != dict(expected):
        raise Conflict("The properties were changed meanwhile; look at them again")


def check_properties_size(properties: Mapping[str, str]) -> None:
    """Raise PreconditionFailed when names and values together exceed PROPERTIES_BYTES_MAX."""
    size = sum(len(key.encode()) + len(value.encode()) for key, value in properties.items())
    if size > PROPERTIES_BYTES_MAX:
        raise PreconditionFailed(
            f"properties: {size} bytes, at most {PROPERTIES_BYTES_MAX} are stored"
        )


def node_name(what: str, name: str) -> str:
    """Return ``name`` if a node may have it, for names that Pulsar has no rules for. Raises PreconditionFailed."""
    if not name or _NOT_IN_NODES.search(name) or name in (".", "..", "zookeeper"):
        raise PreconditionFailed(f"{what} name is not valid")
    if len(name) > NAME_MAX:
        raise PreconditionFailed(f"{what} name: {len(name)} characters, at most {NAME_MAX}")
    return name


def check_document_size(what: str, encoded: bytes) -> bytes:
    """Return ``encoded`` if it has at most DOCUMENT_BYTES_MAX bytes. Raises PreconditionFailed."""
    if len(encoded) > DOCUMENT_BYTES_MAX:
        raise PreconditionFailed(
            f"{what}: {len(encoded)} bytes, at most {DOCUMENT_BYTES_MAX} are stored"
        )
    return encoded


def entity(what: str, name: str) -> str:
    """Return ``name`` if a cluster or tenant may have it. Raises PreconditionFailed."""
    try:
        return check_entity(what.lower(), name)
    except InvalidNameError as error:
        raise PreconditionFailed(f"{what} name is not valid") from error


def read_actions(given: Any) -> list[str]:
    """Return a caller's actions, each once, in the order of ``ACTIONS``.

    Raises InvalidRequest with the name of an unknown action.
    """
    if given is None:
        raise InvalidRequest("Actions should not be null")
    if not isinstance(given, list):
        raise InvalidField("actions", "expected an array")
    for action in given:
        if action not in ACTIONS:
            raise InvalidField("actions", f"{action!r} is none of {', '.join(ACTIONS)}")
    return [action for action in ACTIONS if action in given]


def read_roles(given: Any) -> list[str]:
    """Return a caller's roles, each once, sorted. Raises InvalidRequest."""
    if given is None:
        raise InvalidRequest("Roles should not be null")
    return sorted(texts("roles", given))
