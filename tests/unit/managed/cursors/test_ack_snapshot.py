"""Snapshots of acknowledgements have Apache's bytes, whole and short; they are encoded and read in short steps."""

import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.base.ranges import words_of
from engine.managed.ack_state import STEP, AckState
from engine.managed.cursors.ack_snapshot import AckSnapshot
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.stored.records import CursorState
from engine.wire import mledger_pb2 as pb


def test_entries_of_a_cursor_ledger() -> None:
    stored = "080410041a0c0a0408041006120408041007"  # seen on Pulsar 4.0.8
    acks = AckState(5, [(7, 8)])
    snapshot = AckSnapshot.of(acks, LedgerLine([LedgerSpan(4, 10)]), {})
    assert snapshot.encode().hex() == stored
    assert CursorState.decode(bytes.fromhex(stored)) == snapshot.state()


def by_classes(snapshot: AckSnapshot) -> bytes:
    """Encode the snapshot with the generated classes."""
    state = snapshot.state()
    at = state.mark_delete
    info = pb.PositionInfo(ledgerId=at.ledger_id, entryId=at.entry_id)
    for first, last in state.ranges:
        stored_range = info.individualDeletedMessages.add()
        stored_range.lowerEndpoint.ledgerId, stored_range.lowerEndpoint.entryId = (
            first.ledger_id,
            first.entry_id - 1,
        )
        stored_range.upperEndpoint.ledgerId, stored_range.upperEndpoint.entryId = last
    for name, value in state.properties.items():
        info.properties.add(name=name, value=value)
    for position, bits in state.batches.items():
        batch = info.batchedEntryDeletionIndexInfo.add()
        batch.position.ledgerId, batch.position.entryId = position
        batch.deleteSet.extend(words_of(bits))
    return info.SerializeToString()


SIZES = st.integers(0, 1 << 22)


@given(
    st.lists(SIZES, min_size=1, max_size=5),
    st.lists(st.tuples(SIZES, st.integers(1, 300_000)), max_size=30),
    SIZES,
    st.dictionaries(SIZES, st.integers(1, 1 << 130), max_size=3),
)
def test_ranges_have_the_bytes_of_the_generated_classes(
    sizes: list[int], drawn: list[tuple[int, int]], mark: int, batches: dict[int, int]
) -> None:
    line = LedgerLine([LedgerSpan(3 + 1000 * i, size) for i, size in enumerate(sizes)])
    holes = [(min(at, line.durable_to), min(at + size, line.durable_to)) for at, size in drawn]
    inside = {at: bits for at, bits in batches.items() if at < line.durable_to}
    acks = AckState(min(mark, line.durable_to), holes, inside)
    snapshot = AckSnapshot.of(acks, line, {"p": -1})
    payload = snapshot.encode()
    assert payload == by_classes(snapshot)
    again = CursorState.decode(payload)
    found_acks = again.acks(line)
    assert (found_acks.mark, found_acks.holes, found_acks.batches) == (
        acks.mark,
        acks.holes,
        acks.batches,
    )
    assert snapshot.last == (again.ranges[-1][1] if again.ranges else None)


@pytest.mark.parametrize("step", [2, 3, 7])
def test_many_ranges_are_stored_compactly_and_completely(step: int) -> None:
    line = LedgerLine([LedgerSpan(1, 30_000), LedgerSpan(2, 30_000)])
    acks = AckState(5, [(at, min(at + step - 1, 60_000)) for at in range(7, 60_000, step)])
    payload = AckSnapshot.of(acks, line, {}).encode()
    assert len(payload) < 14_000 + 60_000 // 64 * 11
    read_back = CursorState.decode(payload).acks(line)
    assert (read_back.mark, read_back.holes) == (acks.mark, acks.holes)


def test_a_range_across_ledgers_is_stored_per_ledger() -> None:
    line = LedgerLine([LedgerSpan(1, 10), LedgerSpan(2, 0), LedgerSpan(3, 10)])
    acks = AckState(2, [(8, 13)])
    state = CursorState.decode(AckSnapshot.of(acks, line, {}).encode())
    assert state.ranges == [(Position(1, 8), Position(1, 9)), (Position(3, 0), Position(3, 2))]
    assert state.acks(line).holes == acks.holes


@pytest.mark.parametrize("gap", [2, 1000])
def test_encoding_yields_to_others_and_does_not_see_their_changes(gap: int) -> None:
    count = 20 * STEP
    line = LedgerLine([LedgerSpan(7, (count + 1) * gap)])
    acks = AckState(0, [(1 + i * gap, 2 + i * gap) for i in range(count)])
    steps = AckSnapshot.of(acks, line, {}).encoding()
    before = AckSnapshot.of(acks, line, {}).encode()
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert end.value == before
            break
        pauses += 1
        acks.acknowledge(0, 2 + pauses * gap)
    assert pauses == 20


def done(steps: Generator[None, None, Any], calls_max: int) -> Any:
    """Return the result of the steps, after checking that each calls at most ``calls_max`` functions."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    while True:
        calls = 0
        sys.setprofile(count)
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        finally:
            sys.setprofile(before)
        assert calls <= calls_max


COUNT = 8 * STEP
MANY = {
    "ranges": AckState(0, [(200 * i + 1, 200 * i + 2) for i in range(COUNT)]),
    "bits": AckState(0, [(2 * i + 1, 2 * i + 2) for i in range(COUNT)]),
    "batches": AckState(0, [], dict.fromkeys(range(COUNT), 5)),
    "both": AckState(
        0, [(4 * i + 1, 4 * i + 3) for i in range(COUNT)], {4 * i + 3: 5 for i in range(COUNT)}
    ),
}


@pytest.mark.parametrize("kind", MANY)
def test_the_longest_step_does_not_grow_with_the_state(kind: str) -> None:
    acks = MANY[kind]
    line = LedgerLine([LedgerSpan(1, 100 * COUNT), LedgerSpan(3, 100 * COUNT + 7)])
    properties = {f"producer-{i}": i for i in range(COUNT)}
    snapshot = AckSnapshot.of(acks, line, {})
    calls_max = 24 * STEP
    assert calls_max < 4 * COUNT
    payload = done(snapshot.encoding(), calls_max)
    state = done(CursorState.decoding(payload), calls_max)
    read_back = done(state.acking(line), calls_max)
    assert (read_back.mark, read_back.holes, read_back.batches) == (
        acks.mark,
        acks.holes,
        acks.batches,
    )
    many = AckSnapshot.of(AckState(), line, properties).encode()
    assert done(CursorState.decoding(many), calls_max).properties == properties
