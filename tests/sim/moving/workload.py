"""A replicated subscription whose consumer moves between clusters, under faults of each and of the network between.

At the end no cluster passed a message that the consumer did not acknowledge somewhere (G4), so none is missed; once it
stays in one cluster and consumes all there, its position arrives in the others."""

import random
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.base.ids import Position
from engine.broker.topics.geo import replicator
from engine.broker.topics.geo.replicated_subscriptions import ReplicatedSubscriptions
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.tenancy.clusters import create_cluster
from engine.tenancy.documents import Document
from engine.tenancy.namespaces import update_policies
from tests.sim.kit.cluster import BROKER_PORT, HTTP_PORT, Cluster, Shape
from tests.sim.kit.faults import FAULTS
from tests.sim.kit.loop import Node
from tests.sim.kit.nemesis import Act, Nemesis, draw_faults
from tests.sim.kit.scenario import Run, first_of
from tests.sim.moving.mover import KINDS, SUBSCRIPTION, Mover, Name, name_of
from tests.sim.publishing.keeper import Keeper
from tests.sim.publishing.workload import TOPIC, Publisher, PublisherPlan
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer

NAMES = ("standalone", "eu", "ap")
BETWEEN = "cut_clusters"
"""A fault of the network between the clusters, in one direction."""
ACTS = (*FAULTS, "unload", "take_over", BETWEEN)
SETTLE_S = 60.0
CATCH_UP_S = 150.0
"""Bound of catching up after the faults: a replicator waits up to a minute before it tries again."""
NEVER = 1 << 62
COPY_S = 300.0
"""Bound in which the others have the position: a snapshot that is not answered is given up after up to a minute."""


@dataclass(frozen=True)
class Moving:
    """The clusters besides the run's own, the publishers of each, and the type of the subscription."""

    others: tuple[tuple[Shape, dict[str, float]], ...]
    publishers: tuple[tuple[PublisherPlan, ...], ...]
    kind: str
    frequency_ms: int
    cached: int

    @classmethod
    def draw(cls, rng: random.Random) -> "Moving":
        count = rng.choice((1, 1, 2))
        return cls(
            tuple(
                (replace(Shape.draw(rng), deduplication=True), draw_faults(rng, ACTS))
                for _ in range(count)
            ),
            tuple(
                tuple(PublisherPlan.draw(rng) for _ in range(rng.choice((0, 1)) or i == 0))
                for i in range(count + 1)
            ),
            rng.choice(list(KINDS)),
            rng.choice((100, 300, 1000)),
            rng.choice((1, 3, 10)),
        )

    def setup(self, run: Run) -> "MovingWorkload":
        return MovingWorkload(run, self)


class Place:
    """One of the clusters, with its publishers."""

    def __init__(self, run: Run, cluster: Cluster, plans: tuple[PublisherPlan, ...]) -> None:
        self.cluster = cluster
        self.observer = Observer(cluster, [str(TOPIC)])
        self.keeper = Keeper(run, [str(TOPIC)], None if cluster is run.cluster else cluster)
        self.stored: dict[Position, Name] = {}
        """All entries, by their positions here, once ``read``."""
        self.publishers = [
            Publisher(self.observer, f"{cluster.name}-p{i}", plan) for i, plan in enumerate(plans)
        ]

    async def begin(self, clusters: list[Cluster]) -> None:
        """Send the namespace to the other clusters."""
        store = self.cluster.metadata.session(self.cluster.shape.session_s)
        for other in clusters:
            if other is not self.cluster:
                brokers = ",".join(f"{machine.name}:{BROKER_PORT}" for machine in other.brokers)
                record = {
                    "brokerServiceUrl": f"pulsar://{brokers}",
                    "serviceUrl": f"http://{other.brokers[0].name}:{HTTP_PORT}",
                }
                await create_cluster(store, other.name, record)

        def change(policies: Document) -> None:
            policies["replication_clusters"] = [cluster.name for cluster in clusters]

        await update_policies(store, TOPIC.namespace, change)
        await store.close()

    def sends_to(self, count: int) -> bool:
        served = self.observer.served(TOPIC)
        return served is not None and len(served[1].replication.replicators) == count

    @property
    def has_sent_all(self) -> bool:
        served = self.observer.served(TOPIC)
        return served is not None and not served[1].replication.backlog

    @property
    def subscription(self) -> Subscription | None:
        served = self.observer.served(TOPIC)
        return None if served is None else served[1].subscriptions.get(SUBSCRIPTION)

    def passed(self) -> set[Name] | None:
        """Return the entries that the subscription does not need any more; None while there is no subscription."""
        subscription = self.subscription
        if subscription is None:
            return None
        passed = subscription.cursor.is_acknowledged
        return {name for position, name in self.stored.items() if passed(position)}

    async def read(self) -> None:
        """Read all entries."""
        await self.keeper.read()
        for entry in self.keeper.stored[str(TOPIC)]:
            self.stored[entry.position] = name_of(entry.entry)

    @property
    def has_passed_all(self) -> bool:
        subscription = self.subscription
        return subscription is not None and all(
            map(subscription.cursor.is_acknowledged, self.stored)
        )

    def state(self) -> str:
        """Return what is known of the subscription and of what is sent."""
        served, subscription = self.observer.served(TOPIC), self.subscription
        if served is None or subscription is None:
            return f"{self.cluster.name}: no subscription"
        replication = served[1].replication
        errors = [r.error for r in replication.replicators.values()]
        return (
            f"{self.cluster.name}: at {subscription.cursor.mark_delete}, {replication.backlog} entries to send, "
            f"{errors}"
        )


class MovingWorkload:
    """The clusters ``places``, the run's own first."""

    def __init__(self, run: Run, plan: Moving) -> None:
        self.run = run
        world = run.cluster.world
        self.clusters = [run.cluster] + [
            Cluster(run.loop, shape, name=name, world=world)
            for name, (shape, _) in zip(NAMES[1:], plan.others, strict=False)
        ]
        self.places = [
            Place(run, cluster, plans)
            for cluster, plans in zip(self.clusters, plan.publishers, strict=True)
        ]
        for cluster in self.clusters:
            cluster.snapshot_frequency_ms, cluster.snapshots_cached = plan.frequency_ms, plan.cached
        self._applied: list[tuple[str, Position, int]] = []
        """Cluster and position of each update that was applied, and the number of entries acknowledged before."""
        apply = ReplicatedSubscriptions._apply

        async def applied(
            handler: ReplicatedSubscriptions, remote: str, name: str, position: Position
        ) -> None:
            here = handler._host.context.identity.cluster
            self._applied.append((here, position, len(self.mover.acknowledged)))
            await apply(handler, remote, name, position)

        run.limits += [
            (replicator, "STALL_S", 5.0),
            (ReplicatedSubscriptions, "_apply", applied),
        ]
        between: dict[str, Act] = {BETWEEN: self._cut}
        run.faults |= self._acts(self.places[0]) | between
        self._nemeses = [
            Nemesis(
                place.cluster,
                random.Random(f"{run.loop.seed}/nemesis of {place.cluster.name}"),
                faults,
                FAULTS | self._acts(place) | between,
            )
            for place, (_, faults) in zip(self.places[1:], plan.others, strict=True)
        ]
        self.mover = Mover(self.clusters, plan.kind)
        self._wrong: list[str] = []

    def _acts(self, place: Place) -> dict[str, Act]:
        return {name: partial(act, place.observer) for name, act in TOPIC_FAULTS.items()}

    def _cut(self, n: Nemesis) -> None:
        source, target = n.rng.sample(self.clusters, 2)
        pair = (n.rng.choice(source.brokers).name, n.rng.choice(target.brokers).name)
        world = n.cluster.world
        world.cut(*pair)
        n.cluster.count("cuts between clusters")
        n.later(n.rng.choice((0.5, 3.0, 8.0)), lambda: world.cuts.pop(pair, None))

    async def start(self) -> None:
        for cluster in self.clusters[1:]:
            for machine in cluster.machines.values():
                cluster.start(machine)
        for place in self.places:
            await place.keeper.keep()
        for place in self.places:
            await self._write(place.begin(self.clusters))
        others = len(self.clusters) - 1
        await self._all("replicate", lambda place: place.sends_to(others), SETTLE_S)
        for place in self.places:
            for publisher in place.publishers:
                publisher.start()
        self.mover.start()
        for nemesis in self._nemeses:
            nemesis.start()

    async def _write(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.run.loop.spawn(Node("writer"), work)
        await self.run.reach("write policies", task.done, SETTLE_S, lambda: ["an answer"])
        if (error := task.exception()) is not None:
            raise error

    async def _all(self, what: str, done: Callable[[Place], bool], bound_s: float) -> None:
        await self.run.reach(
            what,
            lambda: all(done(place) for place in self.places),
            bound_s,
            lambda: [place.state() for place in self.places],
        )

    async def quiet(self) -> None:
        for nemesis in self._nemeses:
            nemesis.heal()
        self.mover.pause()
        await self.run.reach("pause", lambda: self.mover.resting, SETTLE_S, lambda: ["the mover"])
        publishers = [publisher for place in self.places for publisher in place.publishers]
        for publisher in publishers:
            publisher.quiet = True
        await self.run.reach(
            "confirm all that was sent",
            lambda: all(publisher.all_confirmed for publisher in publishers),
            SETTLE_S,
            lambda: [publisher.name for publisher in publishers if not publisher.all_confirmed],
        )
        await self._all("send all", lambda place: place.has_sent_all, CATCH_UP_S)
        for place in self.places:
            await place.read()
        self._look("while the consumer rests")
        chosen = self.run.rng.choice(self.places)
        self.mover.stay(chosen.cluster)
        await self._all("copy the position", lambda place: place.has_passed_all, COPY_S)
        self._look("at the end")
        for cluster in self.clusters[1:]:
            cluster.restarts = False

    def _look(self, when: str) -> None:
        for place in self.places:
            passed = place.passed()
            if passed is not None:
                acknowledged = self.mover.acknowledged.keys()
                self._wrong += ahead(place.cluster.name, passed, acknowledged, when)

    def check(self) -> list[str]:
        wrong = [text for cluster in self.clusters[1:] for text in cluster.failures[:3]]
        for place in self.places:
            wrong += place.observer.history.anomalies
        wrong += self._wrong
        for place in self.places:
            updates = [row[1:] for row in self._applied if row[0] == place.cluster.name]
            self.run.cluster.count("updates", len(updates))
            wrong += early(place.cluster.name, updates, place.stored, self.mover.acknowledged)
        for cluster in self.clusters[1:]:
            for name, count in cluster.counts.items():
                self.run.cluster.count(f"{name} of {cluster.name}", count)
        self.run.cluster.count("consumed by the mover", len(self.mover.seen))
        return first_of(wrong, "moving")


def early(
    cluster: str,
    updates: Sequence[tuple[Position, int]],
    stored: Mapping[Position, Name],
    acknowledged: Mapping[Name, int],
) -> list[str]:
    """Return what is wrong with the updates applied in a cluster, each with the number of entries acknowledged before.

    ``acknowledged``: entries by the order in which they were acknowledged.
    """
    positions = sorted(stored)
    last: list[int] = []
    for position in positions:
        at = acknowledged.get(stored[position], NEVER)
        last.append(max(at, last[-1]) if last else at)
    wrong = []
    for position, before in updates:
        passed = bisect_right(positions, position)
        if passed and last[passed - 1] >= before:
            wrong.append(
                f"G4: the update to {position} came to {cluster} before all was acknowledged"
            )
    return wrong[:1]


def ahead(cluster: str, passed: set[Name], acknowledged: Set[Name], when: str) -> list[str]:
    """Return what is wrong with the entries that the subscription passed in a cluster."""
    missed = sorted(passed.difference(acknowledged))
    return [
        f"G4: {len(missed)} entries are passed in {cluster} and were acknowledged nowhere, {when}, the first: "
        f"{producer} {number}"
        for producer, number in missed[:1]
    ]
