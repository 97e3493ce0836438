"""Facts of entries that are not plain, whatever bytes their neighbours contain."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.slices import Slice, View
from engine.broker.dispatch import facts
from engine.broker.dispatch.choose.keys import slot_of
from engine.broker.dispatch.facts import (
    DISPATCH,
    MARKER,
    ORIGIN,
    TRANSACTION,
    Chunk,
    EntryFacts,
    chunks_of,
    facts_of,
)
from engine.wire import client_commands
from engine.wire.kernels import take_sends
from tests.support.raw_client import entry_of

LATER = entry_of(b"v", deliver_at_time=7)
PART = entry_of(b"v", uuid="m", num_chunks_from_msg=3, chunk_id=1)
COMMIT = entry_of(b"", marker_type=21, txnid_most_bits=4, txnid_least_bits=9)
IN_TRANSACTION = entry_of(b"v", txnid_most_bits=4, txnid_least_bits=9)
REPLICATED = entry_of(b"v", replicated_from="eu", replicate_to=["us", "asia"])


def run_of(*entries: bytes) -> Slice:
    spans: list[int] = []
    for entry in entries:
        at = spans[-1] if spans else 0
        spans += at, at + len(entry)
    return Slice(b"".join(entries), spans, spans[-1])


@pytest.mark.parametrize(
    "payload",
    [b"", b"v", b"\x98" * 1000, b"\xd2" * 1000, b"\x98\x01\xd2\x01", b"x" * 10_000],
    ids=["empty", "plain", "half-a-tag", "half-another", "tags", "large"],
)
def test_delivery_times_and_chunks_are_found_among_others(payload: bytes) -> None:
    plain = entry_of(payload)
    assert facts_of(run_of(plain, plain)).special == {}
    assert facts_of(run_of(plain, LATER, plain, PART)).special == {
        1: EntryFacts(7),
        3: EntryFacts(chunk=Chunk("m", 1, 3)),
    }


@pytest.mark.parametrize("payload", [b"v", b"\xa0\x01" * 20, b"x" * 10_000])
@pytest.mark.parametrize("wanted", [MARKER, DISPATCH])
def test_markers_are_found_among_others(payload: bytes, wanted: int) -> None:
    plain = entry_of(payload)
    facts = facts_of(run_of(plain, COMMIT, plain), wanted)
    assert facts.markers == (1,)
    assert facts.special[1].marker == 21
    bare = COMMIT[6:]  # without a checksum
    assert facts_of(run_of(plain, bare, bare[:9]), wanted).markers == (1,)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [{}, {}, {}, {"marker_type": 21}, {"deliver_at_time": 160}, {"properties": []}]
            ),
            st.sampled_from([b"", b"\xa0", b"\xa0\x01", b"\xa0\x01" * 9, b"\x98\x01\xa0", b"x"]),
            st.sampled_from([b"", b"\xa0", b"\xa0\x01", b"\xd2\x01\x98\x01"]),
        ),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from([MARKER, DISPATCH, DISPATCH | TRANSACTION | ORIGIN]),
)
def test_facts_do_not_depend_on_other_bytes_with_the_bytes_of_a_tag(
    entries: list[tuple[dict[str, int], bytes, bytes]], wanted: int
) -> None:
    data, spans = b"", []
    for fields, payload, gap in entries:
        data += gap
        entry = entry_of(payload, **fields)
        spans += len(data), len(data) + len(entry)
        data += entry
    size = sum(spans[1::2]) - sum(spans[::2])
    facts = facts_of(Slice(data, spans, size), wanted)
    expected = [("marker_type" in fields, "deliver_at_time" in fields) for fields, *_ in entries]
    assert [i in facts.markers for i in range(len(entries))] == [marker for marker, _ in expected]
    if wanted != MARKER:
        later = [facts.special.get(i, EntryFacts()).deliver_at_ms > 0 for i in range(len(entries))]
        assert later == [later for _, later in expected]


@pytest.mark.parametrize("payload", [b"v" * 100, random.Random(5).randbytes(100)])
def test_metadata_is_not_searched_for_the_bytes_of_a_tag_in_commands_and_payloads(
    payload: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The bytes of a marker's tag are also those of the number 160, which may be a producer's id or a sequence id.
    data = b"".join(client_commands.send(i, i, entry_of(payload)) for i in range(140, 180))
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    monkeypatch.setattr(facts, "tagged", None)
    assert facts_of(run, MARKER).special == {}


def test_only_wanted_facts_are_searched_for_and_others_are_added_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = run_of(IN_TRANSACTION, REPLICATED, LATER, entry_of(b"v"))
    keyed = facts_of(run, 0)
    keyed.slots(run, slot_of)
    assert facts_of(run) is keyed
    assert keyed.special == {2: EntryFacts(7)}
    facts_of(run, TRANSACTION)
    assert keyed.special == {0: EntryFacts(transaction=(4, 9)), 2: EntryFacts(7)}
    assert facts_of(run, ORIGIN).special == {
        0: EntryFacts(transaction=(4, 9)),
        1: EntryFacts(replicated_from="eu", replicate_to=("us", "asia")),
        2: EntryFacts(7),
    }
    monkeypatch.setattr(facts, "_special_of", None)
    assert len(facts_of(run, MARKER | TRANSACTION).special) == 3


def test_chunks_are_counted_within_a_view() -> None:
    run = run_of(PART, LATER, PART, entry_of(b"v"))
    assert [chunks_of(View(run, *part)) for part in ((0, 4), (1, 4), (1, 2), (3, 4))] == [
        2,
        1,
        0,
        0,
    ]


def test_facts_are_computed_once() -> None:
    run = run_of(LATER)
    assert facts_of(run) is facts_of(run)


def test_an_unreadable_entry_is_plain() -> None:
    assert facts_of(run_of(b"\x98\x01", b"\x0e\x01\x98\x01\xd2\x01")).special == {}


def test_a_long_uuid_is_remembered_by_a_short_name_of_its_own() -> None:
    def uuid_of(text: str) -> str:
        entry = entry_of(b"v", uuid=text, num_chunks_from_msg=3, chunk_id=1)
        chunk = facts_of(run_of(entry)).special[0].chunk
        assert chunk is not None
        return chunk.uuid

    long = "é" * 100_000
    assert uuid_of("producer-7") == "producer-7"
    assert len(uuid_of(long)) == 64
    assert uuid_of(long) == uuid_of(long) != uuid_of(long + "x")


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (1, 3), (2, 4)])
def test_facts_of_a_part_are_those_of_its_entries(start: int, stop: int) -> None:
    keyed = entry_of(b"v", partition_key="a")
    entries = [PART, keyed, LATER, keyed]
    run, part = run_of(*entries), run_of(*entries[start:stop])
    facts_of(run).slots(run, slot_of)
    made = facts_of(run).part(start, stop)
    assert made.special == facts_of(part).special
    assert made._slots == {slot_of: facts_of(part).slots(part, slot_of)}


def test_facts_of_entries_that_lie_in_another_order_are_found() -> None:
    entries = [
        entry_of(b"v", **fields)
        for fields in ({"replicate_to": ["eu"]}, {"deliver_at_time": 9}, {})
    ]
    buf, spans = b"before", [0] * 6
    for i in (2, 1, 0):
        spans[2 * i], spans[2 * i + 1] = len(buf), len(buf) + len(entries[i])
        buf += entries[i] + b"between"
    run = Slice(buf, spans, sum(map(len, entries)))
    special = facts_of(run, ORIGIN | DISPATCH).special
    assert {i: (f.replicate_to, f.deliver_at_ms) for i, f in special.items()} == {
        0: (("eu",), 0),
        1: ((), 9),
    }
