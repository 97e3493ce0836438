"""A producer of a simulated cluster: sends numbered entries, pipelined, and repeats each until it has its receipt."""

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from engine.base.ids import Position
from engine.client.errors import LostError
from engine.client.raw_producer import RawProducer
from engine.wire import events
from engine.wire.batches import Message, pack_entry
from tests.sim.kit.cluster import EPOCH_MS
from tests.sim.topics.client import Client
from tests.sim.topics.history import Receipt, Sent
from tests.sim.topics.observer import Observer

SEND_TIMEOUT_S = 10.0
DELAYS_MS = (-1000, 200, 1000, 4000)
FAR_MS = 3_600_000
"""Delays of delivery; messages with FAR_MS are delivered only when a clock is set, or removed by an administrator."""


class Producer(Client):
    """A producer of numbered messages, pipelined, until ``quiet``; then it waits for the last receipts."""

    def __init__(
        self,
        observer: Observer,
        name: str,
        topic: str,
        rate: float,
        ready: Callable[[], bool],
        *,
        reminds: bool = False,
        keys: int = 0,
        delayed: float = 0.1,
    ) -> None:
        """Create a producer. ``keys``: every message has one of so many. ``delayed``: the share with a delivery
        time."""
        super().__init__(observer, name, topic)
        self.reminds = reminds
        """Set when some of its messages are to be delivered far in the future."""
        self.payloads: list[bytes] = []
        self.sizes: list[int] = []
        """Messages in the entry of each number."""
        self.deliver_at_ms: dict[int, int] = {}
        self._chunks = self.history.chunks
        self._keys = keys
        self._delayed = delayed
        self.unanswered: deque[int] = deque()
        self._durable: set[int] = set()
        self.quiet = False
        self._rate = rate
        self._ready = ready
        self._written = 0
        self._epoch = 0
        self._progress_at = 0.0
        self.history.topics[name] = topic

    def start(self) -> None:
        super().start()
        self.loop.spawn(self.node, self._generate())

    async def _generate(self) -> None:
        while not self._ready():
            await asyncio.sleep(0.1)
        while not self.quiet:
            await asyncio.sleep(self.rng.expovariate(self._rate))
            if len(self.unanswered) < 60 and not self.quiet:
                for _ in range(self.rng.choice((1, 1, 2, 8))):
                    self._make_any()
                self.wake_up()

    def encore(self) -> None:
        """Publish a few more messages, one of them delayed."""
        self._make(1, deliver_in_ms=200)
        for _ in range(3):
            self._make_any()
        self.wake_up()

    def _make_any(self) -> None:
        chance = self.rng.random()
        if chance < 0.05:
            count = self.rng.choice((2, 3))
            for index in range(count):
                number = self._make(1)
                self._chunks[self.name, number] = (f"{self.name}-{number - index}", index, count)
                if index and self._keys:
                    known = self.history.keys
                    known[self.name, number] = known[self.name, number - index]
        elif chance < 0.05 + self._delayed:
            self._make(1, deliver_in_ms=self.rng.choice(DELAYS_MS))
        elif self.reminds and not self.calm and chance < 0.2 + self._delayed:
            self._make(1, deliver_in_ms=FAR_MS)
        else:
            self._make(self.rng.choice((1, 1, 1, 3, 9)))

    def _make(self, size: int, *, deliver_in_ms: int | None = None) -> int:
        """Queue a new entry of ``size`` messages; return its number."""
        number = len(self.payloads)
        padding = self.rng.choice((0, 0, 10, 200, 200, 2000, 20_000 if number % 10 == 0 else 50))
        payload = b"<%s:%d:%016x>" % (self.name.encode(), number, self.rng.getrandbits(64))
        self.payloads.append(payload + b"." * padding)
        self.sizes.append(size)
        if deliver_in_ms is not None:
            self.deliver_at_ms[number] = EPOCH_MS + int(self.loop.now * 1000) + deliver_in_ms
            self.history.delayed.add((self.name, number))
        if self._keys:
            self.history.keys[self.name, number] = f"k{self.rng.randrange(self._keys)}"
        self.unanswered.append(number)
        self.history.sent.append(Sent(self.loop.now, self.name, number))
        return number

    def values(self, number: int) -> list[bytes]:
        """Return the messages sent together under a number."""
        first = self.payloads[number]
        return [first, *(first[:40] + b"#%d" % i for i in range(1, self.sizes[number]))]

    def marker(self, number: int) -> bytes:
        """Return bytes that are in a stored copy of the message and nowhere else."""
        return self.payloads[number].rstrip(b".")

    async def _session(self) -> None:
        link = await self.open()
        self._epoch += 1
        producer = await RawProducer.open(
            link,
            self.topic,
            name=self.name,
            epoch=self._epoch,
            on_receipts=self._answered,
            on_end=self.wake_up,
        )
        self._written = 0
        self._progress_at = self.loop.now
        while producer.error is None:
            self.wake.clear()
            self._write(producer)
            if self.unanswered and self.loop.now - self._progress_at > SEND_TIMEOUT_S:
                raise LostError("no receipt in time")
            try:
                async with asyncio.timeout(1.0):
                    await self.wake.wait()
            except TimeoutError:
                pass
            if not self.calm and self.rng.random() < 0.01:
                raise LostError("a whim of the client")
        raise producer.error

    def _write(self, producer: RawProducer) -> None:
        """Send what was not sent on this link, in runs; chunks singly."""
        if not self.unanswered:
            self._progress_at = self.loop.now
        run: list[int] = []
        for number in list(self.unanswered)[self._written :]:
            if (self.name, number) in self._chunks:
                self._write_run(producer, run)
                run = []
                producer.send_chunk(number, self._entry(number))
            else:
                run.append(number)
        self._write_run(producer, run)
        self._written = len(self.unanswered)

    def _write_run(self, producer: RawProducer, run: list[int]) -> None:
        entries = [self._entry(number) for number in run]
        producer.send(run, entries, [self.sizes[number] for number in run])

    def _entry(self, number: int) -> bytes:
        messages = [Message(value, sequence_id=number) for value in self.values(number)]
        publish_ms = EPOCH_MS + int(self.loop.now * 1000)
        extra: dict[str, Any] = {}
        if number in self.deliver_at_ms:
            extra["deliver_at_time"] = self.deliver_at_ms[number]
        if (self.name, number) in self._chunks:
            uuid, index, count = self._chunks[self.name, number]
            extra |= {"uuid": uuid, "chunk_id": index, "num_chunks_from_msg": count}
        if self._keys:
            extra["partition_key"] = self.history.keys[self.name, number]
        return pack_entry(messages, producer_name=self.name, publish_ms=publish_ms, extra=extra)

    def _answered(self, receipts: Sequence[events.Receipt]) -> None:
        for _, number, position, *_ in receipts:
            self.unanswered.popleft()
            self._written -= 1
            self._progress_at = self.loop.now
            self.history.receipts.append(
                Receipt(self.loop.now, self.name, number, position, self.broker)
            )
            insort(self.history.confirmed.setdefault(self.topic, []), position)
            self.check_durable(number, position, "has its receipt")

    def check_durable(self, number: int, position: Position, what: str) -> None:
        """Check, at its receipt or its first delivery, that an ack quorum of disks holds the message."""
        if number in self._durable:
            return
        self._durable.add(number)
        need = self.cluster.shape.quorum[2] - (self.cluster.lost is not None)
        copies = self.cluster.durable_copies(self.marker(number), need)
        if copies < need:
            self.history.anomalies.append(
                f"{self.name} {number} at {position} {what} and has {copies} synced copies of {need}"
            )
