"""Entries of compacted ledgers: written as by Apache's brokers, and returned by positions in the topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.compaction.kept_entries import (
    GAP_MAX,
    CompactedFormatError,
    as_in_topic,
    kept_entries,
    pack_kept,
    read_kept,
)
from engine.wire.kernels import build_messages
from tests.support.raw_client import entry_of

APACHES = "0000000f080910031 8ffffffffffffffffff01".replace(" ", "") + "00000005" + "0102030405"


def run_of(*entries: bytes) -> Slice:
    spans: list[int] = []
    at = 0
    for entry in entries:
        spans += (at, at + len(entry))
        at += len(entry)
    return Slice(b"".join(entries), spans, at, None, 77, 0)


def test_an_entry_is_written_as_apaches_brokers_write_it() -> None:
    packed = pack_kept(Position(9, 3), -1, b"\1\2\3\4\5")
    assert packed.hex() == APACHES
    place, start, stop = read_kept(packed, 0, len(packed))
    assert (place, packed[start:stop]) == (Position(9, 3), b"\1\2\3\4\5")


@given(st.binary(max_size=60), st.integers(0, 1 << 62), st.integers(-1, 9))
def test_a_cut_entry_is_refused_and_a_whole_one_read(
    entry: bytes, number: int, partition: int
) -> None:
    packed = pack_kept(Position(number, number // 2), partition, entry)
    place, start, stop = read_kept(packed, 0, len(packed))
    assert (place, packed[start:stop]) == (Position(number, number // 2), entry)
    for cut in range(len(packed)):
        with pytest.raises(CompactedFormatError):
            read_kept(packed, 0, cut)


@given(
    st.lists(
        st.tuples(st.integers(3, 5), st.integers(0, 5 * GAP_MAX)), min_size=1, unique=True
    ).map(sorted)
)
def test_entries_are_restored_at_their_positions(places: list[tuple[int, int]]) -> None:
    entries = [entry_of(b"%d %d" % place) for place in places]
    run = run_of(
        *(pack_kept(Position(*p), -1, entry) for p, entry in zip(places, entries, strict=True))
    )
    restored = []
    for made, indexes in as_in_topic(run, kept_entries(run)):
        assert len(made.spans) == 2 * made.count <= 2 * GAP_MAX * len(indexes)
        restored += [(made.position(i), made.entry(i)) for i in indexes]
        frames = b"".join(build_messages(1, made, indexes))
        assert all(made.entry(i) in frames for i in indexes)
        assert made.size == sum(len(made.entry(i)) for i in indexes)
    assert restored == [(Position(*p), entry) for p, entry in zip(places, entries, strict=True)]


def test_batches_are_counted_at_their_positions() -> None:
    batch, single = entry_of(b"b", num_messages_in_batch=5), entry_of(b"s")
    packed = [pack_kept(Position(1, at), -1, entry) for at, entry in ((4, single), (9, batch))]
    run = run_of(*packed)
    ((made, indexes),) = as_in_topic(run, kept_entries(run))
    assert made.counts is not None
    assert [made.counts[i] for i in indexes] == [1, 5]
