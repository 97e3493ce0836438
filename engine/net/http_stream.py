"""The answer to one HTTP request, read piece by piece while it arrives."""

import asyncio
from collections import deque
from collections.abc import Callable

import h11

from engine.base.errors import WorldError
from engine.net.plain_http import HEAD_BYTES_MAX

BUFFER_BYTES_MAX = 1 << 20
"""Bytes that have arrived and are not read yet, above which the connection is not read from."""


class HttpError(WorldError):
    """A request without a usable answer; the message names the address."""


class NotReachedError(HttpError):
    """No connection was established: the request was not sent."""


class AnswerLostError(HttpError):
    """The connection ended before the complete answer arrived: the request may have been served."""


class UnusableAnswerError(HttpError):
    """The answer is malformed, too large or too late: the request may have been served."""


class StreamedAnswer(asyncio.Protocol):
    """An answer on a connection of its own. ``close`` ends the connection, also before the answer is complete.

    ``read`` has one caller at a time. What has arrived but is not read is bounded by BUFFER_BYTES_MAX and one read of
    the socket.
    """

    def __init__(self, name: str, request: h11.Request, body: bytes) -> None:
        self.status = 0
        self.location = ""
        """The URL to which an answer redirects."""
        self._name = name
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._request = request
        self._body = body
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._complete = False
        self._error: HttpError | None = None
        self._transport: asyncio.Transport | None = None
        self._arrived: asyncio.Future[None] | None = None
        self.on_lost: Callable[[], None] = lambda: None

    async def begin(self) -> None:
        """Wait for the head of the answer, after which ``status`` is known. Raises AnswerLostError,
        UnusableAnswerError; the caller closes the answer then, and after a cancellation."""
        while not self.status:
            await self._wait()

    async def read(self) -> bytes:
        """Return the next piece of the body, no bytes at its end. Raises AnswerLostError, UnusableAnswerError. After a
        cancellation nothing is lost."""
        while not self._pieces:
            if self._complete:
                return b""
            await self._wait()
        piece = self._pieces.popleft()
        self._buffered -= len(piece)
        if self._buffered <= BUFFER_BYTES_MAX and self._transport is not None:
            self._transport.resume_reading()
        return piece

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        """Wait until something has arrived. Raises the error after which nothing does."""
        if self._error is not None:
            raise type(self._error)(*self._error.args)
        self._arrived = asyncio.get_running_loop().create_future()
        try:
            await self._arrived
        finally:
            self._arrived = None

    def _notify(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def _fail(self, error: HttpError) -> None:
        if self._error is None and not self._complete:
            self._error = error
            self._notify()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        assert self._transport is not None
        data = self._http.send(self._request) or b""
        data += self._http.send(h11.Data(data=self._body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        try:
            while self._take(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            # Otherwise it ended too early, which connection_lost reports.
            if not self._http.trailing_data[1]:
                self._fail(UnusableAnswerError(f"{self._name}: malformed answer: {error}"))
                self.close()
        self._notify()
        if self._buffered > BUFFER_BYTES_MAX and self._transport is not None:
            self._transport.pause_reading()

    def _take(self, event: object) -> bool:
        """Process an event of h11 and return whether there may be another."""
        match event:
            case h11.InformationalResponse():
                return True
            case h11.Response():
                self.status = event.status_code
                for name, value in event.headers:
                    if name == b"location":
                        self.location = value.decode("latin-1")
                return True
            case h11.Data():
                self._pieces.append(bytes(event.data))
                self._buffered += len(event.data)
                return True
            case h11.EndOfMessage():
                self._complete = True
                self.close()
        return False

    def eof_received(self) -> None:
        if not self._complete:
            self.data_received(b"")  # an answer may last until the end of its connection

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(AnswerLostError(f"{self._name} ended the connection before its answer"))
        self.on_lost()
