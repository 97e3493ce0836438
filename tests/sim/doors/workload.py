"""The client that gateways use, with its producers and consumers, under faults: every confirmed message is received on
each subscription, in order where its type has one, and not again after its acknowledgement."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.budget import Budget
from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import (
    BatchSettings,
    ProducerSettings,
    SendResult,
)
from engine.client.producing.topic_producer import TopicProducer
from engine.client.raw_consumer import EXCLUSIVE, FAILOVER, FROM_EARLIEST, KEY_SHARED, SHARED
from tests.sim.kit.cluster import BROKER_PORT
from tests.sim.kit.loop import Node
from tests.sim.kit.network import SimNetwork
from tests.sim.kit.scenario import Run, first_of

TOPIC = "persistent://public/default/doors"
KINDS = {
    "exclusive": EXCLUSIVE,
    "failover": FAILOVER,
    "shared": SHARED,
    "key_shared": KEY_SHARED,
}
LAST = 30
"""Number of messages sent after the faults."""
WINDOW = 40
SETTLE_S = 60.0
REST_S = 10.0
"""Time after which refused and unacknowledged messages have been redelivered."""
SETTINGS = LinkSettings(
    "Magnetar-simulated", connect_timeout_s=5.0, request_timeout_s=5.0, keep_alive_s=2.0
)


@dataclass(frozen=True)
class Doors:
    """Subscriptions by kind, one entry for each consumer; how often 1 to 8 messages are sent; whether in batches."""

    consumers: tuple[str, ...]
    rate: float
    batches: bool

    @classmethod
    def draw(cls, rng: random.Random) -> "Doors":
        kinds = rng.sample(tuple(KINDS), 2)
        pairs = [kind for kind in kinds for _ in range(1 if kind == "exclusive" else 2)]
        return cls(tuple(pairs), rng.choice((5.0, 20.0)), rng.random() < 0.5)

    def setup(self, run: Run) -> "DoorsWorkload":
        return DoorsWorkload(run, self)


class Listener:
    """A consumer that acknowledges most messages, refuses some, and leaves some until they are redelivered."""

    def __init__(self, kind: str, rng: random.Random, received: list[int]) -> None:
        """``received``: messages of all consumers of the subscription."""
        self.kind = kind
        self.calm = False
        self.consumer: TopicConsumer | None = None
        self.ends: list[MagnetarError] = []
        self._rng = rng
        self._received = received
        self._forgotten: list[Incoming] = []

    async def open(self, client: PulsarClient) -> None:
        settings = ConsumerSettings(
            self.kind,
            kind=KINDS[self.kind],
            initial=FROM_EARLIEST,
            nack_delay_s=0.5,
            ack_timeout_s=2.0,
            queue_size=WINDOW,
        )
        self.consumer = await TopicConsumer.open(
            client, [TOPIC], settings, on_messages=self._receive, on_end=self.ends.append
        )
        self.consumer.allow(WINDOW)

    def _receive(self, run: Sequence[Incoming]) -> None:
        assert self.consumer is not None
        for message in run:
            assert message.content is not None
            self._received.append(int(message.content))
            chance = 0.0 if self.calm else self._rng.random()
            if chance < 0.8:
                self.consumer.acknowledge(message)
            elif chance < 0.9:
                self.consumer.refuse(message)
        self.consumer.allow(len(run))


class DoorsWorkload:
    def __init__(self, run: Run, plan: Doors) -> None:
        self.run = run
        self.rng = run.rng
        self.plan = plan
        self.sent = 0
        self.confirmed: set[int] = set()
        self.received: dict[str, list[int]] = {kind: [] for kind in plan.consumers}
        self.listeners = [
            Listener(kind, random.Random(f"{run.loop.seed}/{kind}/{i}"), self.received[kind])
            for i, kind in enumerate(plan.consumers)
        ]
        self.client: PulsarClient | None = None
        self.producer: TopicProducer | None = None
        self.calm = False
        self._node = Node("gateway")
        self._wrong: list[str] = []

    def _in_gateway(self, work: "asyncio.Future[None] | object") -> "asyncio.Task[None]":
        task = self.run.loop.spawn(self._node, work)  # type: ignore[arg-type]
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.run.cluster.failures.append(f"gateway: {type(error).__name__}: {error}")

    async def _brokers(self) -> list[str]:
        return [f"pulsar://{broker.name}:{BROKER_PORT}" for broker in self.run.cluster.brokers]

    async def start(self) -> None:
        self.run.cluster.clients.append("gateway")
        opened = self._in_gateway(self._open())
        await self.run.reach("open the doors", opened.done, SETTLE_S, lambda: ["some"])
        self._in_gateway(self._publish())

    async def _open(self) -> None:
        self.client = PulsarClient(
            network=SimNetwork(self.run.cluster.world),
            clock=LoopClock(),
            entropy=RandomEntropy(random.Random(f"{self.run.loop.seed}/gateway")),
            brokers=self._brokers,
            settings=SETTINGS,
            operation_timeout_s=SETTLE_S,
        )
        for listener in self.listeners:
            await listener.open(self.client)
        batching = BatchSettings(messages_max=10, delay_s=0.01) if self.plan.batches else None
        self.producer = await TopicProducer.open(
            self.client,
            TOPIC,
            ProducerSettings(send_timeout_s=0, batching=batching),
            budget=Budget(1 << 30),
            on_results=self._answered,
        )

    def _answered(self, results: Sequence[SendResult]) -> None:
        for token, message_id, error in results:
            if message_id is None:
                self._wrong.append(f"{token} was given up: {error}")
            else:
                self.confirmed.add(token)

    async def _publish(self) -> None:
        while not self.calm:
            self._say(self.rng.choice((1, 1, 2, 8)))
            await asyncio.sleep(self.rng.expovariate(self.plan.rate))

    def _say(self, count: int) -> None:
        assert self.producer is not None
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        self.producer.send([OutgoingMessage(b"%d" % n, n, key=f"k{n % 7}") for n in numbers])

    def _incomplete(self) -> list[str]:
        return [
            kind for kind, received in self.received.items() if not self.confirmed <= set(received)
        ]

    async def quiet(self) -> None:
        self.calm = True
        for listener in self.listeners:
            listener.calm = True
        await asyncio.sleep(1.0)
        self._in_gateway(self._say_last())
        await self.run.reach(
            "publish all that was begun",
            lambda: self.sent >= LAST and len(self.confirmed) == self.sent,
            SETTLE_S,
            lambda: [f"{self.sent - len(self.confirmed)} without receipt"],
        )
        await self.run.reach("hear all", lambda: not self._incomplete(), SETTLE_S, self._incomplete)
        await asyncio.sleep(REST_S)
        before = {kind: len(received) for kind, received in self.received.items()}
        again = self._in_gateway(self._come_again())
        await self.run.reach("come again", again.done, SETTLE_S, lambda: ["some"])
        await asyncio.sleep(REST_S)
        for kind, received in self.received.items():
            if len(received) > before[kind]:
                more = received[before[kind] :][:5]
                self._wrong.append(f"{more} came again on {kind}, acknowledged as it was")

    async def _say_last(self) -> None:
        self._say(LAST)

    async def _come_again(self) -> None:
        assert self.client is not None
        for listener in self.listeners:
            assert listener.consumer is not None
            await listener.consumer.close()
        for listener in self.listeners:
            await listener.open(self.client)

    def check(self) -> list[str]:
        for listener in self.listeners:
            self._wrong += [f"{listener.kind} ended by itself: {end}" for end in listener.ends]
        for kind, received in self.received.items():
            first = list(dict.fromkeys(received))
            if kind == "exclusive" and first != sorted(first):
                self._wrong.append("something came out of order")
            self.run.cluster.count(f"heard on {kind}", len(received))
            self.run.cluster.count("came again", len(received) - len(first))
        self.run.cluster.count("confirmed", len(self.confirmed))
        return first_of([f"doors: {text}" for text in self._wrong], "doors")
