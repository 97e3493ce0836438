"""Topics made by REST, used for the first time, and served again after a clean stop and after a ``kill -9``."""

import asyncio
import time
from collections.abc import Awaitable
from functools import partial

from tests.bench.gateway.http_client import Pool, build_request
from tests.bench.gateway.measuring import Meter, Row, Rows
from tests.bench.gateway.sides import Side
from tests.bench.topics.visitors import Visitors

MADE_AT_ONCE = 16
ACKED = 2
"""Number of topics of which one has a consumer that acknowledges: its subscription has a ledger of its own then."""


async def loading(side: Side, count: int, number: int) -> Rows:
    """Measure one round. Apache is not stopped: its standalone is all of its services in one process."""
    return await _Loading(side, count, number).run()


class _Loading:
    """One round on one side: ``count`` topics of a namespace of their own."""

    def __init__(self, side: Side, count: int, number: int) -> None:
        self._side = side
        where = side.namespace(f"bench-topics-{number}")
        self._paths = [f"{where}/t-{i:05}" for i in range(count)]
        self._topics = [f"persistent://{path}" for path in self._paths]
        self.rows: Rows = {}

    async def run(self) -> Rows:
        idle = self._memory()
        await self._measured("create by REST", self._create())
        self._note("KB per topic just made, loaded without subscription", idle)
        await self._measured("subscribe, publish one, leave: first time", self._use())
        await self._measured("the same when loaded", self._use())
        if self._side.instance is not None:
            await self._restart("stop")
            loaded = self._memory()
            await self._measured("subscribe after a clean stop", self._subscribe())
            self._note("KB per loaded topic with a subscription", loaded)
            await self._use()
            began = time.perf_counter()
            await self._restart("kill")
            row = await self._measured("subscribe after kill -9", self._subscribe())
            row.figures["all served after s"] = time.perf_counter() - began
        return self.rows

    async def _measured(self, name: str, work: Awaitable[None]) -> Row:
        meter = Meter(self._side)
        await work
        await meter.settle()
        count = len(self._topics)
        parts = meter.each(count, 1e3)
        figures = {"topics/s": count / meter.seconds, "CPU ms/topic": sum(parts.values())}
        self.rows[name] = Row(figures, parts, meter.load)
        return self.rows[name]

    def _memory(self) -> dict[str, int]:
        return self._side.pss_kb()

    def _note(self, name: str, before: dict[str, int]) -> None:
        now = self._memory()
        parts = {kind: (now[kind] - before[kind]) / len(self._topics) for kind in now}
        broker = parts.get("broker", sum(parts.values()))
        self.rows[name] = Row({"KB of the broker": broker}, parts, 0.0)

    async def _create(self) -> None:
        requests = (build_request("PUT", f"/admin/v2/persistent/{path}") for path in self._paths)
        async with Pool(self._side.http, MADE_AT_ONCE) as pool:
            await pool.run(requests, 600)

    async def _use(self) -> None:
        async with Visitors(self._side.url) as visitors:
            await visitors.each(self._topics[::ACKED], partial(visitors.visit, ack=True))
            others = [topic for i, topic in enumerate(self._topics) if i % ACKED]
            await visitors.each(others, partial(visitors.visit, ack=False))

    async def _subscribe(self) -> None:
        async with Visitors(self._side.url) as visitors:
            await visitors.each(self._topics, partial(visitors.subscribed, patient=True))

    async def _restart(self, how: str) -> None:
        """Stop or kill the broker and return when it answers again."""
        instance = self._side.instance
        assert instance is not None
        name = "broker-1"
        pid = instance.child(name)["pid"]
        await asyncio.to_thread(instance.control, how, name)
        if how == "stop":
            await asyncio.to_thread(instance.control, "start", name)
        while instance.child(name)["pid"] == pid:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(instance.wait_running, name)
        self._side.processes = self._side.find()
