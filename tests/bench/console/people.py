"""Windows of the list of many people at once: open sockets of viewers with different rights, beside those of one."""

import asyncio
import time
from collections import defaultdict
from itertools import cycle
from statistics import median
from typing import Any

from tests.bench.console.windows import AT, percentiles, subscribe
from tests.bench.contenders import cpu_s
from tests.bench.gateway.websocket_client import Socket

SETTLE_S = 3.0
FIRST_ROWS_S = 60.0
ORDERS = ("-backlog", "-msg_rate_in", "-msg_rate_out", "backlog", "msg_rate_in", "msg_rate_out")


def role_of(number: int) -> str:
    """Return the name of a viewer."""
    return f"viewer-{number}"


class Window:
    """A socket with one window: when its rows came first, and how old later ones were, ms."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.first_ms = 0.0
        self.ages: list[float] = []
        self.bytes = 0
        self.has_rows = asyncio.Event()

    def take(self, texts: list[bytes]) -> None:
        now = time.time() * 1000
        for text in texts:
            match = AT.search(text[:200])
            if match is None:
                continue
            if not self.has_rows.is_set():
                self.first_ms = (time.perf_counter() - self.began) * 1e3
                self.has_rows.set()
            self.bytes += len(text)
            self.ages.append(now - int(match[1]))


async def watched_by(
    http: str,
    pids: list[int],
    tokens: list[str],
    sockets: int,
    seconds: float,
    rows: int,
    sort: str,
) -> dict[str, float]:
    """Return figures of so many sockets that open at once, of each viewer as many, each with a window of its own in
    this order."""
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def opened(number: int) -> tuple[Socket, Window]:
        own_token, window = tokens[number % len(tokens)], Window()
        socket = await Socket(f"ws{http[4:]}/api/v1/live?token={own_token}", broken).open()
        socket.on_texts = window.take
        socket.send(subscribe(number // len(tokens), rows, sort))
        async with asyncio.timeout(FIRST_ROWS_S):
            await window.has_rows.wait()
        return socket, window

    before = cpu_s(pids)
    pairs = await asyncio.gather(*(opened(number) for number in range(sockets)))
    opening_s = cpu_s(pids) - before
    await asyncio.sleep(SETTLE_S)
    for _, window in pairs:
        window.ages.clear()
        window.bytes = 0
    before, mine, began = cpu_s(pids), time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    took = time.perf_counter() - began
    ages = [age for _, window in pairs for age in window.ages]
    figures = {
        **percentiles("first rows ms", [window.first_ms for _, window in pairs]),
        "opening, CPU s": opening_s,
        **percentiles("push age ms", ages),
        "gateway, cores": (cpu_s(pids) - before) / took,
        "lists/s": len(ages) / took,
        "MB/s": sum(window.bytes for _, window in pairs) / took / 1e6,
        "load's own cores": (time.process_time() - mine) / took,
    }
    if broken.done():
        broken.result()
    for socket, _ in pairs:
        socket.leave()
    return figures


async def by_turns(
    http: str, pids: list[int], tokens: list[str], rounds: int, **options: Any
) -> dict[str, dict[str, float]]:
    """Return the medians of the figures for one viewer and for all of them, measured by turns.

    Orders stay for a while, so each run asks for one that no run has asked for lately.
    """
    orders = cycle(ORDERS)
    sides = {"one viewer": tokens[:1], f"{len(tokens)} viewers": tokens}
    runs: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            runs[name].append(
                await watched_by(http, pids, sides[name], sort=next(orders), **options)
            )
    return {
        name: {key: median(run[key] for run in runs[name]) for key in runs[name][0]}
        for name in sides
    }
