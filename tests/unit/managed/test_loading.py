"""Topics open in time when their cursors' storage is damaged or silent, and with many cursors and ledgers."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from engine.base.ids import Position
from engine.ledger.client import LedgerClient
from engine.ledger.errors import CorruptEntryError, LedgerRecoveryError
from engine.ledger.reading.reader import LedgerReader
from engine.managed.ack_state import AckState
from engine.managed.cursors.cursor_store import CursorStore
from engine.managed.errors import CursorUnreadableError, ManagedLedgerLoadError
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.settings import ManagedSettings
from engine.managed.stored.records import CursorRecord, CursorState, LogRecord
from engine.metadata import paths
from engine.metadata.memory import Fault
from tests.support.managed_cluster import (
    LAZY,
    NAME,
    ONE,
    Brokers,
    drain,
    numbered,
    publish,
    rolling,
)
from tests.support.waiting import stays

FIRST = InitialPosition.EARLIEST
HASTY = ManagedSettings(
    cursor_persist_interval_s=3600,
    retry_initial_s=0.02,
    retry_max_s=0.05,
    open_timeout_s=2.0,
    cursor_load_timeout_s=0.5,
)


async def acknowledged(brokers: Brokers, *names: str) -> tuple[dict[str, int], list[Position]]:
    """Crash a topic of five entries whose cursors persisted a state twice; return their ledgers and the positions."""
    factory = brokers.broker(LAZY)
    ledger = await factory.open(NAME, ONE)
    cursors = [await ledger.open_cursor(name, FIRST) for name in names]
    sink = await publish(ledger, 0, 5)
    places = [Position(*place) for place in sink.positions]
    for cursor in cursors:
        for place in places[:2]:
            cursor.acknowledge([place])
            await cursor.persisted()
    brokers.crash(factory)
    return {cursor.name: cursor.stats().cursor_ledger_id for cursor in cursors}, places


async def reopened(brokers: Brokers, settings: ManagedSettings = HASTY) -> ManagedLedger:
    return await brokers.broker(settings).open(NAME, ONE)


def refuse(monkeypatch: pytest.MonkeyPatch, ledger_ids: dict[int, Exception | None]) -> None:
    """Let opening these ledgers fail, or never end for None, while they are in the dict."""
    real = LedgerClient.open

    async def refusing(self: LedgerClient, ledger_id: int, **how: Any) -> LedgerReader:
        if ledger_id in ledger_ids:
            error = ledger_ids[ledger_id]
            if error is not None:
                raise error
            await asyncio.get_running_loop().create_future()
        return await real(self, ledger_id, **how)

    monkeypatch.setattr(LedgerClient, "open", refusing)


@pytest.mark.parametrize("error", [LedgerRecoveryError("too few bookies"), None])
async def test_m14_a_cursor_whose_storage_is_silent_does_not_keep_the_topic_from_opening(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    cursor_ledgers, places = await acknowledged(brokers, "good", "bad")
    silent: dict[int, Exception | None] = {cursor_ledgers["bad"]: error}
    refuse(monkeypatch, silent)
    ledger = await reopened(brokers)
    assert list(ledger.cursors) == ["good"]
    await publish(ledger, 5, 1)
    with pytest.raises(CursorUnreadableError, match="bad"):
        await ledger.open_cursor("bad", FIRST)
    ledger.cursors["good"].acknowledge_cumulative(ledger.last_confirmed)
    await ledger.cursors["good"].persisted()
    await ledger.trim()
    assert ledger.line.base == 0, "nothing is trimmed that the silent cursor may need"
    silent.clear()  # M5: what was confirmed comes back
    while "bad" not in ledger.cursors:
        await asyncio.sleep(0.02)
    assert ledger.cursors["bad"].mark_delete == places[1]
    assert await drain(ledger.cursors["bad"]) == numbered(2, 4)


@pytest.mark.virtual_time
async def test_only_callers_that_need_silent_storage_wait_for_it(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor_ledgers, places = await acknowledged(brokers, "bad", "worse")
    silent: dict[int, Exception | None] = {cursor_ledgers[name]: None for name in ("bad", "worse")}
    refuse(monkeypatch, silent)
    settings = ManagedSettings(
        cursor_persist_interval_s=3600, cursor_load_timeout_s=1.0, retry_initial_s=0.001
    )
    ledger = await reopened(brokers, settings)
    assert sorted(ledger.stats().unread_cursors) == ["bad", "worse"]
    loop = asyncio.get_running_loop()
    waiting = [loop.create_task(ledger.open_cursor("bad", FIRST)) for _ in range(3)]
    await stays(lambda: not any(task.done() for task in waiting), 0.01)
    fresh = await ledger.open_cursor("fresh", FIRST)
    await ledger.delete_cursor("fresh")
    assert fresh.backlog_entries() == 5
    assert not any(task.done() for task in waiting), "the silent cursor is still being read"
    errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in errors] == [CursorUnreadableError] * 3
    silent.clear()
    cursors = await asyncio.gather(*(ledger.open_cursor("bad", FIRST) for _ in range(3)))
    assert all(cursor is ledger.cursors["bad"] for cursor in cursors)
    cursors[0].acknowledge([places[2]])
    await cursors[0].persisted()


async def test_a_silent_cursor_can_be_deleted(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor_ledgers, _ = await acknowledged(brokers, "good", "bad")
    refuse(monkeypatch, {cursor_ledgers["bad"]: LedgerRecoveryError("too few bookies")})
    ledger = await reopened(brokers)
    await ledger.delete_cursor("bad")
    assert not await brokers.cluster.store.exists(paths.cursor(NAME, "bad"))
    assert not await brokers.cluster.store.exists(paths.ledger(cursor_ledgers["bad"]))
    fresh = await ledger.open_cursor("bad", FIRST)
    assert fresh.backlog_entries() == 5


@pytest.mark.parametrize("lost", [1, 2])
async def test_m10_damaged_entries_of_a_cursor_ledger_make_its_state_older_never_newer(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    cursor_ledgers, places = await acknowledged(brokers, "s")
    real = LedgerReader.read

    async def damaged(self: LedgerReader, first: int, last: int, bytes_max: int) -> object:
        if self.ledger_id == cursor_ledgers["s"] and first >= 2 - lost:
            raise CorruptEntryError("asked to fail")
        return await real(self, first, last, bytes_max)

    monkeypatch.setattr(LedgerReader, "read", damaged)
    ledger = await reopened(brokers)
    # The node's snapshot is from the first acknowledgement, which is also the ledger's first entry.
    assert ledger.cursors["s"].mark_delete == places[0]


async def test_a_cursor_node_that_cannot_be_read_does_not_keep_the_topic_from_opening(
    brokers: Brokers,
) -> None:
    await acknowledged(brokers, "s")
    store = brokers.cluster.store
    await store.create(paths.cursor(NAME, "torn"), b"\xff\xff", make_parents=True)
    ledger = await reopened(brokers)
    assert list(ledger.cursors) == ["s"]
    with pytest.raises(CursorUnreadableError, match="ManagedCursorInfo"):
        await ledger.open_cursor("torn", FIRST)
    await ledger.delete_cursor("torn")
    assert (await ledger.open_cursor("torn", FIRST)).backlog_entries() == 5


async def test_m14_an_opening_that_times_out_names_the_step_it_waited_for(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, places = await acknowledged(brokers, "s")
    silent: dict[int, Exception | None] = {places[0].ledger_id: None}
    refuse(monkeypatch, silent)
    factory = brokers.broker(ManagedSettings(open_timeout_s=0.3))
    with pytest.raises(ManagedLedgerLoadError, match="recovery of the last ledger"):
        await factory.open(NAME, ONE)
    silent.clear()
    assert (await factory.open(NAME, ONE)).last_confirmed == places[-1]


async def test_concurrent_cursor_loads_are_bounded(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, under_way, most = 150, 0, 0
    names = [f"s{i:03d}" for i in range(count)]
    await acknowledged(brokers, "first")
    store = brokers.cluster.store
    record = CursorRecord(-1, CursorState(Position(0, 1)), 1).encode()
    for name in names:
        await store.create(paths.cursor(NAME, name), record, make_parents=True)
    real = CursorStore.take

    async def take(self: CursorStore, *given: Any) -> CursorState:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await real(self, *given)
        finally:
            under_way -= 1

    monkeypatch.setattr(CursorStore, "take", take)
    brokers.cluster.server.on_call = lambda *call: Fault(delay_s=0.005)
    ledger = await brokers.broker(LAZY).open(NAME, ONE)
    brokers.cluster.server.on_call = None
    assert list(ledger.cursors) == sorted([*names, "first"])
    assert 8 <= most <= LAZY.cursor_loads_max
    assert all(ledger.cursors[name].backlog_entries() == 3 for name in names)


@pytest.mark.parametrize("end", ["closed", "crashed"])
async def test_an_opening_reads_the_metadata_store_twice(brokers: Brokers, end: str) -> None:
    factory = brokers.broker(HASTY)
    ledger = await factory.open(NAME, ONE)
    places = [Position(*place) for place in (await publish(ledger, 0, 9)).positions]
    for name in ("holes", "none", "some"):
        cursor = await ledger.open_cursor(name, FIRST)
        if name != "none":
            cursor.acknowledge([places[3]])
            await cursor.persisted()
    last = ledger.line.last.ledger_id
    if end == "closed":
        await ledger.close()
    else:
        brokers.crash(factory)
    reads: list[tuple[str, str]] = []

    def note(session: int, operation: str, path: str) -> None:
        mine = path.startswith((paths.managed_ledger(NAME), paths.LEDGERS + "/00"))
        if mine and operation in ("get", "get_all", "exists", "children"):
            reads.append((operation, path))

    brokers.cluster.server.on_call = note
    again = await brokers.broker(HASTY).open(NAME, ONE)
    brokers.cluster.server.on_call = None
    assert reads == [("get_all", paths.managed_ledger(NAME)), ("get_all", paths.ledger(last))]
    assert again.cursors["some"].is_acknowledged(places[3])
    assert {name: cursor.backlog_entries() for name, cursor in again.cursors.items()} == {
        "holes": 8,
        "none": 9,
        "some": 8,
    }


@pytest.mark.parametrize("lost_answer", [False, True])
async def test_a_cursor_created_by_the_former_owner_during_a_takeover_is_loaded(
    brokers: Brokers, lost_answer: bool
) -> None:
    await acknowledged(brokers, "first")
    record = CursorRecord(-1, CursorState(Position(0, 1)), 1).encode()
    made = False

    def make(session: int, operation: str, path: str) -> Fault | None:
        nonlocal made
        if operation != "put" or path != paths.managed_ledger(NAME) or made:
            return None
        made = True
        brokers.cluster.server.tree.create(paths.cursor(NAME, "late"), record, 0, False, 0)
        return Fault(lose_reply=lost_answer)

    brokers.cluster.server.on_call = make
    ledger = await reopened(brokers)
    brokers.cluster.server.on_call = None
    assert made
    assert sorted(ledger.cursors) == ["first", "late"]
    assert ledger.cursors["late"].backlog_entries() == 3


@pytest.mark.virtual_time
async def test_a_thousand_consumed_ledgers_are_trimmed_while_appends_continue(
    brokers: Brokers,
) -> None:
    store, closed = brokers.cluster.store, 1_700_000_000_000
    record = LogRecord([LedgerSpan(i, 10, 1000, closed) for i in range(1000)])
    await store.create(paths.managed_ledger(NAME), record.encode(), make_parents=True)
    for i in range(1000):
        await store.create(paths.ID_GENERATOR_PREFIX, b"", sequence=True, make_parents=True)
        await store.create(paths.ledger(i), b"", make_parents=True)
    ledger = await brokers.broker(LAZY).open(NAME, rolling(5))
    cursor = await ledger.open_cursor("s", FIRST)
    slow = True

    def slowly(session: int, operation: str, path: str) -> Fault | None:
        deletes = operation == "delete" and path.startswith(paths.LEDGERS + "/00")
        return Fault(delay_s=0.3) if slow and deletes else None

    brokers.cluster.server.on_call = slowly
    await cursor.clear()
    trimming = asyncio.get_running_loop().create_task(ledger.trim())
    await publish(ledger, 0, 23)  # rolls four times while a thousand are deleted
    stored = LogRecord.decode((await store.get(paths.managed_ledger(NAME)))[0])
    assert stored.ledgers[0].ledger_id >= 1000
    assert await drain(cursor) == numbered(0, 23)
    tree = brokers.cluster.server.tree
    assert len(tree.children(paths.LEDGERS + "/00/0000")) > 100, "still at it"
    slow = False
    await trimming
    await ledger.close()
    assert len(tree.children(paths.LEDGERS + "/00/0000")) < 20


async def test_ledgers_that_cannot_be_deleted_now_are_deleted_later(brokers: Brokers) -> None:
    settings = ManagedSettings(cursor_persist_interval_s=3600, retry_initial_s=0.01)
    ledger = await brokers.broker(settings).open(NAME, rolling(2))
    cursor = await ledger.open_cursor("s", FIRST)
    await publish(ledger, 0, 21)
    away = True

    def outage(session: int, operation: str, path: str) -> Fault | None:
        deletes = operation == "delete" and path.startswith(paths.LEDGERS + "/00")
        return Fault(lose_request=True) if away and deletes else None

    brokers.cluster.server.on_call = outage
    await cursor.clear()
    await ledger.trim()
    tree = brokers.cluster.server.tree
    assert len(tree.children(paths.LEDGERS + "/00/0000")) > 10
    away = False
    await ledger.trim()
    assert len(tree.children(paths.LEDGERS + "/00/0000")) == 2, "the topic's last and the cursor's"


async def test_a_topic_opens_without_a_cursor_that_cannot_be_loaded_for_an_unexpected_reason(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await acknowledged(brokers, "a", "b")
    real = CursorState.acking

    def acking(state: CursorState, line: LedgerLine) -> Generator[None, None, AckState]:
        if len(failed) < 1:
            failed.append(state)
            raise ZeroDivisionError("planted")
        return real(state, line)

    failed: list[CursorState] = []
    monkeypatch.setattr(CursorState, "acking", acking)
    ledger = await brokers.broker(HASTY).open(NAME, ONE)
    assert len(ledger.cursors) == 1
    ((_, why),) = ledger.unread_cursors.items()
    assert "planted" in why
    while ledger.unread_cursors:  # and it is tried again
        await asyncio.sleep(0.005)
    assert sorted(ledger.cursors) == ["a", "b"]


async def test_other_tasks_run_while_a_large_state_is_loaded(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await acknowledged(brokers, "a")
    steps = 0

    def slow(steps_of: Any) -> Any:
        def many(*given: Any) -> Generator[None, None, Any]:
            nonlocal steps
            for _ in range(100):
                steps += 1
                yield
            result = yield from steps_of(*given)
            return result

        return many

    monkeypatch.setattr(CursorState, "decoding", slow(CursorState.decoding))
    monkeypatch.setattr(CursorState, "acking", slow(CursorState.acking))
    opening = asyncio.create_task(brokers.broker(HASTY).open(NAME, ONE))
    most = 0
    while not opening.done():
        before = steps
        await asyncio.sleep(0)
        most = max(most, steps - before)
    assert list((await opening).cursors) == ["a"]
    assert (steps, most) == (200, 1)
