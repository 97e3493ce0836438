"""Entries of every kind are decoded to the published messages."""

import pytest

from engine.base.ids import Position
from engine.client.consuming.incoming import Incoming, encrypted, messages_due, open_entry
from engine.client.message_ids import MessageId
from engine.wire.batches import BatchFormatError, Message, pack_entry, split_entry
from engine.wire.compression import LZ4, NONE, SNAPPY, ZLIB, ZSTD

AT = Position(7, 3)


class Source:
    topic, partition = "persistent://public/default/t-partition-2", 2


def opened(entry: bytes, due: list[int] | None = None) -> list[Incoming]:
    _, metadata, payload = split_entry(entry)
    return open_entry(Source(), AT, 1, metadata, payload, due or [])


@pytest.mark.parametrize("codec", [NONE, LZ4, ZLIB, ZSTD, SNAPPY])
@pytest.mark.parametrize("count", [1, 5])
def test_messages_are_as_sent(codec: int, count: int) -> None:
    sent = [
        Message(b"value %d" % i, f"k{i}", False, b"o", {"ü": "ö"}, 77 + i) for i in range(count)
    ]
    entry = pack_entry(sent, producer_name="p", publish_ms=5, compression=codec)
    for i, got in enumerate(opened(entry)):
        assert (got.content, got.key, got.ordering_key) == (sent[i].value, f"k{i}", b"o")
        assert (got.properties, got.event_ms, got.publish_ms) == ({"ü": "ö"}, 77 + i, 5)
        assert (got.topic, got.redelivery_count) == (Source.topic, 1)
        batched = (i, count) if count > 1 else (-1, 0)
        assert got.message_id == MessageId(AT, 2, *batched)


def test_nulls_and_keys_of_bytes() -> None:
    extra = {"replicated_from": "other"}
    entry = pack_entry([Message(None, "AAE=", True)], producer_name="p", publish_ms=5, extra=extra)
    (got,) = opened(entry)
    assert (got.content, got.key, got.key_is_base64) == (None, "AAE=", True)
    assert got.replicated_from == "other"
    (plain,) = opened(pack_entry([Message(b"")], producer_name="p", publish_ms=5))
    assert (plain.content, plain.key, plain.replicated_from) == (b"", None, None)


def test_only_what_is_due_of_a_batch() -> None:
    sent = [Message(b"%d" % i, compacted_out=i == 2) for i in range(5)]
    entry = pack_entry(sent, producer_name="p", publish_ms=5)
    assert [message.content for message in opened(entry)] == [b"0", b"1", b"3", b"4"]
    due = opened(entry, [0b10110])
    assert [message.content for message in due] == [b"1", b"4"]
    assert due[0].batch is not None
    assert due[0].batch.left == 0b10010
    _, metadata, _ = split_entry(entry)
    assert (messages_due(metadata, []), messages_due(metadata, [0b10110])) == (5, 3)


def test_a_message_that_cannot_be_decoded_is_refused() -> None:
    entry = pack_entry([Message(b"x" * 50)], producer_name="p", publish_ms=5, compression=LZ4)
    with pytest.raises(BatchFormatError, match="checksum"):
        opened(entry[:-1] + b"?")
    broken = pack_entry(
        [Message(b"x")], producer_name="p", publish_ms=5, extra={"compression": 3}, checksum=False
    )
    with pytest.raises(BatchFormatError):
        opened(broken)


def test_encrypted_is_one_message_as_stored() -> None:
    entry = pack_entry(
        [Message(b"a"), Message(b"b")],
        producer_name="p",
        publish_ms=5,
        extra={"encryption_keys": [{"key": "k", "value": b"v"}]},
    )
    _, metadata, payload = split_entry(entry)
    got = encrypted(Source(), AT, 0, metadata, payload)
    assert (got.content, got.encrypted, got.batch_index) == (payload, True, -1)


@pytest.mark.parametrize("count", [0, -1, 3, (1 << 31) - 1])
def test_a_batch_that_claims_more_than_it_holds_is_refused(count: int) -> None:
    entry = pack_entry(
        [Message(b"x")],
        producer_name="p",
        publish_ms=5,
        batched=True,
        extra={"num_messages_in_batch": count},
    )
    with pytest.raises(BatchFormatError):
        opened(entry)


def test_messages_of_a_batch_that_are_not_due_or_compacted_out_are_left_out() -> None:
    sent = [Message(b"%d" % i) for i in range(20)]
    _, metadata, payload = split_entry(pack_entry(sent, producer_name="p", publish_ms=5))
    messages = open_entry(Source(), AT, 1, metadata, payload, [1 << 3 | 1 << 8 | 1 << 19])
    assert [message.batch_index for message in messages] == [3, 8, 19]
    assert messages[0].batch is not None
    assert messages[0].batch.left == 1 << 3 | 1 << 8 | 1 << 19
