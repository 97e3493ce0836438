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
from gateway.services.connections.connection_rows import (
    Cells,
    ConnectionTable,
    Libraries,
    connection_of,
)
from gateway.services.engine_link import Engine
from gateway.services.feeds.gathered_table import GatheredTable

TIMEOUT_S = 3.0
"""Seconds for an answer of a broker, which has a page of its connections."""
LIBRARIES_MAX = 10_000
"""Versions of clients that are remembered: clients send what they like."""


class GatheredConnections(GatheredTable[ConnectionTable]):
    """The connections of a cluster, for the event loop of its link; gathering raises NotReady when no broker
    answers."""

    def __init__(self) -> None:
        super().__init__("connections", self._gather_from)
        self._libraries = Libraries()

    async def _gather_from(self, engine: Engine) -> ConnectionTable:
        if len(self._libraries) > LIBRARIES_MAX:
            self._libraries = Libraries()
        return await _gather(engine, self._libraries)


async def _gather(engine: Engine, libraries: Libraries) -> ConnectionTable:
    gathered: dict[str, list[Cells]] = {}
    silent: dict[str, str] = {}

    async def ask(broker: BrokerAddress) -> None:
        rows: list[Cells] = []
        try:
            after: int | None = 0
            while after is not None:
                async with asyncio.timeout(TIMEOUT_S):
                    page = await engine.call_on(broker, CONNECTIONS, ConnectionsPage(after))
                rows += page["rows"]
                after = page["next"]
        except (MagnetarError, OSError) as error:  # OSError includes TimeoutError
            silent[broker.id] = str(error) or f"no answer within {TIMEOUT_S:g} s"
        else:
            gathered[broker.id] = rows

    registered = await engine.admin.brokers()
    await each(registered, ask)
    if silent and len(silent) == len(registered):
        raise NotReady(f"No broker answers, first {next(iter(silent.items()))}")
    return ConnectionTable(now_ms(), gathered, silent, len(registered), libraries)


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
        **connection_of(broker_id, cells, Libraries()).row(),
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
