"""Entries of an index ledger: packed columns are unpacked, and other entries are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker.dispatch.delays.delay_format import MAGIC, DelayIndexError, pack, unpack

NUMBERS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=50)


@given(numbers=NUMBERS, count=st.integers(1, 3))
def test_columns_are_read_back(numbers: list[int], count: int) -> None:
    assert [list(column) for column in unpack(pack(*[numbers] * count), count)] == [numbers] * count


def test_the_layout_is_fixed() -> None:
    entry = pack([1], [2])
    assert entry[:8] == b"MDX1\x01\x00\x00\x00"
    assert unpack(b"MDX1\x01\x00\x00\x00" + entry[8:], 2)[1][0] == 2


@given(cut=st.integers(0, 200))
def test_an_entry_that_is_cut_off_is_refused(cut: int) -> None:
    entry = pack(range(100), range(100))
    with pytest.raises(DelayIndexError):
        unpack(entry[: min(cut, len(entry) - 1)], 2)


@pytest.mark.parametrize(
    "entry",
    [b"", b"MDX2" + pack([1])[4:], MAGIC + b"\x01\0\0\0not zlib", MAGIC + b"\x09" + pack([1])[5:]],
)
def test_an_entry_that_is_no_index_is_refused(entry: bytes) -> None:
    with pytest.raises(DelayIndexError):
        unpack(entry, 1)


def test_columns_of_another_number_are_refused() -> None:
    with pytest.raises(DelayIndexError):
        unpack(pack([1], [2]), 3)
