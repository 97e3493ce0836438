"""Snapshots in segments: sealed at their capacity, restored with what the other form holds, deleted with their
ledgers."""

import pytest

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.settings import TransactionSettings
from engine.broker.transactions.buffer.snapshots import (
    INDEXES,
    SEGMENTS,
    SINGLE,
    TOPICS,
    AbortSegment,
    BufferSnapshot,
    MissingSegmentError,
    index_value,
    segment_value,
)
from engine.broker.transactions.buffer.topic_snapshots import TopicSnapshots
from engine.broker.transactions.txn_id import TxnId
from tests.support.transactions.bench import KeptSnapshots

NAME = TopicName.parse("persistent://public/default/aout")
NAMED = bytes.fromhex("0240") + NAME.full.encode()
IN_SEGMENTS = TransactionSettings(
    transaction_buffer_segmented_snapshot_enabled=True,
    transaction_buffer_snapshot_segment_size=160,
)
FIRST = Position(37, 0)


def ids(first: int, count: int) -> dict[TxnId, Position]:
    """Return transactions whose markers are in one ledger, one after the other."""
    return {TxnId(0, first + i): Position(37, 2 * (first + i)) for i in range(count)}


def of(snapshots: KeptSnapshots, settings: TransactionSettings = IN_SEGMENTS) -> TopicSnapshots:
    return TopicSnapshots(NAME, snapshots, settings)


def test_values_equal_those_of_apache_pulsar() -> None:
    aborted = [TxnId(0, 3), TxnId(0, 5)]
    segment = TOPICS[SEGMENTS].types.encode(segment_value(NAME.full, 0, aborted, Position(37, 77)))
    assert segment == bytes.fromhex("0204 0600 0a00 00 9a01 4a 00") + NAMED
    index = index_value(NAME.full, [], aborted, Position(37, 6))
    encoded = TOPICS[INDEXES].types.encode(index)
    assert encoded == bytes.fromhex("0200 02 0204 0600 0a00 00 0c 4a") + NAMED
    sealed = [AbortSegment(0, Position(37, 77), Position(30, 0))]
    index = index_value(NAME.full, sealed, [TxnId(0, 45)], Position(37, 91))
    encoded = TOPICS[INDEXES].types.encode(index)
    assert encoded == bytes.fromhex("0202 9a01 4a 00 3c 00 00 02 0202 5a00 00 b601 4a") + NAMED


async def test_a_segment_is_sealed_at_its_capacity_and_written_once() -> None:
    snapshots = KeptSnapshots()
    stored = of(snapshots)
    assert stored.capacity == 40
    await stored.write(BufferSnapshot(FIRST, ids(0, 39)), FIRST, 1)
    assert [local for local, _ in snapshots.values] == [INDEXES]
    await stored.write(BufferSnapshot(FIRST, ids(0, 85)), FIRST, 2)
    writes = snapshots.writes
    await stored.write(BufferSnapshot(FIRST, ids(0, 86)), FIRST, 3)
    assert snapshots.writes == writes + 1
    stats = stored.segment_stats(86)
    assert [row["lastTxnID"] for row in stats["segmentStats"]] == ["(0,39)", "(0,79)"]
    assert (stats["segmentsSize"], stats["unsealedAbortTxnIDSize"]) == (2, 6)
    restored = await of(snapshots).read(FIRST)
    assert restored is not None
    assert (restored.max_read, restored.aborted.keys()) == (FIRST, ids(0, 86).keys())
    assert restored.aborted[TxnId(0, 1)] == ids(0, 86)[TxnId(0, 39)]


async def test_segments_are_continued_and_deleted_with_the_ledger_of_their_last_marker() -> None:
    snapshots = KeptSnapshots()
    await of(snapshots).write(BufferSnapshot(FIRST, ids(0, 40)), FIRST, 1)
    later = of(snapshots)
    restored = await later.read(FIRST)
    assert restored is not None
    behind = {TxnId(0, 100 + i): Position(38, i) for i in range(40)}
    await later.write(BufferSnapshot(FIRST, {**restored.aborted, **behind}), FIRST, 1)
    keys = [key for local, key in snapshots.values if local == SEGMENTS]
    assert keys == [f"multiple-{i}-{NAME.full}" for i in range(2)]
    await later.write(BufferSnapshot(Position(38, 9), behind), Position(38, 0), 1)
    assert [key for local, key in snapshots.values if local == SEGMENTS] == keys[1:]
    restored = await of(snapshots).read(FIRST)
    assert restored is not None
    assert restored.aborted.keys() == behind.keys()
    await later.forget()
    assert snapshots.values == {}


async def test_a_change_of_the_form_keeps_what_was_aborted_before() -> None:
    snapshots, single = KeptSnapshots(), TransactionSettings()
    await of(snapshots, single).write(BufferSnapshot(FIRST, ids(0, 2)), FIRST, 1)
    stored = of(snapshots)
    restored = await stored.read(FIRST)
    assert restored == BufferSnapshot(FIRST, ids(0, 2))
    await stored.write(BufferSnapshot(Position(37, 9), ids(0, 3)), FIRST, 1)
    back = of(snapshots, single)
    restored = await back.read(FIRST)
    assert restored is not None
    assert (restored.max_read, restored.aborted.keys()) == (Position(37, 9), ids(0, 3).keys())
    assert (back.kind, stored.kind) == ("Single", "Segment")
    assert (SINGLE, NAME.full) in snapshots.values


async def test_a_segment_that_is_lost_is_reported() -> None:
    snapshots = KeptSnapshots()
    await of(snapshots).write(BufferSnapshot(FIRST, ids(0, 40)), FIRST, 1)
    del snapshots.values[SEGMENTS, f"multiple-0-{NAME.full}"]
    with pytest.raises(MissingSegmentError, match="segment 0 of"):
        await of(snapshots).read(FIRST)
    # An earlier owner's index was stored behind its deletion, which followed that of the ledger of its markers.
    late = await of(snapshots).read(Position(38, 0))
    assert late == BufferSnapshot(FIRST, {})
