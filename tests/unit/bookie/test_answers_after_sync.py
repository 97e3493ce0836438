"""Adds, fences and explicit LACs of both protocols are answered after the sync of their journal record."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from bookie.storage.codes import Code
from engine.base.disk.files import Lane
from engine.wire import bookie_v3 as v3
from tests.support.bookies import KEY, Machine, add, read
from tests.unit.bookie.requests.test_v3 import lac_body

REQUESTS = {
    "add": add(1, 1, b"b"),
    "V3 add": v3.add_request(1, 1, 1, KEY, struct.pack(">qqqq", 1, 1, 0, 2) + b"b"),
    "fencing read": read(1, 0, fence=KEY),
    "fencing read of what is not there": read(1, 7, fence=KEY),
    "fence of an unknown ledger": read(9, 0, fence=KEY),
    "V3 fencing read": v3.read_request(1, 1, 0, fence_key=KEY),
    "V3 fence of an unknown ledger": v3.read_request(1, 9, 0, fence_key=KEY),
    "explicit LAC": v3.write_lac_request(1, 1, 0, KEY, lac_body(1, 0)),
    "force": v3.force_request(1, 1),
}


class HeldLane:
    """A lane whose calls wait for ``release``."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.calls: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []

    def call(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        self.calls.append((work, done))

    def release(self) -> None:
        for call in self.calls:
            self._lane.call(*call)
        self.calls.clear()


async def until_received(machine: Machine, lane: HeldLane) -> None:
    """Wait until the request has reached the journal and the bookie has answered later ones."""
    other = await machine.client()
    async with asyncio.timeout(120):
        while not lane.calls:
            assert await other.read(1, 0) == b"a"
    for _ in range(3):
        assert await other.read(1, 0) == b"a"
    await other.close()


@pytest.mark.parametrize("name", REQUESTS)
async def test_nothing_is_answered_before_its_sync(name: str) -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        journal = machine.bookie.serving.journal
        held = HeldLane(journal._lane)
        journal._lane = held
        client.writer.write(REQUESTS[name])
        await until_received(machine, held)
        assert not client.reader._buffer  # type: ignore[attr-defined]
        held.release()
        assert await client.answer()
        await client.close()
