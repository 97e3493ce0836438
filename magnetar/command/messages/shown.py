"""Messages as text for people, and as JSON for programs. Whatever a message holds, a terminal stays usable (P3).

Text has control characters, and those that reverse the direction of text, as escapes such as ``\\x1b``; payloads that
are not UTF-8 are in base64. JSON is exact: 64-bit numbers as they are, and ``payload_base64`` for what is no text.
"""

import base64
import json
import re
from datetime import UTC, datetime
from typing import Any

from engine.client.consuming.incoming import Incoming
from engine.wire.texts import ISO_MS_MAX, readable
from magnetar.command.output import UNSAFE, safe

_NOT_IN_JSON = re.compile(f"{UNSAFE.pattern[:-1]}\x09]")


def json_line(value: Any) -> str:
    """Return a value as JSON in one line, whose texts may be shown by a terminal."""
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def text_of(data: bytes | None) -> str:
    """Return a payload as text: ``null``, its text, or base64."""
    if data is None:
        return "null"
    try:
        return safe(data.decode())
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(data).decode()}"


def time_text(ms: int) -> str:
    """Return milliseconds since the epoch as ISO time; as a number where it is no time of our calendar."""
    if not 0 <= ms <= ISO_MS_MAX:
        return str(ms)
    second, millisecond = divmod(ms, 1000)
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{millisecond:03d}Z"


def message_id_text(message: Incoming) -> str:
    """Return ``ledger:entry:partition``, and ``:index`` in a batch, as Java's client writes it."""
    position, partition = message.position, message.source.partition
    text = f"{position.ledger_id}:{position.entry_id}:{partition}"
    return text if message.batch is None else f"{text}:{message.batch_index}"


def line(message: Incoming, value: Any = None, *, decoded: bool, verbose: bool) -> str:
    """Return a message as a line of text. ``value``: the payload decoded by its schema, when ``decoded``."""
    content = json_line(value) if decoded else text_of(message.content)
    if message.encrypted:
        content = f"encrypted {content}"
    if not verbose:
        return content
    parts = [message_id_text(message), time_text(message.publish_ms)]
    if message.key is not None:
        parts.append(f"key={safe(message.key)}")
    parts += [f"{safe(name)}={safe(text)}" for name, text in message.properties.items()]
    if message.redelivery_count:
        parts.append(f"redelivered={message.redelivery_count}")
    return f"[{' '.join(parts)}] {content}"


def document(message: Incoming, value: Any = None, *, decoded: bool) -> dict[str, Any]:
    """Return a message as a JSON object. Fields that it does not have are left out, except for the payload."""
    position, metadata = message.position, message.metadata
    shown: dict[str, Any] = {
        "topic": message.topic,
        "message_id": message_id_text(message),
        "ledger": position.ledger_id,
        "entry": position.entry_id,
        "publish_time_ms": message.publish_ms,
        "publish_time": time_text(message.publish_ms),
        "producer": readable(metadata.producer_name),
        "sequence_id": message.own.sequence_id,
    }
    if message.source.partition >= 0:
        shown["partition"] = message.source.partition
    if message.batch is not None:
        shown |= {"batch_index": message.batch_index, "batch_size": message.batch.size}
    if message.event_ms:
        shown["event_time_ms"] = message.event_ms
    if message.key is not None:
        shown["key_base64" if message.key_is_base64 else "key"] = message.key
    if message.ordering_key is not None:
        shown["ordering_key_base64"] = base64.b64encode(message.ordering_key).decode()
    if message.properties:
        shown["properties"] = message.properties
    if message.redelivery_count:
        shown["redeliveries"] = message.redelivery_count
    if message.replicated_from:
        shown["replicated_from"] = message.replicated_from
    if metadata.HasField("schema_version"):
        shown["schema_version_base64"] = base64.b64encode(metadata.schema_version).decode()
    if message.encrypted:
        shown["encrypted"] = True
    shown |= _payload(message.content)
    if decoded:
        shown["value"] = value
    return shown


def _payload(data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {"payload": None}
    try:
        return {"payload": data.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(data).decode()}


__all__ = ["document", "json_line", "line", "message_id_text", "safe", "text_of", "time_text"]
