"""Stored entries as Pulsar's REST interface shows them: headers by kind of message."""

import base64

import pytest

from engine.admin.messages import AS_STORED, message_answer
from engine.base.errors import Failed
from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from engine.wire.compression import LZ4

AT = Position(3, 7)
ALWAYS = {
    "Message-ID": "3:7",
    "PROPERTY": "{}",
    "publish-time": "1970-01-01T00:00:01.5Z",
    "Is-Encrypted": "false",
    "txn-uncommitted": "false",
    "producer-name": "p",
    "sequence-id": "0",
}


def entry(*values: bytes | None, **more: object) -> bytes:
    messages = [Message(value, batch_index=index) for index, value in enumerate(values)]
    return pack_entry(messages, producer_name="p", publish_ms=1500, **more)  # type: ignore[arg-type]


def headers(stored: bytes) -> dict[str, object]:
    """Return the headers beside those of every message, without their common prefix."""
    given = message_answer(AT, stored)["headers"]
    short = {name.removeprefix("X-Pulsar-"): value for name, value in given.items()}
    assert all(name.startswith("X-Pulsar-") for name in given)
    return {name: value for name, value in short.items() if ALWAYS.get(name) != value}


def test_a_plain_message_has_no_optional_headers() -> None:
    assert headers(entry(b"v")) == {}
    assert message_answer(AT, entry(b"v"))["body"] == base64.b64encode(b"v").decode()


def test_the_size_of_a_batch_excludes_its_metadata() -> None:
    stored = entry(b"a", b"bc")
    metadata_bytes = int.from_bytes(stored[6:10], "big")
    assert headers(stored) == {
        "num-batch-message": "2",
        "batch-size": str(len(stored) - metadata_bytes),
    }


def test_an_encrypted_message_has_the_headers_for_decryption() -> None:
    keys = [pb.EncryptionKeys(key=name, value=b"sealed") for name in ("k1", "k2")]
    extra = {"encryption_keys": keys, "encryption_param": b"iv", "encryption_algo": "AES"}
    assert headers(entry(b"secret", extra=extra)) == {
        "Is-Encrypted": "true",
        "encryption-algo": "AES",
        "Base64-encryption-param": base64.b64encode(b"iv").decode(),
        "Base64-encryption-keys": [
            base64.b64encode(key.SerializeToString()).decode() for key in keys
        ],
    }


def test_a_chunk_has_its_number_and_the_count_of_chunks() -> None:
    extra = {"num_chunks_from_msg": 3, "chunk_id": 1, "total_chunk_msg_size": 9, "uuid": "u"}
    assert headers(entry(b"v", extra=extra)) == {
        "PROPERTY-TOTAL-CHUNKS": "3",
        "PROPERTY-CHUNK-ID": "1",
        "num-chunks-from-msg": "3",
        "chunk-id": "1",
        "total-chunk-msg-size": "9",
        "uuid": "u",
    }


def test_every_other_field_that_is_given_has_its_header() -> None:
    extra = {
        "replicated_from": "west",
        "replicate_to": ["east", "south"],
        "partition_key": "a2V5",
        "partition_key_b64_encoded": True,
        "null_partition_key": False,
        "null_value": True,
        "ordering_key": b"o",
        "schema_version": b"\x00\x01",
        "marker_type": 20,
        "txnid_least_bits": 5,
        "txnid_most_bits": 6,
        "highest_sequence_id": 9,
        "deliver_at_time": 2000,
        "event_time": 3000,
    }
    assert headers(entry(b"v" * 9, compression=LZ4, extra=extra)) == {
        "replicated-from": "west",
        "replicated-to": ["east", "south"],
        "partition-key": "a2V5",
        "partition-key-b64-encoded": "true",
        "null-partition-key": "false",
        "null-value": "true",
        "Base64-ordering-key": "bw==",
        "Base64-schema-version": "AAE=",
        "marker-type": "20",
        "txnid-least-bits": "5",
        "txnid-most-bits": "6",
        "highest-sequence-id": "9",
        "deliver-at-time": "1970-01-01T00:00:02Z",
        "event-time": "1970-01-01T00:00:03Z",
        "compression": "LZ4",
        "uncompressed-size": "9",
    }


@pytest.mark.parametrize("field", ["event_time", "publish_time", "deliver_at_time"])
def test_a_time_out_of_range_is_shown_as_the_latest_date(field: str) -> None:
    stored = entry(b"v", extra={field: 1 << 62})
    name = f"X-Pulsar-{field.replace('_', '-')}"
    assert message_answer(AT, stored)["headers"][name] == "9999-12-31T23:59:59.999Z"


@pytest.mark.parametrize(
    "stored", [b"", b"\x0e\x01", b"\x00\x00\xff\xff", b"\x0e\x02\xff\xff\xff\xff"]
)
def test_an_entry_that_is_no_message_is_refused(stored: bytes) -> None:
    with pytest.raises(Failed, match="Stored entry is no message"):
        message_answer(AT, stored)


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"num_chunks_from_msg": 3, "chunk_id": 1}, "a chunk: the message was compressed"),
        ({}, "LZ4 payload does not unpack"),
        ({"uncompressed_size": 2**32 - 1}, "claims 4294967295 bytes, at most"),
    ],
)
def test_a_payload_that_does_not_decompress_is_returned_as_stored(
    extra: dict[str, int], reason: str
) -> None:
    extra = {"compression": LZ4, "uncompressed_size": 100, **extra}
    answer = message_answer(AT, entry(b"half of it", extra=extra))
    assert base64.b64decode(answer["body"]) == b"half of it"
    assert reason in answer["headers"][AS_STORED]
    assert answer["headers"]["X-Pulsar-producer-name"] == "p"
