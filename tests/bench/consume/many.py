"""Works with many topics, or with many subscriptions of one."""

import asyncio
import time

from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_consumer import EXCLUSIVE, FROM_EARLIEST, RawConsumer
from engine.net.network import LoopNetwork
from tests.bench.consume.fans import SIZE, Count, Fan, Reader, entries, publish
from tests.bench.contenders import Contender
from tests.bench.figures import Figures
from tests.bench.loads import new_topic, rates

AT_ONCE = 50


def subscriptions(contender: Contender, count: int, idle: int, busy: int) -> Figures:
    """Publish to a topic with ``idle`` subscriptions without consumers and ``busy`` ones with; return figures of a
    delivery."""

    async def work() -> Figures:
        fan, deliveries = Fan(contender, "subscriptions"), count * busy
        try:
            link = await fan.link()

            async def leave_one(number: int) -> None:
                consumer = await RawConsumer.open(
                    link,
                    fan.topic,
                    f"idle-{number}",
                    on_messages=lambda messages: None,
                    initial=FROM_EARLIEST,
                )
                await consumer.close()

            for first in range(0, idle, AT_ONCE):
                await asyncio.gather(*map(leave_one, range(first, min(first + AT_ONCE, idle))))
            arrived = Count(deliveries)
            readers = [Reader(arrived, 100) for _ in range(busy)]
            for number, reader in enumerate(readers):
                await reader.open(await fan.link(), fan.topic, f"busy-{number}", EXCLUSIVE)
                reader.begin()
            cpu, began = contender.cpu_s(), time.perf_counter()
            await publish(link, fan.topic, count, entries())
            await arrived.all()
            took = time.perf_counter() - began
            await asyncio.sleep(0.3)
            return rates(deliveries, SIZE, took, contender.cpu_s() - cpu)
        finally:
            await fan.close()

    return asyncio.run(work())


def topics(contender: Contender, count: int, number: int) -> Figures:
    """``count`` messages over ``number`` topics at once, each with a producer and a consumer, over one connection for
    all producers and one for all consumers."""

    async def work() -> Figures:
        names = [new_topic("many") for _ in range(number)]
        per_topic = count // number
        sides = [Links(LoopNetwork(), LinkSettings("bench"), BrokerLink) for _ in range(2)]
        try:
            arrived = Count(per_topic * number)
            for name in names:
                reader = Reader(arrived, 100)
                await reader.open(await sides[0].owner(name, contender.url), name, "s", EXCLUSIVE)
                reader.begin()
            links = [await sides[1].owner(name, contender.url) for name in names]
            cpu, began = contender.cpu_s(), time.perf_counter()
            await asyncio.gather(
                *(publish(*at, per_topic, entries()) for at in zip(links, names, strict=True))
            )
            await arrived.all()
            took = time.perf_counter() - began
            await asyncio.sleep(0.3)
            return rates(per_topic * number, SIZE, took, contender.cpu_s() - cpu)
        finally:
            for side in sides:
                await side.close()

    return asyncio.run(work())
