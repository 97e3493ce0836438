"""The workload of clients that publish and consume over brokers while faults strike. Then everything is delivered and
acknowledged, and the history is checked against the promises."""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from engine.base.names import TopicName
from engine.broker.dispatch.choose.keys import murmur3_32
from engine.broker.dispatch.sharing import parked as parked_module
from engine.metadata import paths
from engine.metadata.store import NoNodeError
from engine.tenancy.topics import partitioned_path
from tests.sim.kit.cluster import HTTP_PORT
from tests.sim.kit.scenario import Run, first_of
from tests.sim.topics import checkers
from tests.sim.topics.administrator import Administrator
from tests.sim.topics.consumer import FAILOVER, SHARING, Consumer
from tests.sim.topics.faults import (
    RATE_FAULTS,
    SPLIT_FAULTS,
    TOPIC_FAULTS,
    TRANSFER_FAULTS,
    WAYS,
    pass_over,
)
from tests.sim.topics.listed import listed_ledgers
from tests.sim.topics.observer import Observer
from tests.sim.topics.producer import Producer

SETTLE_S = 30.0
"""Bounds of the start, and after the faults of reconnecting and of draining (simulated seconds)."""
DRAIN_S = 90.0
CUT_SHORT = ("liveness", "TimeoutError", "Deadlock", "StandsStill")
KINDS_TOGETHER = (
    ("exclusive",),
    ("shared",) * 2,
    ("exclusive", "shared", "shared"),
    ("failover",) * 2,
    ("failover",) * 3,
)
RATES = (2.0, 5.0)


@dataclass(frozen=True)
class Crowd:
    """The clients of one topic."""

    consumers: tuple[str, ...]
    """The subscription of each; its name is its kind."""
    producers: tuple[float, ...]
    """Wake-ups of each per second, at which it sends 1 to 8 messages."""
    priorities: tuple[int, ...] = ()
    """Level of each consumer, 0 of those that are left out."""

    @classmethod
    def draw(cls, rng: random.Random, rates: Sequence[float]) -> "Crowd":
        consumers = rng.choice(KINDS_TOGETHER)
        return cls(
            consumers,
            tuple(rng.choice(rates) for _ in range(rng.choice((1, 2)))),
            tuple(rng.choice((0, 0, 1)) for _ in consumers),
        )

    def priority(self, i: int) -> int:
        return self.priorities[i] if i < len(self.priorities) else 0


@dataclass(frozen=True)
class Topics:
    """Topics with their clients, and what else clients and administrators do."""

    crowds: tuple[Crowd, ...]
    grows_at: float | None
    """The first topic is partitioned and gets one partition more, this long after the first faults."""
    gives_up: bool
    """Set when consumers unsubscribe now and then and subscribe again."""
    visits: bool
    """Set when unused subscriptions are created and deleted."""
    reminds: bool
    """Set when some messages are to be delivered far in the future."""
    loses_power: bool
    """Set when all machines lose power at rest in the end."""
    keys: int = 0
    """Number of keys of which every message has one; 0: none has."""
    delayed: float = 0.1
    """Share of the messages that have a delivery time."""

    @classmethod
    def draw(
        cls, rng: random.Random, duration_s: float, rates: Sequence[float] = RATES
    ) -> "Topics":
        grows = rng.random() < 0.25
        return cls(
            crowds=tuple(Crowd.draw(rng, rates) for _ in range(rng.choice((1, 1, 2)))),
            grows_at=round(duration_s * rng.uniform(0.1, 0.7), 1) if grows else None,
            gives_up=not grows and rng.random() < 0.4,
            visits=rng.random() < 0.4,
            reminds=rng.random() < 0.15,
            loses_power=rng.random() < 0.3,
        )

    def setup(self, run: Run) -> "TopicsWorkload":
        return TopicsWorkload(run, self)


def entitled(consumers: Sequence[tuple[int, str]], topic: TopicName) -> str | None:
    """Return the consumer that is to be active, by priority level and name, as Apache Pulsar chooses; None without
    one."""
    best = min((priority for priority, _ in consumers), default=0)
    names = sorted(name for priority, name in consumers if priority == best)
    if not names:
        return None
    if topic.partition >= 0:
        return names[topic.partition % len(names)]
    ring = {murmur3_32(f"{name}{i}".encode()): name for name in names for i in range(100)}
    at = murmur3_32(str(topic).encode())
    return ring[min((point for point in ring if point >= at), default=min(ring))]


class TopicsWorkload:
    """The clients, the administrator and the observer of a run."""

    def __init__(self, run: Run, plan: Topics) -> None:
        self.run = run
        self.plan = plan
        self.rng = run.rng
        self.grown = TopicName.parse("persistent://public/default/t0")
        topics = [f"persistent://public/default/t{i}" for i in range(len(plan.crowds))]
        if plan.grows_at is not None:
            topics[0] = str(self.grown.partition_at(0))
        self.observer = Observer(run.cluster, topics)
        self.history = self.observer.history
        self.administrator = Administrator(self.observer, plan.visits)
        self.producers: dict[str, Producer] = {}
        self.consumers: list[Consumer] = []
        self._growing: asyncio.Task[None] | None = None
        for i, (topic, crowd) in enumerate(zip(topics, plan.crowds, strict=True)):
            self._gather(topic, f"t{i}", crowd)
        faults = TOPIC_FAULTS | RATE_FAULTS | SPLIT_FAULTS | TRANSFER_FAULTS
        run.faults |= {name: partial(act, self.observer) for name, act in faults.items()}
        shape = run.scenario.shape
        run.limits += [
            (parked_module, "PARKED_MAX", shape.parked_max),
        ]

    @property
    def clients(self) -> list[Producer | Consumer]:
        return [*self.producers.values(), *self.consumers]

    def _gather(self, topic: str, short: str, crowd: Crowd) -> list[Producer | Consumer]:
        """Create the clients of a topic and return them."""
        late = "." in short
        mine = [
            Consumer(
                self.observer,
                f"{short}-{kind}-{i}",
                topic,
                kind,
                self.producers,
                late=late,
                stays=not self.plan.gives_up,
                priority=crowd.priority(i),
            )
            for i, kind in enumerate(crowd.consumers)
        ]
        for consumer in mine:
            consumer.others = [other for other in mine if other is not consumer]
        made: list[Producer | Consumer] = [*mine]
        for i, rate in enumerate(crowd.producers):
            producer = Producer(
                self.observer,
                f"{short}-p{i}",
                topic,
                rate,
                lambda: late or all(consumer.subscribed for consumer in mine),
                reminds=self.plan.reminds,
                keys=self.plan.keys,
                delayed=self.plan.delayed,
            )
            self.producers[producer.name] = producer
            made.append(producer)
        self.consumers += mine
        return made

    async def start(self) -> None:
        administrator, loop = self.administrator, self.run.loop
        self.run.watch(self.observer.look)
        if self.plan.grows_at is not None:
            await administrator.work(administrator.create_partitioned(self.grown, 1))
        for client in self.clients:
            client.start()
        await self._reach("start", self._subscribed, SETTLE_S)
        administrator.start()
        if self.plan.grows_at is not None:
            self._growing = loop.create_task(self._grow(self.plan.grows_at))

    async def quiet(self) -> None:
        for client in (*self.clients, self.administrator):
            client.calm = True
        for producer in self.producers.values():
            producer.quiet = True
        if self._growing is not None:
            await self._reach("grow", self._growing.done, SETTLE_S)
        await self._reach("publish what was begun", self._published, SETTLE_S)
        await self._end_visits()
        # An undo that ends later would bring back messages with a far delivery time, which are passed over here.
        ended = self.observer.administration_ended
        await self._reach("end what administrators began", ended, SETTLE_S)
        await self._reach("leave drained brokers", lambda: not self._undrained(), SETTLE_S)
        if self.plan.reminds:
            await self._pass_over()
        await self._reach("drain every subscription", self._drained, DRAIN_S)
        await self._encore()
        await self._reach("agree on who is active", lambda: not self._undecided(), SETTLE_S)
        self._check_stored()
        await self._reach("delete what nothing lists", lambda: not self.observer.leaked(), SETTLE_S)
        if self.plan.loses_power:
            await self._power_cycle()
        await self._delete_topics()

    def check(self) -> list[str]:
        """Return the violations of the promises in the history."""
        history, counts = self.history, self.run.cluster.count
        counts("sent", len(history.sent))
        counts("confirmed", len(history.receipts))
        counts("deliveries", len(history.deliveries))
        counts("acks confirmed", len(history.acks))
        checks = dict(checkers.SAFETY)
        if not any(text.startswith(CUT_SHORT) for text in self.run.result.violations):
            checks |= checkers.LIVENESS
        violations = []
        for name, check in checks.items():
            violations += first_of([f"{name}: {text}" for text in check(history)], name)
        return violations

    # -- operations

    async def _grow(self, after_s: float) -> None:
        """Add a partition under load. Producers find it as soon as metadata names it, consumers some time later."""
        await asyncio.sleep(after_s)
        topic = self.grown.partition_at(1)
        administrator, path = self.administrator, partitioned_path(self.grown)
        growth = administrator.work(administrator.grow(self.grown, 2))
        while json.loads(self.run.cluster.tree_at(path).get(path)[0])["partitions"] < 2:
            await asyncio.sleep(0.01)
        self.observer.topics.append(topic)
        made = self._gather(str(topic), "t0.1", self.plan.crowds[0])
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
        await self._reach("delete every unused subscription", ended.done, SETTLE_S)
        if ended.done():
            ended.result()

    async def _pass_over(self) -> None:
        """Pass over messages with a far delivery time, as an administrator does; every subscription must continue after
        that."""
        way = self.rng.choice(WAYS)
        for full in dict.fromkeys(c.full_name for c in self.consumers if c.kind in SHARING):
            topic, _, name = full.rpartition("/")
            # A consumer that unsubscribed subscribes again.
            there = partial(self._exists, topic, name)
            if not await self._reach(f"subscribe to {full}", there, SETTLE_S):
                continue
            served = self.observer.served(topic)
            assert served is not None
            passing = pass_over(self.observer, served[1], served[1].subscriptions[name], way)
            await self._reach(
                f"pass over {full}", self.run.loop.spawn(served[0], passing).done, SETTLE_S
            )

    async def _encore(self) -> None:
        """Publish once more, without faults and with nothing pending: it is acknowledged, and that is confirmed."""
        self.history.calm_at = self.run.loop.now
        for producer in self.producers.values():
            producer.encore()
        await self._reach("publish once more", self._published, SETTLE_S)
        await self._reach("deliver once more", self._drained, SETTLE_S)

    def _undrained(self) -> list[str]:
        """Return the bundles of drained brokers while a broker that is not drained may serve them (L10)."""
        try:
            stored = json.loads(self.run.cluster.tree.get(paths.LOADBALANCE_DRAINING)[0])
        except NoNodeError:
            return []
        brokers = {f"{machine.name}:{HTTP_PORT}": machine for machine in self.run.cluster.brokers}
        marked = brokers.keys() & stored["brokers"].keys()
        if marked == brokers.keys():
            self.run.wrong("L10: every broker is drained")
        if not any(brokers[name].ready for name in brokers.keys() - marked):
            return []
        return [
            f"{name} owns {bundle}"
            for name in sorted(marked)
            if (broker := brokers[name].broker) is not None
            for bundle in broker.running.ownership.owned()
        ]

    def _check_stored(self) -> None:
        """Check that every durable subscription is stored."""
        for consumer in self.consumers:
            ledger = TopicName.parse(consumer.topic).managed_ledger_name
            node = paths.cursor(ledger, consumer.subscription)
            if self.run.cluster.tree.exists(node) is None:
                self.run.wrong(f"durable: {consumer.full_name} is not stored")

    async def _power_cycle(self) -> None:
        """Cut the power of all machines at rest; what was acknowledged may not be delivered again."""
        for machine in self.run.cluster.machines.values():
            self.run.cluster.kill(machine, power=True)
            self.run.cluster.start_later(machine, 0.5)
        for consumer in self.consumers:
            consumer.subscribed = False
        await self._reach("come back after power loss", self._subscribed, SETTLE_S)
        await asyncio.sleep(2.0)

    async def _delete_topics(self) -> None:
        """Delete every topic while metadata calls go wrong; of what metadata listed, only what others use stays."""
        for client in self.clients:
            client.stopping = True
            client.cut()
        await asyncio.sleep(1.0)
        tree = self.run.cluster.tree
        ledgers = listed_ledgers(tree)
        share = self.rng.choice((0.0, 0.03, 0.06))
        self.run.nemesis.metadata_rates = (share, share, share)
        deleting = [
            self.administrator.work(self.administrator.delete(topic))
            for topic in self.observer.topics
        ]
        await asyncio.sleep(2.0)
        self.run.nemesis.metadata_rates = (0.0, 0.0, 0.0)
        await self._reach(
            "delete every topic", lambda: all(deletion.done() for deletion in deleting), SETTLE_S
        )
        for topic in self.observer.topics:
            if tree.exists(paths.managed_ledger(topic.managed_ledger_name)) is not None:
                self.run.wrong(f"deletion: {topic} was deleted and exists")
        others = listed_ledgers(tree)
        left = [
            ledger
            for ledger in ledgers
            if tree.exists(paths.ledger(ledger)) is not None and ledger not in others
        ]
        if left:
            self.run.wrong(f"deletion: ledgers {left} stay for ever")

    async def _reach(self, what: str, done: Callable[[], object], bound_s: float) -> bool:
        return await self.run.reach(what, done, bound_s, self._why)

    def _exists(self, topic: str, subscription: str) -> bool:
        served = self.observer.served(topic)
        return served is not None and subscription in served[1].subscriptions

    def _subscribed(self) -> bool:
        return all(consumer.subscribed for consumer in self.consumers)

    def _undecided(self) -> list[str]:
        """Return the consumers of Failover subscriptions that were not notified rightly: the active one that it is
        active, all others that they are not (D8)."""
        texts = []
        for topic in self.observer.topics:
            here = [c for c in self.consumers if c.topic == str(topic) and c.kind == FAILOVER]
            chosen = entitled([(c.priority, c.name) for c in here], topic)
            texts += [
                f"{c.name} was notified that it is {'' if c.active else 'not '}active"
                for c in here
                if c.active is not (c.name == chosen)
            ]
        return texts

    def _published(self) -> bool:
        return not any(producer.unanswered for producer in self.producers.values())

    def _drained(self) -> bool:
        return not self._missing() and not any(c.busy for c in self.consumers)

    def _missing(self) -> list[str]:
        """Return the work that subscriptions still have, by the brokers' own count and by what consumers received."""
        texts = []
        for topic in self.observer.topics:
            backlogs = self.observer.backlogs(topic)
            if backlogs is None:
                texts.append(f"{topic} is served by no broker")
            else:
                # What is published while a subscription does not exist is not kept for it.
                texts += [
                    f"{full} does not exist"
                    for full, name in self.history.subscriptions.items()
                    if self.history.topics[full] == str(topic) and name not in backlogs
                ]
                texts += [
                    f"{topic}/{name} has a backlog of {n}" for name, n in backlogs.items() if n
                ]
        return texts or [
            text for check in checkers.LIVENESS.values() for text in check(self.history)
        ]

    def _why(self) -> list[str]:
        waiting = [
            f"{p.name} waits for {len(p.unanswered)} receipts"
            for p in self.producers.values()
            if p.unanswered
        ]
        if leaked := self.observer.leaked():
            waiting.append(f"ledgers {leaked} are listed nowhere")
        waiting += self._undecided()
        waiting += self._undrained()
        down = [m.name for m in self.run.cluster.machines.values() if not m.ready]
        return [*waiting[:3], *self._missing()[:3], *([f"not ready: {down}"] if down else [])]
