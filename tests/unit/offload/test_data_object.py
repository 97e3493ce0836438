"""Blocks of a data object have the bytes that Apache Pulsar's format prescribes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.offload.data_object import (
    HEADER_BYTES,
    DataBlock,
    DataObjectWriter,
    WrittenBlock,
    check_header,
    take_entries,
)
from engine.offload.errors import DamagedObjectError
from tests.support.ledger_cluster import run_of

PADDING = bytes.fromhex("FEDCDEAD")


def blocks_of(payloads: list[bytes], block_bytes: int) -> list[WrittenBlock]:
    writer = DataObjectWriter(block_bytes)
    complete = [block for payload in payloads for block in writer.add(run_of(payload))]
    return complete + writer.end()


def entries_in(written: WrittenBlock, count: int) -> list[bytes]:
    spans = take_entries(written.data, HEADER_BYTES, written.block.first, count).spans
    return [written.data[spans[i] : spans[i + 1]] for i in range(0, len(spans), 2)]


def test_two_blocks_have_the_bytes_of_the_format() -> None:
    first, second = blocks_of([b"abc", b"", b"defgh"], HEADER_BYTES + 12 + 3 + 12)
    assert first == WrittenBlock(
        DataBlock(0, 1, 0),
        bytes.fromhex("fbdbabcb 0000000000000080 000000000000009b 0000000000000000")
        + bytes(100)
        + bytes.fromhex("00000003 0000000000000000 616263 00000000 0000000000000001"),
    )
    assert second == WrittenBlock(
        DataBlock(2, 2, 155),
        bytes.fromhex("fbdbabcb 0000000000000080 0000000000000091 0000000000000002")
        + bytes(100)
        + bytes.fromhex("00000005 0000000000000002 6465666768"),
    )


def test_an_entry_that_fills_a_block_exactly_and_one_that_is_larger_have_blocks_of_their_own() -> (
    None
):
    exact, larger, rest = blocks_of([b"x" * 60, b"y" * 500, b"z"], HEADER_BYTES + 12 + 60)
    assert [len(block.data) for block in (exact, larger, rest)] == [200, 640, 141]
    assert [block.block for block in (exact, larger, rest)] == [(0, 1, 0), (1, 2, 200), (2, 3, 840)]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=60), st.integers(140, 900))
def test_entries_are_read_as_they_were_written(payloads: list[bytes], block_bytes: int) -> None:
    written = blocks_of(payloads, block_bytes)
    read = [entry for block in written for entry in entries_in(block, len(payloads))]
    assert read == payloads
    assert all(
        len(block.data) <= block_bytes or len(entries_in(block, 2)) == 1 for block in written
    )


def test_entries_end_at_padding_and_at_an_entry_that_is_cut() -> None:
    (block,) = blocks_of([b"one", b"two"], 1 << 20)
    for tail in (PADDING * 3, PADDING[:3], blocks_of([b"next"], 1 << 20)[0].data):
        assert take_entries(block.data + tail, HEADER_BYTES, 0, 9) == (
            [140, 143, 155, 158],
            158,
        )
    assert take_entries(block.data[:-1], HEADER_BYTES, 0, 9) == ([140, 143], 143)


def test_an_entry_of_another_id_is_damage() -> None:
    (block,) = blocks_of([b"one", b"two"], 1 << 20)
    with pytest.raises(DamagedObjectError, match="entry 0 in place of entry 5"):
        take_entries(block.data, HEADER_BYTES, 5, 2)


@pytest.mark.parametrize(
    ("at", "value"), [(0, b"\0"), (11, b"\x81"), (27, b"\x07")], ids=["magic", "header", "first"]
)
def test_a_header_of_another_block_is_damage(at: int, value: bytes) -> None:
    (block,) = blocks_of([b"one"], 1 << 20)
    check_header(block.data, block.block)
    with pytest.raises(DamagedObjectError, match="block 1: header"):
        check_header(block.data[:at] + value + block.data[at + 1 :], block.block)
    with pytest.raises(DamagedObjectError, match="127 bytes are no header"):
        check_header(block.data[:127], block.block)


def test_the_length_in_a_header_is_that_of_the_block() -> None:
    for block in blocks_of([b"x" * n for n in range(90)], 400):
        assert struct.unpack_from(">q", block.data, 12) == (len(block.data),)
