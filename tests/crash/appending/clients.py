"""Clients that keep lists in topics: the current list is the one message that is not acknowledged. To change it, a
worker receives it, and in one transaction publishes the next one and acknowledges it; often of several topics."""

import asyncio
import json
import random
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from engine.base.errors import MagnetarError
from engine.base.ids import EARLIEST, Position
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.net.network import LoopNetwork
from engine.wire import client_commands as say
from engine.wire.batches import Message, pack_entry, unpack_entry
from engine.wire.errors import RefusedError, ServerError
from engine.wire.events import Delivered, Receipt
from tests.crash.appending.anomalies import Appending, Outcome
from tests.support.transactions.transaction_client import TransactionClient, Txn

SUBSCRIPTION = "lists"
LIST_MAX = 40
"""Length of a list from which on a worker begins another one in its place."""
TIMEOUTS_MS = (3_000, 10_000)
HELD_MAX_S = 0.5
"""Longest time for which a worker keeps lists that it does not change."""
AGAIN_S = 0.3
STEP_S = 20.0
"""Time for one step of a transaction, after which its connections are made again."""


class Held(NamedTuple):
    """A list that a worker received."""

    topic: str
    position: Position
    key: str
    values: list[str]


def content_of(key: str, values: Sequence[str]) -> bytes:
    return json.dumps([key, values]).encode()


def parse(entry: bytes) -> tuple[str, list[str]]:
    (message,) = unpack_entry(entry).messages
    assert message.value is not None
    key, values = json.loads(message.value)
    return sys.intern(key), [sys.intern(value) for value in values]


class Client(ABC):
    """Connections of one client, made again after each error until ``stopping``."""

    def __init__(self, name: str, urls: Sequence[str], seed: int) -> None:
        self.name = name
        self.urls = urls
        self.rng = random.Random(f"{seed} {name}")
        self.stopping = False
        self.links: Links[BrokerLink]
        self.wake = asyncio.Event()

    async def run(self) -> None:
        while not self.stopping:
            settings = LinkSettings(self.name, connect_timeout_s=5.0, request_timeout_s=15.0)
            self.links = Links(LoopNetwork(), settings, BrokerLink)
            try:
                await self.session()
            except (MagnetarError, TimeoutError, OSError):
                await asyncio.sleep(AGAIN_S)
            finally:
                self.links.abort()

    @abstractmethod
    async def session(self) -> None:
        """Work over ``links`` until ``stopping`` or an error."""

    async def link_to(self, topic: str) -> BrokerLink:
        return await self.links.owner(topic, self.rng.choice(self.urls))

    async def consume(
        self, topic: str, receive: Callable[[Delivered], None], **options: object
    ) -> RawConsumer:
        def take(run: Sequence[Delivered]) -> None:
            for message in run:
                receive(message)
            self.wake.set()

        return await RawConsumer.open(
            await self.link_to(topic),
            topic,
            on_messages=take,
            on_end=lambda error: self.wake.set(),
            initial=FROM_EARLIEST,
            **options,  # type: ignore[arg-type]
        )


class Reader(Client):
    """Reads one topic without a durable subscription. ``seen``: the lists by key, in the topic's order."""

    def __init__(self, name: str, urls: Sequence[str], seed: int, topic: str) -> None:
        super().__init__(name, urls, seed)
        self.topic = topic
        self.last = EARLIEST
        self.seen: dict[str, list[list[str]]] = defaultdict(list)
        self.newest: tuple[str, list[str]] = ("", [])
        self.at_end = False

    def _receive(self, message: Delivered) -> None:
        if message.position > self.last:
            self.last = message.position
            self.newest = key, values = parse(message.entry)
            self.seen[key].append(values)
        self._permits += 1

    async def session(self) -> None:
        self._permits = 0
        consumer = await self.consume(
            self.topic,
            self._receive,
            subscription=f"reader-{self.name}",
            durable=False,
            start=self.last,
        )
        consumer.flow(1000)
        while not self.stopping:
            if consumer.error is not None:
                raise consumer.error
            self.wake.clear()
            if self._permits:
                consumer.flow(self._permits)
                self._permits = 0
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.wake.wait()
            self.at_end = await consumer.last_position() <= self.last


class Collector(Client):
    """Receives at the end what is not acknowledged. ``lists``: by topic."""

    def __init__(self, urls: Sequence[str], seed: int, topics: Sequence[str]) -> None:
        super().__init__("collector", urls, seed)
        self.topics = topics
        self.lists: dict[str, dict[Position, tuple[str, list[str]]]] = {}

    async def session(self) -> None:
        self.lists = {topic: {} for topic in self.topics}
        for topic, received in self.lists.items():

            def receive(
                message: Delivered, into: dict[Position, tuple[str, list[str]]] = received
            ) -> None:
                into[message.position] = parse(message.entry)

            consumer = await self.consume(topic, receive, subscription=SUBSCRIPTION, kind=SHARED)
            consumer.flow(1000)
        while not self.stopping:
            await asyncio.sleep(AGAIN_S)


class Worker(Client):
    """Changes lists in transactions, some of which it aborts or abandons."""

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        seed: int,
        topics: Sequence[str],
        coordinators: int,
        history: list[Appending],
    ) -> None:
        super().__init__(name, urls, seed)
        self._topics = topics
        self._coordinators = coordinators
        self._history = history
        self._unsure: dict[Txn, Appending] = {}
        """Transactions whose commit has no known outcome."""
        self._number = 0
        self._sequence = 0

    @property
    def settled(self) -> bool:
        return not self._unsure

    async def session(self) -> None:
        self._held: list[Held] = []
        self._receipts: dict[int, asyncio.Future[None]] = {}
        self._clients: dict[int, TransactionClient] = {}
        self._consumers: dict[str, RawConsumer] = {}
        self._producers: dict[str, RawProducer] = {}
        async with asyncio.timeout(STEP_S):  # time: a killed broker's answer is lost
            for txn, appending in [*self._unsure.items()]:
                await self._commit(await self._client(txn[0]), txn, appending)
        for topic in self._topics:

            def receive(message: Delivered, topic: str = topic) -> None:
                self._held.append(Held(topic, message.position, *parse(message.entry)))

            self._consumers[topic] = await self.consume(
                topic, receive, subscription=SUBSCRIPTION, kind=SHARED
            )
            self._producers[topic] = await RawProducer.open(
                await self.link_to(topic),
                topic,
                on_receipts=self._stored,
                on_end=lambda error: self.wake.set(),
            )
        for consumer in self._consumers.values():
            consumer.flow(1000)
        while not self.stopping:
            users = (*self._consumers.values(), *self._producers.values())
            for error in [user.error for user in users if user.error is not None]:
                raise error
            self.wake.clear()
            if self._held:
                async with asyncio.timeout(STEP_S):  # time: a killed broker's answer is lost
                    await self._change()
            with suppress(TimeoutError):
                async with asyncio.timeout(HELD_MAX_S * self.rng.random()):
                    await self.wake.wait()
                    continue
            self._give_back()

    def _give_back(self) -> None:
        """Let others have the lists that were received."""
        for topic, consumer in self._consumers.items():
            positions = [held.position for held in self._held if held.topic == topic]
            if positions:
                consumer.redeliver(positions)
                consumer.flow(len(positions))
        self._held.clear()

    def _stored(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            stored = self._receipts.pop(receipt.sequence_id, None)
            if stored is not None and not stored.done():
                stored.set_result(None)

    async def _client(self, number: int) -> TransactionClient:
        client = self._clients.get(number)
        if client is None or client.link.closing:
            url = self.rng.choice(self.urls)
            client = self._clients[number] = await TransactionClient.open(self.links, url, number)
        return client

    # --- transactions ---------------------------------------------------------------------------

    async def _change(self) -> None:
        rng = self.rng
        rng.shuffle(self._held)
        count = rng.choice((1, 1, 2, 3))
        taken, self._held = self._held[:count], self._held[count:]
        client = await self._client(rng.randrange(self._coordinators))
        txn = await client.begin(rng.choice(TIMEOUTS_MS))
        self._number += 1
        appending = Appending(f"{self.name}.{self._number} {txn}", outcome=Outcome.ABORTED)
        self._history.append(appending)
        await client.add_subscriptions(txn, sorted({(held.topic, SUBSCRIPTION) for held in taken}))
        await client.add_partitions(txn, sorted({held.topic for held in taken}))
        try:
            for held in taken:
                publish = partial(self._publish, txn, appending, held)
                steps = [publish, partial(self._acknowledge, txn, held)]
                rng.shuffle(steps)
                for step in steps:
                    await step()
        except RefusedError as error:
            if error.code not in (ServerError.TransactionConflict, ServerError.NotAllowedError):
                raise
            await client.end(txn, commit=False)
            return
        whim = rng.random()
        if whim < 0.04:
            return  # it times out
        if whim < 0.2:
            await client.end(txn, commit=False)
            return
        # From the request on its messages may be seen.
        appending.outcome = Outcome.UNKNOWN
        self._unsure[txn] = appending
        await self._commit(client, txn, appending)

    async def _publish(self, txn: Txn, appending: Appending, held: Held) -> None:
        key, values = held.key, held.values
        appending.reads[key] = values
        if len(values) >= LIST_MAX:
            number, _, turn = key.partition("/")
            key, values = f"{number}/{int(turn) + 1}", []
            appending.reads[key] = values
        added = [f"{self.name}.{self._number}.{key}.{n}" for n in range(self.rng.choice((1, 2)))]
        appending.appends[key] = added
        producer, sequence = self._producers[held.topic], self._sequence
        self._sequence += 1
        entry = pack_entry(
            [Message(content_of(key, values + added), sequence_id=sequence)],
            producer_name=self.name,
            publish_ms=1,
            extra={"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]},
        )
        stored = self._receipts[sequence] = asyncio.get_running_loop().create_future()
        producer._unanswered.append(sequence)
        producer.link.send(say.send(producer.producer_id, sequence, entry, txn=txn))
        while not stored.done():
            if producer.error is not None:
                raise producer.error
            await asyncio.wait([stored], timeout=0.2)

    async def _acknowledge(self, txn: Txn, held: Held) -> None:
        consumer = self._consumers[held.topic]
        request_id = consumer.link.new_id()
        frame = say.ack(consumer.consumer_id, [held.position], request_id=request_id, txn=txn)
        await consumer.link.request(request_id, frame)
        consumer.flow(1)

    async def _commit(self, client: TransactionClient, txn: Txn, appending: Appending) -> None:
        try:
            await client.end(txn, commit=True)
            appending.outcome = Outcome.COMMITTED
        except RefusedError as error:
            if error.code is ServerError.InvalidTxnStatus:  # it timed out before
                appending.outcome = Outcome.ABORTED
            elif error.code is not ServerError.TransactionNotFound:
                raise
        del self._unsure[txn]
