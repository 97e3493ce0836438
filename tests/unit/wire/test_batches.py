"""Entries are packed and opened with every codec and shape; hostile bytes are refused."""

import contextlib
import zlib
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire import compression
from engine.wire.batches import BatchFormatError, Message, pack_entry, unpack_entry
from engine.wire.compression import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CompressionError

CODECS = [NONE, LZ4, ZLIB, ZSTD, SNAPPY]
MESSAGES = st.builds(
    Message,
    value=st.one_of(st.none(), st.binary(max_size=50)),
    key=st.one_of(st.none(), st.text(max_size=5)),
    properties=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2),
    event_ms=st.integers(0, 2**40),
    sequence_id=st.integers(0, 2**40),
)


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.sampled_from(CODECS), st.booleans())
def test_packed_messages_round_trip(messages: list[Message], codec: int, checksum: bool) -> None:
    entry = pack_entry(
        messages,
        producer_name="p",
        publish_ms=9,
        batched=True,
        compression=codec,
        checksum=checksum,
    )
    opened = unpack_entry(entry)
    for index, message in enumerate(messages):
        message.batch_index = index
    assert opened.messages == messages
    assert (opened.publish_ms, opened.producer_name, opened.batched) == (9, "p", True)
    assert opened.compression == compression.codec_name(codec)


@given(MESSAGES, st.sampled_from(CODECS))
def test_a_single_message_round_trips(message: Message, codec: int) -> None:
    entry = pack_entry([message], producer_name="p", publish_ms=9, compression=codec)
    assert unpack_entry(entry).messages == [message]


@given(st.binary(max_size=100))
def test_junk_is_refused_with_the_documented_error_only(junk: bytes) -> None:
    try:
        unpack_entry(junk)
    except BatchFormatError:
        return
    assert junk


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.sampled_from(CODECS), st.data())
def test_a_cut_entry_is_refused(messages: list[Message], codec: int, data: st.DataObject) -> None:
    entry = pack_entry(messages, producer_name="p", publish_ms=9, batched=True, compression=codec)
    with pytest.raises(BatchFormatError):
        unpack_entry(entry[: data.draw(st.integers(0, len(entry) - 1))])


@pytest.mark.parametrize("codec", [LZ4, ZLIB, ZSTD, SNAPPY])
@pytest.mark.parametrize("claimed", [0, 99, 101, 1 << 40])
def test_a_false_size_is_refused(codec: int, claimed: int) -> None:
    packed = compression.compress(codec, b"z" * 100)
    with pytest.raises(CompressionError):
        compression.decompress(codec, packed, claimed)
    assert compression.decompress(codec, packed, 100) == b"z" * 100


@pytest.mark.parametrize("codec", [LZ4, ZLIB, ZSTD, SNAPPY])
@given(junk=st.binary(max_size=50), size=st.integers(0, 1000))
def test_junk_does_not_unpack_to_anything_else(codec: int, junk: bytes, size: int) -> None:
    with contextlib.suppress(CompressionError):
        assert len(compression.decompress(codec, junk, size)) == size


def unsized_zstd(data: bytes) -> bytes:
    stream = cramjam.zstd.Compressor()
    stream.compress(data)
    return bytes(stream.finish())


@pytest.mark.parametrize(("codec", "pack"), [(ZLIB, zlib.compress), (ZSTD, unsized_zstd)])
def test_a_bomb_stops_at_what_it_claims(codec: int, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(50_000_000))
    with pytest.raises(CompressionError, match=r"the 10 bytes|does not unpack"):
        compression.decompress(codec, bomb, 10)


def test_a_payload_above_the_bound_is_not_unpacked() -> None:
    entry = pack_entry([Message(bytes(2000))], producer_name="p", publish_ms=1, compression=ZLIB)
    with pytest.raises(BatchFormatError, match="at most 1000"):
        unpack_entry(entry, payload_bytes_max=1000)


def test_a_batch_that_claims_more_members_than_fit_is_refused_at_once() -> None:
    entry = pack_entry(
        [Message(b"a")], producer_name="p", publish_ms=1, extra={"num_messages_in_batch": 2**31 - 1}
    )
    with pytest.raises(BatchFormatError, match="batch of 2147483647"):
        unpack_entry(entry)


def test_a_wrong_checksum_is_refused() -> None:
    entry = bytearray(pack_entry([Message(b"a")], producer_name="p", publish_ms=1))
    entry[-1] ^= 1
    with pytest.raises(BatchFormatError, match="checksum"):
        unpack_entry(bytes(entry))


def test_markers_hold_no_messages_and_encrypted_batches_stay_closed() -> None:
    marker = pack_entry([Message(b"m")], producer_name="p", publish_ms=1, extra={"marker_type": 21})
    assert unpack_entry(marker).messages == []
    closed = pack_entry(
        [Message(b"a"), Message(b"b")],
        producer_name="p",
        publish_ms=1,
        extra={"encryption_keys": [{"key": "k", "value": b"v"}]},
    )
    opened = unpack_entry(closed)
    assert len(opened.messages) == 1
