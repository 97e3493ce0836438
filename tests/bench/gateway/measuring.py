"""Works and their results: figures by row, and the CPU of processes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tests.bench.figures import Figures, percentile
from tests.bench.gateway.sides import Side

SETTLE_S = 0.3
"""Pause after the answers: work in the background counts for the work."""


@dataclass
class Row:
    """The figures of one row of the table, and the CPU of each kind of process in the unit of its CPU figure.

    ``load``: share of a core that the load took itself; near 1 it is the limit, not the server.
    """

    figures: Figures
    parts: dict[str, float]
    load: float


Rows = dict[str, Row]
Run = Callable[[Side], Awaitable[Rows]]


@dataclass(frozen=True)
class Work:
    """Something to measure. ``run``: on one side, once.

    ``sides``: names of the sides it is for besides all of ours; "floor" is an application that answers with constants.
    """

    run: Run
    sides: tuple[str, ...] = ("apache",)
    limit_s: float = 120.0
    once: bool = False
    """After the rounds of all others."""


class Meter:
    """CPU and time of a side from its making to ``stop``."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._cpu = side.cpu()
        self._own = time.process_time()
        self._began = time.perf_counter()

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self._began
        self.load = (time.process_time() - self._own) / self.seconds
        now = self._side.cpu()
        self.cpu = {name: now[name] - before for name, before in self._cpu.items()}

    async def settle(self) -> None:
        """Stop the time now, the CPU after what is done behind the answers."""
        seconds = time.perf_counter() - self._began
        await asyncio.sleep(SETTLE_S)
        self.stop()
        self.seconds = seconds

    def each(self, count: int, unit: float) -> dict[str, float]:
        """CPU by process for each of ``count``; ``unit`` 1e3 for milliseconds, 1e6 for microseconds."""
        return {name: cpu / max(count, 1) * unit for name, cpu in self.cpu.items()}


def latency(seconds: Sequence[float], prefix: str = "") -> Figures:
    """Medians and 99 of 100, ms."""
    if not seconds:
        return {}
    return {
        f"{prefix}p50 ms": percentile(seconds, 0.5) * 1e3,
        f"{prefix}p99 ms": percentile(seconds, 0.99) * 1e3,
    }
