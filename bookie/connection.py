"""One client connection: cuts what arrives into runs of adds and other frames, gathers replies into one write."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.wire.bookie_kernels import AddRun
from engine.wire.kernels import NEED, TOO_LARGE, take_adds

WRITE_BUFFER_HIGH = 8 << 20
"""Bytes of replies that a client may leave unread before we stop reading its requests."""


class Handler(Protocol):
    """What is done with requests."""

    def adds(
        self, connection: "BookieConnection", buf: bytes, start: int, stop: int, runs: list[AddRun]
    ) -> None:
        """Runs of add frames that fill ``buf[start:stop]``."""
        ...

    def request(self, connection: "BookieConnection", buf: bytes, start: int, stop: int) -> None:
        """Any other frame, ``buf[start:stop]`` without its length. Closes the connection if it makes no sense."""
        ...

    def closed(self, connection: "BookieConnection") -> None: ...


class BookieConnection(asyncio.Protocol):
    """Reading stops while the client leaves replies unread or the handler holds it; ``closed`` once it is over."""

    def __init__(
        self, handler: Handler, frame_max: int, on_made: Callable[["BookieConnection"], None]
    ) -> None:
        self._handler = handler
        self._frame_max = frame_max
        self._on_made = on_made
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._flushing = False
        self._rest: list[bytes] = []
        self._have = 0
        self._want = 0
        self._output_full = False
        self._held = False
        self.peer = ""
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(WRITE_BUFFER_HIGH)
        self.peer = str(transport.get_extra_info("peername"))
        self._on_made(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._out.clear()
        self._rest.clear()
        self._handler.closed(self)

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        pos = 0
        if self._have:
            # Only the frame that straddles two reads is copied. A prefix too short to tell the length joins whole.
            if self._want == 0:
                data = b"".join([*self._rest, data])
            elif self._have + len(data) < self._want:
                self._rest.append(data)
                self._have += len(data)
                return
            else:
                pos = self._want - self._have
                self._rest.append(data[:pos])
                frame = b"".join(self._rest)
                self._rest, self._have = [], 0
                self._take(frame, 0)
            self._rest, self._have = [], 0
        pos = self._take(data, pos)
        if pos < len(data) and not self.closed:
            rest = data[pos:] if pos else data
            self._rest, self._have = [rest], len(rest)
            self._want = int.from_bytes(rest[:4], "big") + 4 if len(rest) >= 4 else 0

    def _take(self, buf: bytes, pos: int) -> int:
        end = len(buf)
        while not self.closed and pos < end:
            start = pos
            pos, why, runs = take_adds(buf, pos, end, self._frame_max)
            if runs:
                self._handler.adds(self, buf, start, pos, runs)
            if why == NEED:
                break
            if why == TOO_LARGE:
                self.close()
                break
            stop = pos + 4 + int.from_bytes(buf[pos : pos + 4], "big")
            self._handler.request(self, buf, pos + 4, stop)
            pos = stop
        return pos

    def send(self, data: bytes) -> None:
        """Queue replies; what is queued in one wake-up of the loop is one write."""
        if self.closed:
            return
        self._out.append(data)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        out, self._out = self._out, []
        if self.closed or not out or self._transport is None:
            return
        self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def pause_writing(self) -> None:
        self._output_full = True
        self._set_reading()

    def resume_writing(self) -> None:
        self._output_full = False
        self._set_reading()

    def hold(self) -> None:
        """Stop reading until ``release``."""
        self._held = True
        self._set_reading()

    def release(self) -> None:
        self._held = False
        self._set_reading()

    def _set_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._held or self._output_full:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def close(self) -> None:
        """Send what is queued, then close; nothing more is read."""
        if self.closed or self._transport is None:
            return
        self._flush()
        self.closed = True
        self._transport.close()

    def abort(self) -> None:
        """Close without sending anything more."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()
