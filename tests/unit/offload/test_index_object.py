"""An index has the bytes that Apache Pulsar's format prescribes, and nothing wrong in one is taken for true."""

from dataclasses import replace

import pytest

from engine.ledger.digest import DigestType
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment
from engine.offload.data_object import DataBlock
from engine.offload.errors import DamagedObjectError
from engine.offload.index_object import ObjectIndex, decode_index, encode_index

METADATA = LedgerMetadata(
    1, 1, 1, (Segment(0, ("b:1",)),), LedgerState.CLOSED, last_entry=4, length=50,
    digest=DigestType.CRC32C, password=b"secret", ctime_ms=7, ctoken=99,
)  # fmt: skip
INDEX = ObjectIndex(METADATA, 500, (DataBlock(0, 1, 0), DataBlock(3, 2, 300)))
MESSAGE = bytes.fromhex("0801 1001 1832 2004 2803 3207 0a03623a31 1000 3803 4801 5007")
GOLDEN = (
    bytes.fromhex("de47de47 00000061 00000000000001f4 0000000000000080 00000002 00000019")
    + MESSAGE
    + bytes.fromhex("0000000000000000 00000001 0000000000000000")
    + bytes.fromhex("0000000000000003 00000002 000000000000012c")
)


def test_an_index_has_the_bytes_of_the_format_without_secrets() -> None:
    assert encode_index(INDEX) == GOLDEN
    assert b"secret" not in GOLDEN


def test_an_index_of_another_implementation_is_read() -> None:
    index = decode_index(GOLDEN)
    assert (index.data_bytes, index.blocks, index.checksums) == (500, INDEX.blocks, ())
    assert (index.metadata.last_entry, index.metadata.length) == (4, 50)
    assert index.metadata.digest is DigestType.CRC32C


def test_checksums_are_kept_with_the_ledgers_own_metadata() -> None:
    metadata = replace(METADATA, custom={"application": b"pulsar"})
    index = decode_index(encode_index(replace(INDEX, metadata=metadata, checksums=(1, 0xFFFFFFFF))))
    assert index.checksums == (1, 0xFFFFFFFF)
    assert index.metadata.custom["application"] == b"pulsar"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes are too few"),
        (GOLDEN[:-1], "are too few"),
        (GOLDEN[:40], "are too few|ledger metadata"),
        (b"\0" + GOLDEN[1:], "magic 0x47de47"),
        (bytes.fromhex("3d1fb0bc") + GOLDEN[4:], "several ledgers"),
        (GOLDEN[:23] + b"\x81" + GOLDEN[24:], "headers of 129 bytes"),
        (GOLDEN.replace(b"\x28\x03", b"\x28\x01"), "OPEN, not closed"),
        (GOLDEN.replace(b"\x20\x04", b"\x20\x02"), "block 2 is behind entry 2"),
        (GOLDEN.replace(b"\x01\x2c", b"\x00\x10"), "block 2 does not follow 1"),
        (GOLDEN.replace(b"\x01\xf4", b"\x01\x30"), "or byte 304"),
        (GOLDEN.replace(b"\x32\x07\x0a", b"\x32\x77\x0a"), "ledger metadata"),
    ],
)
def test_a_damaged_index_is_refused_with_the_field(data: bytes, reason: str) -> None:
    with pytest.raises(DamagedObjectError, match=reason):
        decode_index(data)


def test_an_index_without_the_first_entry_or_with_a_missing_checksum_is_damage() -> None:
    for index in (
        replace(INDEX, blocks=INDEX.blocks[1:]),
        replace(INDEX, blocks=()),
        replace(INDEX, checksums=(1,)),
    ):
        with pytest.raises(DamagedObjectError, match=r"first block|1 checksums of 2 blocks"):
            decode_index(encode_index(index))
