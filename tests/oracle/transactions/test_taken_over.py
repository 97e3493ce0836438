"""Open, committed and aborted transactions of a topic that changes between Apache's broker and ours."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from engine.base.ids import Position
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.net.network import LoopNetwork
from engine.tenancy.initialization import COORDINATORS
from engine.wire import client_commands as say
from engine.wire.batches import Message, pack_entry, unpack_entry
from engine.wire.errors import RefusedError
from engine.wire.events import Delivered
from tests.oracle.servers import ApacheBroker, OurBookies, OurBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SUBSCRIPTION = "s"
TIMEOUT_MS = 3_600_000
QUIET_S = 3.0
"""Seconds without a message after which no more are expected."""
PATIENCE_S = 60.0
Txn = tuple[int, int]


class Client:
    """Connections to the one broker that runs."""

    def __init__(self, url: str, topic: str) -> None:
        self.url = url
        self.topic = topic
        settings = LinkSettings("oracle", connect_timeout_s=10, request_timeout_s=30)
        self.links = Links(LoopNetwork(), settings, BrokerLink)
        self.received: dict[str, Position] = {}
        self._sequence = 0
        self._arrived = asyncio.Event()
        self.consumer: RawConsumer
        self.producer: RawProducer
        self.coordinator: BrokerLink

    async def open(self) -> None:
        """Attach a consumer and a producer, and connect to the first coordinator, which may not be ready yet."""
        link = await self.links.owner(self.topic, self.url)
        self.producer = await RawProducer.open(link, self.topic)
        self.consumer = await RawConsumer.open(
            link,
            self.topic,
            SUBSCRIPTION,
            SHARED,
            on_messages=self._receive,
            initial=FROM_EARLIEST,
        )
        self.consumer.flow(1000)
        assigned = str(COORDINATORS.partition_at(0))
        self.coordinator = await self.links.owner(assigned, self.url)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await self.ask(self.coordinator, lambda i: say.connect_coordinator(0, i))
                    return
                except RefusedError:
                    await asyncio.sleep(0.5)

    async def ask(self, link: BrokerLink, frame: Callable[[int], bytes]) -> Txn:
        """Request something and return the transaction that the answer names."""
        request_id = link.new_id()
        answer = await link.request(request_id, frame(request_id))
        return getattr(answer, "txnid_most_bits", 0), getattr(answer, "txnid_least_bits", 0)

    def _receive(self, messages: Sequence[Delivered]) -> None:
        for message in messages:
            (content,) = unpack_entry(message.entry).messages
            assert content.value is not None
            self.received[content.value.decode()] = message.position
            self._arrived.set()

    async def all_received(self) -> set[str]:
        """Return the contents of the messages received so far, when no more arrive."""
        while True:
            self._arrived.clear()
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._arrived.wait()
            except TimeoutError:
                return set(self.received)

    async def send(self, content: str, txn: Txn | None = None) -> None:
        extra = {} if txn is None else {"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]}
        entry = pack_entry(
            [Message(content.encode(), sequence_id=self._sequence)],
            producer_name=self.producer.name,
            publish_ms=1,
            extra=extra,
        )
        self.producer._unanswered.append(self._sequence)
        self.producer.link.send(say.send(self.producer.producer_id, self._sequence, entry, txn=txn))
        self._sequence += 1
        await self.producer.drained()

    async def begin(self, content: str, acknowledged: str) -> Txn:
        """Begin a transaction that publishes a message and acknowledges another."""
        link = self.coordinator
        txn = await self.ask(link, lambda i: say.new_transaction(0, i, TIMEOUT_MS))
        await self.ask(link, lambda i: say.add_partitions(txn, i, [self.topic]))
        subscription = (self.topic, SUBSCRIPTION)
        await self.ask(link, lambda i: say.add_subscriptions(txn, i, [subscription]))
        await self.send(content, txn)
        position, consumer = self.received[acknowledged], self.consumer
        await self.ask(
            consumer.link,
            lambda i: say.ack(consumer.consumer_id, [position], request_id=i, txn=txn),
        )
        return txn

    async def end(self, txn: Txn, *, commit: bool) -> None:
        await self.ask(self.coordinator, lambda i: say.end_transaction(txn, i, commit=commit))


async def before(url: str, topic: str) -> list[Txn]:
    """Leave a topic with transactions that are committed, aborted and open; return the open ones."""
    client = Client(url, topic)
    await client.open()
    for i in range(6):
        await client.send(f"m{i}")
    assert await client.all_received() == {f"m{i}" for i in range(6)}
    await client.end(await client.begin("committed", "m0"), commit=True)
    await client.end(await client.begin("aborted", "m1"), commit=False)
    open_ones = [await client.begin("open-1", "m2"), await client.begin("open-2", "m3")]
    await client.send("behind")
    assert await client.all_received() == {*(f"m{i}" for i in range(6)), "committed"}
    await client.links.close()
    return open_ones


async def after(url: str, topic: str, open_ones: list[Txn]) -> None:
    """Check that another broker shows the same, and end the open transactions there."""
    client = Client(url, topic)
    await client.open()
    assert await client.all_received() == {"m1", "m4", "m5", "committed"}
    first, second = open_ones
    await client.end(first, commit=True)
    assert await client.all_received() == {"m1", "m4", "m5", "committed", "open-1"}
    await client.end(second, commit=False)
    assert await client.all_received() == {
        *("m1", "m3", "m4", "m5", "committed", "open-1", "behind"),
    }
    await client.end(await client.begin("new", "m1"), commit=True)
    await client.links.close()
    # Ids go on behind those of the other broker, and what is acknowledged stays so.
    again = Client(url, topic)
    await again.open()
    assert await again.all_received() == {"m3", "m4", "m5", "committed", "open-1", "behind", "new"}
    assert (await again.begin("last", "m3")) > max(open_ones)
    await again.links.close()


class Brokers:
    """One broker at a time on bookies of ours, with transactions."""

    def __init__(self, work: Path, zk: str) -> None:
        self.bookies = OurBookies(work, zk)
        self.apache = ApacheBroker(
            work, "apache", zk, init=True, transactionCoordinatorEnabled="true"
        )
        self.ours = OurBroker(work, "ours", zk, transaction_coordinator_enabled="true")
        self.running: ApacheBroker | OurBroker = self.apache

    def change_to(self, broker: ApacheBroker | OurBroker) -> None:
        self.running.stop()
        self.running = broker
        broker.start()


@pytest.fixture(scope="module")
def brokers(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    made = Brokers(tmp_path_factory.mktemp("turns"), f"{zookeeper}/turns")
    with made.bookies:
        try:
            made.apache.start()
            yield made
        finally:
            made.running.stop()


def test_transactions_go_on_when_a_topic_changes_between_brokers(brokers: Brokers) -> None:
    topic = "persistent://public/default/from-apache"
    left = asyncio.run(before(brokers.running.url, topic))
    brokers.change_to(brokers.ours)
    asyncio.run(after(brokers.running.url, topic, left))
    topic = "persistent://public/default/from-ours"
    left = asyncio.run(before(brokers.running.url, topic))
    brokers.change_to(brokers.apache)
    asyncio.run(after(brokers.running.url, topic, left))
