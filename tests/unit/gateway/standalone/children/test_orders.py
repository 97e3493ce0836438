"""Orders to a child at any moment: the last one holds, every stop returns, and there is never a second process."""

import asyncio
import itertools
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.standalone.children import child_process
from gateway.standalone.children.child_process import ChildProcess, ChildState
from gateway.standalone.plan import Child, Ready
from tests.support.waiting import until

TURNS = range(1, 10)
"""Turns of the loop between two orders. A spawn takes three, an end about as many; a stop begins in the first."""

_durations = itertools.count(1_000_000)


class Bench:
    """A child that sleeps, identified among all processes by its duration; and the orders given to it."""

    def __init__(self, folder: Path, argv: tuple[str, ...] = ()) -> None:
        self.lines: list[str] = []
        self._mark = str(next(_durations))
        spec = Child("bookie-1", argv or ("sleep", self._mark), {}, Ready("alive"))
        self.one = ChildProcess(spec, folder, self.lines.append, "127.0.0.1")
        self._stops: list[asyncio.Task[None]] = []

    def order(self, verb: str) -> None:
        if verb == "start":
            self.one.start()
        elif verb == "stop":
            self._stops.append(asyncio.get_running_loop().create_task(self.one.stop()))
        elif verb == "kill":
            self.one.kill()
        elif (pid := self.one.describe()["pid"]) is not None:
            with suppress(ProcessLookupError):  # it has ended and the loop is not notified yet
                os.kill(pid, signal.SIGUSR1)  # it ends by itself

    async def settled(self, case: str = "") -> None:
        """Wait until every requested stop has returned."""
        await until(lambda: all(stop.done() for stop in self._stops), case)

    def serving(self) -> bool:
        """Return whether there is one process, the reported one. An earlier one may still be about to end."""
        return self.one.ready.is_set() and self.processes() == [self.one.describe()["pid"]]

    def processes(self) -> list[int]:
        pids = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended while we looked
            if self._mark.encode() in words:
                pids.append(int(folder.name))
        return pids


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


ORDERS = list(itertools.product(("start", "stop", "kill", "exit"), repeat=2))


@pytest.mark.parametrize("orders", ORDERS)
async def test_the_last_order_holds_at_every_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: tuple[str, str]
) -> None:
    monkeypatch.setattr(child_process, "DELAY_S", 0.001)
    for gap, last in itertools.product(TURNS, ("start", "stop")):
        bench = Bench(tmp_path)
        bench.order("start")
        for verb in (*orders, last):
            await turns(gap)
            bench.order(verb)
        case = f"{gap} turns before each of {orders}, {last}"
        await bench.settled(case)
        if last == "start":
            await until(bench.serving, case)
            await asyncio.wait_for(bench.one.stop(), 120)
        assert bench.one.state is ChildState.STOPPED, case
        assert bench.one.describe()["pid"] is None, case
        assert bench.processes() == [], case


async def test_start_after_stop_answers_for_the_new_process(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.order("start")
    await until(bench.serving)
    first = bench.one.describe()["pid"]
    bench.order("stop")
    await turns(1)
    bench.order("start")
    await asyncio.wait_for(bench.one.ready.wait(), 120)
    assert bench.one.describe()["pid"] not in (None, first)
    assert bench.one.restarts == 0, "what was asked for is no restart"
    assert bench.lines == []
    await bench.one.stop()
    await bench.settled()


async def test_a_child_that_ends_with_0_is_named_and_started_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ("sh", "-c", "echo done; exit 0"))
    bench.order("start")
    await until(lambda: bench.one.restarts >= 2)
    await bench.one.stop()
    assert bench.lines[0].startswith("bookie-1 ended (exit 0: done); again in 0.5 s")
    assert bench.one.state is ChildState.STOPPED


@pytest.mark.parametrize("gap", TURNS)
async def test_a_stop_meets_a_child_that_ends_at_once(tmp_path: Path, gap: int) -> None:
    for argv in (("true",), ("sh", "-c", "exit 78"), ("/nowhere/program",)):
        bench = Bench(tmp_path, argv)
        bench.order("start")
        await turns(gap)
        bench.order("stop")
        await bench.settled()
        assert (bench.one.state, bench.one.describe()["pid"]) == (ChildState.STOPPED, None)


async def test_a_log_that_cannot_be_opened_is_named_and_the_child_tried_again(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "later")
    bench.order("start")
    await until(lambda: bool(bench.lines))
    assert "cannot open its log: No such file or directory" in bench.lines[0]
    (tmp_path / "later").mkdir()
    bench.order("start")
    await until(bench.serving)
    await bench.one.stop()
