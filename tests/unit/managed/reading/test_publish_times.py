"""The publish time is found in every form that an entry may have, and in nothing else."""

import pytest

from engine.base.crc32c import crc32c
from engine.managed.errors import StoredRecordError
from engine.managed.reading.publish_times import BROKER_METADATA, CHECKSUM, publish_time
from engine.wire import pulsar_pb2 as pb

METADATA = pb.MessageMetadata(
    producer_name="p", sequence_id=1, publish_time=1_700_000_000_123
).SerializeToString()
BARE = len(METADATA).to_bytes(4, "big") + METADATA + b"payload"
CHECKED = CHECKSUM + crc32c(BARE).to_bytes(4, "big") + BARE


def brokers(entry: bytes, time_ms: int | None = None) -> bytes:
    own = pb.BrokerEntryMetadata(broker_timestamp=time_ms, index=7).SerializeToString()
    return BROKER_METADATA + len(own).to_bytes(4, "big") + own + entry


@pytest.mark.parametrize("entry", [BARE, CHECKED, brokers(BARE), brokers(CHECKED)])
def test_every_form_has_its_time(entry: bytes) -> None:
    assert publish_time(entry) == 1_700_000_000_123


def test_a_brokers_time_has_precedence_over_the_publishers() -> None:
    assert publish_time(brokers(CHECKED, time_ms=5)) == 5


@pytest.mark.parametrize(
    "entry", [b"", b"\x0e\x01", CHECKED[:8], b"\x00\x00\x00\x04\xff\xff\xff\xff"]
)
def test_an_entry_without_metadata_is_damaged(entry: bytes) -> None:
    with pytest.raises(StoredRecordError):
        publish_time(entry)
