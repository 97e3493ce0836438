"""The result of a run has all of its failures; nothing is raised and nothing is omitted."""

import asyncio
import logging

import pytest

from tests.sim.kit.loop import Node, SimLoop
from tests.sim.kit.play import Result, play


class Workload:
    """Workload of a run; a subclass has the body."""

    def __init__(self, loop: SimLoop, result: Result, verbose: bool) -> None:
        self.loop = loop
        self.result = result

    async def main(self) -> None:
        raise NotImplementedError

    def judge(self) -> None:
        self.result.counts["judged"] = 1


class Quiet(Workload):
    async def main(self) -> None:
        await asyncio.sleep(3)


class Stuck(Workload):
    async def main(self) -> None:
        await self.loop.create_future()


class Endless(Workload):
    async def main(self) -> None:
        while True:
            await asyncio.sleep(1)


class Spinning(Workload):
    async def main(self) -> None:
        while True:
            await asyncio.sleep(0)


class Raising(Workload):
    async def main(self) -> None:
        raise ValueError("a mistake of the workload")


class Logging(Workload):
    async def main(self) -> None:
        logging.getLogger("shipped").error("something is wrong")


class Careless(Workload):
    async def main(self) -> None:
        def act() -> None:
            raise ValueError("nobody looks at this")

        self.loop.call_soon(act)
        await asyncio.sleep(1)


class Escaping(Workload):
    async def main(self) -> None:
        async def ask() -> None:
            import time

            time.time()

        await self.loop.spawn(Node("n"), ask())


def test_a_run_without_failures_has_no_violations() -> None:
    result = play(1, Quiet, 10)
    assert result.violations == []
    assert result.simulated_s == pytest.approx(3)
    assert result.counts == {"judged": 1}


@pytest.mark.parametrize(
    ("workload", "violation"),
    [
        (Stuck, "Deadlock: seed 1: nothing is runnable"),
        (Endless, "TimeoutError: seed 1: still running at 11 simulated s"),
        (Spinning, "TimeoutError: seed 1: 300001 events by 0.000 s"),
        (Raising, "the run failed: "),
        (Logging, "error logged: "),
        (Careless, "not caught: exception in"),
        (Escaping, "the run failed: "),
    ],
)
def test_a_failure_is_a_violation_and_the_run_is_judged(
    workload: type[Workload], violation: str
) -> None:
    result = play(1, workload, 10)
    assert [text.startswith(violation) for text in result.violations] == [True], result.violations
    assert result.counts == {"judged": 1}


def test_a_seed_repeats_its_trace_and_another_seed_differs() -> None:
    class Random(Workload):
        async def main(self) -> None:
            self.loop.note("drawn", self.loop.rng.random())

    traces = [play(seed, Random, 10).trace for seed in (1, 1, 2)]
    assert traces[0] == traces[1]
    assert traces[0] != traces[2]
