"""Figures beside rates: latencies of another topic, turns of the event loop, CPU of each process."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.base.loop import EventLoop
from engine.base.slices import Slice
from engine.managed.ledger import ManagedLedger
from tests.bench.contenders import cpu_s
from tests.bench.figures import percentile
from tests.support.ledger_cluster import run_of

PACE_S = 0.005
TAIL_ENTRY = 1024
BROKER = "broker"


class TimedLoop(EventLoop):
    """The brokers' event loop. ``turns``: seconds of each turn without the wait for events, since ``restart``."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []

    def _run_once(self) -> None:
        began, waited = time.perf_counter(), self.waited_s
        super()._run_once()
        self.turns.append(time.perf_counter() - began - (self.waited_s - waited))


class Tail:
    """Appends of TAIL_ENTRY bytes to a topic, one each PACE_S; ``latencies``: seconds of each."""

    def __init__(self, ledger: ManagedLedger) -> None:
        self._ledger = ledger
        self._over = False
        self.latencies: list[float] = []

    def appended(self, run: Slice, start: int, stop: int) -> None:
        self.latencies.append(time.perf_counter() - run.facts)

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        if not self._over:
            raise error

    async def run(self) -> None:
        while not self._over:
            run = run_of(bytes(TAIL_ENTRY))
            run.facts = time.perf_counter()
            self._ledger.append(run, self)
            await asyncio.sleep(PACE_S)

    def stop(self) -> None:
        self._over = True


def processes() -> Mapping[str, int]:
    """Return the pids of this process, the broker, and of its children, by the name of their module."""
    pids = {BROKER: os.getpid()}
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            command = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
            module = command[command.index("-m") + 1] if "-m" in command else command[0]
            pids[module] = int(child)
    return pids


class Window(NamedTuple):
    """Figures of a stretch of time. ``cpu``: seconds by process; ``size``: bytes moved or read in it."""

    seconds: float
    size: int
    latencies: Sequence[float]
    turns: Sequence[float]
    cpu: Mapping[str, float]


class Gauges:
    """Measures windows of time, each from ``begin`` to ``end``."""

    def __init__(self) -> None:
        self._pids = processes()
        self._latencies: list[float] = []

    def begin(self, tail: Tail) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TimedLoop)
        self._latencies = tail.latencies = []
        self._turns = loop.turns = []
        self._cpu = self._now()
        self._began = time.perf_counter()

    def end(self, size: int = 0) -> Window:
        seconds = time.perf_counter() - self._began
        cpu = {name: spent - self._cpu[name] for name, spent in self._now().items()}
        return Window(seconds, size, list(self._latencies), list(self._turns), cpu)

    def _now(self) -> dict[str, float]:
        return {name: cpu_s([pid]) for name, pid in self._pids.items()}


def joined(windows: Sequence[Window]) -> Window:
    """Return all windows as one."""
    return Window(
        sum(window.seconds for window in windows),
        sum(window.size for window in windows),
        [latency for window in windows for latency in window.latencies],
        [turn for window in windows for turn in window.turns],
        {name: sum(window.cpu[name] for window in windows) for name in windows[0].cpu},
    )


def rate_text(window: Window) -> str:
    """Return the rate of a window and the CPU of each process for what it moved."""
    cpu = ", ".join(f"{name} {spent / window.size * 1e9:.2f}" for name, spent in window.cpu.items())
    return f"{window.size / window.seconds / 1e6:.0f} MB/s; CPU s/GB: {cpu}"


def tail_text(window: Window) -> str:
    """Return the latencies of the tail and the turns of the loop in a window, ms."""
    p50, p90, p99 = (1000 * percentile(window.latencies, share) for share in (0.5, 0.9, 0.99))
    turns = f"{1000 * percentile(window.turns, 0.99):.2f}, {1000 * max(window.turns):.1f}"
    return (
        f"p50 {p50:.2f}, p90 {p90:.2f}, p99 {p99:.2f}, max {1000 * max(window.latencies):.1f} ms "
        f"of {len(window.latencies)}; turns p99, max {turns} ms"
    )
