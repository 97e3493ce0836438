"""A topic that is migrated from one cluster to another under faults of both and of the network between them.

At the end all clients are in the new cluster, and each subscription has received every message that was confirmed in
either, in the order of its producer, also one without a consumer during the migration (G5)."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.client.broker_link import BrokerLink
from engine.tenancy.geo.cluster_migration import set_migration, set_namespace_migration
from engine.wire import pulsar_pb2 as pb
from tests.sim.kit.cluster import BROKER_PORT, HTTP_PORT, Cluster, Shape
from tests.sim.kit.faults import FAULTS
from tests.sim.kit.nemesis import Act, Nemesis, draw_faults
from tests.sim.kit.scenario import Run, first_of
from tests.sim.migrating.travellers import Informed, Reader, Traveller, Writer, missed, out_of_order
from tests.sim.publishing.workload import TOPIC
from tests.sim.topics.administrator import Administrator
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer

NEW = "green"
BETWEEN = "cut_clusters"
"""A fault of the network between the clusters, in one direction."""
ACTS = (*FAULTS, "unload", "take_over", BETWEEN)
SETTLE_S = 60.0
FOLLOW_S = 150.0
"""Bound in which all have followed: topics are looked at every 10 s, and a refused client waits longer each time."""


@dataclass(frozen=True)
class Migrating:
    """``begins_s``: when the migration is asked for, of the ``namespace`` alone or of the cluster. ``late``: a
    subscription gets its first consumer after the migration."""

    shape: Shape
    faults: tuple[tuple[str, float], ...]
    writers: int
    readers: int
    late: bool
    namespace: bool
    begins_s: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Migrating":
        return cls(
            replace(Shape.draw(rng), deduplication=rng.choice((False, True))),
            tuple(draw_faults(rng, ACTS).items()),
            rng.choice((1, 2, 3)),
            rng.choice((1, 2)),
            rng.random() < 0.5,
            rng.random() < 0.5,
            rng.uniform(0.0, 15.0),
        )

    def setup(self, run: Run) -> "MigratingWorkload":
        return MigratingWorkload(run, self)


class MigratingWorkload:
    """The run's own cluster is the old one."""

    def __init__(self, run: Run, plan: Migrating) -> None:
        self.run = run
        self.plan = plan
        self.new = Cluster(run.loop, plan.shape, name=NEW, world=run.cluster.world)
        clusters = (run.cluster, self.new)
        self.observers = [Observer(cluster, [str(TOPIC)]) for cluster in clusters]
        self.administrator = Administrator(self.observers[0])
        informed: Informed = set()
        self.writers = [Writer(clusters, f"w{i}", informed) for i in range(plan.writers)]
        self.readers = [Reader(clusters, f"r{i}", informed) for i in range(plan.readers)]
        self.late = [Reader(clusters, "late", informed)] if plan.late else []

        def unclaimed(link: BrokerLink, kind: int, body: Any) -> None:
            if isinstance(body, pb.CommandTopicMigrated):
                informed.add((link, body.resource_type))

        run.limits += [(BrokerLink, "unclaimed", unclaimed)]
        between: dict[str, Act] = {BETWEEN: self._cut}
        run.faults |= self._acts(0) | between
        self._nemesis = Nemesis(
            self.new,
            random.Random(f"{run.loop.seed}/nemesis of {NEW}"),
            dict(plan.faults),
            FAULTS | self._acts(1) | between,
        )

    def _acts(self, side: int) -> dict[str, Act]:
        return {name: partial(act, self.observers[side]) for name, act in TOPIC_FAULTS.items()}

    def _cut(self, n: Nemesis) -> None:
        pair = [n.rng.choice(cluster.brokers).name for cluster in (self.run.cluster, self.new)]
        n.rng.shuffle(pair)
        world = n.cluster.world
        world.cut(*pair)
        n.cluster.count("cuts between clusters")
        n.later(n.rng.choice((0.5, 3.0, 8.0)), lambda: world.cuts.pop((pair[0], pair[1]), None))

    async def start(self) -> None:
        for machine in self.new.machines.values():
            self.new.start(machine)
        machines = [*self.run.cluster.machines.values(), *self.new.machines.values()]
        await self.run.reach(
            "start",
            lambda: all(machine.ready for machine in machines),
            SETTLE_S,
            lambda: [machine.name for machine in machines if not machine.ready],
        )
        for reader in (*self.readers, *self.late):
            self.administrator.work(reader.attach())
        await self.run.reach(
            "subscribe",
            lambda: all(reader.attached for reader in (*self.readers, *self.late)),
            SETTLE_S,
            lambda: ["a subscription"],
        )
        for client in (*self.writers, *self.readers):
            client.start()
        self._asked = self.administrator.work(self._ask())
        self._nemesis.start()

    async def _ask(self) -> None:
        """Ask for the migration when it is due."""
        plan, old, administrator = self.plan, self.run.cluster.name, self.administrator
        await asyncio.sleep(plan.begins_s)
        brokers = ",".join(f"{machine.name}:{BROKER_PORT}" for machine in self.new.brokers)
        target = {
            "brokerServiceUrl": f"pulsar://{brokers}",
            "serviceUrl": f"http://{self.new.brokers[0].name}:{HTTP_PORT}",
        }
        store, namespace = administrator.store, plan.namespace
        await administrator.insist(
            lambda: set_migration(store, old, target, migrated=not namespace)
        )
        if namespace:
            await administrator.insist(
                lambda: set_namespace_migration(store, TOPIC.namespace, migrated=True)
            )

    async def quiet(self) -> None:
        self._nemesis.heal()
        await self._reach("ask for the migration", self._asked.done, FOLLOW_S)
        if self._asked.done() and (error := self._asked.exception()) is not None:
            raise error
        await self._follow(self.writers)
        for writer in self.writers:
            writer.quiet = True
        await self._reach(
            "confirm all that was sent",
            lambda: all(writer.confirmed == writer.sent for writer in self.writers),
            SETTLE_S,
        )
        for reader in self.late:
            reader.start()
        readers = [*self.readers, *self.late]
        await self._follow(readers)
        await self._reach(
            "receive all that was confirmed",
            lambda: not any(missed(reader, self.writers) for reader in readers),
            SETTLE_S,
        )
        self.new.restarts = False

    async def _follow(self, clients: Sequence[Traveller]) -> None:
        await self._reach("follow", lambda: all(client.moved for client in clients), FOLLOW_S)

    async def _reach(self, what: str, done: Callable[[], object], bound_s: float) -> None:
        await self.run.reach(what, done, bound_s, self._waits_for)

    def _waits_for(self) -> list[str]:
        here = [client.name for client in (*self.writers, *self.readers) if not client.moved]
        gaps = [
            f"{reader.name} misses {len(names)}, the first {names[0]}"
            for reader in (*self.readers, *self.late)
            if (names := missed(reader, self.writers))
        ]
        return [f"in the old cluster: {here}", *gaps]

    def check(self) -> list[str]:
        wrong = [*self.new.failures[:3]]
        for observer in self.observers:
            wrong += observer.history.anomalies
        for reader in (*self.readers, *self.late):
            wrong += out_of_order(reader.name, list(reader.seen))
            self.run.cluster.count("received", len(reader.seen))
        self.run.cluster.count("confirmed", sum(writer.confirmed for writer in self.writers))
        for name, count in self.new.counts.items():
            self.run.cluster.count(f"{name} of {NEW}", count)
        return first_of(wrong, "migrating")
