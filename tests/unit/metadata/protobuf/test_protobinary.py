"""Records written by hand are read by protobuf, and the other way round."""

import pytest

from engine.metadata.protobuf.protobinary import (
    put_bytes,
    put_int,
    take_fields,
    take_varint,
    varint,
)
from engine.wire import pulsar_pb2 as pb

FIELDS = {"ledgerId": 1, "entryId": 2, "partition": 3, "batch_index": 4}


def test_protobuf_reads_the_written_bytes() -> None:
    out = bytearray()
    put_int(out, 1, 1 << 63)
    put_int(out, 2, 5)
    put_int(out, 3, -1)
    read = pb.MessageIdData.FromString(bytes(out))
    assert (read.ledgerId, read.entryId, read.partition) == (1 << 63, 5, -1)
    named = bytearray()
    put_bytes(named, 1, "käse".encode())
    put_bytes(named, 2, b"")
    assert pb.KeyValue.FromString(bytes(named)) == pb.KeyValue(key="käse", value="")


def test_bytes_of_protobuf_are_read() -> None:
    data = pb.MessageIdData(ledgerId=300, entryId=0, partition=-7).SerializeToString()
    assert list(take_fields(data)) == [(1, 300), (2, 0), (3, -7)]
    data = pb.KeyValue(key="a", value="b" * 300).SerializeToString()
    assert list(take_fields(data)) == [(1, b"a"), (2, b"b" * 300)]


@pytest.mark.parametrize(
    "data",
    [b"\x0a\x05abc", b"\x08", b"\x08\xff", b"\x0b", b"\x09" + bytes(8), b"\x08" + b"\xff" * 10],
)
def test_truncated_bytes_and_other_types_are_refused(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        list(take_fields(data))


def test_numbers_come_back_as_64_bits() -> None:
    for n in (0, 127, 128, 1 << 62, -1):
        assert take_varint(varint(n), 0) == (n % (1 << 64), len(varint(n)))
