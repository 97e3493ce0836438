"""Statements of a source topic's broker to the broker of a shadow topic: how far its entries may be read. Pure.

A statement is a SEND with the position as its message id, as Apache Pulsar's brokers send each entry, but without the
entry: the shadow topic reads entries from the bookies.
"""

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.wire.batches import Message, pack_entry, read_metadata
from engine.wire.geo.source_positions import SOURCE_POSITION

SHADOW_LINK = "pulsar.repl-"
"""Prefix of the names of producers that state to shadow topics, in front of the source's name."""
LEDGER_BYTES = "__MAGNETAR_LEDGER_BYTES"
"""Property of a statement: bytes of the entries of the ledger up to the position."""
DIGITS_MAX = 18
"""Digits of a number that is read, which fits int64."""


def shadow_link_name(source: TopicName, shadow: TopicName) -> str:
    """Return the name of the producer that states the end of ``source`` to ``shadow``."""
    return f"{SHADOW_LINK}{source.full}-->{shadow.full}"


def statement(producer: str, position: Position, size: int, publish_ms: int) -> bytes:
    """Return the entry of a statement that the ``size`` bytes of a ledger up to ``position`` may be read."""
    properties = {
        SOURCE_POSITION: f"{position.ledger_id}:{position.entry_id}",
        LEDGER_BYTES: str(size),
    }
    message = Message(b"", properties=properties)
    return pack_entry([message], producer_name=producer, publish_ms=publish_ms)


def stated_bytes(entry: bytes) -> int:
    """Return the bytes that a statement names; 0 where it names none, as that of an Apache Pulsar broker."""
    metadata = read_metadata(entry)
    if metadata is None:
        return 0
    for item in metadata.properties:
        text = item.value
        if item.key == LEDGER_BYTES and text.isascii() and text.isdecimal():
            return int(text) if len(text) <= DIGITS_MAX else 0
    return 0
