"""Two clusters that send a topic to each other, under faults of both and of the network between them.

At the end each has the other's entries once, in their order there (G1, G2), and none of its own came back (G3)."""

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.base.ids import Position
from engine.tenancy.clusters import create_cluster
from engine.tenancy.documents import Document
from engine.tenancy.namespaces import update_policies
from engine.wire.batches import read_metadata
from engine.wire.geo.source_positions import source_position
from tests.sim.kit.cluster import BROKER_PORT, HTTP_PORT, Cluster, Shape
from tests.sim.kit.faults import FAULTS
from tests.sim.kit.loop import Node
from tests.sim.kit.nemesis import Act, Nemesis, draw_faults
from tests.sim.kit.scenario import Run, first_of
from tests.sim.publishing.keeper import Keeper
from tests.sim.publishing.workload import TOPIC, Publisher, PublisherPlan
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer

HERE, THERE = "standalone", "eu"
BETWEEN = "cut_clusters"
"""A fault of the network between the clusters, in one direction."""
ACTS = (*FAULTS, "unload", "take_over", BETWEEN)
SETTLE_S = 60.0
CATCH_UP_S = 150.0
"""Bound of catching up after the faults: a replicator waits up to a minute before it tries again."""


@dataclass(frozen=True)
class Geo:
    """Machines and faults of the other cluster, and the publishers of each."""

    other: Shape
    faults: dict[str, float]
    here: tuple[PublisherPlan, ...]
    there: tuple[PublisherPlan, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> "Geo":
        return cls(
            replace(Shape.draw(rng), deduplication=True),
            draw_faults(rng, ACTS),
            tuple(PublisherPlan.draw(rng) for _ in range(rng.choice((1, 2)))),
            tuple(PublisherPlan.draw(rng) for _ in range(rng.choice((0, 1)))),
        )

    def setup(self, run: Run) -> "GeoWorkload":
        return GeoWorkload(run, self)


class Side:
    """One of the clusters, with its publishers. ``other`` is the name of the cluster that its topic is sent to."""

    def __init__(
        self, run: Run, cluster: Cluster, other: str, plans: tuple[PublisherPlan, ...]
    ) -> None:
        self.run = run
        self.cluster = cluster
        self.other = other
        self.observer = Observer(cluster, [str(TOPIC)])
        self.keeper = Keeper(run, [str(TOPIC)], None if cluster is run.cluster else cluster)
        self.publishers = [
            Publisher(self.observer, f"{cluster.name}-p{i}", plan) for i, plan in enumerate(plans)
        ]

    async def begin(self, other: Cluster) -> None:
        """Send the namespace to ``other``."""
        store = self.cluster.metadata.session(self.cluster.shape.session_s)
        brokers = ",".join(f"{machine.name}:{BROKER_PORT}" for machine in other.brokers)
        record = {
            "brokerServiceUrl": f"pulsar://{brokers}",
            "serviceUrl": f"http://{other.brokers[0].name}:{HTTP_PORT}",
        }

        def change(policies: Document) -> None:
            policies["replication_clusters"] = [self.cluster.name, other.name]

        await create_cluster(store, other.name, record)
        await update_policies(store, TOPIC.namespace, change)
        await store.close()

    @property
    def replicating(self) -> bool:
        served = self.observer.served(TOPIC)
        return served is not None and self.other in served[1].replication.replicators

    @property
    def caught_up(self) -> bool:
        served = self.observer.served(TOPIC)
        return self.replicating and served is not None and not served[1].replication.backlog

    def waits_for(self) -> list[str]:
        """Return the reason why something is not sent yet."""
        served = self.observer.served(TOPIC)
        if served is None:
            return [f"{self.cluster.name} does not serve the topic"]
        replicators = served[1].replication.replicators.values()
        return [f"{self.cluster.name}: {r.backlog} entries, {r.error!r}" for r in replicators]

    def stored(self) -> tuple[list[Position], list[tuple[str, Position | None]]]:
        """Return the positions of entries of this cluster, and origin and position there of the others, in order."""
        own: list[Position] = []
        received: list[tuple[str, Position | None]] = []
        for entry in self.keeper.stored[str(TOPIC)]:
            metadata = read_metadata(entry.entry)
            assert metadata is not None
            if metadata.replicated_from:
                received.append((metadata.replicated_from, source_position(metadata)))
            else:
                own.append(entry.position)
        return own, received


class GeoWorkload:
    """The clusters ``sides``, the run's own first."""

    def __init__(self, run: Run, plan: Geo) -> None:
        self.run = run
        self.other = Cluster(run.loop, plan.other, name=THERE, world=run.cluster.world)
        self.sides = (
            Side(run, run.cluster, THERE, plan.here),
            Side(run, self.other, HERE, plan.there),
        )
        between: dict[str, Act] = {BETWEEN: self._cut}
        run.faults |= self._acts(self.sides[0]) | between
        acts = FAULTS | self._acts(self.sides[1]) | between
        rng = random.Random(f"{run.loop.seed}/nemesis of {THERE}")
        self._nemesis = Nemesis(self.other, rng, plan.faults, acts)

    def _acts(self, side: Side) -> dict[str, Act]:
        return {name: partial(act, side.observer) for name, act in TOPIC_FAULTS.items()}

    def _cut(self, n: Nemesis) -> None:
        pair = [n.rng.choice(side.cluster.brokers).name for side in self.sides]
        n.rng.shuffle(pair)
        source, target = pair
        world = n.cluster.world
        world.cut(source, target)
        n.cluster.count("cuts between clusters")
        n.later(n.rng.choice((0.5, 3.0, 8.0)), lambda: world.cuts.pop((source, target), None))

    async def start(self) -> None:
        for machine in self.other.machines.values():
            self.other.start(machine)
        for side in self.sides:
            await side.keeper.keep()
        here, there = self.sides
        await self._write(here.begin(there.cluster))
        await self._write(there.begin(here.cluster))
        await self._all("replicate", lambda side: side.replicating, SETTLE_S)
        for side in self.sides:
            for publisher in side.publishers:
                publisher.start()
        self._nemesis.start()

    async def _write(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.run.loop.spawn(Node("writer"), work)
        await self.run.reach("write policies", task.done, SETTLE_S, lambda: ["an answer"])
        if (error := task.exception()) is not None:
            raise error

    async def _all(self, what: str, done: Callable[[Side], bool], bound_s: float) -> None:
        await self.run.reach(
            what,
            lambda: all(done(side) for side in self.sides),
            bound_s,
            lambda: [text for side in self.sides for text in side.waits_for()],
        )

    async def quiet(self) -> None:
        self._nemesis.heal()
        publishers = [publisher for side in self.sides for publisher in side.publishers]
        for publisher in publishers:
            publisher.quiet = True
        await self.run.reach(
            "confirm all that was sent",
            lambda: all(publisher.all_confirmed for publisher in publishers),
            SETTLE_S,
            lambda: [publisher.name for publisher in publishers if not publisher.all_confirmed],
        )
        await self._all("send all to the other cluster", lambda side: side.caught_up, CATCH_UP_S)
        for side in self.sides:
            await side.keeper.read()
        self.other.restarts = False

    def check(self) -> list[str]:
        wrong = [*self.other.failures[:3]]
        for side in self.sides:
            wrong += side.observer.history.anomalies
            if str(TOPIC) not in side.keeper.stored:
                return wrong  # the run was cut short, which is reported already
        for source, target in (self.sides, self.sides[::-1]):
            (own, _), (_, received) = source.stored(), target.stored()
            wrong += compared(source.cluster.name, own, target.cluster.name, received)
            self.run.cluster.count("replicated", len(received))
        for name, count in self.other.counts.items():
            self.run.cluster.count(f"{name} of {THERE}", count)
        return first_of(wrong, "geo")


def compared(
    source: str,
    own: Sequence[Position],
    target: str,
    received: Sequence[tuple[str, Position | None]],
) -> list[str]:
    """Return what is wrong with the entries that the cluster ``target`` received, by origin and position there.

    ``own``: the positions of all entries of the cluster ``source``, the only other one.
    """
    wrong = [
        f"G3: an entry of {origin} came to {target}" for origin, _ in received if origin != source
    ]
    positions = [position for origin, position in received if origin == source]
    if positions == own:
        return wrong
    copies = Counter(positions)
    wrong += [
        f"G2: {position} of {source} is {copies[position]} times in {target}"
        for position in own
        if copies[position] != 1
    ]
    wrong += [
        f"G2: {position} is in {target} and not in {source}"
        for position in sorted(map(str, set(positions) - set(own)))
    ]
    return wrong or [f"G2: entries of {source} are in another order in {target}"]
