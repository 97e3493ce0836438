"""Previews and confirmed changes of cursors, on a broker over a real bookie, with batches and holes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, JsonObject, MessagePosition, OnTopic
from engine.admin.api.cursors import (
    LAST_CHANGES,
    MOVE_CURSOR,
    PREVIEW_CHANGE,
    RESET_CURSOR,
    MoveCursor,
    PreviewChange,
    ResetCursor,
)
from engine.admin.api.statistics import INTERNAL_STATS, InternalStats
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    CreateSubscription,
    DeleteSubscription,
)
from engine.admin.api.topics import TRIM
from engine.base.errors import Conflict, PreconditionFailed
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.ranges import bits_of
from engine.broker.topics.ports import SubscriptionCursor
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.last_change import KEPT_MS
from engine.wire.batches import Message, pack_entry
from engine.wire.kernels import batch_sizes
from tests.support.admin.bench import AdminBench, ShiftedClock
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/orders")
BATCH = 3


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
async def bench(clock: ShiftedClock) -> AsyncIterator[AdminBench]:
    made = AdminBench(clock)
    await made.start()
    args = CreateSubscription(TOPIC, "s", EARLIEST_MESSAGE)
    await made.admin.call(CREATE_SUBSCRIPTION, args)
    yield made
    await made.close()


async def publish(bench: AdminBench, count: int, **extra: int) -> list[Position]:
    """Publish ``count`` entries a second apart, every second one a batch of three messages; return their positions."""
    entries = []
    for i in range(count):
        messages = [
            Message(b"v", key=f"k{i}.{j}", sequence_id=i) for j in range(BATCH if i % 2 else 1)
        ]
        entries.append(
            pack_entry(messages, producer_name="p", publish_ms=1_000 * (i + 1), extra=extra)
        )
    run, sink = run_of(*entries), Sink()
    run.counts = batch_sizes(run.buf, run.spans)
    (await bench.loaded(TOPIC)).log.append(run, sink)
    await sink.settle(count)
    return [Position(*position) for position in sink.positions]


async def cursor_of(bench: AdminBench) -> SubscriptionCursor:
    return (await bench.loaded(TOPIC)).subscriptions["s"].cursor


async def preview(bench: AdminBench, change: Any, **how: Any) -> JsonObject:
    args = PreviewChange(TOPIC, "s", change, **how)
    return await bench.admin.call(PREVIEW_CHANGE, args)


def confirmed(previewed: JsonObject, change: Any, key: str = "one") -> MoveCursor:
    same = ("base", "target", "lost", "again", "lost_messages", "again_messages", "exact")
    given = {name: previewed[name] for name in same}
    return MoveCursor(TOPIC, "s", id=key, change=change, by="alice", **given)


async def make(
    bench: AdminBench, previewed: JsonObject, change: Any, key: str = "one", **more: Any
) -> JsonObject:
    args = replace(confirmed(previewed, change, key), **more)
    return await bench.admin.call(MOVE_CURSOR, args)


async def undo(bench: AdminBench, key: str, by: str = "undo") -> JsonObject:
    previewed = await preview(bench, "undo", undo=key)
    return await make(bench, previewed, "undo", by, undoes=key)


COUNTERS = (
    *("cursorLedger", "cursorLedgerLastEntry", "lastLedgerSwitchTimestamp", "state"),
    "messagesConsumedCounter",
)
"""Fields that an undone change need not restore: where the cursor is stored, how often it was written, and a counter
that begins when the topic is loaded."""


async def internals(bench: AdminBench) -> JsonObject:
    stats = await bench.admin.call(INTERNAL_STATS, InternalStats(TOPIC))
    cursor: JsonObject = stats["cursors"]["s"]
    for counter in COUNTERS:
        cursor.pop(counter, None)
    return cursor


def ack_some(cursor: SubscriptionCursor, at: list[Position]) -> None:
    """Acknowledge entries with holes behind the mark-delete position, and parts of two batches."""
    cursor.acknowledge([at[0], at[3], at[4], at[8]])
    cursor.acknowledge_batch(at[5], [0b110])
    cursor.acknowledge_batch(at[7], [0b001])


async def test_a_preview_counts_entries_messages_and_holes_and_names_their_range(
    bench: AdminBench,
) -> None:
    at = await publish(bench, 10)
    ack_some(await cursor_of(bench), at)
    previewed = await preview(bench, "skip-all")
    assert (previewed["lost"], previewed["again"], previewed["holes"]) == (6, 0, 3)
    assert previewed["lost_messages"] == 3 + 1 + 2 + 1 + 1 + 3  # 1, 2, 5 and 7 in part, 6, 9
    assert previewed["exact"]
    assert (previewed["from"], previewed["to"]) == (str(at[1]), f"{at[9].ledger_id}:10")
    assert previewed["first"] == {"id": str(at[1]), "publish_time": 2_000, "key": "k1.0"}
    assert previewed["last"] == {"id": str(at[9]), "publish_time": 10_000, "key": "k9.2"}
    assert (previewed["delayed"], previewed["consumers"], previewed["undoable"]) == (0, [], True)
    previewed = await preview(bench, "skip", count=3)
    assert (previewed["lost"], previewed["lost_messages"], previewed["to"]) == (
        3,
        3 + 1 + 2,
        str(at[6]),
    )


async def test_a_reset_preview_counts_lost_and_redelivered_entries(bench: AdminBench) -> None:
    at = await publish(bench, 10)
    ack_some(await cursor_of(bench), at)
    previewed = await preview(bench, "reset", timestamp_ms=7_500)  # entry 7 is next
    assert (previewed["lost"], previewed["again"]) == (4, 1)
    assert (previewed["lost_messages"], previewed["again_messages"]) == (3 + 1 + 2 + 1, 2 + 1)
    previewed = await preview(bench, "reset", timestamp_ms=0)
    assert (previewed["lost"], previewed["again"]) == (0, 4)
    assert previewed["again_messages"] == 1 + 3 + 1 + 1 + 1 + 2
    done = await make(bench, previewed, "reset")
    assert (done["again"], done["mark_delete"]) == (4, f"{at[0].ledger_id}:-1")
    assert (await cursor_of(bench)).backlog_entries() == 10


async def test_a_preview_counts_delayed_messages(bench: AdminBench) -> None:
    await publish(bench, 4, deliver_at_time=1 << 50)
    previewed = await preview(bench, "skip-all")
    assert previewed["delayed"] == 8


async def test_entries_published_after_the_preview_stay_in_the_backlog(bench: AdminBench) -> None:
    at = await publish(bench, 10)
    previewed = await preview(bench, "skip-all")
    later = await publish(bench, 5)
    cursor = await cursor_of(bench)
    cursor.acknowledge([at[0], at[1], later[2]])
    cursor.acknowledge_batch(at[3], [0b001])
    done = await make(bench, previewed, "skip-all")
    assert done["done"]
    assert (done["lost"], done["meanwhile"]) == (8, 2)
    assert done["lost_messages"] == previewed["lost_messages"] - 1 - 3 - 2
    assert (done["mark_delete"], cursor.backlog_entries()) == (str(at[9]), 4)
    assert cursor.is_acknowledged(later[2])


async def test_an_undone_skip_restores_the_cursor(bench: AdminBench) -> None:
    at = await publish(bench, 10)
    ack_some(await cursor_of(bench), at)
    before, state = await internals(bench), (await cursor_of(bench)).state()
    previewed = await preview(bench, "skip-all")
    await make(bench, previewed, "skip-all")
    assert (await cursor_of(bench)).backlog_entries() == 0
    await bench.restart()  # the data needed for the undo is stored with the cursor
    (last,) = await bench.admin.call(LAST_CHANGES, OnTopic(TOPIC))
    assert last.pop("kept_until") == last["at"] + KEPT_MS
    assert last["at"] > 0
    assert last | {"at": 0} == {
        "subscription": "s", "id": "one", "at": 0, "by": "alice", "change": "skip-all",
        "lost": 6, "again": 0, "lost_messages": 11, "again_messages": 0, "exact": True,
        "undoable": True, "undoes": "",
    }  # fmt: skip
    done = await undo(bench, "one")
    assert (done["again"], done["lost"]) == (6, 0)
    assert await internals(bench) == before
    assert (await cursor_of(bench)).state() == state
    await bench.restart()
    assert (await cursor_of(bench)).state() == state
    redone = await undo(bench, "undo", "redo")
    assert (redone["lost"], (await cursor_of(bench)).backlog_entries()) == (6, 0)


async def test_an_undone_reset_restores_its_acknowledgements(bench: AdminBench) -> None:
    at = await publish(bench, 10)
    ack_some(await cursor_of(bench), at)
    state = (await cursor_of(bench)).state()
    await make(bench, await preview(bench, "reset", timestamp_ms=0), "reset")
    (await cursor_of(bench)).acknowledge([at[6]])
    await undo(bench, "one")
    cursor = await cursor_of(bench)
    assert cursor.is_acknowledged(at[6])  # acknowledged after the reset
    cursor = await cursor_of(bench)
    effect = cursor.effect(state, state)
    assert not effect.returned
    assert cursor.backlog_entries() == 5


async def test_a_preview_can_be_confirmed_once(bench: AdminBench) -> None:
    await publish(bench, 10)
    previewed = await preview(bench, "skip", count=2)
    assert (await make(bench, previewed, "skip"))["done"]
    await undo(bench, "one")
    again = await make(bench, previewed, "skip")
    assert (again["done"], again["why"]) == (False, "used")
    await bench.restart()
    assert (await make(bench, previewed, "skip"))["why"] == "used"
    assert (await cursor_of(bench)).backlog_entries() == 10


async def test_a_cursor_that_was_moved_is_not_moved_by_an_old_preview(bench: AdminBench) -> None:
    at = await publish(bench, 10)
    cursor = await cursor_of(bench)
    cursor.acknowledge(at[:5])
    previewed = await preview(bench, "skip-all")
    args = ResetCursor(TOPIC, "s", timestamp_ms=0)
    await bench.admin.call(RESET_CURSOR, args)
    refused = await make(bench, previewed, "skip-all")
    assert (refused["done"], refused["why"], refused["entries"]) == (False, "moved", 5)
    assert (await make(bench, previewed, "skip-all", dry=True))["why"] == "moved"
    assert cursor.backlog_entries() == 10


async def test_the_preview_of_an_undo_counts_the_acknowledgements_it_would_lose(
    bench: AdminBench,
) -> None:
    at = await publish(bench, 10)
    await make(bench, await preview(bench, "skip-all"), "skip-all")
    args = ResetCursor(TOPIC, "s", timestamp_ms=0)
    await bench.admin.call(RESET_CURSOR, args)
    (await cursor_of(bench)).acknowledge(at[:4])  # redelivered and acknowledged
    previewed = await preview(bench, "undo", undo="one")
    assert (previewed["moved"], previewed["again"], previewed["gone"]) == (6, 4, 0)


async def test_skipped_entries_are_kept_for_a_quarter_of_an_hour(
    bench: AdminBench, clock: ShiftedClock
) -> None:
    await publish(bench, 10)
    previewed = await preview(bench, "skip-all")
    assert previewed["kept_ms"] == KEPT_MS == 900_000
    done = await make(bench, previewed, "skip-all")
    assert done["kept_until"] - KEPT_MS <= clock.wall_ms() < done["kept_until"]
    await bench.restart()  # another ledger is written from now on
    await publish(bench, 1)
    clock.ahead_ms += KEPT_MS - 60_000
    await bench.admin.call(TRIM, OnTopic(TOPIC))
    previewed = await preview(bench, "undo", undo="one")
    assert (previewed["gone"], previewed["again"]) == (0, 10)
    clock.ahead_ms += 60_000
    await bench.admin.call(TRIM, OnTopic(TOPIC))
    previewed = await preview(bench, "undo", undo="one")
    assert (previewed["gone"], previewed["again"]) == (10, 0)


async def test_a_deleted_subscription_keeps_no_ledgers(bench: AdminBench) -> None:
    await publish(bench, 10)
    await make(bench, await preview(bench, "skip-all"), "skip-all")
    await bench.restart()
    await publish(bench, 1)
    log = (await bench.loaded(TOPIC)).log
    await bench.admin.call(DELETE_SUBSCRIPTION, DeleteSubscription(TOPIC, "s", force=True))
    await bench.admin.call(TRIM, OnTopic(TOPIC))
    assert len(log.line.ledgers) == 1


async def test_a_change_of_nothing_leaves_the_last_one_to_be_undone(bench: AdminBench) -> None:
    await publish(bench, 10)
    both = await preview(bench, "skip-all")
    assert (await make(bench, both, "skip-all", "one"))["changed"]
    empty = await make(bench, both, "skip-all", "two")
    assert (empty["done"], empty["lost"], empty["meanwhile"]) == (True, 0, 10)
    assert (empty["changed"], empty["undoable"], empty["kept_until"]) == (False, False, None)
    await bench.restart()
    assert (await undo(bench, "one"))["again"] == 10
    assert (await make(bench, both, "skip-all", "two"))["why"] == "used"
    assert (await cursor_of(bench)).backlog_entries() == 10


async def test_a_change_of_nothing_is_no_change(bench: AdminBench) -> None:
    await publish(bench, 1)
    cursor = await cursor_of(bench)
    previewed = await preview(bench, "skip-all")
    await cursor.clear()
    assert not (await make(bench, previewed, "skip-all"))["changed"]
    assert await bench.admin.call(LAST_CHANGES, OnTopic(TOPIC)) == []


async def test_a_change_of_nothing_is_confirmed_when_what_it_skips_is_durably_acknowledged(
    bench: AdminBench,
) -> None:
    await publish(bench, 10)
    cursor = await cursor_of(bench)
    skip_all = await preview(bench, "skip-all")
    await cursor.persisted()
    cursor.acknowledge_cumulative((await bench.loaded(TOPIC)).log.last_confirmed)
    assert cursor.persisted_mark_delete < cursor.mark_delete
    assert (await make(bench, skip_all, "skip-all"))["done"]
    assert cursor.persisted_mark_delete == cursor.mark_delete


async def test_only_the_last_change_can_be_undone(bench: AdminBench) -> None:
    await publish(bench, 10)
    await make(bench, await preview(bench, "skip", count=1), "skip", "one")
    await make(bench, await preview(bench, "skip", count=1), "skip", "two")
    with pytest.raises(Conflict, match="only the last can be undone"):
        await preview(bench, "undo", undo="one")


async def test_two_confirmations_of_one_preview_make_one_change(bench: AdminBench) -> None:
    await publish(bench, 10)
    previewed = await preview(bench, "skip", count=2)
    outcomes = await asyncio.gather(
        make(bench, previewed, "skip"), make(bench, previewed, "skip"), return_exceptions=True
    )
    done = [outcome for outcome in outcomes if isinstance(outcome, dict) and outcome["done"]]
    assert len(done) == 1
    assert (await cursor_of(bench)).backlog_entries() == 8


async def test_a_change_while_a_reset_is_under_way_is_refused_as_busy(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(bench, 4)
    previewed = await preview(bench, "skip-all")
    begun, goes, reset = asyncio.Event(), asyncio.Event(), Cursor.reset

    async def held(cursor: Cursor, position: Position) -> None:
        begun.set()
        await goes.wait()
        await reset(cursor, position)

    monkeypatch.setattr(Cursor, "reset", held)
    args = ResetCursor(TOPIC, "s", timestamp_ms=0)
    first = asyncio.ensure_future(bench.admin.call(RESET_CURSOR, args))
    await begun.wait()
    for second in (bench.admin.call(RESET_CURSOR, args), make(bench, previewed, "skip-all")):
        with pytest.raises(PreconditionFailed, match="Failed for Subscription Busy"):
            await second
    goes.set()
    await first
    assert (await cursor_of(bench)).backlog_entries() == 4


@pytest.mark.parametrize(
    ("index", "excluded", "due"),
    [(-1, False, -1), (0, False, 0b111), (1, False, 0b110), (1, True, 0b100), (2, True, None)],
)
async def test_a_reset_into_a_batch_leaves_the_entries_behind_it(
    bench: AdminBench, index: int, excluded: bool, due: int | None
) -> None:
    at = await publish(bench, 4)
    place = MessagePosition(*at[1], batch_index=index, excluded=excluded)
    await bench.admin.call(RESET_CURSOR, ResetCursor(TOPIC, "s", position=place))
    cursor = await cursor_of(bench)
    if due is None:  # the next entry is the first one
        assert (cursor.mark_delete, cursor.ack_set(at[1])) == (at[1], None)
    else:
        assert cursor.mark_delete == at[0]
        partly = cursor.ack_set(at[1])
        assert (-1 if partly is None else bits_of(partly)) == (-1 if due == 0b111 else due)
