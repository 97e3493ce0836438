"""Checks of what callers give, one value at a time: each raises InvalidRequest naming the field. Pure."""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import InvalidNameError, InvalidRequest, PreconditionFailed
from engine.base.names import check_entity

PROPERTIES_BYTES_MAX = 64 << 10
"""Of a topic's or a subscription's properties: they share a node of at most 1 MiB with what must not be lost."""


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


def check_properties_size(properties: Mapping[str, str]) -> None:
    """Raises PreconditionFailed when names and values together take more than PROPERTIES_BYTES_MAX."""
    size = sum(len(key.encode()) + len(value.encode()) for key, value in properties.items())
    if size > PROPERTIES_BYTES_MAX:
        raise PreconditionFailed(
            f"properties: {size} bytes, at most {PROPERTIES_BYTES_MAX} are stored"
        )


def entity(what: str, name: str) -> str:
    """``name`` when a cluster or tenant may be called so, else PreconditionFailed."""
    try:
        return check_entity(what.lower(), name)
    except InvalidNameError as error:
        raise PreconditionFailed(f"{what} name is not valid") from error
