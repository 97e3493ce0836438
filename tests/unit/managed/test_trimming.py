"""Ledgers are trimmed once the consumed entries are known, and their readers and cursors are notified at once."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from engine.base.clock import SystemClock
from engine.base.tasks import TaskScope
from engine.managed.errors import ManagedLedgerClosedError
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.reading.entry_cache import EntryCache
from engine.managed.settings import LedgerConfig
from engine.managed.state import LogState
from engine.managed.tenure import Tenure
from engine.managed.trimming import Trimmer
from engine.metadata.memory import MemoryServer


class Ledgers:
    """A list of ledgers of ten entries each that records its calls; also their readers."""

    def __init__(self) -> None:
        self.line = LedgerLine([LedgerSpan(i, 10, 100, 1) for i in range(3)])
        self.done: list[str] = []
        self.has_doomed = False

    async def trim(
        self,
        consumed: Callable[[], int],
        dropped: Callable[[list[int]], None],
        *,
        retention: bool,
    ) -> None:
        assert retention
        self.done.append(f"trim {consumed()}")
        dropped([0])

    async def sweep(self) -> None:
        self.done.append("sweep")

    def forget(self, ledger_id: int) -> None:
        self.done.append(f"forget {ledger_id}")


class Bench:
    def __init__(self) -> None:
        self.ledgers = Ledgers()
        tail = EntryCache(1000).tail()
        state = LogState("t", LedgerConfig(), self.ledgers.line, tail, None, {})
        self.tenure = Tenure(state, MemoryServer(SystemClock()).session())
        self.tasks = TaskScope("bench")
        both = cast(Any, self.ledgers)
        self.trimmer = Trimmer(state, self.tenure, both, both, self.tasks)

    def begin(self) -> None:
        self.trimmer.begin(lambda: 10, lambda: self.ledgers.done.append("trimmed"))

    async def quiet(self) -> list[str]:
        for _ in range(5):
            await asyncio.sleep(0)
        return self.ledgers.done


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_nothing_is_trimmed_before_the_cursors_are_known(bench: Bench) -> None:
    bench.trimmer.soon()
    bench.trimmer.stored(30)
    await bench.trimmer.trim()
    assert await bench.quiet() == ["sweep"]


async def test_repeated_requests_trim_once_and_notify_readers_and_cursors(
    bench: Bench,
) -> None:
    bench.begin()
    bench.trimmer.soon()
    bench.trimmer.soon()
    assert await bench.quiet() == ["trim 10", "forget 0", "trimmed", "sweep"]


async def test_only_a_mark_behind_the_first_ledger_starts_a_trim(bench: Bench) -> None:
    bench.begin()
    bench.trimmer.stored(9)
    assert await bench.quiet() == []
    bench.trimmer.stored(10)
    assert (await bench.quiet())[0] == "trim 10"


async def test_no_trim_begins_after_the_end(bench: Bench) -> None:
    bench.begin()
    bench.tenure.end()
    bench.trimmer.soon()
    with pytest.raises(ManagedLedgerClosedError):
        await bench.trimmer.trim()
    assert await bench.quiet() == []
