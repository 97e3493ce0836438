"""Works with transactions: what a message costs more in one, and how many end in a second."""

import asyncio
import time
from collections.abc import Sequence

from engine.base.ids import Position
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.net.network import LoopNetwork
from engine.wire import client_commands as say
from engine.wire.events import Delivered
from tests.bench import raw
from tests.bench.by_turns import Side, by_turns
from tests.bench.contenders import Contender
from tests.bench.figures import Figures
from tests.bench.loads import new_topic
from tests.support.transactions.transaction_client import TransactionClient, Txn

TIMEOUT_MS = 600_000
SIZE = 100
IN_ONE = 100
"""Acknowledgements of a transaction."""
SETTLED_S = 1.5


def _links() -> Links[BrokerLink]:
    return Links(LoopNetwork(), LinkSettings("bench", request_timeout_s=60.0), BrokerLink)


def publish(contender: Contender, size: int, count: int) -> Figures:
    """Publish ``count`` entries in one transaction, and as many without."""

    async def work() -> Figures:
        links = _links()
        client = await TransactionClient.open(links, contender.url)
        txn = await client.begin(TIMEOUT_MS)
        sides = []
        for of in (None, txn):
            topic = new_topic("transaction")
            if of is not None:
                await client.add_partitions(of, [topic])
            link = await raw.connect(contender.url, topic)
            await raw.open_producer(link, topic)
            sides.append(Side(link, raw.payload_of(size, txn=of), of))
        without, used = await by_turns(contender, sides, count)
        await client.end(txn, commit=True)
        await links.close()
        return {"CPU µs/entry": used, "without": without, "with to without": used / without}

    return asyncio.run(work())


def acknowledge(contender: Contender, count: int) -> Figures:
    """Acknowledge ``count`` messages one by one in transactions, and as many with an answer each without."""

    async def work() -> Figures:
        links = _links()
        client = await TransactionClient.open(links, contender.url)
        without = await _acknowledged(contender, links, None, count)
        used = await _acknowledged(contender, links, client, count)
        await links.close()
        return {"CPU µs/ack": used, "without": without, "with to without": used / without}

    return asyncio.run(work())


async def _acknowledged(
    contender: Contender, links: Links[BrokerLink], client: TransactionClient | None, count: int
) -> float:
    """Return the CPU µs of one acknowledgement."""
    topic = new_topic("acks")
    link = await links.owner(topic, contender.url)
    held: list[Position] = []

    def receive(run: Sequence[Delivered]) -> None:
        held.extend(message.position for message in run)

    consumer = await RawConsumer.open(
        link,
        topic,
        "s",
        SHARED,
        on_messages=receive,
        initial=FROM_EARLIEST,
    )
    producer = await RawProducer.open(link, topic)
    payload = raw.payload_of(SIZE)
    for first in range(0, count, 1000):
        producer.send(range(first, first + 1000), [payload] * 1000)
        await producer.drained()
    consumer.flow(count)
    while len(held) < count:
        await asyncio.sleep(0.05)
    await asyncio.sleep(SETTLED_S)
    cpu = contender.cpu_s()
    for at in range(0, count, IN_ONE):
        txn: Txn | None = None
        if client is not None:
            txn = await client.begin(TIMEOUT_MS)
            await client.add_subscriptions(txn, [(topic, "s")])
        answers = []
        for position in held[at : at + IN_ONE]:
            request = link.new_id()
            frame = say.ack(consumer.consumer_id, [position], request_id=request, txn=txn)
            answers.append(link.request(request, frame))
        await asyncio.gather(*answers)
        if client is not None and txn is not None:
            await client.end(txn, commit=True)
    await asyncio.sleep(SETTLED_S)
    return (contender.cpu_s() - cpu) / count * 1e6


def ended(contender: Contender, *, messages: int, opened: int, count: int) -> Figures:
    """Commit ``count`` transactions of ``messages`` messages each, ``opened`` at the same time, on one topic."""

    async def work() -> Figures:
        links = _links()
        client = await TransactionClient.open(links, contender.url)
        topic = new_topic("transactions")
        link = await links.owner(topic, contender.url)
        left = count + opened

        async def one(producer: RawProducer, sequence: int) -> None:
            txn = await client.begin(TIMEOUT_MS)
            await client.add_partitions(txn, [topic])
            payload = raw.payload_of(SIZE, txn=txn)
            frames = []
            for k in range(sequence, sequence + messages):
                producer._unanswered.append(k)
                frames.append(raw.send_frame(payload, producer.producer_id, k, txn))
            link.send(b"".join(frames))
            await producer.drained()
            await client.end(txn, commit=True)

        async def worker(producer: RawProducer, sequence: int) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await one(producer, sequence)
                sequence += messages

        producers = [await RawProducer.open(link, topic) for _ in range(opened)]
        for producer in producers:  # the first stores the first snapshot of the topic
            left -= 1
            await one(producer, 0)
        cpu, began = contender.cpu_s(), time.perf_counter()
        await asyncio.gather(*(worker(producer, messages) for producer in producers))
        took = time.perf_counter() - began
        cpu = contender.cpu_s() - cpu
        await links.close()
        return {
            "transactions/s": count / took,
            "messages/s": count * messages / took,
            "CPU µs/transaction": cpu / count * 1e6,
        }

    return asyncio.run(work())
