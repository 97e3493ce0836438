"""An RFC 6455 client that is light enough to load servers: prebuilt frames, no task per message.

Client frames are masked with zeros, which the standard allows and which leaves the payload as it is.
"""

import asyncio
import base64
import hashlib
import os
import time
from collections.abc import Callable
from typing import Self
from urllib.parse import urlsplit

from tests.bench.gateway.http_client import HEAD_BYTES_MAX, field_value, host_and_port

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
HANDSHAKE_S_MAX = 30.0
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def build_frame(payload: bytes, opcode: int = TEXT) -> bytes:
    """Return the frame of a whole message, or a control frame, as a client sends it."""
    length = len(payload)
    if length < 126:
        head = bytes((0x80 | opcode, 0x80 | length))
    elif length < 65536:
        head = bytes((0x80 | opcode, 0x80 | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + length.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload


class Frames:
    """The bytes that a server sends, cut into messages. No socket is touched."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts: list[bytes] | None = None  # of a message in several frames
        self.control: list[tuple[int, bytes]] = []
        """Received control frames, as opcode and payload, for the caller to remove."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that ``data`` completes. Raises ValueError for what a server must not send."""
        buffer = self._buffer
        buffer += data
        messages: list[bytes] = []
        at, size = 0, len(buffer)
        while size - at >= 2:
            first, length, begin = buffer[at], buffer[at + 1], at + 2
            if length >= 126:
                more = 2 if length == 126 else 8
                if length > 127:
                    raise ValueError("a frame of a server is masked")
                if size - begin < more:
                    break
                length = int.from_bytes(buffer[begin : begin + more], "big")
                begin += more
            end = begin + length
            if end > size:
                break
            at = end
            if first == 0x81 and self._parts is None:
                messages.append(bytes(buffer[begin:end]))
            else:
                self._unusual(first, bytes(buffer[begin:end]), messages)
        del buffer[:at]
        return messages

    def _unusual(self, first: int, payload: bytes, messages: list[bytes]) -> None:
        """Process a control frame, or a frame of a message in several frames."""
        last, opcode = bool(first & 0x80), first & 0x7F
        if opcode >= CLOSE and last:
            self.control.append((opcode, payload))
        elif opcode == TEXT and not last and self._parts is None:
            self._parts = [payload]
        elif opcode == 0 and self._parts is not None:
            self._parts.append(payload)
            if last:
                messages.append(b"".join(self._parts))
                self._parts = None
        else:
            raise ValueError(f"a frame that begins with {first:#x} is not expected")


class Socket(asyncio.Protocol):
    """One WebSocket. ``on_texts`` gets what one read of the socket brought; it must not raise.

    ``broken`` fails with what ended the socket, unless ``leave`` did; several sockets may share one.
    """

    transport: asyncio.Transport

    def __init__(self, url: str, broken: asyncio.Future[None]) -> None:
        self._url, self._where = urlsplit(url), host_and_port(url)
        self.broken = broken
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_texts: Callable[[list[bytes]], None] = lambda texts: None
        self._key = base64.b64encode(os.urandom(16))
        self._head = b""
        self._frames = Frames()
        self._left = False
        self._began = time.perf_counter()

    async def open(self, source: str | None = None) -> Self:
        """Connect, from address ``source`` if it is given, and shake hands.

        Raises RuntimeError for a refusal, OSError without an answer, TimeoutError.
        """
        local = (source, 0) if source else None
        await asyncio.get_running_loop().create_connection(
            lambda: self, *self._where, local_addr=local
        )
        try:
            async with asyncio.timeout(HANDSHAKE_S_MAX):
                await self.opened
        except BaseException:
            self._left = True
            self.transport.abort()
            raise
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        path = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        head = f"GET {path} HTTP/1.1\r\nHost: {self._url.netloc}\r\nUpgrade: websocket\r\n"
        head += f"Connection: Upgrade\r\nSec-WebSocket-Key: {self._key.decode()}\r\n"
        transport.write(f"{head}Sec-WebSocket-Version: 13\r\n\r\n".encode())

    def send(self, frames: bytes) -> None:
        """Send frames that ``build_frame`` returned."""
        self.transport.write(frames)

    def leave(self) -> None:
        """Close; messages received after that are dropped."""
        self._left = True
        self.on_texts = lambda texts: None
        self.send(build_frame((1000).to_bytes(2, "big"), CLOSE))
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        if not self.opened.done() and not (data := self._shaken(data)):
            return
        try:
            texts = self._frames.feed(data)
        except ValueError as error:
            self.fail(error)
            return
        if texts:
            self.on_texts(texts)
        while self._frames.control:
            self._control(*self._frames.control.pop(0))

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.send(build_frame(payload, PONG))
        elif opcode == CLOSE:
            code, reason = int.from_bytes(payload[:2], "big"), payload[2:].decode(errors="replace")
            self.fail(ConnectionResetError(f"the server closed the socket: {code} {reason}"))

    def _shaken(self, data: bytes) -> bytes:
        """Return the bytes behind the answer to the handshake, empty until it is complete."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end and len(head) <= HEAD_BYTES_MAX:
            return b""
        accept = base64.b64encode(hashlib.sha1(self._key + MAGIC).digest())
        if not head.startswith(b"HTTP/1.1 101 "):
            self.fail(RuntimeError(f"the handshake was refused: {self._head[:300]!r}"))
        elif field_value(head.lower(), b"sec-websocket-accept") != accept.lower():
            self.fail(ValueError("the handshake was answered with a wrong key"))
        else:
            self._head = b""
            self.opened.set_result(None)
            return rest
        return b""

    def connection_lost(self, error: Exception | None) -> None:
        after = time.perf_counter() - self._began
        text = f"{self._url.path}: the server closed the connection after {after:.1f} s"
        self.fail(error or ConnectionResetError(text))

    def fail(self, error: Exception) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
        elif not self._left and not self.broken.done():
            self.broken.set_exception(error)
