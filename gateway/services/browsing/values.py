"""Values of messages as text, decoded by the schema version that each message names."""

import json
from collections.abc import Iterable
from typing import Any

from engine.base.errors import refuse_constant
from engine.base.names import TopicName
from engine.schema.decoding import Decoder, UndecodableError, decoder
from engine.schema.kinds import InvalidSchemaError, Schema, version_of
from gateway.services.admin import schemas
from gateway.services.browsing.opening import BrowsedMessage, Kind
from gateway.services.engine_link import Engine

Json = dict[str, Any]
HEX_BYTES_MAX = 4_096
"""Bytes that are shown of a value that is no text."""
_PARSED_BYTES_MAX = 4 << 20
"""Bytes up to which a value without a schema is tried as JSON."""


class TopicValues:
    """Decoding for one topic, all partitions. Schema versions are fetched once."""

    def __init__(self, topic: TopicName) -> None:
        self._topic = topic.partitioned
        self._decoders: dict[int, Decoder | str] = {}

    async def fetch(self, engine: Engine, messages: Iterable[BrowsedMessage]) -> None:
        """Fetch the schema versions that ``messages`` name. Raises the errors of the call."""
        numbers = {
            number
            for message in messages
            if (number := version_of(message.metadata.schema_version)) is not None
        }
        if wanted := numbers - self._decoders.keys():
            for number, version in (await schemas.stored(engine, self._topic, wanted)).items():
                stored = version if isinstance(version, str) else version.schema
                self._decoders[number] = _decoder_of(stored)

    def shown(self, browsed: BrowsedMessage, characters: int) -> Json:
        """Return the value for a person, cut after ``characters``.

        ``form``: json (decoded, or JSON as it was sent), text, bytes (as hexadecimal digits) or none. ``error``: why
        it could not be decoded by its schema.
        """
        message = browsed.message
        content = None if message is None else message.value
        if content is None or message is None:
            return _value("none", "", 0)
        number = version_of(browsed.metadata.schema_version)
        if browsed.kind is not Kind.MESSAGE:
            return _bytes(content, number)
        error = None
        if number is not None:
            known = self._decoders.get(number, "the schema version was not read")
            if isinstance(known, str):
                error = known
            else:
                try:
                    text = _json_text(known.value(content, message.raw_key))
                    return _value("json", text, len(content), characters, number)
                except UndecodableError as problem:
                    error = f"{problem.path}: {problem.reason}" if problem.path else problem.reason
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return _bytes(content, number, error)
        if not text.isprintable() and any(ord(c) < 32 and c not in "\t\r\n" for c in text):
            return _bytes(content, number, error)
        form = "json" if _is_json(text) else "text"
        return _value(form, text, len(content), characters, number, error)

    def text(self, browsed: BrowsedMessage) -> str:
        """Return the complete value as text for filters; empty for a value that is no text."""
        if browsed.text is None:
            value = self.shown(browsed, characters=1 << 30)
            browsed.text = value["text"] if value["form"] in ("json", "text") else ""
        return browsed.text


def _decoder_of(stored: Schema | str) -> Decoder | str:
    if isinstance(stored, str):
        return stored
    try:
        return decoder(stored)
    except InvalidSchemaError as error:
        return str(error)


def _json_text(value: Any) -> str:
    """Return a decoded value as JSON, with all digits of its numbers; a text alone is JSON too."""
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    """Return whether a text is a JSON object or array: a number or a word alone is shown as the text that it is."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _PARSED_BYTES_MAX:
        return False
    try:
        # Whole numbers stay texts: Python refuses those of more than 4,300 digits.
        json.loads(text, parse_constant=refuse_constant, parse_int=str)
    except (ValueError, RecursionError):
        return False
    return True


def _bytes(content: bytes, version: int | None, error: str | None = None) -> Json:
    head = content[:HEX_BYTES_MAX].hex(" ")
    value = _value("bytes", head, len(content), version=version, error=error)
    return value | {"cut": len(content) > HEX_BYTES_MAX}


def _value(
    form: str,
    text: str,
    size: int,
    characters: int = 1 << 30,
    version: int | None = None,
    error: str | None = None,
) -> Json:
    return {
        "form": form,
        "text": text[:characters],
        "bytes": size,
        "cut": len(text) > characters,
        "schema_version": version,
        "error": error,
    }
