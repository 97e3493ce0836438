"""The copies of messages, as they are published. Pure.

A copy has the value, key, properties and event time of its message, but neither its delivery time nor what the broker
added.
"""

from typing import Any

from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Hashing, key_hash
from engine.schema.values.letter_properties import OWN_PROPERTIES
from engine.wire import pulsar_pb2 as pb
from gateway.services.browsing.opening import BrowsedMessage, Kind

_SEALED_FIELDS = (
    *("encryption_keys", "encryption_algo", "encryption_param", "compression"),
    *("uncompressed_size", "num_messages_in_batch"),
)
"""Metadata by which holders of the keys read an encrypted entry, which is copied as it is stored."""


def outgoing_of(
    browsed: BrowsedMessage, value: bytes | None, schema_version: bytes, *, as_origin: bool
) -> OutgoingMessage:
    """Return the copy of a message. ``schema_version``: that of its schema in the target, empty without one.
    ``as_origin``: without the properties that made it a dead letter."""
    message = browsed.message
    assert message is not None, "markers and damaged entries are not copied"
    fields: dict[str, Any] = {}
    if schema_version:
        fields["schema_version"] = schema_version
    if value is None:
        fields["null_value"] = True
    if message.key_is_base64:
        fields["partition_key_b64_encoded"] = True
    if browsed.kind is Kind.ENCRYPTED:
        listed = browsed.metadata.ListFields()
        fields |= {item.name: value for item, value in listed if item.name in _SEALED_FIELDS}
    extra = pb.MessageMetadata(**fields).SerializePartialToString() if fields else b""
    properties = message.properties
    if as_origin:
        properties = {name: text for name, text in properties.items() if name not in OWN_PROPERTIES}
    return OutgoingMessage(
        value or b"",
        key=message.key,
        ordering_key=message.ordering_key,
        properties=properties,
        event_ms=message.event_ms,
        extra_metadata=extra,
    )


def partition_choice(browsed: BrowsedMessage, ordinal: int) -> int:
    """Return the number that chooses a copy's partition: by the key as producers do, else by the entry, so that a
    repetition goes to the same one."""
    message = browsed.message
    if message is not None and message.key is not None:
        return key_hash(Hashing.JAVA_STRING, message.key)
    return ordinal
