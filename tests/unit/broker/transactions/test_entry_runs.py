"""Entries of one turn of the loop are appended as one run, and each learns its own outcome."""

import asyncio

import pytest

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.transactions.entry_runs import EntryRuns
from engine.managed.writing.appends import AppendSink

pytestmark = pytest.mark.virtual_time


class Log:
    def __init__(self) -> None:
        self.appends: list[tuple[Slice, AppendSink]] = []

    def append(self, run: Slice, sink: AppendSink, /) -> None:
        run.ledger_id, run.first = 5, 10
        self.appends.append((run, sink))


class Receiver:
    def __init__(self, seen: list[object]) -> None:
        self._seen = seen

    def stored(self, position: Position) -> None:
        self._seen.append(position.entry_id)

    def failed(self, error: Exception) -> None:
        self._seen.append(str(error))


async def test_entries_of_a_turn_are_one_run_that_may_be_stored_in_parts() -> None:
    log, seen = Log(), list[object]()
    runs = EntryRuns(log, lambda: seen.append("reported"))
    receiver = Receiver(seen)
    for entry in (b"a", b"bc", b"def"):
        runs.append(entry, receiver)
    assert log.appends == []
    await asyncio.sleep(0)
    ((run, sink),) = log.appends
    assert ([run.entry(i) for i in range(3)], run.size) == ([b"a", b"bc", b"def"], 6)
    sink.appended(run, 0, 2)
    sink.append_failed(run, 2, OSError("gone"))
    assert seen == [10, 11, "reported", "gone"]


async def test_a_flush_appends_at_once_and_nothing_twice() -> None:
    log = Log()
    runs = EntryRuns(log)
    runs.append(b"a", Receiver([]))
    runs.flush()
    await asyncio.sleep(0)
    assert [run.count for run, _ in log.appends] == [1]
