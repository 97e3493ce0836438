"""Faults of a run: a random part of the fault classes, each at a random rate (swarm testing).

Damage budget: synced bytes stay. Every promise must therefore hold under these faults, and no violation is excused.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping

from engine.metadata.memory import Fault
from tests.sim.kit.cluster import EPOCH_MS, Cluster, Machine
from tests.sim.kit.disk import PLENTY
from tests.sim.kit.followers import FOLLOWERS
from tests.sim.kit.loop import Node

METADATA_CALLS = "metadata calls"
RATES = {"whole_rack": 0.3, "lose_disk": 0.3, METADATA_CALLS: 0.2}
"""Rates relative to those of the others; of metadata calls, the greatest share of calls that fail or are late."""

Act = Callable[["Nemesis"], None]


class Nemesis:
    """The chosen faults of a run, until ``heal`` ends them."""

    def __init__(
        self,
        cluster: Cluster,
        rng: random.Random,
        rates: Mapping[str, float],
        acts: Mapping[str, Act],
    ) -> None:
        """``rates``: per second, by the names of ``acts`` and METADATA_CALLS."""
        self.cluster = cluster
        self.rng = rng
        self.rates = rates
        self._acts = acts
        self.over = False
        self.metadata_rates: tuple[float, float, float] = (0.0, 0.0, 0.0)
        self._tasks: list[asyncio.Task[None]] = []
        self._partitioned: list[int] = []
        self._paused: list[Node] = []

    def start(self) -> None:
        self.cluster.metadata.on_call = self._on_call
        if self.cluster.configuration is not None:
            self.cluster.configuration.on_call = self._on_call
        for name, rate in self.rates.items():
            if name == METADATA_CALLS:
                weights = [self.rng.random() * rate for _ in range(3)]
                self.metadata_rates = (weights[0], weights[1], weights[2])
            else:
                self._tasks.append(self.cluster.loop.create_task(self._repeat(name, rate)))

    def heal(self) -> None:
        """Stop the faults, end cuts, pauses and partitions, and start the machines that are down."""
        self.over = True
        for task in self._tasks:
            task.cancel()
        self.metadata_rates = (0.0, 0.0, 0.0)
        self.cluster.world.heal()
        for follower in range(FOLLOWERS):
            self.cluster.metadata.catch_up(follower)
        for session_id in self._partitioned:
            self.cluster.metadata.heal(session_id)
        if self.cluster.configuration is not None:
            self.cluster.configuration.away = False
        for node in self._paused:
            if node.paused:
                self.cluster.loop.resume(node)
        for machine in self.cluster.machines.values():
            machine.disk.plan = None
            machine.disk.capacity_bytes = PLENTY
            machine.disk_slow_until = 0.0
            if machine.kind == "broker":  # a right clock again: delayed messages must be delivered
                machine.clock.epoch_ms = EPOCH_MS
            self.cluster.start(machine)
        bookies = self.cluster.bookies
        usable = [m for m in bookies if m is not self.cluster.lost and not m.leaving]
        for _ in range(self.cluster.shape.quorum[0] - len(usable)):
            self.cluster.add_bookie()

    async def _repeat(self, name: str, rate: float) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(rate))
            if self.over:
                return
            self.cluster.count("faults")
            self.cluster.loop.note("fault", name)
            self._acts[name](self)

    def _on_call(self, session_id: int, operation: str, path: str) -> Fault | None:
        lost_request, lost_reply, slow = self.metadata_rates
        chance = self.rng.random()
        delay = self.rng.choice((0.0, 0.0002, 0.001))
        if chance < lost_request:
            return Fault(lose_request=True)
        if chance < lost_request + lost_reply:
            return Fault(delay_s=delay, lose_reply=True)
        if chance < lost_request + lost_reply + slow:
            return Fault(delay_s=self.rng.random(), reply_delay_s=self.rng.random())
        return Fault(delay_s=delay, reply_delay_s=delay)

    # -- pieces

    def machine(self, kind: str | None = None) -> Machine | None:
        """Choose a running machine; None when there is none."""
        machines = self.cluster.machines.values()
        running = [m for m in machines if m.node is not None and kind in (None, m.kind)]
        return self.rng.choice(running) if running else None

    def host(self) -> str:
        return self.rng.choice([*self.cluster.machines, *self.cluster.clients])

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        self.cluster.loop.call_later(delay_s, act)

    def unless_over(self, act: Callable[[], object]) -> Callable[[], None]:
        return lambda: None if self.over else (act(), None)[1]

    def down(self, machine: Machine, *, power: bool, silent: bool = False) -> None:
        torn = power and self.rng.random() < 0.5
        self.cluster.kill(machine, power=power, torn=torn, silent=silent)
        self.cluster.start_later(machine, self.rng.choice((0.1, 0.5, 2.0, 6.0)))


def draw_faults(rng: random.Random, names: Iterable[str]) -> dict[str, float]:
    """Draw the fault classes of a run from ``names``, with their rates per second; one run in ten has none."""
    if rng.random() < 0.1:
        return {}
    share = rng.choice((0.15, 0.3, 0.6))
    names = [name for name in [*names, METADATA_CALLS] if rng.random() < share]
    return {name: RATES.get(name, 1.0) * rng.choice((0.08, 0.2, 0.5)) for name in names}
