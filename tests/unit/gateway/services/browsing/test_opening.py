"""Entries as they are browsed: messages, and everything else as what it is."""

from typing import Any

from engine.wire.batches import Message, pack_entry
from gateway.services.browsing.opening import BrowsedMessage, Kind, open_entry


def opened(*messages: Message, **options: Any) -> list[BrowsedMessage]:
    stored = pack_entry(messages, producer_name="p", publish_ms=7, **options)
    return list(open_entry(3, 4, stored))


def test_messages_of_a_batch_have_their_place_in_it() -> None:
    batch = opened(Message(b"a"), Message(None, key="k"), compression=1)
    assert [(m.id, m.batch_size, m.kind) for m in batch] == [
        ("3:4:0", 2, Kind.MESSAGE),
        ("3:4:1", 2, Kind.MESSAGE),
    ]
    assert batch[1].message is not None
    assert batch[1].message.value is None
    assert batch[0].codec == "LZ4"
    (alone,) = opened(Message(b"a"))
    assert (alone.id, alone.publish_ms, alone.producer) == ("3:4", 7, "p")


def test_entries_that_are_no_messages_are_shown_by_their_kind() -> None:
    (encrypted,) = opened(
        Message(b"secret", key="k"), extra={"encryption_keys": [{"key": "rsa", "value": b"x"}]}
    )
    assert (encrypted.kind, encrypted.message and encrypted.message.value) == (
        Kind.ENCRYPTED,
        b"secret",
    )
    (chunk,) = opened(Message(b"part"), extra={"num_chunks_from_msg": 3, "chunk_id": 1})
    assert chunk.kind is Kind.CHUNK
    (marker,) = opened(Message(b""), extra={"marker_type": 10})
    assert (marker.kind, marker.message) == (Kind.MARKER, None)
    (cut,) = open_entry(3, 4, b"\x00\x00\x00\xff")
    assert (cut.kind, cut.message) == (Kind.DAMAGED, None)
    assert "cut off" in cut.problem
    stored = pack_entry([Message(b"a" * 100)], producer_name="p", publish_ms=7, compression=1)
    (damaged,) = open_entry(3, 4, stored.replace(b"a", b"b"))
    assert damaged.kind is Kind.DAMAGED
    assert "checksum" in damaged.problem
