"""A cursor's state counts as stored when its own entry is confirmed, never by the confirmation of another."""

import asyncio
from typing import Any

import pytest

from engine.base.slices import Slice
from engine.ledger.errors import LedgerError
from engine.managed.cursors.cursor_ledger import CursorLedger
from tests.support.managed_cluster import ONE

pytestmark = pytest.mark.virtual_time


class Writer:
    """Takes entries and leaves the rest to the test."""

    def __init__(self) -> None:
        self.ledger_id = 5
        self.entries: list[bytes] = []

    def append(self, run: Slice) -> int:
        self.entries.append(run.entry(0))
        return len(self.entries) - 1

    def abandon(self, error: LedgerError) -> None:
        pass


class Ledgers:
    """A ledger client of one writer."""

    def __init__(self) -> None:
        self.writer = Writer()

    async def create(self, *quorums: int, **rest: Any) -> Writer:
        return self.writer


async def asked(ledger: CursorLedger, payload: bytes) -> "asyncio.Task[int]":
    task = asyncio.get_running_loop().create_task(ledger.append(payload))
    await asyncio.sleep(0)
    return task


async def test_i38_the_confirmation_of_a_cancelled_write_does_not_confirm_the_next() -> None:
    ledgers = Ledgers()
    ledger = await CursorLedger.create(ledgers, ONE, {})  # type: ignore[arg-type]
    first = await asked(ledger, b"1")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = await asked(ledger, b"2")
    ledger.confirmed(1)
    await asyncio.sleep(0)
    assert not second.done(), "entry 0 is durable, entry 1 is not"
    ledger.confirmed(2)
    assert await second == 1
    assert ledgers.writer.entries == [b"1", b"2"]


async def test_a_waiter_for_an_entry_is_notified_of_the_end_of_the_ledger() -> None:
    ledger = await CursorLedger.create(Ledgers(), ONE, {})  # type: ignore[arg-type]
    waiting = await asked(ledger, b"1")
    ledger.abandon("the end")
    with pytest.raises(LedgerError, match="the end"):
        await waiting
