"""A client's connection: frames to requests, answers in order, and the bounds of what one client may occupy."""

import asyncio
import logging
from typing import Protocol

from engine.auth.credentials import PeerCertificate
from engine.base.errors import PeerError
from engine.metadata.server.codec import (
    RequestError,
    UnknownRequestError,
    decode_connect,
    decode_request,
)
from engine.metadata.server.jute import JuteError
from engine.metadata.server.protocol import ConnectRequest, ErrorCode, Request
from engine.metadata.server.serving.four_letter_words import WORD_BYTES
from engine.metadata.server.serving.group_commit import FrameReceiver
from engine.metadata.server.serving.session_expiry import LiveSession
from engine.metadata.server.session_table import SessionClient
from engine.net.transport import LENGTH_BYTES, Connection, FrameLimitError

log = logging.getLogger(__name__)

SESSIONLESS_S = 10.0
"""Time within which a new connection must have a session, as ZooKeeper's sessionlessCnxnTimeout."""

WAITING, UNREAD = "waiting", "unread"
"""Reasons why a connection is not read: its answers wait for the disk; it does not read its answers."""


class RequestHandler(Protocol):
    """Executes the requests of connections that have a session."""

    def execute(self, client: "ConnectedClient", xid: int, request: Request) -> None: ...

    def refuse(
        self, connection: "ZooKeeperConnection", xid: int, code: ErrorCode, *, last: bool = False
    ) -> None:
        """Answer a request that cannot be executed; ``last``: then close the connection."""
        ...


class ConnectionOwner(Protocol):
    """The server, as its connections see it."""

    @property
    def requests(self) -> RequestHandler: ...

    def admits(self, certificate: PeerCertificate | None) -> bool:
        """Return whether a client with this certificate is served."""
        ...

    def connect(self, connection: "ZooKeeperConnection", request: ConnectRequest) -> None:
        """Answer the first request of a connection. Raises PeerError."""
        ...

    def report(self, word: bytes) -> bytes | None:
        """Return the report that a four-letter word asks for; None when it is none."""
        ...

    def emit(self, receiver: FrameReceiver, frame: bytes, group: int) -> None:
        """Send a frame when the group is durable."""
        ...

    def disconnected(self, connection: "ZooKeeperConnection") -> None: ...


class ConnectedClient(SessionClient):
    """The machine's view of a connection that has a session."""

    __slots__ = ("connection",)

    def __init__(self, session_id: int, address: str, connection: "ZooKeeperConnection") -> None:
        super().__init__(session_id, address)
        self.connection = connection


class _LastFrame:
    """FrameReceiver of the last frame of a connection, which is closed behind it."""

    def __init__(self, connection: "ZooKeeperConnection") -> None:
        self.last_group = connection.last_group
        self._connection = connection

    def send(self, data: bytes) -> None:
        self._connection.send(data)
        self._connection.close()

    def keep(self, size: int) -> None:
        pass

    def let_go(self, size: int) -> None:
        pass


class ZooKeeperConnection(Connection):
    """A connection of the server. It has no session before its first request is answered.

    ``last_group``: see ``commits.FrameReceiver``.
    """

    def __init__(self, server: ConnectionOwner, request_bytes_max: int, waiting_max: int) -> None:
        super().__init__(request_bytes_max)
        self.last_group = 0
        self.client: ConnectedClient | None = None
        self.live: LiveSession | None = None
        self._server = server
        self._waiting_max = waiting_max
        self._waiting = 0
        self._finishing = False
        self._sessionless: asyncio.TimerHandle | None = None
        self._head: bytes | None = b""
        """Bytes received before the first four were complete; None afterwards."""

    @property
    def address(self) -> str:
        return self.peer_name.rpartition(":")[0]

    # FrameReceiver

    def keep(self, size: int) -> None:
        self._waiting += size
        if self._waiting > self._waiting_max:
            self.hold(WAITING)

    def let_go(self, size: int) -> None:
        self._waiting -= size
        if self._waiting <= self._waiting_max // 2:
            self.release(WAITING)

    @property
    def waiting(self) -> int:
        """Bytes of answers and events that wait for the disk."""
        return self._waiting

    @property
    def session_id(self) -> int:
        return 0 if self.client is None else self.client.session_id

    def finish(self, frame: bytes, group: int) -> None:
        """Send a frame behind all earlier ones when ``group`` is durable, then close. Nothing is executed any more."""
        self._finishing = True
        self._server.emit(_LastFrame(self), frame, group)

    # Connection

    def opened(self) -> None:
        if not self._server.admits(self.certificate):
            log.warning(
                "client refused peer=%s: its certificate has none of tls_client_names",
                self.peer_name,
            )
            self.abort(PeerError("not among tls_client_names"))
            return
        self.limit_reads()
        self._sessionless = self._loop.call_later(SESSIONLESS_S, self._abort_without_session)

    def _abort_without_session(self) -> None:
        """End a connection that only occupies a place, so that others are served."""
        if self.client is None:
            self.abort(PeerError(f"no session within {SESSIONLESS_S:g} s"))

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            data = self._head + data
            if len(data) < WORD_BYTES:
                self._head = data
                return
            self._head = None
            if (report := self._server.report(data[:WORD_BYTES])) is not None:
                self.send(report)
                self.close()
                return
        super().data_received(data)

    def received(self, buf: bytes, pos: int, end: int) -> int:
        if self.live is not None:
            self.live.seen = self._loop.time()
        while end - pos >= LENGTH_BYTES and not self.closing:
            size = int.from_bytes(buf[pos : pos + LENGTH_BYTES], "big")
            behind = pos + LENGTH_BYTES + size
            if behind > end:
                break
            if size > self.frame_max:
                raise FrameLimitError(f"request of {size} bytes is above {self.frame_max}")
            if not self._finishing:
                self._request(buf[pos + LENGTH_BYTES : behind])
            pos = behind
        return pos

    def _request(self, frame: bytes) -> None:
        """Execute one request. Raises PeerError, which closes the connection, when it cannot be answered."""
        server, client = self._server, self.client
        try:
            if client is None:
                server.connect(self, decode_connect(frame))
                return
            xid, request = decode_request(frame)
        except RequestError as error:
            server.requests.refuse(self, error.xid, ErrorCode.MARSHALLING_ERROR)
        except UnknownRequestError as error:
            server.requests.refuse(self, error.xid, ErrorCode.UNIMPLEMENTED, last=True)
        except JuteError as error:
            raise PeerError(str(error)) from error
        else:
            server.requests.execute(client, xid, request)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.hold(UNREAD)

    def writable(self) -> None:
        self.release(UNREAD)

    def closed(self, error: Exception | None) -> None:
        if error is not None:
            log.debug("connection ended peer=%s error=%s", self.peer_name, error)
        if self._sessionless is not None:
            self._sessionless.cancel()
        self._server.disconnected(self)
