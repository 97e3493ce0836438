"""WebSocket: publishing, consuming, both; by sockets that stay busy, looked at over a stretch of time."""

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.bench.figures import Figures
from tests.bench.gateway.endpoints import Consumer, Producer, message
from tests.bench.gateway.http_client import Pool, build_request
from tests.bench.gateway.measuring import Meter, Row, Rows, Run, Work, latency
from tests.bench.gateway.sides import Side
from tests.bench.gateway.websocket_client import Socket

WARM_S = 1.0
SECONDS = 4.0
SIZE = 100
LARGE = 256 << 10
PAIRS = 50
BACKLOG = 20_000
DRAIN_S_MAX = 40.0
LEAVE_S_MAX = 5.0
RATE = 200
NAMESPACE = "bench-ws"
S = TypeVar("S", bound=Socket)


def works(scale: float) -> dict[str, Work]:
    """Return the works by name; ``scale`` 1 makes each take seconds."""
    seconds = max(SECONDS * scale, 0.3)
    both = ("apache", "floor")
    backlog = max(int(BACKLOG * scale), 500)
    publishing = {
        "publish, 1 in flight": (1, 1, SIZE),
        "publish, 200 in flight": (1, 200, SIZE),
        f"publish, {PAIRS} sockets of 10 in flight": (PAIRS, 10, SIZE),
        "publish 256 KB, 8 in flight": (1, 8, LARGE),
    }
    chosen = {row: Work(_publishing(row, *how, seconds), both) for row, how in publishing.items()}
    for row, pairs, window in (
        ("publish and consume, 200 in flight", 1, 200),
        (f"{PAIRS} of publish and consume, 10 in flight", PAIRS, 10),
    ):
        chosen[row] = Work(_both(row, pairs, window, seconds))
    row = f"publish and consume, {RATE}/s"
    chosen[row] = Work(_steady(row, seconds))
    row = f"consume a backlog of {backlog:,}"
    chosen[row] = Work(_drain(row, backlog))
    return chosen


class Sockets:
    """The sockets of a work on one side, each pair of them on a topic of its own.

    An async context manager: at its end the sockets are closed and the topics deleted. ``broken`` fails when a socket
    ends before.
    """

    def __init__(self, side: Side, topics: int = 1) -> None:
        self._side = side
        where = side.namespace(NAMESPACE)
        self.topics = [f"{where}/t-{time.time_ns()}-{i}" for i in range(topics)]
        self._open: list[Socket] = []
        self._ws = side.http.replace("http:", "ws:")

    async def __aenter__(self) -> "Sockets":
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return self

    async def __aexit__(self, *_: object) -> None:
        producers = [socket for socket in self._open if isinstance(socket, Producer)]
        for producer in producers:
            producer.stop()
        if not self.broken.done():
            await self.until(lambda: not any(p.unanswered for p in producers), LEAVE_S_MAX)
        self.broken.cancel()
        for socket in self._open:
            socket.leave()
        paths = [f"/admin/v2/persistent/{topic}?force=true" for topic in self.topics]
        async with Pool(self._side.http, 1) as pool:
            await pool.run((build_request("DELETE", path) for path in paths), 30)

    async def producer(
        self, topic: str, window: int, size: int = SIZE, source: str | None = None
    ) -> Producer:
        url = f"{self._ws}/ws/v2/producer/persistent/{topic}"
        return await self._opened(Producer(url, self.broken, message(size), window), source)

    async def consumer(self, topic: str, options: str = "", source: str | None = None) -> Consumer:
        url = f"{self._ws}/ws/v2/consumer/persistent/{topic}/s{options}"
        return await self._opened(Consumer(url, self.broken), source)

    async def _opened(self, socket: S, source: str | None) -> S:
        self._open.append(await socket.open(source))
        return socket

    async def hold(self, seconds: float) -> None:
        """Let them work for so long. Raises what ended one of them."""
        await asyncio.wait({self.broken}, timeout=seconds)
        if self.broken.done():
            self.broken.result()

    async def until(self, done: Callable[[], bool], seconds: float) -> None:
        """Let them work until ``done()``, for ``seconds`` at most."""
        end = time.perf_counter() + seconds
        while not done() and (left := end - time.perf_counter()) > 0:
            await self.hold(min(left, 0.005))


@dataclass
class Stretch:
    """Counts of a side in some seconds. ``published``, ``consumed``: messages of each socket."""

    meter: Meter
    published: list[int]
    consumed: list[int]

    def row(self, more: Figures) -> Row:
        """Return rates, CPU for each message, shares of the sockets where there are several."""
        figures: Figures = {}
        cpu = sum(self.meter.cpu.values()) * 1e6
        for what, counts in (("published", self.published), ("consumed", self.consumed)):
            if counts:
                figures[f"{what}/s"] = sum(counts) / self.meter.seconds
                figures |= {f"CPU µs/{what}": cpu / sum(counts)} if sum(counts) else {}
            if len(counts) > 1 and (mean := statistics.mean(counts)):
                figures[f"least {what} of mean"] = min(counts) / mean
                figures[f"most {what} of mean"] = max(counts) / mean
        count = max(sum(self.published) or sum(self.consumed), 1)
        return Row(figures | more, self.meter.each(count, 1e6), self.meter.load)


async def watched(
    side: Side,
    work: Sockets,
    producers: Sequence[Producer],
    consumers: Sequence[Consumer],
    seconds: float,
) -> Stretch:
    """Measure the given producers and consumers for some seconds."""
    for producer in producers:
        producer.took.clear()
    published = [producer.published for producer in producers]
    consumed = [consumer.consumed for consumer in consumers]
    meter = Meter(side)
    await work.hold(seconds)
    meter.stop()
    return Stretch(
        meter,
        [now.published - before for now, before in zip(producers, published, strict=True)],
        [now.consumed - before for now, before in zip(consumers, consumed, strict=True)],
    )


def _publishing(row: str, sockets: int, window: int, size: int, seconds: float) -> Run:
    async def run(side: Side) -> Rows:
        async with Sockets(side, sockets) as work:
            producers = [await work.producer(topic, window, size) for topic in work.topics]
            for producer in producers:
                producer.begin()
            await work.hold(WARM_S)
            stretch = await watched(side, work, producers, [], seconds)
            return {row: stretch.row(latency([s for p in producers for s in p.took]))}

    return run


def _both(row: str, pairs: int, window: int, seconds: float) -> Run:
    async def run(side: Side) -> Rows:
        async with Sockets(side, pairs) as work:
            consumers = [await work.consumer(topic) for topic in work.topics]
            producers = [await work.producer(topic, window) for topic in work.topics]
            for consumer in consumers:
                consumer.arrived = []
            for producer in producers:
                producer.sent = []
                producer.begin()
            await work.hold(WARM_S)
            seen = [consumer.consumed for consumer in consumers]
            stretch = await watched(side, work, producers, consumers, seconds)
            took = [
                seconds
                for pair in zip(producers, consumers, seen, strict=True)
                for seconds in end_to_end(*pair)
            ]
            return {row: stretch.row(latency(took, "end to end "))}

    return run


def end_to_end(producer: Producer, consumer: Consumer, first: int) -> list[float]:
    """Seconds from sending to arrival of the messages from number ``first`` on, which came in their order."""
    assert producer.sent is not None
    assert consumer.arrived is not None
    arrived = consumer.arrived[first:]
    return [come - gone for come, gone in zip(arrived, producer.sent[first:], strict=False)]


def _steady(row: str, seconds: float) -> Run:
    """Send a message every 5 ms, whether the earlier ones were answered or not."""

    async def run(side: Side) -> Rows:
        async with Sockets(side) as work:
            (topic,) = work.topics
            consumer, producer = await work.consumer(topic), await work.producer(topic, 0)
            consumer.arrived, producer.sent = [], []
            sending = asyncio.get_running_loop().create_task(_send(producer))
            try:
                await work.hold(WARM_S)
                first = consumer.consumed
                stretch = await watched(side, work, [producer], [consumer], seconds)
            finally:
                sending.cancel()
            took = end_to_end(producer, consumer, first)
            return {row: stretch.row(latency(producer.took) | latency(took, "end to end "))}

    return run


async def _send(producer: Producer) -> None:
    began = time.perf_counter()
    for i in itertools.count():
        await asyncio.sleep(max(began + i / RATE - time.perf_counter(), 0))
        producer.publish(1)


def _drain(row: str, count: int) -> Run:
    """Read messages that were published before by one consumer, from its handshake on."""

    async def run(side: Side) -> Rows:
        async with Sockets(side, 2) as work:
            await _drained(side, work, work.topics[0], max(count // 5, 100))
            stretch = await _drained(side, work, work.topics[1], count)
            return {row: stretch.row({})}

    return run


async def _drained(side: Side, work: Sockets, topic: str, count: int) -> Stretch:
    side.ask("PUT", f"/admin/v2/persistent/{topic}")
    side.ask("PUT", f"/admin/v2/persistent/{topic}/subscription/s")
    producer = await work.producer(topic, 200)
    producer.begin()
    await work.until(lambda: producer.published >= count, DRAIN_S_MAX)
    producer.stop()
    if producer.published < count:
        raise RuntimeError(f"{producer.published} of {count} messages published in {DRAIN_S_MAX} s")
    meter = Meter(side)
    consumer = await work.consumer(topic)
    await work.until(lambda: consumer.consumed >= count, DRAIN_S_MAX)
    meter.stop()
    return Stretch(meter, [], [consumer.consumed])
