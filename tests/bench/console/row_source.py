"""A broker's side of the console's numbers, without topics: so many rows, of which a share changes each second.

It registers beside the instance's own broker and answers the requests that gateways send to all brokers, with the
shipped row log; its topics are never looked up. Loading as many real ones would take an hour.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kazoo.client import KazooClient

from engine.admin.api.brokers import CONNECTIONS
from engine.admin.api.rows import ROW_COLUMNS, SUBSCRIPTION_ROWS, TOPIC_ROWS, SubscriptionCell
from engine.base.entropy import RandomEntropy
from engine.broker.control.row_log import Row, RowLog
from engine.metadata import paths
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork
from engine.ownership.registration import BrokerRecord
from gateway.services.clock import now_ms

ROUND_S = 1.0
PAGE_CONNECTIONS = 1_000
VERSIONS = (
    "Pulsar-Java-v4.0.8",
    "Pulsar-CPP-v3.7.0",
    "Pulsar-Go-version-v0.14.0",
    "pulsar-rs-v6.3",
)


def namespace_of(number: int) -> str:
    """Return the name of a namespace."""
    return f"public/console-bench-{number}"


class RowSource:
    """A source of rows. ``changing``: the share of topics whose numbers move each second.

    The topics are in so many ``namespaces``, ``namespace_of`` the first to the last. ``subscribed``: each has a
    subscription, whose numbers move with its topic's, and a client's connection.
    """

    def __init__(self, topics: int, changing: float, namespaces: int, subscribed: bool) -> None:
        self._chance = random.Random(RandomEntropy().bits(64))
        self._names = [
            f"persistent://{namespace_of(i % namespaces)}/topic-{i:06}" for i in range(topics)
        ]
        self._changing = round(topics * changing)
        self._log = RowLog()
        self._subscriptions = RowLog()
        self._is_subscribed = subscribed
        self._connections = [self._connection(i) for i in range(topics)] if subscribed else []
        self._counted = asyncio.Event()
        self._at = 0
        for name in self._names:
            self._change(name)

    def _change(self, name: str) -> None:
        self._log.put(self._row(name))
        if self._is_subscribed:
            self._subscriptions.put([name, list(self._cell())])

    def _cell(self) -> SubscriptionCell:
        draw = self._chance.randrange
        backlog = draw(1_000_000)
        return SubscriptionCell(
            *("work", backlog, draw(10_000_000)),
            oldest_at=now_ms() - draw(1_000_000) if backlog else 0,
            messages=3 * backlog,
            estimated=backlog,
            consumers=1,
            unacked=draw(1_000),
            kind="Shared",
        )

    def _connection(self, index: int) -> Row:
        """Return the CONNECTION_COLUMNS of a client."""
        draw = self._chance.randrange
        address = f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}:{1024 + draw(60_000)}"
        texts = (address, self._chance.choice(VERSIONS), "", None, None, "", f"service-{draw(200)}")
        return [index + 1, now_ms() - draw(10**9), *texts, 1, 1, *(draw(10**6) for _ in range(5))]

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
        """Change rows once a second, until it is cancelled."""
        while True:
            for name in self._chance.sample(self._names, self._changing):
                self._change(name)
            self._at = now_ms()
            counted, self._counted = self._counted, asyncio.Event()
            counted.set()
            await asyncio.sleep(ROUND_S)

    async def answer(self, request: Request) -> Response:
        """Answer a gateway's request."""

        operation = request.path.removeprefix("/rpc/")
        arguments = json.loads(request.body)["arguments"]
        if operation == CONNECTIONS.name:
            return json_response(200, {"result": self._page(int(arguments["after"]))})
        if operation not in (TOPIC_ROWS.name, SUBSCRIPTION_ROWS.name):
            return json_response(422, {"code": "NotFound", "reason": "a bench, no broker"})
        log = self._log if operation == TOPIC_ROWS.name else self._subscriptions
        known = arguments.get("incarnation") == "row source"
        revision = int(arguments["revision"]) if known else 0
        if revision == log.revision:
            await self._counted.wait()
        changes = log.since(revision, int(arguments["begun"]) if known else 0)
        result = {"at": self._at, "incarnation": "row source", **changes._asdict()}
        return json_response(200, {"result": result})

    def _page(self, after: int) -> dict[str, object]:
        end = after + PAGE_CONNECTIONS
        rows = self._connections[after:end]
        return {"at": now_ms(), "rows": rows, "next": end if end < len(self._connections) else None}


@asynccontextmanager
async def running_source(
    zookeeper: str, topics: int, changing: float, namespaces: int = 1, *, subscribed: bool = False
) -> AsyncIterator[RowSource]:
    """Register a row source as a broker of the instance of this ZooKeeper, for the length of the block."""
    source = RowSource(topics, changing, namespaces, subscribed)
    server = HttpServer(LoopNetwork(), source.answer, connections_max=100)
    port = await server.listen("127.0.0.1", 0)
    url, broker_id = f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"
    record = BrokerRecord(broker_id, "pulsar://127.0.0.1:1", url, now_ms(), "bench")
    client = KazooClient(zookeeper)
    await asyncio.to_thread(client.start, 20)
    try:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(source.count())
            await asyncio.sleep(0)
            await asyncio.to_thread(
                client.create, paths.broker(broker_id), record.encode(), ephemeral=True
            )
            yield source
            work.cancel()
    finally:
        await asyncio.to_thread(client.stop)
        client.close()
        await server.close()
