"""The record of a cursor's last change: stored with the state, wherever that is, and read by the next owner."""

import base64
import json
import zlib
from dataclasses import replace

import pytest

from engine.base.ids import Position
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.last_change import STATES_BYTES_MAX, LastChange
from engine.managed.errors import StoredRecordError
from engine.managed.ledger import InitialPosition
from tests.support.managed_cluster import LAZY, NAME, ONE, Brokers, publish

pytestmark = pytest.mark.virtual_time

CHANGE = LastChange(
    id="c1", at_ms=5, by="alice", what="skip-all", lost=7, again=0,
    lost_messages=None, again_messages=0, exact=False, spent={"c0": 4},
)  # fmt: skip


def test_a_record_is_read_as_it_was_written() -> None:
    assert LastChange.decode(CHANGE.encode()) == CHANGE
    assert CHANGE.spent_since(5) == {"c1": 5}
    assert CHANGE.spent_since(0) == {"c0": 4, "c1": 5}
    for damaged in (b"", b"{}", CHANGE.encode()[:-1], b'{"before": 1, "after": ""}', b"[]", b"5"):
        with pytest.raises(StoredRecordError, match="last change"):
            LastChange.decode(damaged)


async def changed(brokers: Brokers, holes: int) -> tuple[bytes, Cursor]:
    """Skip all entries and kill the broker; return the state before, and the cursor at another broker."""
    factory = brokers.broker(LAZY)
    log = await factory.open(NAME, ONE)
    cursor = await log.open_cursor("s", InitialPosition.EARLIEST)
    sink = await publish(log, 0, 2 * holes + 1, batch=500)
    cursor.acknowledge([Position(*at) for at in sink.positions[1::2]])
    before = cursor.state()
    effect = cursor.effect(before, cursor.state_passed(None))
    await cursor.move(effect, CHANGE)
    brokers.crash(factory)
    return before, (await brokers.broker(LAZY).open(NAME, ONE)).cursors["s"]


@pytest.mark.parametrize("holes", [3, 3000])
async def test_the_next_owner_can_undo_the_last_change(brokers: Brokers, holes: int) -> None:
    before, cursor = await changed(brokers, holes)
    kept = cursor.last_change
    assert kept is not None
    assert (kept.id, kept.before, kept.after) == ("c1", before, cursor.state())
    assert cursor.backlog_entries() == 0
    await cursor.move(cursor.effect(kept.after, kept.before), CHANGE)
    assert cursor.state() == before


async def test_states_that_are_too_large_are_not_kept(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert STATES_BYTES_MAX == 256 << 10
    monkeypatch.setattr("engine.managed.cursors.cursor.STATES_BYTES_MAX", 20)
    _, cursor = await changed(brokers, 30)
    kept = cursor.last_change
    assert kept is not None
    assert (kept.id, kept.can_be_undone) == ("c1", False)
    assert cursor.backlog_entries() == 0


async def test_a_cursor_that_is_not_durable_remembers_as_long_as_it_lives(brokers: Brokers) -> None:
    log = await brokers.broker(LAZY).open(NAME, ONE)
    await publish(log, 0, 5)
    cursor = await log.open_cursor("r", InitialPosition.EARLIEST, durable=False)
    assert cursor.last_change is None
    await cursor.move(cursor.effect(cursor.state(), cursor.state_passed(2)), CHANGE)
    assert (cursor.last_change is not None, cursor.backlog_entries()) == (True, 3)


def test_large_states_are_compressed_and_round_trip() -> None:
    states = [b"".join(i.to_bytes(4, "big") for i in range(n)) for n in (20_000, 30_000)]
    change = replace(CHANGE, before=states[0], after=states[1])
    encoded = change.encode()
    assert len(encoded) < sum(map(len, states)) // 2
    assert LastChange.decode(encoded) == change


def test_a_compressed_state_that_is_cut_off_or_too_large_is_refused() -> None:
    whole = replace(CHANGE, before=bytes(STATES_BYTES_MAX))
    assert LastChange.decode(whole.encode()) == whole
    known = json.loads(whole.encode())
    large = zlib.compress(bytes(STATES_BYTES_MAX + 1))
    for state in (large, large[:100], b""):
        known["before"] = base64.b64encode(state).decode()
        with pytest.raises(StoredRecordError, match="last change"):
            LastChange.decode(json.dumps(known).encode())
