"""Long polls end once: by an entry, by the fence, by the time; never after their connection."""

import asyncio
from typing import Any, cast

import pytest

from bookie.requests.lac_waiters import LacWaiters

pytestmark = pytest.mark.virtual_time


class Stage:
    """Waiters, and the notifications that they received."""

    def __init__(self, waiters_max: int = 10) -> None:
        self.waiters = LacWaiters(waiters_max)
        self.notified: list[tuple[str, bool]] = []

    def wait(self, name: str, ledger: int, previous: int, *, connection: str = "c") -> bool:
        return self.waiters.wait(
            cast(Any, connection),
            ledger,
            previous,
            5.0,
            lambda advanced: self.notified.append((name, advanced)),
        )


async def test_an_entry_notifies_waiters_with_an_older_lac() -> None:
    stage = Stage()
    for name, ledger, previous in (("a", 1, 3), ("b", 1, 4), ("c", 2, 3)):
        assert stage.wait(name, ledger, previous)
    stage.waiters.advanced(1, 4)
    assert stage.notified == [("a", True)]
    await asyncio.sleep(6)
    assert sorted(stage.notified) == [("a", True), ("b", False), ("c", False)]
    assert stage.waiters.waiting == 0
    assert stage.waiters.by_ledger == {}


async def test_a_fence_notifies_all_waiters_of_its_ledger() -> None:
    stage = Stage()
    stage.wait("a", 1, 3)
    stage.wait("b", 2, 3)
    stage.waiters.fenced(1)
    assert stage.notified == [("a", False)]
    assert stage.waiters.waiting == 1


async def test_a_closed_connection_is_not_notified() -> None:
    stage = Stage()
    stage.wait("a", 1, 3, connection="gone")
    stage.wait("b", 1, 3, connection="here")
    stage.waiters.drop(cast(Any, "gone"))
    stage.waiters.advanced(1, 9)
    await asyncio.sleep(6)
    assert stage.notified == [("b", True)]


async def test_the_number_of_waiters_is_bounded() -> None:
    stage = Stage(waiters_max=2)
    assert [stage.wait(name, 1, 0) for name in "abc"] == [True, True, False]
    stage.waiters.advanced(1, 1)
    assert stage.wait("d", 1, 1)
