"""Entries as a replicator sends them."""

from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry, read_metadata, unpack_entry
from engine.wire.client_commands import send
from engine.wire.geo.sent_entries import sent_entry, sent_frames
from engine.wire.geo.source_positions import SOURCE_POSITION, origin_field, source_position
from engine.wire.kernels import build_sends, take_sends
from engine.wire.varints import INT64_MAX

ID = st.integers(0, INT64_MAX - 1)


def run_of(entry: bytes, position: Position) -> Slice:
    run = Slice(b"before" + entry, [6, 6 + len(entry)], len(entry))
    run.ledger_id, run.first = position
    return run


@given(
    ID,
    ID,
    st.binary(max_size=200),
    st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=4),
)
def test_an_entry_keeps_all_it_has_and_names_its_origin(
    ledger: int, entry_id: int, value: bytes, properties: dict[str, str]
) -> None:
    messages = [Message(value, "k", properties=properties, event_ms=5, sequence_id=9)]
    stored = pack_entry(
        messages, producer_name="till", publish_ms=7, extra={"replicate_to": ["eu"]}
    )
    sent = sent_entry(
        run_of(stored, Position(ledger, entry_id)), 0, origin_field("us"), b"\0\0\0\0\0\0\0\2"
    )
    before, after = read_metadata(stored), read_metadata(sent)
    assert before is not None
    assert after is not None
    assert source_position(after) == (ledger, entry_id)
    assert (after.replicated_from, after.schema_version) == ("us", b"\0\0\0\0\0\0\0\2")
    expected = pb.MessageMetadata()
    expected.CopyFrom(before)
    expected.replicated_from, expected.schema_version = "us", b"\0\0\0\0\0\0\0\2"
    expected.properties.add(key=SOURCE_POSITION, value=f"{ledger}:{entry_id}")
    assert after == expected
    assert [m.value for m in unpack_entry(sent).messages] == [value]
    # The broker checks the checksum of what it receives.
    frame = send(1, 0, sent)
    _, _, run = take_sends(frame, 0, len(frame), 1 << 20)
    assert run is not None


def test_the_metadata_of_this_clusters_broker_is_left_out() -> None:
    stored = pack_entry([Message(b"v")], producer_name="p", publish_ms=7)
    stamp = pb.BrokerEntryMetadata(index=4, broker_timestamp=9).SerializeToString()
    stamped = b"\x0e\x02" + len(stamp).to_bytes(4, "big") + stamp + stored
    origin = origin_field("us")
    position = Position(3, 4)
    assert sent_entry(run_of(stamped, position), 0, origin) == sent_entry(
        run_of(stored, position), 0, origin
    )


@given(
    st.integers(-1, INT64_MAX - 40),
    st.integers(0, INT64_MAX - 40),
    st.lists(st.tuples(st.binary(max_size=200), st.booleans(), st.booleans()), max_size=12),
)
def test_many_entries_are_as_single_ones(
    ledger: int, first: int, rows: list[tuple[bytes, bool, bool]]
) -> None:
    stamp = pb.BrokerEntryMetadata(index=4, broker_timestamp=9).SerializeToString()
    before = b"\x0e\x02" + len(stamp).to_bytes(4, "big") + stamp
    buf, spans, versions = b"", [], {}
    for i, (value, stamped, versioned) in enumerate(rows):
        entry = pack_entry([Message(value)], producer_name="p", publish_ms=7)
        spans.append(len(buf))
        buf += before + entry if stamped else entry
        spans.append(len(buf))
        if versioned:
            versions[i] = b"\0\0\0\0\0\0\0\2"
    run = Slice(buf, spans, len(buf))
    run.ledger_id, run.first = ledger, first
    run.counts = [1 + i % 3 for i in range(len(rows))] or None
    origin, chosen = origin_field("us"), range(0, len(rows), 2)
    parts, sizes = sent_frames(run, chosen, origin, versions, 300, 126)
    entries = [sent_entry(run, i, origin, versions.get(i)) for i in chosen]
    assert sizes == [len(entry) for entry in entries]
    counts = None if run.counts is None else [run.counts[i] for i in chosen]
    sequences = range(126, 126 + len(entries))
    assert b"".join(parts) == b"".join(build_sends(300, sequences, entries, counts))


@given(
    st.integers(0, INT64_MAX - 40),
    st.one_of(st.integers(0, 40_000), st.integers(0, INT64_MAX - 40)),
    st.one_of(st.integers(0, 40_000), st.integers(0, INT64_MAX)),
    st.lists(st.sampled_from([b"a" * 20] * 30 + [b"b" * 20, b"c" * 21]), min_size=1, max_size=20),
    st.sampled_from([None, 7]),
    st.integers(0, 3),
)
def test_entries_of_one_shape_are_as_single_ones(
    ledger: int, first: int, sequence: int, values: list[bytes], messages: int | None, start: int
) -> None:
    entries = [pack_entry([Message(v)], producer_name="p", publish_ms=7) for v in values]
    buf, spans = b"", []
    for entry in entries:
        spans += [len(buf), len(buf) + len(entry)]
        buf += entry + b"between"
    run = Slice(buf, spans, len(buf), [messages] * len(entries) if messages else None)
    run.ledger_id, run.first = ledger, first
    origin, chosen = origin_field("us"), range(min(start, len(entries) - 1), len(entries))
    parts, sizes = sent_frames(run, chosen, origin, {}, 300, sequence)
    sent = [sent_entry(run, i, origin) for i in chosen]
    assert sizes == [len(entry) for entry in sent]
    sequences = range(sequence, sequence + len(sent))
    counts = [messages] * len(sent) if messages else None
    assert b"".join(parts) == b"".join(build_sends(300, sequences, sent, counts))


def test_a_large_payload_is_not_copied() -> None:
    entry = pack_entry([Message(bytes(range(256)) * 80)], producer_name="p", publish_ms=7)
    run, origin = run_of(entry, Position(3, 4)), origin_field("us")
    parts, sizes = sent_frames(run, range(1), origin, {}, 1, 0)
    assert isinstance(parts[-1], memoryview)
    sent = sent_entry(run, 0, origin)
    assert (b"".join(parts), sizes) == (b"".join(build_sends(1, [0], [sent])), [len(sent)])
