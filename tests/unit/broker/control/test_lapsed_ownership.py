"""A broker that was frozen beyond its session confirms nothing once it thaws, in simulated time."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.base.names import TopicName
from engine.broker.topics.topic import Topic
from engine.managed.errors import ManagedLedgerFencedError
from engine.managed.ledger import InitialPosition
from tests.sim.kit.cluster import Cluster, Machine, Shape
from tests.sim.kit.loop import SimLoop, simulate
from tests.sim.topics.observer import Observer
from tests.sim.topics.producer import Producer

TOPIC = "persistent://public/default/t"
SESSION_S = 2.0


async def _until(condition: Callable[[], object], poll_s: float = 0.001) -> None:
    async with asyncio.timeout(60.0):
        while not condition():
            await asyncio.sleep(poll_s)


class Stage:
    """Two brokers on one bookie, and a producer that has published to the first of them."""

    def __init__(self, loop: SimLoop) -> None:
        shape = Shape.draw(random.Random(1))
        shape = replace(
            shape, brokers=2, bookies=1, quorum=(1, 1, 1), session_s=SESSION_S, ledger_entries=1000
        )
        self.loop = loop
        self.cluster = Cluster(loop, shape)
        self.observer = Observer(self.cluster, [TOPIC])
        self.producer = Producer(self.observer, "p", TOPIC, 200.0, lambda: True)

    async def open(self) -> tuple[Machine, Topic]:
        """Start everything; return the broker that serves the topic, and the topic there."""
        for machine in self.cluster.machines.values():
            self.cluster.start(machine)
        self.producer.start()
        await _until(lambda: self.observer.history.receipts)
        for machine in self.cluster.brokers:
            topic = self.loaded(machine)
            if topic is not None:
                return machine, topic
        raise AssertionError("no broker serves the topic")

    @staticmethod
    def loaded(machine: Machine) -> Topic | None:
        assert machine.broker is not None
        return machine.broker.running.registry.loaded(TopicName.parse(TOPIC))

    async def freeze(self, machine: Machine) -> None:
        """Pause the broker until another one has confirmed a message."""
        assert machine.node is not None
        (other,) = [broker for broker in self.cluster.brokers if broker is not machine]
        self.loop.pause(machine.node)
        await _until(lambda: (topic := self.loaded(other)) and topic.published.messages.total, 0.05)

    async def thaw(self, machine: Machine) -> None:
        assert machine.node is not None
        self.loop.resume(machine.node)
        await _until(lambda: self.loaded(machine) is None, 0.05)
        await asyncio.sleep(2 * SESSION_S)


@pytest.mark.parametrize("seed", range(5))
def test_no_receipt_leaves_after_the_session_may_have_ended(seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        stage = Stage(loop)
        first, topic = await stage.open()
        await _until(lambda: topic.log.stats().pending_entries)
        confirmed = topic.published.messages.total
        await stage.freeze(first)
        await stage.thaw(first)
        assert topic.published.messages.total == confirmed
        assert not topic.producers
        assert stage.observer.history.anomalies == []

    simulate(seed, main, 100.0)


@pytest.mark.parametrize("seed", range(5))
def test_no_acknowledgement_is_confirmed_after_the_session_may_have_ended(seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        stage = Stage(loop)
        first, topic = await stage.open()
        assert first.node is not None
        await loop.spawn(first.node, topic.subscriptions.create("s", InitialPosition.EARLIEST, {}))
        cursor = topic.subscriptions["s"].cursor
        cursor.acknowledge([topic.log.last_confirmed])
        confirming = loop.spawn(first.node, cursor.persisted())
        await asyncio.sleep(0.0002 * seed)
        assert not confirming.done()
        await stage.freeze(first)
        await stage.thaw(first)
        with pytest.raises(ManagedLedgerFencedError):
            await confirming

    simulate(seed, main, 100.0)
