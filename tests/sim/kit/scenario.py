"""Scenarios and their runs. A scenario is a value drawn from the seed: machines, workloads, faults and their duration.
A run sets its workloads up, starts them, causes faults, heals them, brings every workload to rest and collects the
violations."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tests.sim.kit.cluster import Cluster, Shape
from tests.sim.kit.faults import FAULTS
from tests.sim.kit.loop import SimLoop
from tests.sim.kit.nemesis import Act, Nemesis
from tests.sim.kit.play import Result, play
from tests.sim.plants.planting import Patches, applied

LIMIT_S, LIMIT = 1000.0, 1.5
"""Simulated seconds after which a run fails, or LIMIT times the duration of its faults if that is longer."""
WATCH_S = 0.25


class Workload(Protocol):
    """The use of a cluster in a run. Every wait has a bound, see ``Run.reach``."""

    async def start(self) -> None:
        """Begin the workload before the faults, and return when its clients are ready. It continues by itself while
        faults happen."""

    async def quiet(self) -> None:
        """Begin no new work after the faults, wait for the end of work that has begun, and check the remaining state.
        Called for the workloads of a run in the order of the scenario."""

    def check(self) -> list[str]:
        """Return the violations, each beginning with the name of the promise. Called once, however the run ended."""


class Plan(Protocol):
    """The work of one workload, as a value."""

    def setup(self, run: "Run") -> Workload:
        """Make the objects needed before the first machine starts: clients, hosts, observers (``run.cluster``), fault
        classes of its own (``run.faults``), bounds of shipped code (``run.limits``)."""


@dataclass(frozen=True)
class Scenario:
    """The choices of a seed before its run begins."""

    shape: Shape
    workloads: tuple[Plan, ...]
    faults: dict[str, float]
    """Per second, by class."""
    duration_s: float
    """Simulated seconds in which faults happen."""

    def __str__(self) -> str:
        done = " ".join(map(str, self.workloads))
        return f"{self.shape} {done} {self.duration_s:g} s {self.faults}"


Draw = Callable[[random.Random], Scenario]


class Run:
    """One scenario being played."""

    def __init__(self, draw: Draw, loop: SimLoop, result: Result, verbose: bool) -> None:
        self.loop = loop
        self.result = result
        self.scenario = draw(random.Random(f"{loop.seed}/scenario"))
        result.plan = str(self.scenario)
        if verbose:
            print(f"seed {loop.seed}: {result.plan}")
        self.rng = random.Random(f"{loop.seed}/run")
        self.cluster = Cluster(loop, self.scenario.shape)
        self.faults: dict[str, Act] = dict(FAULTS)
        self.limits: Patches = []
        self._watching: list[asyncio.Task[None]] = []
        self._workloads = [plan.setup(self) for plan in self.scenario.workloads]
        rng = random.Random(f"{loop.seed}/nemesis")
        self.nemesis = Nemesis(self.cluster, rng, self.scenario.faults, self.faults)

    async def main(self) -> None:
        with applied(self.limits):
            for machine in self.cluster.machines.values():
                self.cluster.start(machine)
            for workload in self._workloads:
                await workload.start()
            self.nemesis.start()
            await asyncio.sleep(self.scenario.duration_s)
            self.nemesis.heal()
            for workload in self._workloads:
                await workload.quiet()
            for task in self._watching:
                task.cancel()
            self.cluster.restarts = False

    @property
    def workloads(self) -> Sequence[Workload]:
        return self._workloads

    def watch(self, look: Callable[[], None], every_s: float = WATCH_S) -> None:
        """Call ``look`` regularly from now on until the end."""
        self._watching.append(self.loop.create_task(self._watch(look, every_s)))

    async def _watch(self, look: Callable[[], None], every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            look()

    async def reach(
        self, what: str, done: Callable[[], object], bound_s: float, why: Callable[[], list[str]]
    ) -> bool:
        """Wait until ``done``; False, and a violation, when that takes longer than ``bound_s``. ``why`` returns
        what is missing."""
        until = self.loop.now + bound_s
        while not done():
            if self.loop.now > until:
                missing = "; ".join(why())
                self.wrong(f"liveness: could not {what} in {bound_s:g} s: {missing}")
                return False
            await asyncio.sleep(0.1)
        return True

    def wrong(self, text: str) -> None:
        self.result.violations.append(text)

    def judge(self) -> None:
        self.result.violations += self.cluster.failures[:3]
        for workload in self._workloads:
            self.result.violations += workload.check()
        self.result.counts = dict(sorted(self.cluster.counts.items()))


def first_of(violations: list[str], name: str) -> list[str]:
    """Return the first three violations of a check, and the number of the others."""
    return violations[:3] + ([f"{name}: {len(violations) - 3} more"] if len(violations) > 3 else [])


def play_scenario(draw: Draw, seed: int, *, verbose: bool = False) -> Result:
    """Run one seed of a scenario. Raises nothing: failures are in the result."""
    duration_s = draw(random.Random(f"{seed}/scenario")).duration_s
    limit_s = max(LIMIT_S, LIMIT * duration_s)
    return play(seed, partial(Run, draw), limit_s, verbose=verbose)
