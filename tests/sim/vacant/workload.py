"""A topic that is deleted whenever it is unused, under faults: the messages confirmed while it is held are received.

A host attaches now and then, publishes a few messages and leaves; a guest subscribes, receives and leaves. The topic
is held for as long as the guest's subscription exists (where a subscription holds a topic), or from when the guest's
consumer is attached (where only consumers and a backlog do). Messages sent and confirmed meanwhile must be received.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from engine.base.names import TopicName
from engine.client.raw_consumer import EXCLUSIVE, FROM_LATEST, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.metadata import paths
from engine.tenancy.policies.values import WHEN_CAUGHT_UP
from engine.wire import events
from engine.wire.batches import Message, pack_entry, unpack_entry
from tests.sim.kit.scenario import Run, first_of
from tests.sim.topics.client import Client
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer

TOPIC = TopicName.parse("persistent://public/default/vacant")
PERMITS = 1_000_000
SETTLE_S = 60.0
NODE = paths.managed_ledger(TOPIC.managed_ledger_name)


@dataclass(frozen=True)
class Vacant:
    """Number of hosts, and the longest time that they and the guest are detached, in seconds."""

    hosts: int
    away_s: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Vacant":
        return cls(rng.choice((1, 1, 2)), rng.choice((3.0, 8.0)))

    def setup(self, run: Run) -> "VacantWorkload":
        return VacantWorkload(run, self)


@dataclass
class Sent:
    """``held``: the guest's stay when it was sent; ``at``: when it was confirmed."""

    held: int | None
    at: float | None = None


class Guest(Client):
    """A consumer that subscribes for a while. ``received``: its messages; ``owed``: those that it must receive."""

    def __init__(self, observer: Observer, away_s: float, by_subscription: bool) -> None:
        super().__init__(observer, "guest", TOPIC.full)
        self.away_s = away_s
        self.by_subscription = by_subscription
        self.received: set[int] = set()
        self.owed: set[int] = set()
        self.sent: dict[int, Sent] = {}
        self.stay: int | None = None
        """Number of the present stay; None: does not hold the topic."""
        self.stays = 0
        self.last = False
        """True when the guest must leave for good."""
        self.attached = False
        self.sated = False
        """True when the guest sends permits for a few messages only in this stay."""

    async def _session(self) -> None:
        link = await self.open()
        consumer = await RawConsumer.open(
            link,
            self.topic,
            "s",
            EXCLUSIVE,
            on_messages=lambda messages: self._receive(consumer, messages),
            on_end=self.wake_up,
            initial=FROM_LATEST,
            name=self.name,
        )
        if self.stay is None:
            self.stays += 1
            self.stay = self.stays
        self.sated = not (self.by_subscription or self.calm) and self.rng.random() < 0.5
        consumer.flow(self.rng.randint(1, 3) if self.sated else PERMITS)
        self.attached = True
        until = self.loop.now + self.rng.uniform(0.5, 4.0)
        try:
            while consumer.error is None and not self._may_go(until):
                began = self.loop.now
                await consumer.last_position()  # the consumer is attached, and was since ``began``
                self._owe(began)
                await asyncio.sleep(0.1)
            if consumer.error is not None:
                raise consumer.error
            if self.by_subscription and not self.last and self.rng.random() < 0.5:
                await consumer.close()  # the subscription stays
            elif self.by_subscription:
                self.stay = None
                await consumer.unsubscribe()
            else:
                self.stay = None
                await consumer.close()
        finally:
            self.attached = False
            if not self.by_subscription:
                self.stay = None
        if self.last:
            self.stopping = True
        elif not self.calm:
            await asyncio.sleep(self.rng.uniform(0.0, self.away_s))

    def _owe(self, began: float) -> None:
        for number, message in self.sent.items():
            if message.held == self.stay and message.at is not None and message.at <= began:
                self.owed.add(number)

    def _may_go(self, until: float) -> bool:
        if self.last:
            return not self.missing
        if self.calm or self.loop.now < until:
            return self.calm and self.sated
        return not (self.by_subscription and self._incomplete())

    def _incomplete(self) -> bool:
        """Return whether messages may arrive that must be received before the subscription is deleted."""
        return any(
            message.held == self.stay and number not in self.received
            for number, message in self.sent.items()
        )

    @property
    def missing(self) -> set[int]:
        return self.owed - self.received

    def _receive(self, consumer: RawConsumer, messages: Sequence[events.Delivered]) -> None:
        for message in messages:
            (content,) = unpack_entry(message.entry).messages
            self.received.add(int(content.value or b""))
        consumer.acknowledge([message.position for message in messages])


class Host(Client):
    """A producer that publishes a few messages, waits for the receipts, and leaves."""

    def __init__(self, observer: Observer, name: str, away_s: float, guest: Guest) -> None:
        super().__init__(observer, name, TOPIC.full)
        self.away_s = away_s
        self.guest = guest
        self.quiet = False
        self._waiting: list[int] = []

    async def _session(self) -> None:
        if self.quiet:
            self.stopping = True
            return
        link = await self.open()
        producer = await RawProducer.open(
            link, self.topic, on_receipts=self._receipts, on_end=self.wake_up
        )
        self._waiting = []
        for _ in range(self.rng.randint(1, 3)):
            for _ in range(self.rng.choice((1, 1, 3))):
                self._say(producer)
            await asyncio.sleep(self.rng.uniform(0.0, 0.3))
        while self._waiting and producer.error is None:
            self.wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.wake.wait()
        if producer.error is not None:
            raise producer.error
        await producer.close()
        self.cut()
        await asyncio.sleep(self.rng.uniform(0.0, self.away_s))

    def _say(self, producer: RawProducer) -> None:
        guest = self.guest
        number = len(guest.sent)
        guest.sent[number] = Sent(guest.stay)
        self._waiting.append(number)
        message = Message(b"%d" % number, sequence_id=number)
        producer.send([number], [pack_entry([message], producer_name=self.name, publish_ms=1)])

    def _receipts(self, receipts: Sequence[events.Receipt]) -> None:
        for _, number, *_ in receipts:
            self._waiting.remove(number)
            message = self.guest.sent[number]
            message.at = self.loop.now
            if (
                message.held is not None
                and message.held == self.guest.stay
                and self.guest.by_subscription
            ):
                self.guest.owed.add(number)
        self.wake.set()


class VacantWorkload:
    def __init__(self, run: Run, plan: Vacant) -> None:
        self.run = run
        observer = self.observer = Observer(run.cluster, [TOPIC.full])
        by_subscription = run.cluster.shape.inactive != WHEN_CAUGHT_UP
        self.guest = Guest(observer, plan.away_s, by_subscription)
        self.hosts = [
            Host(observer, f"host-{i}", plan.away_s, self.guest) for i in range(plan.hosts)
        ]
        run.faults |= {name: partial(act, observer) for name, act in TOPIC_FAULTS.items()}
        self._there = False

    async def start(self) -> None:
        self.run.watch(self._look)
        self.guest.start()
        await self.run.reach("listen", lambda: self.guest.attached, SETTLE_S, lambda: ["a guest"])
        for host in self.hosts:
            host.start()

    def _look(self) -> None:
        there = self.run.cluster.tree.exists(NODE) is not None
        if self._there and not there:
            self.run.cluster.count("topic deleted")
        self._there = there

    async def quiet(self) -> None:
        guest = self.guest
        for host in self.hosts:
            host.quiet = host.calm = True
        guest.calm = True
        await self.run.reach(
            "go", lambda: all(host.stopping for host in self.hosts), SETTLE_S, lambda: ["hosts"]
        )
        await self.run.reach(
            "hear what was confirmed",
            lambda: guest.attached and not guest.missing,
            SETTLE_S,
            lambda: [str(sorted(guest.missing)[:5])],
        )
        guest.last = True
        await self.run.reach("leave", lambda: guest.stopping, SETTLE_S, lambda: ["the guest"])
        await self.run.reach(
            "delete what nobody uses",
            lambda: self.run.cluster.tree.exists(NODE) is None,
            SETTLE_S,
            lambda: ["the topic"],
        )

    def check(self) -> list[str]:
        guest = self.guest
        wrong = list(self.observer.history.anomalies)
        if guest.missing:
            wrong.append(f"vacant: confirmed and never heard: {sorted(guest.missing)[:5]}")
        self.run.cluster.count("owed", len(guest.owed))
        self.run.cluster.count("said", len(guest.sent))
        return first_of(wrong, "vacant")
