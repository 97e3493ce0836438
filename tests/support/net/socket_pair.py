"""A WebSocket in this event loop: the gateway's real connection, and a client without I/O."""

import asyncio
from typing import Any, Self

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from gateway.servers.websocket import Application, SocketConnection, Sockets

TIMEOUT_S = 60.0


class MemoryTransport(asyncio.Transport):
    """A transport whose bytes reach the client at once, unless the client does not read."""

    def __init__(self, pair: "SocketPair") -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 8080)})
        self._pair = pair
        self._waiting = bytearray()
        self._closing = False
        self._high = self._low = 0
        self.reading = True
        self.writes = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low is not None
        self._high, self._low = high, low

    def get_write_buffer_size(self) -> int:
        return len(self._waiting)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes += 1
        self._waiting += data
        if self._pair.reads:
            self.drain()
        elif len(self._waiting) > self._high:
            self._pair.connection.pause_writing()

    def drain(self) -> None:
        """Let the client read the waiting bytes."""
        was_full = len(self._waiting) > self._high
        data, self._waiting = bytes(self._waiting), bytearray()
        self._pair.take(data)
        if was_full:
            self._pair.connection.resume_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        asyncio.get_running_loop().call_soon(self._pair.push)

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._pair.take_eof()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._pair.take_eof()
            asyncio.get_running_loop().call_soon(self._pair.connection.connection_lost, None)

    abort = close


class SocketPair:
    """A socket. ``texts`` and ``frames`` hold what was received; ``response`` is the answer to the handshake."""

    def __init__(
        self, application: Application, path: str, headers: dict[str, str] | None = None
    ) -> None:
        self.sockets = Sockets(application, "magnetar")
        self.connection: SocketConnection = self.sockets.open()
        self.transport = MemoryTransport(self)
        self.client = ClientProtocol(parse_uri(f"ws://127.0.0.1:8080{path}"))
        self.reads = True
        self.response: Response | None = None
        self.frames: list[Frame] = []
        self.texts: asyncio.Queue[str] = asyncio.Queue()
        self.ended = asyncio.Event()
        self._answered = asyncio.Event()
        self._unsent = bytearray()
        self.connection.connection_made(self.transport)
        request = self.client.connect()
        for name, value in (headers or {}).items():
            if name in request.headers:
                del request.headers[name]  # an assignment adds a second header
            request.headers[name] = value
        self.client.send_request(request)
        self.push()

    async def opened(self) -> Self:
        """Wait for the answer to the handshake, whatever it is."""
        await asyncio.wait_for(self._answered.wait(), TIMEOUT_S)
        return self

    def send(self, *texts: str) -> None:
        """Send text messages in one piece."""
        for text in texts:
            self.client.send_text(text.encode())
        self.push()

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._unsent += data
        self.push()

    def push(self) -> None:
        """Deliver what the client sent, when the connection reads."""
        self._unsent += b"".join(self.client.data_to_send())
        if self._unsent and self.transport.reading and not self.transport.is_closing():
            data, self._unsent = bytes(self._unsent), bytearray()
            self.connection.data_received(data)

    async def receive(self) -> str:
        """Return the next text message."""
        return await asyncio.wait_for(self.texts.get(), TIMEOUT_S)

    def take(self, data: bytes) -> None:
        self.client.receive_data(data)
        for event in self.client.events_received():
            if isinstance(event, Response):
                self.response = event
                self._answered.set()
            elif isinstance(event, Frame):
                self.frames.append(event)
                if event.opcode is Opcode.TEXT:
                    self.texts.put_nowait(str(event.data, "utf-8"))
        self.push()

    def take_eof(self) -> None:
        self.client.receive_eof()
        for event in self.client.events_received():
            if isinstance(event, Response):
                self.response = event
        self._answered.set()
        self.ended.set()

    def closed(self) -> tuple[int, str]:
        """Return the close code and reason that the gateway sent. Fails when it sent none."""
        received: Any = self.client.close_rcvd
        return received.code, received.reason

    async def hang_up(self) -> None:
        """Disconnect the client and wait for the end of the application."""
        self.connection.connection_lost(None)
        await self.sockets.close()
