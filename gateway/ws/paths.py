"""Pulsar's WebSocket paths as values. Pure; the path as sent, since only there ``%2F`` and ``/`` differ.

``/ws/v2/{producer,reader}/{domain}/{tenant}/{namespace}/{topic}``, ``/ws/v2/consumer/…/{topic}/{subscription}``, the
same without ``v2`` and with a cluster before the namespace, and ``/ws/v3/consumer/{subscription}`` for several topics.
Slashes at the end belong to none of the names: pages write ``…/{topic}/?messageId=…``.
"""

from dataclasses import dataclass
from urllib.parse import unquote

from engine.base.errors import InvalidNameError
from engine.base.names import TopicName, check_subscription
from gateway.ws.frames import RefusedError

KINDS = ("producer", "consumer", "reader")
DOMAINS = ("persistent", "non-persistent")


@dataclass(frozen=True, slots=True)
class Target:
    """What a socket is for. ``topic``: full name, empty for v3 (the query names its topics)."""

    kind: str
    topic: str
    subscription: str = ""


def parse(raw_path: bytes) -> Target:
    """The target of a path that begins with ``/ws/``. Raises RefusedError with the statuses Pulsar answers."""
    try:
        parts = raw_path.decode("ascii").split("/")[2:]
    except UnicodeDecodeError as error:
        raise RefusedError(400, "The path must be ASCII, percent-encoded") from error
    if parts[:2] == ["v3", "consumer"]:
        _leave_slashes(parts, 3)
        if len(parts) != 3:
            raise RefusedError(400, "Invalid subscription name format")
        return Target("consumer", "", _subscription(parts[2]))
    legacy = parts[:1] != ["v2"]
    kind, *rest = (parts if legacy else parts[1:]) or [""]
    if kind not in KINDS:
        raise RefusedError(404, "Not Found")
    where = 4 if legacy else 3  # domain, tenant, (cluster,) namespace
    if len(rest) <= where:
        raise RefusedError(500, "Invalid topic name format")
    if rest[0] not in DOMAINS:
        raise RefusedError(500, f"Invalid topic domain: {_text(rest[0])}")
    subscription = ""
    _leave_slashes(rest, where + (2 if kind == "consumer" else 1))
    if kind == "consumer":
        if len(rest) != where + 2:
            raise RefusedError(400, "Invalid query params: Invalid topic name format")
        subscription = _subscription(rest.pop())
    # a topic's local name may hold slashes, sent encoded or not
    local = "/".join(_text(part) for part in rest[where:])
    owners = [_text(part) for part in rest[1:where]]
    if any(
        "/" in owner for owner in owners
    ):  # would move what follows to another place of the name
        raise RefusedError(400, "Invalid query params: a tenant or namespace holds no slash")
    prefix = "/".join(owners)
    return Target(kind, _topic(f"{rest[0]}://{prefix}/{local}", local), subscription)


def _leave_slashes(parts: list[str], names: int) -> None:
    """Take what stands behind slashes at the end, nothing, from ``parts``; the first so many must be names."""
    while len(parts) > names and not parts[-1]:
        parts.pop()


def topic_name(name: str) -> str:
    """A full topic name; a short one is completed. Raises RefusedError 400."""
    try:
        return str(TopicName.parse(name))
    except InvalidNameError as error:
        raise RefusedError(400, f"Invalid query params: {error}") from error


def _topic(name: str, local: str) -> str:
    if not local.strip("/ "):
        raise RefusedError(500, f"Invalid topic name: {name}. Topic local name must not be blank.")
    return topic_name(name)


def _subscription(part: str) -> str:
    try:
        return check_subscription(_text(part))
    except InvalidNameError as error:
        raise RefusedError(400, f"Invalid query params: {error}") from error


def _text(part: str) -> str:
    try:
        found = unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"Invalid query params: {part[:80]} is not UTF-8") from error
    if "\0" in found:
        raise RefusedError(400, f"Invalid query params: {part[:80]} holds a NUL")
    return found
