"""Works whose cost is in acknowledging, or in requesting redelivery: all messages are delivered before they begin."""

import asyncio
import random
import time
from collections.abc import Sequence

from engine.base.ids import Position
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.wire.events import Delivered
from tests.bench.consume.fans import Count, Fan, entries, publish
from tests.bench.contenders import Contender
from tests.bench.figures import Figures

CONSUMERS = 4
SETTLED_S = 1.5
"""Acknowledgements are stored behind, about once a second; that is part of the work."""


class Holder:
    """A consumer that takes all it can get and keeps it."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self.held: list[Position] = []
        self.consumer: RawConsumer

    async def open(self, fan: Fan) -> None:
        self.consumer = await RawConsumer.open(
            await fan.link(),
            fan.topic,
            "s",
            SHARED,
            on_messages=self._received,
            initial=FROM_EARLIEST,
        )

    def _received(self, messages: Sequence[Delivered]) -> None:
        self.held += [message.position for message in messages]
        self._count.add(len(messages))


async def _all_out(fan: Fan, count: int, arrived: Count) -> list[Holder]:
    holders = [Holder(arrived) for _ in range(CONSUMERS)]
    for holder in holders:
        await holder.open(fan)
    await publish(await fan.link(), fan.topic, count, entries())
    for holder in holders:
        holder.consumer.flow(count)
    await arrived.all()
    return holders


def at_random(contender: Contender, count: int, run: int) -> Figures:
    """``count`` messages out to four consumers of a Shared subscription are acknowledged in random order, ``run`` in a
    command; figures of an acknowledgement."""

    async def work() -> Figures:
        fan, draw = Fan(contender, "acks"), random.Random(1)
        try:
            holders = await _all_out(fan, count, Count(count))
            commands: list[tuple[RawConsumer, list[Position]]] = []
            for holder in holders:
                draw.shuffle(holder.held)
                starts = range(0, len(holder.held), run)
                commands += [(holder.consumer, holder.held[at : at + run]) for at in starts]
            draw.shuffle(commands)
            await asyncio.sleep(SETTLED_S)
            cpu, began = contender.cpu_s(), time.perf_counter()
            for number, (consumer, positions) in enumerate(commands):
                consumer.acknowledge(positions)
                if number % 100 == 0:
                    await asyncio.sleep(0)
            for holder in holders:  # again, so that the answer confirms the earlier ones
                await holder.consumer.acknowledged(holder.held[:1])
            took = time.perf_counter() - began
            await asyncio.sleep(SETTLED_S)
            spent = contender.cpu_s() - cpu
            return {"acks/s": count / took, "CPU µs/ack": spent / count * 1e6}
        finally:
            await fan.close()

    return asyncio.run(work())


def redelivered(contender: Contender, count: int) -> Figures:
    """``count`` messages out are asked for again, by all consumers at once; figures of a message given again."""

    async def work() -> Figures:
        fan, arrived = Fan(contender, "nacks"), Count(count)
        try:
            holders = await _all_out(fan, count, arrived)
            arrived.left, arrived.done = count, asyncio.Event()
            cpu, began = contender.cpu_s(), time.perf_counter()
            for holder in holders:
                holder.consumer.redeliver(holder.held)
                holder.consumer.flow(count)
            await arrived.all()
            took = time.perf_counter() - began
            spent = contender.cpu_s() - cpu
            return {"entries/s": count / took, "CPU µs/entry": spent / count * 1e6}
        finally:
            await fan.close()

    return asyncio.run(work())
