"""kazoo's connection on the event loop while it is connected, so that requests and answers cross no threads.

kazoo's thread connects, opens the session and authenticates. Then it lends the connection to the loop and sleeps. The
loop passes complete frames to kazoo's own methods for answers and events, so that none of them waits. The
thread has the connection back after an error, at the end of the stream and when the client is stopped, and handles them
as kazoo does. A connection is lent once. kazoo sends no pings of its own meanwhile: those of the store prove the
session.
"""

import asyncio
import contextvars
from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

from kazoo.protocol.connection import WATCH_XID
from kazoo.protocol.serialization import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    ReplyHeader,
    SetData,
    Sync,
)

from engine.base.loop import from_any_thread, last_call
from engine.metadata.kazoo.kazoo_requests import EndWatches, MultiRead

PLAIN = frozenset(
    {Create, Delete, EndWatches, Exists, GetChildren, GetData, MultiRead, SetData, Sync}
)
"""Requests that need nothing but a number; the others are left to kazoo."""
XID_MAX = 2**31 - 1
HEAD_BYTES = 8
ANSWER_BYTES = 16
_request_head = Struct(">iii").pack
_answer_head = Struct(">iqi").unpack_from


class LentSocket(Protocol):
    """A connected socket that does not block, with buffers."""

    lent: bool
    """True once the loop has had it."""

    def fileno(self) -> int: ...

    def fill(self) -> bool:
        """Buffer the bytes that have arrived; return False at the end of the stream. Raises OSError."""
        ...

    def take_frame(self) -> bytes | None:
        """Remove and return the first buffered frame, without its length; None when it is incomplete."""
        ...

    def send(self, data: bytes) -> int:
        """Buffer ``data``."""
        ...

    def write_out(self) -> bool:
        """Write what can be written; return whether nothing is left. Raises OSError."""
        ...


class RequestQueue(Protocol):
    """Counter of the requests that kazoo has not sent yet."""

    on_request: Callable[[], None] | None
    """Called for each request, by any thread, instead of waking kazoo's."""

    def pending(self) -> int: ...

    def recv(self, size: int) -> bytes:
        """Count one request less."""
        ...


class ConnectionLoan:
    """Lends the connections of one client to the loop that creates this.

    ``arrived`` is called on the loop after the answers of one wake-up.
    """

    def __init__(self, client: Any, arrived: Callable[[], None]) -> None:
        self._client = client
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._call_last = last_call(self._loop)
        self._context = contextvars.copy_context()
        self._returned = client.handler.event_object()
        self._error: BaseException | None = None
        self._socket: LentSocket | None = None
        self._requests: RequestQueue | None = None
        self._due = False
        self._blocked = False
        """True while the loop waits until the socket has room."""
        self._reading = False

    def reading_here(self) -> bool:
        """Return whether the calling thread handles answers now, after which ``arrived`` is called."""
        return self._reading and asyncio._get_running_loop() is self._loop

    # On kazoo's thread

    def lend(self, connection: LentSocket, requests: RequestQueue) -> None:
        """Let the loop have the connection until it returns it. Raises the error that it met."""
        if connection.lent or self._client._stopped.is_set():
            return
        connection.lent = True
        self._returned.clear()
        try:
            self._loop.call_soon_threadsafe(
                self._begin, connection, requests, context=self._context
            )
        except RuntimeError:  # the loop is closed
            return
        self._returned.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    # On the loop

    def _begin(self, connection: LentSocket, requests: RequestQueue) -> None:
        self._socket, self._requests = connection, requests
        requests.on_request = from_any_thread(self._loop, self._send_soon)
        self._loop.add_reader(connection.fileno(), self._readable)
        self._send()  # those of the time before
        self._answer()

    def _send_soon(self) -> None:
        if not self._due:
            self._due = True
            self._call_last(self._send)

    def _send(self) -> None:
        """Send all requests in one write; the thread sends what ends the session."""
        self._due = False
        requests, kazoo = self._requests, self._client._connection
        if requests is None:
            return
        if self._client._stopped.is_set():
            self._give_back()
            return
        try:
            while requests.pending():
                self._send_next(kazoo, requests)
        except Exception as error:
            self._give_back(error)
            return
        self._write()

    def _send_next(self, kazoo: Any, requests: RequestQueue) -> None:
        """Send the oldest request as kazoo's ``_send_request`` does, which needs five times as many calls."""
        queue = self._client._queue
        if not queue or type(queue[0][0]) not in PLAIN or self._socket is None:
            kazoo._send_request(0, 0)
            return
        request, answer = queue[0]
        kazoo._xid = xid = kazoo._xid % XID_MAX + 1
        body = request.serialize()
        self._socket.send(_request_head(len(body) + HEAD_BYTES, xid, request.type) + body)
        queue.popleft()
        requests.recv(1)
        self._client._pending.append((request, answer, xid))

    def _write(self) -> None:
        connection = self._socket
        assert connection is not None
        try:
            written = connection.write_out()
        except OSError:
            self._give_back()  # the thread meets the error again
            return
        if written is self._blocked:
            self._blocked = not written
            if written:
                self._loop.remove_writer(connection.fileno())
            else:
                self._loop.add_writer(connection.fileno(), self._write)

    def _readable(self) -> None:
        connection = self._socket
        assert connection is not None
        try:
            is_open = connection.fill()
        except OSError:
            is_open = False
        self._answer()
        if not is_open:
            self._give_back()  # the thread meets the end again

    def _answer(self) -> None:
        """Handle the answers and events that have arrived completely."""
        connection, kazoo = self._socket, self._client._connection
        self._reading = True
        try:
            while connection is not None and (frame := connection.take_frame()) is not None:
                xid, zxid, error_code = _answer_head(frame)
                if xid >= 0:
                    kazoo._read_response(ReplyHeader(xid, zxid, error_code), frame, ANSWER_BYTES)
                elif xid == WATCH_XID:
                    kazoo._read_watch_event(frame, ANSWER_BYTES)
        except Exception as error:
            self._give_back(error)
        finally:
            self._reading = False
            self._arrived()

    def _give_back(self, error: BaseException | None = None) -> None:
        connection, requests = self._socket, self._requests
        if connection is None or requests is None:
            return
        self._socket = self._requests = None
        self._loop.remove_reader(connection.fileno())
        self._loop.remove_writer(connection.fileno())
        self._blocked = False
        requests.on_request = None
        self._error = error
        self._returned.set()
