"""Works with many consumers of one topic, each on a connection of its own: Shared, Key_Shared, Failover, fan-out."""

import asyncio
import itertools
import time
from collections.abc import Sequence

from engine.base.ids import Position
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_consumer import (
    EXCLUSIVE,
    FAILOVER,
    FROM_EARLIEST,
    KEY_SHARED,
    SHARED,
    RawConsumer,
)
from engine.client.raw_producer import RawProducer
from engine.net.network import LoopNetwork
from engine.wire.batches import Message, pack_entry
from engine.wire.events import Delivered
from tests.bench.contenders import Contender
from tests.bench.figures import Figures
from tests.bench.loads import new_topic, rates

SIZE = 1024
PERMITS = 1000
RUN = 100
WINDOW = 1000
TIMEOUT_S = 120.0


class Count:
    """A count of expected items, and an event that is set at the last one."""

    def __init__(self, wanted: int) -> None:
        self.left = wanted
        self.done = asyncio.Event()

    def add(self, number: int) -> None:
        self.left -= number
        if self.left <= 0:
            self.done.set()

    async def all(self) -> None:
        """Wait for the last item. Raises TimeoutError."""
        async with asyncio.timeout(TIMEOUT_S):
            await self.done.wait()


class Reader:
    """A consumer that grants permits by the half and acknowledges ``ack_run`` entries at once, 0 for never.

    ``batch``: messages in an entry.
    """

    def __init__(self, count: Count, ack_run: int, batch: int = 1) -> None:
        self._count = count
        self._ack_run = ack_run
        self._batch = batch
        self._owed = 0
        self._unacknowledged: list[Position] = []
        self._consumer: RawConsumer | None = None

    async def open(self, link: BrokerLink, topic: str, subscription: str, kind: int) -> None:
        self._consumer = await RawConsumer.open(
            link,
            topic,
            subscription,
            kind,
            on_messages=self._received,
            initial=FROM_EARLIEST,
        )

    def begin(self) -> None:
        assert self._consumer is not None
        self._consumer.flow(PERMITS)

    def _received(self, messages: Sequence[Delivered]) -> None:
        assert self._consumer is not None
        self._owed += len(messages) * self._batch
        if self._owed >= PERMITS // 2:
            self._consumer.flow(self._owed)
            self._owed = 0
        if self._ack_run:
            self._unacknowledged += [message.position for message in messages]
            self._acknowledge(self._ack_run)
        self._count.add(len(messages))

    def _acknowledge(self, run: int) -> None:
        """Acknowledge all full runs; less than one remains."""
        assert self._consumer is not None
        waiting = self._unacknowledged
        while len(waiting) >= run:
            self._consumer.acknowledge(waiting[:run])
            del waiting[:run]

    def finish(self) -> None:
        """Acknowledge the remaining entries."""
        if self._unacknowledged:
            self._acknowledge(len(self._unacknowledged))


def entries(keys: int = 0) -> list[bytes]:
    """Return the entries that are sent in turn: one, or one of each key."""
    value = b"0123456789abcdef" * (SIZE // 16)
    messages = [Message(value, key=f"key-{number}") for number in range(keys)] or [Message(value)]
    return [
        pack_entry([message], producer_name="bench", publish_ms=1_700_000_000_000)
        for message in messages
    ]


async def publish(
    link: BrokerLink, topic: str, count: int, contents: Sequence[bytes], batch: int = 1
) -> None:
    """``count`` entries of ``batch`` messages, at most WINDOW messages without a receipt."""
    room = asyncio.Event()
    producer = await RawProducer.open(link, topic, on_receipts=lambda receipts: room.set())
    turn = itertools.cycle(contents)
    step = max(RUN // batch, 1)
    for first in range(0, count, step):
        run = range(first, min(first + step, count))
        while producer.unanswered > WINDOW // batch - step:
            room.clear()
            async with asyncio.timeout(TIMEOUT_S):
                await room.wait()
        producer.send(run, list(itertools.islice(turn, len(run))), [batch] * len(run))
    async with asyncio.timeout(TIMEOUT_S):
        await producer.drained()


class Fan:
    """Connections to one topic, a new one for each who asks."""

    def __init__(self, contender: Contender, what: str) -> None:
        self._url = contender.url
        self._links: list[Links[BrokerLink]] = []
        self.topic = new_topic(what)

    async def link(self) -> BrokerLink:
        self._links.append(Links(LoopNetwork(), LinkSettings("bench"), BrokerLink))
        return await self._links[-1].owner(self.topic, self._url)

    async def close(self) -> None:
        for links in self._links:
            await links.close()


def shared(contender: Contender, count: int, consumers: int, ack_run: int) -> Figures:
    """Deliver a backlog of ``count`` messages to the consumers of one Shared subscription, which acknowledge it."""
    return asyncio.run(_given_out(contender, count, consumers, ack_run, SHARED, 0))


def failover(contender: Contender, count: int, consumers: int) -> Figures:
    """Deliver a backlog to one consumer of a Failover subscription at a time. See ``shared``."""
    return asyncio.run(_given_out(contender, count, consumers, 1, FAILOVER, 0))


def key_shared(contender: Contender, count: int, consumers: int, keys: int) -> Figures:
    """Deliver a backlog to the consumers of a Key_Shared subscription by key. See ``shared``."""
    return asyncio.run(_given_out(contender, count, consumers, 1, KEY_SHARED, keys))


async def _given_out(
    contender: Contender, count: int, consumers: int, ack_run: int, kind: int, keys: int
) -> Figures:
    fan = Fan(contender, "shared")
    try:
        arrived = Count(count)
        readers = [Reader(arrived, ack_run) for _ in range(consumers)]
        for reader in readers:
            await reader.open(await fan.link(), fan.topic, "s", kind)
        await publish(await fan.link(), fan.topic, count, entries(keys))
        await asyncio.sleep(0.3)  # what is written behind is not the work
        cpu, began = contender.cpu_s(), time.perf_counter()
        for reader in readers:
            reader.begin()
        await arrived.all()
        took = time.perf_counter() - began
        for reader in readers:
            reader.finish()
        await asyncio.sleep(0.3)
        return rates(count, SIZE, took, contender.cpu_s() - cpu)
    finally:
        await fan.close()


def delayed(contender: Contender, count: int) -> Figures:
    """``count`` messages are published, each to be delivered 10 to 20 s later, and delivered and acknowledged: all of
    it, with the waiting."""

    async def work() -> Figures:
        fan, arrived = Fan(contender, "delayed"), Count(count)
        try:
            reader = Reader(arrived, 100)
            await reader.open(await fan.link(), fan.topic, "s", SHARED)
            reader.begin()
            first_ms = int(time.time() * 1000) + 10_000
            value = Message(b"0123456789abcdef" * (SIZE // 16))
            contents = [
                pack_entry(
                    [value],
                    producer_name="bench",
                    publish_ms=1,
                    extra={"deliver_at_time": first_ms + i * 7919 % 10_000},
                )
                for i in range(min(count, 10_000))
            ]
            cpu, began = contender.cpu_s(), time.perf_counter()
            await publish(await fan.link(), fan.topic, count, contents)
            await arrived.all()
            took = time.perf_counter() - began
            reader.finish()
            await asyncio.sleep(0.3)
            return rates(count, SIZE, took, contender.cpu_s() - cpu)
        finally:
            await fan.close()

    return asyncio.run(work())


def catch_up(contender: Contender, count: int, batch: int) -> Figures:
    """Read a backlog of ``count`` entries with ``batch`` messages each by one consumer; return figures of an entry."""

    async def work() -> Figures:
        fan, arrived = Fan(contender, "batches"), Count(count)
        try:
            value = b"0123456789abcdef" * (SIZE // 16)
            entry = pack_entry([Message(value)] * batch, producer_name="bench", publish_ms=1)
            await publish(await fan.link(), fan.topic, count, [entry], batch)
            await asyncio.sleep(0.5)
            reader = Reader(arrived, 10, batch)
            await reader.open(await fan.link(), fan.topic, "s", EXCLUSIVE)
            cpu, began = contender.cpu_s(), time.perf_counter()
            reader.begin()
            await arrived.all()
            took = time.perf_counter() - began
            await asyncio.sleep(0.3)
            return rates(count, SIZE * batch, took, contender.cpu_s() - cpu)
        finally:
            await fan.close()

    return asyncio.run(work())


def fan_out(contender: Contender, count: int, subscriptions: int) -> Figures:
    """Messages published while as many subscriptions read along; figures for each delivery."""
    return asyncio.run(_fanned_out(contender, count, subscriptions))


async def _fanned_out(contender: Contender, count: int, subscriptions: int) -> Figures:
    fan = Fan(contender, "fan-out")
    try:
        deliveries = count * subscriptions
        arrived = Count(deliveries)
        for number in range(subscriptions):
            reader = Reader(arrived, 0)
            await reader.open(await fan.link(), fan.topic, f"s{number}", EXCLUSIVE)
            reader.begin()
        link = await fan.link()
        cpu, began = contender.cpu_s(), time.perf_counter()
        await publish(link, fan.topic, count, entries())
        await arrived.all()
        took = time.perf_counter() - began
        await asyncio.sleep(0.3)
        return rates(deliveries, SIZE, took, contender.cpu_s() - cpu)
    finally:
        await fan.close()
