"""A write of a cursor's state is under way: what came after it, and what a crash then leaves (I38)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.managed.cursors.cursor_ledger import CursorLedger
from engine.managed.cursors.cursor_store import CursorStore
from engine.managed.errors import ManagedLedgerFencedError
from tests.support.managed_cluster import LAZY, Brokers
from tests.unit.managed.cursors.test_cursor import opened, reopened

pytestmark = pytest.mark.virtual_time


class Gate:
    """Calls of a coroutine function wait in it until they are let through, one by one."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.waiting: list[asyncio.Future[None]] = []

    async def __call__(self, *args: Any) -> Any:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        await turn
        return await self._call(*args)

    async def entered(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.waiting) < count:
                await asyncio.sleep(0)


async def test_i38_an_acknowledgement_during_a_write_does_not_count_as_stored(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, cursor, places = await opened(brokers, 4)
    assert cursor._store is not None
    gate = Gate(cursor._store.write)
    monkeypatch.setattr(CursorStore, "write", lambda _, *given: gate(*given))
    loop = asyncio.get_running_loop()
    cursor.acknowledge([places[0]])
    first = loop.create_task(cursor.persisted())
    await gate.entered(1)
    cursor.acknowledge([places[1]])
    second = loop.create_task(cursor.persisted())
    await asyncio.sleep(0)
    gate.waiting[0].set_result(None)
    await first
    await gate.entered(2)
    assert not second.done()
    assert cursor.mark_delete == places[1]
    assert cursor.persisted_mark_delete == places[0]
    assert cursor.trim_limit == 1
    gate.waiting[1].set_result(None)
    await second
    assert cursor.persisted_mark_delete == places[1]


async def test_a_cursor_moves_to_another_ledger_only_with_its_state_in_it(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(LAZY, cursor_ledger_entries_max=1)
    factory, _, cursor, places = await opened(brokers, 10, settings=settings)
    cursor.acknowledge([places[5]])
    await cursor.persisted()
    append = CursorLedger.append
    gate = Gate(append)
    monkeypatch.setattr(CursorLedger, "append", lambda ledger, payload: gate(ledger, payload))
    cursor.acknowledge([places[7]])
    writing = asyncio.get_running_loop().create_task(cursor.persisted())
    await gate.entered(1)
    monkeypatch.setattr(CursorLedger, "append", append)
    again = await reopened(brokers, factory)
    assert again.is_acknowledged(places[5])
    assert not again.is_acknowledged(places[7])
    writing.cancel()
    await asyncio.wait([writing])


@pytest.mark.parametrize("how", ["reset", "skip", "clear"])
async def test_m9_a_move_of_the_cursor_returns_when_it_is_stored(
    brokers: Brokers, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, cursor, places = await opened(brokers, 6)
    cursor.acknowledge(places[:3])
    await cursor.persisted()
    assert cursor._store is not None
    gate = Gate(cursor._store.write)
    monkeypatch.setattr(CursorStore, "write", lambda _, *given: gate(*given))
    calls = {"reset": lambda: cursor.reset(places[1]), "skip": lambda: cursor.skip(2)}
    moving = asyncio.get_running_loop().create_task(calls.get(how, cursor.clear)())
    await gate.entered(1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not moving.done()
    gate.waiting[0].set_result(None)
    await moving
    assert cursor.persisted_mark_delete == cursor.mark_delete


async def test_an_acknowledgement_stored_after_the_session_ended_is_not_confirmed(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ledger, cursor, places = await opened(brokers, 3)
    assert cursor._store is not None
    gate = Gate(cursor._store.write)
    monkeypatch.setattr(CursorStore, "write", lambda _, *given: gate(*given))
    cursor.acknowledge(places)
    confirming = asyncio.get_running_loop().create_task(cursor.persisted())
    await gate.entered(1)
    ledger._tenure._session_id = -1  # as if the session in which the topic was opened were over
    gate.waiting[0].set_result(None)
    with pytest.raises(ManagedLedgerFencedError):
        await confirming
