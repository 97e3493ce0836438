"""The noisy tenant, in a process of its own: publishes or receives at the rate that it reads, over several connections.

A line on its standard input is a rate in messages a second over all topics from now on, 0 for none, or empty to leave
that. It is answered by how many messages have passed since the rate was set last. It ends with its input.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

from engine.wire import client_commands as say
from tests.bench import raw

SIZE = 1024
STEP_S = 0.01
LATE_S = 0.1


class Crowd:
    """``connections`` to ``topics`` in turn that send (or, by ``subscription``, ask for) ``rate`` messages a second."""

    def __init__(
        self, url: str, topics: Sequence[str], connections: int, rate: float, subscription: str
    ) -> None:
        self._url = url
        self._topics = [topics[number % len(topics)] for number in range(connections)]
        self._rate = rate
        self._subscription = subscription
        self._links: list[raw.Link] = []
        self._work: asyncio.Task[None] | None = None

    @property
    def passed(self) -> int:
        """Messages that were confirmed, or came."""
        if self._subscription:
            return sum(link.messages_seen for link in self._links)
        return sum(link.receipts_seen for link in self._links)

    async def begin(self) -> None:
        for topic in self._topics:
            link = await raw.connect(self._url, topic)
            if self._subscription:
                link.grants = False
                await raw.subscribe(link, topic, self._subscription)
            else:
                await raw.open_producer(link, topic)
            self._links.append(link)
        self._work = asyncio.create_task(self._keep_rate())

    async def _keep_rate(self) -> None:
        """Send or grant permits at the rate. A paused connection is left out; delays beyond ``LATE_S`` are not made up
        for."""
        frame = raw.send_frame(raw.payload_of(SIZE), 1, 0)
        first, due, before = 0, 0.0, time.perf_counter()
        while True:
            await asyncio.sleep(STEP_S)
            now = time.perf_counter()
            due += self._rate * min(now - before, LATE_S)
            before = now
            turn = min(int(due), len(self._links))
            per_link = int(due) // turn if turn else 0
            for number in range(first, first + turn):
                link = self._links[number % len(self._links)]
                if self._subscription:
                    link.send(say.flow(1, per_link))
                elif not link.paused:
                    raw.send_now(link, frame * per_link)
            first = (first + turn) % len(self._links)
            due -= turn * per_link

    async def end(self) -> None:
        """Abort the connections, so that nothing is left for the next turn. Raises RuntimeError."""
        for link in self._links:
            if link.errors:
                raise RuntimeError(link.errors[0])
            link.abort()
        assert self._work is not None
        if self._work.done():
            self._work.result()
        self._work.cancel()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("topics", nargs="+")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--receive", action="store_true")
    args = parser.parse_args()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    crowd: Crowd | None = None
    while line := (await lines.readline()).decode():
        passed = crowd.passed if crowd is not None else 0
        if line.strip():
            if crowd is not None:
                await crowd.end()
            crowd = None
            if rate := float(line):
                subscription = f"noisy-{time.time_ns()}" if args.receive else ""
                crowd = Crowd(args.url, args.topics, args.connections, rate, subscription)
                await crowd.begin()
        print(passed, flush=True)
    if crowd is not None:
        await crowd.end()


if __name__ == "__main__":
    asyncio.run(main())
