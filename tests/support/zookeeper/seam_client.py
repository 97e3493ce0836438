"""A ZooKeeper session over the network seam: for pipes in virtual time and for the simulator."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable

from engine.metadata.server.codec import EVENT_XID
from engine.metadata.server.protocol import (
    Answer,
    Auth,
    ConnectAnswer,
    ConnectRequest,
    ErrorCode,
    Event,
    Ping,
    Request,
    SetWatches,
)
from engine.net.network import Network
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

XIDS: dict[type, int] = {Ping: PING_XID, Auth: AUTH_XID, SetWatches: SET_WATCHES_XID}


class SeamClient(asyncio.Protocol):
    """One connection. ``received`` has events and replies in the order in which they arrived."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.session: ConnectAnswer | None = None
        self.last_zxid = 0
        self.received: list[Event | Reply] = []
        self.on_event: Callable[[Event], None] | None = None
        self.on_reply: Callable[[Request, Reply], None] | None = None
        self.connected: asyncio.Future[ConnectAnswer] = loop.create_future()
        self.lost = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._pending: deque[tuple[int, Request, asyncio.Future[Reply]]] = deque()
        self._buffer = b""
        self._xid = 0

    @classmethod
    async def open(
        cls,
        network: Network,
        port: int,
        *,
        timeout_ms: int = 10_000,
        session: ConnectAnswer | None = None,
        last_zxid: int = 0,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> "SeamClient":
        """Connect and open a session, or continue one. Raises OSError, also when the server closes."""
        _, client = await network.connect(host, port, cls, tls=tls)
        assert isinstance(client, cls)
        client.last_zxid = last_zxid
        session_id, password = (
            (0, bytes(16)) if session is None else (session.session_id, session.password)
        )
        client.write(
            encode_connect_request(ConnectRequest(0, last_zxid, timeout_ms, session_id, password))
        )
        await client.connected
        return client

    @property
    def events(self) -> list[Event]:
        return [item for item in self.received if isinstance(item, Event)]

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def send(self, request: Request) -> "asyncio.Future[Reply]":
        """Send a request without waiting; the future fails with OSError when the connection ends first."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self.lost.done():
            future.set_exception(ConnectionResetError("the connection has ended"))
            return future
        xid = XIDS.get(type(request))
        if xid is None:
            self._xid += 1
            xid = self._xid
        self._pending.append((xid, request, future))
        self.write(encode_request(xid, request))
        return future

    def send_frame(self, xid: int, frame: bytes) -> "asyncio.Future[Reply]":
        """Send bytes that are answered without a body."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending.append((xid, Ping(), future))
        self.write(frame)
        return future

    async def code(self, request: Request) -> int:
        return (await self.send(request)).code

    async def ask(self, request: Request) -> Answer:
        """Return the body of a request's answer, which must be there."""
        reply = await self.send(request)
        assert reply.code == ErrorCode.OK, reply
        assert reply.answer is not None
        return reply.answer

    def close(self) -> None:
        """End the connection without ending the session."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < 4 + size:
                return
            frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
            self._frame(frame)

    def _frame(self, frame: bytes) -> None:
        if self.session is None:
            self.session, _ = decode_connect_answer(frame)
            if not self.connected.done():
                self.connected.set_result(self.session)
            return
        if xid_of(frame) == EVENT_XID:
            event = decode_event(frame)
            self.last_zxid = max(self.last_zxid, event.zxid)
            self.received.append(event)
            if self.on_event is not None:
                self.on_event(event)
            return
        xid, request, future = self._pending.popleft()
        try:
            reply = decode_reply(frame, request)
            assert reply.xid == xid, (reply, xid)
        except Exception as error:
            future.set_exception(error)
            raise
        self.last_zxid = max(self.last_zxid, reply.zxid)
        self.received.append(reply)
        if self.on_reply is not None:
            self.on_reply(request, reply)
        if not future.done():
            future.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        error = ConnectionResetError("the connection has ended")
        for future in [self.connected, *(future for _, _, future in self._pending)]:
            if not future.done():
                future.set_exception(error)
        self._pending.clear()
        if not self.lost.done():
            self.lost.set_result(None)
