"""A broker's side of the console's numbers, without topics: so many rows, of which a share changes each second.

It registers beside the instance's own broker and answers what gateways ask of all brokers, with the shipped row log;
topics of its are never looked up. Loading as many real ones would take an hour.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kazoo.client import KazooClient

from engine.admin.api.rows import ROW_COLUMNS, SUBSCRIPTION_ROWS, TOPIC_ROWS
from engine.base.entropy import RandomEntropy
from engine.broker.control.row_log import Row, RowLog
from engine.metadata import paths
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork
from engine.ownership.registration import BrokerRecord
from gateway.services.clock import now_ms

NAMESPACE = "public/console-bench"
ROUND_S = 1.0


class Teller:
    """``changing``: the share of topics whose numbers move each second."""

    def __init__(self, topics: int, changing: float) -> None:
        self._chance = random.Random(RandomEntropy().bits(64))
        self._names = [f"persistent://{NAMESPACE}/topic-{i:06}" for i in range(topics)]
        self._changing = round(topics * changing)
        self._log = RowLog()
        self._none = RowLog()
        self._counted = asyncio.Event()
        self._at = 0
        for name in self._names:
            self._log.put(self._row(name))

    def _row(self, name: str) -> Row:
        draw = self._chance.randrange
        rates = {"msg_rate_in": draw(10_000_000), "msg_rate_out": draw(10_000_000)}
        counts = {"producers": 1, "consumers": 1, "subscriptions": 1, "backlog": draw(1_000_000)}
        counts |= {
            "backlog_messages": 3 * counts["backlog"],
            "backlog_estimated": counts["backlog"],
        }
        counts["oldest_at"] = now_ms() - draw(1_000_000) if counts["backlog"] else 0
        return [name, *(counts.get(column, rates.get(column, 0)) for column in ROW_COLUMNS)]

    async def count(self) -> None:
        """Once a second, for ever."""
        while True:
            for name in self._chance.sample(self._names, self._changing):
                self._log.put(self._row(name))
            self._at = now_ms()
            counted, self._counted = self._counted, asyncio.Event()
            counted.set()
            await asyncio.sleep(ROUND_S)

    async def answer(self, request: Request) -> Response:
        """What a gateway asks."""

        operation = request.path.removeprefix("/rpc/")
        if operation not in (TOPIC_ROWS.name, SUBSCRIPTION_ROWS.name):
            return json_response(422, {"code": "NotFound", "reason": "a bench, no broker"})
        asked = json.loads(request.body)["arguments"]
        log = self._log if operation == TOPIC_ROWS.name else self._none
        known = asked.get("incarnation") == "teller"
        revision = int(asked["revision"]) if known else 0
        if revision == log.revision:
            await self._counted.wait()
        changes = log.since(revision, int(asked["begun"]) if known else 0)
        told = {"at": self._at, "incarnation": "teller", **changes._asdict()}
        return json_response(200, {"result": told})


@asynccontextmanager
async def telling(zookeeper: str, topics: int, changing: float) -> AsyncIterator[Teller]:
    """A teller that the instance of this ZooKeeper has as a broker, for the length of the block."""
    teller = Teller(topics, changing)
    server = HttpServer(LoopNetwork(), teller.answer, connections_max=100)
    port = await server.listen("127.0.0.1", 0)
    url, broker_id = f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"
    record = BrokerRecord(broker_id, "pulsar://127.0.0.1:1", url, now_ms(), "bench")
    client = KazooClient(zookeeper)
    await asyncio.to_thread(client.start, 20)
    try:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(teller.count())
            await asyncio.sleep(0)
            await asyncio.to_thread(
                client.create, paths.broker(broker_id), record.encode(), ephemeral=True
            )
            yield teller
            work.cancel()
    finally:
        await asyncio.to_thread(client.stop)
        client.close()
        await server.close()
