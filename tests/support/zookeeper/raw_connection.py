"""A ZooKeeper session on one asyncio socket: requests are pipelined, what arrives is kept in its order."""

import asyncio
from collections import defaultdict, deque

from engine.metadata.server.codec import EVENT_XID
from engine.metadata.server.jute import INT
from engine.metadata.server.protocol import (
    Auth,
    ConnectAnswer,
    ConnectRequest,
    Event,
    Ping,
    Request,
    SetWatches,
)
from tests.support.zookeeper.client_codec import (
    AUTH_XID,
    PING_XID,
    SET_WATCHES_XID,
    Reply,
    decode_connect_answer,
    decode_event,
    decode_reply,
    encode_connect_request,
    encode_request,
    xid_of,
)

Received = Reply | Event
FIXED_XIDS: dict[type, int] = {Ping: PING_XID, Auth: AUTH_XID, SetWatches: SET_WATCHES_XID}
NO_PASSWORD = bytes(16)


class ConnectionClosedError(Exception):
    """The server closed the connection."""


class RawConnection:
    """One connection. ``received`` has every answer and event so far, in order of arrival."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received: list[Received] = []
        self.session = ConnectAnswer(0, 0, b"")
        self._reader = reader
        self._writer = writer
        self._xid = 0
        self._asked: defaultdict[int, deque[Request]] = defaultdict(deque)

    @classmethod
    async def open(
        cls,
        port: int,
        *,
        timeout_ms: int = 30_000,
        session_id: int = 0,
        password: bytes = NO_PASSWORD,
        last_zxid: int = 0,
        host: str = "127.0.0.1",
    ) -> "RawConnection":
        """Return a connection whose session is answered for: ``session`` has id 0 when it does not exist any more."""
        connection = cls(*await asyncio.open_connection(host, port, limit=1 << 26))
        request = ConnectRequest(0, last_zxid, timeout_ms, session_id, password)
        connection.write(encode_connect_request(request))
        try:
            connection.session, _ = decode_connect_answer(await connection.frame())
        except ConnectionClosedError:
            connection.abort()
            raise
        return connection

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)

    def send(self, request: Request) -> int:
        """Send a request without waiting; return its xid."""
        xid = FIXED_XIDS.get(type(request), 0)
        if xid == 0:
            self._xid += 1
            xid = self._xid
        self._asked[xid].append(request)
        self.write(encode_request(xid, request))
        return xid

    async def frame(self) -> bytes:
        """Return the next frame without its length. Raises ConnectionClosedError."""
        try:
            (size,) = INT.unpack(await self._reader.readexactly(4))
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise ConnectionClosedError from error

    async def receive(self) -> Received:
        """Return the next answer or event. Raises ConnectionClosedError."""
        frame = await self.frame()
        xid = xid_of(frame)
        message: Received = (
            decode_event(frame)
            if xid == EVENT_XID
            else decode_reply(frame, self._asked[xid].popleft())
        )
        self.received.append(message)
        return message

    async def answer(self, xid: int) -> Reply:
        """Return the next answer with an xid; what arrives before it is only kept in ``received``."""
        while True:
            message = await self.receive()
            if isinstance(message, Reply) and message.xid == xid:
                return message

    async def call(self, request: Request) -> Reply:
        """Send a request and return its answer."""
        return await self.answer(self.send(request))

    async def drained(self) -> None:
        """Receive until the server closes the connection."""
        try:
            while True:
                await self.receive()
        except ConnectionClosedError:
            self.abort()

    def abort(self) -> None:
        """Close the connection without closing its session."""
        self._writer.transport.abort()
