"""The works that are measured. Each takes a contender and returns its figures of one round, by name."""

import asyncio
import itertools
import time
from collections.abc import Sequence

import pulsar

from tests.bench import raw
from tests.bench.contenders import Contender
from tests.bench.figures import Figures, percentile

WINDOW = 1000
_topic_number = itertools.count()


def new_topic(what: str) -> str:
    return f"persistent://public/default/bench-{what}-{time.time_ns()}-{next(_topic_number)}"


def rates(count: int, size: int, took_s: float, cpu_s: float) -> Figures:
    """Return figures of ``count`` entries of ``size`` bytes."""
    return {
        "entries/s": count / took_s,
        "MB/s": count * size / took_s / 1e6,
        "CPU µs/entry": cpu_s / count * 1e6,
    }


def publish(
    contender: Contender, size: int, count: int, producers: int = 1, window: int = WINDOW
) -> Figures:
    """Unbatched messages of ``size`` bytes, ``window`` in flight, by raw frames over one connection."""

    async def work() -> Figures:
        topic = new_topic("publish")
        link = await raw.connect(contender.url, topic, contender.tls)
        ids = list(range(1, producers + 1))
        for producer_id in ids:
            await raw.open_producer(link, topic, producer_id)
        payload = raw.payload_of(size)
        warm = raw.blocks(payload, min(count, 2000), ids)
        await raw.publish(link, warm, counts_of(warm, payload, min(count, 2000)), window)
        frames = raw.blocks(payload, count, ids, first=2000)
        counts = counts_of(frames, payload, count)
        cpu = contender.cpu_s()
        took = await raw.publish(link, frames, counts, window)
        await asyncio.sleep(0.3)  # what is written behind belongs to the work
        cpu = contender.cpu_s() - cpu
        link.close()
        return rates(count, size, took, cpu)

    return asyncio.run(work())


def counts_of(frames: Sequence[bytes], payload: bytes, count: int) -> list[int]:
    """Frames in each block (all of one payload, so the payload's checksum marks them)."""
    counts = [frame.count(payload[:6]) for frame in frames]
    if sum(counts) != count:
        raise RuntimeError(f"{sum(counts)} frames found in the blocks, not {count}")
    return counts


def publish_and_consume(contender: Contender, size: int, count: int) -> Figures:
    """Publish as ``publish`` does, with an exclusive consumer that reads along on a connection of its own."""

    async def work() -> Figures:
        topic = new_topic("both")
        reading = await raw.connect(contender.url, topic, contender.tls)
        await raw.subscribe(reading, topic, "s")
        link = await raw.connect(contender.url, topic, contender.tls)
        await raw.open_producer(link, topic)
        payload = raw.payload_of(size)
        frames = raw.blocks(payload, count)
        counts = counts_of(frames, payload, count)
        cpu, began = contender.cpu_s(), time.perf_counter()
        await raw.publish(link, frames, counts, WINDOW)
        await reading.until(lambda: reading.messages_seen >= count)
        took = time.perf_counter() - began
        await asyncio.sleep(0.3)
        cpu = contender.cpu_s() - cpu
        link.close()
        reading.close()
        return rates(count, size, took, cpu)

    return asyncio.run(work())


def consume(contender: Contender, size: int, count: int) -> Figures:
    """Read a backlog of ``count`` messages from the earliest on."""

    async def work() -> Figures:
        topic = new_topic("backlog")
        holder = await raw.connect(contender.url, topic, contender.tls)
        await raw.subscribe(holder, topic, "s")
        holder.close()
        link = await raw.connect(contender.url, topic, contender.tls)
        await raw.open_producer(link, topic)
        payload = raw.payload_of(size)
        frames = raw.blocks(payload, count)
        await raw.publish(link, frames, counts_of(frames, payload, count), WINDOW)
        link.close()
        await asyncio.sleep(0.5)
        reading = await raw.connect(contender.url, topic, contender.tls)
        cpu, began = contender.cpu_s(), time.perf_counter()
        await raw.subscribe(reading, topic, "s2")
        await reading.until(lambda: reading.messages_seen >= count)
        took = time.perf_counter() - began
        cpu = contender.cpu_s() - cpu
        reading.close()
        return rates(count, size, took, cpu)

    return asyncio.run(work())


def one_in_flight(contender: Contender, size: int, count: int) -> Figures:
    """Latency of a message that is alone on its way, from send to receipt."""

    async def work() -> Figures:
        topic = new_topic("latency")
        link = await raw.connect(contender.url, topic, contender.tls)
        await raw.open_producer(link, topic)
        payload = raw.payload_of(size)
        await raw.one_in_flight(link, payload, 200, 0)
        cpu = contender.cpu_s()
        took = await raw.one_in_flight(link, payload, count, 200)
        cpu = contender.cpu_s() - cpu
        link.close()
        return {
            "p50 ms": percentile(took, 0.5) * 1e3,
            "p99 ms": percentile(took, 0.99) * 1e3,
            "CPU µs/entry": cpu / count * 1e6,
        }

    return asyncio.run(work())


def steady(contender: Contender, size: int, rate: int, seconds: int) -> Figures:
    """End to end at a fixed rate: from before the send to the arrival at a consumer of its own connection."""

    async def work() -> Figures:
        topic = new_topic("steady")
        reading = await raw.connect(contender.url, topic, contender.tls)
        await raw.subscribe(reading, topic, "s")
        link = await raw.connect(contender.url, topic, contender.tls)
        await raw.open_producer(link, topic)
        payload = raw.payload_of(size)
        reading.keep_arrivals = True
        left: list[float] = []
        began = time.perf_counter()
        for i in range(rate * seconds):
            wait = began + i / rate - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            left.append(time.perf_counter())
            raw.send_now(link, raw.send_frame(payload, 1, i))
        await reading.until(lambda: reading.messages_seen >= len(left))
        took = [b - a for a, b in zip(left, reading.arrivals, strict=True)][rate // 2 :]
        link.close()
        reading.close()
        return {"p50 ms": percentile(took, 0.5) * 1e3, "p99 ms": percentile(took, 0.99) * 1e3}

    return asyncio.run(work())


def client_publish(contender: Contender, size: int, count: int, batching: bool) -> Figures:
    """Publish by the official Python client, asynchronously; the client is the limit here, not the server's CPU."""
    client = pulsar.Client(contender.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        producer = client.create_producer(
            new_topic("client"),
            batching_enabled=batching,
            block_if_queue_full=True,
            max_pending_messages=WINDOW,
        )
        failed: list[pulsar.Result] = []

        def done(result: pulsar.Result, _: object) -> None:
            if result != pulsar.Result.Ok:
                failed.append(result)

        content = b"x" * size
        cpu, began = contender.cpu_s(), time.perf_counter()
        for _ in range(count):
            producer.send_async(content, done)
        producer.flush()
        took = time.perf_counter() - began
        cpu = contender.cpu_s() - cpu
        if failed:
            raise RuntimeError(f"{len(failed)} sends failed: {failed[0]}")
        return rates(count, size, took, cpu)
    finally:
        client.close()
