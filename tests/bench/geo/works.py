"""The works of replication that are measured. Each takes a pair of clusters and returns its figures of one round.

Entries are prepared frames; what arrives in the other cluster is counted by a raw consumer there.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence

from tests.bench import raw
from tests.bench.figures import Figures, percentile
from tests.bench.geo.pairs import KEPT, SENT, Pair
from tests.bench.loads import WINDOW, counts_of
from tests.geo.clusters import link_name
from tests.geo.links import HEALED, Fault

SLICES = 10
SETTLES_S = 0.3
"""Pause after the last entry: work in the background counts for what caused it."""
ARRIVES_S = 240.0
_number = itertools.count()


def new_topic(namespace: str) -> str:
    return f"persistent://{namespace}/bench-{time.time_ns()}-{next(_number)}"


class Road:
    """A topic with a producer at the source and a consumer at the target, once its replicator sends. ``first`` is the
    next sequence id."""

    def __init__(self, topic: str, link: raw.Link, reading: raw.Link) -> None:
        self.topic = topic
        self.link = link
        self.reading = reading
        self.first = 0

    @classmethod
    async def open(cls, pair: Pair, payload: bytes) -> "Road":
        topic = new_topic(SENT)
        link = await raw.connect(pair.source, topic)
        await raw.open_producer(link, topic)
        reading = await raw.connect(pair.target, topic)
        await raw.subscribe(reading, topic, "s")
        road = cls(topic, link, reading)
        while not reading.messages_seen:
            raw.send_now(link, raw.send_frame(payload, 1, road.first))
            road.first += 1
            await asyncio.sleep(0.2)  # the replicator sends only what is published after its start
        await asyncio.sleep(1)
        reading.messages_seen = 0
        return road

    async def send(self, payload: bytes, count: int) -> None:
        """Publish entries and wait until all arrived."""
        arrived = self.reading.messages_seen
        frames = raw.blocks(payload, count, first=self.first)
        self.first += count
        await raw.publish(self.link, frames, counts_of(frames, payload, count), WINDOW)
        await self.reading.until(lambda: self.reading.messages_seen - arrived >= count, ARRIVES_S)

    def close(self) -> None:
        self.link.close()
        self.reading.close()


def flow(pair: Pair, size: int, count: int, topics: int = 1) -> Figures:
    """Publish entries to ``topics`` topics until all are in the other cluster, read there."""

    async def work() -> Figures:
        payload = raw.payload_of(size)
        roads = await asyncio.gather(*(Road.open(pair, payload) for _ in range(topics)))
        cpu, began = pair.cpu_of_each_s(), time.perf_counter()
        await asyncio.gather(*(road.send(payload, count // topics) for road in roads))
        took = time.perf_counter() - began
        await asyncio.sleep(SETTLES_S)
        used = {name: after - cpu[name] for name, after in pair.cpu_of_each_s().items()}
        for road in roads:
            road.close()
        return {
            "entries/s": count / took,
            "MB/s": count * size / took / 1e6,
            **{f"CPU µs/entry, {name}": cpu_s / count * 1e6 for name, cpu_s in used.items()},
            "CPU µs/entry, all": sum(used.values()) / count * 1e6,
        }

    return asyncio.run(work())


def added(pair: Pair, size: int, count: int) -> Figures:
    """Publish to a topic that is sent to the other cluster, to one with a local consumer, and to one with neither, by
    turns: what the first two cost the source's broker more than the third."""

    async def work() -> Figures:
        payload, slice_count = raw.payload_of(size), count // SLICES
        sent = await Road.open(pair, payload)
        kept, read = new_topic(KEPT), new_topic(KEPT)
        links = []
        for topic in (kept, read):
            link = await raw.connect(pair.source, topic)
            await raw.open_producer(link, topic)
            links.append(link)
        reading = await raw.connect(pair.source, read)
        await raw.subscribe(reading, read, "s")
        used = [0.0, 0.0, 0.0]
        for turn in range(-1, SLICES):  # the first warms all up
            for side in (0, 1, 2) if turn % 2 else (2, 1, 0):
                cpu = pair.cpu_s(0)
                if side == 0:
                    await sent.send(payload, slice_count)
                else:
                    first = (turn + 1) * slice_count
                    frames = raw.blocks(payload, slice_count, first=first)
                    counts = counts_of(frames, payload, slice_count)
                    await raw.publish(links[side - 1], frames, counts, WINDOW)
                    if side == 2:
                        await reading.until(
                            lambda first=first: reading.messages_seen >= first + slice_count
                        )
                await asyncio.sleep(SETTLES_S)
                if turn >= 0:
                    used[side] += pair.cpu_s(0) - cpu
        sent.close()
        for link in (*links, reading):
            link.close()
        replicated, alone, dispatched = (cpu / (slice_count * SLICES) * 1e6 for cpu in used)
        return {
            "replication adds CPU µs/entry": replicated - alone,
            "a local consumer adds": dispatched - alone,
            "replication to local consumer": (replicated - alone) / (dispatched - alone),
            "publishing alone": alone,
        }

    return asyncio.run(work())


def steady(pair: Pair, size: int, rate: int, seconds: int, delay_s: float = 0.0) -> Figures:
    """Return the time from before the send at the source to the arrival at a consumer of the target, at a fixed rate.

    ``delay_s``: of each direction of the links.
    """

    async def work() -> Figures:
        payload = raw.payload_of(size)
        road = await Road.open(pair, payload)
        reading = road.reading
        reading.keep_arrivals = True
        reading.arrivals.clear()
        left: list[float] = []
        began = time.perf_counter()
        for i in range(rate * seconds):
            wait = began + i / rate - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            left.append(time.perf_counter())
            raw.send_now(road.link, raw.send_frame(payload, 1, road.first + i))
        await reading.until(lambda: reading.messages_seen >= len(left), ARRIVES_S)
        took = [b - a for a, b in zip(left, reading.arrivals, strict=True)][rate // 2 :]
        road.close()
        return {"p50 ms": percentile(took, 0.5) * 1e3, "p99 ms": percentile(took, 0.99) * 1e3}

    _set_links(pair, Fault(delay_s=delay_s))
    try:
        return asyncio.run(work())
    finally:
        _set_links(pair, HEALED)


def drain(pair: Pair, size: int, count: int) -> Figures:
    """Publish a backlog while the link is cut, and let a local consumer and then the replicator have it."""

    async def work() -> Figures:
        payload = raw.payload_of(size)
        road = await Road.open(pair, payload)
        _set_links(pair, Fault(there_cut=True, back_cut=True))
        frames = raw.blocks(payload, count, first=road.first)
        await raw.publish(road.link, frames, counts_of(frames, payload, count), WINDOW)
        reading = await raw.connect(pair.source, road.topic)
        await raw.subscribe(reading, road.topic, "local")
        began, cpu = time.perf_counter(), pair.cpu_s(0)
        await reading.until(lambda: reading.messages_seen >= count, ARRIVES_S)
        local_s, local_cpu = time.perf_counter() - began, pair.cpu_s(0) - cpu
        reading.close()
        road.reading.grants = True
        began, before = time.perf_counter(), pair.cpu_of_each_s()
        _set_links(pair, HEALED)
        await road.reading.until(lambda: road.reading.messages_seen >= count, ARRIVES_S)
        took = time.perf_counter() - began
        used = {name: after - before[name] for name, after in pair.cpu_of_each_s().items()}
        road.close()
        return {
            "MB": count * size / 1e6,
            "entries/s": count / took,
            "entries/s to a local consumer": count / local_s,
            **{f"CPU µs/entry, {name}": cpu_s / count * 1e6 for name, cpu_s in used.items()},
            "CPU µs/entry to a local consumer": local_cpu / count * 1e6,
        }

    try:
        return asyncio.run(work())
    finally:
        _set_links(pair, HEALED)


def _set_links(pair: Pair, fault: Fault) -> None:
    names: Sequence[str] = (link_name("us", "eu"), link_name("eu", "us"))
    if pair.links is not None:
        for name in names:
            pair.links.set(name, fault)
