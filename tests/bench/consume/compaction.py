"""A topic compacted: of many entries the last one of each key."""

import asyncio
import json
import time
import urllib.request

from tests.bench.consume.fans import SIZE, Fan, entries, publish
from tests.bench.contenders import Contender
from tests.bench.figures import Figures
from tests.bench.loads import rates

LIMIT_S = 3600.0


def compacted(contender: Contender, count: int, keys: int) -> Figures:
    """``count`` entries of ``keys`` keys by turns, published before; figures of a published entry."""

    async def work() -> Figures:
        fan = Fan(contender, "compacted")
        try:
            link = await fan.link()
            await publish(link, fan.topic, count, entries(keys))
            await asyncio.sleep(1.0)
            cpu, began = contender.cpu_s(), time.perf_counter()
            await asyncio.to_thread(_compact, contender, fan.topic)
            return rates(count, SIZE, time.perf_counter() - began, contender.cpu_s() - cpu)
        finally:
            await fan.close()

    return asyncio.run(work())


def _compact(contender: Contender, topic: str) -> None:
    path = f"{contender.http}/admin/v2/{topic.replace('://', '/')}/compaction"
    _call("PUT", path)
    until = time.monotonic() + LIMIT_S
    while (status := json.loads(_call("GET", path)))["status"] == "RUNNING":
        if time.monotonic() > until:
            raise TimeoutError(f"{topic} is not compacted in {LIMIT_S} s")
        time.sleep(0.02)
    if status["status"] != "SUCCESS":
        raise RuntimeError(f"{contender.name}: {status}")


def _call(method: str, url: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as reply:
        return bytes(reply.read())
