"""Reads of a subscription without what open transactions have acknowledged."""

import pytest

from engine.base.ids import Position
from engine.broker.transactions.pending.pending_cursor import PendingCursor
from engine.broker.transactions.pending.pending_state import PendingAck, PendingState
from engine.broker.transactions.txn_id import TxnId
from engine.managed.ack_state import AckState
from engine.managed.cursors.cursor import Cursor
from tests.support.raw_client import entry_of
from tests.support.shelf import Shelf, simulated

pytestmark = pytest.mark.virtual_time

TXN = TxnId(0, 0)
FAR = 1 << 20


def _reader(tail_bytes: int = FAR) -> tuple[Shelf, Cursor, PendingState, PendingCursor]:
    shelf, state = Shelf(tail_bytes), PendingState()
    shelf.append([entry_of(b"v")] * 6, [3] * 6)
    cursor = Cursor("s", AckState(), shelf.entries, {}, None)
    return shelf, cursor, state, PendingCursor(cursor, state)


def _read(reader: PendingCursor, entries: int = 100) -> list[Position]:
    views = reader.read_nowait(entries, FAR)
    assert views is not None
    return [view.run.position(i) for view in views for i in view.indexes]


@simulated
async def test_reads_go_on_behind_entries_that_are_all_pending() -> None:
    shelf, _, state, reader = _reader()
    state.restore(TXN, [PendingAck(place) for place in shelf.places[:4]])
    assert _read(reader, entries=2) == shelf.places[4:]
    assert _read(reader) == []
    state.remove(TXN)
    reader.rewind()
    assert _read(reader) == shelf.places


@simulated
async def test_reads_from_storage_and_replays_leave_them_out() -> None:
    shelf, _, state, reader = _reader(tail_bytes=1)
    state.restore(TXN, [PendingAck(shelf.places[0]), PendingAck(shelf.places[2])])
    got: list[Position] = []
    while views := await reader.read(100, FAR):
        got += [view.run.position(i) for view in views for i in view.indexes]
    assert got == [shelf.places[i] for i in (1, 3, 4, 5)]
    views = await reader.replay(shelf.places[:3], FAR)
    assert [view.run.position(i) for view in views for i in view.indexes] == [shelf.places[1]]


@simulated
async def test_parts_of_batches() -> None:
    shelf, cursor, state, reader = _reader()
    place = shelf.places[0]
    assert not reader.has_partial_batches
    assert reader.ack_set(place) is None
    state.restore(TXN, [PendingAck(place, 0b011, 3)])
    assert reader.has_partial_batches
    assert reader.ack_set(place) == [0b011]
    cursor.acknowledge_batch(place, [0b110])
    assert reader.ack_set(place) == [0b010]
    assert not reader.is_acknowledged(place)
    # The last message is acknowledged by another transaction: nothing is left for a consumer.
    state.restore(TxnId(0, 1), [PendingAck(place, 0b101, 3)])
    assert reader.is_acknowledged(place)
    assert not cursor.is_acknowledged(place)
    assert _read(reader) == shelf.places[1:]
