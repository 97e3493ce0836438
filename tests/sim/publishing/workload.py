"""The engine's own producers under faults: their messages are stored, in order by key, and each is confirmed once.

Producers reconnect by themselves after crashed brokers, moved topics and lost links. With deduplication a message is
stored once; without it a message may be stored more than once, but never before messages first sent ahead of it.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from engine.base.budget import Budget
from engine.base.names import TopicName
from engine.client.client import never_final, partition_names
from engine.client.message_ids import MessageId
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Routing
from engine.client.producing.partition_producer import (
    BatchSettings,
    ProducerSettings,
    SendResult,
)
from engine.client.producing.topic_producer import TopicProducer
from engine.wire.commands import NOWHERE
from tests.sim.kit.loop import Node
from tests.sim.kit.scenario import Run, first_of
from tests.sim.publishing.keeper import SETTLE_S, Keeper, client_of
from tests.sim.topics.administrator import Administrator
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer

TOPIC = TopicName.parse("persistent://public/default/published")
KEYS = 5
IN_FLIGHT_BYTES = 200_000


@dataclass(frozen=True)
class PublisherPlan:
    batching: BatchSettings | None
    compression: int
    routing: Routing
    rate: float
    """Runs of 1 to 30 messages per second."""

    @classmethod
    def draw(cls, rng: random.Random) -> "PublisherPlan":
        batch = BatchSettings(rng.choice((2, 10)), rng.choice((100, 5000)), rng.choice((0.01, 0.2)))
        return cls(
            rng.choice((None, batch)), rng.randrange(5), rng.choice((*Routing,)), rng.uniform(3, 15)
        )


@dataclass(frozen=True)
class Publishing:
    """``partitions`` 0: the topic has none."""

    partitions: int
    publishers: tuple[PublisherPlan, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> "Publishing":
        plans = tuple(PublisherPlan.draw(rng) for _ in range(rng.choice((1, 2, 3))))
        return cls(rng.choice((0, 0, 3)), plans)

    def setup(self, run: Run) -> "PublishingWorkload":
        return PublishingWorkload(run, self)


class Publisher:
    """A producer of the shipped client on its own node, with all messages that it sent and all ids it received."""

    def __init__(
        self, observer: Observer, name: str, plan: PublisherPlan, topic: TopicName = TOPIC
    ) -> None:
        cluster = self.cluster = observer.cluster
        self.topic = topic
        self.loop = cluster.loop
        cluster.clients.append(name)
        self.observer = observer
        self.name = name
        self.plan = plan
        self.rng = random.Random(f"{self.loop.seed}/{name}")
        self.node = Node(name)
        self.quiet = False
        self.producer: TopicProducer | None = None
        self.sent: list[str] = []
        """The key of each message, by its number."""
        self.confirmed: dict[int, MessageId] = {}
        self.budget = Budget(IN_FLIGHT_BYTES)

    def start(self) -> None:
        task = self.loop.spawn(self.node, self._publish())
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.cluster.failures.append(f"publisher {self.name}: {task.exception()!r}")

    async def _publish(self) -> None:
        client, plan, settings = client_of(self.cluster, self.name), self.plan, self.settings()
        self.producer = await client.patiently(
            lambda: TopicProducer.open(
                client, str(self.topic), settings, budget=self.budget, on_results=self._receive
            ),
            timeout_s=None,
            is_final=never_final,
        )
        while not self.quiet:
            if not self.budget.high:
                self.send(self.rng.randint(1, 30))
            await asyncio.sleep(self.rng.expovariate(plan.rate))

    def settings(self) -> ProducerSettings:
        plan = self.plan
        return ProducerSettings(
            name=self.name,
            send_timeout_s=0.0,
            routing=plan.routing,
            batching=plan.batching,
            compression=plan.compression,
        )

    def message(self, number: int, key: str, content: bytes) -> OutgoingMessage:
        return OutgoingMessage(content, number, key=key)

    def send(self, count: int) -> None:
        assert self.producer is not None
        messages = []
        for _ in range(count):
            number, key = len(self.sent), f"k{self.rng.randrange(KEYS)}"
            self.sent.append(key)
            padding = b"." * self.rng.choice((0, 10, 200, 3000))
            content = b"%s:%d:%s" % (self.name.encode(), number, padding)
            messages.append(self.message(number, key, content))
        self.producer.send(messages)

    def _receive(self, results: Sequence[SendResult]) -> None:
        for number, message_id, error in results:
            if message_id is None:
                self.observer.wrong(f"publishing: {self.name} {number} failed: {error!r}")
            elif number in self.confirmed:
                self.observer.wrong(f"publishing: {self.name} {number} was told twice")
            else:
                self.confirmed[number] = message_id

    @property
    def all_confirmed(self) -> bool:
        return self.producer is not None and len(self.confirmed) == len(self.sent)


class PublishingWorkload:
    def __init__(self, run: Run, plan: Publishing) -> None:
        self.run = run
        self.partitions = plan.partitions
        self.topics = partition_names(str(TOPIC), plan.partitions)
        self.observer = Observer(run.cluster, self.topics)
        self.administrator = Administrator(self.observer, visits=False)
        self.publishers = [
            Publisher(self.observer, f"pub-p{i}", publisher)
            for i, publisher in enumerate(plan.publishers)
        ]
        self.keeper = Keeper(run, self.topics)
        run.faults |= {name: partial(act, self.observer) for name, act in TOPIC_FAULTS.items()}

    async def start(self) -> None:
        if self.partitions:
            administrator = self.administrator
            await administrator.work(administrator.create_partitioned(TOPIC, self.partitions))
        await self.keeper.keep()
        for publisher in self.publishers:
            publisher.start()
        await self.run.reach(
            "publish",
            lambda: all(publisher.confirmed for publisher in self.publishers),
            SETTLE_S,
            self._waiting,
        )

    def _waiting(self) -> list[str]:
        return [
            f"{publisher.name}: {len(publisher.confirmed)} of {len(publisher.sent)}"
            for publisher in self.publishers
            if not publisher.all_confirmed
        ]

    async def quiet(self) -> None:
        for publisher in self.publishers:
            publisher.quiet = True
        await self.run.reach(
            "tell all that was sent",
            lambda: all(publisher.all_confirmed for publisher in self.publishers),
            SETTLE_S,
            self._waiting,
        )
        await self.keeper.read()

    def check(self) -> list[str]:
        if set(self.keeper.stored) != set(self.topics):
            return []  # the run was cut short, which is reported already
        wrong: list[str] = list(self.observer.history.anomalies)
        where: dict[tuple[str, int], list[MessageId]] = {}
        order: dict[tuple[str, str], list[int]] = {}
        by_name = {client.name: client for client in self.publishers}
        deduplicated = self.run.cluster.shape.deduplication
        for index, topic in enumerate(self.topics):
            partition = index if self.partitions else -1
            for message_id, content in self.keeper.messages(topic, partition):
                name, number, _ = content.decode().split(":")
                at = where.setdefault((name, int(number)), [])
                if not at:
                    key = by_name[name].sent[int(number)]
                    order.setdefault((name, key), []).append(int(number))
                at.append(message_id)
        for publisher in self.publishers:
            for number in range(len(publisher.sent)):
                copies = where.get((publisher.name, number), [])
                if not copies:
                    wrong.append(f"publishing: {publisher.name} {number} is lost")
                elif len(copies) > 1 and deduplicated:
                    wrong.append(f"publishing: {publisher.name} {number} is stored again")
                elif (
                    number in publisher.confirmed
                    and publisher.confirmed[number] not in copies
                    and not (deduplicated and publisher.confirmed[number].position == NOWHERE)
                ):
                    wrong.append(
                        f"publishing: {publisher.name} {number} is not at {publisher.confirmed[number]}"
                    )
        for (name, key), numbers in order.items():
            if numbers != sorted(numbers):
                wrong.append(f"publishing: {name} of key {key} is out of order")
        self.run.cluster.count(
            "published", sum(len(client.confirmed) for client in self.publishers)
        )
        if deduplicated:
            ids = (place for client in self.publishers for place in client.confirmed.values())
            self.run.cluster.count(
                "duplicates", sum(message_id.position == NOWHERE for message_id in ids)
            )
        self.run.cluster.count("stored again", sum(len(copies) - 1 for copies in where.values()))
        return first_of(wrong, "publishing")
