"""Parsing of Pulsar's WebSocket paths as sent, since ``%2F`` and ``/`` differ only there. Pure.

The paths are ``/ws/v2/{producer,reader}/{domain}/{tenant}/{namespace}/{topic}`` and
``/ws/v2/consumer/…/{topic}/{subscription}``, the same without ``v2`` and with a cluster before the namespace, and
``/ws/v3/consumer/{subscription}`` for several topics. Slashes at the end belong to no name: web pages write
``…/{topic}/?messageId=…``.
"""

from dataclasses import dataclass
from urllib.parse import unquote

from engine.base.errors import InvalidNameError
from engine.base.names import TopicName, check_subscription
from gateway.ws.frames import HandshakeRefusedError

PREFIX = b"/clusters/"
KINDS = ("producer", "consumer", "reader")
DOMAINS = ("persistent", "non-persistent")


@dataclass(frozen=True, slots=True)
class Target:
    """The endpoint and the names of a socket's path. ``topic``: full name; empty for v3, whose query has the topics."""

    kind: str
    topic: str
    subscription: str = ""


def without_cluster(raw_path: bytes) -> tuple[str, bytes]:
    """Return the cluster's name of a path ``/clusters/<cluster>/…`` and the rest of the path; an empty name, and the
    whole path, for any other path. Raises HandshakeRefusedError."""
    if not raw_path.startswith(PREFIX):
        return "", raw_path
    name, _, rest = raw_path.removeprefix(PREFIX).partition(b"/")
    return _text(name.decode("latin-1")), b"/" + rest


def parse(raw_path: bytes) -> Target:
    """Return the target of a path that begins with ``/ws/``.

    Raises HandshakeRefusedError with the status that Pulsar answers.
    """
    try:
        parts = raw_path.decode("ascii").split("/")[2:]
    except UnicodeDecodeError as error:
        raise HandshakeRefusedError(400, "The path must be ASCII, percent-encoded") from error
    if parts[:2] == ["v3", "consumer"]:
        _strip_slashes(parts, 3)
        if len(parts) != 3:
            raise HandshakeRefusedError(400, "Invalid subscription name format")
        return Target("consumer", "", _subscription(parts[2]))
    legacy = parts[:1] != ["v2"]
    kind, *names = (parts if legacy else parts[1:]) or [""]
    if kind not in KINDS:
        raise HandshakeRefusedError(404, "Not Found")
    local_at = 4 if legacy else 3  # Behind domain, tenant, (cluster,) namespace.
    if len(names) <= local_at:
        raise HandshakeRefusedError(500, "Invalid topic name format")
    if names[0] not in DOMAINS:
        raise HandshakeRefusedError(500, f"Invalid topic domain: {_text(names[0])}")
    subscription = ""
    _strip_slashes(names, local_at + (2 if kind == "consumer" else 1))
    if kind == "consumer":
        if len(names) != local_at + 2:
            raise HandshakeRefusedError(400, "Invalid query params: Invalid topic name format")
        subscription = _subscription(names.pop())
    # A topic's local name may hold slashes, sent encoded or not.
    local = "/".join(_text(part) for part in names[local_at:])
    owners = [_text(part) for part in names[1:local_at]]
    # A slash here would make the following names those of another tenant, namespace or topic.
    if any("/" in owner for owner in owners):
        raise HandshakeRefusedError(
            400, "Invalid query params: a tenant or namespace holds no slash"
        )
    prefix = "/".join(owners)
    return Target(kind, _topic(f"{names[0]}://{prefix}/{local}", local), subscription)


def _strip_slashes(parts: list[str], names: int) -> None:
    """Remove the empty parts behind slashes at the end, except from the first ``names`` parts."""
    while len(parts) > names and not parts[-1]:
        parts.pop()


def topic_name(name: str) -> str:
    """Return the full topic name of a full or short one. Raises HandshakeRefusedError with status 400."""
    try:
        return str(TopicName.parse(name))
    except InvalidNameError as error:
        raise HandshakeRefusedError(400, f"Invalid query params: {error}") from error


def _topic(name: str, local: str) -> str:
    if not local.strip("/ "):
        raise HandshakeRefusedError(
            500, f"Invalid topic name: {name}. Topic local name must not be blank."
        )
    return topic_name(name)


def _subscription(part: str) -> str:
    try:
        return check_subscription(_text(part))
    except InvalidNameError as error:
        raise HandshakeRefusedError(400, f"Invalid query params: {error}") from error


def _text(part: str) -> str:
    try:
        text = unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise HandshakeRefusedError(
            400, f"Invalid query params: {part[:80]} is not UTF-8"
        ) from error
    if "\0" in text:
        raise HandshakeRefusedError(400, f"Invalid query params: {part[:80]} holds a NUL")
    return text
