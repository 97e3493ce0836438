"""The connections of all brokers, gathered while they are looked at."""

import asyncio
from typing import Any

from engine.admin.api.brokers import (
    CLOSE_CONNECTION,
    CONNECTION,
    CONNECTION_COLUMNS,
    CONNECTIONS,
    CloseConnection,
    ConnectionsPage,
    OnConnection,
)
from engine.admin.client import BrokerAddress
from engine.base.errors import InvalidField, MagnetarError, NotReady
from gateway.services.admin import brokers
from gateway.services.catalog import each
from gateway.services.clock import now_ms
from gateway.services.connections.client_libraries import ClientLibrary
from gateway.services.connections.connection_rows import (
    ConnectionTable,
    ListedConnection,
    connection_of,
)
from gateway.services.engine_link import Engine

FRESH_S = 2.0
"""Age at which connections are gathered again for a request."""
TIMEOUT_S = 3.0
"""Seconds for the answers of one broker."""


class GatheredConnections:
    """The last table of a cluster, for the event loop of its link."""

    def __init__(self) -> None:
        self._table: ConnectionTable | None = None
        self._gathered_at = 0.0
        self._lock = asyncio.Lock()

    async def table(self, engine: Engine) -> ConnectionTable:
        """Return the connections, at most FRESH_S old. Raises NotReady when no broker answers."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._table is None or now - self._gathered_at > FRESH_S:
                self._table = await _gather(engine)
                self._gathered_at = asyncio.get_running_loop().time()
            return self._table

    def forget(self) -> None:
        """Gather again at the next request: a connection was closed."""
        self._table = None


async def _gather(engine: Engine) -> ConnectionTable:
    gathered: list[ListedConnection] = []
    silent: dict[str, str] = {}
    libraries: dict[str, ClientLibrary] = {}

    async def ask(broker: BrokerAddress) -> None:
        rows: list[ListedConnection] = []
        try:
            async with asyncio.timeout(TIMEOUT_S):
                after: int | None = 0
                while after is not None:
                    page = await engine.call_on(broker, CONNECTIONS, ConnectionsPage(after))
                    rows += [connection_of(broker.id, cells, libraries) for cells in page["rows"]]
                    after = page["next"]
        except (MagnetarError, OSError) as error:  # OSError includes TimeoutError
            silent[broker.id] = str(error) or f"no answer within {TIMEOUT_S:g} s"
        else:
            gathered.extend(rows)

    registered = await engine.admin.brokers()
    await each(registered, ask)
    if silent and len(silent) == len(registered):
        raise NotReady(f"No broker answers, first {next(iter(silent.items()))}")
    return ConnectionTable(now_ms(), gathered, silent, len(registered))


def parse_id(text: str) -> OnConnection:
    """Return the connection that an ``id`` of the list names. Raises InvalidField."""
    number, _, since = text.partition("-")
    try:
        return OnConnection(int(number), int(since))
    except ValueError as error:
        raise InvalidField("connection", "must be as the list names it: NUMBER-TIME") from error


async def one(engine: Engine, broker_id: str, connection: str) -> dict[str, Any]:
    """Return a connection as its row, with ``at`` and ``clients``. Raises NotFound when it has ended, InvalidField."""
    args = parse_id(connection)
    broker = await brokers.require(engine, broker_id)
    answer = await engine.call_on(broker, CONNECTION, args)
    cells = [answer[name] for name in CONNECTION_COLUMNS]
    return {
        **connection_of(broker_id, cells, {}).row(),
        "at": answer["at"],
        "clients": [
            {
                "since": client.pop("since_ms"),
                "msg_rate": client.pop("msg_rate") / 1000,
                "bytes_rate": client.pop("bytes_rate") / 1000,
                **client,
            }
            for client in answer["clients"]
        ],
    }


async def close(engine: Engine, broker_id: str, connection: str, seen_ms: int) -> dict[str, int]:
    """Close a connection as it was seen at this time of its broker; return how many producers and consumers it had.
    Raises NotFound, Conflict."""
    args = parse_id(connection)
    broker = await brokers.require(engine, broker_id)
    closing = CloseConnection(args.number, args.since_ms, seen_ms)
    answer: dict[str, int] = (await engine.call_on(broker, CLOSE_CONNECTION, closing))["before"]
    return answer
