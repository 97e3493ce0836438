"""Messages given as texts, encoded by a schema into what a producer sends. Pure."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

from engine.client.producing.outgoing import OutgoingMessage
from engine.schema.encoding import encoder
from engine.schema.kinds import Schema, SchemaKind
from engine.wire import pulsar_pb2 as pb
from gateway.services.publishing import Outgoing

PROPERTY_OVERHEAD_BYTES = 100
"""Memory that a property takes besides its texts."""
_KEY_IN_BASE64 = pb.MessageMetadata(partition_key_b64_encoded=True).SerializePartialToString()
_NO_VALUE = pb.MessageMetadata(null_value=True).SerializePartialToString()


@dataclass(frozen=True, slots=True)
class GivenMessage:
    """A message to publish. Times are milliseconds since the epoch, 0 for none.

    ``payload``: a text that the schema encodes, bytes that are sent as they are, or None for a message without a value,
    which in a compacted topic deletes its key. ``sequence_id`` None: the producer assigns it.
    """

    payload: str | bytes | None
    key: str | None = None
    properties: dict[str, str] | None = None
    event_ms: int = 0
    deliver_at_ms: int = 0
    replicate_to: list[str] | None = None
    sequence_id: int | None = None
    key_is_base64: bool = False
    ordering_key: bytes | None = None


def outgoing_encoder(schema: Schema) -> Callable[[GivenMessage], Outgoing]:
    """Return the function that encodes messages by ``schema``, which raises UnencodableError with a path that begins
    with ``payload`` or ``key``. Raises InvalidSchemaError for a schema that can encode none."""
    encode = encoder(schema)
    is_pair = schema.kind is SchemaKind.KEY_VALUE

    def outgoing(given: GivenMessage) -> Outgoing:
        key, extra = given.key, _KEY_IN_BASE64 if given.key_is_base64 else b""
        if given.payload is None:
            payload, extra = b"", extra + _NO_VALUE
        elif isinstance(given.payload, bytes):
            payload = given.payload
        else:
            payload, key_bytes = encode(given.payload, given.key)
            if is_pair:
                key = None if key_bytes is None else b64encode(key_bytes).decode()
                extra = b"" if key_bytes is None else _KEY_IN_BASE64
        properties = given.properties or {}
        texts = sum(len(name) + len(value) for name, value in properties.items())
        message = OutgoingMessage(
            payload,
            key=key,
            ordering_key=given.ordering_key,
            properties=properties,
            event_ms=given.event_ms,
            deliver_at_ms=given.deliver_at_ms,
            replicate_to=given.replicate_to or [],
            extra_metadata=extra,
            beside_bytes=texts + len(key or "") + PROPERTY_OVERHEAD_BYTES * len(properties),
        )
        return Outgoing(message, given.sequence_id)

    return outgoing
