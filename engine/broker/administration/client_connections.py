"""Operations on the connections of clients: their list, one with its producers and consumers, and its close."""

import asyncio
from collections.abc import Iterator

from engine.admin.api.arguments import JsonObject
from engine.admin.api.brokers import (
    CLIENTS_MAX,
    CLOSE_CONNECTION,
    CONNECTION,
    CONNECTION_COLUMNS,
    CONNECTIONS,
    CloseConnection,
    ConnectionsPage,
    OnConnection,
)
from engine.base.clock import Clock
from engine.base.errors import Conflict, NotFound, PeerError
from engine.broker.connection.session import Session
from engine.broker.connection.sessions import Sessions
from engine.broker.control.counters import Traffic
from engine.rpc.operation import Handlers, bind

PAGE_CONNECTIONS = 1_000
"""Connections in one answer."""
TURN_CLIENTS = 500
"""Connections, producers and consumers after which other tasks run."""
APPLICATION_KEYS = ("application", "app", "service", "client")
"""Keys of metadata of producers and consumers by which clients name what they are part of, the first one preferred."""


class DisconnectedByOperator(PeerError):
    """An operator closed the connection."""


class ConnectionOperations:
    """Handlers of the operations, which ``engine.admin.api.brokers`` describes."""

    def __init__(self, sessions: Sessions, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        return dict(
            [
                bind(CONNECTIONS, self.connections),
                bind(CONNECTION, self.connection),
                bind(CLOSE_CONNECTION, self.close),
            ]
        )

    async def connections(self, args: ConnectionsPage) -> JsonObject:
        rows: list[list[object]] = []
        at, done = self._clock.wall_ms(), 0
        for session in self._sessions.after(args.after):
            if len(rows) == PAGE_CONNECTIONS:
                return {"at": at, "rows": rows, "next": rows[-1][0]}
            rows.append(_row(session))
            done += 1 + session.producers + session.consumers
            if done >= TURN_CLIENTS:
                done = 0
                await asyncio.sleep(0)
        return {"at": at, "rows": rows, "next": None}

    async def connection(self, args: OnConnection) -> JsonObject:
        session = self._find(args)
        row = dict(zip(CONNECTION_COLUMNS, _row(session), strict=True))
        clients = [client for client, _ in zip(_clients(session), range(CLIENTS_MAX), strict=False)]
        return {**row, "at": self._clock.wall_ms(), "clients": clients}

    async def close(self, args: CloseConnection) -> JsonObject:
        session = self._find(args)
        producers, consumers = session.open_producers(), session.open_consumers()
        later = sum(producer.connected_ms > args.seen_ms for producer in producers)
        later += sum(attached.consumer.connected_ms > args.seen_ms for attached in consumers)
        if later:  # A41
            raise Conflict(f"The client opened {later} producers or consumers since the preview")
        session.close(DisconnectedByOperator("an operator disconnected the client"))
        return {
            "before": {
                "producers": len(producers),
                "consumers": len(consumers),
                "unacked": sum(attached.consumer.unacked for attached in consumers),
            }
        }

    def _find(self, args: OnConnection) -> Session:
        session = next(self._sessions.after(args.number - 1), None)
        if session is None or (session.number, session.opened_ms) != (args.number, args.since_ms):
            raise NotFound(f"Connection {args.number} is not open any more")
        return session


def _row(session: Session) -> list[object]:
    """Return the connection's CONNECTION_COLUMNS."""
    producers, consumers = session.open_producers(), session.open_consumers()
    identity = session.identity
    taken = [producer.published for producer in producers]
    sent = [attached.consumer.out for attached in consumers]
    return [
        session.number,
        session.opened_ms,
        session.address,
        session.client_version,
        session.proxy_version,
        identity.role,
        identity.original,
        session.listener,
        _application(session),
        len(producers),
        len(consumers),
        sum(attached.consumer.unacked for attached in consumers),
        *_rates(taken),
        *_rates(sent),
    ]


def _rates(traffic: list[Traffic]) -> tuple[int, int]:
    """Return messages and bytes in thousandths per second."""
    messages = sum(flow.messages.per_second for flow in traffic)
    return round(messages * 1000), round(sum(flow.bytes.per_second for flow in traffic) * 1000)


def _application(session: Session) -> str:
    """Return the first name of an application in the metadata of the connection's producers and consumers."""
    for metadata in _metadata(session):
        for key in APPLICATION_KEYS:
            if metadata.get(key):
                return metadata[key][:200]
    return ""


def _metadata(session: Session) -> Iterator[dict[str, str]]:
    yield from (producer.metadata for producer in session.open_producers() if producer.metadata)
    for attached in session.open_consumers():
        if attached.consumer.metadata:
            yield attached.consumer.metadata


def _clients(session: Session) -> Iterator[JsonObject]:
    """Iterate over the producers, then the consumers, as CONNECTION answers them."""
    for producer in session.open_producers():
        messages, size = _rates([producer.published])
        yield {
            "kind": "producer",
            "topic": producer.topic.name.full,
            "subscription": "",
            "type": "",
            "name": producer.name,
            "since_ms": producer.connected_ms,
            "unacked": 0,
            "msg_rate": messages,
            "bytes_rate": size,
            "metadata": producer.metadata,
        }
    for attached in session.open_consumers():
        consumer = attached.consumer
        messages, size = _rates([consumer.out])
        yield {
            "kind": "consumer",
            "topic": attached.topic.name.full,
            "subscription": attached.subscription.name,
            "type": consumer.kind.title,
            "name": consumer.name,
            "since_ms": consumer.connected_ms,
            "unacked": consumer.unacked,
            "msg_rate": messages,
            "bytes_rate": size,
            "metadata": consumer.metadata,
        }
