"""Magnetar and Apache Pulsar: one load program in Python for both, which sends prepared frames."""

import asyncio
import statistics
from functools import partial

from engine.wire.batches import Message, pack_entry
from tests.bench import loads, raw
from tests.bench.contenders import Contender
from tests.bench.figures import Figures
from tests.bench.systems.sides import WINDOW, Side, Work

BATCH_BYTES = 16_384
"""Bytes of a batch, as of Kafka's client by default."""


def pulsar_side(contender: Contender, name: str) -> Side:
    works: dict[str, Work] = {
        "publish 100 B": partial(_batched, contender, 100),
        "publish 1 KB": partial(_batched, contender, 1024),
        "publish 1 KB, no batches": partial(_single, contender, 1024),
        "one in flight 1 KB": partial(_one, contender),
        "consume 1 KB": partial(_consume, contender),
    }
    return Side(name, contender.pids, contender.start_s, works)


def _batched(contender: Contender, size: int, messages: int) -> tuple[Figures, int]:
    many = BATCH_BYTES // size
    entry = pack_entry([Message(b"x" * size)] * many, producer_name="bench", publish_ms=1)
    return _publish(contender, entry, many, messages // many)


def _single(contender: Contender, size: int, messages: int) -> tuple[Figures, int]:
    return _publish(contender, raw.payload_of(size), 1, messages)


def _publish(contender: Contender, entry: bytes, many: int, entries: int) -> tuple[Figures, int]:
    """Publish entries of ``many`` messages each, after a tenth of them to warm up."""

    async def work() -> float:
        topic = loads.new_topic("systems")
        link = await raw.connect(contender.url, topic)
        await raw.open_producer(link, topic)
        window = max(WINDOW // many, 5)
        for first, number in ((0, warm), (warm, entries)):
            frames = raw.blocks(entry, number, first=first)
            counts = loads.counts_of(frames, entry, number)
            took = await raw.publish(link, frames, counts, window)
        link.close()
        return took

    warm = entries // 10 + 1
    took = asyncio.run(work())
    return {"messages/s": entries * many / took}, (entries + warm) * many


def _one(contender: Contender, messages: int) -> tuple[Figures, int]:
    async def work() -> list[float]:
        topic = loads.new_topic("systems")
        link = await raw.connect(contender.url, topic)
        await raw.open_producer(link, topic)
        took = await raw.one_in_flight(link, raw.payload_of(1024), messages, 0)
        link.close()
        return took

    return {"mean ms": statistics.fmean(asyncio.run(work())) * 1e3}, messages


def _consume(contender: Contender, messages: int) -> tuple[Figures, int]:
    return {"messages/s": loads.consume(contender, 1024, messages)["entries/s"]}, 0
