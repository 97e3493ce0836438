"""Two or three clusters that send topics to each other, under faults of each and of the network between them.

At the end each has the entries of those that send to it once, in their order there and with their schemas (G1, G2, G6),
none of its own came back or went on (G3), and no entry came where its publisher did not want it. Every backlog ends
(G7), and a topic that cannot be sent keeps no other one from it and shows the reason (G8)."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from engine.base.names import TopicName
from engine.base.slices import View
from engine.broker.errors import PersistenceError
from engine.broker.topics.deduplication import Deduplication
from engine.broker.topics.geo import replicator
from engine.broker.topics.limits import admit_fitting
from engine.broker.topics.publish import Publish, StagePlace
from engine.broker.topics.subscriptions.cursor_moves import ForwardMoves
from engine.client.producing import topic_producer
from engine.client.replicating_producer import ReplicatingProducer
from engine.ledger.errors import NotEnoughBookiesError
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.cursor_reader import CursorReader
from engine.managed.ledger import ManagedLedger
from engine.tenancy.documents import Document
from engine.wire.events import Receipt
from tests.sim.geo.checkers import compared, strangers
from tests.sim.geo.publisher import GeoPublisher, GeoPublisherPlan
from tests.sim.geo.side import Side
from tests.sim.kit.cluster import Cluster, Shape
from tests.sim.kit.faults import FAULTS
from tests.sim.kit.nemesis import Act, Nemesis, draw_faults
from tests.sim.kit.scenario import Run, first_of
from tests.sim.publishing.workload import TOPIC
from tests.sim.topics.faults import TOPIC_FAULTS

NAMES = ("standalone", "eu", "ap")
UNEVEN = TopicName.parse("persistent://public/default/uneven")
"""A topic with one partition in the first cluster and two in the others, which is not sent until that is changed."""
BETWEEN = (
    "cut_clusters",
    "slow_clusters",
    "ignore_receipts",
    "refuse_entry",
    "fail_search",
    "change_clusters",
)
"""Faults of the network between the clusters, in one direction, of remote brokers, of storage at a replicator's start,
and changes by administrators."""
ACTS = (*FAULTS, "unload", "take_over", *BETWEEN, "grow_topic")
BEFORE = SimpleNamespace(place=StagePlace.BROKER_RATE)
"""The place of a limit that refuses, in front of deduplication."""
TTL_S = 90 * 86_400
"""Longer than clocks are wrong: nothing becomes too old."""
SETTLE_S = 60.0
ENCORE = 20
"""Messages that each publisher sends when all clusters send again."""
CATCH_UP_S = 150.0
"""Bound of catching up after the faults: a replicator waits up to a minute before it tries again."""


@dataclass(frozen=True)
class Other:
    """Machines, faults and publishers of a cluster besides the run's own."""

    shape: Shape
    faults: dict[str, float]
    publishers: tuple[GeoPublisherPlan, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> "Other":
        return cls(
            replace(Shape.draw(rng), deduplication=True),
            draw_faults(rng, ACTS),
            tuple(GeoPublisherPlan.draw(rng) for _ in range(rng.choice((0, 1)))),
        )


@dataclass(frozen=True)
class Geo:
    """The clusters, and how they send to each other.

    ``ring``: each sends to the next one alone, else to all. ``partitions`` 0: the topic has none; else it may grow by
    one. ``uneven``: there is a topic that cannot be sent. ``eager``: publishers do not wait until replicators run.
    """

    publishers: tuple[GeoPublisherPlan, ...]
    others: tuple[Other, ...]
    ring: bool
    partitions: int
    uneven: bool
    eager: bool
    policies: Document
    unanswered: int
    unanswered_bytes: int
    """Bounds of what is sent and not stored yet."""
    positions_s: float
    """Time until a new position in another cluster is stored."""
    reads_s: float
    """Time of a replicator's read from storage; 0: it reads from memory if it can."""

    @classmethod
    def draw(cls, rng: random.Random) -> "Geo":
        policies: Document = {}
        if rng.random() < 0.3:
            policies["message_ttl_in_seconds"] = TTL_S
        if rng.random() < 0.3:
            rate = {"dispatchThrottlingRateInMsg": rng.choice((100, 400)), "ratePeriodInSecond": 1}
            policies["replicatorDispatchRate"] = dict.fromkeys(NAMES, rate)
        return cls(
            publishers=tuple(GeoPublisherPlan.draw(rng) for _ in range(rng.choice((1, 2)))),
            others=tuple(Other.draw(rng) for _ in range(rng.choice((1, 1, 2)))),
            ring=rng.random() < 0.3,
            partitions=rng.choice((0, 0, 2)),
            uneven=rng.random() < 0.3,
            eager=rng.random() < 0.5,
            policies=policies,
            unanswered=rng.choice((3, 50, 1000)),
            unanswered_bytes=rng.choice((10_000, 8 << 20)),
            positions_s=rng.choice((0.0, 0.0, 2.0)),
            reads_s=rng.choice((0.0, 0.0, 0.0, 0.3)),
        )

    def setup(self, run: Run) -> "GeoWorkload":
        return GeoWorkload(run, self)


class GeoWorkload:
    """The clusters ``sides``, the run's own first."""

    def __init__(self, run: Run, plan: Geo) -> None:
        self.run = run
        self.plan = plan
        world = run.cluster.world
        clusters = [run.cluster] + [
            Cluster(run.loop, other.shape, name=name, world=world)
            for name, other in zip(NAMES[1:], plan.others, strict=False)
        ]
        self.topics = _partitions(TOPIC, plan.partitions)
        """The main topic at present, by partitions."""
        grown = _partitions(TOPIC, plan.partitions and plan.partitions + 1)
        self._uneven = _partitions(UNEVEN, 2) if plan.uneven else []
        self.sides = [
            Side(run, cluster, remotes, [*grown, *self._uneven])
            for cluster, remotes in zip(clusters, _remotes(plan), strict=True)
        ]
        self._grown: set[str] = set()
        self._ignored: set[ReplicatingProducer] = set()
        """Producers whose receipts do not arrive any more."""
        self._refusing: dict[str, int] = {}
        """Clusters that refuse the first entry of the next run of another cluster, with the run's least length."""
        self._failing: set[str] = set()
        """Clusters in which the next replicator cannot read what may have expired."""
        self._healed = False
        run.limits += self._limits()
        run.faults |= self._acts(self.sides[0])
        self._nemeses = [
            Nemesis(
                side.cluster,
                random.Random(f"{run.loop.seed}/nemesis of {side.name}"),
                other.faults,
                FAULTS | self._acts(side),
            )
            for side, other in zip(self.sides[1:], plan.others, strict=True)
        ]
        plans = [plan.publishers, *(other.publishers for other in plan.others)]
        for side, publishers in zip(self.sides, plans, strict=True):
            side.publishers = [
                GeoPublisher(side.observer, f"{side.name}-p{i}", publisher, TOPIC, side.remotes)
                for i, publisher in enumerate(publishers)
            ]
        if plan.uneven:
            first = self.sides[0]
            first.publishers.append(
                GeoPublisher(first.observer, "uneven-p0", plan.publishers[0], UNEVEN, first.remotes)
            )

    def _limits(self) -> list[tuple[Any, str, Any]]:
        receipts, admit = ReplicatingProducer.receipts, Deduplication.admit

        def received(producer: ReplicatingProducer, batch: Sequence[Receipt]) -> None:
            if producer not in self._ignored:
                receipts(producer, batch)

        def admitted(stage: Deduplication, publish: Publish) -> bool:
            cluster = stage._host.context.identity.cluster
            count = publish.run.count
            if publish.producer.origin and count >= self._refusing.get(cluster, count + 1):
                del self._refusing[cluster]
                fits = [i > 0 for i in range(count)]
                refusal = PersistenceError("refused by a fault")
                return admit_fitting(stage._host, BEFORE, publish, fits, refusal)  # type: ignore[arg-type]
            return admit(stage, publish)

        open_cursor, expire = ManagedLedger.open_cursor, ForwardMoves.expire
        read_nowait, read = CursorReader.read_nowait, CursorReader.read

        async def opened(log: ManagedLedger, name: str, *args: Any, **options: Any) -> Cursor:
            if name.startswith(replicator.CURSOR_PREFIX):
                await asyncio.sleep(self.plan.positions_s)
            return await open_cursor(log, name, *args, **options)

        async def expired(moves: ForwardMoves, before_ms: int) -> int:
            if isinstance(moves._reader, replicator.Replicator):
                cluster = moves._reader._host.context.identity.cluster
                if cluster in self._failing:
                    self._failing.discard(cluster)
                    raise NotEnoughBookiesError("failed by a fault")
            return await expire(moves, before_ms)

        def is_slow(cursor: CursorReader) -> bool:
            # Afterwards the backlogs must end within a bound that does not allow for slow reads.
            is_slow = self.plan.reads_s > 0 and not self._healed
            return is_slow and cursor.name.startswith(replicator.CURSOR_PREFIX)

        def read_at_once(cursor: CursorReader, entries: int, size: int) -> list[View] | None:
            return None if is_slow(cursor) else read_nowait(cursor, entries, size)

        async def read_slowly(cursor: CursorReader, entries: int, size: int) -> list[View]:
            views = await read(cursor, entries, size)
            if is_slow(cursor):
                await asyncio.sleep(self.plan.reads_s)
            return views

        return [
            (topic_producer, "PARTITIONS_CHECK_S", 1.0),
            (replicator, "STALL_S", 5.0),
            (replicator, "UNANSWERED_MAX", self.plan.unanswered),
            (replicator, "UNANSWERED_BYTES_MAX", self.plan.unanswered_bytes),
            (ReplicatingProducer, "receipts", received),
            (Deduplication, "admit", admitted),
            (ManagedLedger, "open_cursor", opened),
            (ForwardMoves, "expire", expired),
            (CursorReader, "read_nowait", read_at_once),
            (CursorReader, "read", read_slowly),
        ]

    # --- faults ---------------------------------------------------------------------------------

    def _acts(self, side: Side) -> dict[str, Act]:
        own = (
            *(self._cut_clusters, self._slow_clusters, self._ignore_receipts, self._refuse_entry),
            *(self._fail_search, self._change_clusters, self._grow_topic),
        )
        acts: dict[str, Act] = {act.__name__.removeprefix("_"): partial(act, side) for act in own}
        return acts | {name: partial(act, side.observer) for name, act in TOPIC_FAULTS.items()}

    def _pair(self, side: Side, n: Nemesis) -> tuple[str, str]:
        """Return a broker of ``side`` and one of another cluster, in either order."""
        other = n.rng.choice([s for s in self.sides if s is not side])
        pair = [n.rng.choice(s.cluster.brokers).name for s in (side, other)]
        n.rng.shuffle(pair)
        return pair[0], pair[1]

    def _cut_clusters(self, side: Side, n: Nemesis) -> None:
        pair, world = self._pair(side, n), n.cluster.world
        world.cut(*pair)
        n.cluster.count("cuts between clusters")
        n.later(n.rng.choice((0.5, 3.0, 8.0)), lambda: world.cuts.pop(pair, None))

    def _slow_clusters(self, side: Side, n: Nemesis) -> None:
        pair, world = self._pair(side, n), n.cluster.world
        world.slow_pairs[pair] = n.rng.choice((0.05, 0.3, 1.0))
        n.later(n.rng.choice((1.0, 5.0)), lambda: world.slow_pairs.pop(pair, None))

    def _ignore_receipts(self, side: Side, n: Nemesis) -> None:
        """Let the receipts to a replicator get lost, as those of a broker that hangs."""
        producers = [
            replicator._producer
            for *_, replicator in side.replicators(side.observer.topics)
            if replicator._producer is not None
        ]
        if producers:
            self._ignored.add(n.rng.choice(producers))
            n.cluster.count("silent remote brokers")

    def _refuse_entry(self, side: Side, n: Nemesis) -> None:
        """Refuse an entry of another cluster, as a limit does."""
        self._refusing[side.name] = n.rng.choice((1, 2))
        n.cluster.count("refusals")

    def _fail_search(self, side: Side, n: Nemesis) -> None:
        """Let the next replicator fail after it attached its producer."""
        self._failing.add(side.name)
        n.cluster.count("failed searches")

    def _change_clusters(self, side: Side, n: Nemesis) -> None:
        side.take_out(n.rng.choice(side.remotes), n.rng.choice((0.1, 1.0, 4.0)))

    def _grow_topic(self, side: Side, n: Nemesis) -> None:
        self._grow(side)

    def _grow(self, side: Side) -> None:
        """Give the topic one more partition, once."""
        if self.plan.partitions and side.name not in self._grown:
            self._grown.add(side.name)
            side.grow(TOPIC, self.plan.partitions + 1)

    # --- the run --------------------------------------------------------------------------------

    async def start(self) -> None:
        for side in self.sides[1:]:
            for machine in side.cluster.machines.values():
                side.cluster.start(machine)
        machines = [m for side in self.sides for m in side.cluster.machines.values()]
        await self.run.reach(
            "start",
            lambda: all(machine.ready for machine in machines),
            SETTLE_S,
            lambda: [machine.name for machine in machines if not machine.ready],
        )
        for side in self.sides:
            await self._administer(side)
        if not self.plan.eager:
            await self._open_topics()
        for publisher in self._publishers:
            publisher.start()
        if self.plan.eager:
            await self._open_topics()
        self.run.watch(self._look)
        for nemesis in self._nemeses:
            nemesis.start()

    async def _administer(self, side: Side) -> None:
        others = [other.cluster for other in self.sides if other is not side]
        counts = [(TOPIC, self.plan.partitions)]
        if self.plan.uneven:
            counts.append((UNEVEN, 1 if side is self.sides[0] else 2))

        async def work() -> None:
            await side.begin(others, self.plan.policies)
            for topic, partitions in counts:
                if partitions:
                    await side.administrator.create_partitioned(topic, partitions)

        task = side.administrator.work(work())
        await self.run.reach("administer", task.done, SETTLE_S, lambda: [side.name])
        if (error := task.exception()) is not None:
            raise error

    async def _open_topics(self) -> None:
        """Load the topics everywhere and wait until they are sent."""
        for side in self.sides:
            await side.keep(self.topics)
        await self._all("replicate", lambda side: side.replicating(self.topics), SETTLE_S)

    def _look(self) -> None:
        for side in self.sides:
            side.look()

    @property
    def _publishers(self) -> list[GeoPublisher]:
        return [publisher for side in self.sides for publisher in side.publishers]

    async def _all(
        self, what: str, done: Callable[[Side], bool], bound_s: float, uneven: bool = False
    ) -> None:
        topics = self._uneven if uneven else self.topics
        await self.run.reach(
            what,
            lambda: all(done(side) for side in self.sides),
            bound_s,
            lambda: [text for side in self.sides for text in side.waits_for(topics)],
        )

    async def quiet(self) -> None:
        for nemesis in self._nemeses:
            nemesis.heal()
        self._refusing.clear()
        self._failing.clear()
        self._healed = True
        await self._confirm()
        for side in self.sides:
            self._grow(side)
        await self._all("administer", lambda side: side.administered, SETTLE_S)
        if self.plan.partitions:
            self.topics = _partitions(TOPIC, self.plan.partitions + 1)
            for side in self.sides:
                await side.keep(self.topics)
        await self._all("send again", lambda side: side.replicating(self.topics), CATCH_UP_S)
        for publisher in self._publishers:
            publisher.send(ENCORE)
        await self._confirm()
        await self._all("send all", lambda side: side.caught_up(self.topics), CATCH_UP_S)
        if self._uneven:
            await self._even_out()
        for side in self.sides:
            await side.read([*self.topics, *self._uneven])
            side.cluster.restarts = False

    async def _confirm(self) -> None:
        publishers = self._publishers
        for publisher in publishers:
            publisher.quiet = True
        await self.run.reach(
            "confirm all that was sent",
            lambda: all(publisher.all_confirmed for publisher in publishers),
            SETTLE_S,
            lambda: [publisher.name for publisher in publishers if not publisher.all_confirmed],
        )

    async def _even_out(self) -> None:
        """Check that the uneven topic is not sent and says why, then give it as many partitions everywhere."""
        first = self.sides[0]
        await self._all(
            "say why the uneven topic is not sent (G8)",
            lambda side: all(
                not replicator.connected and "partitions" in replicator.error
                for *_, replicator in side.replicators(self._uneven[:1])
            ),
            CATCH_UP_S,
            uneven=True,
        )
        first.grow(UNEVEN, 2)
        await self._all("grow", lambda side: side.administered, SETTLE_S)
        for side in self.sides:
            await side.keep(self._uneven)
        await self._all(
            "send what was blocked",
            lambda side: side.caught_up(self._uneven),
            CATCH_UP_S,
            uneven=True,
        )

    def check(self) -> list[str]:
        wrong: list[str] = []
        for side in self.sides:
            wrong += side.cluster.failures[:3] if side is not self.sides[0] else []
            wrong += side.observer.history.anomalies
        if any(len(side.own) < len(self.topics) for side in self.sides):
            return first_of(wrong, "geo")  # the run was cut short, which is reported already
        for target in self.sides:
            sources = [side for side in self.sides if target.name in side.remotes]
            for topic, received in target.received.items():
                wrong += strangers(target.name, [side.name for side in sources], received)
                for source in sources:
                    gaps = source.gaps.get((topic, target.name), ())
                    wrong += compared(source.name, source.own[topic], target.name, received, gaps)
                self.run.cluster.count("replicated", len(received))
        for side in self.sides[1:]:
            for name, count in side.cluster.counts.items():
                self.run.cluster.count(f"{name} of {side.name}", count)
        return first_of(wrong, "geo")


def _partitions(topic: TopicName, count: int) -> list[TopicName]:
    return [topic.partition_at(i) for i in range(count)] or [topic]


def _remotes(plan: Geo) -> list[list[str]]:
    """Return the clusters that each cluster sends to."""
    names = NAMES[: 1 + len(plan.others)]
    if plan.ring:
        return [[names[(i + 1) % len(names)]] for i in range(len(names))]
    return [[name for name in names if name != own] for own in names]
