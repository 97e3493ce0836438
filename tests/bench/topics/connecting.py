"""Many connections to one topic, each with a consumer of one subscription or with a producer."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from engine.client.broker_link import BrokerLink
from engine.net.network import LoopNetwork
from engine.wire import client_commands as say
from tests.bench.gateway.measuring import Meter, Row, Rows
from tests.bench.gateway.sides import Side
from tests.bench.topics.visitors import SETTINGS

CONSUMERS, PRODUCERS = 2_000, 10_000
AT_ONCE = 64
KINDS = {"Shared": 1, "Key_Shared": 3}

Attach = Callable[[BrokerLink, str], Awaitable[object]]


def consumer(kind: int) -> Attach:
    async def attach(link: BrokerLink, topic: str) -> None:
        request_id = link.new_id()
        await link.request(request_id, say.subscribe(topic, f"s{kind}", kind, 1, request_id))
        link.send(say.flow(1, 1000))

    return attach


async def producer(link: BrokerLink, topic: str) -> None:
    request_id = link.new_id()
    await link.request(request_id, say.producer(topic, 1, request_id))


async def connecting(side: Side, scale: float, number: int) -> Rows:
    """Measure one round. Return a row for each kind: to connect and look up has a row of its own."""
    rows: Rows = {}
    where = side.namespace(f"bench-connecting-{number}")
    for name, kind in KINDS.items():
        count = max(int(CONSUMERS * scale), 10)
        row = f"{count:,} consumers of one {name} subscription"
        rows |= await _all(side, f"persistent://{where}/{name}", count, row, consumer(kind))
    count = max(int(PRODUCERS * scale), 10)
    return rows | await _all(
        side, f"persistent://{where}/p", count, f"{count:,} producers of one topic", producer
    )


async def _all(side: Side, topic: str, count: int, row: str, attach: Attach) -> Rows:
    host, _, port = side.url.removeprefix("pulsar://").rpartition(":")
    network = LoopNetwork()
    links: list[BrokerLink] = []

    async def connect(_: int) -> None:
        link = await BrokerLink.open(network, host, int(port), SETTINGS)
        links.append(link)
        request_id = link.new_id()
        await link.request(request_id, say.lookup(topic, request_id))

    memory = side.pss_kb()
    try:
        connected = await _measured(side, connect, count)
        attached = await _measured(side, lambda i: attach(links[i], topic), count)
        grown = {kind: (kb - memory[kind]) / count for kind, kb in side.pss_kb().items()}
        began = time.perf_counter()
    finally:
        for link in links:
            link.abort()
    await _answers_again(side, topic)
    attached.figures["KB of the broker each"] = grown.get("broker", sum(grown.values()))
    attached.figures["all leave at once: s"] = time.perf_counter() - began
    return {f"{row}: connect, look up": connected, row: attached}


async def _measured(side: Side, action: Callable[[int], Awaitable[object]], count: int) -> Row:
    left = iter(range(count))

    async def some() -> None:
        for i in left:
            await action(i)

    meter = Meter(side)
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(some())
    await meter.settle()
    parts = meter.each(count, 1e6)
    return Row({"s": meter.seconds, "CPU us each": sum(parts.values())}, parts, meter.load)


async def _answers_again(side: Side, topic: str) -> None:
    """Wait until a new connection has its answer."""
    host, _, port = side.url.removeprefix("pulsar://").rpartition(":")
    link = await BrokerLink.open(LoopNetwork(), host, int(port), SETTINGS)
    request_id = link.new_id()
    await link.request(request_id, say.lookup(topic, request_id))
    link.abort()
