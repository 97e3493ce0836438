"""The encryption fields of clients, as the metadata by which official clients open payloads."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.client.producing.outgoing import EntryBuilder
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import split_entry
from gateway.ws import encryption, frames

KEYS = {"a": {"keyValue": "AAE=", "metadata": {"version": "1", "n": 2}}, " b ": {"keyValue": "/w"}}


def keys(body: Any) -> bytes | None:
    return encryption.key_fields(base64.b64encode(json.dumps(body).encode()).decode())


def entry(body: dict[str, Any], given: Any = KEYS) -> tuple[pb.MessageMetadata, bytes]:
    message = frames.parse_message(json.dumps(body), 0, keys(given))
    assert message.is_alone
    _, metadata, payload = split_entry(EntryBuilder("p", 0).single(message, 3, 1))
    return metadata, bytes(payload)


def test_keys_and_parameter_are_the_metadata_of_each_message() -> None:
    metadata, payload = entry({"payload": "AQI=", "encryptionParam": "BQY=", "key": "k"})
    assert payload == b"\x01\x02"
    entry_keys = [
        (entry_key.key, entry_key.value, {m.key: m.value for m in entry_key.metadata})
        for entry_key in metadata.encryption_keys
    ]
    assert entry_keys == [("a", b"\x00\x01", {"version": "1", "n": "2"}), ("b", b"\xff", {})]
    assert (metadata.encryption_param, metadata.partition_key) == (b"\x05\x06", "k")
    assert (metadata.compression, metadata.uncompressed_size) == (pb.NONE, 2)


def test_compression_and_size_of_the_payload_are_in_the_metadata() -> None:
    packed = {"payload": "AQI=", "compressionType": "ZSTD", "uncompressedMessageSize": 70}
    metadata, _ = entry(packed)
    assert (metadata.compression, metadata.uncompressed_size) == (pb.ZSTD, 70)


@pytest.mark.parametrize(
    ("more", "code", "text"),
    [
        ({"encryptionParam": "***"}, 7, "encryptionParam"),
        ({"compressionType": "LZ4"}, 7, "both empty or both non-empty"),
        ({"uncompressedMessageSize": 5}, 7, "both empty or both non-empty"),
        ({"compressionType": "x", "uncompressedMessageSize": 5}, 7, "both empty or both non-empty"),
        ({"compressionType": "LZ4", "uncompressedMessageSize": "x"}, 3, "uncompressedMessageSize"),
        ({"compressionType": "LZ4", "uncompressedMessageSize": True}, 3, "uncompressedMessageSize"),
        ({"compressionType": "LZ4", "uncompressedMessageSize": 1 << 31}, 3, "to 2147483647"),
    ],
)
def test_unusable_keys_are_answered_with_their_code(
    more: dict[str, Any], code: int, text: str
) -> None:
    with pytest.raises(frames.ProducerFrameError, match=text) as caught:
        entry({"payload": "", "context": "c", **more})
    assert (caught.value.code, caught.value.context) == (code, "c" if code == 7 else None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        5,
        None,
        {"k": 1},
        {"k": {"keyValue": None}},
        {"k": None},
        {"k": {"keyValue": "*"}},
        {"k": {"keyValue": 5}},
        {"k": {"keyValue": "", "metadata": 1}},
        {"k": {"keyValue": "", "metadata": {"a": []}}},
    ],
)
def test_a_value_that_is_not_this_json_is_a_list_of_names(body: Any) -> None:
    assert keys(body) is None
    assert encryption.key_fields("name,other") is None


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        ({" ": {"keyValue": ""}}, "key"),
        ({"k": {"keyValue": ""}, "j": {}}, "value.keyValue"),
        ({"k": {"keyValue": ""}, "j": None}, "value"),
    ],
)
def test_a_member_missing_from_a_key_is_named(body: Any, lacks: str) -> None:
    with pytest.raises(ValueError, match=f"Empty param encryptionKeys.{lacks}$"):
        keys(body)


@given(
    st.text(max_size=60)
    | st.dictionaries(
        st.text(max_size=3),
        st.none()
        | st.dictionaries(
            st.sampled_from(["keyValue", "metadata"]),
            st.text(max_size=4)
            | st.none()
            | st.dictionaries(st.text(max_size=2), st.text(max_size=2)),
        ),
    )
)
def test_anything_is_keys_or_names_or_refused(body: Any) -> None:
    try:
        metadata = keys(body)
    except ValueError:
        return
    if metadata is not None:
        assert pb.MessageMetadata.FromString(
            metadata + b"\x0a\x01p\x10\x01\x18\x01"
        ).encryption_keys
