"""One seed, one run: publish and consume while things break, heal, drain, then hold the history to the promises."""

import asyncio
import json
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.admin.topics import partitioned_path
from engine.base.names import TopicName
from engine.broker.dispatch import delayed
from engine.broker.dispatch import shared as dispatch_shared
from engine.metadata import paths
from tests.sim.kit.cluster import Cluster, Shape
from tests.sim.kit.listed import listed_ledgers
from tests.sim.kit.loop import SimLoop
from tests.sim.kit.nemesis import WAYS, Nemesis, pass_over
from tests.sim.kit.play import Result, play
from tests.sim.plants.planting import Patches, applied
from tests.sim.topics import checkers
from tests.sim.topics.administrator import Administrator
from tests.sim.topics.consumer import SHARED, Consumer
from tests.sim.topics.producer import Producer

__all__ = ["Result", "run_light", "run_seed"]

SETTLE_S = 30.0
"""Bound of coming up, and after the faults of coming back and of draining (simulated seconds)."""
DRAIN_S = 90.0
LIMIT_S = 400.0
CUT_SHORT = ("liveness", "TimeoutError", "Deadlock", "StandsStill")
KINDS_TOGETHER = (
    ("exclusive",),
    ("shared",) * 2,
    ("exclusive", "shared", "shared"),
    ("failover",) * 2,
    ("failover",) * 3,
)
"""Consumers of a topic, by the subscription of theirs."""


@dataclass(frozen=True)
class Work:
    """What clients and administrators of a run do besides publishing and consuming."""

    grows: bool
    """The first topic is partitioned and gets one partition more."""
    gives_up: bool
    """Consumers unsubscribe now and then and come again."""
    visits: bool
    """Subscriptions that nobody uses are made and deleted."""
    reminds: bool
    """Some messages are for a later day."""

    @classmethod
    def draw(cls, rng: random.Random) -> "Work":
        grows = rng.random() < 0.25
        return cls(
            grows=grows,
            gives_up=not grows and rng.random() < 0.4,
            visits=rng.random() < 0.4,
            reminds=rng.random() < 0.15,
        )


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
        self.work = Work.draw(rng)
        count = rng.choice((1, 1, 2))
        self.grown = TopicName.parse("persistent://public/default/t0")
        self.topics = [f"persistent://public/default/t{i}" for i in range(count)]
        if self.work.grows:
            self.topics[0] = str(self.grown.partition_at(0))
        self.cluster = Cluster(loop, self._shape(rng), self.topics)
        self.administrator = Administrator(self.cluster, self.work.visits)
        self.duration_s = rng.choice(self.durations_s)
        self.producers: dict[str, Producer] = {}
        self.consumers: list[Consumer] = []
        self.kinds = [rng.choice(KINDS_TOGETHER) for _ in self.topics]
        for i, topic in enumerate(self.topics):
            self._clients(topic, f"t{i}", self.kinds[i], rng)
        names = [*(c.name for c in self.clients), self.administrator.name]
        self.nemesis = Nemesis(self.cluster, names, rng)
        self.nemesis.plan = {
            name: rate * self.fault_share for name, rate in self.nemesis.plan.items()
        }
        result.plan = f"{self.cluster.shape} {self.work} {self.duration_s:g} s {self.nemesis.plan}"
        if verbose:
            print(f"seed {loop.seed}: {result.plan}")

    def _shape(self, rng: random.Random) -> Shape:
        return Shape.draw(rng)

    @property
    def clients(self) -> list[Producer | Consumer]:
        return [*self.producers.values(), *self.consumers]

    def _clients(
        self, topic: str, short: str, kinds: tuple[str, ...], rng: random.Random
    ) -> list[Producer | Consumer]:
        """Clients of a topic; ``kinds`` of its consumers."""
        late = "." in short
        mine = [
            Consumer(
                self.cluster,
                f"{short}-{kind}-{i}",
                topic,
                kind,
                self.producers,
                late=late,
                stays=not self.work.gives_up,
            )
            for i, kind in enumerate(kinds)
        ]
        made: list[Producer | Consumer] = [*mine]
        for i in range(rng.choice((1, 2))):
            producer = Producer(
                self.cluster,
                f"{short}-p{i}",
                topic,
                rng.choice(self.rates),
                lambda: late or all(consumer.subscribed for consumer in mine),
                reminds=self.work.reminds,
            )
            self.producers[producer.name] = producer
            made.append(producer)
        self.consumers += mine
        return made

    async def main(self) -> None:
        shape = self.cluster.shape
        limits: Patches = [
            (delayed, "SET_ASIDE_MAX", shape.set_aside_max),
            (dispatch_shared, "PARKED_MAX", shape.parked_max),
        ]
        with applied(limits):
            await self._main()

    async def _main(self) -> None:
        cluster, loop, administrator = self.cluster, self.loop, self.administrator
        for machine in cluster.machines.values():
            cluster.start(machine)
        watching = loop.create_task(cluster.watch())
        if self.work.grows:
            await administrator.work(administrator.create_partitioned(self.grown, 1))
        for client in self.clients:
            client.start()
        await self._reach("start", self._subscribed, SETTLE_S)
        self.nemesis.start()
        administrator.start()
        growing = loop.create_task(self._grow()) if self.work.grows else None
        await asyncio.sleep(self.duration_s)
        self.nemesis.heal()
        for client in (*self.clients, administrator):
            client.calm = True
        for producer in self.producers.values():
            producer.quiet = True
        if growing is not None:
            await self._reach("grow", growing.done, SETTLE_S)
        await self._reach("publish what was begun", self._published, SETTLE_S)
        await self._end_visits()
        if self.work.reminds:
            await self._pass_over()
        await self._reach("drain every subscription", self._drained, DRAIN_S)
        await self._encore()
        self._check_stored()
        await self._reach("delete what nothing lists", lambda: not cluster.leaked(), SETTLE_S)
        if self.rng.random() < 0.3:
            await self._power_cycle()
        await self._delete_topics()
        watching.cancel()
        self._finish()

    async def _grow(self) -> None:
        """One partition more under load. Producers find it as soon as metadata names it, consumers some time later."""
        await asyncio.sleep(self.duration_s * self.rng.uniform(0.1, 0.7))
        topic = self.grown.partition_at(1)
        administrator, tree = self.administrator, self.cluster.metadata.tree
        growth = administrator.work(administrator.grow(self.grown, 2))
        while json.loads(tree.get(partitioned_path(self.grown))[0])["partitions"] < 2:
            await asyncio.sleep(0.01)
        self.cluster.topics.append(topic)
        made = self._clients(str(topic), "t0.1", self.kinds[0], self.rng)
        for client in made:
            client.calm = administrator.calm
            if isinstance(client, Producer):
                client.quiet = client.calm
                client.start()
        await growth
        await asyncio.sleep(self.rng.choice((0.0, 0.3, 3.0)))
        for client in made:
            client.calm = administrator.calm
            if isinstance(client, Consumer):
                client.start()
            else:
                client.quiet = client.calm

    async def _end_visits(self) -> None:
        ended = self.administrator.work(self.administrator.end_visits())
        await self._reach("delete every subscription that nobody uses", ended.done, SETTLE_S)
        if ended.done():
            ended.result()

    async def _pass_over(self) -> None:
        """What is for a later day goes by an administrator's hand; after that every subscription must go on."""
        way = self.rng.choice(WAYS)
        for full in dict.fromkeys(c.full_name for c in self.consumers if c.kind == SHARED):
            topic, _, name = full.rpartition("/")
            there = partial(self._exists, topic, name)  # whoever gave it up comes again
            if not await self._reach(f"subscribe to {full}", there, SETTLE_S):
                continue
            found = self.cluster.served(topic)
            assert found is not None
            passing = pass_over(self.cluster, found[1], found[1].subscriptions[name], way)
            await self._reach(
                f"pass over {full}", self.loop.spawn(found[0], passing).done, SETTLE_S
            )

    async def _encore(self) -> None:
        """Nothing breaks any more, nothing is left to do: what is published now is acknowledged, and confirmed so."""
        self.cluster.history.calm_at = self.loop.now
        for producer in self.producers.values():
            producer.encore()
        await self._reach("publish once more", self._published, SETTLE_S)
        await self._reach("deliver once more", self._drained, SETTLE_S)

    def _check_stored(self) -> None:
        """Every durable subscription is where a restart finds it."""
        for consumer in self.consumers:
            ledger = TopicName.parse(consumer.topic).managed_ledger_name
            node = paths.cursor(ledger, consumer.subscription)
            if self.cluster.metadata.tree.exists(node) is None:
                self.result.violations.append(f"durable: {consumer.full_name} is not stored")

    async def _power_cycle(self) -> None:
        """All machines lose power at rest; nobody may be given again what was acknowledged."""
        for machine in self.cluster.machines.values():
            self.cluster.kill(machine, power=True)
            self.cluster.start_later(machine, 0.5)
        for consumer in self.consumers:
            consumer.subscribed = False
        await self._reach("come back after power loss", self._subscribed, SETTLE_S)
        await asyncio.sleep(2.0)

    async def _delete_topics(self) -> None:
        """Delete every topic while metadata calls go wrong; of what metadata listed before, nothing stays."""
        for client in self.clients:
            client.stopping = True
            if client.link is not None:
                client.link.abort()
        await asyncio.sleep(1.0)
        tree = self.cluster.metadata.tree
        ledgers = listed_ledgers(tree)
        share = self.rng.choice((0.0, 0.03, 0.06))
        self.nemesis.metadata_rates = (share, share, share)
        deleting = [
            self.administrator.work(self.administrator.delete(topic))
            for topic in self.cluster.topics
        ]
        await asyncio.sleep(2.0)
        self.nemesis.metadata_rates = (0.0, 0.0, 0.0)
        await self._reach(
            "delete every topic", lambda: all(one.done() for one in deleting), SETTLE_S
        )
        for topic in self.cluster.topics:
            if tree.exists(paths.managed_ledger(topic.managed_ledger_name)) is not None:
                self.result.violations.append(f"deletion: {topic} was deleted and exists")
        left = [one for one in ledgers if tree.exists(paths.ledger(one)) is not None]
        if left:
            self.result.violations.append(f"deletion: ledgers {left} stay for ever")

    async def _reach(self, what: str, done: Any, bound_s: float) -> bool:
        """Wait until ``done``; False, and a violation, when that takes longer than ``bound_s``."""
        until = self.loop.now + bound_s
        while not done():
            if self.loop.now > until:
                why = "; ".join(self._why())
                self.result.violations.append(f"liveness: could not {what} in {bound_s:g} s: {why}")
                return False
            await asyncio.sleep(0.1)
        return True

    def _exists(self, topic: str, subscription: str) -> bool:
        found = self.cluster.served(topic)
        return found is not None and subscription in found[1].subscriptions

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
        if leaked := self.cluster.leaked():
            waiting.append(f"ledgers {leaked} are nobody's")
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
        if not any(text.startswith(CUT_SHORT) for text in result.violations):
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
