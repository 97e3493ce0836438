"""Schemas of a topic in a command: texts encoded before they are published, payloads decoded to be shown."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from engine.base.errors import MagnetarError
from engine.client.client import PulsarClient
from engine.client.consuming.incoming import Incoming
from engine.client.errors import REFUSALS, ServerError
from engine.schema.kinds import InvalidSchemaError, SchemaKind
from engine.schema.wire_form import from_wire
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb

DECODERS_MAX = 1000
"""Versions of schemas that are kept decoded; a topic with more begins anew."""
_NONE: tuple[bool, Any] = (False, None)


class TopicSchema:
    """The schema of a topic for publishing. ``wire`` is what the producer presents to the broker."""

    def __init__(
        self, wire: pb.Schema, kind: str, encode: Callable[[str, str | None], Any]
    ) -> None:
        self.wire = wire
        self.kind = kind
        self._encode = encode

    def encoded(self, payload: bytes, key: str | None) -> tuple[bytes, bytes | None]:
        """Return payload and key as the schema has them. ``key`` None: none, or it stays as it is.

        Raises UnencodableError for a text that does not fit, UnicodeDecodeError for one that is not UTF-8.
        """
        encoded = self._encode(payload.decode(), key)
        return encoded.payload, encoded.key


async def schema_of(client: PulsarClient, topic: str) -> TopicSchema | None:
    """Return the topic's newest schema; None when it has none, or one that does not limit payloads.

    Raises InvalidSchemaError for a kind whose messages cannot be written as text, and MagnetarError.
    """
    from engine.schema.encoding import encoder  # Topics without a schema do not need it.

    try:
        answer = await client.answer_of_any(
            lambda link, request_id: say.get_schema(topic, request_id)
        )
        schema = from_wire(answer.schema)
    except REFUSALS[ServerError.TopicNotFound]:
        return None
    if schema.kind is SchemaKind.NONE:
        return None
    return TopicSchema(answer.schema, schema.kind.value, encoder(schema))


class Decoding:
    """Decoders by topic and version, requested once each."""

    def __init__(self, client: PulsarClient) -> None:
        self._client = client
        self._decoders: dict[tuple[str, bytes], Any] = {}

    async def value(self, message: Incoming) -> tuple[bool, Any]:
        """Return whether the payload could be decoded by its schema, and the value. Raises nothing but
        CancelledError: a message without its schema is shown as it is."""
        metadata = message.metadata
        if not metadata.HasField("schema_version") or message.content is None or message.encrypted:
            return _NONE
        from engine.schema.decoding import UndecodableError

        decoder = await self._decoder(message.topic, bytes(metadata.schema_version))
        if decoder is None:
            return _NONE
        try:
            return True, decoder.value(message.content, _key(message))
        except UndecodableError:
            return _NONE

    async def _decoder(self, topic: str, version: bytes) -> Any:
        from engine.schema.decoding import decoder

        place = topic, version
        if place not in self._decoders:
            if len(self._decoders) >= DECODERS_MAX:
                self._decoders.clear()
            try:
                schema = from_wire(await self._client.schema(topic, version))
                # Text of these kinds is exact as it is.
                plain = schema.kind in (SchemaKind.NONE, SchemaKind.STRING, SchemaKind.JSON)
                self._decoders[place] = None if plain else decoder(schema)
            except InvalidSchemaError:
                self._decoders[place] = None
            except MagnetarError:
                return None  # requested again for the next message
        return self._decoders[place]


def _key(message: Incoming) -> bytes | None:
    """Return the key's bytes, as a schema of keys and values has them."""
    key = message.key
    if key is None or not message.key_is_base64:
        return None if key is None else key.encode()
    try:
        return base64.b64decode(key, validate=True)
    except binascii.Error:
        return key.encode()
