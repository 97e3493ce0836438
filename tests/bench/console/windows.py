"""Sockets that watch windows of the list: how old the numbers are on arrival, and what a gateway spends on that."""

import asyncio
import itertools
import json
import re
import time

from tests.bench.contenders import cpu_s
from tests.bench.gateway.http_client import Pool, build_request
from tests.bench.gateway.websocket_client import Socket, build_frame

AT = re.compile(rb'"channel":"(?:topics|subscriptions)","at":(\d+)')


class Arrivals:
    """Ages in ms of the received lists, and their bytes."""

    def __init__(self) -> None:
        self.ages: list[float] = []
        self.bytes = 0

    def take(self, texts: list[bytes]) -> None:
        now = time.time() * 1000
        for text in texts:
            self.bytes += len(text)
            match = AT.search(text[:200])
            if match:
                self.ages.append(now - int(match[1]))


def subscribe(window: int, rows: int, sort: str, channel: str = "topics") -> bytes:
    params = {"cluster": "standalone", "sort": sort, "offset": window * rows, "limit": rows}
    request = {"op": "subscribe", "id": "w", "channel": channel, "params": params}
    return build_frame(json.dumps(request).encode())


async def watched(
    http: str,
    pids: list[int],
    sockets: int,
    seconds: float,
    *,
    same: bool,
    rows: int = 200,
    channel: str = "topics",
) -> dict[str, float]:
    """Return figures of so many sockets, each with a window of its own or all with the first one."""
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    arrivals = Arrivals()
    opened = []
    for index in range(sockets):
        socket = await Socket(f"ws{http[4:]}/api/v1/live", broken).open()
        socket.on_texts = arrivals.take
        socket.send(subscribe(0 if same else index, rows, "-backlog", channel))
        opened.append(socket)
    await asyncio.sleep(5)
    arrivals.ages.clear()
    arrivals.bytes = 0
    before, mine, began = cpu_s(pids), time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    took = time.perf_counter() - began
    figures = {
        "gateway, cores": (cpu_s(pids) - before) / took,
        "lists/s": len(arrivals.ages) / took,
        "MB/s": arrivals.bytes / took / 1e6,
        **percentiles("age ms", arrivals.ages),
        "load's own cores": (time.process_time() - mine) / took,
    }
    if broken.done():
        broken.result()
    for socket in opened:
        socket.leave()
    return figures


async def asked(
    http: str,
    pids: list[int],
    queries: dict[str, str],
    token: str = "",
    resource: str = "topics",
) -> dict[str, float]:
    """Request the list by GETs, one after another; return ms of wall time and of the gateway's CPU. Raises
    RuntimeError for an answer other than 200."""
    figures: dict[str, float] = {}
    async with Pool(http, 1) as pool:
        for name, query in queries.items():
            request = build_request(
                "GET", f"/api/v1/clusters/standalone/{resource}?{query}", token=token
            )
            before = cpu_s(pids)
            run = await pool.run([request])
            figures[name] = run.request_s[0] * 1e3
            figures[f"{name}, CPU"] = (cpu_s(pids) - before) * 1e3
    return figures


async def beside(http: str, seconds: float) -> float:
    """Send small requests, one after another; return the longest time, ms."""
    async with Pool(http, 1) as pool:
        request = build_request("GET", "/admin/v2/tenants")
        return max((await pool.run(itertools.repeat(request), seconds)).request_s) * 1e3


def percentiles(name: str, values: list[float]) -> dict[str, float]:
    ordered = sorted(values) or [float("nan")]
    return {
        f"{name} p50": ordered[len(ordered) // 2],
        f"{name} p95": ordered[int(len(ordered) * 0.95)],
        f"{name} p99": ordered[int(len(ordered) * 0.99)],
        f"{name} max": ordered[-1],
    }
