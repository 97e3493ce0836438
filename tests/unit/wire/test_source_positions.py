"""Marks of what another cluster's replicator sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import read_metadata
from engine.wire.client_commands import send
from engine.wire.geo.sent_entries import sent_entry
from engine.wire.geo.source_positions import (
    MARKER_HIGHEST,
    SOURCE_POSITION,
    common_origin,
    name_positions,
    origin_field,
    origin_of,
    place_of,
    position_at,
    replicator_name,
    source_position,
)
from engine.wire.kernels import build_receipts, head_sequences, take_sends
from engine.wire.varints import INT64_MAX
from tests.support.broker_bench import commands_in
from tests.support.raw_client import entry_of

ID = st.integers(0, INT64_MAX)


def metadata_of(text: str | None) -> pb.MessageMetadata:
    properties = [] if text is None else [pb.KeyValue(key=SOURCE_POSITION, value=text)]
    return pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=0, properties=properties
    )


@pytest.mark.parametrize(
    ("name", "cluster"),
    [
        ("pulsar.repl.us-->eu", "us"),
        ("pulsar.repl.us", "us"),
        ("pulsar.repl.us.east-->eu.west", "us.east"),
        ("pulsar.repl.", ""),
        ("pulsar.repl-persistent://a/b/c-->persistent://a/b/d", ""),
        ("orders", ""),
        ("", ""),
    ],
)
def test_the_origin_is_in_the_name_of_a_replicator(name: str, cluster: str) -> None:
    assert origin_of(name) == cluster
    assert origin_of(replicator_name("us", "eu")) == "us"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "1",
        "1:",
        ":1",
        "1:2:3",
        "-1:2",
        "1:2\n",
        "x:2",
        f"{INT64_MAX + 1}:0",
        "\u0661:\u0662",
    ],
)
def test_a_missing_or_malformed_position_is_none(text: str | None) -> None:
    assert source_position(metadata_of(text)) is None


@given(ID, ID, ID, ID)
def test_places_are_ordered_as_positions(a: int, b: int, c: int, d: int) -> None:
    assert position_at(place_of(a, b)) == (a, b)
    assert (place_of(a, b) < place_of(c, d)) == ((a, b) < (c, d))
    assert source_position(metadata_of(f"{a}:{b}")) == Position(a, b)


def run_of(*entries: bytes):  # type: ignore[no-untyped-def]
    data = b"".join(send(300, i, entry) for i, entry in enumerate(entries))
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    return run


def replicated(text: str) -> bytes:
    return entry_of(b"v", properties=[{"key": SOURCE_POSITION, "value": text}])


@given(st.lists(st.tuples(ID, ID), min_size=1, max_size=5))
def test_receipts_name_the_positions_of_the_origin(positions: list[tuple[int, int]]) -> None:
    run = run_of(*(replicated(f"{ledger}:{entry}") for ledger, entry in positions))
    assert name_positions(run) == len(positions)
    receipts = [c.send_receipt for c in commands_in(build_receipts(7, 0, run.heads, 0, run.count))]
    assert [(r.sequence_id, r.highest_sequence_id) for r in receipts] == positions
    assert {r.producer_id for r in receipts} == {300}


@given(
    st.lists(
        st.tuples(ID, st.lists(st.sampled_from([1, 1, 1, 5]), max_size=20), st.binary(max_size=30)),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 120),
)
def test_receipts_of_what_our_replicator_sends_name_the_positions(
    ledgers: list[tuple[int, list[int], bytes]], first: int
) -> None:
    entries, positions = [], []
    for ledger, steps, value in ledgers:
        entry_id = first
        for step in (0, *steps):
            entry_id += step
            stored = entry_of(value)
            run = Slice(stored, [0, len(stored)], len(stored))
            run.ledger_id, run.first = ledger, entry_id
            entries.append(sent_entry(run, 0, origin_field("us")))
            positions.append((ledger, entry_id))
    run = run_of(*entries)
    assert name_positions(run) == len(positions)
    assert head_sequences(run.heads) == positions
    assert common_origin(run) == "us"


@pytest.mark.parametrize(
    "last",
    [
        entry_of(b"v"),
        entry_of(b"v", replicated_from="us"),
        entry_of(b"v", replicated_from="ap", properties=[{"key": SOURCE_POSITION, "value": "1:2"}]),
    ],
)
def test_entries_of_several_clusters_have_no_common_origin(last: bytes) -> None:
    stored = entry_of(b"v")
    run = Slice(stored, [0, len(stored)], len(stored), None, 3, 4)
    assert common_origin(run_of(sent_entry(run, 0, origin_field("us")), last)) == ""


def test_entries_before_the_first_without_a_position_are_named() -> None:
    run = run_of(replicated("5:6"), entry_of(b"v"), replicated("5:7"))
    before = list(run.heads)
    assert name_positions(run) == 1
    assert run.heads[1:] == before[1:]


def test_the_receipt_of_a_marker_has_its_sequence_id_and_the_least_number() -> None:
    run = run_of(replicated("5:6"), entry_of(b"", marker_type=10))
    assert name_positions(run) == 2
    *_, receipt = commands_in(build_receipts(7, 0, run.heads, 0, run.count))
    assert receipt.send_receipt.sequence_id == 1
    assert receipt.send_receipt.highest_sequence_id == MARKER_HIGHEST % (1 << 64)


PAIRS = st.lists(
    st.tuples(
        st.sampled_from([SOURCE_POSITION, "k", SOURCE_POSITION + "2"]),
        st.one_of(
            st.builds("{}:{}".format, ID, ID),
            st.sampled_from(["", "1", "1:2x", "x1:2", "1:2:3", SOURCE_POSITION, "\x22\x0a"]),
        ),
    ),
    max_size=3,
)


@given(PAIRS, st.sampled_from([None, "key", "2", "*"]), st.booleans())
def test_positions_are_those_of_the_decoded_metadata(
    pairs: list[tuple[str, str]], key: str | None, marked: bool
) -> None:
    properties = [{"key": name, "value": value} for name, value in pairs]
    more = {} if key is None else {"partition_key": key}
    entry = entry_of(b"v", replicated_from="us", properties=properties, **more)
    if marked:
        entry = entry_of(b"v", marker_type=10, properties=properties)
    metadata = read_metadata(entry)
    assert metadata is not None
    position = source_position(metadata)
    run = run_of(entry)
    assert name_positions(run) == int(marked or position is not None)
    if not marked and position is not None:
        assert head_sequences(run.heads) == [position]
