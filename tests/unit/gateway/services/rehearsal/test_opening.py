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
    """Of entries 9:0 and following, given as a broker gives them."""
    opener = EntryOpener()
    stored = [(9, number, entry) for number, entry in enumerate(entries)]
    return [one for entry in reversed(stored) for one in opener.open([entry])]


def test_messages_come_newest_first_also_of_a_batch() -> None:
    versioned = {"schema_version": version_bytes(3)}
    found = opened(packed(b"a", extra=versioned), packed(b"b", b"c"), packed(b"d", compression=LZ4))
    assert [(one.id, one.content, one.version) for one in found] == [
        ("9:2", b"d", None),
        ("9:1:1", b"c", None),
        ("9:1:0", b"b", None),
        ("9:0", b"a", 3),
    ]
    assert {(one.producer, one.publish_ms, one.key) for one in found} == {("p", 5, b"k")}


def test_a_key_of_bytes_is_told_as_bytes() -> None:
    key = base64.b64encode(b"\xff\x00").decode()
    one = Message(b"v", key=key, key_is_base64=True)
    (found,) = opened(pack_entry([one], producer_name="p", publish_ms=1))
    assert found.key == b"\xff\x00"


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
def test_what_cannot_be_decoded_is_there_with_the_reason(
    entry: bytes, why: str, messages: int
) -> None:
    (found,) = opened(entry)
    assert (found.content, found.why, found.messages) == (None, why, messages)
    assert found.reason


def test_markers_and_compacted_messages_are_none() -> None:
    members = [Message(b"a", compacted_out=True), Message(b"b", batch_index=1)]
    batch = pack_entry(members, producer_name="p", publish_ms=1)
    found = opened(packed(b"marker", extra={"marker_type": 1}), batch)
    assert [one.content for one in found] == [b"b"]


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
    one, other = chunks(content, 3, compression), chunks(b"other", 2, uuid="o")
    mixed = [one[0], other[0], one[1], packed(b"x"), other[1], one[2]]
    assert [found.content for found in opened(*mixed)] == [b"x", b"other", content]


@pytest.mark.parametrize("count", [8_000_000, (1 << 31) - 1])
def test_a_claimed_number_of_chunks_takes_no_room(count: int) -> None:
    claim = packed(b"v", extra={"num_chunks_from_msg": count, "chunk_id": 0, "uuid": "u"})
    tracemalloc.start()
    (found,) = opened(claim)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.why, found.reason) == ("chunks", f"1 of its {count} chunks were read")
    assert peak_bytes < 1 << 20


def test_chunks_with_other_numbers_than_they_should_have_are_no_message() -> None:
    first = packed(b"v", extra={"num_chunks_from_msg": 2, "chunk_id": 0, "uuid": "u"})
    third = packed(b"w", extra={"num_chunks_from_msg": 2, "chunk_id": 2, "uuid": "u"})
    (found,) = opened(first, third)
    assert found.why == "chunks"


def test_an_encrypted_message_counts_for_no_more_than_its_bytes_can_hold() -> None:
    keys = [pb.EncryptionKeys(key="k", value=b"x")]
    extra = {"encryption_keys": keys, "num_messages_in_batch": 1 << 30}
    (found,) = opened(packed(b"v", extra=extra))
    assert (found.why, found.messages) == ("encrypted", 1)


def test_a_message_that_lacks_a_chunk_says_so() -> None:
    first, _, last = chunks(b"abcdef", 3)
    (found,) = opened(first, last)
    assert (found.why, found.reason) == ("chunks", "2 of its 3 chunks were read")
