"""One seed, one run: publish and consume while things break, heal, drain, then hold the history to the promises."""

import asyncio
import random
from dataclasses import replace
from typing import Any

from tests.sim import checkers
from tests.sim.cluster import Cluster, Shape
from tests.sim.consumer import Consumer
from tests.sim.loop import SimLoop
from tests.sim.nemesis import Nemesis
from tests.sim.play import Result, play
from tests.sim.producer import Producer

__all__ = ["Result", "run_light", "run_seed"]

SETTLE_S = 30.0
"""Bound of coming up, and after the faults of coming back and of draining (simulated seconds)."""
DRAIN_S = 90.0
LIMIT_S = 400.0


class Scenario:
    """The run's parts. ``main`` is what the loop runs."""

    durations_s: tuple[float, ...] = (5.0, 10.0, 20.0)
    rates: tuple[float, ...] = (2.0, 5.0)
    """Wake-ups of a producer per second; each sends 1 to 8 messages."""
    fault_share = 1.0
    """Of the rates that the nemesis draws."""

    def __init__(self, loop: SimLoop, result: Result, verbose: bool) -> None:
        self.loop = loop
        self.result = result
        rng = self.rng = random.Random(f"{loop.seed}/scenario")
        self.topics = [f"persistent://public/default/t{i}" for i in range(rng.choice((1, 1, 2)))]
        self.cluster = Cluster(loop, self._shape(rng), self.topics)
        self.duration_s = rng.choice(self.durations_s)
        self.producers: dict[str, Producer] = {}
        self.consumers: list[Consumer] = []
        for topic in self.topics:
            self._clients(topic, rng)
        self.nemesis = Nemesis(self.cluster, [c.name for c in self.clients], rng)
        self.nemesis.plan = {
            name: rate * self.fault_share for name, rate in self.nemesis.plan.items()
        }
        result.plan = f"{self.cluster.shape} {self.duration_s:g} s {self.nemesis.plan}"
        if verbose:
            print(f"seed {loop.seed}: {result.plan}")

    def _shape(self, rng: random.Random) -> Shape:
        return Shape.draw(rng)

    @property
    def clients(self) -> list[Producer | Consumer]:
        return [*self.producers.values(), *self.consumers]

    def _clients(self, topic: str, rng: random.Random) -> None:
        short = topic[-2:]
        mine: list[Consumer] = []
        kinds = rng.choice(
            (
                ["exclusive"],
                ["shared"] * 2,
                ["exclusive", "shared", "shared"],
                ["failover"] * 2,
                ["failover"] * 3,
            )
        )
        for i, kind in enumerate(kinds):
            name = f"{short}-{kind}-{i}"
            mine.append(Consumer(self.cluster, name, topic, kind, self.producers))
        for i in range(rng.choice((1, 2))):
            rate = rng.choice(self.rates)
            producer = Producer(
                self.cluster,
                f"{short}-p{i}",
                topic,
                rate,
                lambda: all(consumer.subscribed for consumer in mine),
            )
            self.producers[producer.name] = producer
        self.consumers += mine

    async def main(self) -> None:
        cluster, loop = self.cluster, self.loop
        for machine in cluster.machines.values():
            cluster.start(machine)
        watching = loop.create_task(cluster.watch())
        for client in self.clients:
            client.start()
        await self._reach("start", self._subscribed, SETTLE_S)
        self.nemesis.start()
        await asyncio.sleep(self.duration_s)
        self.nemesis.heal()
        for client in self.clients:
            client.calm = True
        for producer in self.producers.values():
            producer.quiet = True
        await self._reach("publish what was begun", self._published, SETTLE_S)
        await self._reach("drain every subscription", self._drained, DRAIN_S)
        if self.rng.random() < 0.3:
            await self._power_cycle()
        watching.cancel()
        self._finish()

    async def _power_cycle(self) -> None:
        """All machines lose power at rest; nobody may be given again what was acknowledged."""
        for machine in self.cluster.machines.values():
            self.cluster.kill(machine, power=True)
            self.cluster.start_later(machine, 0.5)
        for consumer in self.consumers:
            consumer.subscribed = False
        await self._reach("come back after power loss", self._subscribed, SETTLE_S)
        await asyncio.sleep(2.0)

    async def _reach(self, what: str, done: Any, bound_s: float) -> None:
        until = self.loop.now + bound_s
        while not done():
            if self.loop.now > until:
                why = "; ".join(self._why())
                self.result.violations.append(f"liveness: could not {what} in {bound_s:g} s: {why}")
                return
            await asyncio.sleep(0.1)

    def _subscribed(self) -> bool:
        return all(consumer.subscribed for consumer in self.consumers)

    def _published(self) -> bool:
        return not any(producer.unanswered for producer in self.producers.values())

    def _drained(self) -> bool:
        return not self._missing() and not any(c.busy for c in self.consumers)

    def _missing(self) -> list[str]:
        """What subscriptions still have to do, by the brokers' own count and by what consumers were given."""
        history = self.cluster.history
        found = []
        for topic in self.cluster.topics:
            backlogs = self.cluster.backlogs(topic)
            if backlogs is None:
                found.append(f"{topic} is served by nobody")
            else:
                found += [
                    f"{topic}/{name} has a backlog of {n}" for name, n in backlogs.items() if n
                ]
        return found or [text for check in checkers.LIVENESS.values() for text in check(history)]

    def _why(self) -> list[str]:
        waiting = [
            f"{p.name} waits for {len(p.unanswered)} receipts"
            for p in self.producers.values()
            if p.unanswered
        ]
        down = [m.name for m in self.cluster.machines.values() if not m.ready]
        return [*waiting[:3], *self._missing()[:3], *([f"not ready: {down}"] if down else [])]

    def _finish(self) -> None:
        self.cluster.restarts = False
        counts = self.cluster.counts
        history = self.cluster.history
        counts |= {
            "sent": len(history.sent),
            "confirmed": len(history.receipts),
            "deliveries": len(history.deliveries),
            "acks confirmed": len(history.acks),
        }

    def judge(self) -> None:
        """Hold the history to the promises."""
        result, cluster = self.result, self.cluster
        result.counts = dict(sorted(cluster.counts.items()))
        result.violations += cluster.failures[:3]
        checks = dict(checkers.SAFETY)
        if not any(text.startswith("liveness") for text in result.violations):
            checks |= checkers.LIVENESS
        for name, check in checks.items():
            found = check(cluster.history)
            result.violations += [f"{name}: {text}" for text in found[:3]]
            if len(found) > 3:
                result.violations.append(f"{name}: {len(found) - 3} more")


class Light(Scenario):
    """Three bookies at E=3, WQ=3, AQ=2, two brokers, minutes of a few messages, a fault now and then: what timers,
    sessions and slow decay do when hardly anything happens. A second of it costs a tenth of a busy one."""

    durations_s = (300.0,)
    rates = (0.05, 0.15)
    fault_share = 0.02

    def _shape(self, rng: random.Random) -> Shape:
        drawn = Shape.draw(rng)
        seldom = replace(drawn, session_s=10.0, flush_interval_s=3.0, gc_wait_s=15.0)
        return replace(seldom, brokers=2, bookies=3, quorum=(3, 3, 2))


def run_light(seed: int, *, verbose: bool = False) -> Result:
    """As ``run_seed``, a run of ``Light``."""
    return play(seed, Light, LIMIT_S + Light.durations_s[-1], verbose=verbose)


def run_seed(seed: int, *, verbose: bool = False) -> Result:
    """Run one seed. Nothing is raised: whatever went wrong is in the result."""
    return play(seed, Scenario, LIMIT_S, verbose=verbose)
