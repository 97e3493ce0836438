"""Base-128 integers against protobuf's own."""

import random

import pytest
from google.protobuf.internal.decoder import _DecodeVarint as decode
from google.protobuf.internal.encoder import _VarintBytes as encode

from engine.wire.varints import UINT64_MAX, consecutive, read_varint, skip_field, varint

EDGES = [(1 << bits) + offset for bits in range(1, 64) for offset in (-1, 0, 1)] + [0, UINT64_MAX]


def numbers() -> list[int]:
    rng = random.Random(1)
    return EDGES + [rng.getrandbits(rng.randrange(1, 65)) for _ in range(300)]


def test_numbers_are_written_and_read_as_protobuf_does() -> None:
    for n in numbers():
        data = varint(n)
        assert data == encode(n)
        assert read_varint(b"x" + data + b"y", 1, len(data) + 1) == (n, len(data) + 1)
        assert decode(data, 0)[0] == n


@pytest.mark.parametrize("first", [0, 100, 16_380, 16_384, 32_760, 5_000_000, 1 << 60])
def test_consecutive_numbers_are_written_as_single_ones(first: int) -> None:
    assert list(consecutive(first, 9)) == [varint(n) for n in range(first, first + 9)]


def test_negative_numbers_take_ten_bytes() -> None:
    assert varint(-1) == b"\xff" * 9 + b"\x01"
    assert read_varint(varint(-2), 0, 10) == (UINT64_MAX - 1, 10)


def test_a_number_that_is_cut_off_or_too_long_is_none() -> None:
    for n in numbers():
        data = varint(n)
        assert all(read_varint(data, 0, stop)[1] == -1 for stop in range(len(data)))
    assert read_varint(b"\xff" * 10 + b"\x01", 0, 11)[1] == -1


@pytest.mark.parametrize(
    ("wire_type", "value", "size"),
    [(0, varint(300), 2), (1, bytes(8), 8), (2, varint(3) + b"abc", 4), (5, bytes(4), 4)],
)
def test_a_field_is_skipped_only_when_it_is_complete(
    wire_type: int, value: bytes, size: int
) -> None:
    assert skip_field(value + b"rest", 0, size + 4, wire_type) == size
    assert skip_field(value, 0, size - 1, wire_type) == -1


@pytest.mark.parametrize("wire_type", [3, 4, 6, 7])
def test_groups_and_unknown_types_cannot_be_skipped(wire_type: int) -> None:
    assert skip_field(bytes(20), 0, 20, wire_type) == -1
