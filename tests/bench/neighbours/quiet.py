"""The quiet tenant: publishes and receives a few messages a second, and times each of them."""

import asyncio
import time

from tests.bench import raw

RATE = 200
SIZE = 1024


class Quiet:
    """``open`` once; ``delays`` as often as wanted."""

    def __init__(self, link: raw.Link, reading: raw.Link) -> None:
        self._link = link
        self._reading = reading
        self._sent = 0

    @classmethod
    async def open(cls, url: str, topic: str) -> "Quiet":
        reading, link = await raw.connect(url, topic), await raw.connect(url, topic)
        await raw.subscribe(reading, topic, f"quiet-{time.time_ns()}", earliest=False)
        await raw.open_producer(link, topic)
        reading.keep_arrivals = True
        return cls(link, reading)

    async def delays(self, seconds: float) -> list[float]:
        """Seconds from before each send to the arrival, of so many seconds of messages. Raises RuntimeError."""
        payload = raw.payload_of(SIZE)
        self._reading.arrivals.clear()
        left: list[float] = []
        began = time.perf_counter()
        for number in range(int(RATE * seconds)):
            await asyncio.sleep(max(began + number / RATE - time.perf_counter(), 0))
            left.append(time.perf_counter())
            raw.send_now(self._link, raw.send_frame(payload, 1, self._sent))
            self._sent += 1
        await self._reading.until(lambda: self._reading.messages_seen >= self._sent)
        return [b - a for a, b in zip(left, self._reading.arrivals, strict=True)]

    def close(self) -> None:
        self._link.close()
        self._reading.close()
