"""Entries of every form, opened from the newest to the oldest."""

import base64
import tracemalloc

import pytest

from engine.schema.kinds import version_bytes
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from engine.wire.compression import LZ4, ZLIB, compress
from gateway.services.rehearsal.opening import EntryOpener, OpenedMessage


def packed(*values: bytes | None, **more: object) -> bytes:
    messages = [Message(value, key="k", batch_index=i) for i, value in enumerate(values)]
    return pack_entry(messages, producer_name="p", publish_ms=5, **more)  # type: ignore[arg-type]


def opened(*entries: bytes) -> list[OpenedMessage]:
    """Return the messages of entries 9:0 and following, given as a broker gives them."""
    opener = EntryOpener()
    stored = [(9, number, entry) for number, entry in enumerate(entries)]
    return [message for entry in reversed(stored) for message in opener.open([entry])]


def test_messages_are_ordered_newest_first_within_batches_too() -> None:
    versioned = {"schema_version": version_bytes(3)}
    messages = opened(
        packed(b"a", extra=versioned), packed(b"b", b"c"), packed(b"d", compression=LZ4)
    )
    assert [(message.id, message.content, message.version) for message in messages] == [
        ("9:2", b"d", None),
        ("9:1:1", b"c", None),
        ("9:1:0", b"b", None),
        ("9:0", b"a", 3),
    ]
    assert {(message.producer, message.publish_ms, message.key) for message in messages} == {
        ("p", 5, b"k")
    }


def test_a_key_of_bytes_is_returned_as_bytes() -> None:
    key = base64.b64encode(b"\xff\x00").decode()
    published = Message(b"v", key=key, key_is_base64=True)
    (message,) = opened(pack_entry([published], producer_name="p", publish_ms=1))
    assert message.key == b"\xff\x00"


@pytest.mark.parametrize(
    ("entry", "why", "messages"),
    [
        (packed(None), "no-value", 1),
        (packed(b"v", extra={"schema_version": b"abc"}), "version", 1),
        (packed(b"v")[:-1], "damaged", 1),
        (b"", "damaged", 1),
        (
            packed(
                b"v",
                b"w",
                extra={"encryption_keys": [pb.EncryptionKeys(key="k", value=b"x")]},
            ),
            "encrypted",
            2,
        ),
    ],
)
def test_an_undecodable_message_is_returned_with_the_reason(
    entry: bytes, why: str, messages: int
) -> None:
    (message,) = opened(entry)
    assert (message.content, message.why, message.messages) == (None, why, messages)
    assert message.reason


def test_markers_and_compacted_messages_are_none() -> None:
    members = [Message(b"a", compacted_out=True), Message(b"b", batch_index=1)]
    batch = pack_entry(members, producer_name="p", publish_ms=1)
    messages = opened(packed(b"marker", extra={"marker_type": 1}), batch)
    assert [message.content for message in messages] == [b"b"]


def chunks(content: bytes, count: int, compression: int = 0, uuid: str = "u") -> list[bytes]:
    whole = compress(compression, content)
    step = -(-len(whole) // count)
    common = {
        "uuid": uuid,
        "num_chunks_from_msg": count,
        "total_chunk_msg_size": len(whole),
        "compression": compression,
        "uncompressed_size": len(content),
    }
    return [
        packed(whole[at * step : (at + 1) * step], extra={**common, "chunk_id": at})
        for at in range(count)
    ]


@pytest.mark.parametrize("compression", [0, ZLIB])
def test_chunks_are_one_message_also_among_those_of_others(compression: int) -> None:
    content = bytes(range(256)) * 40
    first, other = chunks(content, 3, compression), chunks(b"other", 2, uuid="o")
    mixed = [first[0], other[0], first[1], packed(b"x"), other[1], first[2]]
    assert [message.content for message in opened(*mixed)] == [b"x", b"other", content]


@pytest.mark.parametrize("count", [8_000_000, (1 << 31) - 1])
def test_a_claimed_number_of_chunks_takes_no_room(count: int) -> None:
    claim = packed(b"v", extra={"num_chunks_from_msg": count, "chunk_id": 0, "uuid": "u"})
    tracemalloc.start()
    (message,) = opened(claim)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (message.why, message.reason) == ("chunks", f"1 of its {count} chunks were read")
    assert peak_bytes < 1 << 20


def test_chunks_with_other_numbers_than_they_should_have_are_no_message() -> None:
    first = packed(b"v", extra={"num_chunks_from_msg": 2, "chunk_id": 0, "uuid": "u"})
    third = packed(b"w", extra={"num_chunks_from_msg": 2, "chunk_id": 2, "uuid": "u"})
    (message,) = opened(first, third)
    assert message.why == "chunks"


def test_an_encrypted_message_counts_for_no_more_than_its_bytes_can_hold() -> None:
    keys = [pb.EncryptionKeys(key="k", value=b"x")]
    extra = {"encryption_keys": keys, "num_messages_in_batch": 1 << 30}
    (message,) = opened(packed(b"v", extra=extra))
    assert (message.why, message.messages) == ("encrypted", 1)


def test_a_message_that_lacks_a_chunk_has_that_reason() -> None:
    first, _, last = chunks(b"abcdef", 3)
    (message,) = opened(first, last)
    assert (message.why, message.reason) == ("chunks", "2 of its 3 chunks were read")
